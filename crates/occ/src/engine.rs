//! The engine: opens and closes the database, takes and gives up leadership, and begins
//! transactions. The state that transactions share is [`crate::shared`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use coeval_log::{Error as LogError, Log, RecoveryProgress, RecoverySummary, ReplicaLog};
use coeval_memory::counters::Sharded;
use coeval_memory::padded::CachePadded;
use coeval_txn::contract::{BackupStream, Checkpointing, Visit};
use coeval_txn::{
    BeginOptions, Blocked, Confirmation, ConflictCount, Error, Party, StorageMemory, Transaction,
};
use coeval_types::{IndexId, Rid, StorageDefinition, StorageId, Term, Timestamp, TransactionId};

use crate::Settings;
use crate::backup;
use crate::checkpointer::{self, Checkpointer};
use crate::checkpoints::CheckpointStatus;
use crate::following::{FollowedTables, Leadership};
use crate::garbage_collector;
use crate::memory::{self, MemoryAccounts};
use crate::ranges::maintenance;
use crate::shared::{Share, Shared};
use crate::statistics::{self, Statistics};
use crate::storage::Storage;
use crate::table_recovery::Recovery;
use crate::transaction::{OccTransaction, log_error};

/// The concurrency control engine of one node. See the [crate](crate).
#[derive(Debug)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// References to `shared` that transactions clone, one for each shard of threads.
    shares: Sharded<Share>,
    pub(crate) checkpointer: Checkpointer,
}

impl Engine {
    /// An engine whose database is in memory and is lost with the process. With
    /// [`Settings::sweep_interval`], the caller must be in a runtime.
    pub fn ephemeral(settings: Settings) -> Result<Self, LogError> {
        settings.check()?;
        let log = Log::ephemeral(settings.log.clone())?;
        let shared = Shared::new(settings, log, Arc::default(), BTreeMap::new());
        Ok(Self::start(shared, Checkpointer::none()))
    }

    /// Opens the database in `directory`, creating it if there is none: loads the newest
    /// checkpoint, replays the log after it, then appends to that log. The caller must be
    /// in a runtime. [`coeval_txn::Engine::storages`] lists the recovered storages, which
    /// are usable once they are attached.
    pub async fn open(
        directory: &Path,
        settings: Settings,
    ) -> Result<(Self, RecoverySummary), LogError> {
        Self::open_watched(directory, settings, |_| {}).await
    }

    /// As [`Engine::open`], and the recovering threads report their progress to
    /// `progress`.
    pub async fn open_watched(
        directory: &Path,
        settings: Settings,
        progress: impl Fn(RecoveryProgress) + Send + Sync + 'static,
    ) -> Result<(Self, RecoverySummary), LogError> {
        settings.check()?;
        let recovery = Arc::new(Recovery::watched(progress));
        let replay = Arc::clone(&recovery);
        let (log, summary) = Log::open(directory, settings.log.clone(), replay).await?;
        let shared = Shared::new(settings, log, Arc::default(), recovery.recovered());
        let checkpointer = Checkpointer::start(&shared);
        let engine = Self::start(shared, checkpointer);
        Ok((engine, summary))
    }

    /// Reads the database in `directory` as [`Engine::open`] does, and changes nothing
    /// there: the result is an engine in memory whose first timestamp follows the end of
    /// the log. It refuses what [`Engine::open`] would refuse. The recovering threads
    /// report to `progress`.
    pub async fn inspect(
        directory: &Path,
        settings: Settings,
        progress: impl Fn(RecoveryProgress) + Send + Sync + 'static,
    ) -> Result<(Self, RecoverySummary), LogError> {
        settings.check()?;
        let recovery = Arc::new(Recovery::watched(progress));
        let replay = Arc::clone(&recovery);
        let (log, summary) = Log::inspect(directory, settings.log.clone(), replay).await?;
        let shared = Shared::new(settings, log, Arc::default(), recovery.recovered());
        Ok((Self::start(shared, Checkpointer::none()), summary))
    }

    /// Starts the leader's engine with the log that [`ReplicaLog::lead`] has opened, on
    /// tables that hold everything before that log's mark. The caller must not replay
    /// into them any more. No background task but the checkpointer runs before
    /// [`Engine::tend`].
    ///
    /// The engine refuses transactions that write until [the mark is
    /// committed](Log::set_committed).
    pub fn lead(tables: FollowedTables, log: Log, settings: Settings) -> Result<Self, LogError> {
        settings.check()?;
        let (domain, recovered) = tables.finish()?;
        let shared = Shared::new(settings, log, domain, recovered);
        let checkpointer = Checkpointer::start(&shared);
        Ok(Self::new(shared, checkpointer))
    }

    /// Sets the source of this engine's leadership status. To be called once, before the
    /// first session reads here for a client: until then the engine answers as if it were
    /// a single node.
    pub fn led_under(&self, leadership: Arc<dyn Leadership>) {
        let set = self.shared.leadership.set(leadership);
        assert!(set.is_ok(), "an engine leads in one term");
    }

