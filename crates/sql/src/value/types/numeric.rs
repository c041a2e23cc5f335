//! The type `numeric`: its encodings and catalog entry.

use std::cmp::Ordering;
use std::io::Write;

use num_bigint::{BigInt, BigUint, Sign};

use super::super::Numeric as Number;
use super::*;

pub(in crate::value) struct Numeric;

impl TypeOperations for Numeric {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 1700,
        name: "numeric",
        sql_name: "numeric",
        length: -1,
        family: Family::Number(NumberType::Numeric),
        structure: Structure::Scalar,
        array: Some(DataType::NumericArray),
        modifier: Modifier::PrecisionAndScale,
        category: Category::Numeric,
        preferred: false,
        by_value: false,
        alignment: Alignment::Int,
        storage: Storage::Main,
        collation: None,
        functions: "numeric_",
        operator_class: OperatorClass::Own {
            oid: 3125,
            name: "numeric_ops",
            family: (1988, "numeric_ops"),
        },
        extremes: Extremes::Same,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        match Number::parse(text)? {
            Some(number) => Ok(Value::Numeric(Box::new(number))),
            None => Err(invalid(DataType::Numeric, text)),
        }
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        Ok(Value::Numeric(Box::new(parse_binary(bytes)?)))
    }

    fn fit(value: Value, column_type: ColumnType, _fit: Fit) -> Result<Value> {
        match (Self::content(&value), column_type.precision_and_scale()) {
            (Some(number), Some((precision, scale))) => {
                Ok(Value::Numeric(Box::new(number.fit(precision, scale)?)))
            }
            (None, _) | (_, None) => Ok(value),
        }
    }

    fn from_cell(cell: &[u8]) -> Result<Value> {
        Ok(Value::Numeric(Box::new(from_cell(cell)?)))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        read_key(key).map(|number| Value::Numeric(Box::new(number)))
    }
}

impl Representation for Numeric {
    type Content<'value> = &'value Number;

    #[inline]
    fn content(value: &Value) -> Option<&Number> {
        let Value::Numeric(number) = value else {
            return None;
        };
        Some(number)
    }

    fn write_text(number: &Number, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        write!(out, "{number}").expect("a vector takes every write");
    }

    fn write_binary(number: &Number, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        write_binary(number, out);
    }

    fn write_cell(number: &Number, out: &mut Vec<u8>) {
        let marker = match number {
            Number::Finite(_) => {
                if let Some((unscaled, scale)) = number.parts() {
                    out.extend_from_slice(&(scale as u16).to_le_bytes());
                    out.extend_from_slice(&unscaled.to_signed_bytes_le());
                }
                return;
            }
            Number::Infinity => CELL_INFINITY,
            Number::NegativeInfinity => CELL_NEGATIVE_INFINITY,
            Number::NaN => CELL_NAN,
        };
        out.extend_from_slice(&marker.to_le_bytes());
    }

    fn write_key(number: &Number, key: &mut Vec<u8>) {
        write_key(number, key);
    }

    fn order(left: &Number, right: &Number) -> Ordering {
        left.cmp(right)
    }
}

const CELL_NEGATIVE_INFINITY: u16 = u16::MAX - 2;
const CELL_INFINITY: u16 = u16::MAX - 1;
const CELL_NAN: u16 = u16::MAX;

fn from_cell(cell: &[u8]) -> Result<Number> {
    let (scale, unscaled) = cell.split_at_checked(2).ok_or_else(damaged)?;
    match u16::from_le_bytes(exact_cell(scale)?) {
        CELL_NAN => Ok(Number::NaN),
        CELL_INFINITY => Ok(Number::Infinity),
        CELL_NEGATIVE_INFINITY => Ok(Number::NegativeInfinity),
        scale => Number::from_parts(BigInt::from_signed_bytes_le(unscaled), u32::from(scale)),
    }
}

