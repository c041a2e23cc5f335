//! One transaction over two engines: the one that all sessions share, and the session's own
//! for its temporary tables.
//!
//! Calls go by the number of their storage. What concerns the transaction as a whole
//! (snapshots, isolation, waiting) is the shared engine's: nothing in a session's own engine
//! is concurrent.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coeval_txn::contract::{Visit, VisitScan};
use coeval_txn::{
    BeginOptions, Engine, Error, IndexBuild, Insert, Isolation, KeptSnapshot, LockWait, LockedRow,
    Outcome, RowLock, Savepoint, ScanProgress, ScanRequest, TableLock, Transaction, Update,
};
use coeval_types::{IndexDefinition, IndexId, Rid, RowRef, StorageId, Timestamp, TransactionId};

use super::{Definitions, Shared, Temporary};
use crate::catalog::is_own;

/// A transaction of a session that has temporary tables.
pub(crate) struct WithTemporary {
    all: Box<dyn Transaction>,
    own: Box<dyn Transaction>,
    shared: Arc<Shared>,
    /// The beginning of the own transaction.
    start: Savepoint,
    /// The savepoints, in both, and the definitions as they were.
    savepoints: Vec<(Savepoint, Savepoint, Definitions)>,
    has_ended: bool,
}

impl WithTemporary {
    /// Has a transaction that runs already, perhaps with savepoints, reach the session's
    /// temporary tables as well.
    pub(crate) fn over(
        all: Box<dyn Transaction>,
        temporary: &Temporary,
    ) -> Result<Box<dyn Transaction>, Error> {
        let shared = Arc::clone(&temporary.shared);
        let options = BeginOptions {
            isolation: all.isolation(),
            ..BeginOptions::default()
        };
        // The session's last transaction has ended, so this one need not wait.
        let begun = shared
            .engine
            .poll_begin(&options, &mut Context::from_waker(Waker::noop()));
        let Poll::Ready(own) = begun else {
            return Err(Error::Unknown("session without a second transaction"));
        };
        let mut own = own?;
        let start = own.savepoint();
        Ok(Box::new(Self {
            all,
            own,
            shared,
            start,
            savepoints: Vec::new(),
            has_ended: false,
        }))
    }

    /// The transaction in the engine of this storage.
    fn of(&mut self, storage: StorageId) -> &mut dyn Transaction {
        match is_own(storage) {
            true => &mut *self.own,
            false => &mut *self.all,
        }
    }

    /// Charges the session for what a write to this storage has added.
    fn charge<T>(
        &self,
        storage: StorageId,
        written: Poll<Result<T, Error>>,
    ) -> Poll<Result<T, Error>> {
        if is_own(storage)
            && matches!(written, Poll::Ready(Ok(_)))
            && let Err(error) = self.shared.charge()
        {
            self.shared.state().refused = Some(error);
            return Poll::Ready(Err(Error::OutOfMemory));
        }
        written
    }
}

impl Transaction for WithTemporary {
    fn id(&self) -> TransactionId {
        self.all.id()
    }

    fn isolation(&self) -> Isolation {
        self.all.isolation()
    }

    fn snapshot(&self) -> Timestamp {
        self.all.snapshot()
    }

    fn newest_seen(&self) -> Timestamp {
        self.all.newest_seen()
    }

    // Not passed on: that only the presence of rows is told holds for what is written with the
    // transaction's log, and what is read may go into a temporary row, which is not.
    fn disclose_all(&mut self) {
        self.all.disclose_all();
    }

