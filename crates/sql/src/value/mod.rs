//! SQL types and values, and the encodings of values.
//!
//! A [`Value`] is what an expression computes with: owned, 32 bytes, cheap to copy
//! except for long strings (shared) and numerics (boxed). The operations of a type are
//! in one place, [`types`], as implementations of the traits of [`operations`]; each of
//! the four encodings has a file for the code that all types share:
//!
//! | encoding | for | file |
//! | --- | --- | --- |
//! | text | literals, simple queries, COPY | `text` |
//! | binary | the extended protocol | `binary` |
//! | cell | rows in storage and log: compact | `cell` |
//! | key | indexes: bytes that compare as the values do | `key` |
//!
//! Text follows PostgreSQL 15 exactly, because client programs parse it.
//!
//! Invariants:
//! - A `char(n)` value never ends in a blank; output pads it, and comparisons need no
//!   special case.
//! - Dates count days and timestamps microseconds from 2000-01-01, as in PostgreSQL's
//!   binary format; the extreme values mean ±infinity.
//! - A value does not know its [`DataType`] exactly (`text`, `varchar` and `name` are
//!   all [`Value::Text`]); the caller that prints it passes the type.
//! - A match over types or values lists all of them: a new type does not compile until
//!   each match handles it.

#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod abbreviations;
mod array;
mod binary;
pub mod calendar;
mod cell;
mod compare;
mod data_type;
mod date_time;
mod encoding;
pub(crate) mod interval;
pub(crate) mod json;
mod key;
mod key_read;
pub(crate) mod moments;
mod numeric;
mod operations;
pub(crate) mod path;
#[cfg(test)]
mod tests;
mod text;
mod time_zone;
pub(crate) mod types;

use std::sync::Arc;

use smol_str::SmolStr;

pub(crate) use array::{parse_array, write_array};
pub use binary::utf8;
pub use data_type::{ColumnType, DataType};
pub(crate) use date_time::{OffsetFault, parse_offset};
pub use encoding::Encoding;
pub(crate) use interval::Unit as TimeUnit;
pub use interval::{Interval, IntervalStyle};
pub use json::Jsonb;
pub use key::{KeyOrder, write_cell_key};
pub(crate) use key_read::read_key;
pub use numeric::{Decimal, Numeric};
pub(crate) use operations::{
    Category, Collation, DateTimeType, Extremes, Family, Modifier, NumberType, ObjectType,
    OperatorClass, Structure,
};
pub use text::{DateFormat, DateOrder, Fit, Style, check_text, truncate_name};
pub use time_zone::TimeZone;

/// A value of one of the types of [`DataType`].
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// SQL NULL.
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
    /// `text`, `varchar`, `char(n)` (without its padding), `name`, `unknown`, `json`,
    /// `jsonpath`.
    Text(SmolStr),
    /// `date`: days since 2000-01-01.
    Date(i32),
    /// `timestamp`: microseconds since 2000-01-01, without a time zone.
    Timestamp(i64),
    /// `timestamptz`: microseconds since 2000-01-01 UTC.
    TimestampTz(i64),
    /// `oid`.
    Oid(u32),
    /// `regclass`, `regtype` and their like: an OID and the text that it prints as.
    Object(u32, SmolStr),
    /// `"char"`: one byte of the system catalogs.
    Char(u8),
    /// A one-dimensional array.
    Array(Arc<[Value]>),
    /// `time`: microseconds since midnight.
    Time(i64),
    /// `timetz`: microseconds since midnight, and seconds west of Greenwich.
    TimeTz(i64, i32),
    /// `interval`.
    Interval(Interval),
    /// `bytea`.
    Bytes(Arc<[u8]>),
    /// `uuid`.
    Uuid([u8; 16]),
    /// `jsonb`.
    Jsonb(Jsonb),
}

/// Evaluates an expression over a value's representation: `$written` is its
/// [`Representation`](operations::Representation), `$content` the content of the
/// variant.
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
            $crate::value::Value::Time(content) => {
                $crate::value::written_as!(Time, *content, $written, $content => $result)
            }
            $crate::value::Value::TimeTz(time, west) => {
                $crate::value::written_as!(TimeTz, (*time, *west), $written, $content => $result)
            }
            $crate::value::Value::Interval(content) => {
                $crate::value::written_as!(Interval, *content, $written, $content => $result)
            }
            $crate::value::Value::Bytes(content) => {
                $crate::value::written_as!(Bytea, &content[..], $written, $content => $result)
            }
            $crate::value::Value::Uuid(content) => {
                $crate::value::written_as!(Uuid, *content, $written, $content => $result)
            }
            $crate::value::Value::Jsonb(content) => {
                $crate::value::written_as!(Jsonb, content, $written, $content => $result)
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
    /// A string value.
    #[must_use]
    pub fn text(text: impl Into<SmolStr>) -> Self {
        Self::Text(text.into())
    }

    /// Whether the value is SQL NULL.
    #[inline]
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}
