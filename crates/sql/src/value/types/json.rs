//! The types `json`, which keeps its text, `jsonb`, which keeps a binary form, and
//! `jsonpath`, which is kept as it prints.

use std::cmp::Ordering;

use super::super::json::{self, Jsonb as Document};
use super::super::path;
use super::string;
use super::*;

pub(in crate::value) struct Json;
pub(in crate::value) struct Jsonb;
pub(in crate::value) struct JsonPath;

/// Version of the binary format of `jsonb` and `jsonpath`: text behind this byte.
pub(super) const BINARY_VERSION: u8 = 1;

/// Properties that the types share.
const fn facts(
    oid: u32,
    name: &'static str,
    array: DataType,
    functions: &'static str,
    operator_class: OperatorClass,
) -> TypeFacts {
    TypeFacts {
        oid,
        name,
        sql_name: name,
        length: -1,
        family: Family::Other,
        structure: Structure::Scalar,
        array: Some(array),
        modifier: Modifier::None,
        category: Category::User,
        preferred: false,
        by_value: false,
        alignment: Alignment::Int,
        storage: Storage::Extended,
        collation: None,
        functions,
        operator_class,
        extremes: Extremes::None,
    }
}

/// The text behind the version byte of a binary value.
fn versioned<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    match bytes.split_first() {
        Some((&BINARY_VERSION, text)) => binary::utf8(text),
        Some((version, _)) => Err(Error::internal(format!(
            "unsupported {name} version number {version}"
        ))),
        None => Err(Error::new(
            SqlState::PROTOCOL_VIOLATION,
            "no data left in message",
        )),
    }
}

impl TypeOperations for Json {
    type Representation = string::Text;

    /// `json` cannot be compared: its text says more than its value.
    const FACTS: TypeFacts = facts(
        114,
        "json",
        DataType::JsonArray,
        "json_",
        OperatorClass::None,
    );
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        json::check_json(text, &mut |_| Ok(()))?;
        Ok(Value::text(text))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let text = binary::utf8(bytes)?;
        json::check_json(text, &mut |_| Ok(()))?;
        Ok(Value::text(text))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    #[inline]
    fn from_cell(cell: &[u8]) -> Result<Value> {
        string::Text::from_cell(cell)
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        string::Text::read_key(key)
    }
}

impl TypeOperations for Jsonb {
    type Representation = Self;

    const FACTS: TypeFacts = facts(
        3802,
        "jsonb",
        DataType::JsonbArray,
        "jsonb_",
        OperatorClass::Own {
            oid: 10_088,
            name: "jsonb_ops",
            family: (4033, "jsonb_ops"),
        },
    );
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        Ok(Value::Jsonb(Document::parse(text, &mut |_| Ok(()))?))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let text = versioned(bytes, "jsonb")?;
        Ok(Value::Jsonb(Document::parse(text, &mut |_| Ok(()))?))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    #[inline]
    fn from_cell(cell: &[u8]) -> Result<Value> {
        Ok(Value::Jsonb(Document::from_bytes(cell)))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        json::read_key(key).map(Value::Jsonb)
    }
}

impl Representation for Jsonb {
    type Content<'value> = &'value Document;

    #[inline]
    fn content(value: &Value) -> Option<&Document> {
        let Value::Jsonb(document) = value else {
            return None;
        };
        Some(document)
    }

    fn write_text(
        document: &Document,
        _column_type: ColumnType,
        _style: &Style,
        out: &mut Vec<u8>,
    ) {
        json::write(document.view(), out);
    }

    fn write_binary(
        document: &Document,
        _column_type: ColumnType,
        _style: &Style,
        out: &mut Vec<u8>,
    ) {
        out.push(BINARY_VERSION);
        json::write(document.view(), out);
    }

    #[inline]
    fn write_cell(document: &Document, out: &mut Vec<u8>) {
        out.extend_from_slice(document.bytes());
    }

    fn write_key(document: &Document, key: &mut Vec<u8>) {
        json::write_key(document, key);
    }

    fn order(left: &Document, right: &Document) -> Ordering {
        json::compare(left, right)
    }
}

impl TypeOperations for JsonPath {
    type Representation = string::Text;

    const FACTS: TypeFacts = facts(
        4072,
        "jsonpath",
        DataType::JsonPathArray,
        "jsonpath_",
        OperatorClass::None,
    );
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        Ok(Value::text(path::parse(text)?.to_string()))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let text = versioned(bytes, "jsonpath")?;
        Ok(Value::text(path::parse(text)?.to_string()))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    fn from_cell(cell: &[u8]) -> Result<Value> {
        string::Text::from_cell(cell)
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        string::Text::read_key(key)
    }
}
