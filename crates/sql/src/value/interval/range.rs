//! Type modifiers of `interval`: which fields a value keeps, and with how many digits of
//! a second's fraction.
//!
//! ```text
//!   interval day to second(2)      fields DAY … SECOND in the upper 16 bits,
//!                                  2 (or 0xFFFF for all digits) in the lower ones
//! ```

use std::fmt;

use coeval_sql_syntax::tree::IntervalFields;

use super::{HOUR, Interval, MINUTE, YEAR_MONTHS};
use crate::value::calendar::SECOND;

const MONTH: u32 = 1 << 1;
const YEAR: u32 = 1 << 2;
const DAY: u32 = 1 << 3;
const HOURS: u32 = 1 << 10;
const MINUTES: u32 = 1 << 11;
const SECONDS: u32 = 1 << 12;
const ALL: u32 = 0x7FFF;
const ALL_DIGITS: u32 = 0xFFFF;

/// The fields that an interval may have, from the greatest to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntervalRange {
    fields: u32,
    digits: u32,
}

impl IntervalRange {
    /// Every field, with all digits.
    pub(crate) const FULL: Self = Self {
        fields: ALL,
        digits: ALL_DIGITS,
    };

    /// The range of a type modifier, which is -1 for none.
    pub(crate) const fn of_modifier(modifier: i32) -> Self {
        if modifier < 0 {
            return Self::FULL;
        }
        let modifier = modifier as u32;
        Self {
            fields: modifier >> 16 & ALL,
            digits: modifier & ALL_DIGITS,
        }
    }

    /// The type modifier of fields and digits as SQL writes them.
    pub(crate) const fn modifier(fields: IntervalFields, digits: Option<u32>) -> i32 {
        use IntervalFields as F;
        let mask = match fields {
            F::All => ALL,
            F::Year => YEAR,
            F::Month => MONTH,
            F::Day => DAY,
            F::Hour => HOURS,
            F::Minute => MINUTES,
            F::Second => SECONDS,
            F::YearToMonth => YEAR | MONTH,
            F::DayToHour => DAY | HOURS,
            F::DayToMinute => DAY | HOURS | MINUTES,
            F::DayToSecond => DAY | HOURS | MINUTES | SECONDS,
            F::HourToMinute => HOURS | MINUTES,
            F::HourToSecond => HOURS | MINUTES | SECONDS,
            F::MinuteToSecond => MINUTES | SECONDS,
        };
        let digits = match digits {
            Some(digits) => digits,
            None if mask == ALL => return -1,
            None => ALL_DIGITS,
        };
        (mask << 16 | digits) as i32
    }

    /// Digits of a second's fraction, if the modifier limits them.
    pub(crate) const fn digits(self) -> Option<u32> {
        if self.digits == ALL_DIGITS {
            None
        } else {
            Some(self.digits)
        }
    }

    const fn least(self) -> u32 {
        self.fields & self.fields.wrapping_neg()
    }

    /// Whether two fields `12:34` are minutes and seconds rather than hours and minutes.
    pub(super) const fn is_minute_to_second(self) -> bool {
        self.fields == MINUTES | SECONDS
    }

    /// The unit of a number without one at the end of an interval.
    pub(super) const fn last_unit(self) -> super::parse::Unit {
        use super::parse::Unit;
        if self.fields == ALL {
            return Unit::Second;
        }
        if self.fields & SECONDS != 0 {
            Unit::Second
        } else if self.fields & MINUTES != 0 {
            Unit::Minute
        } else if self.fields & HOURS != 0 {
            Unit::Hour
        } else if self.fields & DAY != 0 {
            Unit::Day
        } else if self.fields & MONTH != 0 {
            Unit::Month
        } else {
            Unit::Year
        }
    }

    /// Removes what is less than the least field, and rounds to the digits.
    pub(crate) fn adjust(self, interval: Interval) -> Interval {
        let Interval {
            mut months,
            mut days,
            mut micros,
        } = interval;
        if self.fields != ALL {
            match self.least() {
                MONTH if self.fields & DAY == 0 => {
                    days = 0;
                    micros = 0;
                }
                YEAR => {
                    months = months / YEAR_MONTHS * YEAR_MONTHS;
                    days = 0;
                    micros = 0;
                }
                DAY if self.fields == DAY => micros = 0,
                _ if self.fields & SECONDS != 0 => {}
                _ if self.fields & MINUTES != 0 => micros = micros / MINUTE * MINUTE,
                _ if self.fields & HOURS != 0 => micros = micros / HOUR * HOUR,
                _ => {}
            }
        }
        if let Some(digits) = self.digits()
            && digits < 6
        {
            let unit = SECOND / 10_i64.pow(digits);
            let half = if micros < 0 { -unit / 2 } else { unit / 2 };
            micros = micros.saturating_add(half) / unit * unit;
        }
        Interval {
            months,
            days,
            micros,
        }
    }
}

/// What stands behind the type's name, with a blank before fields.
impl fmt::Display for IntervalRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(u32, &str); 6] = [
            (YEAR, "year"),
            (MONTH, "month"),
            (DAY, "day"),
            (HOURS, "hour"),
            (MINUTES, "minute"),
            (SECONDS, "second"),
        ];
        if self.fields != ALL {
            let mut named = NAMES.iter().filter(|(field, _)| self.fields & field != 0);
            if let Some((_, first)) = named.next() {
                write!(formatter, " {first}")?;
            }
            if let Some((_, last)) = named.next_back() {
                write!(formatter, " to {last}")?;
            }
        }
        match self.digits() {
            Some(digits) => write!(formatter, "({digits})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: IntervalFields, digits: Option<u32>) -> String {
        IntervalRange::of_modifier(IntervalRange::modifier(fields, digits)).to_string()
    }

    #[test]
    fn modifiers_print_as_they_are_written() {
        assert_eq!(shown(IntervalFields::All, None), "");
        assert_eq!(shown(IntervalFields::All, Some(3)), "(3)");
        assert_eq!(shown(IntervalFields::Year, None), " year");
        assert_eq!(shown(IntervalFields::YearToMonth, None), " year to month");
        assert_eq!(
            shown(IntervalFields::DayToSecond, Some(2)),
            " day to second(2)"
        );
        assert_eq!(
            IntervalRange::modifier(IntervalFields::DayToSecond, Some(2)),
            470_286_338
        );
    }
}
