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
//! - [`catalog`]: tables, columns and indexes, as a snapshot shows them.
//! - [`error`]: what a statement fails with: SQLSTATE, message, position.
//! - [`value`]: types and values; their text, binary, cell and key encodings.
//! - [`expression`]: names and types resolved, then evaluated over rows.
//! - [`select`]: queries: planned into operators that stream rows.
//! - [`statement`]: the text of a query taken apart into commands.
//! - [`session`]: what one client sees: settings, transactions, prepared statements.
//! - [`system`]: `pg_catalog` and `information_schema`, made from the catalog.

#[allow(dead_code, unused_imports, reason = "used by what lands next")]
pub mod catalog;
pub mod error;
pub mod expression;
#[allow(dead_code, unused_imports, reason = "used by what lands next")]
pub mod plan;
pub mod select;
#[allow(dead_code, unused_imports, reason = "used by what lands next")]
pub mod session;
#[allow(dead_code, unused_imports, reason = "used by what lands next")]
pub mod statement;
pub mod system;
pub mod value;

pub use error::{Error, Result, SqlState};
pub use session::{Database, Session, SessionOptions};
pub use statement::Statement;
pub use value::{ColumnType, DataType, Value};
