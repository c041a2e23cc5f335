//! Shared engine state: the log, registered snapshots, locks, tables and counters that
//! all transactions of an engine use.
//!
//! Every module that works on an engine, in the foreground or in the background, gets a
//! reference to this state. It depends on the types of its fields and on none of the
//! modules that use it, which are layered above; [`crate::engine`] is above them all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use coeval_log::Log;
use coeval_memory::epoch::Domain;
use coeval_memory::padded::CachePadded;
use coeval_storage::{Horizon, Snapshots};
use coeval_txn::{Error, Party};
use coeval_types::{IndexId, StorageId, Timestamp, TransactionId, planted};

use crate::active_transactions::ActiveTransactions;
use crate::checkpoints::CheckpointProgress;
use crate::committers::Committers;
use crate::conflicts::Conflicts;
use crate::following::Leadership;
use crate::locks::graph::WaitGraph;
use crate::locks::keys::KeyLocks;
use crate::locks::queues::Queues;
use crate::locks::rows::RowLocks;
use crate::memory::budget::Memory;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::statistics::counters::Counters;
use crate::storage::{Recovered, Storage};
use crate::transaction::state::State;
use crate::transaction::waiting::Entered;
use crate::validation::Validation;

/// A storage or an index that was dropped and may still be read.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) storage: StorageId,
    pub(crate) index: Option<IndexId>,
    /// Snapshots from this timestamp on cannot reach the dropped object; `None` until the
    /// garbage collector has set it.
    pub(crate) since: Option<Timestamp>,
}

impl Retired {
    /// Whether this entry shows that no snapshot from `snapshot` on can reach the
    /// storage.
    pub(crate) fn is_storage_before(&self, storage: StorageId, snapshot: Timestamp) -> bool {
        let since = self.since.is_some_and(|since| since <= snapshot);
        self.storage == storage && self.index.is_none() && since
    }
}

