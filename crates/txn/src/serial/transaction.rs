//! The serial engine's transaction: it runs alone, and undoes its changes through a log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use coeval_types::{
    IndexDefinition, IndexId, Rid, RowLock, RowRef, StorageId, Timestamp, TransactionId,
};

use super::database::Undo;
use super::engine::{Shared, is_canceled};
use crate::contract::{Visit, VisitScan};
use crate::{
    BeginOptions, Error, IndexBuild, Insert, Isolation, KeptSnapshot, LockWait, LockedRow, Outcome,
    Savepoint, ScanProgress, ScanRequest, TableLock, Transaction, Update,
};

pub(super) struct SerialTransaction {
    shared: Arc<Shared>,
    id: TransactionId,
    isolation: Isolation,
    read_only: bool,
    cancel: Option<Arc<AtomicBool>>,
    snapshot: Timestamp,
    running: bool,
    undo: Vec<Undo>,
    /// Length of the undo log and number of locked rows at each savepoint.
    savepoints: Vec<(usize, usize)>,
    /// The tables and rows that the caller has locked, only to detect a missing lock.
    exclusive: BTreeSet<StorageId>,
    /// For each row, the number of rows that were locked before it, and the mode.
    locked: BTreeMap<(StorageId, Rid), (usize, RowLock)>,
}

impl SerialTransaction {
    pub(super) fn new(
        shared: Arc<Shared>,
        id: TransactionId,
        snapshot: Timestamp,
        options: &BeginOptions,
    ) -> Self {
        Self {
            shared,
            id,
            isolation: options.isolation,
            read_only: options.read_only,
            cancel: options.cancel.clone(),
            snapshot,
            running: true,
            undo: Vec::new(),
            savepoints: Vec::new(),
            exclusive: BTreeSet::new(),
            locked: BTreeMap::new(),
        }
    }

    fn check_running(&self) -> Result<(), Error> {
        if !self.running {
            return Err(Error::Unknown("running transaction"));
        }
        Ok(())
    }

    fn check_read(&self) -> Result<(), Error> {
        self.check_running()?;
        if is_canceled(self.cancel.as_ref()) {
            return Err(Error::Canceled);
        }
        Ok(())
    }

    fn check_write(&self) -> Result<(), Error> {
        self.check_read()?;
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        Ok(())
    }

    fn check_locked(&self, storage: StorageId, rid: Rid, mode: RowLock) -> Result<(), Error> {
        match self.locked.get(&(storage, rid)) {
            Some((_, held)) if *held >= mode => Ok(()),
            _ => Err(Error::Unknown("row lock held by this transaction")),
        }
    }

    fn check_exclusive(&self, storage: StorageId) -> Result<(), Error> {
        if !self.exclusive.contains(&storage) {
            return Err(Error::Unknown(
                "exclusive table lock held by this transaction",
            ));
        }
        Ok(())
    }

    /// Stores a row, or none, at a record, and logs the undo step.
    fn put(&mut self, storage: StorageId, rid: Rid, row: Option<Box<[u8]>>) -> Result<(), Error> {
        let mut database = self.shared.database();
        let older = database.storage_mut(storage)?.put(rid, row);
        let step = Undo::Row {
            storage,
            rid,
            older,
        };
        database.undo_bytes += step.bytes();
        drop(database);
        self.undo.push(step);
        let locked = (self.locked.len(), RowLock::Update);
        self.locked.entry((storage, rid)).or_insert(locked);
        Ok(())
    }

    fn insert(&mut self, storage: StorageId, row: RowRef<'_>) -> Result<Insert, Error> {
        self.check_write()?;
        let rid = {
            let mut database = self.shared.database();
            let storage = database.storage_mut(storage)?;
            let rid = storage.new_rid();
            if let Some((index, rid)) = storage.duplicate(rid, row) {
                return Ok(Insert::Duplicate { index, rid });
            }
            rid
        };
        self.put(storage, rid, Some(row.bytes().into()))?;
        Ok(Insert::Inserted(rid))
    }

