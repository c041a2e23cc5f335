//! Intervals: a span of time in months, days and microseconds.
//!
//! The three parts do not convert into each other, because a month has 28 to 31 days and
//! a day 23 to 25 hours; only comparisons, multiplications and `justify_*` take a month as
//! 30 days and a day as 24 hours. So `1 day` and `24 hours` are equal, print differently,
//! and move a moment differently where the clock changes.

mod iso;
mod parse;
mod range;
mod write;

pub(crate) use self::parse::Unit;
pub(super) use self::parse::parse;
pub(crate) use self::range::IntervalRange;
pub(super) use self::write::write;

use std::cmp::Ordering;

use super::calendar::{DAY, SECOND};
use crate::{Error, Result, SqlState};

/// Days of a month, where one is converted.
pub(crate) const MONTH_DAYS: i64 = 30;
/// Months of a year.
pub(crate) const YEAR_MONTHS: i32 = 12;
/// Microseconds of a minute.
pub(crate) const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub(crate) const HOUR: i64 = 3600 * SECOND;

/// How intervals are printed, and read where their signs are ambiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

impl IntervalStyle {
    /// The style of this name, as the setting `IntervalStyle` writes it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "postgres" => Self::Postgres,
            "postgres_verbose" => Self::PostgresVerbose,
            "sql_standard" => Self::SqlStandard,
            "iso_8601" => Self::Iso8601,
            _ => return None,
        })
    }
}

/// A span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Whole months.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// The error for an interval that its parts cannot hold.
pub(crate) fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// A double as a C cast converts it, if it fits.
fn to_i32(number: f64) -> Option<i32> {
    (number >= f64::from(i32::MIN) && number <= f64::from(i32::MAX)).then_some(number as i32)
}

fn to_i64(number: f64) -> Option<i64> {
    (number >= i64::MIN as f64 && number < -(i64::MIN as f64)).then_some(number as i64)
}

/// Rounds to a millionth, so that the error of a product of doubles does not show as a
/// microsecond.
fn round_to_micros(seconds: f64) -> f64 {
    (seconds * 1e6).round_ties_even() / 1e6
}

impl Interval {
    /// An interval of microseconds alone.
    #[must_use]
    pub const fn of_micros(micros: i64) -> Self {
        Self {
            months: 0,
            days: 0,
            micros,
        }
    }

    /// The length by which intervals compare, in microseconds.
    #[must_use]
    pub fn span(self) -> i128 {
        let days = i64::from(self.months) * MONTH_DAYS + i64::from(self.days);
        i128::from(days) * i128::from(DAY) + i128::from(self.micros)
    }

    /// An interval of this length: in days and microseconds, and in months only if there
    /// are more days than an interval holds. `None` if no interval is so long.
    #[must_use]
    pub fn of_span(span: i128) -> Option<Self> {
        let day = i128::from(DAY);
        let month = day * i128::from(MONTH_DAYS);
        let clamp = |number: i128| number.clamp(i128::from(i32::MIN), i128::from(i32::MAX));
        let months = if i32::try_from(span / day).is_ok() {
            0
        } else {
            clamp(span / month)
        };
        let rest = span - months * month;
        let days = clamp(rest / day);
        Some(Self {
            months: i32::try_from(months).ok()?,
            days: i32::try_from(days).ok()?,
            micros: i64::try_from(rest - days * day).ok()?,
        })
    }

