//! What whoever finds garbage needs: when a version has expired, and whom to tell
//! that it is gone.

use coeval_memory::epoch::Guard;
use coeval_types::{Rid, RowRef};

use crate::record::Record;
use crate::snapshots::Expiry;

/// Told of every version that goes, so that index entries go with it.
pub trait IndexUpkeep: Sync {
    /// `removed` was a version of `rid` and is none any more. Called under the
    /// record's lock, so no entry for the record is being added meanwhile. An index
    /// entry of `removed`'s key goes now, unless a row in `remaining` has the same
    /// key. Of several versions with one key that go together each is reported, so
    /// the entry may be gone already.
    ///
    /// Does not wait for locks of records and does not pin for long.
    fn removed(&self, rid: Rid, removed: RowRef<'_>, remaining: &Remaining<'_>);
}

/// For tables without indexes.
#[derive(Clone, Copy, Debug)]
pub struct NoIndexes;

impl IndexUpkeep for NoIndexes {
    fn removed(&self, _: Rid, _: RowRef<'_>, _: &Remaining<'_>) {}
}

/// The versions that a record still has, under its lock: the private one, the
/// committed ones in the record and in the list. Tombstones are no rows.
#[derive(Debug)]
pub struct Remaining<'record> {
    record: &'record Record,
    guard: &'record Guard<'record>,
}

impl<'record> Remaining<'record> {
    pub(crate) fn new(record: &'record Record, guard: &'record Guard<'record>) -> Self {
        Self { record, guard }
    }

    /// What whoever removes the version is pinned by.
    #[must_use]
    pub fn guard(&self) -> &'record Guard<'record> {
        self.guard
    }

    /// Whether any of the rows satisfies `predicate`.
    #[must_use]
    pub fn any(&self, mut predicate: impl FnMut(RowRef<'_>) -> bool) -> bool {
        self.record.any_row(true, self.guard, &mut predicate)
    }
}

/// What a writer or a sweep removes garbage with.
#[derive(Clone, Copy)]
pub struct Collector<'a> {
    /// Keeps what is read, and takes what is removed.
    pub guard: &'a Guard<'a>,
    /// Which versions may go.
    pub expiry: &'a Expiry<'a>,
    /// Who hears of it.
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
