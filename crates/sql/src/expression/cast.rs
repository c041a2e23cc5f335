//! Execution of casts: converts a value of one SQL type to a value of another.

#![deny(clippy::wildcard_enum_match_arm)]

use smol_str::SmolStr;

use super::functions::json::cast_scalar;
use super::operator::out_of_range;
use super::{EvaluationContext, ROW};
use crate::value::{
    ColumnType, DataType, DateTimeType, Family, Fit, Interval, Jsonb, NumberType, Numeric, Style,
    Value, calendar, json,
};
use crate::{Error, Result, SqlState};

/// Whether a cast reads neither the session nor the catalog.
pub(super) fn is_pure(from: DataType, to: DataType) -> bool {
    let needs_catalog = |data_type: DataType| {
        let base = data_type.element().unwrap_or(data_type);
        base.object().is_some()
    };
    // Parsing a literal depends on the session, too, but a literal is parsed once, when
    // the statement is bound, as in PostgreSQL.
    let moment = |data_type: DataType| data_type.element().unwrap_or(data_type).is_moment();
    let read = from == DataType::Unknown;
    // How `bytea` prints is a setting.
    let prints_bytes = from.element().unwrap_or(from) == DataType::Bytea;
    !prints_bytes
        && !needs_catalog(from)
        && !needs_catalog(to)
        && (read || !(moment(from) || moment(to)))
}

/// Whether parsing this literal at another time may give another value.
pub(crate) fn is_momentary(text: &str, data_type: DataType) -> bool {
    data_type.element().unwrap_or(data_type).is_moment() && {
        let text = text.to_ascii_lowercase();
        ["now", "today", "tomorrow", "yesterday"]
            .iter()
            .any(|word| text.contains(word))
    }
}

/// Executes a cast that [`super::castable`] allows.
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
    if let Value::Array(elements) = &value
        && let (Some(from), Some(to)) = (from.data_type.element(), to.data_type.element())
        && from != to
        && to.object().is_none()
    {
        let mut cast = Vec::with_capacity(elements.len());
        for element in elements.iter() {
            context.work(ROW)?;
            let style = &context.session.style;
            cast.push(cast_pure(
                element.clone(),
                from.into(),
                to.into(),
                explicit,
                style,
            )?);
        }
        return Ok(Value::Array(cast.into()));
    }
    if let Value::Array(elements) = &value
        && to.data_type == DataType::Text
        && from.data_type.element().is_some()
    {
        let style = context.session.style;
        let mut text = Vec::new();
        let mut look = |bytes| context.work(bytes);
        crate::value::write_array(elements, from, &style, &mut text, &mut look)?;
        return Ok(Value::text(String::from_utf8_lossy(&text)));
    }
    if let (Value::Text(text), Some(element)) = (&value, to.data_type.element())
        && to.data_type.object().is_none()
    {
        let style = context.session.style;
        let mut look = |bytes| context.work(bytes);
        return crate::value::parse_array(text, to.data_type, element, &style, &mut look)
            .map(|elements| Value::Array(elements.into()));
    }
    if let (Value::Text(text), DataType::Json | DataType::Jsonb) = (&value, to.data_type)
        && from.data_type != to.data_type
    {
        let mut look = |bytes| context.work(bytes);
        if to.data_type == DataType::Jsonb {
            return Jsonb::parse(text, &mut look).map(Value::Jsonb);
        }
        return json::check_json(text, &mut look).map(|()| value);
    }
    if to.data_type.object().is_none() {
        return cast_pure(value, from, to, explicit, &context.session.style);
    }
    if from.data_type == to.data_type {
        return Ok(value);
    }
    match &value {
        Value::Text(name) => (context.session.system.by_name)(to.data_type, name, context),
        Value::Oid(_) | Value::Object(..) | Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => {
            let oid = to_oid(&value, from)?;
            Ok((context.session.system.by_oid)(to.data_type, oid, context))
        }
        Value::Null
        | Value::Bool(_)
        | Value::Float4(_)
        | Value::Float8(_)
        | Value::Numeric(_)
        | Value::Date(_)
        | Value::Timestamp(_)
        | Value::TimestampTz(_)
        | Value::Time(_)
        | Value::TimeTz(..)
        | Value::Interval(_)
        | Value::Char(_)
        | Value::Array(_)
        | Value::Bytes(_)
        | Value::Uuid(_)
        | Value::Jsonb(_) => Err(mismatch(from, to)),
    }
}

