//! A record in its table: what the engine works with.

use coeval_memory::epoch::Guard;
use coeval_types::{Rid, RowRef, Timestamp, TransactionId};

use super::Table;
use crate::collector::Collector;
use crate::record::{Aborted, Collected, Record, TryLock, Upkeep, Version};
use crate::value::Value;

/// A record in its table.
///
/// Methods that take a `holder` panic unless that transaction holds the record's
/// lock: calling them otherwise is a fault in the engine, and would corrupt the
/// record.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'table> {
    pub(super) table: &'table Table,
    pub(super) rid: Rid,
    pub(super) record: &'table Record,
}

impl<'table> RecordRef<'table> {
    /// Its place in the table.
    #[must_use]
    pub fn rid(&self) -> Rid {
        self.rid
    }

    /// Asks for its memory: worth it for several records that will be looked at in turn.
    #[inline]
    pub fn prefetch(&self) {
        self.record.prefetch();
    }

    /// Asks for the memory of its newest row, once the record itself has come.
    #[inline]
    pub fn prefetch_row(&self) {
        self.record.prefetch_row();
    }

    /// Whether there is no record here any more: look the key up again.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.record.is_dead()
    }

    /// Which transaction holds its lock.
    #[must_use]
    pub fn holder(&self) -> Option<TransactionId> {
        self.record.holder()
    }

    /// The version that `reader` sees at `snapshot`, which it has registered: its
    /// own uncommitted one, else the newest committed at or before the snapshot.
    /// Never blocks, allocates nothing, writes nothing.
    ///
    /// When [`Version::jumps`] is not 0, there was a list to walk:
    /// [`RecordRef::collect`] shortens it if it can.
    #[inline]
    pub fn read<'guard>(
        &self,
        snapshot: Timestamp,
        reader: TransactionId,
        guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        self.record.read(snapshot, reader, guard)
    }

    /// The newest committed version, whatever the snapshot. Never blocks. Under the
    /// lock it is the version that a write replaces.
    pub fn newest_committed<'guard>(&self, guard: &'guard Guard<'_>) -> Option<Version<'guard>> {
        self.record.newest_committed(guard)
    }

    /// The version right before the newest committed one, if it is still at hand.
    /// For the holder, as long as it has written nothing.
    pub fn version_before<'guard>(
        &self,
        holder: TransactionId,
        guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        assert_eq!(self.holder(), Some(holder), "not the holder");
        self.record.version_before(guard)
    }

    /// Takes the lock if nobody has it. Never waits for a transaction.
    pub fn try_lock(&self, id: TransactionId) -> TryLock {
        let locked = self.record.try_lock(id);
        if locked == TryLock::Locked {
            self.record.prefetch_replaced();
        }
        locked
    }

    /// Makes `value` the holder's private version. The version it is to replace
    /// stays readable. Index entries for it are added before or after, but under
    /// the lock.
    pub fn write(&self, holder: TransactionId, value: Value, collector: &Collector<'_>) {
        self.record.write(holder, value, &self.upkeep(collector));
    }

    /// Whether the holder has written it, rather than only locked it.
    #[must_use]
    pub fn has_private(&self, holder: TransactionId) -> bool {
        self.record.has_private(holder)
    }

    /// A copy of the private version: a savepoint takes it before the next write.
    #[must_use]
    pub fn private_value(&self, holder: TransactionId) -> Option<Value> {
        self.record.private_value(holder)
    }

    /// Puts back what [`RecordRef::private_value`] gave, `None` being *not yet
    /// written*. The lock stays.
    pub fn restore_private(&self, holder: TransactionId, value: Option<Value>, guard: &Guard<'_>) {
        self.record
            .restore_private(holder, value, &self.table.usage, guard);
    }

    /// Whether a committed version, and the private one if `with_private`, has a
    /// row that satisfies `predicate`: what decides whether an index entry stays.
    pub fn any_row(
        &self,
        holder: TransactionId,
        with_private: bool,
        guard: &Guard<'_>,
        mut predicate: impl FnMut(RowRef<'_>) -> bool,
    ) -> bool {
        assert_eq!(self.holder(), Some(holder), "not the holder");
        self.record.any_row(with_private, guard, &mut predicate)
    }

    /// Makes the private version the newest committed one, and gives the lock back.
    ///
    /// # Panics
    /// When there is no private version, or `cts` is not above the newest.
    pub fn commit(&self, holder: TransactionId, cts: Timestamp) {
        let committed = self.record.commit(holder, cts);
        self.table.usage.rows_changed(committed.rows);
        self.table.usage.value_replaced(committed.replaced);
    }

    /// Drops the private version, if any, and gives the lock back. Entries that
    /// were added for it go before, under the lock, unless another version has
    /// the key; or after, when the answer is [`Aborted::Dead`], followed by
    /// [`Table::retire`].
    pub fn abort(&self, holder: TransactionId, guard: &Guard<'_>) -> Aborted {
        self.record.abort(holder, &self.table.usage, guard)
    }

    /// How many patches of it the log has since its last full image. For the
    /// holder.
    #[must_use]
    pub fn patches_since_image(&self, holder: TransactionId) -> u64 {
        assert_eq!(self.holder(), Some(holder), "not the holder");
        self.record.patches_since_image()
    }

    /// Sets [`RecordRef::patches_since_image`].
    pub fn set_patches_since_image(&self, holder: TransactionId, patches: u64) {
        assert_eq!(self.holder(), Some(holder), "not the holder");
        self.record.set_patches_since_image(patches);
    }

    /// Removes expired versions, if nobody holds the lock; never waits. A record
    /// of which only an old tombstone was left dies, and its RID is retired.
    /// Returns how many versions went.
    pub fn collect(&self, collector: &Collector<'_>) -> usize {
        match self.record.collect(&self.upkeep(collector)) {
            Collected::Nothing => 0,
            Collected::Versions(removed) => removed,
            Collected::Dead(removed) => {
                self.table.retire(self.rid, collector.guard);
                removed
            }
        }
    }

    fn upkeep<'a>(&self, collector: &'a Collector<'a>) -> Upkeep<'a>
    where
        'table: 'a,
    {
        Upkeep {
            rid: self.rid,
            usage: &self.table.usage,
            collector,
        }
    }
}
