//! Values in PostgreSQL's binary formats, in and out.

use std::sync::Arc;

use num_bigint::{BigInt, BigUint, Sign};
use smol_str::SmolStr;

use super::{ColumnType, DataType, Fit, Numeric, Style, Value, calendar, text};
use crate::{Error, Result, SqlState};

const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xC000;
const NUMERIC_INFINITY: u16 = 0xD000;
const NUMERIC_NEGATIVE_INFINITY: u16 = 0xF000;
/// Base of the digits of a numeric.
const BASE: u32 = 10_000;
/// Decimal digits in each.
const GROUP: u32 = 4;

impl Value {
    /// Appends the value in its type's binary form. Returns false, having
    /// appended nothing, for a null.
    pub fn write_binary(&self, column_type: ColumnType, style: &Style, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Null => return false,
            Self::Bool(truth) => out.push(u8::from(*truth)),
            Self::Int2(number) => out.extend_from_slice(&number.to_be_bytes()),
            Self::Int4(number) | Self::Date(number) => out.extend_from_slice(&number.to_be_bytes()),
            Self::Int8(number) | Self::Timestamp(number) | Self::TimestampTz(number) => {
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Float4(number) => out.extend_from_slice(&number.to_be_bytes()),
            Self::Float8(number) => out.extend_from_slice(&number.to_be_bytes()),
            Self::Oid(number) | Self::Object(number, _) => {
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Char(byte) => out.push(*byte),
            Self::Numeric(number) => write_numeric(number, out),
            Self::Text(_) => {
                self.write_text(column_type, style, out);
            }
            Self::Array(elements) => write_array(elements, column_type, style, out),
        }
        true
    }

    /// Reads a value in its type's binary form.
    pub fn parse_binary(bytes: &[u8], column_type: ColumnType) -> Result<Self> {
        parse_unmodified(bytes, column_type.data_type)?.fit(column_type, Fit::Assign)
    }
}

fn malformed(data_type: DataType) -> Error {
    Error::new(
        SqlState::INVALID_BINARY_REPRESENTATION,
        format!("incorrect binary data format for type {data_type}"),
    )
}

fn exact<const N: usize>(bytes: &[u8], data_type: DataType) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed(data_type))
}

fn parse_unmodified(bytes: &[u8], data_type: DataType) -> Result<Value> {
    Ok(match data_type {
        DataType::Bool => Value::Bool(exact::<1>(bytes, data_type)?[0] != 0),
        DataType::Int2 => Value::Int2(i16::from_be_bytes(exact(bytes, data_type)?)),
        DataType::Int4 => Value::Int4(i32::from_be_bytes(exact(bytes, data_type)?)),
        DataType::Int8 => Value::Int8(i64::from_be_bytes(exact(bytes, data_type)?)),
        DataType::Float4 => Value::Float4(f32::from_be_bytes(exact(bytes, data_type)?)),
        DataType::Float8 => Value::Float8(f64::from_be_bytes(exact(bytes, data_type)?)),
        DataType::Oid => Value::Oid(u32::from_be_bytes(exact(bytes, data_type)?)),
        DataType::Regclass
        | DataType::Regtype
        | DataType::Regproc
        | DataType::Regnamespace
        | DataType::Regrole => {
            let oid = u32::from_be_bytes(exact(bytes, data_type)?);
            Value::Object(oid, SmolStr::from(oid.to_string()))
        }
        DataType::InternalChar => Value::Char(exact::<1>(bytes, data_type)?[0]),
        DataType::Date => Value::Date(parse_date(exact(bytes, data_type)?)?),
        DataType::Timestamp => Value::Timestamp(parse_timestamp(exact(bytes, data_type)?)?),
        DataType::TimestampTz => Value::TimestampTz(parse_timestamp(exact(bytes, data_type)?)?),
        DataType::Numeric => Value::Numeric(Box::new(parse_numeric(bytes)?)),
        DataType::Text
        | DataType::VarChar
        | DataType::Char
        | DataType::Name
        | DataType::Unknown => {
            let string = utf8(bytes)?;
            Value::text(if data_type == DataType::Name {
                text::truncate_name(string)
            } else {
                string
            })
        }
        _ => match data_type.element() {
            Some(element) => Value::Array(parse_array(bytes, data_type, element)?),
            None => return Err(malformed(data_type)),
        },
    })
}

fn parse_date(bytes: [u8; 4]) -> Result<i32> {
    let days = i32::from_be_bytes(bytes);
    let infinite = matches!(days, i32::MIN | i32::MAX);
    if infinite || (calendar::MIN_DATE..calendar::END_DATE).contains(&i64::from(days)) {
        return Ok(days);
    }
    Err(Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        "date out of range",
    ))
}

fn parse_timestamp(bytes: [u8; 8]) -> Result<i64> {
    let moment = i64::from_be_bytes(bytes);
    let infinite = matches!(moment, i64::MIN | i64::MAX);
    if infinite || (calendar::MIN_TIMESTAMP..calendar::END_TIMESTAMP).contains(&moment) {
        return Ok(moment);
    }
    Err(Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        "timestamp out of range",
    ))
}

/// Takes bytes that came from outside as text.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    let string = std::str::from_utf8(bytes).map_err(|error| {
        let bad = &bytes[error.valid_up_to()..];
        let shown = &bad[..error.error_len().unwrap_or(bad.len()).min(bad.len())];
        let shown: Vec<String> = shown.iter().map(|byte| format!("0x{byte:02x}")).collect();
        Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!(
                "invalid byte sequence for encoding \"UTF8\": {}",
                shown.join(" ")
            ),
        )
    })?;
    text::check_text(string)?;
    Ok(string)
}

