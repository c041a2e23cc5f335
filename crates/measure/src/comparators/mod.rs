//! Alternative layouts of a record's versions, for measurements against
//! [`coeval_storage::record`].
//!
//! ```text
//!   pure N2O     header ──▶ newest ──▶ … ──▶ oldest
//!   pure O2N     header ──▶ oldest ──▶ … ──▶ newest
//!   HyPer style  header with the newest ──▶ the one before ──▶ … ──▶ oldest
//!   EMS          header with the two newest ──▶ oldest ──▶ … ──▶ third newest
//! ```
//!
//! The layouts differ in the number of versions that a reader visits before it reaches
//! its own, in a record with `m` committed versions, without a writer and while a writer
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
//! All layouts have the same values, locks and read interface; headers are in one array.
//! There is no garbage collection: every version stays until the storage is dropped,
//! because the measurements are about long chains; so a reader needs no protection here.
//!
//! Invariants, for each layout: only the holder of a record's lock writes in it; a
//! committed version stays where a reader can reach it; the timestamps of a record's
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

/// A version storage under measurement: records, numbered from 0, that keep all their
/// versions.
pub trait VersionStorage: Sync + Sized {
    /// The layout's name in measurements.
    const NAME: &'static str;

    /// A storage of `records` records, each with one version of timestamp 1, made by
    /// `first`.
    fn filled(records: usize, first: &dyn Fn(usize) -> Value) -> Self;

    /// The newest version committed at or before `snapshot`. Never blocks.
    fn read<'read>(
        &'read self,
        record: usize,
        snapshot: Timestamp,
        guard: &'read Guard<'_>,
    ) -> Option<Version<'read>>;

    /// Locks a record and gives it a private version. False when another writer holds it.
    ///
    /// # Panics
    /// When `writer` holds it already.
    fn update(&self, record: usize, writer: TransactionId, value: Value, guard: &Guard<'_>)
    -> bool;

    /// Commits the private version at `cts`, as the newest, and frees the lock.
    ///
    /// # Panics
    /// When `writer` does not hold the record.
    fn commit(&self, record: usize, writer: TransactionId, cts: Timestamp);

    /// Memory that headers, list nodes and values take, in bytes. Visits all of them; the
    /// caller must not write meanwhile.
    fn bytes(&self) -> usize;
}
