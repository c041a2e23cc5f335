//! Encoder and decoder of PostgreSQL's binary value format.

use std::sync::Arc;

use super::data_type::for_type;
use super::operations::{Representation, TypeOperations};
use super::{ColumnType, DataType, Fit, Style, Value, for_value, text};
use crate::{Error, Result, SqlState};

impl Value {
    /// Appends the value in its type's binary format. Returns false and appends nothing
    /// for a null.
    pub fn write_binary(&self, column_type: ColumnType, style: &Style, out: &mut Vec<u8>) -> bool {
        for_value!(self, null => return false, (V, content) => {
            V::write_binary(content, column_type, style, out);
        });
        true
    }

    /// Decodes a value from its type's binary format.
    pub fn parse_binary(bytes: &[u8], column_type: ColumnType) -> Result<Self> {
        for_type!(column_type.data_type, T => {
            T::fit(T::parse_binary(bytes)?, column_type, Fit::Assign)
        })
    }
}

pub(super) fn malformed(data_type: DataType) -> Error {
    Error::new(
        SqlState::INVALID_BINARY_REPRESENTATION,
        format!("incorrect binary data format for type {data_type}"),
    )
}

pub(super) fn exact<const N: usize>(bytes: &[u8], data_type: DataType) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed(data_type))
}

/// Checks that bytes received from a client are UTF-8.
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

pub(super) fn write_array(
    elements: &[Value],
    column_type: ColumnType,
    style: &Style,
    out: &mut Vec<u8>,
) {
    let data_type = column_type.data_type;
    let element = ColumnType {
        data_type: data_type.element().unwrap_or(DataType::Text),
        modifier: column_type.modifier,
    };
    let has_null = elements.iter().any(Value::is_null);
    let lower = i32::from(!data_type.is_vector());
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

pub(super) fn parse_array(
    bytes: &[u8],
    data_type: DataType,
    element: DataType,
) -> Result<Arc<[Value]>> {
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
        values.push(for_type!(element, T => T::parse_binary(cell))?);
    }
    if rest.is_empty() {
        Ok(Arc::from(values))
    } else {
        Err(malformed(data_type))
    }
}
