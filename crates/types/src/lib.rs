//! Vocabulary types shared by every other crate: identifiers, timestamps, rows, keys.
//!
//! This crate knows no engine, file or socket. A type is defined here when two crates that
//! must not depend on each other both need it.
//!
//! - [`time`]: terms, log offsets and the commit timestamps made of them.
//! - [`identifier`]: identifiers of storages, indexes, records, transactions
//!   and nodes.
//! - [`row`]: a row as cells, and the patch between two rows.
//! - [`key`]: how a row's key is extracted from it, and byte strings that sort as their
//!   values do.
//! - [`row_lock`]: modes of a row lock, and which of them conflict.
//! - [`remedy`]: what the caller of a failed operation can do about it.
//! - [`mod@planted`]: known bugs that tests inject, in builds made for that.

pub mod identifier;
pub mod key;
pub mod planted;
pub mod protocol;
pub mod remedy;
pub mod row;
pub mod row_lock;
pub mod time;

pub use identifier::{DirectoryId, IndexId, NodeId, Rid, StorageId, TransactionId};
pub use key::{ExtractedKey, IndexDefinition, IndexKind, KeyExtractor, StorageDefinition};
pub use protocol::Protocol;
pub use remedy::Remedy;
pub use row::{MalformedRow, RowBuilder, RowMut, RowRef};
pub use row_lock::RowLock;
pub use time::{Lsn, Term, Timestamp};
