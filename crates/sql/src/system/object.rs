//! Objects by name and by number: what `regclass` and its like print and read.

use smol_str::SmolStr;

use crate::catalog::Relation;
use crate::expression::EvaluationContext;
use crate::value::DataType;
use crate::{Error, Result, SqlState, Value};

/// A name as it must be written to mean itself.
#[must_use]
pub(crate) fn quote_identifier(name: &str) -> String {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit();
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// An object by its number, as it prints.
pub(crate) fn object_by_oid(
    data_type: DataType,
    oid: u32,
    context: &EvaluationContext<'_>,
) -> Value {
    let name = match data_type {
        DataType::Regclass => context
            .catalog
            .table_by_oid(oid)
            .map(|table| SmolStr::from(quote_identifier(&table.name))),
        DataType::Regtype => {
            DataType::from_oid(oid).map(|data_type| SmolStr::new_static(data_type.sql_name()))
        }
        _ => None,
    };
    Value::Object(oid, name.unwrap_or_else(|| SmolStr::from(oid.to_string())))
}

/// An object by its name, or by its number in digits.
pub(crate) fn object_by_name(
    data_type: DataType,
    text: &str,
    context: &EvaluationContext<'_>,
) -> Result<Value> {
    if let Ok(oid) = text.parse::<u32>() {
        return Ok(object_by_oid(data_type, oid, context));
    }
    let oid = match (data_type, context.catalog.relation(text)) {
        (DataType::Regclass, Some(Relation::Table(table))) => Some(table.oid),
        (DataType::Regclass, Some(Relation::Index(_, index))) => Some(index.oid),
        _ => None,
    };
    match oid {
        Some(oid) => Ok(object_by_oid(data_type, oid, context)),
        None => Err(Error::new(
            SqlState::UNDEFINED_TABLE,
            format!("relation \"{text}\" does not exist"),
        )),
    }
}
