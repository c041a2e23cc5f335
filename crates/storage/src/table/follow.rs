//! A table on a follower: filled from the log, readable, and ready for the node to become
//! leader.
//!
//! [`RecoveringTable`](super::RecoveringTable) is for recovery, which has exclusive access
//! to the table. Here every record keeps its versions from the last committed one on.
//! `record/follow.rs` documents how they are installed and rolled back.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Lsn, Rid, RowRef, Timestamp};

use super::Table;
use super::array::RID_LIMIT;
use crate::Expiry;
use crate::collector::Collector;
use crate::record::{Change, Collected, Record, ReplayError, Replayed, Upkeep};

/// A record of a follower's table.
#[derive(Clone, Copy, Debug)]
pub struct FollowedRecord<'table> {
    table: &'table Table,
    rid: Rid,
    record: &'table Record,
}

impl Table {
    /// The record with a RID from the log, which exists from now on; `None` when the RID is
    /// beyond a table's limit. Not for a table that allocates RIDs itself.
    #[inline]
    pub fn followed(&self, rid: Rid) -> Option<FollowedRecord<'_>> {
        if rid.0 >= RID_LIMIT {
            return None;
        }
        let record = self.records.get_or_grow(rid);
        let high_water = &self.rids.high_water;
        // Loading first keeps the cache line shared.
        if high_water.load(Ordering::Relaxed) <= rid.0 {
            let before = high_water.fetch_max(rid.0 + 1, Ordering::AcqRel);
            (before..=rid.0).for_each(|rid| self.records.count_first_use(Rid(rid)));
        }
        Some(FollowedRecord {
            table: self,
            rid,
            record,
        })
    }

    /// Ends following: the table allocates RIDs itself from now on, and every RID without a
    /// row is free. The caller guarantees that everything is settled, expired versions are
    /// collected, and no thread reads. Linear in the size of the table.
    pub fn end_following(&self) {
        let dead = (0..self.high_water().0).map(Rid).filter(|&rid| {
            let record = self.records.get_or_grow(rid);
            record.die_if_unused();
            record.is_dead()
        });
        self.rids.rebuild(dead);
    }
}

impl FollowedRecord<'_> {
    /// Prefetches the record, without waiting.
    #[inline]
    pub fn prefetch(self) {
        self.record.prefetch();
    }

    /// Prefetches the row, without waiting for it; waits for the record, however.
    #[inline]
    pub fn prefetch_row(self) {
        self.record.prefetch_row();
    }

    /// Installs a full image as a new version.
    pub fn image(
        self,
        cts: Timestamp,
        row: RowRef<'_>,
        collector: &Collector<'_>,
    ) -> Result<Replayed, ReplayError> {
        self.follow(cts, Change::Image(row), collector)
    }

    /// Installs a new version by applying a patch to the one at `previous`, which is the
    /// newest.
    pub fn patch(
        self,
        cts: Timestamp,
        previous: Timestamp,
        patch: &[u8],
        collector: &Collector<'_>,
    ) -> Result<Replayed, ReplayError> {
        self.follow(cts, Change::Patch { previous, patch }, collector)
    }

    /// Installs a tombstone.
    pub fn delete(
        self,
        cts: Timestamp,
        collector: &Collector<'_>,
    ) -> Result<Replayed, ReplayError> {
        self.follow(cts, Change::Delete, collector)
    }

    fn follow(
        self,
        cts: Timestamp,
        change: Change<'_>,
        collector: &Collector<'_>,
    ) -> Result<Replayed, ReplayError> {
        self.record.follow(cts, change, &self.upkeep(collector))
    }

    /// Removes every version with a log offset of `from` or later, and passes their rows to
    /// `taken`. The caller removes their index entries. No thread may read the record
    /// meanwhile.
    pub fn take_back(self, from: Lsn, guard: &Guard<'_>, taken: &mut dyn FnMut(RowRef<'_>)) {
        self.record.take_back(from, &self.table.usage, guard, taken);
    }

    /// Removes expired versions. Returns how many.
    pub fn collect(self, collector: &Collector<'_>) -> usize {
        match self.record.collect(&self.upkeep(collector)) {
            Collected::Nothing => 0,
            Collected::Versions(removed) | Collected::Dead(removed) => removed,
        }
    }

    /// Passes the oldest holder of each replaced version to `visit`, as far as one is
    /// registered: that version is collected once this snapshot has ended, at the earliest.
    /// A version whose successor may still be rolled back is left out. No thread may write
    /// meanwhile.
    pub fn holders(self, expiry: &Expiry<'_>, guard: &Guard<'_>, visit: &mut dyn FnMut(Timestamp)) {
        self.record.replaced(guard, &mut |cts, successor| {
            if expiry.is_settled(successor)
                && let Some(holder) = expiry.holder(cts, successor)
            {
                visit(holder);
            }
        });
    }

    /// Whether any version has a row that satisfies `predicate`. No thread may write
    /// meanwhile.
    pub fn any_row(self, guard: &Guard<'_>, mut predicate: impl FnMut(RowRef<'_>) -> bool) -> bool {
        self.record.any_row(false, guard, &mut predicate)
    }

    fn upkeep<'a>(&self, collector: &'a Collector<'a>) -> Upkeep<'a>
    where
        Self: 'a,
    {
        Upkeep {
            rid: self.rid,
            usage: &self.table.usage,
            collector,
        }
    }
}
