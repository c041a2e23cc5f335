//! Resolution of SQL type names to column types.

use coeval_sql_syntax::tree::{BaseType, Builtin, Expr, ExprKind, Literal, Path, TypeName};

use super::fold_name;
use crate::value::{ColumnType, DataType, Modifier};
use crate::{Error, Result, SqlState};

fn undefined(name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("type \"{name}\" does not exist"),
    )
}

/// Resolves a parsed type name.
pub fn resolve_type(name: &TypeName) -> Result<ColumnType> {
    if name.setof {
        return Err(Error::unsupported("SETOF"));
    }
    let base = match &name.base {
        BaseType::Builtin(kind, modifiers) => builtin(*kind, modifiers)?,
        BaseType::Interval(..) => return Err(Error::unsupported("the type interval")),
        BaseType::Named(path, modifiers) => named(path, modifiers)?,
        BaseType::OfColumn(_) => return Err(Error::unsupported("%TYPE")),
    };
    // As in PostgreSQL, neither lengths nor the number of dimensions belong to the type.
    if name.dimensions.is_empty() {
        return Ok(base);
    }
    match base.data_type.array() {
        Some(array) => Ok(ColumnType {
            data_type: array,
            modifier: base.modifier,
        }),
        None => Err(Error::unsupported(format_args!(
            "an array of {}",
            base.data_type
        ))),
    }
}

/// Resolves a type that the grammar has words for.
fn builtin(kind: Builtin, modifiers: &[Expr]) -> Result<ColumnType> {
    let data_type = match kind {
        Builtin::Smallint => DataType::Int2,
        Builtin::Integer => DataType::Int4,
        Builtin::Bigint => DataType::Int8,
        Builtin::Real => DataType::Float4,
        Builtin::Double => DataType::Float8,
        Builtin::Numeric => DataType::Numeric,
        Builtin::Boolean => DataType::Bool,
        Builtin::Character => DataType::Char,
        Builtin::CharacterVarying => DataType::VarChar,
        Builtin::Timestamp => DataType::Timestamp,
        Builtin::TimestampWithZone => DataType::TimestampTz,
        Builtin::Bit => return Err(Error::unsupported("the type bit")),
        Builtin::BitVarying => return Err(Error::unsupported("the type bit varying")),
        Builtin::Time => return Err(Error::unsupported("the type time")),
        Builtin::TimeWithZone => return Err(Error::unsupported("the type time with time zone")),
    };
    with_modifiers(data_type, data_type.name(), modifiers)
}

/// Looks a type up by its name in `pg_type`.
fn by_name(name: &str) -> Option<DataType> {
    let mut named = DataType::ALL.iter().filter(|known| known.name() == name);
    named.find(|known| **known != DataType::Void).copied()
}

/// Resolves a type by its name in `pg_type`.
fn named(path: &Path, modifiers: &[Expr]) -> Result<ColumnType> {
    let parts: Vec<String> = path.0.iter().map(fold_name).collect();
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name.as_str()),
        [schema, name] => (Some(schema.as_str()), name.as_str()),
        _ => return Err(undefined(&parts.join("."))),
    };
    if schema.is_some_and(|schema| schema != "pg_catalog") {
        return Err(undefined(&parts.join(".")));
    }
    let known = by_name(name).ok_or_else(|| match UNSUPPORTED.contains(&name) {
        true => Error::unsupported(format_args!("the type {name}")),
        false => undefined(name),
    })?;
    with_modifiers(known, name, modifiers)
}

/// A type with what stands in brackets behind its name.
fn with_modifiers(known: DataType, name: &str, modifiers: &[Expr]) -> Result<ColumnType> {
    let mut numbers = Vec::with_capacity(modifiers.len());
    for modifier in modifiers {
        let ExprKind::Literal(Literal::Integer(number)) = modifier.kind else {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "type modifiers must be simple constants or identifiers",
            ));
        };
        numbers.push(i64::from(number));
    }
    // What is below zero is too small for every type, and zero is so for all but scales.
    let length = |number: i64| u64::try_from(number).unwrap_or(0);
    match (known.facts().modifier, numbers.as_slice()) {
        (_, []) => Ok(known.into()),
        (Modifier::Length, [number]) => ColumnType::string(known, length(*number)),
        (Modifier::PrecisionAndScale, [precision]) => ColumnType::numeric(length(*precision), 0),
        (Modifier::PrecisionAndScale, [precision, scale]) => {
            ColumnType::numeric(length(*precision), *scale)
        }
        // A precision above the maximum means full precision.
        (Modifier::Fraction, [digits]) => Ok(ColumnType {
            data_type: known,
            modifier: length(*digits).min(6) as i32,
        }),
        (
            Modifier::None | Modifier::Length | Modifier::PrecisionAndScale | Modifier::Fraction,
            _,
        ) => Err(Error::syntax(format!(
            "type modifier is not allowed for type \"{name}\""
        ))),
    }
}

/// Types of PostgreSQL that Coeval does not implement; the error says so.
const UNSUPPORTED: &[&str] = &[
    "serial",
    "serial2",
    "serial4",
    "serial8",
    "bigserial",
    "smallserial",
    "money",
    "bytea",
    "time",
    "timetz",
    "interval",
    "uuid",
    "json",
    "jsonb",
    "xml",
    "inet",
    "cidr",
    "macaddr",
    "bit",
    "varbit",
    "point",
    "line",
    "lseg",
    "box",
    "path",
    "polygon",
    "circle",
    "tsvector",
    "tsquery",
    "hstore",
    "citext",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
];
