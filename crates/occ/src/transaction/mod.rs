//! A transaction: reads, writes, lock waits, commit and abort.
//!
//! [`OccTransaction`] is the object that callers hold. Each call borrows its [`State`]
//! together with the engine as a [`TransactionContext`], on which the files of this folder implement the
//! calls by topic:
//!
//! - [`read`]: reads by key, by record, by range;
//! - [`mod@write`]: row locks, inserts, updates, deletes;
//! - [`schema`]: table locks, schema versions, building indexes;
//! - [`wait`]: waiting for a lock that another transaction holds;
//! - [`undo`]: savepoints and abort;
//! - [`commit`]: register, reserve, validate, install;
//! - [`validate`]: whether everything read is still current.
//!
//! | level | snapshot | a newer version of a locked row | at commit |
//! | --- | --- | --- | --- |
//! | READ COMMITTED | one a statement | work on it | – |
//! | snapshot isolation | one | fail | – |
//! | SERIALIZABLE | one | fail | validate reads and scans |

mod commit;
mod handle;
#[cfg(feature = "planted")]
mod planted;
mod read;
mod read_many;
mod registration_keys;
mod schema;
pub(crate) mod state;
mod undo;
mod validate;
mod wait;
pub(crate) mod waiting;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use coeval_env::Work;
use coeval_log::EntryBuilder;
use coeval_memory::sync::Backoff;
use coeval_storage::Snapshot;
use coeval_txn::contract::{Visit, VisitScan};
use coeval_txn::{
    BeginOptions, Error, IndexBuild, Insert, Isolation, KeptSnapshot, LockWait, LockedRow, Outcome,
    Savepoint, ScanProgress, ScanRequest, TableLock, Transaction, Update,
};
use coeval_types::{
    IndexDefinition, IndexId, Rid, RowLock, RowRef, StorageId, Timestamp, TransactionId,
};

use crate::memory;
use crate::shared::{Share, Shared};
use crate::statistics::AbortCause;
pub(crate) use commit::log_error;
use state::{State, StorageAt};

/// A running transaction borrowed together with its engine, for one call.
struct TransactionContext<'a> {
    shared: &'a Shared,
    state: &'a mut State,
}

