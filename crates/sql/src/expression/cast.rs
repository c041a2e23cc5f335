//! Values of one type as values of another.

use smol_str::SmolStr;

use super::EvaluationContext;
use super::operator::out_of_range;
use crate::system;
use crate::value::{ColumnType, DataType, Fit, Numeric, Style, Value, calendar};
use crate::{Error, Result, SqlState};

/// Whether a cast needs neither the session nor the catalog.
pub(super) fn is_pure(from: DataType, to: DataType) -> bool {
    let needs_catalog = |data_type: DataType| {
        let base = data_type.element().unwrap_or(data_type);
        base.object().is_some()
    };
    // Reading a literal depends on the session, too, but a literal means what it
    // means when it is read, as in PostgreSQL.
    let moment = |data_type: DataType| data_type.element().unwrap_or(data_type).is_moment();
    let read = from == DataType::Unknown;
    !needs_catalog(from) && !needs_catalog(to) && (read || !(moment(from) || moment(to)))
}

/// Whether a literal of this type may mean something else the next time it is read.
pub(super) fn is_momentary(text: &str, data_type: DataType) -> bool {
    data_type.element().unwrap_or(data_type).is_moment() && {
        let text = text.to_ascii_lowercase();
        ["now", "today", "tomorrow", "yesterday"]
            .iter()
            .any(|word| text.contains(word))
    }
}

/// Casts a value; the cast is one that [`super::castable`] knows.
pub fn cast_value(
    value: Value,
    from: ColumnType,
    to: ColumnType,
    explicit: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    if value.is_null() {
        return Ok(value);
    }
    match to.data_type {
        DataType::Regclass
        | DataType::Regtype
        | DataType::Regproc
        | DataType::Regnamespace
        | DataType::Regrole => {
            if from.data_type == to.data_type {
                return Ok(value);
            }
            match &value {
                Value::Text(name) => system::object_by_name(to.data_type, name, context),
                Value::Oid(_)
                | Value::Object(..)
                | Value::Int2(_)
                | Value::Int4(_)
                | Value::Int8(_) => {
                    let oid = match cast_pure(
                        value,
                        from,
                        DataType::Oid.into(),
                        true,
                        &context.session.style,
                    )? {
                        Value::Oid(oid) => oid,
                        _ => 0,
                    };
                    Ok(system::object_by_oid(to.data_type, oid, context))
                }
                _ => Err(mismatch(from, to)),
            }
        }
        _ => cast_pure(value, from, to, explicit, &context.session.style),
    }
}

fn mismatch(from: ColumnType, to: ColumnType) -> Error {
    Error::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {} to {}", from.data_type, to.data_type),
    )
}

/// Casts a value without the catalog.
pub(super) fn cast_pure(
    value: Value,
    from: ColumnType,
    to: ColumnType,
    explicit: bool,
    style: &Style,
) -> Result<Value> {
    if value.is_null() {
        return Ok(value);
    }
    let fit = if explicit { Fit::Cast } else { Fit::Assign };
    if let Value::Array(elements) = &value
        && let (Some(from_element), Some(to_element)) =
            (from.data_type.element(), to.data_type.element())
    {
        if from_element == to_element {
            return Ok(value);
        }
        let cast: Result<Vec<Value>> = elements
            .iter()
            .map(|element| {
                cast_pure(
                    element.clone(),
                    from_element.into(),
                    to_element.into(),
                    explicit,
                    style,
                )
            })
            .collect();
        return Ok(Value::Array(cast?.into()));
    }
    let converted = match (value, to.data_type) {
        (value, target) if from.data_type == target => value,
        (Value::Text(text), target) if target.is_string() || target == DataType::Unknown => {
            if target == DataType::Name {
                Value::text(crate::value::truncate_name(&text))
            } else {
                Value::Text(text)
            }
        }
        (Value::Text(text), DataType::InternalChar) => {
            Value::Char(text.bytes().next().unwrap_or(0))
        }
        (Value::Text(text), target) => {
            // A quoted literal is cut like a cast value, not refused like input.
            return Value::parse(&text, target.into(), style)?.fit(to, fit);
        }
        (Value::Char(byte), DataType::Int4) => Value::Int4(i32::from(byte as i8)),
        (Value::Int4(number), DataType::InternalChar) => match i8::try_from(number) {
            Ok(byte) => Value::Char(byte as u8),
            Err(_) => return Err(out_of_range("\"char\"")),
        },
        (Value::Bool(truth), DataType::Int4) => Value::Int4(i32::from(truth)),
        (Value::Int4(number), DataType::Bool) => Value::Bool(number != 0),
        (Value::Bool(truth), target) if target.is_string() => {
            Value::text(if truth { "true" } else { "false" })
        }
        (value, target) if target.is_string() => {
            let text = value.to_text(from, style).unwrap_or(SmolStr::default());
            if target == DataType::Name {
                Value::text(crate::value::truncate_name(&text))
            } else {
                Value::Text(text)
            }
        }
        (value, target) if target.is_number() || target == DataType::Oid => {
            to_number(value, from, target)?
        }
        (value, target) => to_date_or_time(value, from, target, style)?,
    };
    converted.fit(to, fit)
}

