//! Resolution of SQL type names to column types.

use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as Ast, ExactNumberInfo, TimezoneInfo,
};

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
pub fn resolve_type(ast: &Ast) -> Result<ColumnType> {
    let simple = |data_type: DataType| Ok(ColumnType::from(data_type));
    match ast {
        Ast::Bool | Ast::Boolean => simple(DataType::Bool),
        Ast::SmallInt(None) | Ast::Int2(None) => simple(DataType::Int2),
        Ast::Int(None) | Ast::Integer(None) | Ast::Int4(None) => simple(DataType::Int4),
        Ast::BigInt(None) | Ast::Int8(None) => simple(DataType::Int8),
        Ast::Real | Ast::Float4 => simple(DataType::Float4),
        Ast::DoublePrecision | Ast::Float8 => simple(DataType::Float8),
        Ast::Float(info) => match info {
            ExactNumberInfo::None => simple(DataType::Float8),
            ExactNumberInfo::Precision(1..=24) => simple(DataType::Float4),
            ExactNumberInfo::Precision(25..=53) => simple(DataType::Float8),
            ExactNumberInfo::Precision(0) => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "precision for type float must be at least 1 bit",
            )),
            _ => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "precision for type float must be less than 54 bits",
            )),
        },
        Ast::Numeric(info) | Ast::Decimal(info) | Ast::Dec(info) => match info {
            ExactNumberInfo::None => simple(DataType::Numeric),
            ExactNumberInfo::Precision(precision) => ColumnType::numeric(*precision, 0),
            ExactNumberInfo::PrecisionAndScale(precision, scale) => {
                ColumnType::numeric(*precision, *scale)
            }
        },
        Ast::Text => simple(DataType::Text),
        Ast::Character(length) | Ast::Char(length) => {
            string(DataType::Char, length.as_ref().or(Some(&ONE)))
        }
        Ast::Varchar(length) | Ast::CharVarying(length) | Ast::CharacterVarying(length) => {
            string(DataType::VarChar, length.as_ref())
        }
        Ast::Date => simple(DataType::Date),
        Ast::Timestamp(precision, zone) => {
            let data_type = match zone {
                TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => DataType::Timestamp,
                TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => DataType::TimestampTz,
            };
            Ok(ColumnType {
                data_type,
                // A precision above the maximum means full precision.
                modifier: precision.map_or(-1, |digits| digits.min(6) as i32),
            })
        }
        Ast::Regclass => simple(DataType::Regclass),
        Ast::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            let element = resolve_type(element)?;
            match element.data_type.array() {
                Some(array) => Ok(ColumnType {
                    data_type: array,
                    modifier: element.modifier,
                }),
                None => Err(Error::unsupported(format_args!(
                    "an array of {}",
                    element.data_type
                ))),
            }
        }
        Ast::Custom(name, modifiers) => {
            let parts: Vec<String> = name
                .0
                .iter()
                .filter_map(|part| part.as_ident().map(fold_name))
                .collect();
            let (schema, last) = match parts.as_slice() {
                [last] => (None, last.as_str()),
                [schema, last] => (Some(schema.as_str()), last.as_str()),
                _ => return Err(undefined(&name.to_string())),
            };
            if schema.is_some_and(|schema| schema != "pg_catalog") {
                return Err(undefined(&parts.join(".")));
            }
            named(last, modifiers)
        }
        // Types that the parser knows, and that have the same name here.
        other => {
            let name = other.to_string().to_lowercase();
            match by_name(&name) {
                Some(known) => simple(known),
                None => Err(Error::unsupported(format_args!("the type {name}"))),
            }
        }
    }
}

/// Looks a type up by its name in `pg_type`.
fn by_name(name: &str) -> Option<DataType> {
    let mut named = DataType::ALL.iter().filter(|known| known.name() == name);
    named.find(|known| **known != DataType::Void).copied()
}

/// `char` without a length is `char(1)`.
const ONE: CharacterLength = CharacterLength::IntegerLength {
    length: 1,
    unit: None,
};

fn string(data_type: DataType, length: Option<&CharacterLength>) -> Result<ColumnType> {
    match length {
        None => Ok(data_type.into()),
        Some(CharacterLength::IntegerLength { length, .. }) => {
            ColumnType::string(data_type, *length)
        }
        Some(CharacterLength::Max) => Err(Error::unsupported("a string length of MAX")),
    }
}

/// Resolves a type that the parser does not know, by its name in `pg_type`.
fn named(name: &str, modifiers: &[String]) -> Result<ColumnType> {
    let number = |text: &String| -> Result<u64> {
        text.trim()
            .parse()
            .map_err(|_| Error::syntax(format!("invalid type modifier \"{text}\"")))
    };
    if name == "int" || name == "integer" {
        return Ok(DataType::Int4.into());
    }
    let known = by_name(name).ok_or_else(|| match UNSUPPORTED.contains(&name) {
        true => Error::unsupported(format_args!("the type {name}")),
        false => undefined(name),
    })?;
    match (known.facts().modifier, modifiers) {
        (_, []) => Ok(known.into()),
        (Modifier::Length, [length]) => ColumnType::string(known, number(length)?),
        (Modifier::PrecisionAndScale, [precision]) => ColumnType::numeric(number(precision)?, 0),
        (Modifier::PrecisionAndScale, [precision, scale]) => {
            ColumnType::numeric(number(precision)?, number(scale)? as i64)
        }
        (Modifier::Fraction, [digits]) => Ok(ColumnType {
            data_type: known,
            modifier: number(digits)?.min(6) as i32,
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
