//! Parser of intervals: `1 year 2 mons -3 days 04:05:06`, `1-2`, `@ 3 hours ago`, and ISO
//! 8601's `P1Y2M3DT4H5M6S`.
//!
//! The fields of a text are read from the right, so that a unit is known before its
//! number is.

use super::{HOUR, Interval, IntervalRange, IntervalStyle, MINUTE, MONTH_DAYS, YEAR_MONTHS, iso};
use crate::value::Style;
use crate::value::calendar::{DAY, SECOND};
use crate::value::date_time::{Fault, Field, Shape, clock, cut_word, fraction, split};

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    /// No interval has quarters; EXTRACT does.
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
}

/// What a word of an interval means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Unit(Unit),
    Ago,
}

/// The words of intervals, cut to ten letters and sorted.
const WORDS: &[(&str, Word)] = &[
    ("ago", Word::Ago),
    ("c", Word::Unit(Unit::Century)),
    ("cent", Word::Unit(Unit::Century)),
    ("centuries", Word::Unit(Unit::Century)),
    ("century", Word::Unit(Unit::Century)),
    ("d", Word::Unit(Unit::Day)),
    ("day", Word::Unit(Unit::Day)),
    ("days", Word::Unit(Unit::Day)),
    ("dec", Word::Unit(Unit::Decade)),
    ("decade", Word::Unit(Unit::Decade)),
    ("decades", Word::Unit(Unit::Decade)),
    ("decs", Word::Unit(Unit::Decade)),
    ("h", Word::Unit(Unit::Hour)),
    ("hour", Word::Unit(Unit::Hour)),
    ("hours", Word::Unit(Unit::Hour)),
    ("hr", Word::Unit(Unit::Hour)),
    ("hrs", Word::Unit(Unit::Hour)),
    ("m", Word::Unit(Unit::Minute)),
    ("microsecon", Word::Unit(Unit::Microsecond)),
    ("mil", Word::Unit(Unit::Millennium)),
    ("millennia", Word::Unit(Unit::Millennium)),
    ("millennium", Word::Unit(Unit::Millennium)),
    ("millisecon", Word::Unit(Unit::Millisecond)),
    ("mils", Word::Unit(Unit::Millennium)),
    ("min", Word::Unit(Unit::Minute)),
    ("mins", Word::Unit(Unit::Minute)),
    ("minute", Word::Unit(Unit::Minute)),
    ("minutes", Word::Unit(Unit::Minute)),
    ("mon", Word::Unit(Unit::Month)),
    ("mons", Word::Unit(Unit::Month)),
    ("month", Word::Unit(Unit::Month)),
    ("months", Word::Unit(Unit::Month)),
    ("ms", Word::Unit(Unit::Millisecond)),
    ("msec", Word::Unit(Unit::Millisecond)),
    ("mseconds", Word::Unit(Unit::Millisecond)),
    ("msecs", Word::Unit(Unit::Millisecond)),
    ("qtr", Word::Unit(Unit::Quarter)),
    ("quarter", Word::Unit(Unit::Quarter)),
    ("s", Word::Unit(Unit::Second)),
    ("sec", Word::Unit(Unit::Second)),
    ("second", Word::Unit(Unit::Second)),
    ("seconds", Word::Unit(Unit::Second)),
    ("secs", Word::Unit(Unit::Second)),
    ("us", Word::Unit(Unit::Microsecond)),
    ("usec", Word::Unit(Unit::Microsecond)),
    ("useconds", Word::Unit(Unit::Microsecond)),
    ("usecs", Word::Unit(Unit::Microsecond)),
    ("w", Word::Unit(Unit::Week)),
    ("week", Word::Unit(Unit::Week)),
    ("weeks", Word::Unit(Unit::Week)),
    ("y", Word::Unit(Unit::Year)),
    ("year", Word::Unit(Unit::Year)),
    ("years", Word::Unit(Unit::Year)),
    ("yr", Word::Unit(Unit::Year)),
    ("yrs", Word::Unit(Unit::Year)),
];

fn word(text: &str) -> Option<Word> {
    let text = cut_word(text);
    let found = WORDS
        .binary_search_by(|(known, _)| (*known).cmp(text))
        .ok()?;
    Some(WORDS[found].1)
}

impl Unit {
    /// The unit of this name, in lower case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match word(name)? {
            Word::Unit(unit) => Some(unit),
            Word::Ago => None,
        }
    }

    /// The set of units that has this one alone.
    const fn mask(self) -> u32 {
        1 << self as u32
    }
}

/// Microseconds, milliseconds and seconds: those that a second with a fraction names.
const ALL_SECONDS: u32 = Unit::Second.mask() | Unit::Millisecond.mask() | Unit::Microsecond.mask();
/// What a time with colons names.
const CLOCK: u32 = ALL_SECONDS | Unit::Minute.mask() | Unit::Hour.mask();

/// An interval that is being read: years are apart from months, so that either may be as
/// large as a number can.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    pub(super) years: i32,
    pub(super) months: i32,
    pub(super) days: i32,
    pub(super) micros: i64,
}

