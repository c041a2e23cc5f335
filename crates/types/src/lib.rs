//! The words every other crate speaks: identifiers, timestamps, rows, keys.
//!
//! Nothing here knows an engine, a file or a socket. A type lives here when two
//! crates that must not know each other both have to name it.
//!
//! - [`time`]: terms, log positions and the commit timestamps made of them.
//! - [`identifier`]: tables' storages, indexes, records, transactions.
//! - [`row`]: a row as cells, and the patch between two rows.
//! - [`key`]: how a row's key is taken from it, and byte strings that sort as
//!   their values do.
//! - [`remedy`]: what the reader of an error can do about it.
//! - [`planted`]: bugs that tests put back, in builds made for that.

pub mod identifier;
pub mod key;
pub mod planted;
pub mod remedy;
pub mod row;
pub mod time;

pub use identifier::{IndexId, Rid, StorageId, TransactionId};
pub use key::{ExtractedKey, IndexDefinition, IndexKind, KeyExtractor, StorageDefinition};
pub use remedy::Remedy;
pub use row::{MalformedRow, RowBuilder, RowMut, RowRef};
pub use time::{Lsn, Term, Timestamp};
