//! The storage interface of workloads: a few tables, either in an engine of this process
//! or on a server.
//!
//! A workload is written once, against [`Session`], which has two backends:
//!
//! ```text
//!                     Session: get, lock, update, insert, delete, scan
//!                        │
//!          ┌─────────────┴──────────────┐
//!     [`contract`]                  [`wire`]
//!     dyn coeval_txn::Engine        tokio-postgres, prepared statements
//!     encoded keys and rows         SELECT, SELECT … FOR UPDATE, UPDATE, INSERT
//! ```
//!
//! So the same transactions measure an engine alone and the whole server, and a judge's
//! verdicts on both are comparable. The operations are those that both support: whole
//! rows by key, rows locked before they are changed, ranges of an index.
//!
//! The steps of a transaction, of which a workload defines the middle ones:
//!
//! ```text
//!   begin ─ lock account 7 ─ change its balance ─ update ─ … ─ commit ─ durable
//!   └ driver ┘└──────────────── workload ────────────────┘└───── driver ─────┘
//! ```
//!
//! Invariants:
//! - A transaction updates or deletes a row only after locking it, so that a read
//!   followed by a write is safe at every isolation level.
//! - A commit is acknowledged when it is durable, and a read-only transaction when the
//!   commits it has read are: in this process the session waits for that, over the wire
//!   the server does.
//! - No operation over the wire takes longer than the session's timeout: without an
//!   answer by then, the session drops the connection, and a commit in progress has an
//!   unknown outcome.
//! - After any failure the transaction is aborted; the workload does nothing else with
//!   it.

mod client_session;
pub mod contract;
mod database;
mod failure;
mod key;
mod loader;
mod recording;
mod registers;
mod row;
mod schema;
mod statement;
pub mod wire;

pub use client_session::{Pace, Scan, Session, Way};
pub use contract::definitions;
pub use database::Database;
pub use failure::Failure;
pub use loader::Loader;
pub use recording::{Head, Recording};
pub use registers::Versions;
pub use row::{Cells, Maker, Row};
pub use schema::{Column, ColumnKind, Index, Table};
pub use statement::Value;