/// Whether a part that is added to fits; an overflow of a field.
fn fits<T>(sum: Option<T>, part: &mut T) -> Result<(), Fault> {
    *part = sum.ok_or(Fault::Field)?;
    Ok(())
}

fn narrow(number: i64) -> Result<i32, Fault> {
    i32::try_from(number).map_err(|_| Fault::Field)
}

impl Parts {
    fn add_fraction(&mut self, fraction: f64, unit: i64) -> Result<(), Fault> {
        if fraction == 0.0 {
            return Ok(());
        }
        let scaled = fraction * unit as f64;
        let mut micros = scaled as i64;
        let rest = scaled - micros as f64;
        if rest > 0.5 {
            micros += 1;
        } else if rest < -0.5 {
            micros -= 1;
        }
        fits(self.micros.checked_add(micros), &mut self.micros)
    }

    fn add_fractional_days(&mut self, fraction: f64, days: i64) -> Result<(), Fault> {
        if fraction == 0.0 {
            return Ok(());
        }
        let scaled = fraction * days as f64;
        let whole = scaled as i32;
        fits(self.days.checked_add(whole), &mut self.days)?;
        self.add_fraction(scaled - f64::from(whole), DAY)
    }

    fn add_time(&mut self, number: i64, fraction: f64, unit: i64) -> Result<(), Fault> {
        let product = number.checked_mul(unit);
        let sum = product.and_then(|product| self.micros.checked_add(product));
        fits(sum, &mut self.micros)?;
        self.add_fraction(fraction, unit)
    }

    fn add_days(&mut self, number: i64, scale: i32) -> Result<(), Fault> {
        let product = narrow(number)?.checked_mul(scale);
        let sum = product.and_then(|days| self.days.checked_add(days));
        fits(sum, &mut self.days)
    }

    fn add_years(&mut self, number: i64, fraction: f64, scale: i32) -> Result<(), Fault> {
        let product = narrow(number)?.checked_mul(scale);
        let sum = product.and_then(|years| self.years.checked_add(years));
        fits(sum, &mut self.years)?;
        let months = fraction * f64::from(scale) * f64::from(YEAR_MONTHS);
        let months = months.round_ties_even() as i32;
        fits(self.months.checked_add(months), &mut self.months)
    }

    /// Adds a number of units.
    pub(super) fn add(&mut self, unit: Unit, number: i64, fraction: f64) -> Result<(), Fault> {
        match unit {
            Unit::Microsecond => self.add_time(number, fraction, 1),
            Unit::Millisecond => self.add_time(number, fraction, 1000),
            Unit::Second => self.add_time(number, fraction, SECOND),
            Unit::Minute => self.add_time(number, fraction, MINUTE),
            Unit::Hour => self.add_time(number, fraction, HOUR),
            Unit::Day => {
                self.add_days(number, 1)?;
                self.add_fraction(fraction, DAY)
            }
            Unit::Week => {
                self.add_days(number, 7)?;
                self.add_fractional_days(fraction, 7)
            }
            Unit::Month => {
                let sum = self.months.checked_add(narrow(number)?);
                fits(sum, &mut self.months)?;
                self.add_fractional_days(fraction, MONTH_DAYS)
            }
            Unit::Quarter => Err(Fault::Format),
            Unit::Year => self.add_years(number, fraction, 1),
            Unit::Decade => self.add_years(number, fraction, 10),
            Unit::Century => self.add_years(number, fraction, 100),
            Unit::Millennium => self.add_years(number, fraction, 1000),
        }
    }

    fn negate(self) -> Option<Self> {
        Some(Self {
            years: self.years.checked_neg()?,
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            micros: self.micros.checked_neg()?,
        })
    }

    /// The interval, if it has so many months.
    fn interval(self) -> Option<Interval> {
        let months = i64::from(self.years) * i64::from(YEAR_MONTHS) + i64::from(self.months);
        Some(Interval {
            months: i32::try_from(months).ok()?,
            days: self.days,
            micros: self.micros,
        })
    }
}

/// Parses an interval whose type has this modifier.
pub(in crate::value) fn parse(text: &str, modifier: i32, style: &Style) -> crate::Result<Interval> {
    let range = IntervalRange::of_modifier(modifier);
    let mut parts = split(text).and_then(|fields| decode(&fields, range, style.interval_style));
    if matches!(parts, Err(Fault::Format)) {
        parts = iso::parse(text);
    }
    let parts = parts.map_err(|fault| {
        let is_field = matches!(fault, Fault::Field);
        let fault = if is_field { Fault::Interval } else { fault };
        fault.error("interval", text)
    })?;
    let interval = parts.interval().ok_or_else(super::out_of_range)?;
    Ok(range.adjust(interval))
}