    /// Steps down: from now on the engine begins and commits no transaction, and
    /// transactions that wait for their commit get an error that its outcome is unknown.
    /// The log keeps every record whose space was reserved.
    ///
    /// # Errors
    /// When this engine does not lead, or its log has failed.
    pub async fn retire(&self) -> Result<ReplicaLog, LogError> {
        self.shared.deposed.store(true, Ordering::Release);
        self.checkpointer.end(&self.shared).await;
        self.shared.log.retire().await
    }

    /// Makes everything durable and closes the log in order. Transactions that still run
    /// cannot commit any more. The engine abandons a checkpoint under way; before that it
    /// takes one if [all rows are few](Settings::checkpoint_on_close_bytes).
    pub async fn close(&self) -> Result<(), LogError> {
        if self.shared.log.bytes_to_replay() > 0 && self.is_small() {
            // A failed checkpoint is logged, and recovery can replay the log instead.
            let _ = coeval_txn::Engine::checkpoint(self).await;
        }
        self.checkpointer.end(&self.shared).await;
        self.shared.log.close().await
    }

    /// Whether the rows are few enough for a checkpoint on close.
    fn is_small(&self) -> bool {
        let limit = self.shared.settings.checkpoint_on_close_bytes;
        let storages = self.shared.storages.read();
        let storages = storages.expect("no panic while it was held");
        let values = storages
            .values()
            .map(|storage| storage.records.memory().values);
        limit > 0 && values.sum::<u64>() <= limit && self.shared.all_attached()
    }

    /// The checkpoint status: the checkpoint in force, its age, the last failure.
    #[must_use]
    pub fn checkpoint_status(&self) -> CheckpointStatus {
        checkpointer::status(&self.shared)
    }

    /// An engine without background tasks.
    pub(crate) fn new(shared: Arc<Shared>, checkpointer: Checkpointer) -> Self {
        Self {
            shares: Sharded::from_fn(|| Arc::new(CachePadded(Arc::clone(&shared)))),
            shared,
            checkpointer,
        }
    }

    fn start(shared: Arc<Shared>, checkpointer: Checkpointer) -> Self {
        let engine = Self::new(shared, checkpointer);
        engine.tend();
        engine
    }

    /// Starts the background tasks of an engine that [leads](Engine::lead). To be called
    /// once, in a runtime.
    pub fn tend(&self) {
        if let Some(interval) = self.shared.settings.sweep_interval {
            let shared = || Arc::downgrade(&self.shared);
            coeval_env::spawn(
                "garbage_collector",
                garbage_collector::run(shared(), interval),
            );
            coeval_env::spawn("ranges", maintenance::run(shared(), interval));
        }
    }

    /// The log, whose end callers can await and whose progress they can read.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Memory in use, by purpose. Adds up counters: some hundred nanoseconds for each
    /// storage.
    #[must_use]
    pub fn memory(&self) -> MemoryAccounts {
        memory::accounts(&self.shared)
    }

    /// Sets the memory that the process occupies at this moment, in bytes: `arenas` for
    /// the allocator's arenas, free space included, and `program` for all other memory.
    /// Both count against the budget until the next call.
    pub fn set_occupied(&self, arenas: u64, program: u64) {
        self.shared.memory.set_occupied(arenas, program);
    }

    /// Sets the function that returns the process's resident memory, in bytes. Each
    /// transaction that allocates near the limit calls it, so it should cost no more than
    /// a system call.
    pub fn ask_resident(&self, resident: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        self.shared.memory.ask_resident(Box::new(resident));
    }

    /// Counters since the engine was opened, and gauges of its contents. Reads every
    /// storage, and blocks no transaction.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        statistics::read(&self.shared)
    }

    /// Runs one whole round of garbage collection: every record once, then dropped
    /// storages; and one round of range maintenance. For engines without background
    /// tasks.
    pub fn sweep(&self) {
        garbage_collector::sweep_all(&self.shared);
        maintenance::tend_all(&self.shared);
    }

    /// Checks that all indexes and records agree, for tests; no transaction may write
    /// meanwhile.
    #[doc(hidden)]
    pub fn check_indexes(&self) -> Result<(), String> {
        let guard = self.shared.domain.pin();
        let all = self.shared.all_storages();
        all.iter()
            .try_for_each(|storage| storage.check_indexes(&guard))
    }

    /// Injects a known bug for a test that must detect it: SERIALIZABLE no longer
    /// validates predicates.
    #[doc(hidden)]
    pub fn skip_predicates(&self) {
        self.shared.skips_predicates.store(true, Ordering::Relaxed);
    }
}

impl Drop for Engine {
    /// Dropping the engine without [`Engine::close`] leaves the disk as if the process
    /// had been killed.
    fn drop(&mut self) {
        self.shared.checkpoints.stop();
    }
}