const BINARY_NEGATIVE: u16 = 0x4000;
const BINARY_NAN: u16 = 0xC000;
const BINARY_INFINITY: u16 = 0xD000;
const BINARY_NEGATIVE_INFINITY: u16 = 0xF000;
/// Base of the digits in the binary format.
const BASE: u32 = 10_000;
/// Number of decimal digits in each digit of the binary format.
const GROUP: u32 = 4;

fn write_binary(number: &Number, out: &mut Vec<u8>) {
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
                Number::Infinity => BINARY_INFINITY,
                Number::NegativeInfinity => BINARY_NEGATIVE_INFINITY,
                Number::NaN | Number::Finite(_) => BINARY_NAN,
            },
            0,
        );
    };
    // Pads the fraction so that the decimal point lies at the edge of a digit group.
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
        BINARY_NEGATIVE
    } else {
        0
    };
    let weight = if groups.is_empty() { 0 } else { weight as i16 };
    head(groups.len() as u16, weight, sign, scale as u16);
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

fn parse_binary(bytes: &[u8]) -> Result<Number> {
    let bad = || malformed(DataType::Numeric);
    let (head, tail) = bytes.split_at_checked(8).ok_or_else(bad)?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign, scale) = (word(0), word(2) as i16, word(4), u32::from(word(6)));
    if tail.len() != usize::from(count) * 2 {
        return Err(bad());
    }
    match sign {
        BINARY_NAN => return Ok(Number::NaN),
        BINARY_INFINITY => return Ok(Number::Infinity),
        BINARY_NEGATIVE_INFINITY => return Ok(Number::NegativeInfinity),
        0 | BINARY_NEGATIVE => {}
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
    // magnitude × 10000^(weight - count + 1), converted to the scale.
    let exponent = (i64::from(weight) - i64::from(count) + 1) * i64::from(GROUP) + i64::from(scale);
    if exponent >= 0 {
        magnitude *= BigUint::from(10_u32).pow(exponent as u32);
    } else {
        magnitude /= BigUint::from(10_u32).pow((-exponent) as u32);
    }
    let sign = if sign == 0 { Sign::Plus } else { Sign::Minus };
    Number::from_parts(BigInt::from_biguint(sign, magnitude), scale)
}

fn write_key(number: &Number, key: &mut Vec<u8>) {
    let class = match number {
        Number::NegativeInfinity => 0,
        Number::Infinity => 4,
        Number::NaN => 5,
        Number::Finite(_) => (number.signum() + 2) as u8,
    };
    key.push(class);
    let Some((digits, exponent)) = number.significant_digits() else {
        return;
    };
    let start = key.len();
    key.extend_from_slice(&(exponent as u32 ^ (1 << 31)).to_be_bytes());
    for pair in digits.chunks(2) {
        key.push(pair[0] * 10 + pair.get(1).copied().unwrap_or(0) + 1);
    }
    key.push(0);
    if number.signum() < 0 {
        key::invert(&mut key[start..]);
    }
}

fn read_key(key: &mut KeyReader<'_>) -> Option<Number> {
    let sign = match key.u8()? {
        0 => return Some(Number::NegativeInfinity),
        1 => "-",
        2 => return Number::parse("0").ok()?,
        3 => "",
        4 => return Some(Number::Infinity),
        5 => return Some(Number::NaN),
        _ => return None,
    };
    if !sign.is_empty() {
        key.invert();
    }
    let exponent = key.i32()?;
    let mut digits = String::new();
    for byte in key.until_zero()? {
        let pair = byte - 1;
        digits.extend([char::from(b'0' + pair / 10), char::from(b'0' + pair % 10)]);
    }
    let digits = digits.trim_end_matches('0');
    let (first, others) = digits.split_at_checked(1)?;
    let text = format!("{sign}{first}.{others}0e{exponent}");
    let scale = others.len() as i64 - i64::from(exponent);
    Some(Number::parse(&text).ok()??.round(scale.max(0)))
}
