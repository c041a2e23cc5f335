//! Replay of log entries into a table; see [`crate::record`]'s `replay`.
//!
//! Workers replay in parallel, each record's entries in log order by one worker.
//! Nobody reads or writes meanwhile. [`Table::finish_replay`] comes last.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Rid, RowRef, Timestamp};

use super::Table;
use super::array::RID_LIMIT;
use crate::record::{Record, ReplayError, Replayed};
use crate::value::Value;

impl Table {
    /// The record with this RID, which from now on exists.
    fn ensure(&self, rid: Rid) -> &Record {
        let record = self.records.get_or_grow(rid);
        self.rids.high_water.fetch_max(rid.0 + 1, Ordering::AcqRel);
        record
    }

    /// Whether a RID from outside can name a record at all.
    #[must_use]
    pub fn is_possible(rid: Rid) -> bool {
        rid.0 < RID_LIMIT
    }

    /// Installs a full image. `rid` [is possible](Table::is_possible), as for the
    /// other entries.
    pub fn replay_image(
        &self,
        rid: Rid,
        cts: Timestamp,
        row: RowRef<'_>,
        guard: &Guard<'_>,
    ) -> Replayed {
        self.ensure(rid)
            .replay_value(cts, Value::row(row), &self.usage, guard)
    }

    /// Applies a patch (see [`RowRef::patched`]) of the version at `previous`.
    pub fn replay_patch(
        &self,
        rid: Rid,
        cts: Timestamp,
        previous: Timestamp,
        patch: &[u8],
        guard: &Guard<'_>,
    ) -> Result<Replayed, ReplayError> {
        self.ensure(rid)
            .replay_patch(rid, cts, previous, patch, &self.usage, guard)
    }

    /// Installs a tombstone.
    pub fn replay_delete(&self, rid: Rid, cts: Timestamp, guard: &Guard<'_>) -> Replayed {
        self.ensure(rid)
            .replay_value(cts, Value::tombstone(), &self.usage, guard)
    }

    /// Ends replay: tombstones go, and every RID without a row is free. Linear in
    /// the size of the table.
    pub fn finish_replay(&self) {
        let mut rows = 0;
        let dead = (0..self.high_water().0).map(Rid).filter(|&rid| {
            let lives = self.records.get_or_grow(rid).finish_replay();
            rows += i64::from(lives);
            !lives
        });
        self.rids.rebuild(dead);
        self.records.count_all_used(self.high_water());
        self.usage
            .rows_changed(rows - self.usage.rows().cast_signed());
    }
}
