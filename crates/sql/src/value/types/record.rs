//! The type `record`: rows as values, whose fields are of any type. A value is the list of
//! its fields; what type a field has follows from its value.
//!
//! The modifier of a column of this type says which fields its values have, if that is
//! known: the number of a type stands for the pair that `_pg_expandarray` returns, an
//! element of that type (`x`) and its place (`n`).

use super::*;

pub(in crate::value) struct Record;

impl TypeOperations for Record {
    type Representation = super::Array;

    const FACTS: TypeFacts = TypeFacts {
        oid: 2249,
        name: "record",
        sql_name: "record",
        length: -1,
        family: Family::Other,
        structure: Structure::Scalar,
        array: Some(DataType::RecordArray),
        modifier: Modifier::None,
        category: Category::Pseudo,
        preferred: false,
        by_value: false,
        alignment: Alignment::Double,
        storage: Storage::Extended,
        collation: None,
        functions: "record_",
        operator_class: OperatorClass::None,
        extremes: Extremes::None,
    };

    fn parse_text(_text: &str, _style: &Style) -> Result<Value> {
        Err(no_input())
    }

    fn parse_binary(_bytes: &[u8]) -> Result<Value> {
        Err(no_input())
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    catalog_only!();
}

fn no_input() -> Error {
    Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "input of anonymous composite types is not implemented",
    )
}

/// The type of a field with this value.
fn field_type(value: &Value) -> DataType {
    match value {
        Value::Null | Value::Text(_) => DataType::Text,
        Value::Bool(_) => DataType::Bool,
        Value::Int2(_) => DataType::Int2,
        Value::Int4(_) => DataType::Int4,
        Value::Int8(_) => DataType::Int8,
        Value::Float4(_) => DataType::Float4,
        Value::Float8(_) => DataType::Float8,
        Value::Numeric(_) => DataType::Numeric,
        Value::Date(_) => DataType::Date,
        Value::Timestamp(_) => DataType::Timestamp,
        Value::TimestampTz(_) => DataType::TimestampTz,
        Value::Time(_) => DataType::Time,
        Value::TimeTz(..) => DataType::TimeTz,
        Value::Interval(_) => DataType::Interval,
        Value::Oid(_) => DataType::Oid,
        Value::Bytes(_) => DataType::Bytea,
        Value::Uuid(_) => DataType::Uuid,
        Value::Jsonb(_) => DataType::Jsonb,
        Value::Object(..) => DataType::Regclass,
        Value::Char(_) => DataType::InternalChar,
        Value::Array(elements) => {
            let first = elements.iter().find(|element| !element.is_null());
            let element = first.map_or(DataType::Text, field_type);
            element.array().unwrap_or(DataType::TextArray)
        }
    }
}

/// Appends a row as text: `(1,"a b",)`.
pub(super) fn write_text(fields: &[Value], style: &Style, out: &mut Vec<u8>) {
    let mut word = Vec::new();
    out.push(b'(');
    for (position, field) in fields.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        word.clear();
        if !field.write_text(field_type(field).into(), style, &mut word) {
            continue;
        }
        let is_plain = !word.is_empty()
            && !word
                .iter()
                .any(|byte| b"\"\\(), \t\n\r\x0b\x0c".contains(byte));
        if is_plain {
            out.extend_from_slice(&word);
            continue;
        }
        out.push(b'"');
        for byte in &word {
            if matches!(byte, b'"' | b'\\') {
                out.push(*byte);
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    out.push(b')');
}

/// Appends a row in binary format: the number of fields, then of each its type, its length
/// and its bytes.
pub(super) fn write_binary(fields: &[Value], style: &Style, out: &mut Vec<u8>) {
    out.extend_from_slice(&(fields.len() as i32).to_be_bytes());
    for field in fields {
        let data_type = field_type(field);
        out.extend_from_slice(&data_type.oid().to_be_bytes());
        let at = out.len();
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        if field.write_binary(data_type.into(), style, out) {
            let length = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_as_postgresql_writes_them() {
        let row = [
            Value::Int4(1),
            Value::text("a b"),
            Value::Null,
            Value::text(""),
            Value::text("x\"\\"),
            Value::Bool(true),
            Value::Array([Value::Int4(1), Value::Int4(2)].into()),
        ];
        let mut out = Vec::new();
        write_text(&row, &Style::default(), &mut out);
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written, r#"(1,"a b",,"","x""\\",t,"{1,2}")"#);
        let mut out = Vec::new();
        write_binary(&row[..1], &Style::default(), &mut out);
        assert_eq!(out, [0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 4, 0, 0, 0, 1]);
    }
}
