//! SQL over the transaction contract.
//!
//! ```text
//!  text ──parse──> statement ──bind, plan──> plan ──execute──> rows
//!                      │            │           │
//!                      │            │           └── dyn Transaction (crate txn)
//!                      │            └── catalog: tables and indexes of a snapshot
//!                      └── sqlparser's syntax tree
//! ```
//!
//! - [`error`]: what a statement fails with: SQLSTATE, message, position.
//! - [`value`]: types and values; their text, binary, cell and key encodings.
//! - [`expression`]: names and types resolved, then evaluated over rows.
//! - [`select`]: queries: planned into operators that stream rows.
//! - [`system`]: `pg_catalog` and `information_schema`, made from the catalog.

pub mod error;
pub mod value;

pub use error::{Error, Result, SqlState};
pub use value::{ColumnType, DataType, Value};
