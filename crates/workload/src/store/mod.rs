//! What workloads work on: a few tables, either in this process or behind a wire.
//!
//! A workload is written once, against [`Session`]. Behind it is one of two things:
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
//! So the same transactions measure an engine alone and the whole server, and what a
//! judge says of one can be compared with the other. The operations are those that
//! both have: whole rows by key, rows locked before they are changed, ranges of an
//! index.
//!
//! A transaction's way, of which a workload writes the middle:
//!
//! ```text
//!   begin ─ lock account 7 ─ change its balance ─ update ─ … ─ commit ─ durable
//!   └ driver ┘└──────────────── workload ────────────────┘└───── driver ─────┘
//! ```
//!
//! Invariants:
//! - A row is updated or deleted only by the transaction that has it locked, so that
//!   a read followed by a write is safe at every level of isolation.
//! - A commit is answered when it is durable, and so is a read of what others have
//!   committed: in this process by waiting for it, over the wire by the server.
//! - No operation over the wire takes longer than the session's timeout: what gives no
//!   answer by then has lost its connection, and a commit among it is unknown.
//! - After any failure the transaction is aborted; nothing else is done with it.

pub mod contract;
mod database;
mod failure;
mod key;
mod loader;
mod recording;
mod registers;
mod row;
mod schema;
mod session;
mod statement;
pub mod wire;

pub use contract::definitions;
pub use database::Database;
pub use failure::Failure;
pub use loader::Loader;
pub use recording::{Head, Recording};
pub use registers::Versions;
pub use row::{Cells, Maker, Row};
pub use schema::{Column, Index, Kind, Table};
pub use session::{Pace, Scan, Session, Way};
pub use statement::Value;
