//! The type `uuid`: sixteen bytes, which compare as they are.

use std::cmp::Ordering;

use super::*;

pub(in crate::value) struct Uuid;

impl TypeOperations for Uuid {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 2950,
        name: "uuid",
        sql_name: "uuid",
        length: 16,
        family: Family::Other,
        structure: Structure::Scalar,
        array: Some(DataType::UuidArray),
        modifier: Modifier::None,
        category: Category::User,
        preferred: false,
        by_value: false,
        alignment: Alignment::Char,
        storage: Storage::Plain,
        collation: None,
        functions: "uuid_",
        operator_class: OperatorClass::Own {
            oid: 10_065,
            name: "uuid_ops",
            family: (2968, "uuid_ops"),
        },
        extremes: Extremes::None,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        match parse(text.as_bytes()) {
            Some(bytes) => Ok(Value::Uuid(bytes)),
            None => Err(invalid(DataType::Uuid, text)),
        }
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        Ok(Value::Uuid(binary::exact(bytes, DataType::Uuid)?))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    #[inline]
    fn from_cell(cell: &[u8]) -> Result<Value> {
        Ok(Value::Uuid(exact_cell(cell)?))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        key.array().map(Value::Uuid)
    }
}

impl Representation for Uuid {
    type Content<'value> = [u8; 16];

    #[inline]
    fn content(value: &Value) -> Option<[u8; 16]> {
        let Value::Uuid(bytes) = value else {
            return None;
        };
        Some(*bytes)
    }

    fn write_text(bytes: [u8; 16], _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                out.push(b'-');
            }
            out.extend_from_slice(&super::bytes::hex(*byte));
        }
    }

    #[inline]
    fn write_binary(bytes: [u8; 16], _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.extend_from_slice(&bytes);
    }

    #[inline]
    fn write_cell(bytes: [u8; 16], out: &mut Vec<u8>) {
        out.extend_from_slice(&bytes);
    }

    #[inline]
    fn write_key(bytes: [u8; 16], key: &mut Vec<u8>) {
        key.extend_from_slice(&bytes);
    }

    #[inline]
    fn order(left: [u8; 16], right: [u8; 16]) -> Ordering {
        left.cmp(&right)
    }
}

/// Parses 32 hexadecimal digits in groups of four, each with or without a hyphen behind it,
/// perhaps in braces.
fn parse(text: &[u8]) -> Option<[u8; 16]> {
    let text = match text.strip_prefix(b"{") {
        Some(inner) => inner.strip_suffix(b"}")?,
        None => text,
    };
    let mut rest = text;
    let mut uuid = [0; 16];
    for (at, byte) in uuid.iter_mut().enumerate() {
        let (pair, behind) = rest.split_first_chunk::<2>()?;
        *byte = super::bytes::digit(pair[0])? << 4 | super::bytes::digit(pair[1])?;
        rest = behind;
        if at % 2 == 1 && at < 15 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
    }
    rest.is_empty().then_some(uuid)
}
