//! Keys read back, for people: which values a key in an error was made of.
//!
//! The bounds of a scanned range are keys too, but may be cut short or one past a
//! value; what cannot be read is left out.

use super::{DataType, KeyOrder, Numeric, Value};

/// Takes one column off a key: its value, and what follows. `None` when the bytes are
/// not the whole of such a column.
pub(crate) fn read_key(key: &[u8], data_type: DataType, order: KeyOrder) -> Option<(Value, &[u8])> {
    let (&marker, rest) = key.split_first()?;
    match (marker, order.nulls_first) {
        (super::key::NULL_FIRST, true) | (super::key::NULL_LAST, false) => {
            return Some((Value::Null, rest));
        }
        (super::key::PRESENT, _) => {}
        _ => return None,
    }
    let invert = if order.descending { 0xff } else { 0 };
    let at = |position: usize| rest.get(position).map(|byte| byte ^ invert);
    if data_type.is_string() {
        let end = (0..rest.len()).find(|&position| at(position) == Some(0))?;
        let bytes: Vec<u8> = (0..end).filter_map(at).collect();
        let text = String::from_utf8(bytes).ok()?;
        return Some((Value::text(text), &rest[end + 1..]));
    }
    if data_type == DataType::Numeric {
        return read_numeric(rest, invert);
    }
    let width = match data_type {
        DataType::Bool | DataType::InternalChar => 1,
        DataType::Int2 => 2,
        DataType::Int4 | DataType::Date | DataType::Oid => 4,
        DataType::Int8
        | DataType::Timestamp
        | DataType::TimestampTz
        | DataType::Float4
        | DataType::Float8 => 8,
        _ => return None,
    };
    let (bytes, rest) = rest.split_at_checked(width)?;
    let number = bytes
        .iter()
        .fold(0_u64, |number, byte| number << 8 | u64::from(byte ^ invert));
    let value = match data_type {
        DataType::Bool => Value::Bool(number != 0),
        DataType::InternalChar => Value::Char(number as u8),
        DataType::Int2 => Value::Int2((number as u16 ^ 1 << 15) as i16),
        DataType::Int4 => Value::Int4((number as u32 ^ 1 << 31) as i32),
        DataType::Date => Value::Date((number as u32 ^ 1 << 31) as i32),
        DataType::Oid => Value::Oid(number as u32),
        DataType::Int8 => Value::Int8((number ^ 1 << 63) as i64),
        DataType::Timestamp => Value::Timestamp((number ^ 1 << 63) as i64),
        DataType::TimestampTz => Value::TimestampTz((number ^ 1 << 63) as i64),
        DataType::Float4 => Value::Float4(float(number) as f32),
        DataType::Float8 => Value::Float8(float(number)),
        _ => return None,
    };
    Some((value, rest))
}

fn float(key: u64) -> f64 {
    if key == u64::MAX {
        f64::NAN
    } else if key >> 63 == 1 {
        f64::from_bits(key & !(1 << 63))
    } else {
        f64::from_bits(!key)
    }
}

fn read_numeric(key: &[u8], invert: u8) -> Option<(Value, &[u8])> {
    let (class, rest) = key.split_first()?;
    let number = |number| Value::Numeric(Box::new(number));
    let sign = match class ^ invert {
        0 => return Some((number(Numeric::NegativeInfinity), rest)),
        1 => "-",
        2 => return Some((number(Numeric::parse("0").ok()??), rest)),
        3 => "",
        4 => return Some((number(Numeric::Infinity), rest)),
        5 => return Some((number(Numeric::NaN), rest)),
        _ => return None,
    };
    let invert = if sign.is_empty() { invert } else { !invert };
    let (exponent, rest) = rest.split_at_checked(4)?;
    let exponent = exponent
        .iter()
        .fold(0_u32, |bits, byte| bits << 8 | u32::from(byte ^ invert));
    let exponent = (exponent ^ 1 << 31) as i32;
    let end = rest.iter().position(|byte| byte ^ invert == 0)?;
    let mut digits = String::new();
    for byte in &rest[..end] {
        let pair = (byte ^ invert) - 1;
        digits.extend([char::from(b'0' + pair / 10), char::from(b'0' + pair % 10)]);
    }
    let digits = digits.trim_end_matches('0');
    let (first, others) = digits.split_at_checked(1)?;
    let text = format!("{sign}{first}.{others}0e{exponent}");
    let scale = others.len() as i64 - i64::from(exponent);
    let value = Numeric::parse(&text).ok()??.round(scale.max(0));
    Some((number(value), &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
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
                // As text, where NaN is itself.
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
