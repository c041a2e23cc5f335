//! `pg_catalog` and `information_schema`, made from the catalog.

mod object;

pub(crate) use object::{object_by_name, object_by_oid, quote_identifier};

use crate::Value;
use crate::expression::{EvaluationContext, Function};
use crate::value::DataType;

/// A table whose rows are made when they are asked for.
#[derive(Debug)]
pub struct SystemTable {
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: &'static str,
    /// Its columns' names and types.
    pub columns: &'static [(&'static str, DataType)],
    make: fn(&EvaluationContext<'_>) -> Vec<Vec<Value>>,
}

impl SystemTable {
    /// Its schema.
    #[must_use]
    pub fn schema(&self) -> &'static str {
        "pg_catalog"
    }

    /// Its rows, as the statement's snapshot shows them.
    #[must_use]
    pub fn rows(&self, context: &EvaluationContext<'_>) -> Vec<Vec<Value>> {
        (self.make)(context)
    }
}

/// The names of the schemas, which are tables' only system table for now.
static NAMESPACE: SystemTable = SystemTable {
    oid: 2615,
    name: "pg_namespace",
    columns: &[("oid", DataType::Oid), ("nspname", DataType::Name)],
    make: |_| {
        vec![
            vec![Value::Oid(11), Value::text("pg_catalog")],
            vec![Value::Oid(2200), Value::text("public")],
        ]
    },
};

/// The system table of this name.
#[must_use]
pub fn table(schema: &str, name: &str) -> Option<&'static SystemTable> {
    (schema == "pg_catalog" && name == NAMESPACE.name).then_some(&NAMESPACE)
}

/// The system's functions.
pub(crate) const FUNCTIONS: &[&[Function]] = &[];