    fn note_write(&mut self, only_frees: bool) {
        self.all.note_write(only_frees);
    }

    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.all.set_lock_timeout(timeout);
    }

    fn begin_statement(&mut self) -> Result<(), Error> {
        self.all.begin_statement()
    }

    fn renew_snapshot(&mut self) -> Result<(), Error> {
        self.all.renew_snapshot()
    }

    fn keep_snapshot(&mut self) -> KeptSnapshot {
        self.all.keep_snapshot()
    }

    fn resume_snapshot(&mut self, kept: KeptSnapshot) -> Result<(), Error> {
        self.all.resume_snapshot(kept)
    }

    fn get(
        &mut self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        self.of(storage).get(storage, index, key, visit)
    }

    fn get_many(
        &mut self,
        storage: StorageId,
        index: IndexId,
        keys: &[&[u8]],
        visit: &mut (dyn FnMut(usize, Rid, RowRef<'_>) + Send),
    ) -> Result<(), Error> {
        self.of(storage).get_many(storage, index, keys, visit)
    }

    fn get_record(
        &mut self,
        storage: StorageId,
        rid: Rid,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        self.of(storage).get_record(storage, rid, visit)
    }

    fn scan(
        &mut self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        self.of(request.storage).scan(request, visit)
    }

    fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        wait: LockWait,
        schema_version: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.of(storage)
            .poll_lock_table(storage, mode, wait, schema_version, context)
    }

    fn set_schema_version(&mut self, storage: StorageId, version: u64) -> Result<(), Error> {
        self.of(storage).set_schema_version(storage, version)
    }

    fn poll_build_index(
        &mut self,
        storage: StorageId,
        definition: &IndexDefinition,
        context: &mut Context<'_>,
    ) -> Poll<Result<IndexBuild, Error>> {
        let built = self
            .of(storage)
            .poll_build_index(storage, definition, context);
        self.charge(storage, built)
    }

    fn drop_index(&mut self, storage: StorageId, index: IndexId) -> Result<(), Error> {
        self.of(storage).drop_index(storage, index)
    }

    fn poll_lock_row(
        &mut self,
        storage: StorageId,
        rid: Rid,
        mode: RowLock,
        wait: LockWait,
        visit: &mut Visit<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<LockedRow, Error>> {
        self.of(storage)
            .poll_lock_row(storage, rid, mode, wait, visit, context)
    }

    fn poll_insert(
        &mut self,
        storage: StorageId,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Insert, Error>> {
        let inserted = self.of(storage).poll_insert(storage, row, context);
        self.charge(storage, inserted)
    }

    fn poll_update(
        &mut self,
        storage: StorageId,
        rid: Rid,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Update, Error>> {
        let updated = self.of(storage).poll_update(storage, rid, row, context);
        self.charge(storage, updated)
    }

    fn delete(&mut self, storage: StorageId, rid: Rid) -> Result<(), Error> {
        self.of(storage).delete(storage, rid)
    }

    fn savepoint(&mut self) -> Savepoint {
        let savepoint = self.all.savepoint();
        let own = self.own.savepoint();
        let definitions = self.shared.state().now.clone();
        self.savepoints.push((savepoint, own, definitions));
        savepoint
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.all.rollback_to(savepoint)?;
        let known = self.savepoints.iter();
        let known = known.rev().position(|(all, ..)| *all == savepoint);
        let (own, definitions) = match known {
            Some(from_end) => {
                let length = self.savepoints.len() - from_end;
                self.savepoints.truncate(length);
                let (_, own, definitions) = &self.savepoints[length - 1];
                (*own, definitions.clone())
            }
            // It was set before the session had a temporary table.
            None => {
                self.savepoints.clear();
                (self.start, self.shared.state().committed.clone())
            }
        };
        self.own.rollback_to(own)?;
        self.shared.state().now = definitions;
        Ok(())
    }

    fn release(&mut self, savepoint: Savepoint) {
        self.all.release(savepoint);
        let known = self.savepoints.iter();
        let first = known.rev().position(|(all, ..)| *all == savepoint);
        let first = first.map_or(0, |from_end| self.savepoints.len() - 1 - from_end);
        if let Some((_, own, _)) = self.savepoints.get(first) {
            self.own.release(*own);
        }
        self.savepoints.truncate(first);
    }

    fn poll_commit(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = std::task::ready!(self.all.poll_commit(context));
        if std::mem::replace(&mut self.has_ended, true) {
            return Poll::Ready(outcome);
        }
        if matches!(outcome, Outcome::Committed(_)) {
            // This engine's commit neither waits nor fails.
            let _ = self.own.poll_commit(context);
            self.shared.committed();
        } else {
            self.own.abort();
            self.shared.rolled_back();
        }
        Poll::Ready(outcome)
    }

    fn abort(&mut self) {
        self.all.abort();
        if !std::mem::replace(&mut self.has_ended, true) {
            self.own.abort();
            self.shared.rolled_back();
        }
    }
}

impl Drop for WithTemporary {
    fn drop(&mut self) {
        self.abort();
    }
}
