//! References to records: the interface through which the engine reads and writes a record.

use coeval_memory::epoch::Guard;
use coeval_types::{Rid, RowLock, RowRef, Timestamp, TransactionId};

use super::Table;
use crate::collector::Collector;
use crate::record::{Aborted, Collected, Record, TryLock, Upkeep, Version};
use crate::value::Value;

/// A reference to a record in its table.
///
/// Methods that take a `holder` panic unless that transaction holds the record's lock:
/// calling them otherwise is a bug in the engine, and would corrupt the record.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'table> {
    pub(super) table: &'table Table,
    pub(super) rid: Rid,
    pub(super) record: &'table Record,
}

impl<'table> RecordRef<'table> {
    /// The record's RID.
    #[must_use]
    pub fn rid(&self) -> Rid {
        self.rid
    }

    /// Prefetches the record: useful for a caller that will read several records in turn.
    #[inline]
    pub fn prefetch(&self) {
        self.record.prefetch();
    }

    /// Prefetches the newest row, once the record itself is in the cache.
    #[inline]
    pub fn prefetch_row(&self) {
        self.record.prefetch_row();
    }

    /// Whether the record is dead: then the caller must look the key up again.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.record.is_dead()
    }

    /// The transaction that holds the record's lock.
    #[must_use]
    pub fn holder(&self) -> Option<TransactionId> {
        self.record.holder()
    }

    /// Whether a transaction has written the record and has not ended yet, at some moment during
    /// the call.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.record.is_written()
    }

    /// The version that `reader` sees at `snapshot`, which it has registered: its own
    /// uncommitted one, else the newest one committed at or before the snapshot. Never
    /// blocks, allocates nothing, writes nothing.
    ///
    /// When [`Version::jumps`] is not 0, the read had to walk the list:
    /// [`RecordRef::collect`] shortens it if possible.
    #[inline]
    pub fn read<'guard>(
        &self,
        snapshot: Timestamp,
        reader: TransactionId,
        guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        self.record.read(snapshot, reader, guard)
    }

    /// The newest committed version, whatever the snapshot. Never blocks. For the lock's
    /// holder it is the version that a write replaces.
    pub fn newest_committed<'guard>(&self, guard: &'guard Guard<'_>) -> Option<Version<'guard>> {
        self.record.newest_committed(guard)
    }

    /// The version directly before the newest committed one, if it is still in the record.
    /// For the lock's holder, before its first write.
    pub fn version_before<'guard>(
        &self,
        holder: TransactionId,
        guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        assert_eq!(self.holder(), Some(holder), "not the holder");
        self.record.version_before(guard)
    }

    /// The transaction that holds the record's lock, and in which mode.
    #[must_use]
    pub fn held(&self) -> Option<(TransactionId, RowLock)> {
        self.record.held()
    }

    /// Takes the lock in mode UPDATE if no transaction holds it. Never waits for a transaction.
    pub fn try_lock(&self, id: TransactionId) -> TryLock {
        self.try_lock_as(id, RowLock::Update)
    }

    /// Takes the lock, if no transaction holds it, in one of the two modes that allow a change.
    pub fn try_lock_as(&self, id: TransactionId, mode: RowLock) -> TryLock {
        let locked = self.record.try_lock(id, mode);
        if locked == TryLock::Locked {
            self.record.prefetch_replaced();
        }
        locked
    }

    /// Sets the mode of the holder's lock.
    pub fn set_mode(&self, holder: TransactionId, mode: RowLock) {
        self.record.set_mode(holder, mode);
    }

    /// Releases a lock under which nothing was written.
    pub fn unlock(&self, holder: TransactionId) {
        self.record.unlock(holder);
    }

    /// Makes `value` the holder's private version. The version that it will replace stays
    /// readable. The caller adds index entries for it before or after, but under the lock.
    pub fn write(&self, holder: TransactionId, value: Value, collector: &Collector<'_>) {
        self.record.write(holder, value, &self.upkeep(collector));
    }

    /// Whether the holder has written the record, rather than only locked it.
    #[must_use]
    pub fn has_private(&self, holder: TransactionId) -> bool {
        self.record.has_private(holder)
    }

    /// A copy of the private version: a savepoint takes it before the next write.
    #[must_use]
    pub fn private_value(&self, holder: TransactionId) -> Option<Value> {
        self.record.private_value(holder)
    }

    /// Restores a value from [`RecordRef::private_value`], where `None` means *not yet
    /// written*. The holder keeps the lock.
    pub fn restore_private(&self, holder: TransactionId, value: Option<Value>, guard: &Guard<'_>) {
        self.record
            .restore_private(holder, value, &self.table.usage, guard);
    }

    /// Whether a committed version, or the private one if `with_private`, has a row that
    /// satisfies `predicate`. Decides whether an index entry stays.
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

    /// Makes the private version the newest committed one, and releases the lock.
    ///
    /// # Panics
    /// When there is no private version, or `cts` is not above the newest.
    pub fn commit(&self, holder: TransactionId, cts: Timestamp) {
        let committed = self.record.commit(holder, cts);
        self.table.usage.rows_changed(committed.rows);
        self.table.usage.value_replaced(committed.replaced);
    }

    /// Drops the private version, if any, and releases the lock. The caller removes index
    /// entries that it added for the version before, under the lock, unless another version
    /// has the key; or after, when the result is [`Aborted::Dead`], and then calls
    /// [`Table::retire`].
    pub fn abort(&self, holder: TransactionId, guard: &Guard<'_>) -> Aborted {
        self.record.abort(holder, &self.table.usage, guard)
    }

    /// Number of patches of the record in the log since its last full image. For the lock's
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

    /// Removes expired versions, if no thread holds the lock; never waits. A record that
    /// has only an old tombstone left dies, and its RID is retired. Returns the number of
    /// removed versions.
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
