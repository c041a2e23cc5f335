//! The follower's undo journal: the records that replayed commits have changed, until
//! these commits pass the commit point.
//!
//! ```text
//!              committed                                 taken back
//!                 ◀──   104 r5 │ 104 r9 │ 168 r5 │ 232 r7   ──▶
//! ```
//!
//! Commits are in log order: they are settled from the front, and taken back from the
//! back.

use std::collections::{BTreeSet, VecDeque};

use coeval_types::{Lsn, Rid, StorageId, Timestamp};

/// Identifies a record.
pub(super) type RecordName = (StorageId, Rid);

/// The records that commits have changed, in commit order.
#[derive(Debug, Default)]
pub(super) struct Journal(VecDeque<(Timestamp, RecordName)>);

impl Journal {
    /// Adds the records that later commits have changed, in any order.
    pub(super) fn extend(&mut self, mut touched: Vec<(Timestamp, RecordName)>) {
        touched.sort_unstable();
        if let (Some((last, _)), Some((first, _))) = (self.0.back(), touched.first()) {
            assert!(last < first, "replay went back");
        }
        self.0.extend(touched);
    }

    /// Removes all commits before `end`. Returns the timestamp of the last one, and their
    /// records, each once and in order.
    pub(super) fn settle(&mut self, end: Lsn) -> Option<(Timestamp, Vec<RecordName>)> {
        let count = self.0.partition_point(|(cts, _)| cts.lsn() < end);
        let (last, _) = *self.0.get(count.checked_sub(1)?)?;
        let mut places: Vec<_> = self.0.drain(..count).map(|(_, place)| place).collect();
        places.sort_unstable();
        places.dedup();
        Some((last, places))
    }

    /// Removes all commits from `from` on. Returns their records, each once and in order.
    pub(super) fn take_back(&mut self, from: Lsn) -> Vec<RecordName> {
        let kept = self.0.partition_point(|(cts, _)| cts.lsn() < from);
        let mut places: Vec<_> = self.0.drain(kept..).map(|(_, place)| place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether all journaled commits have passed the commit point.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The journaled records of one storage.
    pub(super) fn of(&self, storage: StorageId) -> BTreeSet<RecordName> {
        let places = self.0.iter().map(|(_, place)| *place);
        places.filter(|(its, _)| *its == storage).collect()
    }
}
