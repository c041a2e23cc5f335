//! Object identifier types (`regclass` and its like): lookup of objects by name and by
//! OID.
//!
//! ```text
//!   'public.orders'::regclass   16402, printed orders
//!   '16402'::regclass           the same
//!   16403::regclass             16403, printed 16403, if no relation has this OID
//! ```
//!
//! An object prints under the name that resolves to it: with its schema only if the
//! search path does not find it.

#![deny(clippy::wildcard_enum_match_arm)]

mod identifier;
mod name;
pub(super) mod procedure;

use smol_str::{SmolStr, format_smolstr};

pub(super) use identifier::parse_identifier;
use name::parse_name;

use super::relation::{Relation, relation_by_oid, relation_in, search_path};
use super::{role_by_name, role_name, schema_name, schemas};
use crate::catalog::quote_identifier;
use crate::expression::{EvaluationContext, resolve_type};
use crate::statement::parse_type;
use crate::value::{DataType, ObjectType};
use crate::{Error, Result, SqlState, Value};

/// The object of an object type (`data_type`) that a string names. Errors 42P01, 42704,
/// 3F000, 42883, 42602.
pub(super) fn object_by_name(
    data_type: DataType,
    text: &str,
    context: &EvaluationContext<'_>,
) -> Result<Value> {
    let trimmed = text.trim();
    if trimmed == "-" {
        return Ok(object_by_oid(data_type, 0, context));
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        let oid: u32 = trimmed.parse().map_err(|_| {
            Error::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{trimmed}\" is out of range for type oid"),
            )
        })?;
        return Ok(object_by_oid(data_type, oid, context));
    }
    match find(data_type, trimmed, context)? {
        Some(oid) => Ok(object_by_oid(data_type, oid, context)),
        None => Err(match data_type.object() {
            Some(ObjectType::Regclass) => Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{trimmed}\" does not exist"),
            ),
            Some(ObjectType::Regnamespace) => Error::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{trimmed}\" does not exist"),
            ),
            Some(ObjectType::Regrole) => Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("role \"{trimmed}\" does not exist"),
            ),
            Some(ObjectType::Regoper | ObjectType::Regoperator) => Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: {trimmed}"),
            ),
            Some(ObjectType::Regproc | ObjectType::Regprocedure) => Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function \"{trimmed}\" does not exist"),
            ),
            Some(ObjectType::Regtype) | None => Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("type \"{trimmed}\" does not exist"),
            ),
        }),
    }
}

/// OID of the object that a string names; `None` if it does not exist.
pub(super) fn find(
    data_type: DataType,
    text: &str,
    context: &EvaluationContext<'_>,
) -> Result<Option<u32>> {
    let Some(kind) = data_type.object() else {
        return Ok(None);
    };
    match kind {
        ObjectType::Regtype => return type_by_name(text),
        ObjectType::Regprocedure => return procedure_with_arguments(text),
        // No operator has a row in pg_operator.
        ObjectType::Regoper | ObjectType::Regoperator => return Ok(None),
        ObjectType::Regproc
        | ObjectType::Regclass
        | ObjectType::Regnamespace
        | ObjectType::Regrole => {}
    }
    let parts = parse_name(text)?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(match (kind, parts.as_slice()) {
        (ObjectType::Regclass, [name]) => search_path(context)
            .iter()
            .find_map(|schema| relation_in(context.catalog, schema, name)),
        (ObjectType::Regclass, [schema, name] | [_, schema, name]) => {
            relation_in(context.catalog, schema, name)
        }
        (ObjectType::Regnamespace, [name]) => schemas(context.catalog)
            .find(|(_, known, _)| known == name)
            .map(|(oid, _, _)| oid),
        (ObjectType::Regrole, [name]) => role_by_name(name, context),
        (ObjectType::Regproc, [name] | ["pg_catalog", name]) => procedure::oid(name),
        // The name has more parts than a name of this kind of object.
        (
            ObjectType::Regclass
            | ObjectType::Regnamespace
            | ObjectType::Regrole
            | ObjectType::Regproc
            | ObjectType::Regprocedure
            | ObjectType::Regoper
            | ObjectType::Regoperator
            | ObjectType::Regtype,
            _,
        ) => None,
    })
}

/// OID of the function with this name and these types of arguments, `name(type, type)`.
fn procedure_with_arguments(text: &str) -> Result<Option<u32>> {
    let Some((name, rest)) = text.split_once('(') else {
        return Err(Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "expected a left parenthesis",
        ));
    };
    let Some(list) = rest.trim_end().strip_suffix(')') else {
        return Err(Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "expected a right parenthesis",
        ));
    };
    let parts = parse_name(name)?;
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return Ok(None),
    };
    let mut arguments = Vec::new();
    for argument in list.split(',').map(str::trim) {
        if argument.is_empty() && list.trim().is_empty() {
            break;
        }
        arguments.push(match argument {
            // Types that no value has.
            "cstring" | "internal" | "cstring[]" | "anyarray" => argument.to_owned(),
            argument => match type_by_name(argument)?.and_then(DataType::from_oid) {
                Some(data_type) => data_type.sql_name().to_owned(),
                None => return Ok(None),
            },
        });
    }
    let oid = procedure::oid(name);
    Ok(oid.filter(|_| procedure::arguments(name) == arguments.join(",")))
}

/// OID of the type with this SQL name.
fn type_by_name(text: &str) -> Result<Option<u32>> {
    let parsed = parse_type(text).map_err(|_| {
        Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("type \"{text}\" does not exist"),
        )
    })?;
    match resolve_type(&parsed) {
        Ok(found) => Ok(Some(found.data_type.oid())),
        Err(error) if error.state() == SqlState::UNDEFINED_OBJECT => Ok(None),
        // A type of PostgreSQL that Coeval does not implement.
        Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => Ok(None),
        Err(error) => Err(error),
    }
}

/// The object of an object type with this OID; it prints as the OID if it does not
/// exist.
pub(super) fn object_by_oid(
    data_type: DataType,
    oid: u32,
    context: &EvaluationContext<'_>,
) -> Value {
    let printed = match data_type.object() {
        _ if oid == 0 => Some(SmolStr::new_static("-")),
        Some(ObjectType::Regclass) => {
            relation_by_oid(context.catalog, oid).map(|relation| relation_name(relation, context))
        }
        Some(ObjectType::Regtype) => {
            DataType::from_oid(oid).map(|found| SmolStr::new(found.sql_name()))
        }
        Some(ObjectType::Regnamespace) => schema_name(oid).map(SmolStr::new_static),
        Some(ObjectType::Regrole) => {
            role_name(oid, context).map(|name| SmolStr::new(quote_identifier(&name)))
        }
        Some(ObjectType::Regproc) => procedure::name(oid).map(SmolStr::new_static),
        Some(ObjectType::Regprocedure) => procedure::with_arguments(oid).map(SmolStr::new),
        Some(ObjectType::Regoper | ObjectType::Regoperator) => None,
        None => None,
    };
    Value::Object(oid, printed.unwrap_or_else(|| format_smolstr!("{oid}")))
}

fn relation_name(relation: Relation<'_>, context: &EvaluationContext<'_>) -> SmolStr {
    let name = quote_identifier(relation.name());
    if relation.is_visible(context) {
        return SmolStr::new(name);
    }
    let schema = schema_name(relation.namespace()).unwrap_or_default();
    format_smolstr!("{}.{name}", quote_identifier(schema))
}