    /// Compares the lengths.
    #[must_use]
    pub fn order(self, other: Self) -> Ordering {
        self.span().cmp(&other.span())
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self> {
        let sum = || {
            Some(Self {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    /// The difference.
    pub fn subtract(self, other: Self) -> Result<Self> {
        let difference = || {
            Some(Self {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                micros: self.micros.checked_sub(other.micros)?,
            })
        };
        difference().ok_or_else(out_of_range)
    }

    /// The interval with the opposite sign.
    pub fn negate(self) -> Result<Self> {
        Self::default().subtract(self)
    }

    /// The interval times a number. Fractions of months become days, and those of days
    /// hours.
    pub fn multiply(self, factor: f64) -> Result<Self> {
        self.scaled(|part| part * factor)
    }

    /// The interval divided by a number.
    pub fn divide(self, divisor: f64) -> Result<Self> {
        if divisor == 0.0 {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        self.scaled(|part| part / divisor)
    }

    fn scaled(self, scale: impl Fn(f64) -> f64) -> Result<Self> {
        let compute = || {
            let exact_months = scale(f64::from(self.months));
            let exact_days = scale(f64::from(self.days));
            let months = to_i32(exact_months)?;
            let mut days = to_i32(exact_days)?;
            let day_seconds = (DAY / SECOND) as f64;
            // The fraction of the months, in days, and of both, in seconds.
            let month_days =
                round_to_micros((exact_months - f64::from(months)) * MONTH_DAYS as f64);
            let fraction = exact_days - f64::from(days) + month_days - month_days.trunc();
            let mut seconds = round_to_micros(fraction * day_seconds);
            // The rounding may have made a whole day of it.
            if seconds.abs() >= day_seconds {
                let whole = to_i32(seconds / day_seconds)?;
                days = days.checked_add(whole)?;
                seconds -= f64::from(whole) * day_seconds;
            }
            let days = days.checked_add(to_i32(month_days)?)?;
            let micros = scale(self.micros as f64) + seconds * SECOND as f64;
            let micros = to_i64(micros.round_ties_even())?;
            Some(Self {
                months,
                days,
                micros,
            })
        };
        compute().ok_or_else(out_of_range)
    }

    /// Turns each 24 hours into a day, so that what remains has the days' sign.
    pub fn justify_hours(self) -> Result<Self> {
        let whole = (self.micros / DAY) as i32;
        let mut days = self.days.checked_add(whole).ok_or_else(out_of_range)?;
        let mut micros = self.micros % DAY;
        if days > 0 && micros < 0 {
            micros += DAY;
            days -= 1;
        } else if days < 0 && micros > 0 {
            micros -= DAY;
            days += 1;
        }
        Ok(Self {
            months: self.months,
            days,
            micros,
        })
    }

    /// Turns each 30 days into a month, so that what remains has the months' sign.
    pub fn justify_days(self) -> Result<Self> {
        let month = MONTH_DAYS as i32;
        let mut months = self
            .months
            .checked_add(self.days / month)
            .ok_or_else(out_of_range)?;
        let mut days = self.days % month;
        if months > 0 && days < 0 {
            days += month;
            months -= 1;
        } else if months < 0 && days > 0 {
            days -= month;
            months += 1;
        }
        Ok(Self {
            months,
            days,
            micros: self.micros,
        })
    }

    /// Turns days into months and hours into days, with one sign for all parts.
    pub fn justify(self) -> Result<Self> {
        let Self {
            mut months,
            mut days,
            mut micros,
        } = self;
        let month = MONTH_DAYS as i32;
        let carry_days = |months: &mut i32, days: &mut i32| -> Result<()> {
            *months = months.checked_add(*days / month).ok_or_else(out_of_range)?;
            *days %= month;
            Ok(())
        };
        // Days move first where they have the sign of the microseconds, so that the sum
        // below does not overflow.
        if days > 0 && micros > 0 || days < 0 && micros < 0 {
            carry_days(&mut months, &mut days)?;
        }
        let whole = (micros / DAY) as i32;
        micros %= DAY;
        days = days.checked_add(whole).ok_or_else(out_of_range)?;
        carry_days(&mut months, &mut days)?;
        if months > 0 && (days < 0 || days == 0 && micros < 0) {
            days += month;
            months -= 1;
        } else if months < 0 && (days > 0 || days == 0 && micros > 0) {
            days -= month;
            months += 1;
        }
        if days > 0 && micros < 0 {
            micros += DAY;
            days -= 1;
        } else if days < 0 && micros > 0 {
            micros -= DAY;
            days += 1;
        }
        Ok(Self {
            months,
            days,
            micros,
        })
    }

    /// The parts as they are shown.
    pub(crate) const fn fields(self) -> Fields {
        let seconds = self.micros / SECOND;
        Fields {
            years: self.months / YEAR_MONTHS,
            months: self.months % YEAR_MONTHS,
            days: self.days,
            hours: seconds / 3600,
            minutes: (seconds / 60 % 60) as i32,
            seconds: (seconds % 60) as i32,
            micros: (self.micros % SECOND) as i32,
        }
    }
}

/// An interval in the units in which it is shown; each has its sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) years: i32,
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) hours: i64,
    pub(crate) minutes: i32,
    pub(crate) seconds: i32,
    pub(crate) micros: i32,
}
