//! The SQL functions that make dates, times and intervals of numbers.

use super::kinds::{DATE, FLOAT8, INT4, INTERVAL, MOMENT, TEXT, TIME, TIMESTAMP};
use super::time_zone::Zone;
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function};
use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::value::interval::{HOUR, MINUTE, YEAR_MONTHS, out_of_range};
use crate::value::{Interval, Value};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("make_date", &[INT4, INT4, INT4], DATE, |a, _| {
        let days = date(&a)?;
        if !(calendar::MIN_DATE..calendar::END_DATE).contains(&days) {
            let (year, month, day) = (a.integer(0), a.integer(1), a.integer(2));
            return Err(overflow(format!(
                "date out of range: {year}-{month:02}-{day:02}"
            )));
        }
        Ok(Value::Date(days as i32))
    }),
    Function::new("make_time", &[INT4, INT4, FLOAT8], TIME, |a, _| {
        time(&a, 0).map(Value::Time)
    }),
    Function::new(
        "make_timestamp",
        &[INT4, INT4, INT4, INT4, INT4, FLOAT8],
        TIMESTAMP,
        |a, _| local(&a).map(Value::Timestamp),
    ),
    Function::new(
        "make_timestamptz",
        &[INT4, INT4, INT4, INT4, INT4, FLOAT8],
        MOMENT,
        |a, context| {
            let zone = context.session.style.time_zone;
            in_range(&a, zone.moment_of(local(&a)?)).map(Value::TimestampTz)
        },
    )
    .stable(),
    Function::new(
        "make_timestamptz",
        &[INT4, INT4, INT4, INT4, INT4, FLOAT8, TEXT],
        MOMENT,
        |a, _| {
            let moment = moment_in(local(&a)?, a.text(6))?;
            in_range(&a, moment).map(Value::TimestampTz)
        },
    )
    .stable(),
    Function::new(
        "make_interval",
        &[INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8],
        INTERVAL,
        make_interval,
    ),
];

fn overflow(message: String) -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// Days since 2000 of year, month and day, of which years before Christ are negative.
fn date(a: &Arguments<'_>) -> Result<i64> {
    let (shown, month, day) = (a.integer(0), a.integer(1), a.integer(2));
    let year = if shown < 0 { shown + 1 } else { shown };
    let valid = (1..=12).contains(&month)
        && shown != 0
        && (1..=i64::from(calendar::month_days(year, month as u32))).contains(&day);
    if !valid {
        return Err(overflow(format!(
            "date field value out of range: {shown}-{month:02}-{day:02}"
        )));
    }
    Ok(calendar::days(Civil {
        year,
        month: month as u32,
        day: day as u32,
    }))
}

/// Microseconds of hours, minutes and seconds that are arguments from `first` on.
fn time(a: &Arguments<'_>, first: usize) -> Result<i64> {
    let (hours, minutes, seconds) = (a.integer(first), a.integer(first + 1), a.double(first + 2));
    let fields =
        (0..=24).contains(&hours) && (0..60).contains(&minutes) && (0.0..=60.0).contains(&seconds);
    let time = fields.then(|| {
        let micros = (seconds * SECOND as f64).round_ties_even() as i64;
        hours * HOUR + minutes * MINUTE + micros
    });
    time.filter(|time| *time <= DAY).ok_or_else(|| {
        overflow(format!(
            "time field value out of range: {hours}:{minutes:02}:{}",
            shown_seconds(seconds)
        ))
    })
}

/// Seconds as messages show them, with two digits at least.
fn shown_seconds(seconds: f64) -> String {
    format!("{seconds:02}")
}

fn out_of_timestamps(a: &Arguments<'_>) -> Error {
    overflow(format!(
        "timestamp out of range: {}-{:02}-{:02} {}:{:02}:{}",
        a.integer(0),
        a.integer(1),
        a.integer(2),
        a.integer(3),
        a.integer(4),
        shown_seconds(a.double(5))
    ))
}

fn in_range(a: &Arguments<'_>, moment: i64) -> Result<i64> {
    calendar::in_range(moment).ok_or_else(|| out_of_timestamps(a))
}

/// The local time of year, month, day, hour, minute and second.
fn local(a: &Arguments<'_>) -> Result<i64> {
    let (days, time) = (date(a)?, time(a, 3)?);
    days.checked_mul(DAY)
        .and_then(|days| days.checked_add(time))
        .and_then(calendar::in_range)
        .ok_or_else(|| out_of_timestamps(a))
}

/// The moment of a local time in a zone that is an offset with its sign, an abbreviation
/// or a name.
fn moment_in(local: i64, name: &str) -> Result<i64> {
    let invalid = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(invalid(format!(
            "invalid input syntax for type numeric time zone: \"{name}\""
        ))
        .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    match crate::value::parse_offset(name) {
        Ok(east) => return Ok(local.saturating_sub(east * SECOND)),
        Err(crate::value::OffsetFault::TooLarge) => {
            return Err(invalid(format!(
                "numeric time zone \"{name}\" out of range"
            )));
        }
        Err(crate::value::OffsetFault::NotOne) => {}
    }
    let lower = name.to_ascii_lowercase();
    let zone = Zone::named(&lower)
        .ok_or_else(|| invalid(format!("time zone \"{name}\" not recognized")))?;
    zone.moment(local)
}

fn make_interval(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let seconds = a.double(6) * SECOND as f64;
    let micros = seconds.round_ties_even();
    if !micros.is_finite() || micros.abs() >= i64::MAX as f64 {
        return Err(out_of_range());
    }
    let months = a.integer(0) * i64::from(YEAR_MONTHS) + a.integer(1);
    let days = a.integer(2) * 7 + a.integer(3);
    let narrow = |number: i64| i32::try_from(number).map_err(|_| out_of_range());
    let clock = a.integer(4) * HOUR + a.integer(5) * MINUTE;
    Ok(Value::Interval(Interval {
        months: narrow(months)?,
        days: narrow(days)?,
        micros: clock.checked_add(micros as i64).ok_or_else(out_of_range)?,
    }))
}
