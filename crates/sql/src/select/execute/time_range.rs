//! RANGE offsets of dates, times and intervals: the limit that an interval is away from a
//! row's key, as PostgreSQL's functions `in_range` compute it.

use crate::expression::{EvaluationContext, cast_value};
use crate::value::{DataType, Interval, moments};
use crate::{Error, Result, SqlState, Value};

/// A key, and the limit that is the offset before (`subtract`) or after `base`. Both are of
/// one type: that of the keys, or a timestamp for dates. `None` for a limit that no key
/// reaches.
pub(super) fn with_limit(
    value: &Value,
    base: &Value,
    offset: Interval,
    subtract: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<(Value, Option<Value>)> {
    // Of a time of day, months and days change nothing.
    let is_negative = match base {
        Value::Time(_) | Value::TimeTz(..) => offset.micros < 0,
        _ => offset.span() < 0,
    };
    if is_negative {
        return Err(Error::new(
            SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
            "invalid preceding or following size in window function",
        ));
    }
    let by = || {
        if subtract {
            offset.negate()
        } else {
            Ok(offset)
        }
    };
    let clock = |time: i64| match subtract {
        true => time.checked_sub(offset.micros),
        false => time.checked_add(offset.micros),
    };
    let limit = match base {
        Value::Date(_) => {
            let mut midnight = |date: &Value| {
                let (from, to) = (DataType::Date.into(), DataType::Timestamp.into());
                cast_value(date.clone(), from, to, false, context)
            };
            let (value, base) = (midnight(value)?, midnight(base)?);
            return with_limit(&value, &base, offset, subtract, context);
        }
        Value::Timestamp(time) => Some(Value::Timestamp(moments::add(*time, by()?)?)),
        Value::TimestampTz(moment) => {
            let style = &context.session.style;
            let limit = moments::add_in_zone(*moment, by()?, style)?;
            Some(Value::TimestampTz(limit))
        }
        Value::Interval(base) => Some(Value::Interval(base.plus(by()?)?)),
        Value::Time(time) => clock(*time).map(Value::Time),
        Value::TimeTz(time, west) => clock(*time).map(|time| Value::TimeTz(time, *west)),
        _ => {
            let message = "a frame's offset that is not of its key's type";
            return Err(Error::internal(message));
        }
    };
    Ok((value.clone(), limit))
}
