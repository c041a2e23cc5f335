//! SQL functions over the system tables.
//!
//! A function about a kind of object that Coeval does not have returns null, as
//! PostgreSQL does for an OID of no object.

mod cluster;
mod comments;
mod definitions;
mod privileges;
mod sessions;
mod sizes;
mod visibility;

use crate::expression::{Function, Kind};
use crate::value::DataType;

/// Number of the UTF-8 encoding in PostgreSQL.
pub(super) const UTF8: i32 = 6;

const ANY: Kind = Kind::Any;
const BOOL: Kind = Kind::Is(DataType::Bool);
const INT2: Kind = Kind::Is(DataType::Int2);
const INT4: Kind = Kind::Is(DataType::Int4);
const INT8: Kind = Kind::Is(DataType::Int8);
const NUMERIC: Kind = Kind::Is(DataType::Numeric);
const NAME: Kind = Kind::Is(DataType::Name);
const NAMES: Kind = Kind::Is(DataType::NameArray);
const TEXT: Kind = Kind::Is(DataType::Text);
const OID: Kind = Kind::Is(DataType::Oid);
const MOMENT: Kind = Kind::Is(DataType::TimestampTz);
const REGCLASS: Kind = Kind::Is(DataType::Regclass);
const REGTYPE: Kind = Kind::Is(DataType::Regtype);
const VOID: Kind = Kind::Is(DataType::Void);

/// All functions over the system tables, as a list of function tables.
pub(super) const FUNCTIONS: &[&[Function]] = &[
    cluster::FUNCTIONS,
    comments::FUNCTIONS,
    definitions::FUNCTIONS,
    privileges::FUNCTIONS,
    sessions::FUNCTIONS,
    sizes::FUNCTIONS,
    visibility::FUNCTIONS,
];