    fn update(&mut self, storage: StorageId, rid: Rid, row: RowRef<'_>) -> Result<Update, Error> {
        self.check_write()?;
        self.check_locked(storage, rid, RowLock::NoKeyUpdate)?;
        let new_rid = {
            let mut database = self.shared.database();
            let storage = database.storage_mut(storage)?;
            let older = storage.row(rid).ok_or(Error::Unknown("live row"))?;
            let moves = storage.changes_primary_key(older, row);
            if let Some((index, rid)) = storage.duplicate(rid, row) {
                return Ok(Update::Duplicate { index, rid });
            }
            if moves { storage.new_rid() } else { rid }
        };
        if new_rid != rid {
            self.put(storage, rid, None)?;
        }
        self.put(storage, new_rid, Some(row.bytes().into()))?;
        Ok(Update::Updated(new_rid))
    }

    fn lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        schema_version: u64,
    ) -> Result<(), Error> {
        self.check_running()?;
        if mode.excludes(TableLock::RowExclusive) {
            self.exclusive.insert(storage);
        }
        if self.shared.database().storage(storage)?.schema_version != schema_version {
            return Err(Error::SchemaChanged(storage));
        }
        Ok(())
    }

    fn lock_row(
        &mut self,
        storage: StorageId,
        rid: Rid,
        mode: RowLock,
        visit: &mut Visit<'_>,
    ) -> Result<LockedRow, Error> {
        self.check_write()?;
        let database = self.shared.database();
        let Some(row) = database.storage(storage)?.row(rid) else {
            return Ok(LockedRow::Gone);
        };
        let locked = (self.locked.len(), mode);
        let held = self.locked.entry((storage, rid)).or_insert(locked);
        held.1 = held.1.max(mode);
        visit(rid, row);
        Ok(LockedRow::Unchanged)
    }

    fn undo_to(&mut self, length: usize) {
        let mut database = self.shared.database();
        for step in self.undo.drain(length..).rev() {
            if matches!(step, Undo::Row { .. }) {
                database.undo_bytes = database.undo_bytes.saturating_sub(step.bytes());
            }
            database.undo(step);
        }
    }

    fn end(&mut self) {
        self.running = false;
        self.undo = Vec::new();
        self.shared.database().undo_bytes = 0;
        self.savepoints.clear();
        self.locked.clear();
        self.exclusive.clear();
        self.shared.open_gate();
    }
}

impl Transaction for SerialTransaction {
    fn id(&self) -> TransactionId {
        self.id
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn snapshot(&self) -> Timestamp {
        self.snapshot
    }

    fn newest_seen(&self) -> Timestamp {
        self.snapshot
    }

    /// Does nothing: no call of this engine waits for a lock.
    fn set_lock_timeout(&mut self, _timeout: Option<Duration>) {}

    fn renew_snapshot(&mut self) -> Result<(), Error> {
        // No other transaction runs that could have committed.
        self.check_read()
    }

    fn begin_statement(&mut self) -> Result<(), Error> {
        self.check_read()
    }

    /// Keeps nothing: this engine has one state, and no other transaction changes it.
    fn keep_snapshot(&mut self) -> KeptSnapshot {
        KeptSnapshot(Box::new(()))
    }

    fn resume_snapshot(&mut self, _kept: KeptSnapshot) -> Result<(), Error> {
        self.check_read()
    }

    fn get(
        &mut self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        self.check_read()?;
        let database = self.shared.database();
        let storage = database.storage(storage)?;
        let Some(rid) = storage.find(index, key)? else {
            return Ok(false);
        };
        visit(rid, storage.row(rid).expect("every entry has its row"));
        Ok(true)
    }

    fn get_record(
        &mut self,
        storage: StorageId,
        rid: Rid,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        self.check_read()?;
        let database = self.shared.database();
        let Some(row) = database.storage(storage)?.row(rid) else {
            return Ok(false);
        };
        visit(rid, row);
        Ok(true)
    }

    fn scan(
        &mut self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        self.check_read()?;
        let database = self.shared.database();
        database.storage(request.storage)?.scan(request, visit)
    }

    fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        _wait: LockWait,
        schema_version: u64,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(self.lock_table(storage, mode, schema_version))
    }

