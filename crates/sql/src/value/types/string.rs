//! The string types `text`, `varchar`, `char(n)` and `name`; `unknown` and `void`,
//! whose values are strings, too; and the `"char"` of the system catalogs, which is one
//! byte.

use std::cmp::Ordering;
use std::io::Write;

use super::super::text::truncate_name;
use super::*;

pub(in crate::value) struct Text;
pub(in crate::value) struct VarChar;
pub(in crate::value) struct Char;
pub(in crate::value) struct Name;
pub(in crate::value) struct Unknown;
pub(in crate::value) struct Void;
pub(in crate::value) struct InternalChar;

/// Properties that `text`, `varchar` and `char(n)` share.
const fn string(
    oid: u32,
    name: &'static str,
    sql_name: &'static str,
    array: DataType,
    modifier: Modifier,
    operator_class: OperatorClass,
    extremes: Extremes,
) -> TypeFacts {
    TypeFacts {
        oid,
        name,
        sql_name,
        length: -1,
        family: Family::String,
        structure: Structure::Scalar,
        array: Some(array),
        modifier,
        category: Category::String,
        preferred: false,
        by_value: false,
        alignment: Alignment::Int,
        storage: Storage::Extended,
        collation: Some(Collation::Default),
        functions: name,
        operator_class,
        extremes,
    }
}

const TEXT_FAMILY: (u32, &str) = (1994, "text_ops");

fn parse(text: &str) -> Result<Value> {
    check_text(text)?;
    Ok(Value::text(text))
}

fn parse_binary(bytes: &[u8]) -> Result<Value> {
    Ok(Value::text(binary::utf8(bytes)?))
}

#[inline]
fn from_cell(cell: &[u8]) -> Result<Value> {
    Ok(Value::text(
        std::str::from_utf8(cell).map_err(|_| damaged())?,
    ))
}

/// Strings need no check and no copy, because a string's cell is also its key.
#[inline]
fn write_cell_key(cell: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(cell);
    key.push(0);
}

fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
    let text = String::from_utf8(key.until_zero()?).ok()?;
    Some(Value::text(text))
}

/// Cuts a string to its declared length. Removing characters other than blanks is an
/// error, unless the statement writes the cast.
fn cut(text: &str, column_type: ColumnType, fit: Fit) -> Result<&str> {
    if let Some(length) = column_type.length()
        && text.len() > length
        && let Some((end, _)) = text.char_indices().nth(length)
    {
        let lost = &text[end..];
        if fit == Fit::Assign && lost.bytes().any(|byte| byte != b' ') {
            return Err(Error::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {column_type}"),
            ));
        }
        return Ok(&text[..end]);
    }
    Ok(text)
}

/// Cuts a string with `kept`; returns the value itself if nothing is removed.
fn fit_text(value: Value, kept: impl FnOnce(&str) -> Result<&str>) -> Result<Value> {
    if let Value::Text(text) = &value {
        let kept = kept(text)?;
        if kept.len() < text.len() {
            return Ok(Value::text(kept));
        }
    }
    Ok(value)
}

/// Cells and keys of a type whose values are stored as plain text.
macro_rules! stored_as_text {
    () => {
        #[inline]
        fn from_cell(cell: &[u8]) -> Result<Value> {
            from_cell(cell)
        }

        #[inline]
        fn write_cell_key(cell: &[u8], key: &mut Vec<u8>) -> Result<()> {
            write_cell_key(cell, key);
            Ok(())
        }

        fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
            read_key(key)
        }
    };
}

impl TypeOperations for Text {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        preferred: true,
        ..string(
            25,
            "text",
            "text",
            DataType::TextArray,
            Modifier::None,
            OperatorClass::Own {
                oid: 3126,
                name: "text_ops",
                family: TEXT_FAMILY,
            },
            Extremes::Same,
        )
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        parse(text)
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        parse_binary(bytes)
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    stored_as_text!();
}

impl TypeOperations for VarChar {
    type Representation = Text;

    const FACTS: TypeFacts = string(
        1043,
        "varchar",
        "character varying",
        DataType::VarCharArray,
        Modifier::Length,
        OperatorClass::Of(DataType::Text),
        Extremes::Of(DataType::Text),
    );
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        parse(text)
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        parse_binary(bytes)
    }

    fn fit(value: Value, column_type: ColumnType, fit: Fit) -> Result<Value> {
        fit_text(value, |text| cut(text, column_type, fit))
    }

    stored_as_text!();
}

impl TypeOperations for Char {
    type Representation = Text;

    const FACTS: TypeFacts = string(
        1042,
        "bpchar",
        "character",
        DataType::CharArray,
        Modifier::Length,
        OperatorClass::Own {
            oid: 10_004,
            name: "bpchar_ops",
            family: (426, "bpchar_ops"),
        },
        Extremes::Same,
    );
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        parse(text)
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        parse_binary(bytes)
    }

    fn fit(value: Value, column_type: ColumnType, fit: Fit) -> Result<Value> {
        fit_text(value, |text| {
            Ok(cut(text, column_type, fit)?.trim_end_matches(' '))
        })
    }

    stored_as_text!();
}

impl TypeOperations for Name {
    type Representation = Text;