/// A number as an integer, rounded: halves of a double to even, halves of a
/// decimal away from zero.
fn to_integer(value: &Value) -> Option<Option<i64>> {
    let float = |number: f64| {
        let rounded = number.round_ties_even();
        let fits = rounded >= i64::MIN as f64 && rounded < -(i64::MIN as f64);
        fits.then_some(rounded as i64)
    };
    Some(match value {
        Value::Int2(number) => Some(i64::from(*number)),
        Value::Int4(number) => Some(i64::from(*number)),
        Value::Int8(number) => Some(*number),
        Value::Oid(number) | Value::Object(number, _) => Some(i64::from(*number)),
        Value::Float4(number) => float(f64::from(*number)),
        Value::Float8(number) => float(*number),
        Value::Numeric(number) => number.to_i64(),
        _ => return None,
    })
}

fn to_number(value: Value, from: ColumnType, target: DataType) -> Result<Value> {
    let bad = || mismatch(from, target.into());
    Ok(match target {
        DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Oid => {
            if let Value::Numeric(number) = &value
                && number.parts().is_none()
            {
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!(
                        "cannot convert {} to {target}",
                        if **number == Numeric::NaN {
                            "NaN"
                        } else {
                            "infinity"
                        }
                    ),
                ));
            }
            let integer = to_integer(&value).ok_or_else(bad)?;
            let name = target.sql_name();
            let overflow = || {
                if target == DataType::Oid {
                    out_of_range("OID")
                } else {
                    out_of_range(name)
                }
            };
            let integer = integer.ok_or_else(overflow)?;
            match target {
                DataType::Int2 => Value::Int2(i16::try_from(integer).map_err(|_| overflow())?),
                // The catalogs' numbers wrap in four bytes, as in C.
                DataType::Int4 if matches!(value, Value::Oid(_) | Value::Object(..)) => {
                    Value::Int4(integer as u32 as i32)
                }
                DataType::Int4 => Value::Int4(i32::try_from(integer).map_err(|_| overflow())?),
                DataType::Oid if matches!(value, Value::Int4(_) | Value::Int2(_)) => {
                    Value::Oid(integer as i32 as u32)
                }
                DataType::Oid => Value::Oid(u32::try_from(integer).map_err(|_| overflow())?),
                _ => Value::Int8(integer),
            }
        }
        DataType::Float8 => Value::Float8(match value {
            Value::Float4(number) => f64::from(number),
            Value::Numeric(number) => finite(number.to_f64(), &number, target)?,
            other => to_integer(&other).flatten().ok_or_else(bad)? as f64,
        }),
        DataType::Float4 => match value {
            Value::Float8(number) => {
                let narrow = number as f32;
                if narrow.is_infinite() && number.is_finite() {
                    return Err(Error::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        "value out of range: overflow",
                    ));
                }
                if narrow == 0.0 && number != 0.0 {
                    return Err(Error::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        "value out of range: underflow",
                    ));
                }
                Value::Float4(narrow)
            }
            Value::Numeric(number) => {
                let wide = number.to_f64();
                let narrow = wide as f32;
                if narrow.is_infinite() && number.parts().is_some() {
                    finite(f64::INFINITY, &number, target)?;
                }
                Value::Float4(narrow)
            }
            other => Value::Float4(to_integer(&other).flatten().ok_or_else(bad)? as f32),
        },
        DataType::Numeric => Value::Numeric(Box::new(match value {
            Value::Float4(number) => Numeric::from_f64(f64::from(number), 6)?,
            Value::Float8(number) => Numeric::from_f64(number, 15)?,
            other => Numeric::from(to_integer(&other).flatten().ok_or_else(bad)?),
        })),
        _ => return Err(bad()),
    })
}

fn finite(double: f64, number: &Numeric, target: DataType) -> Result<f64> {
    if double.is_infinite() && number.parts().is_some() {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{number}\" is out of range for type {target}"),
        ));
    }
    Ok(double)
}

fn to_date_or_time(
    value: Value,
    from: ColumnType,
    target: DataType,
    style: &Style,
) -> Result<Value> {
    let overflow = |kind: &str| {
        Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("{kind} out of range"),
        )
    };
    let midnight = |days: i32| match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        days => i64::from(days)
            .checked_mul(calendar::DAY)
            .filter(|time| *time < calendar::END_TIMESTAMP)
            .ok_or_else(|| overflow("date")),
    };
    let day = |time: i64| match time {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        time => time.div_euclid(calendar::DAY) as i32,
    };
    let moment = |local: i64| match local {
        i64::MIN | i64::MAX => Ok(local),
        local => calendar::in_range(style.time_zone.moment_of(local))
            .ok_or_else(|| overflow("timestamp")),
    };
    let local = |moment: i64| match moment {
        i64::MIN | i64::MAX => Ok(moment),
        moment => calendar::in_range(style.local(moment)).ok_or_else(|| overflow("timestamp")),
    };
    Ok(match (value, target) {
        (Value::Date(days), DataType::Timestamp) => Value::Timestamp(midnight(days)?),
        (Value::Date(days), DataType::TimestampTz) => Value::TimestampTz(moment(midnight(days)?)?),
        (Value::Timestamp(time), DataType::Date) => Value::Date(day(time)),
        (Value::Timestamp(time), DataType::TimestampTz) => Value::TimestampTz(moment(time)?),
        (Value::TimestampTz(time), DataType::Timestamp) => Value::Timestamp(local(time)?),
        (Value::TimestampTz(time), DataType::Date) => Value::Date(day(local(time)?)),
        _ => return Err(mismatch(from, target.into())),
    })
}
