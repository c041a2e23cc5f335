//! Built-in SQL functions on dates, times and intervals: clocks, ages, comparisons of
//! periods.

use super::kinds::{BOOL, DATE, FLOAT8, INT4, INTERVAL, MOMENT, TEXT, TIME, TIMESTAMP, TIMETZ};
use crate::expression::EvaluationContext;
use crate::expression::function::{ArgumentKind, Arguments, Function, Place};
use crate::value::calendar::{self, DAY, SECOND};
use crate::value::{ColumnType, DataType, Fit, Style, Value, moments};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("now", &[], MOMENT, now).stable(),
    Function::new("transaction_timestamp", &[], MOMENT, now).stable(),
    Function::new("current_timestamp", &[], MOMENT, now).stable(),
    Function::new("current_timestamp", &[INT4], MOMENT, |a, context| {
        rounded(now(a, context)?, DataType::TimestampTz, a.integer(0))
    })
    .stable(),
    Function::new("statement_timestamp", &[], MOMENT, |_, context| {
        Ok(Value::TimestampTz(context.session.statement_start))
    })
    .stable(),
    Function::new("clock_timestamp", &[], MOMENT, |_, _| {
        Ok(Value::TimestampTz(EvaluationContext::clock()))
    })
    .volatile(Place::Anywhere),
    Function::new("timeofday", &[], TEXT, |_, context| {
        time_of_day(EvaluationContext::clock(), &context.session.style)
    })
    .volatile(Place::Anywhere),
    Function::new("localtimestamp", &[], TIMESTAMP, local_timestamp).stable(),
    Function::new("localtimestamp", &[INT4], TIMESTAMP, |a, context| {
        rounded(
            local_timestamp(a, context)?,
            DataType::Timestamp,
            a.integer(0),
        )
    })
    .stable(),
    Function::new("current_date", &[], DATE, |_, context| {
        Ok(Value::Date(today(&context.session.style) as i32))
    })
    .stable(),
    Function::new("localtime", &[], TIME, local_time).stable(),
    Function::new("localtime", &[INT4], TIME, |a, context| {
        rounded(local_time(a, context)?, DataType::Time, a.integer(0))
    })
    .stable(),
    Function::new("current_time", &[], TIMETZ, current_time).stable(),
    Function::new("current_time", &[INT4], TIMETZ, |a, context| {
        rounded(current_time(a, context)?, DataType::TimeTz, a.integer(0))
    })
    .stable(),
    Function::new("age", &[TIMESTAMP, TIMESTAMP], INTERVAL, |a, _| {
        moments::age(a.moment(0), a.moment(1)).map(Value::Interval)
    }),
    Function::new("age", &[MOMENT, MOMENT], INTERVAL, |a, context| {
        let style = &context.session.style;
        moments::age(style.local(a.moment(0)), style.local(a.moment(1))).map(Value::Interval)
    })
    .stable(),
    Function::new("age", &[TIMESTAMP], INTERVAL, |a, context| {
        let midnight = today(&context.session.style) * DAY;
        moments::age(midnight, a.moment(0)).map(Value::Interval)
    })
    .stable(),
    Function::new("age", &[MOMENT], INTERVAL, |a, context| {
        let style = &context.session.style;
        moments::age(today(style) * DAY, style.local(a.moment(0))).map(Value::Interval)
    })
    .stable(),
    Function::new("isfinite", &[DATE], BOOL, is_finite),
    Function::new("isfinite", &[TIMESTAMP], BOOL, is_finite),
    Function::new("isfinite", &[MOMENT], BOOL, is_finite),
    Function::new("isfinite", &[INTERVAL], BOOL, |_, _| Ok(Value::Bool(true))),
    Function::new("justify_hours", &[INTERVAL], INTERVAL, |a, _| {
        a.interval(0).justify_hours().map(Value::Interval)
    }),
    Function::new("justify_days", &[INTERVAL], INTERVAL, |a, _| {
        a.interval(0).justify_days().map(Value::Interval)
    }),
    Function::new("justify_interval", &[INTERVAL], INTERVAL, |a, _| {
        a.interval(0).justify().map(Value::Interval)
    }),
    Function::new(
        "date_bin",
        &[INTERVAL, TIMESTAMP, TIMESTAMP],
        TIMESTAMP,
        |a, _| moments::bin(a.interval(0), a.moment(1), a.moment(2)).map(Value::Timestamp),
    ),
    Function::new("date_bin", &[INTERVAL, MOMENT, MOMENT], MOMENT, |a, _| {
        moments::bin(a.interval(0), a.moment(1), a.moment(2)).map(Value::TimestampTz)
    }),
    Function::new("to_timestamp", &[FLOAT8], MOMENT, |a, _| {
        of_unix_seconds(a.double(0)).map(Value::TimestampTz)
    }),
    overlaps(&[TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP]),
    overlaps(&[TIMESTAMP, INTERVAL, TIMESTAMP, TIMESTAMP]),
    overlaps(&[TIMESTAMP, TIMESTAMP, TIMESTAMP, INTERVAL]),
    overlaps(&[TIMESTAMP, INTERVAL, TIMESTAMP, INTERVAL]),
    overlaps(&[MOMENT, MOMENT, MOMENT, MOMENT]),
    overlaps(&[MOMENT, INTERVAL, MOMENT, MOMENT]).stable(),
    overlaps(&[MOMENT, MOMENT, MOMENT, INTERVAL]).stable(),
    overlaps(&[MOMENT, INTERVAL, MOMENT, INTERVAL]).stable(),
    overlaps(&[TIME, TIME, TIME, TIME]),
    overlaps(&[TIME, INTERVAL, TIME, TIME]),
    overlaps(&[TIME, TIME, TIME, INTERVAL]),
    overlaps(&[TIME, INTERVAL, TIME, INTERVAL]),
    overlaps(&[TIMETZ, TIMETZ, TIMETZ, TIMETZ]),
];

