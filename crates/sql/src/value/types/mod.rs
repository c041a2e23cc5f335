//! Implementations of the SQL types, one place per type: a marker for every variant of
//! [`DataType`] with its [`TypeOperations`], and the [`Representation`] of each variant
//! of [`Value`].
//!
//! docs/internals/howto.md describes how to add a type.

mod array;
mod boolean;
pub(crate) mod bytes;
mod date_time;
mod float;
mod integer;
mod json;
mod numeric;
mod object;
mod record;
mod string;
mod time;
mod transaction;
mod uuid;

pub(super) use array::*;
pub(super) use boolean::Bool;
pub(super) use bytes::Bytea;
pub(super) use date_time::{Date, Timestamp, TimestampTz};
pub(super) use float::{Float4, Float8};
pub(super) use integer::{Int2, Int4, Int8};
pub(super) use json::{Json, JsonPath, Jsonb};
pub(super) use numeric::Numeric;
pub(super) use object::{
    Object, Oid, Regclass, Regnamespace, Regoper, Regoperator, Regproc, Regprocedure, Regrole,
    Regtype,
};
pub(super) use record::Record;
pub(super) use string::{Char, InternalChar, Name, Text, Unknown, VarChar, Void};
pub(super) use time::{Interval, Time, TimeTz};
pub(super) use transaction::{Tid, Xid};
pub(super) use uuid::Uuid;

use super::binary::malformed;
use super::cell::{damaged, exact as exact_cell};
use super::key_read::KeyReader;
use super::operations::{
    Alignment, Category, Collation, DateTimeType, Extremes, Family, Modifier, NumberType,
    ObjectType, OperatorClass, Representation, Storage, Structure, TypeFacts, TypeOperations,
};
use super::text::{BLANKS, Fit, Style, check_text, invalid, out_of_range};
use super::{ColumnType, DataType, Value, binary, calendar, key};
use crate::{Error, Result, SqlState};

/// Cells and keys of a type that is not storable: it has none.
macro_rules! catalog_only {
    () => {
        const STORABLE: bool = false;

        fn from_cell(_cell: &[u8]) -> Result<Value> {
            Err(damaged())
        }

        fn read_key(_key: &mut KeyReader<'_>) -> Option<Value> {
            None
        }
    };
}

use catalog_only;
