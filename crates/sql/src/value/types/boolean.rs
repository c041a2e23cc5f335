//! The type `boolean`: its encodings and catalog entry.

use std::cmp::Ordering;

use super::*;

pub(in crate::value) struct Bool;

impl TypeOperations for Bool {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 16,
        name: "bool",
        sql_name: "boolean",
        length: 1,
        family: Family::Other,
        structure: Structure::Scalar,
        array: Some(DataType::BoolArray),
        modifier: Modifier::None,
        category: Category::Boolean,
        preferred: true,
        by_value: true,
        alignment: Alignment::Char,
        storage: Storage::Plain,
        collation: None,
        functions: "bool",
        operator_class: OperatorClass::Own {
            oid: 10_003,
            name: "bool_ops",
            family: (424, "bool_ops"),
        },
        extremes: Extremes::None,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        match parse(text.trim_matches(BLANKS)) {
            Some(truth) => Ok(Value::Bool(truth)),
            None => Err(invalid(DataType::Bool, text)),
        }
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let [byte] = binary::exact(bytes, DataType::Bool)?;
        Ok(Value::Bool(byte != 0))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    #[inline]
    fn from_cell(cell: &[u8]) -> Result<Value> {
        let [byte] = exact_cell(cell)?;
        Ok(Value::Bool(byte != 0))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        key.u8().map(|byte| Value::Bool(byte != 0))
    }
}

impl Representation for Bool {
    type Content<'value> = bool;

    #[inline]
    fn content(value: &Value) -> Option<bool> {
        let Value::Bool(truth) = value else {
            return None;
        };
        Some(*truth)
    }

    #[inline]
    fn write_text(truth: bool, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.push(if truth { b't' } else { b'f' });
    }

    #[inline]
    fn write_binary(truth: bool, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.push(u8::from(truth));
    }

    #[inline]
    fn write_cell(truth: bool, out: &mut Vec<u8>) {
        out.push(u8::from(truth));
    }

    #[inline]
    fn write_key(truth: bool, key: &mut Vec<u8>) {
        key.push(u8::from(truth));
    }

    #[inline]
    fn order(left: bool, right: bool) -> Ordering {
        left.cmp(&right)
    }
}

fn parse(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    if lower.is_empty() {
        return None;
    }
    match lower.as_str() {
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        "o" => None,
        other if "true".starts_with(other) || "yes".starts_with(other) => Some(true),
        other if "false".starts_with(other) || "no".starts_with(other) => Some(false),
        _ => None,
    }
}
