//! Decoder of index keys, for error messages and views: recovers the values that a key
//! consists of.
//!
//! The bounds of a scanned range are keys, too, but may be truncated or one past a
//! value; the decoder omits a column that it cannot decode.

use super::data_type::for_type;
use super::operations::TypeOperations;
use super::{DataType, KeyOrder, Value};

/// Decodes the first column of a key; returns its value and the rest of the key. `None`
/// if the bytes are not a whole column.
pub(crate) fn read_key(key: &[u8], data_type: DataType, order: KeyOrder) -> Option<(Value, &[u8])> {
    let (&marker, bytes) = key.split_first()?;
    match (marker, order.nulls_first) {
        (super::key::NULL_FIRST, true) | (super::key::NULL_LAST, false) => {
            return Some((Value::Null, bytes));
        }
        (super::key::PRESENT, _) => {}
        _ => return None,
    }
    let invert = if order.descending { 0xff } else { 0 };
    let mut reader = KeyReader { bytes, invert };
    let value = for_type!(data_type, T => T::read_key(&mut reader))?;
    Some((value, reader.bytes))
}

/// The bytes after a key column's marker, and whether they are inverted.
pub(super) struct KeyReader<'key> {
    bytes: &'key [u8],
    /// Mask that the reader XORs with each byte.
    invert: u8,
}

impl KeyReader<'_> {
    /// Inverts the bytes from here on, in addition to any inversion so far.
    pub(super) fn invert(&mut self) {
        self.invert = !self.invert;
    }

    /// Decodes one of several parts of a value. An inversion that `read` begins ends with it.
    pub(super) fn apart<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let invert = self.invert;
        let part = read(self);
        self.invert = invert;
        part
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(bytes.map(|byte| byte ^ self.invert))
    }

    /// The bytes up to a zero byte, which the reader consumes, too.
    pub(super) fn until_zero(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == self.invert)?;
        let bytes = self.bytes[..end].iter().map(|byte| byte ^ self.invert);
        let bytes = bytes.collect();
        self.bytes = &self.bytes[end + 1..];
        Some(bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Option<i16> {
        let bits = u16::from_be_bytes(self.array()?);
        Some((bits ^ 1 << 15) as i16)
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        let bits = u32::from_be_bytes(self.array()?);
        Some((bits ^ 1 << 31) as i32)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        let bits = u64::from_be_bytes(self.array()?);
        Some((bits ^ 1 << 63) as i64)
    }

    pub(super) fn f64(&mut self) -> Option<f64> {
        let bits = u64::from_be_bytes(self.array()?);
        Some(if bits == u64::MAX {
            f64::NAN
        } else if bits >> 63 == 1 {
            f64::from_bits(bits & !(1 << 63))
        } else {
            f64::from_bits(!bits)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Numeric;
    use super::*;

    fn there_and_back(value: &Value, data_type: DataType) {
        for descending in [false, true] {
            for nulls_first in [false, true] {
                let order = KeyOrder {
                    descending,
                    nulls_first,
                };
                let mut key = Vec::new();
                value.write_key(order, &mut key);
                let length = key.len();
                key.extend_from_slice(b"rest");
                let (read, rest) = read_key(&key, data_type, order).expect("it was written");
                assert_eq!(rest, b"rest");
                // Compares as text, because NaN does not equal itself as a float.
                let text = |value: &Value| {
                    let text = value.to_text(data_type.into(), &super::super::Style::default());
                    text.map(|text| text.to_string())
                };
                assert_eq!(text(&read), text(value), "{value:?} {order:?}");
                for end in 0..length {
                    let cut = read_key(&key[..end], data_type, order);
                    assert!(cut.is_none(), "{value:?} cut to {end}: {cut:?}");
                }
            }
        }
    }

    #[test]
    fn what_was_written_is_read() {
        there_and_back(&Value::Null, DataType::Int4);
        there_and_back(&Value::Bool(true), DataType::Bool);
        for number in [0, 1, -1, i64::MAX, i64::MIN, 4711] {
            there_and_back(&Value::Int2(number as i16), DataType::Int2);
            there_and_back(&Value::Int4(number as i32), DataType::Int4);
            there_and_back(&Value::Date((number as i32) >> 12), DataType::Date);
            there_and_back(&Value::Int8(number), DataType::Int8);
        }
        for number in [0.0, 1.5, -1.5, 1e300, -1e-300, f64::NAN, f64::INFINITY] {
            there_and_back(&Value::Float8(number), DataType::Float8);
        }
        there_and_back(&Value::Float4(-2.25), DataType::Float4);
        for text in ["", "a", "Grüße"] {
            there_and_back(&Value::text(text), DataType::Text);
        }
        for number in [
            "0",
            "1",
            "-1",
            "10",
            "1200",
            "1.5",
            "-1.05",
            "0.001",
            "-0.0012",
            "123456789.123",
            "NaN",
            "Infinity",
            "-Infinity",
        ] {
            let number = Numeric::parse(number)
                .expect("no overflow")
                .expect("a number");
            there_and_back(&Value::Numeric(Box::new(number)), DataType::Numeric);
        }
    }
}