/// The whole part of a number with its sign, and what stands behind it.
fn whole(text: &str) -> Result<(i64, &str), Fault> {
    let signed = usize::from(text.starts_with(['+', '-']));
    let digits = text[signed..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let (number, rest) = text.split_at(signed + digits);
    if digits == 0 {
        return Ok((0, rest));
    }
    Ok((number.parse().map_err(|_| Fault::Field)?, rest))
}

/// Months of `years-months`: what stands behind the hyphen.
fn months_behind(text: &str) -> Result<i64, Fault> {
    let (months, rest) = whole(text)?;
    if !(0..i64::from(YEAR_MONTHS)).contains(&months) {
        return Err(Fault::Field);
    }
    match rest {
        "" => Ok(months),
        _ => Err(Fault::Format),
    }
}

/// The unit of the next number to the left.
#[derive(Clone, Copy)]
enum Pending {
    /// The number is the last one, and has the unit of the type's least field.
    Last,
    Is(Unit),
    /// The number would need a unit.
    Missing,
}

fn decode(fields: &[Field], range: IntervalRange, style: IntervalStyle) -> Result<Parts, Fault> {
    let is_signed = |field: &Field| matches!(field.first(), b'-' | b'+');
    // In SQL's style a sign in front of everything is everything's, unless there are more.
    let all_negative = style == IntervalStyle::SqlStandard
        && fields.first().is_some_and(|field| field.first() == b'-')
        && !fields[1..].iter().any(is_signed);
    let mut parts = Parts::default();
    let mut known = 0;
    let mut unit = Pending::Last;
    let mut ago = false;
    for field in fields.iter().rev() {
        let text = field.text.as_str();
        let mask = match field.shape {
            Shape::Word | Shape::Signed => {
                match word(text).ok_or(Fault::Format)? {
                    Word::Unit(named) => unit = Pending::Is(named),
                    Word::Ago => {
                        ago = true;
                        unit = Pending::Missing;
                    }
                }
                0
            }
            Shape::Time => {
                parts.micros = time(text, range)?;
                if all_negative {
                    parts.micros = -parts.micros.abs();
                }
                unit = Pending::Is(Unit::Day);
                CLOCK
            }
            Shape::Zone if text.contains(':') && time(&text[1..], range).is_ok() => {
                let time = time(&text[1..], range)?;
                parts.micros = if field.first() == b'-' { -time } else { time };
                if all_negative {
                    parts.micros = -parts.micros.abs();
                }
                unit = Pending::Is(Unit::Day);
                CLOCK
            }
            Shape::Zone | Shape::Date | Shape::Number => {
                let named = match unit {
                    Pending::Last => range.last_unit(),
                    Pending::Is(unit) => unit,
                    Pending::Missing => return Err(Fault::Format),
                };
                let (named, mask) = number(text, named, all_negative, &mut parts)?;
                // A number in front of hours without a unit counts days.
                unit = Pending::Is(if named == Unit::Hour {
                    Unit::Day
                } else {
                    named
                });
                mask
            }
        };
        if mask & known != 0 {
            return Err(Fault::Format);
        }
        known |= mask;
    }
    if known == 0 {
        return Err(Fault::Format);
    }
    if ago {
        return parts.negate().ok_or(Fault::Field);
    }
    Ok(parts)
}

/// Microseconds of a time with colons.
fn time(text: &str, range: IntervalRange) -> Result<i64, Fault> {
    let (hours, minutes, seconds, micros) = clock(text, range.is_minute_to_second())?;
    let mut parts = Parts::default();
    parts.add_time(hours, 0.0, HOUR)?;
    parts.add_time(minutes * 60 + seconds, 0.0, SECOND)?;
    parts.add_time(micros, 0.0, 1)?;
    Ok(parts.micros)
}

/// A number of units, or `years-months`; returns its unit, and the units it names.
fn number(
    text: &str,
    unit: Unit,
    all_negative: bool,
    parts: &mut Parts,
) -> Result<(Unit, u32), Fault> {
    let (mut value, rest) = whole(text)?;
    let negative = text.starts_with('-');
    let (mut unit, mut part) = (unit, 0.0);
    if let Some(months) = rest.strip_prefix('-') {
        let months = months_behind(months)?;
        unit = Unit::Month;
        value = value
            .checked_mul(i64::from(YEAR_MONTHS))
            .and_then(|value| value.checked_add(if negative { -months } else { months }))
            .ok_or(Fault::Field)?;
    } else if rest.starts_with('.') {
        part = fraction(rest)?;
        if negative {
            part = -part;
        }
    } else if !rest.is_empty() {
        return Err(Fault::Format);
    }
    if all_negative {
        value = value.checked_abs().ok_or(Fault::Field)?;
        (value, part) = (-value, -part.abs());
    }
    parts.add(unit, value, part)?;
    let mask = if unit == Unit::Second && part != 0.0 {
        ALL_SECONDS
    } else {
        unit.mask()
    };
    Ok((unit, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted() {
        assert!(WORDS.is_sorted_by(|left, right| left.0 < right.0));
        assert_eq!(Unit::named("microseconds"), Some(Unit::Microsecond));
        assert_eq!(Unit::named("ago"), None);
    }
}