impl TransactionContext<'_> {
    fn check_running(&self) -> Result<(), Error> {
        if self.state.snapshot.is_none() {
            return Err(Error::Unknown("running transaction"));
        }
        Ok(())
    }

    fn check_read(&self) -> Result<(), Error> {
        self.check_running()?;
        let cancel = self.state.cancel.as_ref();
        if cancel.is_some_and(|flag| flag.load(Ordering::Acquire)) {
            return Err(Error::Canceled);
        }
        Ok(())
    }

    /// Fails when the memory budget has no room for `bytes` more bytes.
    fn check_growth(&mut self, bytes: usize) -> Result<(), Error> {
        memory::check_growth(self.shared, bytes, &mut self.state.growing_writes)
    }

    /// Fails for a row that no frame of the log could hold: before anything is written, for
    /// at commit the whole transaction would be lost.
    fn check_length(&self, bytes: usize) -> Result<(), Error> {
        let limit = EntryBuilder::longest_row(self.shared.settings.log.frame_payload_bytes);
        if bytes > limit {
            return Err(Error::RowTooLarge {
                bytes: bytes as u64,
                limit: limit as u64,
            });
        }
        Ok(())
    }

    fn check_write(&self) -> Result<(), Error> {
        self.check_read()?;
        if self.state.read_only {
            return Err(Error::ReadOnly);
        }
        Ok(())
    }

    /// Begins a statement, at READ COMMITTED with a new snapshot.
    fn begin_statement(&mut self) -> Result<(), Error> {
        self.check_read()?;
        self.stop_waiting(false);
        self.state.presence_only = false;
        if self.state.isolation != Isolation::ReadCommitted {
            return Ok(());
        }
        self.wait_for_seen();
        let snapshot = self.state.snapshot.as_mut().expect("it runs");
        snapshot.refresh(|| self.shared.log.installed());
        Ok(())
    }

    /// Takes a new snapshot for a transaction that has read nothing that counts.
    fn renew_snapshot(&mut self) -> Result<(), Error> {
        self.check_read()?;
        self.stop_waiting(false);
        self.state.reads.clear();
        self.state.notes.clear(usize::MAX);
        self.wait_for_seen();
        let snapshot = self.state.snapshot.as_mut().expect("it runs");
        snapshot.refresh(|| self.shared.log.installed());
        Ok(())
    }

    /// Waits until a new snapshot includes every version that the transaction has seen:
    /// they are installed, but possibly ordered after an earlier commit that another core
    /// is still installing. Likewise every commit made before a table was locked.
    fn wait_for_seen(&self) {
        let mut backoff = Backoff::default();
        let state = &self.state;
        let includes = state.newest_seen.max(state.undisclosed).max(state.includes);
        while self.shared.log.installed() < includes {
            backoff.wait();
        }
    }

    /// Keeps the registered snapshot for the caller; the next statement registers a new
    /// one. So at no moment is its timestamp without a registered snapshot.
    fn keep_snapshot(&mut self) -> KeptSnapshot {
        if self.state.isolation != Isolation::ReadCommitted {
            return KeptSnapshot(Box::new(()));
        }
        self.wait_for_seen();
        let shared = self.shared;
        let next = shared.snapshots.register(|| shared.log.installed());
        let kept = self.state.snapshot.replace(next).expect("it runs");
        KeptSnapshot(Box::new(kept))
    }

    fn resume_snapshot(&mut self, kept: KeptSnapshot) -> Result<(), Error> {
        self.check_read()?;
        self.state.presence_only = false;
        if self.state.isolation == Isolation::ReadCommitted {
            let kept = kept.0.downcast::<Snapshot>();
            let kept = kept.map_err(|_| Error::Unknown("kept snapshot"))?;
            self.state.snapshot = Some(*kept);
        }
        Ok(())
    }
}

impl State {
    /// The position of a storage in this transaction's list, which gets the storage if
    /// needed.
    pub(super) fn storage(&mut self, shared: &Shared, id: StorageId) -> Result<StorageAt, Error> {
        if let Some(at) = self.storages.iter().position(|storage| storage.id == id) {
            let storage = &mut self.storages[at];
            if storage.is_old() {
                *storage = Arc::new(storage.anew());
            }
            return Ok(at);
        }
        Ok(self.add_storage(shared.storage(id)?))
    }
}

/// A transaction of the occ engine, as sessions hold it.
pub(crate) struct OccTransaction {
    shared: Share,
    /// `None` once the transaction has ended.
    state: Option<Box<State>>,
    id: TransactionId,
    isolation: Isolation,
    /// The snapshot and `newest_seen` at the end of the transaction.
    snapshot: Timestamp,
    newest_seen: Timestamp,
}

impl fmt::Debug for OccTransaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OccTransaction")
            .field("id", &self.id)
            .field("isolation", &self.isolation)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Bytes of entries from which a commit releases their buffers instead of keeping them.
const LARGE_COMMIT: usize = 1 << 18;

const ENDED: Error = Error::Unknown("running transaction");

impl OccTransaction {
    pub(crate) fn begin(shared: Share, mut state: Box<State>, options: &BeginOptions) -> Self {
        coeval_env::work(Work::Transaction, 1);
        let id = shared.active.begin(&mut state.place, options.session);
        let snapshot = shared.snapshots.register(|| {
            #[cfg(feature = "planted")]
            if let Some(stale) = state.planted.stale_snapshot(options) {
                return stale;
            }
            shared.log.installed()
        });
        let timestamp = snapshot.timestamp();
        #[cfg(feature = "planted")]
        state.planted.began(timestamp);
        state.id = id;
        state.isolation = options.isolation;
        state.read_only = options.read_only;
        state.cancel.clone_from(&options.cancel);
        state.observer.clone_from(&options.observer);
        state.lock_timeout = None;
        state.snapshot = Some(snapshot);
        state.newest_seen = Timestamp::ZERO;
        state.includes = Timestamp::ZERO;
        Self {
            shared,
            state: Some(state),
            id,
            isolation: options.isolation,
            snapshot: timestamp,
            newest_seen: Timestamp::ZERO,
        }
    }

