//! Resolution of SQL type names to column types.

use coeval_sql_syntax::tree::{
    BaseType, Builtin, Expr, ExprKind, IntervalFields, Literal, Path, TypeName,
};

use super::fold_name;
use crate::value::interval::IntervalRange;
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
        BaseType::Interval(fields, digits) => ColumnType {
            data_type: DataType::Interval,
            modifier: interval_modifier(*fields, digits.map(i64::from)),
        },
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
        Builtin::Time => DataType::Time,
        Builtin::TimeWithZone => DataType::TimeTz,
    };
    with_modifiers(data_type, data_type.name(), modifiers)
}

/// The modifier of an interval type. More digits of a second's fraction than there are
/// mean all.
fn interval_modifier(fields: IntervalFields, digits: Option<i64>) -> i32 {
    IntervalRange::modifier(fields, digits.map(|digits| digits.clamp(0, 6) as u32))
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
        (Modifier::Interval, [digits]) => Ok(ColumnType {
            data_type: known,
            modifier: interval_modifier(IntervalFields::All, Some(*digits)),
        }),
        // A precision above the maximum means full precision.
        (Modifier::Fraction, [digits]) => Ok(ColumnType {
            data_type: known,
            modifier: length(*digits).min(6) as i32,
        }),
        (
            Modifier::None
            | Modifier::Length
            | Modifier::PrecisionAndScale
            | Modifier::Fraction
            | Modifier::Interval,
            _,
        ) => Err(Error::syntax(format!(
            "type modifier is not allowed for type \"{name}\""
        ))),
    }
}

/// Types of PostgreSQL that Coeval does not implement; the error says so.
const UNSUPPORTED: &[&str] = &[
    "money",
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
