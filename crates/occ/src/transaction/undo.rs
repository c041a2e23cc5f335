//! Undo: rollback to a savepoint, and abort.

use std::sync::Arc;

use coeval_memory::epoch::Guard;
use coeval_storage::{Aborted, RecordRef, Value};
use coeval_txn::{Error, Isolation, Savepoint};
use coeval_types::key::successor_of_prefix;
use coeval_types::{RowLock, RowRef, TransactionId};

use super::TransactionContext;
use super::commit::has_effect;
use super::state::{Held, Mark, StorageHandle, Undo};
use crate::locks::keys::Taken;
use crate::locks::queues::LockName;
use crate::locks::rows::Tried;
use crate::ranges::interval::End;
use crate::storage::Index;

impl TransactionContext<'_> {
    pub(super) fn savepoint(&mut self) -> Savepoint {
        let mark = Mark {
            undo: self.state.undo.len(),
            held: self.state.held.len(),
            keys: self.state.keys.len(),
            tables: self.state.tables.len(),
            strengthened: self.state.strengthened.len(),
            shares: self.state.shares.len(),
        };
        self.state.savepoints.push(mark);
        Savepoint(self.state.savepoints.len() as u32)
    }

    pub(super) fn release(&mut self, savepoint: Savepoint) {
        let kept = (savepoint.0 as usize).saturating_sub(1);
        self.state.savepoints.truncate(kept);
    }

    pub(super) fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.check_running()?;
        self.stop_waiting(false);
        let mark = (savepoint.0 as usize)
            .checked_sub(1)
            .and_then(|position| self.state.savepoints.get(position).copied())
            .ok_or(Error::Unknown("savepoint"))?;
        self.state.savepoints.truncate(savepoint.0 as usize);
        self.undo_to(mark.undo);
        self.free_locks_since(mark);
        self.free_tables(mark.tables);
        Ok(())
    }

    /// Lets the locks that were made stronger from position `first` on fall back to NO KEY
    /// UPDATE, where they are still held.
    fn weaken(&mut self, first: usize) {
        let (shared, id) = (self.shared, self.state.id);
        for Held { storage, rid } in self.state.strengthened.drain(first..) {
            let table = &self.state.storages[storage];
            let record = table.records.record(rid);
            if let Some(record) = record.filter(|record| record.holder() == Some(id)) {
                record.set_mode(id, RowLock::NoKeyUpdate);
                let name = LockName::Row(table.id, rid);
                shared.queues.released_to_all(&name);
            }
        }
    }

    /// Shares the rows from position `first` on as before, or no more.
    pub(super) fn free_shares(&mut self, first: usize) {
        let (shared, id) = (self.shared, self.state.id);
        for row in self.state.shares.drain(first..).rev() {
            let table = &self.state.storages[row.storage];
            let name = (table.id, row.rid);
            shared.rows.set_share(name, id, row.before);
            let name = LockName::Row(table.id, row.rid);
            shared.queues.released_to_all(&name);
        }
    }

    /// Frees the row and key locks taken since a savepoint, whose writes are undone: they
    /// protect nothing any more. A SERIALIZABLE transaction keeps its key locks, for the
    /// reason that [`Self::give_up_keys`] gives; what it read of the rows is in its read set,
    /// and validated at the commit.
    fn free_locks_since(&mut self, mark: Mark) {
        while self.state.held.len() > mark.held
            && let Some(held) = self.state.held.pop()
        {
            self.release_row(held);
        }
        if self.state.held.is_empty() {
            self.no_writer();
        }
        self.weaken(mark.strengthened);
        self.free_shares(mark.shares);
        if self.state.isolation != Isolation::Serializable {
            self.free_keys(mark.keys);
            self.state.keys_used = self.state.keys_used.min(mark.keys);
        }
    }

    /// Undoes steps, the last first, until `length` steps are left. It inserts the index
    /// entries of a restored version before it removes those of the version it displaces,
    /// so that at no moment a key of this transaction appears to be free.
    fn undo_to(&mut self, length: usize) {
        let (shared, id) = (self.shared, self.state.id);
        let guard = shared.domain.pin();
        let mut displaced = Vec::new();
        for step in self.state.undo.drain(length..).rev() {
            match step {
                Undo::Schema { .. } | Undo::IndexBuilt { .. } | Undo::IndexDropped { .. } => {
                    undo_schema(&self.state.storages, &step);
                }
                Undo::Row {
                    storage,
                    rid,
                    previous,
                } => {
                    let table = &self.state.storages[storage];
                    let record = table.records.record(rid).expect("it is locked");
                    if let Some(value) = record.private_value(id) {
                        displaced.push((storage, rid, value));
                    }
                    record.restore_private(id, previous, &guard);
                }
            }
        }
        for (storage, rid, _) in &displaced {
            let table = &self.state.storages[*storage];
            let record = table.records.record(*rid).expect("it is locked");
            let Some(private) = record.private_value(id) else {
                continue;
            };
            if let Some(row) = private.as_row() {
                for index in table.indexes().iter() {
                    index.add(row, *rid, &guard);
                }
            }
        }
        for (storage, rid, value) in displaced {
            self.note_absent(storage, &value);
            let table = &self.state.storages[storage];
            let record = table.records.record(rid).expect("it is locked");
            drop_entries(&record, id, true, &value, &table.indexes(), &guard);
            if !record.has_private(id) {
                // An insert of its key waits only for a row that is written.
                let name = LockName::Row(table.id, rid);
                shared.queues.released_to_all(&name);
            }
        }
    }

    /// Called when a commit begins: from now on the transaction cannot roll back to a
    /// savepoint, only abort. Removes entries of replaced private versions that no
    /// version of their record has any more.
    ///
    /// Entries of records that were inserted and deleted again stay: until this
    /// transaction is assigned its timestamp, such an entry leads another transaction
    /// that inserts the key to the lock. Their steps stay for
    /// [`Self::drop_replaced_entries`].
    pub(super) fn drop_entries_of_written(&mut self) {
        if self.state.undo.is_empty() {
            return;
        }
        let (shared, id) = (self.shared, self.state.id);
        let guard = shared.domain.pin();
        let storages = &self.state.storages;
        self.state.undo.retain(|step| {
            let Undo::Row {
                storage,
                rid,
                previous,
            } = step
            else {
                return true;
            };
            let table = &storages[*storage];
            let record = table.records.record(*rid).expect("it is locked");
            if !has_effect(&record, id, &guard) {
                return true;
            }
            if let Some(value) = previous {
                drop_entries(&record, id, true, value, &table.indexes(), &guard);
            }
            false
        });
    }

    /// Removes entries of replaced private versions that no committed version of their
    /// record has.
    pub(super) fn drop_replaced_entries(&mut self) {
        if self.state.undo.is_empty() {
            return;
        }
        let (shared, id) = (self.shared, self.state.id);
        let guard = shared.domain.pin();
        for step in &self.state.undo {
            if let Undo::Row {
                storage,
                rid,
                previous: Some(value),
            } = step
            {
                let table = &self.state.storages[*storage];
                let record = table.records.record(*rid).expect("it is locked");
                drop_entries(&record, id, false, value, &table.indexes(), &guard);
            }
        }
    }

    /// At SERIALIZABLE: a successful insert has shown that the key was absent. When the
    /// insert is undone, its entry, which led other transactions to its lock, is removed;
    /// from then on a predicate protects that observation.
    fn note_absent(&mut self, storage: usize, value: &Value) {
        let Some(row) = value.as_row().filter(|_| self.state.is_serializable()) else {
            return;
        };
        let table = Arc::clone(&self.state.storages[storage]);
        let mut key = Vec::new();
        for index in table.indexes().iter().filter(|index| index.is_primary()) {
            index.key(row, &mut key);
            let upper = successor_of_prefix::<End>(&key);
            self.note_scan(&index.ranges, &key, upper.as_deref());
        }
    }

    /// Undoes all changes and frees every lock.
    pub(super) fn undo_all(&mut self) {
        self.stop_waiting(false);
        let (shared, id) = (self.shared, self.state.id);
        self.drop_replaced_entries();
        for step in self.state.undo.iter().rev() {
            undo_schema(&self.state.storages, step);
        }
        for at in 0..self.state.held.len() {
            let held = self.state.held[at];
            let table = &self.state.storages[held.storage];
            let guard = shared.domain.pin();
            let record = table.records.record(held.rid).expect("it is locked");
            if record.has_private(id)
                && let Some(value) = record.private_value(id)
            {
                drop_entries(&record, id, false, &value, &table.indexes(), &guard);
            }
            drop(guard);
            self.release_row(held);
        }
        self.no_writer();
        self.state.held.clear();
        self.free_other_locks();
    }

    /// Frees one record's lock, and drops its private version if it has one.
    pub(super) fn release_row(&mut self, held: Held) {
        let (shared, id) = (self.shared, self.state.id);
        let table = &self.state.storages[held.storage];
        {
            let guard = shared.domain.pin();
            let record = table.records.record(held.rid).expect("it is locked");
            if record.abort(id, &guard) == Aborted::Dead {
                table.records.retire(held.rid, &guard);
            }
        }
        self.row_released(held);
    }

    /// Notifies the waiters for a record that its lock is free.
    pub(super) fn row_released(&self, held: Held) {
        let table = &self.state.storages[held.storage];
        table.note_written();
        let name = LockName::Row(table.id, held.rid);
        let rows = &self.shared.rows;
        let row = (table.id, held.rid);
        let mut gave_back = false;
        let take = |owner, mode: Option<RowLock>| {
            let mode = mode.unwrap_or_default();
            let Some(record) = table.records.record(held.rid) else {
                return false;
            };
            if rows.share_of(row, owner).is_some() {
                return false;
            }
            let tried = rows.try_lock(row, &record, owner, mode);
            gave_back |= matches!(tried, Tried::GaveBack(_));
            tried == Tried::Locked
        };
        match rows.is_shared(row) {
            true => self.shared.queues.released_beside_sharers(&name, take),
            false => self.shared.queues.released(&name, take),
        }
        if gave_back {
            self.shared.queues.released_to_all(&name);
        }
    }

    /// Frees the key locks from position `first` on.
    fn free_keys(&mut self, first: usize) {
        let (shared, id) = (self.shared, self.state.id);
        for (index, key) in self.state.keys.drain(first..) {
            shared.keys.free(index, &key, id);
            let name = LockName::Key(index, key);
            shared.queues.released(&name, |owner, _| {
                let LockName::Key(index, key) = &name else {
                    unreachable!("it was just made")
                };
                shared.keys.take(*index, key, owner) == Taken::Now
            });
        }
    }

    /// Called after a row was written: its key locks are held until the transaction ends.
    pub(super) fn keep_keys(&mut self) {
        self.state.keys_used = self.state.keys.len();
    }

    /// Called after a row was refused because another row has one of its keys: frees the
    /// key locks taken for the refused row, which protect nothing that this transaction
    /// has done. Key locks of rows that it has written stay, including a key that one of
    /// them shares with the refused row.
    ///
    /// A SERIALIZABLE transaction keeps all of them. *Which* index refuses the row also
    /// shows that the keys checked before were free, and only their locks protect that
    /// answer.
    pub(super) fn give_up_keys(&mut self) {
        if self.state.isolation != Isolation::Serializable {
            self.free_keys(self.state.keys_used);
        }
    }

    /// Frees the locks of shared rows, of keys and of tables.
    pub(super) fn free_other_locks(&mut self) {
        self.free_shares(0);
        self.state.strengthened.clear();
        self.free_keys(0);
        self.free_tables(0);
    }

    /// Frees the table locks from position `first` on.
    fn free_tables(&mut self, first: usize) {
        let id = self.state.id;
        for held in self.state.tables.drain(first..) {
            let storage = &self.state.storages[held.storage];
            if storage.locks.free(id, held.mode) {
                let name = LockName::Table(storage.id);
                self.shared.queues.released_to_all(&name);
            }
        }
    }
}

/// Undoes a schema change, while the table lock is still held that it required.
fn undo_schema(storages: &[StorageHandle], step: &Undo) {
    match step {
        Undo::Row { .. } => {}
        Undo::Schema { storage, previous } => {
            storages[*storage].set_schema(*previous);
        }
        Undo::IndexBuilt { storage, index } => storages[*storage].remove_index(*index),
        Undo::IndexDropped { index, .. } => index.set_dropped(false),
    }
}

/// Removes the entries of `value`'s keys that no version of the record has.
fn drop_entries(
    record: &RecordRef<'_>,
    id: TransactionId,
    with_private: bool,
    value: &Value,
    indexes: &[Arc<Index>],
    guard: &Guard<'_>,
) {
    let Some(row) = value.as_row() else {
        return;
    };
    for index in indexes {
        let same = |other: RowRef<'_>| index.same_key(other, row);
        if !record.any_row(id, with_private, guard, same) {
            index.remove(row, record.rid(), guard);
        }
    }
}
