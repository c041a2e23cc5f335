//! Tables: arrays of multi-version records, addressed by RID.
//!
//! ```text
//!   allocate ──▶ locked, private ──commit──▶ versions ──delete, sweep──▶ dead
//!      ▲                │                                                  │
//!      │                └────────────abort──────────────▶ dead             │
//!      └──── free list ◀── all guards dropped ◀── retire ◀─────────────────┘
//! ```
//!
//! A RID is reused only after every guard has been dropped that was alive when it was
//! retired; and it is retired only after its index entries are gone. So a reader that finds
//! a RID in an index and accesses the record under the same guard finds that record or a
//! dead one, never another row's.
//!
//! Between two guards a transaction may keep a RID only of a row that its registered
//! snapshot sees, or whose lock it holds: such a record does not die.
//!
//! # Example
//!
//! ```
//! use coeval_memory::epoch::Domain;
//! use coeval_storage::{Collector, Expiry, Horizon, NoIndexes, Snapshots, Table, Value};
//! use coeval_types::{RowBuilder, RowRef, Timestamp, TransactionId};
//!
//! let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
//! let (guard, writer, ten) = (domain.pin(), TransactionId(1), Timestamp::from_bits(10));
//! let horizon = Horizon { installed: Timestamp::ZERO, committed: Timestamp::ZERO };
//! let expiry = Expiry::new(horizon, &snapshots);
//! let collector = Collector { guard: &guard, expiry: &expiry, indexes: &NoIndexes };
//!
//! let mut row = Vec::new();
//! let mut builder = RowBuilder::new();
//! builder.push(Some(b"hello"));
//! builder.finish(&mut row);
//!
//! let record = table.allocate(writer, &guard);
//! record.write(writer, Value::row(RowRef::trusted(&row)), &collector);
//! assert!(record.read(ten, TransactionId(2), &guard).is_none(), "private so far");
//! record.commit(writer, ten);
//! let version = record.read(ten, TransactionId(2), &guard).unwrap();
//! assert_eq!(version.row().unwrap().cell(0), Some(&b"hello"[..]));
//! ```

mod array;
mod follow;
mod record_ref;
mod replay;
mod rids;
mod sweep;

use std::fmt;

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Rid, TransactionId};

use crate::usage::{Memory, Usage};
use array::RecordArray;
pub use follow::FollowedRecord;
pub use record_ref::RecordRef;
pub use replay::{RecoveringRecord, RecoveringTable};
use rids::Rids;
pub use sweep::SweepProgress;

/// The records of one storage.
pub struct Table {
    records: RecordArray,
    rids: Rids,
    usage: Usage,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Table")
            .field("high_water", &self.high_water())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Creates an empty table. Allocates nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            records: RecordArray::new(),
            rids: Rids::new(),
            usage: Usage::default(),
        }
    }

    /// The record with this RID, dead or alive, if it was ever allocated. Takes two
    /// dependent loads.
    #[inline]
    pub fn record(&self, rid: Rid) -> Option<RecordRef<'_>> {
        let record = self.records.get(rid)?;
        Some(RecordRef {
            table: self,
            rid,
            record,
        })
    }

    /// Allocates a record for a new row, locked by `id`, without any version. If the insert
    /// fails, the caller must [`RecordRef::abort`] it.
    pub fn allocate(&self, id: TransactionId, guard: &Guard<'_>) -> RecordRef<'_> {
        let (rid, is_new) = self.rids.take(guard.domain());
        let record = self.records.get_or_grow(rid);
        if is_new {
            self.records.count_first_use(rid);
        }
        record.be_born(id);
        RecordRef {
            table: self,
            rid,
            record,
        }
    }

    /// Returns the RID of a dead record to the free list. The caller has removed its index
    /// entries: no thread that pins from now on finds it.
    pub fn retire(&self, rid: Rid, guard: &Guard<'_>) {
        let record = self.record(rid).expect("a record that was allocated");
        assert!(record.is_dead(), "{rid:?} is not dead");
        self.rids.give_back(rid, guard.domain().stamp());
    }

    /// Upper bound of all RIDs ever allocated. The RIDs from 0 up to it, in order, are the
    /// table; some are dead.
    #[must_use]
    pub fn high_water(&self) -> Rid {
        Rid(self.rids.high_water.load(Ordering::Acquire))
    }

    /// Estimated number of rows among the newest committed versions.
    #[must_use]
    pub fn estimated_rows(&self) -> u64 {
        self.usage.rows()
    }

    /// Memory that the table occupies, without its indexes.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            records: RecordArray::bytes_before(self.high_water()),
            values: self.usage.values(),
            old_values: self.usage.old_values(),
            version_lists: self.usage.nodes(),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for rid in 0..self.high_water().0 {
            if let Some(record) = self.records.get(Rid(rid)) {
                record.free_versions();
            }
        }
        self.records.count_unused(self.high_water());
    }
}
