//! SQL functions over the system tables.
//!
//! A function about a kind of object that Coeval does not have returns null, as
//! PostgreSQL does for an OID of no object.

mod cluster_changes;
mod comments;
mod commits;
mod definitions;
mod privileges;
pub(crate) mod sequences;
mod sessions;
mod sizes;
mod visibility;

pub(super) use sizes::TABLESPACES;

use crate::expression::{ArgumentKind, Function};
use crate::value::DataType;

/// Number of the UTF-8 encoding in PostgreSQL.
pub(super) const UTF8: i32 = 6;

const ANY: ArgumentKind = ArgumentKind::Any;
const BOOL: ArgumentKind = ArgumentKind::Is(DataType::Bool);
const INT2: ArgumentKind = ArgumentKind::Is(DataType::Int2);
const INT4: ArgumentKind = ArgumentKind::Is(DataType::Int4);
const INT8: ArgumentKind = ArgumentKind::Is(DataType::Int8);
const NUMERIC: ArgumentKind = ArgumentKind::Is(DataType::Numeric);
const NAME: ArgumentKind = ArgumentKind::Is(DataType::Name);
const NAMES: ArgumentKind = ArgumentKind::Is(DataType::NameArray);
const TEXT: ArgumentKind = ArgumentKind::Is(DataType::Text);
const OID: ArgumentKind = ArgumentKind::Is(DataType::Oid);
const MOMENT: ArgumentKind = ArgumentKind::Is(DataType::TimestampTz);
const REGCLASS: ArgumentKind = ArgumentKind::Is(DataType::Regclass);
const REGTYPE: ArgumentKind = ArgumentKind::Is(DataType::Regtype);
const VOID: ArgumentKind = ArgumentKind::Is(DataType::Void);

/// All functions over the system tables, as a list of function tables.
pub(super) const FUNCTIONS: &[&[Function]] = &[
    cluster_changes::FUNCTIONS,
    comments::FUNCTIONS,
    commits::FUNCTIONS,
    definitions::FUNCTIONS,
    privileges::FUNCTIONS,
    sequences::FUNCTIONS,
    sessions::FUNCTIONS,
    sizes::FUNCTIONS,
    visibility::FUNCTIONS,
];
