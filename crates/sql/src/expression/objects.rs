//! The built-in objects that expressions take from the system tables above them.
//!
//! `'orders'::regclass` looks a name up among the relations that `pg_class` lists, and
//! `pg_get_indexdef()` is a function over them. Both need the system tables, which are
//! made of expressions' values themselves; so they come in from above, with the session.

use super::{EvaluationContext, Function};
use crate::value::DataType;
use crate::{Result, Value};

/// The functions over the system tables, and objects by name and number.
#[derive(Debug)]
pub struct SystemObjects {
    /// The functions, in groups.
    pub functions: &'static [&'static [Function]],
    /// The object of a kind (`regclass` and its like) that a string names.
    pub by_name: fn(DataType, &str, &EvaluationContext<'_>) -> Result<Value>,
    /// The object of a kind with this number, printed as its number if there is none.
    pub by_oid: fn(DataType, u32, &EvaluationContext<'_>) -> Value,
}
