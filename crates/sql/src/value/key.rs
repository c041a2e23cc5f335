//! Key encoding of indexes: order-preserving bytes that compare as the values do.
//!
//! Each value begins with a marker byte that sorts nulls; then come bytes that
//! sort like the values, and no value's bytes are a prefix of another's. So composite
//! keys compare column by column, and the encoding of the first columns is a prefix of
//! every key with the same values in those columns.
//!
//! ```text
//!   (7, 'ab')  ascending     01 80000007  01 6162 00
//!   (7, null)                01 80000007  02            nulls come last
//! ```
//!
//! | type | bytes after the marker |
//! | --- | --- |
//! | integers, dates, timestamps | big endian, sign bit flipped |
//! | timetz | its time in UTC, then seconds west |
//! | interval | its length, 16 bytes |
//! | floats | big endian; negative ones inverted, others with the sign bit set; −0 as 0, NaN last |
//! | strings | UTF-8 (the C collation), then 00; text holds no NUL |
//! | oid, uuid | big endian, the bytes |
//! | bytea | the bytes, a zero byte followed by FF, then 00 00 |
//! | jsonb | see `json/order.rs` |
//! | numeric | class (−∞ < negative < 0 < positive < ∞ < NaN); exponent of the first digit, 4 bytes; digits in pairs plus one, then 00; all inverted for negative numbers. Trailing zeros are omitted, so 1.0 is 1.00 |
//!
//! A descending column has all bytes after the marker inverted.

use super::data_type::for_type;
use super::operations::{Representation, TypeOperations};
use super::{DataType, Value, for_value};
use crate::Result;

pub(super) const NULL_FIRST: u8 = 0;
pub(super) const PRESENT: u8 = 1;
pub(super) const NULL_LAST: u8 = 2;

/// Sort order of one key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct KeyOrder {
    /// Whether larger values sort first.
    pub descending: bool,
    /// Whether nulls sort first. PostgreSQL's default is first for descending columns
    /// and last for ascending ones.
    pub nulls_first: bool,
}

impl KeyOrder {
    /// Ascending, nulls last.
    pub const ASCENDING: Self = Self {
        descending: false,
        nulls_first: false,
    };
    /// Descending, nulls first.
    pub const DESCENDING: Self = Self {
        descending: true,
        nulls_first: true,
    };
}

impl Value {
    /// Appends the value as a key column.
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
        for_value!(self, null => {}, (V, content) => V::write_key(content, key));
        if order.descending {
            invert(&mut key[start..]);
        }
    }
}

/// Appends a cell as a key column; gives the same bytes as [`Value::write_key`] on the
/// cell's value.
pub fn write_cell_key(
    cell: Option<&[u8]>,
    data_type: DataType,
    order: KeyOrder,
    key: &mut Vec<u8>,
) -> Result<()> {
    let Some(bytes) = cell else {
        Value::Null.write_key(order, key);
        return Ok(());
    };
    key.push(PRESENT);
    let start = key.len();
    for_type!(data_type, T => T::write_cell_key(bytes, key))?;
    if order.descending {
        invert(&mut key[start..]);
    }
    Ok(())
}

pub(super) fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Appends an integer in an order-preserving encoding.
#[inline]
pub(super) fn push_i16(number: i16, key: &mut Vec<u8>) {
    key.extend_from_slice(&(number as u16 ^ (1 << 15)).to_be_bytes());
}

/// Appends an integer in an order-preserving encoding, as [`push_i16`] does.
#[inline]
pub(super) fn push_i32(number: i32, key: &mut Vec<u8>) {
    key.extend_from_slice(&(number as u32 ^ (1 << 31)).to_be_bytes());
}

/// Appends an integer in an order-preserving encoding, as [`push_i16`] does.
#[inline]
pub(super) fn push_i64(number: i64, key: &mut Vec<u8>) {
    key.extend_from_slice(&(number as u64 ^ (1 << 63)).to_be_bytes());
}

/// Appends a float in an order-preserving encoding.
pub(super) fn push_f64(number: f64, key: &mut Vec<u8>) {
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
