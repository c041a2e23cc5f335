//! Types and values.
//!
//! A [`Value`] is what an expression computes with: owned, 32 bytes, cheap to
//! copy for everything but long strings (shared) and numerics (boxed). What a type
//! can do is in one place, [`types`], behind the traits of [`operations`]; what its
//! values' four encodings have in common has a file each:
//!
//! | encoding | for | file |
//! | --- | --- | --- |
//! | text | literals, simple queries, COPY | `text` |
//! | binary | the extended protocol | `binary` |
//! | cell | rows in storage and log: compact | `cell` |
//! | key | indexes: bytes that compare as the values do | `key` |
//!
//! Text follows PostgreSQL 15 to the letter: programs parse it.
//!
//! Invariants:
//! - A `char(n)` value never ends in a blank; output pads it, comparison need not
//!   care.
//! - Dates count days and timestamps microseconds from 2000-01-01, as in
//!   PostgreSQL's binary format; the extremes mean ±infinity.
//! - A value does not know its [`DataType`] exactly (`text`, `varchar` and `name`
//!   are all [`Value::Text`]); whoever prints it does.
//! - A match over types or values names all of them: a type that is added and does
//!   not say what it does in each place does not compile.

#![deny(clippy::wildcard_enum_match_arm)]

mod array;
mod binary;
pub mod calendar;
mod cell;
mod compare;
mod data_type;
mod date_time;
mod key;
mod key_read;
mod numeric;
mod operations;
#[cfg(test)]
mod tests;
mod text;
mod time_zone;
mod types;

use std::sync::Arc;

use smol_str::SmolStr;

pub use binary::utf8;
pub use data_type::{ColumnType, DataType};
pub use key::{KeyOrder, write_cell_key};
pub(crate) use key_read::read_key;
pub use numeric::{Decimal, Numeric};
pub(crate) use operations::{
    Category, Collation, DateTimeType, Extremes, Family, Modifier, NumberType, ObjectType,
    OperatorClass, Structure,
};
pub use text::{DateOrder, Fit, Style, check_text, truncate_name};
pub use time_zone::TimeZone;

/// A value of one of the types of [`DataType`].
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// `boolean`.
    Bool(bool),
    /// `smallint`.
    Int2(i16),
    /// `integer`.
    Int4(i32),
    /// `bigint`.
    Int8(i64),
    /// `real`.
    Float4(f32),
    /// `double precision`.
    Float8(f64),
    /// `numeric`.
    Numeric(Box<Numeric>),
    /// `text`, `varchar`, `char(n)` (without its padding), `name`, `unknown`.
    Text(SmolStr),
    /// `date`: days since 2000-01-01.
    Date(i32),
    /// `timestamp`: microseconds since 2000-01-01, in no particular time zone.
    Timestamp(i64),
    /// `timestamptz`: microseconds since 2000-01-01 UTC.
    TimestampTz(i64),
    /// `oid`.
    Oid(u32),
    /// `regclass`, `regtype` and their like: a number and how it prints.
    Object(u32, SmolStr),
    /// `"char"`: one byte of the system catalogs.
    Char(u8),
    /// A one-dimensional array.
    Array(Arc<[Value]>),
}

/// An expression over how a value is written: `$written` is its
/// [`Representation`](operations::Representation), `$content` what it holds.
macro_rules! for_value {
    ($value:expr, null => $null:expr, ($written:ident, $content:ident) => $result:expr) => {
        match $value {
            $crate::value::Value::Null => $null,
            $crate::value::Value::Bool(content) => {
                $crate::value::written_as!(Bool, *content, $written, $content => $result)
            }
            $crate::value::Value::Int2(content) => {
                $crate::value::written_as!(Int2, *content, $written, $content => $result)
            }
            $crate::value::Value::Int4(content) => {
                $crate::value::written_as!(Int4, *content, $written, $content => $result)
            }
            $crate::value::Value::Int8(content) => {
                $crate::value::written_as!(Int8, *content, $written, $content => $result)
            }
            $crate::value::Value::Float4(content) => {
                $crate::value::written_as!(Float4, *content, $written, $content => $result)
            }
            $crate::value::Value::Float8(content) => {
                $crate::value::written_as!(Float8, *content, $written, $content => $result)
            }
            $crate::value::Value::Numeric(content) => {
                $crate::value::written_as!(Numeric, &**content, $written, $content => $result)
            }
            $crate::value::Value::Text(content) => {
                $crate::value::written_as!(Text, content.as_str(), $written, $content => $result)
            }
            $crate::value::Value::Date(content) => {
                $crate::value::written_as!(Date, *content, $written, $content => $result)
            }
            $crate::value::Value::Timestamp(content) => {
                $crate::value::written_as!(Timestamp, *content, $written, $content => $result)
            }
            $crate::value::Value::TimestampTz(content) => {
                $crate::value::written_as!(TimestampTz, *content, $written, $content => $result)
            }
            $crate::value::Value::Oid(content) => {
                $crate::value::written_as!(Oid, *content, $written, $content => $result)
            }
            $crate::value::Value::Object(number, name) => {
                $crate::value::written_as!(
                    Object, (*number, name.as_str()), $written, $content => $result
                )
            }
            $crate::value::Value::Char(content) => {
                $crate::value::written_as!(InternalChar, *content, $written, $content => $result)
            }
            $crate::value::Value::Array(content) => {
                $crate::value::written_as!(Array, &content[..], $written, $content => $result)
            }
        }
    };
}

/// One arm of [`for_value!`].
macro_rules! written_as {
    ($representation:ident, $held:expr, $written:ident, $content:ident => $result:expr) => {{
        type $written = $crate::value::types::$representation;
        let $content = $held;
        $result
    }};
}

use {for_value, written_as};

impl Value {
    /// A string.
    #[must_use]
    pub fn text(text: impl Into<SmolStr>) -> Self {
        Self::Text(text.into())
    }

    /// Whether it is a null.
    #[inline]
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}
