//! Keys: bytes that compare as the values do.
//!
//! Each value begins with a marker, so that nulls have their place; then come
//! bytes whose order is the values' order and of which none is a prefix of
//! another's. So keys of several columns compare column by column, and the
//! encoding of the first columns is a prefix of every key that agrees in them.
//!
//! ```text
//!   (7, 'ab')  ascending     01 80000007  01 6162 00
//!   (7, null)                01 80000007  02            nulls come last
//! ```
//!
//! | type | bytes behind the marker |
//! | --- | --- |
//! | integers, dates, timestamps | big endian, sign bit flipped |
//! | floats | big endian; negative ones inverted, others with the sign bit set; −0 as 0, NaN last |
//! | strings | UTF-8 (the C collation), then 00; text holds no NUL |
//! | numeric | class (−∞ < negative < 0 < positive < ∞ < NaN); exponent of the first digit, 4 bytes; digits in pairs plus one, then 00; all inverted for negative numbers. Zeros at the end are left off, so 1.0 is 1.00 |
//!
//! A descending column has all bytes behind the marker inverted.

use super::{DataType, Numeric, Value};
use crate::Result;

pub(super) const NULL_FIRST: u8 = 0;
pub(super) const PRESENT: u8 = 1;
pub(super) const NULL_LAST: u8 = 2;

/// Which way a column of a key runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct KeyOrder {
    /// From large to small.
    pub descending: bool,
    /// Nulls before all else. PostgreSQL's default is to have them first exactly
    /// when descending.
    pub nulls_first: bool,
}

impl KeyOrder {
    /// Small to large, nulls last.
    pub const ASCENDING: Self = Self {
        descending: false,
        nulls_first: false,
    };
    /// Large to small, nulls first.
    pub const DESCENDING: Self = Self {
        descending: true,
        nulls_first: true,
    };
}

impl Value {
    /// Appends the value as a column of a key.
    pub fn write_key(&self, order: KeyOrder, key: &mut Vec<u8>) {
        if self.is_null() {
            key.push(if order.nulls_first {
                NULL_FIRST
            } else {
                NULL_LAST
            });
            return;
        }
        key.push(PRESENT);
        let start = key.len();
        write_ascending(self, key);
        if order.descending {
            invert(&mut key[start..]);
        }
    }
}

/// Appends a cell as a column of a key, as [`Value::write_key`] does with its
/// value.
pub fn write_cell_key(
    cell: Option<&[u8]>,
    data_type: DataType,
    order: KeyOrder,
    key: &mut Vec<u8>,
) -> Result<()> {
    // Strings need no check and no copy: their cell is their key.
    if let (Some(bytes), true) = (cell, data_type.is_string()) {
        key.push(PRESENT);
        let start = key.len();
        key.extend_from_slice(bytes);
        key.push(0);
        if order.descending {
            invert(&mut key[start..]);
        }
        return Ok(());
    }
    Value::from_cell(cell, data_type)?.write_key(order, key);
    Ok(())
}

fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

fn write_ascending(value: &Value, key: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(truth) => key.push(u8::from(*truth)),
        Value::Int2(number) => key.extend_from_slice(&(*number as u16 ^ (1 << 15)).to_be_bytes()),
        Value::Int4(number) | Value::Date(number) => {
            key.extend_from_slice(&(*number as u32 ^ (1 << 31)).to_be_bytes());
        }
        Value::Int8(number) | Value::Timestamp(number) | Value::TimestampTz(number) => {
            key.extend_from_slice(&(*number as u64 ^ (1 << 63)).to_be_bytes());
        }
        Value::Float4(number) => write_float(f64::from(*number), key),
        Value::Float8(number) => write_float(*number, key),
        Value::Text(text) => {
            key.extend_from_slice(text.as_bytes());
            key.push(0);
        }
        Value::Oid(number) | Value::Object(number, _) => {
            key.extend_from_slice(&number.to_be_bytes());
        }
        Value::Char(byte) => key.push(*byte),
        Value::Numeric(number) => write_numeric(number, key),
        Value::Array(elements) => {
            for element in elements.iter() {
                element.write_key(KeyOrder::ASCENDING, key);
            }
            key.push(NULL_FIRST);
        }
    }
}

fn write_float(number: f64, key: &mut Vec<u8>) {
    let number = if number == 0.0 { 0.0 } else { number };
    let bits = if number.is_nan() {
        u64::MAX
    } else if number.is_sign_negative() {
        !number.to_bits()
    } else {
        number.to_bits() | (1 << 63)
    };
    key.extend_from_slice(&bits.to_be_bytes());
}

fn write_numeric(number: &Numeric, key: &mut Vec<u8>) {
    let class = match number {
        Numeric::NegativeInfinity => 0,
        Numeric::Infinity => 4,
        Numeric::NaN => 5,
        Numeric::Finite(_) => (number.signum() + 2) as u8,
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
        invert(&mut key[start..]);
    }
}
