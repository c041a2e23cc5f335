//! Garbage collection of versions: the context that a collecting thread needs, to decide
//! which versions have expired and to remove their index entries.

use coeval_memory::epoch::Guard;
use coeval_types::{Rid, RowRef};

use crate::record::Record;
use crate::snapshots::Expiry;

/// Index maintenance during garbage collection: notified of every removed version, so that
/// its index entries are removed with it.
pub trait IndexUpkeep: Sync {
    /// Called after the version `removed` of record `rid` was removed, under the record's
    /// lock, so no entry for the record is being added meanwhile. The implementation
    /// removes the index entry of `removed`'s key, unless a row in `remaining` has the same
    /// key. Several versions with the same key that are removed together are each reported,
    /// so the entry may be gone already.
    ///
    /// An implementation does not wait for record locks and does not pin for long.
    fn removed(&self, rid: Rid, removed: RowRef<'_>, remaining: &Remaining<'_>);
}

/// Index maintenance for tables without indexes: does nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoIndexes;

impl IndexUpkeep for NoIndexes {
    fn removed(&self, _: Rid, _: RowRef<'_>, _: &Remaining<'_>) {}
}

/// The versions that a record still has, under its lock: the private one, and the committed
/// ones in the record and in the version list. Tombstones are not rows.
#[derive(Debug)]
pub struct Remaining<'record> {
    record: &'record Record,
    guard: &'record Guard<'record>,
}

impl<'record> Remaining<'record> {
    pub(crate) fn new(record: &'record Record, guard: &'record Guard<'record>) -> Self {
        Self { record, guard }
    }

    /// The guard of the thread that removes the version.
    #[must_use]
    pub fn guard(&self) -> &'record Guard<'record> {
        self.guard
    }

    /// Whether any of the remaining rows satisfies `predicate`.
    #[must_use]
    pub fn any(&self, mut predicate: impl FnMut(RowRef<'_>) -> bool) -> bool {
        self.record.any_row(true, self.guard, &mut predicate)
    }
}

/// Context with which a writer or the garbage collector removes expired versions.
#[derive(Clone, Copy)]
pub struct Collector<'a> {
    /// Protects the memory that the thread reads, and takes the memory that it retires.
    pub guard: &'a Guard<'a>,
    /// Decides which versions have expired.
    pub expiry: &'a Expiry<'a>,
    /// Notified of every removed version.
    pub indexes: &'a dyn IndexUpkeep,
}

impl std::fmt::Debug for Collector<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Collector")
            .field("expiry", self.expiry)
            .finish_non_exhaustive()
    }
}
