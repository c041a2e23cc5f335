//! A table of a node that follows: filled from the log, readable, and ready to be led.
//!
//! [`RecoveringTable`](super::RecoveringTable) is for a start, which has the table to
//! itself. Here every record has its versions from the last one that is committed on.
//! `record/follow.rs` says how they come and go.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Lsn, Rid, RowRef, Timestamp};

use super::Table;
use super::array::RID_LIMIT;
use crate::collector::Collector;
use crate::record::{Change, Collected, Record, ReplayError, Replayed, Upkeep};

/// A record that follows.
#[derive(Clone, Copy, Debug)]
pub struct FollowedRecord<'table> {
    table: &'table Table,
    rid: Rid,
    record: &'table Record,
}

impl Table {
    /// The record with a RID that the log names, which from now on exists; `None` when no
    /// table is that large. Not for a table that gives RIDs out itself.
    #[inline]
    pub fn followed(&self, rid: Rid) -> Option<FollowedRecord<'_>> {
        if rid.0 >= RID_LIMIT {
            return None;
        }
        let record = self.records.get_or_grow(rid);
        let high_water = &self.rids.high_water;
        // Looking first keeps the cache line shared.
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

    /// Follows no more, and gives RIDs out from now on: every RID without a row is free.
    /// Everything is settled, what expired is collected, and nobody reads. Linear in the
    /// size of the table.
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
    /// Asks for the record's memory, and does not wait for it.
    #[inline]
    pub fn prefetch(self) {
        self.record.prefetch();
    }

    /// Asks for the row's memory, and does not wait for it; but it waits for the
    /// record's.
    #[inline]
    pub fn prefetch_row(self) {
        self.record.prefetch_row();
    }

    /// Installs a full image.
    pub fn image(
        self,
        cts: Timestamp,
        row: RowRef<'_>,
        collector: &Collector<'_>,
    ) -> Result<Replayed, ReplayError> {
        self.follow(cts, Change::Image(row), collector)
    }

    /// Installs what a patch makes of the version at `previous`, which is the newest.
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

    /// Takes out every version that came from `from` or behind, and shows the rows among
    /// them. Entries of indexes are the caller's. Nobody reads the record meanwhile.
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

    /// Whether any of its versions has a row that satisfies `predicate`. Nobody writes
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