    fn run(&mut self) -> Result<TransactionContext<'_>, Error> {
        match &mut self.state {
            Some(state) => Ok(TransactionContext {
                shared: &self.shared,
                state,
            }),
            None => Err(ENDED),
        }
    }

    /// Checks that a statement may run. A caller that abandons a commit under way can
    /// only commit again or abort: the commit's log entries have been collected.
    fn run_statement(&mut self) -> Result<TransactionContext<'_>, Error> {
        let run = self.run()?;
        match run.state.prepared {
            true => Err(ENDED),
            false => Ok(run),
        }
    }

    /// As [`Self::run_statement`], for statements that never wait: it ends a wait that
    /// the caller abandoned.
    fn run_at_once(&mut self) -> Result<TransactionContext<'_>, Error> {
        let mut run = self.run_statement()?;
        run.stop_waiting(false);
        Ok(run)
    }

    /// Remembers a failure as the cause of the abort that may follow.
    #[inline]
    fn noting<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let (Err(error), Some(state)) = (&result, &mut self.state) {
            state.failure = AbortCause::of(error);
        }
        result
    }

    /// As [`OccTransaction::noting`], for a call that may wait.
    #[inline]
    fn noting_poll<T>(&mut self, result: Poll<Result<T, Error>>) -> Poll<Result<T, Error>> {
        match result {
            Poll::Ready(result) => Poll::Ready(self.noting(result)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Returns the state to the pool.
    fn end(&mut self) {
        if let Some(mut state) = self.state.take() {
            self.snapshot = state.snapshot();
            self.newest_seen = state.newest_seen;
            let large = state.entries.capacity() > LARGE_COMMIT;
            state.clear(self.shared.validation.reads_kept());
            if large {
                state.entries = self.shared.log.entry_builder();
            }
            self.shared.give_back(state);
        }
    }
}

impl Transaction for OccTransaction {
    fn id(&self) -> TransactionId {
        self.id
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn snapshot(&self) -> Timestamp {
        self.state
            .as_ref()
            .map_or(self.snapshot, |state| state.snapshot())
    }

    fn newest_seen(&self) -> Timestamp {
        self.state
            .as_ref()
            .map_or(self.newest_seen, |state| state.newest_seen)
    }

    fn disclose_presence_only(&mut self) {
        if let Some(state) = &mut self.state {
            state.presence_only = true;
        }
    }

    fn disclose_all(&mut self) {
        if let Some(state) = &mut self.state {
            state.disclose_all();
        }
    }

    fn note_write(&mut self, only_frees: bool) {
        if let Some(state) = &mut self.state {
            state.only_frees = Some(only_frees && state.only_frees != Some(false));
        }
    }

    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        if let Some(state) = &mut self.state {
            state.lock_timeout = timeout;
        }
    }

    fn begin_statement(&mut self) -> Result<(), Error> {
        let begun = self.run_statement()?.begin_statement();
        self.noting(begun)
    }

    fn renew_snapshot(&mut self) -> Result<(), Error> {
        let renewed = self.run_statement()?.renew_snapshot();
        self.noting(renewed)
    }

    fn keep_snapshot(&mut self) -> KeptSnapshot {
        match self.run_at_once() {
            Ok(mut run) => run.keep_snapshot(),
            Err(_) => KeptSnapshot(Box::new(())),
        }
    }

    fn resume_snapshot(&mut self, kept: KeptSnapshot) -> Result<(), Error> {
        self.run_at_once()?.resume_snapshot(kept)
    }

    fn get(
        &mut self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        coeval_env::work(Work::Read, 1);
        let found = self.run_at_once()?.get(storage, index, key, visit);
        self.noting(found)
    }

    fn get_many(
        &mut self,
        storage: StorageId,
        index: IndexId,
        keys: &[&[u8]],
        visit: &mut (dyn FnMut(usize, Rid, RowRef<'_>) + Send),
    ) -> Result<(), Error> {
        coeval_env::work(Work::Read, keys.len());
        let shown = self.run_at_once()?.get_many(storage, index, keys, visit);
        self.noting(shown)
    }

    fn get_record(
        &mut self,
        storage: StorageId,
        rid: Rid,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        coeval_env::work(Work::Read, 1);
        let found = self.run_at_once()?.get_record(storage, rid, visit);
        self.noting(found)
    }

    fn scan(
        &mut self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        coeval_env::work(Work::Read, 1);
        let progress = self.run_at_once()?.scan(request, visit);
        self.noting(progress)
    }

    fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        wait: LockWait,
        schema_version: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let locked =
            self.run_statement()?
                .poll_lock_table(storage, mode, wait, schema_version, context);
        self.noting_poll(locked)
    }

    fn set_schema_version(&mut self, storage: StorageId, version: u64) -> Result<(), Error> {
        self.run_at_once()?.set_schema_version(storage, version)
    }

    fn poll_build_index(
        &mut self,
        storage: StorageId,
        definition: &IndexDefinition,
        _context: &mut Context<'_>,
    ) -> Poll<Result<IndexBuild, Error>> {
        Poll::Ready(self.run_at_once()?.build_index(storage, definition))
    }

    fn drop_index(&mut self, storage: StorageId, index: IndexId) -> Result<(), Error> {
        self.run_at_once()?.drop_index(storage, index)
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
        let locked =
            self.run_statement()?
                .poll_lock_row(storage, rid, (mode, wait), visit, context);
        if locked.is_ready() {
            coeval_env::work(Work::Read, 1);
        }
        self.noting_poll(locked)
    }

    fn poll_insert(
        &mut self,
        storage: StorageId,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Insert, Error>> {
        let inserted = self.run_statement()?.poll_insert(storage, row, context);
        if inserted.is_ready() {
            coeval_env::work(Work::Write, 1);
        }
        self.noting_poll(inserted)
    }

    fn poll_update(
        &mut self,
        storage: StorageId,
        rid: Rid,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Update, Error>> {
        let updated = self
            .run_statement()?
            .poll_update(storage, rid, row, context);
        if updated.is_ready() {
            coeval_env::work(Work::Write, 1);
        }
        self.noting_poll(updated)
    }

    fn delete(&mut self, storage: StorageId, rid: Rid) -> Result<(), Error> {
        coeval_env::work(Work::Write, 1);
        let deleted = self.run_at_once()?.delete(storage, rid);
        self.noting(deleted)
    }

    fn savepoint(&mut self) -> Savepoint {
        match self.run_at_once() {
            Ok(mut run) => run.savepoint(),
            Err(_) => Savepoint(0),
        }
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        let mut run = self.run_at_once()?;
        run.state.failure = AbortCause::Rollback;
        run.rollback_to(savepoint)
    }

    fn release(&mut self, savepoint: Savepoint) {
        if let Ok(mut run) = self.run_at_once() {
            run.release(savepoint);
        }
    }

    fn poll_commit(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = match self.run() {
            Ok(mut run) => std::task::ready!(run.poll_commit(context)),
            Err(error) => return Poll::Ready(Outcome::Aborted(error)),
        };
        let counters = &self.shared.counters;
        match &outcome {
            Outcome::Committed(_) => counters.committed(),
            Outcome::Aborted(error) | Outcome::Unknown(error) => {
                counters.aborted(AbortCause::of(error));
            }
        }
        if let Some(state) = &self.state
            && let slots @ 1.. = state.notes.registered()
        {
            counters.validation().registered(slots);
        }
        self.end();
        Poll::Ready(outcome)
    }

    fn abort(&mut self) {
        if let Ok(mut run) = self.run() {
            run.undo_all();
            let cause = run.state.failure;
            self.shared.counters.aborted(cause);
        }
        self.end();
    }
}

impl Drop for OccTransaction {
    fn drop(&mut self) {
        self.abort();
    }
}
