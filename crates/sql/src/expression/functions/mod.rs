//! The built-in SQL functions, in one table per subject.
//!
//! The binder maps constructs with a syntax of their own either to one of these
//! functions (EXTRACT) or to a separate expression node (COALESCE).

mod arrays;
mod bytes;
mod formatting;
mod hashes;
pub(crate) mod json;
mod math;
mod session_information;
mod strings;
mod templates;
mod time;
mod time_make;
mod time_parts;
mod time_shift;
mod time_zone;
mod transaction;
mod uuids;
mod waits;

pub(crate) use arrays::from_string as split_string;

use super::SystemObjects;
use super::function::{ArgumentKind, Function};
use crate::value::DataType;

/// Abbreviations of types for the function tables.
mod kinds {
    use super::{ArgumentKind, DataType};

    pub(super) const ANY: ArgumentKind = ArgumentKind::Any;
    pub(super) const ARRAY: ArgumentKind = ArgumentKind::AnyArray;
    pub(super) const ELEMENT: ArgumentKind = ArgumentKind::AnyElement;
    pub(super) const BOOL: ArgumentKind = ArgumentKind::Is(DataType::Bool);
    pub(super) const INT2: ArgumentKind = ArgumentKind::Is(DataType::Int2);
    pub(super) const INT4: ArgumentKind = ArgumentKind::Is(DataType::Int4);
    pub(super) const INT8: ArgumentKind = ArgumentKind::Is(DataType::Int8);
    pub(super) const FLOAT4: ArgumentKind = ArgumentKind::Is(DataType::Float4);
    pub(super) const FLOAT8: ArgumentKind = ArgumentKind::Is(DataType::Float8);
    pub(super) const NUMERIC: ArgumentKind = ArgumentKind::Is(DataType::Numeric);
    pub(super) const TEXT: ArgumentKind = ArgumentKind::Is(DataType::Text);
    pub(super) const TEXTS: ArgumentKind = ArgumentKind::Is(DataType::TextArray);
    pub(super) const BYTEA: ArgumentKind = ArgumentKind::Is(DataType::Bytea);
    pub(super) const UUID: ArgumentKind = ArgumentKind::Is(DataType::Uuid);
    pub(super) const JSON: ArgumentKind = ArgumentKind::Is(DataType::Json);
    pub(super) const JSONB: ArgumentKind = ArgumentKind::Is(DataType::Jsonb);
    pub(super) const JSONPATH: ArgumentKind = ArgumentKind::Is(DataType::JsonPath);
    pub(super) const DATE: ArgumentKind = ArgumentKind::Is(DataType::Date);
    pub(super) const TIMESTAMP: ArgumentKind = ArgumentKind::Is(DataType::Timestamp);
    pub(super) const MOMENT: ArgumentKind = ArgumentKind::Is(DataType::TimestampTz);
    pub(super) const TIME: ArgumentKind = ArgumentKind::Is(DataType::Time);
    pub(super) const TIMETZ: ArgumentKind = ArgumentKind::Is(DataType::TimeTz);
    pub(super) const INTERVAL: ArgumentKind = ArgumentKind::Is(DataType::Interval);
}

/// All functions, including those over the system tables.
pub(crate) fn all(system: &SystemObjects) -> impl Iterator<Item = &'static Function> {
    math::FUNCTIONS
        .iter()
        .chain(strings::FUNCTIONS)
        .chain(time::FUNCTIONS)
        .chain(time_make::FUNCTIONS)
        .chain(time_parts::FUNCTIONS)
        .chain(time_shift::FUNCTIONS)
        .chain(time_zone::FUNCTIONS)
        .chain(formatting::FUNCTIONS)
        .chain(templates::FUNCTIONS)
        .chain(arrays::FUNCTIONS)
        .chain(session_information::FUNCTIONS)
        .chain(transaction::FUNCTIONS)
        .chain(bytes::FUNCTIONS)
        .chain(hashes::FUNCTIONS)
        .chain(uuids::FUNCTIONS)
        .chain(json::FUNCTIONS.iter().copied().flatten())
        .chain(waits::FUNCTIONS)
        .chain(system.functions.iter().copied().flatten())
}
