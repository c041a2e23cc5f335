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
//! - [`access`]: roles and privileges.
//! - [`catalog`]: tables, columns and indexes, as a snapshot shows them.
//! - `definition`: CREATE, ALTER, DROP, TRUNCATE.
//! - `change`: INSERT, UPDATE, DELETE. `copy`: COPY.
//! - [`error`]: what a statement fails with: SQLSTATE, message, position.
//! - [`verify`]: whether everything a database holds fits together.
//! - [`value`]: types and values; their text, binary, cell and key encodings.
//! - [`expression`]: names and types resolved, then evaluated over rows.
//! - [`instance`]: what all sessions share: memory, places at work, deadlines, activity.
//! - `outcome`: whether a transaction has committed, for who asks later.
//! - [`output`]: what a statement returns: columns, rows, notices, command tags.
//! - [`plan`]: how a table's rows are found.
//! - `record`: the format of the database's own rows.
//! - [`select`]: queries: planned into operators that stream rows.
//! - [`statement`]: the text of a query taken apart into commands.
//! - [`session`]: what one client sees: settings, transactions, prepared statements.
//! - [`system`]: `pg_catalog`, `information_schema` and `coeval`, made from the catalog
//!   and from what the engine says of itself.
//! - [`contention`]: conflicts and locks in words.

pub mod access;
pub mod catalog;
mod change;
mod contention;
mod copy;
mod definition;
pub mod error;
pub mod expression;
#[cfg(test)]
mod golden;
pub mod instance;
mod outcome;
pub mod output;
pub mod plan;
mod record;
pub mod select;
pub mod session;
pub mod statement;
pub mod system;
pub mod value;
pub mod verify;

pub use catalog::FollowedCatalog;
pub use error::{Error, Result, SqlState};
pub use outcome::{OUTCOME_STORAGE, is_mark};
pub use session::{Database, Session, SessionOptions};
pub use statement::Statement;
pub use value::{ColumnType, DataType, Value};
