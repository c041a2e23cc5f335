//! Types and collations: `pg_type`, `pg_collation`.

use super::relations::array_oid;
use crate::Value;
use crate::system::table::{function, system_table};
use crate::system::{C_COLLATION, DEFAULT_COLLATION, PG_CATALOG as PG_CATALOG_NAMESPACE, ROLE};
use crate::value::DataType;

/// What `pg_type` and `pg_attribute` say of a type besides its names.
pub(in crate::system) struct TypeAttributes {
    pub(in crate::system) by_value: bool,
    pub(in crate::system) alignment: u8,
    pub(in crate::system) storage: u8,
    pub(in crate::system) collation: u32,
    category: u8,
    preferred: bool,
}

/// What `pg_type` says of a type.
pub(in crate::system) fn attributes_of(data_type: DataType) -> TypeAttributes {
    use DataType as T;
    let element = data_type.element();
    let base = element.unwrap_or(data_type);
    let vector = matches!(data_type, T::Int2Vector | T::OidVector);
    TypeAttributes {
        by_value: matches!(data_type.length(), 1 | 2 | 4 | 8),
        alignment: match (element, data_type) {
            (Some(_), _) if base.length() == 8 => b'd',
            (Some(_), _) => b'i',
            (None, T::Int2) => b's',
            (None, T::Bool | T::InternalChar | T::Name | T::Unknown) => b'c',
            (None, _) if data_type.length() == 8 => b'd',
            (None, _) => b'i',
        },
        storage: match data_type {
            T::Numeric => b'm',
            _ if vector => b'p',
            _ if data_type.length() == -1 => b'x',
            _ => b'p',
        },
        collation: match base {
            _ if matches!(data_type, T::AclItemArray) => 0,
            T::Text | T::VarChar | T::Char => DEFAULT_COLLATION,
            T::Name => C_COLLATION,
            _ => 0,
        },
        category: match data_type {
            _ if element.is_some() => b'A',
            T::Bool => b'B',
            T::InternalChar => b'Z',
            T::Name | T::Text | T::VarChar | T::Char => b'S',
            T::Date | T::Timestamp | T::TimestampTz => b'D',
            T::Unknown => b'X',
            T::Void => b'P',
            _ => b'N',
        },
        preferred: matches!(
            data_type,
            T::Bool | T::Text | T::Oid | T::Float8 | T::TimestampTz
        ),
    }
}

/// The number of the type of a type's elements, 0 if it has none.
fn element_oid(data_type: DataType) -> u32 {
    match data_type {
        DataType::AclItemArray => 1033,
        DataType::Name => DataType::InternalChar.oid(),
        _ => data_type.element().map_or(0, DataType::oid),
    }
}

/// The function that reads (`in`), prints (`out`), receives (`recv`) or sends
/// (`send`) a type's values.
fn conversion(data_type: DataType, what: &str) -> Value {
    use DataType as T;
    let vector = matches!(data_type, T::Int2Vector | T::OidVector);
    if data_type.element().is_some() && !vector {
        return function(&format!("array_{what}"));
    }
    let join = match data_type {
        T::Date | T::Timestamp | T::TimestampTz | T::Numeric | T::Void => "_",
        _ => "",
    };
    function(&format!("{}{join}{what}", data_type.name()))
}

/// The function that reads or prints a type's modifier.
fn modifier(data_type: DataType, what: &str) -> Value {
    use DataType as T;
    let base = data_type.element().unwrap_or(data_type);
    match base {
        T::Char | T::VarChar | T::Numeric | T::Timestamp | T::TimestampTz => {
            function(&format!("{}{what}", base.name()))
        }
        _ => function(""),
    }
}

fn subscript(data_type: DataType) -> Value {
    function(match data_type {
        DataType::Name => "raw_array_subscript_handler",
        _ if data_type.element().is_some() => "array_subscript_handler",
        _ => "",
    })
}

system_table! {
    /// Types.
    PG_TYPE = PG_CATALOG 1247 Table pg_type;
    _context => DataType::ALL.iter().map(|each| (*each, attributes_of(*each)));
    (each, attributes) => {
        oid: Oid = each.oid(),
        typname: Name = each.name(),
        typnamespace: Oid = PG_CATALOG_NAMESPACE,
        typowner: Oid = ROLE,
        typlen: Int2 = each.length(),
        typbyval: Bool = attributes.by_value,
        typtype: InternalChar = if matches!(attributes.category, b'X' | b'P') { b'p' } else { b'b' },
        typcategory: InternalChar = attributes.category,
        typispreferred: Bool = attributes.preferred,
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
        typalign: InternalChar = attributes.alignment,
        typstorage: InternalChar = attributes.storage,
        typnotnull: Bool = false,
        typbasetype: Oid = 0u32,
        typtypmod: Int4 = -1i32,
        typndims: Int4 = 0i32,
        typcollation: Oid = attributes.collation,
        typdefaultbin: Text = Value::Null,
        typdefault: Text = Value::Null,
        typacl: AclItemArray = Value::Null,
    }
}

system_table! {
    /// Collations: strings compare by their bytes.
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