fn write_numeric(number: &Numeric, out: &mut Vec<u8>) {
    let mut head = |digits: u16, weight: i16, sign: u16, scale: u16| {
        out.extend_from_slice(&digits.to_be_bytes());
        out.extend_from_slice(&weight.to_be_bytes());
        out.extend_from_slice(&sign.to_be_bytes());
        out.extend_from_slice(&scale.to_be_bytes());
    };
    let Some((unscaled, scale)) = number.parts() else {
        return head(
            0,
            0,
            match number {
                Numeric::Infinity => NUMERIC_INFINITY,
                Numeric::NegativeInfinity => NUMERIC_NEGATIVE_INFINITY,
                _ => NUMERIC_NAN,
            },
            0,
        );
    };
    // Line the point up with a group's edge.
    let padding = (GROUP - scale % GROUP) % GROUP;
    let aligned = unscaled.magnitude() * BigUint::from(10_u32).pow(padding);
    let groups_behind = ((scale + padding) / GROUP) as usize;
    let mut groups = Vec::new();
    let mut rest = aligned;
    let base = BigUint::from(BASE);
    while rest.bits() > 0 {
        let group = &rest % &base;
        groups.push(u16::try_from(&group).unwrap_or(0));
        rest /= &base;
    }
    let weight = groups.len() as i64 - groups_behind as i64 - 1;
    groups.reverse();
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let sign = if unscaled.sign() == Sign::Minus {
        NUMERIC_NEGATIVE
    } else {
        0
    };
    let weight = if groups.is_empty() { 0 } else { weight as i16 };
    head(groups.len() as u16, weight, sign, scale as u16);
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

fn parse_numeric(bytes: &[u8]) -> Result<Numeric> {
    let bad = || malformed(DataType::Numeric);
    let (head, tail) = bytes.split_at_checked(8).ok_or_else(bad)?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign, scale) = (word(0), word(2) as i16, word(4), u32::from(word(6)));
    if tail.len() != usize::from(count) * 2 {
        return Err(bad());
    }
    match sign {
        NUMERIC_NAN => return Ok(Numeric::NaN),
        NUMERIC_INFINITY => return Ok(Numeric::Infinity),
        NUMERIC_NEGATIVE_INFINITY => return Ok(Numeric::NegativeInfinity),
        0 | NUMERIC_NEGATIVE => {}
        _ => return Err(bad()),
    }
    let mut magnitude = BigUint::ZERO;
    for group in tail.chunks_exact(2) {
        let group = u32::from(u16::from_be_bytes([group[0], group[1]]));
        if group >= BASE {
            return Err(bad());
        }
        magnitude = magnitude * BASE + group;
    }
    // magnitude × 10000^(weight - count + 1), brought to the scale.
    let exponent = (i64::from(weight) - i64::from(count) + 1) * i64::from(GROUP) + i64::from(scale);
    if exponent >= 0 {
        magnitude *= BigUint::from(10_u32).pow(exponent as u32);
    } else {
        magnitude /= BigUint::from(10_u32).pow((-exponent) as u32);
    }
    let sign = if sign == 0 { Sign::Plus } else { Sign::Minus };
    Numeric::from_parts(BigInt::from_biguint(sign, magnitude), scale)
}

fn write_array(elements: &[Value], column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
    let data_type = column_type.data_type;
    let element = ColumnType {
        data_type: data_type.element().unwrap_or(DataType::Text),
        modifier: column_type.modifier,
    };
    let has_null = elements.iter().any(Value::is_null);
    let lower: i32 = match data_type {
        DataType::Int2Vector | DataType::OidVector => 0,
        _ => 1,
    };
    out.extend_from_slice(&i32::from(!elements.is_empty()).to_be_bytes());
    out.extend_from_slice(&i32::from(has_null).to_be_bytes());
    out.extend_from_slice(&element.data_type.oid().to_be_bytes());
    if elements.is_empty() {
        return;
    }
    out.extend_from_slice(&(elements.len() as i32).to_be_bytes());
    out.extend_from_slice(&lower.to_be_bytes());
    for value in elements {
        let at = out.len();
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        if value.write_binary(element, style, out) {
            let length = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

fn parse_array(bytes: &[u8], data_type: DataType, element: DataType) -> Result<Arc<[Value]>> {
    let mut rest = bytes;
    let mut word = || -> Result<i32> {
        let (head, tail) = rest
            .split_at_checked(4)
            .ok_or_else(|| malformed(data_type))?;
        rest = tail;
        Ok(i32::from_be_bytes(exact(head, data_type)?))
    };
    let dimensions = word()?;
    let (_has_null, oid) = (word()?, word()?);
    if oid as u32 != element.oid() {
        return Err(malformed(data_type));
    }
    if dimensions == 0 {
        return Ok(Arc::from([]));
    }
    if dimensions != 1 {
        return Err(Error::unsupported("an array of more than one dimension"));
    }
    let (count, _lower) = (word()?, word()?);
    if count < 0 {
        return Err(malformed(data_type));
    }
    let mut values = Vec::new();
    for _ in 0..count {
        let (head, tail) = rest
            .split_at_checked(4)
            .ok_or_else(|| malformed(data_type))?;
        rest = tail;
        let length = i32::from_be_bytes(exact(head, data_type)?);
        if length == -1 {
            values.push(Value::Null);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| malformed(data_type))?;
        let (cell, tail) = rest
            .split_at_checked(length)
            .ok_or_else(|| malformed(data_type))?;
        rest = tail;
        values.push(parse_unmodified(cell, element)?);
    }
    if rest.is_empty() {
        Ok(Arc::from(values))
    } else {
        Err(malformed(data_type))
    }
}
