//! A table during recovery: filled from the log or a checkpoint, before it can be read.
//!
//! ```
//! use coeval_memory::epoch::Domain;
//! use coeval_storage::{RecoveringTable, Replayed};
//! use coeval_types::{Rid, RowBuilder, RowRef, Timestamp, TransactionId};
//!
//! let row = |text: &[u8]| {
//!     let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
//!     builder.push(Some(text));
//!     builder.finish(&mut bytes);
//!     bytes
//! };
//! let (one, two) = (row(b"1"), row(b"2"));
//! let [ten, twenty] = [10, 20].map(Timestamp::from_bits);
//! let mut patch = Vec::new();
//! RowRef::trusted(&one).diff(RowRef::trusted(&two), &mut patch);
//!
//! let recovering = RecoveringTable::new();
//! let record = recovering.record(Rid(5)).unwrap();
//! record.image(ten, RowRef::trusted(&one));
//! assert_eq!(record.patch(twenty, ten, &patch), Ok(Replayed::Applied));
//! assert_eq!(record.patch(twenty, ten, &patch), Ok(Replayed::AlreadyThere));
//!
//! let (table, domain) = (recovering.finish(), Domain::new());
//! let guard = domain.pin();
//! let version = table.record(Rid(5)).unwrap().read(twenty, TransactionId(1), &guard);
//! assert_eq!(version.unwrap().row(), Some(RowRef::trusted(&two)));
//! ```
//!
//! Any thread may replay any entry; but entries of one record have an order, so one thread
//! should replay all of them. There are no readers meanwhile: no [`Table`] exists to read
//! from before [`RecoveringTable::finish`]. `record/replay.rs` documents how replay
//! exploits that.
//!
//! Replay of many entries mostly waits for memory. A caller with a few dozen entries
//! prefetches all their [records](RecoveringRecord::prefetch), then all their
//! [rows](RecoveringRecord::prefetch_row), and then replays them.

use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Rid, RowRef, Timestamp};

use super::Table;
use super::array::RID_LIMIT;
use crate::record::{Record, ReplayError, Replayed};
use crate::usage::Memory;

/// A table that recovery is filling, and that no thread can read yet.
#[derive(Debug, Default)]
pub struct RecoveringTable(Table);

/// A record of a table in recovery.
#[derive(Clone, Copy, Debug)]
pub struct RecoveringRecord<'table> {
    table: &'table Table,
    rid: Rid,
    record: &'table Record,
}

impl RecoveringTable {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The record with this RID, which exists from now on; `None` when the RID is beyond a
    /// table's limit.
    #[inline]
    pub fn record(&self, rid: Rid) -> Option<RecoveringRecord<'_>> {
        if rid.0 >= RID_LIMIT {
            return None;
        }
        let record = self.0.records.get_or_grow(rid);
        let high_water = &self.0.rids.high_water;
        // Loading first keeps the cache line shared.
        if high_water.load(Ordering::Relaxed) <= rid.0 {
            high_water.fetch_max(rid.0 + 1, Ordering::AcqRel);
        }
        Some(RecoveringRecord {
            table: &self.0,
            rid,
            record,
        })
    }

    /// Memory that the table occupies so far.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.0.memory()
    }

    /// Ends recovery and returns the table: tombstones are gone, and every RID without a
    /// row is free. Linear in the size of the table.
    #[must_use]
    pub fn finish(self) -> Table {
        let table = self.0;
        let mut rows = 0;
        let dead = (0..table.high_water().0).map(Rid).filter(|&rid| {
            let lives = table.records.get_or_grow(rid).finish_replay();
            rows += i64::from(lives);
            !lives
        });
        table.rids.rebuild(dead);
        table.records.count_all_used(table.high_water());
        table.usage.rows_changed(rows);
        table
    }
}

impl RecoveringRecord<'_> {
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

    /// Installs a full image, unless the record already includes it.
    pub fn image(self, cts: Timestamp, row: RowRef<'_>) -> Replayed {
        self.record.replay_row(cts, row, &self.table.usage)
    }

    /// Applies a patch (see [`RowRef::patched`]) to the version at `previous`.
    pub fn patch(
        self,
        cts: Timestamp,
        previous: Timestamp,
        patch: &[u8],
    ) -> Result<Replayed, ReplayError> {
        let usage = &self.table.usage;
        self.record
            .replay_patch(self.rid, cts, previous, patch, usage)
    }

    /// Installs a tombstone, unless the record already includes the deletion.
    pub fn delete(self, cts: Timestamp) -> Replayed {
        self.record.replay_tombstone(cts, &self.table.usage)
    }
}