impl coeval_txn::Engine for Engine {
    fn name(&self) -> &'static str {
        "occ"
    }

    fn poll_begin(
        &self,
        options: &BeginOptions,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<dyn Transaction>, Error>> {
        if let Some(cancel) = &options.cancel
            && cancel.load(Ordering::Acquire)
        {
            return Poll::Ready(Err(Error::Canceled));
        }
        self.shared.check_not_deposed()?;
        if let Some(minimum) = options.minimum {
            let installed = self.shared.log.poll_installed(minimum, context);
            ready!(installed).map_err(log_error)?;
        }
        let state = self.shared.take_state()?;
        let transaction = OccTransaction::begin(Arc::clone(self.shares.mine()), state, options);
        Poll::Ready(Ok(Box::new(transaction)))
    }

    fn poll_durable(
        &self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.shared
            .log
            .poll_durable(timestamp, context)
            .map_err(log_error)
    }

    fn ask_confirmation(&self) -> Option<Confirmation> {
        self.shared.leadership.get()?.ask()
    }

    fn is_unchallenged(&self) -> bool {
        let leadership = self.shared.leadership.get();
        leadership.is_none_or(|leadership| leadership.is_unchallenged())
    }

    fn poll_confirmed(
        &self,
        confirmation: Confirmation,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        match self.shared.leadership.get() {
            Some(leadership) => leadership.poll(confirmation, context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn attach_storage(&self, definition: StorageDefinition) -> Result<(), Error> {
        let shared = &*self.shared;
        if shared.storage(definition.id).is_ok() {
            return Err(Error::Unknown("unused storage number"));
        }
        // The lock is held until the storage is attached: a checkpoint finds the storage
        // there, or finds that it has not been attached yet.
        let mut recovered = shared.recovered.lock().expect("no panic while it was held");
        let found = recovered.remove(&definition.id).unwrap_or_default();
        let storage = Storage::new(
            &definition,
            found,
            shared.settings.range_limits(),
            shared.settings.log.recovery_threads,
            &shared.domain,
        )?;
        let mut storages = shared.storages.write().expect("no panic while it was held");
        storages.insert(definition.id, Arc::new(storage));
        Ok(())
    }

    fn drop_storage(&self, storage: StorageId) {
        let shared = &*self.shared;
        let recovered = shared
            .recovered
            .lock()
            .expect("no panic while it was held")
            .remove(&storage);
        if recovered.is_none() && shared.storage(storage).is_ok() {
            garbage_collector::retire(shared, storage, None);
        }
    }

    fn storages(&self) -> Vec<StorageId> {
        let shared = &*self.shared;
        // Locked in the order in which attaching locks them.
        let recovered = shared.recovered.lock().expect("no panic while it was held");
        let storages = shared.storages.read().expect("no panic while it was held");
        let mut all: Vec<_> = storages.keys().chain(recovered.keys()).copied().collect();
        all.sort_unstable();
        all
    }

    fn blocked(&self) -> Vec<Blocked> {
        let waits = self.shared.graph.waits();
        waits
            .into_iter()
            .map(|(waiter, entered)| entered.describe(waiter, &self.shared))
            .collect()
    }

    fn conflicts(&self) -> Vec<ConflictCount> {
        self.shared.conflicts.counts()
    }

    fn party(&self, transaction: TransactionId) -> Party {
        self.shared.party(transaction)
    }

    fn show_row(&self, storage: StorageId, rid: Rid, visit: &mut Visit<'_>) -> Option<Timestamp> {
        let table = self.shared.storage(storage).ok()?;
        let guard = self.shared.domain.pin();
        let version = table.records.record(rid)?.newest_committed(&guard)?;
        visit(rid, version.row()?);
        Some(version.cts())
    }

    fn show_row_by_key(
        &self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Option<Timestamp> {
        let table = self.shared.storage(storage).ok()?;
        let index = table.index(index).ok()?;
        let guard = self.shared.domain.pin();
        let mut committed = None;
        index.candidates(key, &guard, |rid| {
            let record = table.records.record(rid);
            let version = record.and_then(|record| record.newest_committed(&guard));
            match version.map(|version| (version.cts(), version.row())) {
                Some((timestamp, Some(row))) if index.has_key(row, key) => {
                    visit(rid, row);
                    committed = Some(timestamp);
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        });
        committed
    }

    fn term(&self) -> Term {
        self.shared.log.term()
    }

    fn estimated_rows(&self, storage: StorageId) -> u64 {
        self.shared
            .storage(storage)
            .map_or(0, |storage| storage.records.estimated_rows())
    }

    fn storage_memory(&self, storage: StorageId) -> Option<StorageMemory> {
        self.shared
            .storage(storage)
            .ok()
            .map(|storage| storage.memory())
    }

    fn spare_memory(&self) -> u64 {
        memory::spare(&self.shared.memory)
    }

    fn checkpoint(&self) -> Checkpointing {
        self.checkpointer.request()
    }

    fn backup(&self) -> Result<Box<dyn BackupStream>, Error> {
        backup::begin(&self.shared.log)
    }
}
