//! Backfill: the building of an index beside replay, in steps.
//!
//! CREATE INDEX commits on the leader with an index that is built. A follower that replays
//! the commit has the table and no index yet. It makes the commit visible with the index
//! *unbuilt*: replay maintains the index from then on, plans do without it, and the thread
//! that replays goes through the records that there were, some at a time, between its other
//! steps.
//!
//! ```text
//!   records      0 ───────── next ─────────── end ─────── high water
//!                 have entries │ may lack them │ have entries
//!                                              └ records that are new since the definition
//! ```
//!
//! # Why the index is complete at the end
//!
//! A record that has changed since the definition got the entries of its new version then,
//! unless all keys were those of the version before ([`Followed::settle`](super::tables));
//! then the entry is there if the record lies before `next`, and is made when the backfill
//! comes to it. The backfill makes the entries of every version that a record still has, so
//! snapshots from the definition on find what they show, old versions included. Entries are
//! made in any order: whichever record of a primary key comes first, in the end the key leads
//! to the one that has it as its newest version, and the others are displaced.
//!
//! No record is under replay meanwhile: backfill, replay, collection and taking back are
//! steps of one thread.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwapOption;
use coeval_txn::UnbuiltIndexes;
use coeval_types::{IndexId, Rid, StorageId, planted};

use crate::storage::Index;

/// Most records of a table whose index is built at once, which takes some milliseconds.
pub(super) const AT_ONCE: u64 = if cfg!(test) { 4 } else { 1 << 12 };

/// An index that is being built.
#[derive(Debug)]
pub(super) struct Backfill {
    pub(super) storage: StorageId,
    pub(super) index: Arc<Index>,
    /// The next record to look at, and the first that needs no look.
    pub(super) next: Rid,
    pub(super) end: Rid,
}

/// The indexes that are being built, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Backfills {
    waiting: Mutex<VecDeque<Backfill>>,
    /// All indexes that plans must do without.
    unbuilt: ArcSwapOption<UnbuiltIndexes>,
}

impl Backfills {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Backfill>> {
        self.waiting.lock().expect("no panic while it was held")
    }

    /// Notes an index of which no commit that is visible knows.
    pub(super) fn begin(&self, backfill: Backfill) {
        if planted!(ShowUnbuiltIndex) {
            backfill.index.set_built();
        } else {
            self.change(|unbuilt| unbuilt.insert((backfill.storage, backfill.index.id)));
        }
        self.waiting().push_back(backfill);
    }

    /// Takes the backfill to go on with.
    pub(super) fn take(&self) -> Option<Backfill> {
        self.waiting().pop_front()
    }

    /// Puts a backfill back that is not at its end.
    pub(super) fn put_back(&self, backfill: Backfill) {
        self.waiting().push_front(backfill);
    }

    /// The index is complete: snapshots from its definition on may use it.
    pub(super) fn end(&self, backfill: &Backfill) {
        backfill.index.set_built();
        self.change(|unbuilt| unbuilt.remove(&(backfill.storage, backfill.index.id)));
    }

    /// A storage, or one index of it, has gone.
    pub(super) fn forget(&self, storage: StorageId, index: Option<IndexId>) {
        let is_gone = |its: (StorageId, IndexId)| {
            its.0 == storage && index.is_none_or(|index| index == its.1)
        };
        self.waiting()
            .retain(|backfill| !is_gone((backfill.storage, backfill.index.id)));
        self.change(|unbuilt| {
            let before = unbuilt.len();
            unbuilt.retain(|its| !is_gone(*its));
            unbuilt.len() < before
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// The indexes that plans must do without.
    pub(super) fn unbuilt(&self) -> Option<Arc<UnbuiltIndexes>> {
        self.unbuilt.load_full()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<(StorageId, IndexId)>) -> bool) {
        let before = self.unbuilt.load_full();
        let mut unbuilt = before.map(Arc::unwrap_or_clone).unwrap_or_default();
        if change(&mut unbuilt) {
            let unbuilt = (!unbuilt.is_empty()).then(|| Arc::new(unbuilt));
            self.unbuilt.store(unbuilt);
        }
    }
}
