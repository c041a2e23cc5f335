//! Schema changes: table locks, schema versions, and the creation and removal of indexes.
//!
//! Indexes change under the exclusive lock of their table, so no other transaction checks
//! a key meanwhile, and each change is a step that a rollback undoes before it frees that
//! lock:
//!
//! | | for this transaction | after a rollback | after the commit |
//! | --- | --- | --- | --- |
//! | built | maintained, enforces uniqueness | removed | the same for all |
//! | dropped | maintained, enforces nothing | enforces again | maintained until no snapshot knows it |
//!
//! An index is built from its rows' entries, sorted ([`building`](crate::building)), on
//! the caller's thread, in one step: under the table's exclusive lock no row changes
//! meanwhile, readers of the table continue, and so do transactions on other tables,
//! which use the other cores.
//!
//! While an index is dropped, this transaction may give several rows one key. All of
//! these rows are its private versions, made after the drop; so a rollback that undoes
//! the drop has undone them before.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use coeval_txn::{Error, IndexBuild, TableLock};
use coeval_types::{IndexDefinition, IndexId, IndexKind, Rid, StorageId, Timestamp};

use super::TransactionContext;
use super::state::{TableHeld, Undo};
use super::waiting::Wait;
use crate::building::Part;
use crate::garbage_collector::retire;
use crate::storage::{Index, Storage};

impl TransactionContext<'_> {
    pub(super) fn table_held(&self, storage: &Storage) -> Option<TableHeld> {
        self.state
            .tables
            .iter()
            .find(|held| self.state.storages[held.storage].id == storage.id)
            .copied()
    }

    pub(super) fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        schema_version: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.check_write()?;
        let at = self.state.storage(self.shared, storage)?;
        let id = self.state.id;
        loop {
            let table = Arc::clone(&*self.state.storages[at]);
            let held = self.table_held(&table);
            let exclusive = held.is_some_and(|held| held.exclusive);
            let taken = match mode {
                TableLock::Write => held.is_some() || table.locks.take_write(id),
                TableLock::Exclusive => exclusive || table.locks.take_exclusive(id),
            };
            if taken {
                self.note_table(at, mode);
                self.acquired(|wait| matches!(wait, Wait::Table { .. }));
                break;
            }
            let wait = Wait::Table {
                storage: table,
                alone: mode == TableLock::Exclusive,
            };
            ready!(self.poll_wait(wait, context))?;
        }
        let version = self.state.storages[at]
            .schema_version
            .load(Ordering::Acquire);
        if version != schema_version {
            return Poll::Ready(Err(Error::SchemaChanged(storage)));
        }
        Poll::Ready(Ok(()))
    }

    fn note_table(&mut self, at: usize, mode: TableLock) {
        let exclusive = mode == TableLock::Exclusive;
        match self.state.tables.iter_mut().find(|held| held.storage == at) {
            Some(held) => held.exclusive |= exclusive,
            None => self.state.tables.push(TableHeld {
                storage: at,
                write: !exclusive,
                exclusive,
            }),
        }
    }

    fn check_exclusive(&mut self, storage: StorageId) -> Result<usize, Error> {
        self.check_write()?;
        let at = self.state.storage(self.shared, storage)?;
        let held = self.table_held(&self.state.storages[at]);
        if !held.is_some_and(|held| held.exclusive) {
            return Err(Error::Unknown(
                "exclusive table lock held by this transaction",
            ));
        }
        Ok(at)
    }

    pub(super) fn set_schema_version(
        &mut self,
        storage: StorageId,
        version: u64,
    ) -> Result<(), Error> {
        let at = self.check_exclusive(storage)?;
        let table = &self.state.storages[at];
        let previous = table.schema_version.swap(version, Ordering::AcqRel);
        self.state.undo.push(Undo::Schema {
            storage: at,
            previous,
        });
        Ok(())
    }

    pub(super) fn build_index(
        &mut self,
        storage: StorageId,
        definition: &IndexDefinition,
    ) -> Result<IndexBuild, Error> {
        let at = self.check_exclusive(storage)?;
        self.check_growth(0)?;
        let table = Arc::clone(&self.state.storages[at]);
        let indexes = table.indexes();
        if indexes.iter().any(|index| index.id == definition.id) {
            return Err(Error::Unknown("unused index number"));
        }
        let is_primary = |kind| kind == IndexKind::Primary;
        if is_primary(definition.kind) && indexes.iter().any(|index| is_primary(index.kind)) {
            return Err(Error::Unknown("second primary index"));
        }
        let mut index = table.make_index(definition, &self.shared.domain);
        let (mut part, newest) = self.gather(&table, &index)?;
        // An older snapshot may show versions before the newest, which have no entries
        // here.
        index.usable_from = newest;
        self.state.seen(newest);
        part.sort();
        if let Some((one, other)) = part.duplicate(&index) {
            return Ok(IndexBuild::Duplicate(one, other));
        }
        self.check_growth(part.bytes())?;
        index.entries = part.tree(&self.shared.domain);
        table.add_index(Arc::new(index));
        self.state.undo.push(Undo::IndexBuilt {
            storage: at,
            index: definition.id,
        });
        Ok(IndexBuild::Built)
    }

    pub(super) fn drop_index(&mut self, storage: StorageId, index: IndexId) -> Result<(), Error> {
        let at = self.check_exclusive(storage)?;
        let index = self.state.storages[at]
            .index(index)
            .ok()
            .filter(|index| !index.is_primary() && !index.is_dropped())
            .ok_or(Error::Unknown("unique or secondary index"))?;
        index.set_dropped(true);
        self.state
            .undo
            .push(Undo::IndexDropped { storage: at, index });
        Ok(())
    }

    /// Called after a commit that snapshots include, before its locks are freed: each
    /// dropped index is freed once no older snapshot is registered.
    pub(super) fn retire_dropped(&mut self) {
        for step in &self.state.undo {
            if let Undo::IndexDropped { storage, index } = step {
                let storage = self.state.storages[*storage].id;
                retire(self.shared, storage, Some(index.id));
            }
        }
    }

    /// Collects an entry for every row, from this transaction's own version if there is
    /// one, and returns the newest commit timestamp of any row. No other transaction
    /// writes, so the newest version of every row stays the newest. Fails when memory
    /// runs out on the way: the entries of all rows may take any share of the limit.
    fn gather(&mut self, table: &Storage, index: &Index) -> Result<(Part, Timestamp), Error> {
        let (shared, id) = (self.shared, self.state.id);
        let guard = shared.domain.pin();
        let mut newest = Timestamp::ZERO;
        let mut part = Part::of(table.records.estimated_rows() as usize);
        let mut entry = Vec::new();
        for rid in (0..table.records.high_water().0).map(Rid) {
            let Some(record) = table.records.record(rid) else {
                continue;
            };
            let committed = record.newest_committed(&guard);
            newest = newest.max(committed.map_or(Timestamp::ZERO, |version| version.cts()));
            let version = match record.read(Timestamp::ZERO, id, &guard) {
                Some(own) if own.is_own() => Some(own),
                _ => committed,
            };
            if let Some(row) = version.and_then(|version| version.row()) {
                let comparable = index.entry(row, rid, &mut entry);
                let growth = part.growth(entry.len());
                if growth > 0 {
                    self.check_growth(growth)?;
                }
                part.push(&entry, comparable, rid);
            }
        }
        Ok((part, newest))
    }
}
