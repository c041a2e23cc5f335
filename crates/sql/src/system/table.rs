//! System tables: declared once, listed, and found by name.

use smol_str::SmolStr;

use super::object::procedure;
use super::{COEVAL, INFORMATION_SCHEMA, tables};
use crate::Value;
use crate::expression::EvaluationContext;
use crate::value::DataType;

/// Whether PostgreSQL has it as a table or as a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    View,
}

/// A table without storage.
#[derive(Debug)]
pub struct SystemTable {
    /// Its number.
    pub oid: u32,
    pub(super) schema: &'static str,
    /// The number of its schema.
    pub(super) namespace: u32,
    /// Its name.
    pub name: &'static str,
    pub(super) kind: Kind,
    /// Its columns' names and types.
    pub columns: &'static [(&'static str, DataType)],
    pub(super) make: fn(&EvaluationContext<'_>) -> Vec<Vec<Value>>,
}

impl SystemTable {
    /// Its schema.
    #[must_use]
    pub fn schema(&self) -> &'static str {
        self.schema
    }

    /// Whether only superusers may read it: it has what is kept of passwords, or keys
    /// of rows, whoever may read these.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        match self.schema {
            "coeval" => matches!(self.name, "locks" | "conflicts"),
            _ => matches!(self.name, "pg_authid" | "pg_shadow"),
        }
    }

    /// Its rows, as the statement's snapshot shows them.
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

/// The name of a schema of system tables.
pub(super) const fn schema(namespace: u32) -> &'static str {
    match namespace {
        INFORMATION_SCHEMA => "information_schema",
        COEVAL => "coeval",
        _ => "pg_catalog",
    }
}

/// The system table with this number.
pub(super) fn by_oid(oid: u32) -> Option<&'static SystemTable> {
    all().find(|table| table.oid == oid)
}

/// Every system table.
pub(super) fn all() -> impl Iterator<Item = &'static SystemTable> {
    tables::ALL.iter().copied().flatten()
}

/// What can be a value of a system table's column: numbers of objects as `u32`,
/// one-byte characters as `u8`.
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

/// An array of values.
pub(super) fn array<T: Cell>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(Cell::cell).collect())
}

/// A built-in function, as another table names it; none if the name is empty.
pub(super) fn function(name: &str) -> Value {
    match procedure::oid(name) {
        Some(oid) => Value::Object(oid, SmolStr::new(name)),
        None => Value::Object(0, SmolStr::new_static("-")),
    }
}

/// Declares a system table: number, kind, name; where its items come from; for
/// each column its name, its type, and its value for an item.
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
                kind: $crate::system::table::Kind::$kind,
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

/// Declares system tables of things that do not exist here.
macro_rules! empty_tables {
    ($namespace:ident; $($oid:literal $kind:ident $name:ident { $($column:ident: $type:ident,)* })*) => {
        &[$($crate::system::table::SystemTable {
            oid: $oid,
            schema: $crate::system::table::schema($crate::system::$namespace),
            namespace: $crate::system::$namespace,
            name: stringify!($name),
            kind: $crate::system::table::Kind::$kind,
            columns: &[$((stringify!($column), $crate::value::DataType::$type),)*],
            make: |_| Vec::new(),
        },)*]
    };
}

pub(super) use {empty_tables, system_table};
