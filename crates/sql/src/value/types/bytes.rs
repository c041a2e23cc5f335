//! The type `bytea`: bytes of any value.
//!
//! In a key a zero byte is followed by FF, and two zero bytes end the value, so that no
//! value's key is the beginning of another's.

use std::cmp::Ordering;
use std::sync::Arc;

use super::*;

pub(in crate::value) struct Bytea;

impl TypeOperations for Bytea {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 17,
        name: "bytea",
        sql_name: "bytea",
        length: -1,
        family: Family::Other,
        structure: Structure::Scalar,
        array: Some(DataType::ByteaArray),
        modifier: Modifier::None,
        category: Category::User,
        preferred: false,
        by_value: false,
        alignment: Alignment::Int,
        storage: Storage::Extended,
        collation: None,
        functions: "bytea",
        operator_class: OperatorClass::Own {
            oid: 10_006,
            name: "bytea_ops",
            family: (428, "bytea_ops"),
        },
        extremes: Extremes::None,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        let bytes = match text.strip_prefix("\\x") {
            Some(digits) => from_hex(digits)?,
            None => from_escapes(text.as_bytes()).ok_or_else(|| {
                Error::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                )
            })?,
        };
        Ok(Value::Bytes(Arc::from(bytes)))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        Ok(Value::Bytes(Arc::from(bytes)))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    #[inline]
    fn from_cell(cell: &[u8]) -> Result<Value> {
        Ok(Value::Bytes(Arc::from(cell)))
    }

    fn write_cell_key(cell: &[u8], key: &mut Vec<u8>) -> Result<()> {
        Self::write_key(cell, key);
        Ok(())
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        let mut bytes = Vec::new();
        loop {
            bytes.extend(key.until_zero()?);
            match key.u8()? {
                0 => return Some(Value::Bytes(Arc::from(bytes))),
                0xFF => bytes.push(0),
                _ => return None,
            }
        }
    }
}

impl Representation for Bytea {
    type Content<'value> = &'value [u8];

    #[inline]
    fn content(value: &Value) -> Option<&[u8]> {
        let Value::Bytes(bytes) = value else {
            return None;
        };
        Some(bytes)
    }

    fn write_text(bytes: &[u8], _column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
        if style.bytes_as_escapes {
            write_escapes(bytes, out);
            return;
        }
        out.reserve(2 + 2 * bytes.len());
        out.extend_from_slice(b"\\x");
        for byte in bytes {
            out.extend_from_slice(&hex(*byte));
        }
    }

    #[inline]
    fn write_binary(bytes: &[u8], _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    #[inline]
    fn write_cell(bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    fn write_key(bytes: &[u8], key: &mut Vec<u8>) {
        for byte in bytes {
            key.push(*byte);
            if *byte == 0 {
                key.push(0xFF);
            }
        }
        key.extend_from_slice(&[0, 0]);
    }

    #[inline]
    fn order(left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }
}

/// The two hexadecimal digits of a byte.
pub(crate) const fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 0x0F) as usize]]
}

/// The value of a hexadecimal digit.
pub(crate) const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Decodes pairs of hexadecimal digits, with blanks between pairs.
pub(crate) fn from_hex(text: &str) -> Result<Vec<u8>> {
    let wrong = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let bytes = text.as_bytes();
    let half = |at: usize| {
        digit(bytes[at]).ok_or_else(|| {
            let character = text.get(at..).and_then(|rest| rest.chars().next());
            wrong(format!(
                "invalid hexadecimal digit: \"{}\"",
                character.unwrap_or(char::REPLACEMENT_CHARACTER)
            ))
        })
    };
    let mut out = Vec::with_capacity(bytes.len() / 2);
    let mut at = 0;
    while at < bytes.len() {
        if matches!(bytes[at], b' ' | b'\n' | b'\t' | b'\r') {
            at += 1;
            continue;
        }
        let high = half(at)?;
        if at + 1 == bytes.len() {
            return Err(wrong(
                "invalid hexadecimal data: odd number of digits".to_owned(),
            ));
        }
        out.push(high << 4 | half(at + 1)?);
        at += 2;
    }
    Ok(out)
}

/// Decodes the escape format: `\\` is a backslash, `\` and three octal digits are a byte.
pub(crate) fn from_escapes(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'\\' {
            out.push(*first);
            rest = behind;
            continue;
        }
        match behind {
            [b'\\', behind @ ..] => {
                out.push(b'\\');
                rest = behind;
            }
            [
                high @ b'0'..=b'3',
                middle @ b'0'..=b'7',
                low @ b'0'..=b'7',
                behind @ ..,
            ] => {
                out.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest = behind;
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Appends the bytes in the escape format.
fn write_escapes(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b' '..=b'~' => out.push(*byte),
            other => out.extend_from_slice(&[
                b'\\',
                b'0' + (other >> 6),
                b'0' + (other >> 3 & 7),
                b'0' + (other & 7),
            ]),
        }
    }
}