    const FACTS: TypeFacts = TypeFacts {
        oid: 19,
        name: "name",
        sql_name: "name",
        length: 64,
        family: Family::String,
        structure: Structure::Characters,
        array: Some(DataType::NameArray),
        modifier: Modifier::None,
        category: Category::String,
        preferred: false,
        by_value: false,
        alignment: Alignment::Char,
        storage: Storage::Plain,
        collation: Some(Collation::C),
        functions: "name",
        operator_class: OperatorClass::Own {
            oid: 10_028,
            name: "name_ops",
            family: TEXT_FAMILY,
        },
        extremes: Extremes::Of(DataType::Text),
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        check_text(text)?;
        Ok(Value::text(truncate_name(text)))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        Ok(Value::text(truncate_name(binary::utf8(bytes)?)))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    stored_as_text!();
}

impl TypeOperations for Unknown {
    type Representation = Text;

    const FACTS: TypeFacts = TypeFacts {
        oid: 705,
        name: "unknown",
        sql_name: "unknown",
        length: -2,
        family: Family::Other,
        structure: Structure::Scalar,
        array: None,
        modifier: Modifier::None,
        category: Category::Unknown,
        preferred: false,
        by_value: false,
        alignment: Alignment::Char,
        storage: Storage::Plain,
        collation: None,
        functions: "unknown",
        operator_class: OperatorClass::None,
        extremes: Extremes::Of(DataType::Text),
    };

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        parse(text)
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        parse_binary(bytes)
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    catalog_only!();
}

impl TypeOperations for Void {
    type Representation = Text;

    const FACTS: TypeFacts = TypeFacts {
        oid: 2278,
        name: "void",
        sql_name: "void",
        length: 4,
        family: Family::Other,
        structure: Structure::Scalar,
        array: None,
        modifier: Modifier::None,
        category: Category::Pseudo,
        preferred: false,
        by_value: true,
        alignment: Alignment::Int,
        storage: Storage::Plain,
        collation: None,
        functions: "void_",
        operator_class: OperatorClass::None,
        extremes: Extremes::None,
    };

    fn parse_text(_text: &str, _style: &Style) -> Result<Value> {
        Ok(Value::text(""))
    }

    fn parse_binary(_bytes: &[u8]) -> Result<Value> {
        Err(malformed(DataType::Void))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    catalog_only!();
}

impl Representation for Text {
    type Content<'value> = &'value str;

    #[inline]
    fn content(value: &Value) -> Option<&str> {
        let Value::Text(text) = value else {
            return None;
        };
        Some(text)
    }

    #[inline]
    fn write_text(text: &str, column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.extend_from_slice(text.as_bytes());
        if column_type.data_type == DataType::Char
            && let Some(length) = column_type.length()
        {
            let characters = text.chars().count();
            out.resize(out.len() + length.saturating_sub(characters), b' ');
        }
    }

    #[inline]
    fn write_binary(text: &str, column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
        if column_type.data_type == DataType::JsonPath {
            out.push(super::json::BINARY_VERSION);
        }
        if column_type.data_type == DataType::Tid
            && let Some((block, place)) = transaction::parts(text)
        {
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&place.to_be_bytes());
            return;
        }
        Self::write_text(text, column_type, style, out);
    }

    #[inline]
    fn write_cell(text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn write_key(text: &str, key: &mut Vec<u8>) {
        write_cell_key(text.as_bytes(), key);
    }

    #[inline]
    fn order(left: &str, right: &str) -> Ordering {
        left.as_bytes().cmp(right.as_bytes())
    }
}

/// The byte that a text stands for as `"char"`: its first one, or the one that it writes as
/// a backslash with three octal digits.
pub(in crate::value) fn byte_of(text: &str) -> u8 {
    let octal = |digit: u8| (b'0'..=b'7').contains(&digit);
    match text.as_bytes() {
        [b'\\', digits @ ..] if digits.len() == 3 && digits.iter().copied().all(octal) => {
            let value = digits
                .iter()
                .fold(0_u32, |value, digit| value << 3 | u32::from(digit - b'0'));
            value as u8
        }
        bytes => bytes.first().copied().unwrap_or(0),
    }
}

impl TypeOperations for InternalChar {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 18,
        name: "char",
        sql_name: "\"char\"",
        length: 1,
        family: Family::Other,
        structure: Structure::Scalar,
        array: Some(DataType::InternalCharArray),
        modifier: Modifier::None,
        category: Category::Internal,
        preferred: false,
        by_value: true,
        alignment: Alignment::Char,
        storage: Storage::Plain,
        collation: None,
        functions: "char",
        operator_class: OperatorClass::Own {
            oid: 10_007,
            name: "char_ops",
            family: (429, "char_ops"),
        },
        extremes: Extremes::Of(DataType::Text),
    };
    const STORABLE: bool = false;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        check_text(text)?;
        Ok(Value::Char(byte_of(text)))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let [byte] = binary::exact(bytes, DataType::InternalChar)?;
        Ok(Value::Char(byte))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    fn from_cell(cell: &[u8]) -> Result<Value> {
        let [byte] = exact_cell(cell)?;
        Ok(Value::Char(byte))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        key.u8().map(Value::Char)
    }
}

impl Representation for InternalChar {
    type Content<'value> = u8;

    #[inline]
    fn content(value: &Value) -> Option<u8> {
        let Value::Char(byte) = value else {
            return None;
        };
        Some(*byte)
    }

    fn write_text(byte: u8, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        match byte {
            0 => {}
            // A byte that is no character by itself.
            0x80.. => write!(out, "\\{byte:03o}").expect("a vector takes every write"),
            _ => out.push(byte),
        }
    }

    fn write_binary(byte: u8, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.push(byte);
    }

    fn write_cell(byte: u8, out: &mut Vec<u8>) {
        out.push(byte);
    }

    fn write_key(byte: u8, key: &mut Vec<u8>) {
        key.push(byte);
    }

    fn order(left: u8, right: u8) -> Ordering {
        left.cmp(&right)
    }
}
