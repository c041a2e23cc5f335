//! The built-in SQL functions, in one table per subject.
//!
//! The binder maps constructs with a syntax of their own either to one of these
//! functions (EXTRACT) or to a separate expression node (COALESCE).

mod arrays;
mod formatting;
mod math;
mod session;
mod strings;
mod time;
mod transaction;

use super::SystemObjects;
use super::function::{Function, Kind};
use crate::value::DataType;

/// Abbreviations of types for the function tables.
mod kinds {
    use super::{DataType, Kind};

    pub(super) const ANY: Kind = Kind::Any;
    pub(super) const ARRAY: Kind = Kind::AnyArray;
    pub(super) const ELEMENT: Kind = Kind::AnyElement;
    pub(super) const BOOL: Kind = Kind::Is(DataType::Bool);
    pub(super) const INT2: Kind = Kind::Is(DataType::Int2);
    pub(super) const INT4: Kind = Kind::Is(DataType::Int4);
    pub(super) const INT8: Kind = Kind::Is(DataType::Int8);
    pub(super) const FLOAT4: Kind = Kind::Is(DataType::Float4);
    pub(super) const FLOAT8: Kind = Kind::Is(DataType::Float8);
    pub(super) const NUMERIC: Kind = Kind::Is(DataType::Numeric);
    pub(super) const TEXT: Kind = Kind::Is(DataType::Text);
    pub(super) const TEXTS: Kind = Kind::Is(DataType::TextArray);
    pub(super) const DATE: Kind = Kind::Is(DataType::Date);
    pub(super) const TIMESTAMP: Kind = Kind::Is(DataType::Timestamp);
    pub(super) const MOMENT: Kind = Kind::Is(DataType::TimestampTz);
}

/// All functions, including those over the system tables.
pub(super) fn all(system: &SystemObjects) -> impl Iterator<Item = &'static Function> {
    math::FUNCTIONS
        .iter()
        .chain(strings::FUNCTIONS)
        .chain(time::FUNCTIONS)
        .chain(formatting::FUNCTIONS)
        .chain(arrays::FUNCTIONS)
        .chain(session::FUNCTIONS)
        .chain(transaction::FUNCTIONS)
        .chain(system.functions.iter().copied().flatten())
}
