//! System tables of types and collations: `pg_type`, `pg_collation`.

#![deny(clippy::wildcard_enum_match_arm)]

use super::relations::array_oid;
use crate::Value;
use crate::system::table::{function, system_table};
use crate::system::{C_COLLATION, DEFAULT_COLLATION, PG_CATALOG as PG_CATALOG_NAMESPACE, ROLE};
use crate::value::{Category, Collation, DataType, Modifier, Structure};

/// OID of a type's collation; 0 if it has none.
pub(in crate::system) fn collation_oid(data_type: DataType) -> u32 {
    match data_type.facts().collation {
        None => 0,
        Some(Collation::Default) => DEFAULT_COLLATION,
        Some(Collation::C) => C_COLLATION,
    }
}

/// OID of the element type of a type; 0 if it has none.
fn element_oid(data_type: DataType) -> u32 {
    match data_type.facts().structure {
        Structure::Scalar => 0,
        Structure::Characters => DataType::InternalChar.oid(),
        Structure::Array(element) | Structure::Vector(element) => element.oid(),
        // `aclitem`, which has no row in `pg_type` here.
        Structure::AclItems => 1033,
    }
}

/// The function that parses (`in`), prints (`out`), receives (`recv`) or sends (`send`)
/// a type's values.
fn conversion(data_type: DataType, what: &str) -> Value {
    function(&format!("{}{what}", data_type.facts().functions))
}

/// The function that parses or prints a type's modifier.
fn modifier(data_type: DataType, what: &str) -> Value {
    let base = data_type.element().unwrap_or(data_type);
    match base.facts().modifier {
        Modifier::None => function(""),
        Modifier::Length
        | Modifier::PrecisionAndScale
        | Modifier::Fraction
        | Modifier::Interval => function(&format!("{}{what}", base.name())),
    }
}

fn subscript(data_type: DataType) -> Value {
    if data_type == DataType::Jsonb {
        return function("jsonb_subscript_handler");
    }
    function(match data_type.facts().structure {
        Structure::Scalar => "",
        Structure::Characters => "raw_array_subscript_handler",
        Structure::Array(_) | Structure::Vector(_) | Structure::AclItems => {
            "array_subscript_handler"
        }
    })
}

/// `pg_type.typtype`: whether the type is a base type or a pseudo-type.
fn kind(data_type: DataType) -> u8 {
    match data_type.facts().category {
        Category::Unknown | Category::Pseudo => b'p',
        Category::Array
        | Category::Boolean
        | Category::DateTime
        | Category::Internal
        | Category::Numeric
        | Category::String
        | Category::Timespan
        | Category::User => b'b',
    }
}

system_table! {
    /// Data types.
    PG_TYPE = PG_CATALOG 1247 Table pg_type;
    _context => DataType::ALL.iter().map(|each| (*each, each.facts()));
    (each, facts) => {
        oid: Oid = each.oid(),
        typname: Name = each.name(),
        typnamespace: Oid = PG_CATALOG_NAMESPACE,
        typowner: Oid = ROLE,
        typlen: Int2 = each.length(),
        typbyval: Bool = facts.by_value,
        typtype: InternalChar = kind(each),
        typcategory: InternalChar = facts.category as u8,
        typispreferred: Bool = facts.preferred,
        typisdefined: Bool = true,
        typdelim: InternalChar = b',',
        typrelid: Oid = 0u32,
        typsubscript: Regproc = subscript(each),
        typelem: Oid = element_oid(each),
        typarray: Oid = array_oid(each),
        typinput: Regproc = conversion(each, "in"),
        typoutput: Regproc = conversion(each, "out"),
        typreceive: Regproc = conversion(each, "recv"),
        typsend: Regproc = conversion(each, "send"),
        typmodin: Regproc = modifier(each, "typmodin"),
        typmodout: Regproc = modifier(each, "typmodout"),
        typanalyze: Regproc = function(if each.element().is_some() { "array_typanalyze" } else { "" }),
        typalign: InternalChar = facts.alignment as u8,
        typstorage: InternalChar = facts.storage as u8,
        typnotnull: Bool = false,
        typbasetype: Oid = 0u32,
        typtypmod: Int4 = -1i32,
        typndims: Int4 = 0i32,
        typcollation: Oid = collation_oid(each),
        typdefaultbin: Text = Value::Null,
        typdefault: Text = Value::Null,
        typacl: AclItemArray = Value::Null,
    }
}

system_table! {
    /// Collations, all of which compare strings by their bytes.
    PG_COLLATION = PG_CATALOG 3456 Table pg_collation;
    _context => [
        (DEFAULT_COLLATION, "default", b'd', None),
        (C_COLLATION, "C", b'c', Some("C")),
        (951, "POSIX", b'c', Some("POSIX")),
    ];
    (oid, name, provider, locale) => {
        oid: Oid = oid,
        collname: Name = name,
        collnamespace: Oid = PG_CATALOG_NAMESPACE,
        collowner: Oid = ROLE,
        collprovider: InternalChar = provider,
        collisdeterministic: Bool = true,
        collencoding: Int4 = -1i32,
        collcollate: Text = locale,
        collctype: Text = locale,
        colliculocale: Text = Value::Null,
        collversion: Text = Value::Null,
    }
}
