//! Other ways to keep a record's versions, for measurements beside
//! [`coeval_storage::record`].
//!
//! ```text
//!   pure N2O     header ──▶ newest ──▶ … ──▶ oldest
//!   pure O2N     header ──▶ oldest ──▶ … ──▶ newest
//!   HyPer style  header with the newest ──▶ the one before ──▶ … ──▶ oldest
//!   EMS          header with the two newest ──▶ oldest ──▶ … ──▶ third newest
//! ```
//!
//! What tells them apart is how many versions a reader goes through before it has its
//! own, of a record with `m` committed versions, while nobody writes and while somebody
//! holds the record with a private version:
//!
//! | version | pure N2O | pure O2N | HyPer style | EMS |
//! | --- | --- | --- | --- | --- |
//! | newest | 1 | m | 0 | 0 |
//! | newest, being updated | 2 | m | 1 | 0 |
//! | oldest | m | 1 | m − 1 | 1 |
//! | oldest, being updated | m + 1 | 1 | m | 1 |
//!
//! (for EMS with three versions or more: of two both are in the header.)
//!
//! All have the same values, locks and way to be read; headers lie in one array. Nothing
//! is collected: every version stays until the storage is dropped, which is what the
//! measurements are of, and why a reader needs no protection here.
//!
//! Invariants, for each of them: only the holder of a record's lock writes in it; a
//! version that was committed stays where a reader can reach it; timestamps of a record's
//! versions increase.
//!
//! Source: EMS §2.2.2, table 2.1, §2.5.

mod header;
mod hyper;
mod inline;
mod lists;

use coeval_memory::epoch::Guard;
use coeval_storage::{Value, Version};
use coeval_types::{Timestamp, TransactionId};

pub use header::{Header, Headers};
pub use inline::Ems;

/// Every version in a list, the newest first.
pub type PureN2o = Headers<lists::NewestFirst>;

/// Every version in a list, the oldest first.
pub type PureO2n = Headers<lists::OldestFirst>;

/// The newest version in place, the versions before it in a list.
pub type HyperStyle = Headers<hyper::InPlace>;

/// Records that keep all of their versions, numbered from 0.
pub trait VersionStorage: Sync + Sized {
    /// What it is called.
    const NAME: &'static str;

    /// So many records, each with one version, of timestamp 1, that `first` makes.
    fn filled(records: usize, first: &dyn Fn(usize) -> Value) -> Self;

    /// The newest version committed at or before `snapshot`. Never blocks.
    fn read<'read>(
        &'read self,
        record: usize,
        snapshot: Timestamp,
        guard: &'read Guard<'_>,
    ) -> Option<Version<'read>>;

    /// Locks a record and gives it a private version. False when another writer has it.
    ///
    /// # Panics
    /// When `writer` has it already.
    fn update(&self, record: usize, writer: TransactionId, value: Value, guard: &Guard<'_>)
    -> bool;

    /// Makes the private version the newest, and gives the lock back.
    ///
    /// # Panics
    /// When `writer` does not hold the record.
    fn commit(&self, record: usize, writer: TransactionId, cts: Timestamp);

    /// Memory that headers, list nodes and values take, in bytes. Goes through all of
    /// them; nobody writes meanwhile.
    fn bytes(&self) -> usize;
}