/// The state that transactions share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    pub(crate) domain: Arc<Domain>,
    pub(crate) snapshots: Snapshots,
    pub(crate) active: ActiveTransactions,
    pub(crate) queues: Queues,
    pub(crate) rows: RowLocks,
    pub(crate) keys: KeyLocks,
    pub(crate) graph: WaitGraph<Entered>,
    pub(crate) committers: Committers,
    pub(crate) validation: Validation,
    pub(crate) conflicts: Conflicts,
    pub(crate) storages: RwLock<BTreeMap<StorageId, Arc<Storage>>>,
    /// Recovered tables that the catalog has not attached yet.
    pub(crate) recovered: Mutex<BTreeMap<StorageId, Recovered>>,
    /// Dropped storages and indexes, to be freed once no snapshot can reach them.
    pub(crate) retired: Mutex<Vec<Retired>>,
    pub(crate) memory: Memory,
    pub(crate) counters: Counters,
    /// States of ended transactions, for reuse.
    pub(crate) pool: Pool,
    /// Checkpoint progress.
    pub(crate) checkpoints: CheckpointProgress,
    /// Whether this engine has led and has stepped down.
    pub(crate) deposed: AtomicBool,
    /// The source of the leadership status, in a cluster.
    pub(crate) leadership: OnceLock<Arc<dyn Leadership>>,
    /// A bug that tests inject: predicates are not validated.
    pub(crate) skips_predicates: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("settings", &self.settings)
            .field("log", &self.log)
            .field("snapshots", &self.snapshots)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        settings: Settings,
        log: Log,
        domain: Arc<Domain>,
        recovered: BTreeMap<StorageId, Recovered>,
    ) -> Arc<Self> {
        Arc::new(Self {
            memory: Memory::new(settings.budget),
            validation: Validation::new(settings.validator, settings.range_slots),
            settings,
            log,
            domain,
            snapshots: Snapshots::new(),
            active: ActiveTransactions::new(),
            queues: Queues::new(),
            rows: RowLocks::new(),
            keys: KeyLocks::new(),
            graph: WaitGraph::new(),
            committers: Committers::default(),
            conflicts: Conflicts::default(),
            storages: RwLock::default(),
            recovered: Mutex::new(recovered),
            retired: Mutex::default(),
            counters: Counters::default(),
            pool: Pool::default(),
            checkpoints: CheckpointProgress::default(),
            deposed: AtomicBool::new(false),
            leadership: OnceLock::new(),
            skips_predicates: AtomicBool::new(false),
        })
    }

    /// The horizon for garbage collection. An installed version is never taken back: on
    /// one node not while the process lives, in a cluster not while this engine leads.
    pub(crate) fn horizon(&self) -> Horizon {
        let installed = self.log.installed();
        Horizon {
            installed,
            committed: installed,
        }
    }

    pub(crate) fn storage(&self, id: StorageId) -> Result<Arc<Storage>, Error> {
        let storages = self.storages.read().expect("no panic while it was held");
        storages.get(&id).cloned().ok_or(Error::Unknown("storage"))
    }

    pub(crate) fn all_storages(&self) -> Vec<Arc<Storage>> {
        let storages = self.storages.read().expect("no panic while it was held");
        storages.values().cloned().collect()
    }

    /// Whether every recovered storage has been attached or dropped.
    pub(crate) fn all_attached(&self) -> bool {
        let recovered = self.recovered.lock().expect("no panic while it was held");
        recovered.is_empty()
    }

    /// Whether no snapshot at `snapshot` or later can reach the storage.
    pub(crate) fn is_dropped_before(&self, storage: StorageId, snapshot: Timestamp) -> bool {
        let retired = self.retired.lock().expect("no panic while it was held");
        retired
            .iter()
            .any(|entry| entry.is_storage_before(storage, snapshot))
    }

    /// Fails once this engine has stepped down; transactions may begin until then.
    pub(crate) fn check_not_deposed(&self) -> Result<(), Error> {
        if self.deposed.load(Ordering::Acquire) {
            let reason = "this node does not lead the cluster any more; ask the one that does";
            return Err(Error::Stopped(reason.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn skips_predicates(&self) -> bool {
        self.skips_predicates.load(Ordering::Relaxed) || planted!(SkipPredicate)
    }

    pub(crate) fn take_state(&self) -> Result<Box<State>, Error> {
        if let Some(state) = self.pool.take() {
            return Ok(state);
        }
        match self.active.claim() {
            Some(place) => Ok(Box::new(State::new(place, self.log.entry_builder()))),
            None => self.pool.take_any().ok_or(Error::TooManyTransactions {
                limit: ActiveTransactions::MOST,
            }),
        }
    }

    pub(crate) fn give_back(&self, state: Box<State>) {
        if let Some(state) = self.pool.keep(state) {
            self.active.give_back(state.place());
        }
    }

    /// A transaction with its session, while it runs and for a while after its commit.
    pub(crate) fn party(&self, transaction: TransactionId) -> Party {
        let running = self.active.party(transaction);
        if running.session.is_some() {
            return running;
        }
        self.committers.party(transaction).unwrap_or(running)
    }
}

/// A counted reference to the shared state. A transaction takes one when it begins and
/// returns it when it has ended; the counts are sharded, so that threads seldom write the
/// same cache line.
pub(crate) type Share = Arc<CachePadded<Arc<Shared>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_too_many_is_told_so() {
        let log = Log::ephemeral(coeval_log::Settings::default()).unwrap();
        let domain = Arc::new(Domain::new());
        let shared = Shared::new(Settings::default(), log, domain, BTreeMap::new());
        let last = shared.take_state().expect("all slots are free");
        let others = std::iter::from_fn(|| shared.active.claim()).count();
        assert_eq!(others + 1, ActiveTransactions::MOST);
        let refused = shared.take_state().err();
        let limit = ActiveTransactions::MOST;
        assert_eq!(refused, Some(Error::TooManyTransactions { limit }));
        shared.give_back(last);
        assert!(shared.take_state().is_ok());
    }
}