fn mismatch(from: ColumnType, to: ColumnType) -> Error {
    Error::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {} to {}", from.data_type, to.data_type),
    )
}

/// Executes a cast that does not read the catalog.
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
            Value::parse(&text, DataType::InternalChar.into(), style)?
        }
        (Value::Text(text), target) => {
            // A value cast to `char(n)` or `varchar(n)` is cut to its length; a value
            // assigned to a column is refused.
            // The fields of an interval's type give its numbers their units.
            let read_as = if target == DataType::Interval {
                to
            } else {
                target.into()
            };
            return Value::parse(&text, read_as, style)?.fit(to, fit);
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
        (value, DataType::Oid) => Value::Oid(to_oid(&value, from)?),
        (Value::Jsonb(document), DataType::Json) => Value::text(document.to_text()),
        (Value::Jsonb(document), target) if target == DataType::Bool || target.is_number() => {
            let scalar = cast_scalar(&document, target)?;
            let numeric = DataType::Numeric.into();
            if target == DataType::Bool {
                return Ok(scalar);
            }
            return cast_pure(scalar, numeric, to, explicit, style);
        }
        (value, target) => match target.family() {
            Family::String => {
                let text = value.to_text(from, style).unwrap_or(SmolStr::default());
                if target == DataType::Name {
                    Value::text(crate::value::truncate_name(&text))
                } else {
                    Value::Text(text)
                }
            }
            Family::Number(target) => to_number(&value, from, to, target)?,
            Family::DateTime(target) => to_date_or_time(value, from, to, target, style)?,
            // Casts to these types that do not go through text are handled by the
            // caller.
            Family::Object(_) | Family::Other => return Err(mismatch(from, to)),
        },
    };
    converted.fit(to, fit)
}

/// A numeric value, by its representation.
enum Number<'value> {
    Integer(i64),
    Single(f32),
    Double(f64),
    Decimal(&'value Numeric),
}

impl<'value> Number<'value> {
    /// `None` if the value is not a number.
    fn of(value: &'value Value) -> Option<Self> {
        Some(match value {
            Value::Int2(number) => Self::Integer(i64::from(*number)),
            Value::Int4(number) => Self::Integer(i64::from(*number)),
            Value::Int8(number) => Self::Integer(*number),
            Value::Oid(number) | Value::Object(number, _) => Self::Integer(i64::from(*number)),
            Value::Float4(number) => Self::Single(*number),
            Value::Float8(number) => Self::Double(*number),
            Value::Numeric(number) => Self::Decimal(number),
            Value::Null
            | Value::Bool(_)
            | Value::Text(_)
            | Value::Date(_)
            | Value::Timestamp(_)
            | Value::TimestampTz(_)
            | Value::Time(_)
            | Value::TimeTz(..)
            | Value::Interval(_)
            | Value::Char(_)
            | Value::Array(_)
            | Value::Bytes(_)
            | Value::Uuid(_)
            | Value::Jsonb(_) => return None,
        })
    }

    /// Rounds to an integer: halves of a double to even, halves of a decimal away from
    /// zero. `None` if the result does not fit.
    fn to_integer(&self) -> Option<i64> {
        let float = |number: f64| {
            let rounded = number.round_ties_even();
            let fits = rounded >= i64::MIN as f64 && rounded < -(i64::MIN as f64);
            fits.then_some(rounded as i64)
        };
        match self {
            Self::Integer(number) => Some(*number),
            Self::Single(number) => float(f64::from(*number)),
            Self::Double(number) => float(*number),
            Self::Decimal(number) => number.to_i64(),
        }
    }
}

/// Casts a number to an integer type. `Ok(None)` if the number exceeds every integer
/// type.
fn whole(value: &Value, from: ColumnType, target: DataType) -> Result<Option<i64>> {
    let number = Number::of(value).ok_or_else(|| mismatch(from, target.into()))?;
    if let Number::Decimal(number) = number
        && number.parts().is_none()
    {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!(
                "cannot convert {} to {target}",
                if *number == Numeric::NaN {
                    "NaN"
                } else {
                    "infinity"
                }
            ),
        ));
    }
    Ok(number.to_integer())
}

