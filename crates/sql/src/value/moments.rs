//! Arithmetic of moments and intervals.
//!
//! An interval is added to a moment part by part: months keep the day of the month (or take
//! the month's last day), days keep the time of day, and microseconds are an exact time. Of
//! a moment with a time zone, months and days are added to its local time.

use super::calendar::{self, Civil, DAY};
use super::interval::{Interval, YEAR_MONTHS};
use super::{Style, TimeZone};
use crate::{Error, Result, SqlState};

/// The error for a moment that its type cannot hold.
pub(crate) fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

/// Whether a timestamp is infinite.
pub(crate) const fn is_infinite(time: i64) -> bool {
    matches!(time, i64::MIN | i64::MAX)
}

/// Adds whole months to a day.
fn add_months(days: i64, months: i64) -> i64 {
    let Civil { year, month, day } = calendar::civil(days);
    let number = i64::from(month) - 1 + months;
    let year = year + number.div_euclid(i64::from(YEAR_MONTHS));
    let month = number.rem_euclid(i64::from(YEAR_MONTHS)) as u32 + 1;
    calendar::days(Civil {
        year,
        month,
        day: day.min(calendar::month_days(year, month)),
    })
}

/// Adds the months and days of an interval to a local time.
fn add_calendar(local: i64, months: i64, days: i64) -> Option<i64> {
    let day = local.div_euclid(DAY);
    let day = if months == 0 {
        day
    } else {
        add_months(day, months)
    };
    day.checked_add(days)?
        .checked_mul(DAY)?
        .checked_add(local.rem_euclid(DAY))
}

/// A timestamp without time zone, an interval later.
pub(crate) fn add(time: i64, interval: Interval) -> Result<i64> {
    if is_infinite(time) {
        return Ok(time);
    }
    add_calendar(time, interval.months.into(), interval.days.into())
        .and_then(|local| local.checked_add(interval.micros))
        .and_then(calendar::in_range)
        .ok_or_else(out_of_range)
}

/// A timestamp with time zone, an interval later.
pub(crate) fn add_in_zone(moment: i64, interval: Interval, style: &Style) -> Result<i64> {
    if is_infinite(moment) {
        return Ok(moment);
    }
    let step = |moment: i64, months: i32, days: i32| {
        if months == 0 && days == 0 {
            return Some(moment);
        }
        let local = add_calendar(style.local(moment), months.into(), days.into())?;
        calendar::in_range(style.time_zone.moment_of(calendar::in_range(local)?))
    };
    step(moment, interval.months, 0)
        .and_then(|moment| step(moment, 0, interval.days))
        .and_then(|moment| moment.checked_add(interval.micros))
        .and_then(calendar::in_range)
        .ok_or_else(out_of_range)
}

/// The time between two moments, in days and less.
pub(crate) fn between(later: i64, earlier: i64) -> Result<Interval> {
    if is_infinite(later) || is_infinite(earlier) {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite timestamps",
        ));
    }
    let micros = later
        .checked_sub(earlier)
        .ok_or_else(super::interval::out_of_range)?;
    Interval::of_micros(micros).justify_hours()
}

/// The symbolic difference of two local times, in years, months, days and less.
pub(crate) fn age(one: i64, other: i64) -> Result<Interval> {
    if is_infinite(one) || is_infinite(other) {
        return Err(out_of_range());
    }
    let negative = one < other;
    let (later, earlier) = if negative { (other, one) } else { (one, other) };
    let (to, from) = (
        calendar::civil(later.div_euclid(DAY)),
        calendar::civil(earlier.div_euclid(DAY)),
    );
    let mut months = (to.year - from.year) * i64::from(YEAR_MONTHS) + i64::from(to.month)
        - i64::from(from.month);
    let mut days = i64::from(to.day) - i64::from(from.day);
    let mut micros = later.rem_euclid(DAY) - earlier.rem_euclid(DAY);
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    // Days are borrowed from the month of the earlier time.
    let month_days = i64::from(calendar::month_days(from.year, from.month));
    while days < 0 {
        days += month_days;
        months -= 1;
    }
    let age = Interval {
        months: i32::try_from(months).map_err(|_| super::interval::out_of_range())?,
        days: days as i32,
        micros,
    };
    if negative { age.negate() } else { Ok(age) }
}

/// The local time in a zone, of a moment that may be infinite.
pub(crate) fn to_local(zone: TimeZone, moment: i64) -> i64 {
    if is_infinite(moment) {
        return moment;
    }
    moment.saturating_add(i64::from(zone.offset_at(moment)) * calendar::SECOND)
}

/// The beginning of the bin of width `stride`, counted from `origin`, in which a time lies.
pub(crate) fn bin(stride: Interval, time: i64, origin: i64) -> Result<i64> {
    if is_infinite(time) {
        return Ok(time);
    }
    let overflow = |message: &str| Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
    if is_infinite(origin) {
        return Err(overflow("origin out of range"));
    }
    if stride.months != 0 {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let too_long = super::interval::out_of_range;
    let width = i64::from(stride.days)
        .checked_mul(DAY)
        .and_then(|days| days.checked_add(stride.micros))
        .ok_or_else(too_long)?;
    if width <= 0 {
        return Err(overflow("stride must be greater than zero"));
    }
    let difference = time.checked_sub(origin).ok_or_else(too_long)?;
    let start = difference.div_euclid(width).checked_mul(width);
    start
        .and_then(|start| origin.checked_add(start))
        .and_then(calendar::in_range)
        .ok_or_else(out_of_range)
}
