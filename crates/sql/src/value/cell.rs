//! Cell encoding: the compact format of one value in stored rows and in the log,
//! decodable without the row's other values.
//!
//! | type | bytes |
//! | --- | --- |
//! | boolean | 1: 0 or 1 |
//! | integers, dates, timestamps, floats | little endian, of their width |
//! | time, timetz, interval | microseconds, then seconds west, or days and months; all little endian |
//! | strings | UTF-8; `char(n)` without its padding |
//! | oid | little endian, 4 bytes |
//! | bytea, uuid | the bytes |
//! | json, jsonpath | their text |
//! | jsonb | its binary form ([`super::json`]) |
//! | numeric | scale, 2 bytes (65,533 −∞, 65,534 ∞, 65,535 NaN), then the unscaled number, two's complement, little endian, as short as can be |
//!
//! A null has no bytes; the row records it.

use super::data_type::for_type;
use super::operations::{Representation, TypeOperations};
use super::{DataType, Value, for_value};
use crate::{Error, Result};

impl Value {
    /// Appends the cell of a value that is not null and has a storable type.
    pub fn write_cell(&self, out: &mut Vec<u8>) {
        for_value!(
            self,
            null => debug_assert!(false, "a null has no cell"),
            (V, content) => V::write_cell(content, out)
        );
    }

    /// Decodes a cell. Fails only if the bytes are not what [`Value::write_cell`]
    /// writes for this type, that is, on corruption or a bug.
    #[inline]
    pub fn from_cell(cell: Option<&[u8]>, data_type: DataType) -> Result<Self> {
        let Some(bytes) = cell else {
            return Ok(Self::Null);
        };
        for_type!(data_type, T => T::from_cell(bytes))
    }
}

pub(super) fn damaged() -> Error {
    Error::internal("a cell is not of its column's type")
}

#[inline]
pub(super) fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| damaged())
}
