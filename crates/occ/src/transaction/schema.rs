//! Schema changes: table locks, schema versions, and the creation and removal of indexes.
//!
//! Indexes change under a lock of their table that keeps writers out, so no other
//! transaction checks a key meanwhile, and each change is a step that a rollback undoes
//! before it frees that lock:
//!
//! | | for this transaction | after a rollback | after the commit |
//! | --- | --- | --- | --- |
//! | built | maintained, enforces uniqueness | removed | the same for all |
//! | dropped | maintained, enforces nothing | enforces again | maintained until no snapshot knows it |
//!
//! An index is built from its rows' entries, sorted ([`building`](crate::building)), on
//! the caller's thread, in one step: under that lock no row changes meanwhile. Readers of
//! the table continue, and so do transactions on other tables, which use the other cores.
//!
//! While an index is dropped, this transaction may give several rows one key. All of
//! these rows are its private versions, made after the drop; so a rollback that undoes
//! the drop has undone them before.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use coeval_txn::{ConflictLocation, Error, IndexBuild, LockWait, TableLock};
use coeval_types::{IndexDefinition, IndexId, IndexKind, Rid, StorageId, Timestamp};

use super::TransactionContext;
use super::state::{StorageAt, TableHeld, Undo};
use super::waiting::Wait;
use crate::building::Part;
use crate::garbage_collector::retire;
use crate::storage::{Index, Storage};

impl TransactionContext<'_> {
    /// The set of modes in which this transaction has locked a table, and whether one of
    /// them covers `mode`.
    fn table_held(&self, at: StorageAt, mode: TableLock) -> (u8, bool) {
        let locks = self.state.tables.iter().filter(|held| held.storage == at);
        locks.fold((0, false), |(modes, covered), held| {
            let covers = held.mode.covers(mode);
            (modes | held.mode.bit(), covered || covers)
        })
    }

    pub(super) fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        wait: LockWait,
        schema_version: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.check_read()?;
        let at = self.state.storage(self.shared, storage)?;
        self.stop_waiting_for_other(storage, mode);
        ready!(self.poll_take_table(at, mode, wait, context))?;
        self.acquired(|wait| matches!(wait, Wait::Table { .. }));
        if !self.state.storages[at].has_schema(schema_version) {
            return Poll::Ready(Err(Error::SchemaChanged(storage)));
        }
        Poll::Ready(Ok(()))
    }

    /// Takes a table lock, unless the transaction has one that covers it.
    fn poll_take_table(
        &mut self,
        at: StorageAt,
        mode: TableLock,
        wait: LockWait,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let id = self.state.id;
        let (held, covered) = self.table_held(at, mode);
        if covered {
            return Poll::Ready(Ok(()));
        }
        let waits = wait == LockWait::Wait;
        loop {
            let table = &self.state.storages[at];
            if table.locks.take(id, mode, held, waits) {
                self.state.tables.push(TableHeld { storage: at, mode });
                if !mode.is_weak() {
                    // Writers free their locks once their commits are installed, which
                    // may be before snapshots include them.
                    self.state.includes = self.shared.log.reserved();
                }
                return Poll::Ready(Ok(()));
            }
            if !waits {
                let place = ConflictLocation::Table { storage: table.id };
                return Poll::Ready(Err(Error::LockNotAvailable(place)));
            }
            let wait = Wait::Table {
                storage: Arc::clone(table),
                mode,
            };
            ready!(self.poll_wait(wait, context))?;
        }
    }

    /// Ends a wait for another table lock, whose call the caller has abandoned.
    fn stop_waiting_for_other(&mut self, table: StorageId, wanted: TableLock) {
        let waiting = self.state.waiting.as_ref();
        let other = waiting.is_some_and(|waiting| match &waiting.wait {
            Wait::Table { storage, mode } => storage.id != table || *mode != wanted,
            Wait::Row { .. } | Wait::Key(..) => false,
        });
        if other {
            self.stop_waiting(false);
        }
    }

    /// Checks that the transaction has a lock that keeps writers out.
    fn check_alone(&mut self, storage: StorageId) -> Result<StorageAt, Error> {
        self.check_write()?;
        let at = self.state.storage(self.shared, storage)?;
        let mut locks = self.state.tables.iter();
        if !locks.any(|held| held.storage == at && held.mode.covers(TableLock::Share)) {
            return Err(Error::Unknown(
                "table lock against writers held by this transaction",
            ));
        }
        Ok(at)
    }

    pub(super) fn set_schema_version(
        &mut self,
        storage: StorageId,
        version: u64,
    ) -> Result<(), Error> {
        let at = self.check_alone(storage)?;
        let table = &self.state.storages[at];
        let previous = table.set_schema(version);
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
        let at = self.check_alone(storage)?;
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
        let at = self.check_alone(storage)?;
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

    /// Called after a commit that snapshots include, before its locks are freed: schema
    /// versions are valid for all from here on, and each dropped index is freed once no
    /// older snapshot is registered.
    pub(super) fn finish_schema(&mut self) {
        for step in &self.state.undo {
            if let Undo::Schema { storage, .. } = step {
                self.state.storages[*storage].publish_schema();
            }
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
