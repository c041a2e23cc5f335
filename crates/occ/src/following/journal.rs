//! Which records were changed by what is replayed and not yet committed.
//!
//! ```text
//!              committed                                 taken back
//!                 ◀──   104 r5 │ 104 r9 │ 168 r5 │ 232 r7   ──▶
//! ```
//!
//! In the order of commits: from the front they are settled, from the back taken back.

use std::collections::{BTreeSet, VecDeque};

use coeval_types::{Lsn, Rid, StorageId, Timestamp};

/// A record.
pub(super) type Place = (StorageId, Rid);

/// The records that commits have changed, in the order of the commits.
#[derive(Debug, Default)]
pub(super) struct Journal(VecDeque<(Timestamp, Place)>);

impl Journal {
    /// Adds what commits behind all others have changed, in any order.
    pub(super) fn extend(&mut self, mut touched: Vec<(Timestamp, Place)>) {
        touched.sort_unstable();
        if let (Some((last, _)), Some((first, _))) = (self.0.back(), touched.first()) {
            assert!(last < first, "replay went back");
        }
        self.0.extend(touched);
    }

    /// Takes the records of all commits before `end`, each once and in their order, and says
    /// which commit is the last.
    pub(super) fn settle(&mut self, end: Lsn) -> Option<(Timestamp, Vec<Place>)> {
        let count = self.0.partition_point(|(cts, _)| cts.lsn() < end);
        let (last, _) = *self.0.get(count.checked_sub(1)?)?;
        let mut places: Vec<_> = self.0.drain(..count).map(|(_, place)| place).collect();
        places.sort_unstable();
        places.dedup();
        Some((last, places))
    }

    /// Takes the records of all commits at `from` and behind, each once and in their order.
    pub(super) fn take_back(&mut self, from: Lsn) -> Vec<Place> {
        let kept = self.0.partition_point(|(cts, _)| cts.lsn() < from);
        let mut places: Vec<_> = self.0.drain(kept..).map(|(_, place)| place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether everything is settled.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The records of a storage that are not settled.
    pub(super) fn of(&self, storage: StorageId) -> BTreeSet<Place> {
        let places = self.0.iter().map(|(_, place)| *place);
        places.filter(|(its, _)| *its == storage).collect()
    }
}