    fn set_schema_version(&mut self, storage: StorageId, version: u64) -> Result<(), Error> {
        self.check_write()?;
        self.check_exclusive(storage)?;
        let mut database = self.shared.database();
        let older = std::mem::replace(&mut database.storage_mut(storage)?.schema_version, version);
        self.undo.push(Undo::SchemaVersion { storage, older });
        Ok(())
    }

    fn poll_build_index(
        &mut self,
        storage: StorageId,
        definition: &IndexDefinition,
        _context: &mut Context<'_>,
    ) -> Poll<Result<IndexBuild, Error>> {
        let mut build = || {
            self.check_write()?;
            self.check_exclusive(storage)?;
            let built = {
                let mut database = self.shared.database();
                database.storage_mut(storage)?.build_index(definition)?
            };
            if built == IndexBuild::Built {
                let index = definition.id;
                self.undo.push(Undo::IndexBuilt { storage, index });
            }
            Ok(built)
        };
        Poll::Ready(build())
    }

    fn drop_index(&mut self, storage: StorageId, index: IndexId) -> Result<(), Error> {
        self.check_write()?;
        self.check_exclusive(storage)?;
        {
            let mut database = self.shared.database();
            database.storage_mut(storage)?.set_dropped(index, true)?;
        }
        self.undo.push(Undo::IndexDropped { storage, index });
        Ok(())
    }

    fn poll_lock_row(
        &mut self,
        storage: StorageId,
        rid: Rid,
        mode: RowLock,
        _wait: LockWait,
        visit: &mut Visit<'_>,
        _context: &mut Context<'_>,
    ) -> Poll<Result<LockedRow, Error>> {
        Poll::Ready(self.lock_row(storage, rid, mode, visit))
    }

    fn poll_insert(
        &mut self,
        storage: StorageId,
        row: RowRef<'_>,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Insert, Error>> {
        Poll::Ready(self.insert(storage, row))
    }

    fn poll_update(
        &mut self,
        storage: StorageId,
        rid: Rid,
        row: RowRef<'_>,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Update, Error>> {
        Poll::Ready(self.update(storage, rid, row))
    }

    fn delete(&mut self, storage: StorageId, rid: Rid) -> Result<(), Error> {
        self.check_write()?;
        self.check_locked(storage, rid, RowLock::Update)?;
        if self.shared.database().storage(storage)?.row(rid).is_none() {
            return Err(Error::Unknown("live row"));
        }
        self.put(storage, rid, None)
    }

    fn savepoint(&mut self) -> Savepoint {
        self.savepoints.push((self.undo.len(), self.locked.len()));
        Savepoint(self.savepoints.len() as u32)
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.check_running()?;
        let (length, locked) = (savepoint.0 as usize)
            .checked_sub(1)
            .and_then(|position| self.savepoints.get(position).copied())
            .ok_or(Error::Unknown("savepoint"))?;
        self.savepoints.truncate(savepoint.0 as usize);
        self.undo_to(length);
        self.locked.retain(|_, (before, _)| *before < locked);
        Ok(())
    }

    fn release(&mut self, savepoint: Savepoint) {
        self.savepoints
            .truncate((savepoint.0 as usize).saturating_sub(1));
    }

    fn poll_commit(&mut self, _context: &mut Context<'_>) -> Poll<Outcome> {
        if let Err(error) = self.check_running() {
            return Poll::Ready(Outcome::Aborted(error));
        }
        if is_canceled(self.cancel.as_ref()) {
            self.abort();
            return Poll::Ready(Outcome::Aborted(Error::Canceled));
        }
        let mut committed = self.snapshot;
        if !self.undo.is_empty() {
            let mut database = self.shared.database();
            database.commits += 1;
            committed = Timestamp::from_bits(database.commits);
            database.forget_dropped(&self.undo);
        }
        self.end();
        Poll::Ready(Outcome::Committed(committed))
    }

    fn abort(&mut self) {
        if self.running {
            self.undo_to(0);
            self.end();
        }
    }
}

impl Drop for SerialTransaction {
    fn drop(&mut self) {
        self.abort();
    }
}