fn now(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(Value::TimestampTz(context.session.style.now))
}

fn local_timestamp(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let style = &context.session.style;
    Ok(Value::Timestamp(style.local(style.now)))
}

fn local_time(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let style = &context.session.style;
    Ok(Value::Time(style.local(style.now).rem_euclid(DAY)))
}

fn current_time(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let style = &context.session.style;
    Ok(Value::TimeTz(
        style.local(style.now).rem_euclid(DAY),
        -style.time_zone.offset_at(style.now),
    ))
}

/// Rounds to digits of a second's fraction; more digits than there are mean all.
fn rounded(value: Value, data_type: DataType, digits: i64) -> Result<Value> {
    let to = ColumnType {
        data_type,
        modifier: digits.clamp(0, 6) as i32,
    };
    value.fit(to, Fit::Cast)
}

/// Today, in days since 2000.
fn today(style: &Style) -> i64 {
    style.local(style.now).div_euclid(DAY)
}

fn time_of_day(moment: i64, style: &Style) -> Result<Value> {
    let printed = Style {
        date_format: crate::value::DateFormat::Postgres,
        date_order: crate::value::DateOrder::MonthFirst,
        ..*style
    };
    let seconds = moment.div_euclid(SECOND) * SECOND;
    let text = Value::TimestampTz(seconds).to_text(DataType::TimestampTz.into(), &printed);
    let text = text.unwrap_or_default();
    // The fraction has six digits, also where they are zeros.
    let micros = moment.rem_euclid(SECOND);
    Ok(Value::text(match text.get(19..) {
        Some(rest) => format!("{}.{micros:06}{rest}", &text[..19]),
        None => text.to_string(),
    }))
}

fn is_finite(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(Value::Bool(match a.values.first() {
        Some(Value::Date(days)) => !matches!(*days, i32::MIN | i32::MAX),
        _ => !moments::is_infinite(a.moment(0)),
    }))
}

/// The moment so many seconds after 1970.
fn of_unix_seconds(seconds: f64) -> Result<i64> {
    if seconds.is_nan() {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "timestamp cannot be NaN",
        ));
    }
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 { i64::MAX } else { i64::MIN });
    }
    let micros = (seconds * SECOND as f64).round_ties_even() - calendar::UNIX_EPOCH as f64;
    let range = calendar::MIN_TIMESTAMP as f64..calendar::END_TIMESTAMP as f64;
    if !range.contains(&micros) {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{seconds}\""),
        ));
    }
    Ok(micros as i64)
}

const fn overlaps(arguments: &'static [ArgumentKind]) -> Function {
    Function::new("overlaps", arguments, BOOL, do_overlap).null_aware()
}

/// The end of a period, which may be given by its length.
fn end_of(start: &Value, end: &Value, style: &Style) -> Result<Value> {
    let Value::Interval(length) = end else {
        return Ok(end.clone());
    };
    Ok(match start {
        Value::Timestamp(start) => Value::Timestamp(moments::add(*start, *length)?),
        Value::TimestampTz(start) => {
            Value::TimestampTz(moments::add_in_zone(*start, *length, style)?)
        }
        Value::Time(start) => Value::Time((start + length.micros % DAY).rem_euclid(DAY)),
        _ => Value::Null,
    })
}

/// The ends of a period in their order, a null behind the other; `None` if both are null.
fn ordered(start: Value, end: Value) -> Option<(Value, Value)> {
    match (start.is_null(), end.is_null()) {
        (true, true) => None,
        (true, false) => Some((end, start)),
        (false, true) => Some((start, end)),
        (false, false) if start.order(&end).is_gt() => Some((end, start)),
        (false, false) => Some((start, end)),
    }
}

/// `(start, end) OVERLAPS (start, end)`. A null end is unknown: the result is null unless
/// the other ends decide.
fn do_overlap(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let style = &context.session.style;
    let [start, end, other_start, other_end] = a.values else {
        return Ok(Value::Null);
    };
    let end = end_of(start, end, style)?;
    let other_end = end_of(other_start, other_end, style)?;
    let Some((start, end)) = ordered(start.clone(), end) else {
        return Ok(Value::Null);
    };
    let Some((other_start, other_end)) = ordered(other_start.clone(), other_end) else {
        return Ok(Value::Null);
    };
    let order = start.order(&other_start);
    if order.is_eq() {
        return Ok(match end.is_null() || other_end.is_null() {
            true => Value::Null,
            false => Value::Bool(true),
        });
    }
    // The period that begins first has to end after the other's beginning.
    let (first_end, second_start, second_end) = if order.is_gt() {
        (other_end, start, end)
    } else {
        (end, other_start, other_end)
    };
    Ok(if first_end.is_null() {
        Value::Null
    } else if second_start.order(&first_end).is_lt() {
        Value::Bool(true)
    } else if second_end.is_null() {
        Value::Null
    } else {
        Value::Bool(false)
    })
}
