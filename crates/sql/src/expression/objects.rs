//! Interface through which expressions use the system tables, a layer above them:
//! lookup of functions and of objects such as `regclass`.
//!
//! `'orders'::regclass` looks a name up among the relations that `pg_class` lists, and
//! `pg_get_indexdef()` is a function over them. Both need the system tables, which are
//! themselves built on expressions; so the session passes this interface down.

use super::{EvaluationContext, Function, TableFunction};
use crate::value::DataType;
use crate::{Result, Value};

/// The functions over the system tables, and lookup of objects by name and OID.
#[derive(Debug)]
pub struct SystemObjects {
    /// The functions, as a list of function tables.
    pub functions: &'static [&'static [Function]],
    /// The functions that return rows.
    pub sets: &'static [TableFunction],
    /// Looks up the object of an object type (`regclass` and its like) by a name.
    pub by_name: fn(DataType, &str, &EvaluationContext<'_>) -> Result<Value>,
    /// Looks up the object of an object type by its OID; a value that prints as the OID
    /// if it does not exist.
    pub by_oid: fn(DataType, u32, &EvaluationContext<'_>) -> Value,
    /// The next number of the sequence with an OID, which is an identity column's.
    pub next_of_identity: &'static Function,
}

impl SystemObjects {
    /// The functions of this name that return rows.
    pub(crate) fn table_functions(
        &self,
        name: &str,
    ) -> impl Iterator<Item = &'static TableFunction> {
        self.sets.iter().filter(move |each| each.name == name)
    }
}
