//! System tables: their declaration, the list of all, and lookup by name.

use smol_str::SmolStr;

use super::object::procedure;
use super::{COEVAL, INFORMATION_SCHEMA, tables};
use crate::Value;
use crate::expression::EvaluationContext;
use crate::value::DataType;

/// Whether PostgreSQL defines the relation as a table or as a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableKind {
    Table,
    View,
}

/// A system table: a virtual table without storage.
#[derive(Debug)]
pub struct SystemTable {
    /// OID of the table.
    pub oid: u32,
    pub(super) schema: &'static str,
    /// OID of the table's schema.
    pub(super) namespace: u32,
    /// Name of the table.
    pub name: &'static str,
    pub(super) kind: TableKind,
    /// Names and types of the columns.
    pub columns: &'static [(&'static str, DataType)],
    pub(super) make: fn(&EvaluationContext<'_>) -> Vec<Vec<Value>>,
}

impl SystemTable {
    /// Schema of the table.
    #[must_use]
    pub fn schema(&self) -> &'static str {
        self.schema
    }

    /// Whether only superusers may read the table, because it shows password verifiers,
    /// or keys of rows that the reader might not be allowed to see.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        match self.schema {
            "coeval" => matches!(self.name, "locks" | "conflicts"),
            _ => matches!(self.name, "pg_authid" | "pg_shadow"),
        }
    }

    /// Whether the table describes a process, so that in a cluster it describes the
    /// leader's: its counters, and the followers that it sends its log to.
    /// `pg_stat_activity` describes the node that computes it: statements that run there.
    #[must_use]
    pub fn is_of_leader(&self) -> bool {
        self.schema == "coeval"
            || matches!(
                self.name,
                "pg_settings"
                    | "pg_stat_database"
                    | "pg_stat_replication"
                    | "pg_locks"
                    | "pg_sequences"
            )
    }

    /// Computes the rows, as the statement's snapshot shows them.
    #[must_use]
    pub fn rows(&self, context: &EvaluationContext<'_>) -> Vec<Vec<Value>> {
        (self.make)(context)
    }
}

/// The system table of this name in a schema.
#[must_use]
pub fn table(schema: &str, name: &str) -> Option<&'static SystemTable> {
    all().find(|table| table.name == name && table.schema == schema)
}

/// Name of a schema of system tables.
pub(super) const fn schema(namespace: u32) -> &'static str {
    match namespace {
        INFORMATION_SCHEMA => "information_schema",
        COEVAL => "coeval",
        _ => "pg_catalog",
    }
}

/// The system table with this OID.
pub(crate) fn by_oid(oid: u32) -> Option<&'static SystemTable> {
    all().find(|table| table.oid == oid)
}

/// All system tables.
pub(super) fn all() -> impl Iterator<Item = &'static SystemTable> {
    tables::ALL.iter().copied().flatten()
}

/// A type that converts to a value of a system table's column: `u32` for OIDs, `u8` for
/// one-byte characters.
pub(super) trait Cell {
    fn cell(self) -> Value;
}

macro_rules! cells {
    ($($from:ty, $value:ident => $to:expr;)*) => {
        $(impl Cell for $from {
            fn cell(self) -> Value {
                let $value = self;
                $to
            }
        })*
    };
}

cells! {
    Value, value => value;
    bool, value => Value::Bool(value);
    i16, value => Value::Int2(value);
    i32, value => Value::Int4(value);
    i64, value => Value::Int8(value);
    f32, value => Value::Float4(value);
    u8, value => Value::Char(value);
    u32, value => Value::Oid(value);
    &str, value => Value::text(value);
    &String, value => Value::text(value.as_str());
    String, value => Value::text(value);
    SmolStr, value => Value::Text(value);
    Vec<Value>, value => Value::Array(value.into());
}

impl<T: Cell> Cell for Option<T> {
    fn cell(self) -> Value {
        self.map_or(Value::Null, Cell::cell)
    }
}

/// Converts items to an array value.
pub(super) fn array<T: Cell>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(Cell::cell).collect())
}

/// A reference to a built-in function, as a column of type regproc; no function if the
/// name is empty.
pub(super) fn function(name: &str) -> Value {
    match procedure::oid(name) {
        Some(oid) => Value::Object(oid, SmolStr::new(name)),
        None => Value::Object(0, SmolStr::new_static("-")),
    }
}

/// Declares a system table: OID, kind, name; the items that its rows are computed from;
/// for each column its name, its type, and its value for an item.
macro_rules! system_table {
    ($(#[$about:meta])* $constant:ident = $namespace:ident $oid:literal $kind:ident $name:ident;
     $context:ident => $items:expr;
     $item:pat => { $($column:ident: $type:ident = $value:expr,)* }) => {
        $(#[$about])*
        pub(in crate::system) const $constant: $crate::system::table::SystemTable =
            $crate::system::table::SystemTable {
                oid: $oid,
                schema: $crate::system::table::schema($crate::system::$namespace),
                namespace: $crate::system::$namespace,
                name: stringify!($name),
                kind: $crate::system::table::TableKind::$kind,
                columns: &[$((stringify!($column), $crate::value::DataType::$type),)*],
                make: |$context: &$crate::expression::EvaluationContext<'_>| {
                    $items
                        .into_iter()
                        .map(|$item| vec![$($crate::system::table::Cell::cell($value),)*])
                        .collect()
                },
            };
    };
}

/// Declares empty system tables for objects that Coeval does not support.
macro_rules! empty_tables {
    ($namespace:ident; $($oid:literal $kind:ident $name:ident { $($column:ident: $type:ident,)* })*) => {
        &[$($crate::system::table::SystemTable {
            oid: $oid,
            schema: $crate::system::table::schema($crate::system::$namespace),
            namespace: $crate::system::$namespace,
            name: stringify!($name),
            kind: $crate::system::table::TableKind::$kind,
            columns: &[$((stringify!($column), $crate::value::DataType::$type),)*],
            make: |_| Vec::new(),
        },)*]
    };
}

pub(super) use {empty_tables, system_table};
