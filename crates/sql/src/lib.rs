//! The SQL layer: parser, planner, executor and sessions over the transaction contract.
//!
//! ```text
//!  text ──parse──> statement ──bind, plan──> plan ──execute──> rows
//!                      │            │           │
//!                      │            │           └── dyn Transaction (crate txn)
//!                      │            └── catalog: tables and indexes of a snapshot
//!                      └── the tree of PostgreSQL's grammar (crate sql-syntax)
//! ```
//!
//! - [`access`]: roles and privileges.
//! - [`catalog`]: tables, columns and indexes, as a snapshot shows them.
//! - `definition`: CREATE, ALTER, DROP, TRUNCATE.
//! - `change`: INSERT, UPDATE, DELETE. `copy`: COPY.
//! - [`error`]: errors of statements: SQLSTATE, message, position.
//! - [`verify`]: consistency check of a database's contents.
//! - [`value`]: types and values; their text, binary, cell and key encodings.
//! - [`expression`]: expressions: binding of names and types, and evaluation over rows.
//! - [`instance`]: state shared by all sessions: memory budget, admission, deadlines,
//!   activity.
//! - `statistics`: what columns are like, for the planner.
//! - `outcome`: outcomes of transactions, for clients that ask later whether one has
//!   committed.
//! - [`output`]: results of a statement: columns, rows, notices, command tags.
//! - [`plan`]: access paths to the rows of a table.
//! - `record`: the format of the database's own rows.
//! - [`route`]: the nodes of a cluster that can execute a statement.
//! - [`select`]: queries: planned into operators that stream rows.
//! - `sequence`: sequences: numbers that are handed out outside of transactions.
//! - [`statement`]: the parser: turns a query string into commands.
//! - [`session`]: the state of one client: settings, transactions, prepared statements.
//! - [`system`]: the system tables of `pg_catalog`, `information_schema` and `coeval`,
//!   generated from the catalog and the engine's statistics.
//! - [`temporary`]: tables of one session.
//! - `view_text`: the deparser of views, which prints their queries as PostgreSQL does.
//! - [`contention`]: descriptions of conflicts and locks.

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
pub mod route;
pub mod select;
mod sequence;
pub mod session;
pub mod statement;
mod statistics;
pub mod system;
mod temporary;
pub mod texts;
pub mod value;
pub mod verify;
mod view_text;

pub use catalog::FollowedCatalog;
pub use catalog::statistics_storage::STATISTICS_STORAGE;
pub use error::{Error, Result, SqlState};
pub use outcome::{OUTCOME_STORAGE, is_mark};
pub use session::{Database, Session, SessionOptions};
pub use statement::Statement;
pub use system::PROBE;
pub use value::{ColumnType, DataType, Value};