fn to_oid(value: &Value, from: ColumnType) -> Result<u32> {
    let overflow = || out_of_range("OID");
    let integer = whole(value, from, DataType::Oid)?.ok_or_else(overflow)?;
    // A negative integer is reinterpreted as unsigned, as a C cast does.
    if matches!(value, Value::Int4(_) | Value::Int2(_)) {
        return Ok(integer as i32 as u32);
    }
    u32::try_from(integer).map_err(|_| overflow())
}

fn to_number(value: &Value, from: ColumnType, to: ColumnType, target: NumberType) -> Result<Value> {
    let number = || Number::of(value).ok_or_else(|| mismatch(from, to));
    let overflow = || out_of_range(to.data_type.sql_name());
    let whole = || whole(value, from, to.data_type)?.ok_or_else(overflow);
    Ok(match target {
        NumberType::Int2 => Value::Int2(i16::try_from(whole()?).map_err(|_| overflow())?),
        // Object identifiers wrap to four signed bytes, as a C cast does.
        NumberType::Int4 if matches!(value, Value::Oid(_) | Value::Object(..)) => {
            Value::Int4(whole()? as u32 as i32)
        }
        NumberType::Int4 => Value::Int4(i32::try_from(whole()?).map_err(|_| overflow())?),
        NumberType::Int8 => Value::Int8(whole()?),
        NumberType::Float8 => Value::Float8(match number()? {
            Number::Integer(number) => number as f64,
            Number::Single(number) => f64::from(number),
            Number::Double(number) => number,
            Number::Decimal(number) => finite(number.to_f64(), number, to.data_type)?,
        }),
        NumberType::Float4 => Value::Float4(match number()? {
            Number::Integer(number) => number as f32,
            Number::Single(number) => number,
            Number::Double(number) => {
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
                narrow
            }
            Number::Decimal(number) => {
                let wide = number.to_f64();
                let narrow = wide as f32;
                if narrow.is_infinite() && number.parts().is_some() {
                    finite(f64::INFINITY, number, to.data_type)?;
                }
                narrow
            }
        }),
        NumberType::Numeric => Value::Numeric(Box::new(match number()? {
            Number::Integer(number) => Numeric::from(number),
            Number::Single(number) => Numeric::from_f64(f64::from(number), 6)?,
            Number::Double(number) => Numeric::from_f64(number, 15)?,
            Number::Decimal(number) => number.clone(),
        })),
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
    to: ColumnType,
    target: DateTimeType,
    style: &Style,
) -> Result<Value> {
    use DateTimeType as T;
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
    // An infinite moment has no time of day.
    let of_day = |local: i64, make: &dyn Fn(i64) -> Value| match local {
        i64::MIN | i64::MAX => Value::Null,
        local => make(local.rem_euclid(calendar::DAY)),
    };
    Ok(match (target, value) {
        (T::Date, Value::Timestamp(time)) => Value::Date(day(time)),
        (T::Date, Value::TimestampTz(time)) => Value::Date(day(local(time)?)),
        (T::Timestamp, Value::Date(days)) => Value::Timestamp(midnight(days)?),
        (T::Timestamp, Value::TimestampTz(time)) => Value::Timestamp(local(time)?),
        (T::TimestampTz, Value::Date(days)) => Value::TimestampTz(moment(midnight(days)?)?),
        (T::TimestampTz, Value::Timestamp(time)) => Value::TimestampTz(moment(time)?),
        (T::Time, Value::Timestamp(time)) => of_day(time, &Value::Time),
        (T::Time, Value::TimestampTz(time)) => of_day(local(time)?, &Value::Time),
        (T::Time, Value::TimeTz(time, _)) => Value::Time(time),
        (T::Time, Value::Interval(interval)) => {
            Value::Time(interval.micros.rem_euclid(calendar::DAY))
        }
        (T::TimeTz, Value::TimestampTz(time)) => of_day(local(time)?, &|clock| {
            Value::TimeTz(clock, -style.time_zone.offset_at(time))
        }),
        (T::TimeTz, Value::Time(time)) => {
            // The zone's offset at that time of today.
            let today = style.local(style.now).div_euclid(calendar::DAY);
            let local = today * calendar::DAY + time;
            let west = (style.time_zone.moment_of(local) - local) / calendar::SECOND;
            Value::TimeTz(time, west as i32)
        }
        (T::Interval, Value::Time(time)) => Value::Interval(Interval::of_micros(time)),
        (T::Date | T::Timestamp | T::TimestampTz | T::Time | T::TimeTz | T::Interval, _) => {
            return Err(mismatch(from, to));
        }
    })
}
