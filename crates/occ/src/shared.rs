//! What all transactions of an engine share: the log, registered snapshots, locks, the
//! tables, and what is counted.
//!
//! Everything that works on an engine is handed a reference to this, in the foreground
//! and in the background. It knows the types of its fields and none of the modules that
//! work with them, which stand above it; [`crate::engine`] stands above them all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use coeval_log::Log;
use coeval_memory::epoch::Domain;
use coeval_memory::padded::CachePadded;
use coeval_storage::{Horizon, Snapshots};
use coeval_txn::{Error, Party};
use coeval_types::{IndexId, StorageId, Timestamp, TransactionId, planted};

use crate::checkpoints::Progress;
use crate::committers::Committers;
use crate::conflicts::Conflicts;
use crate::following::Leadership;
use crate::locks::graph::WaitGraph;
use crate::locks::keys::KeyLocks;
use crate::locks::queues::Queues;
use crate::memory::budget::Memory;
use crate::pool::Pool;
use crate::running::Running;
use crate::settings::Settings;
use crate::statistics::counters::Counters;
use crate::storage::{Recovered, Storage};
use crate::transaction::state::State;
use crate::transaction::waiting::Entered;
use crate::validation::Validation;

/// A storage or an index that was dropped.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) storage: StorageId,
    pub(crate) index: Option<IndexId>,
    /// Once known: no snapshot before this may be registered any more.
    pub(crate) since: Option<Timestamp>,
}

impl Retired {
    /// Whether it says that no snapshot from `snapshot` on can reach the storage.
    pub(crate) fn is_storage_before(&self, storage: StorageId, snapshot: Timestamp) -> bool {
        let since = self.since.is_some_and(|since| since <= snapshot);
        self.storage == storage && self.index.is_none() && since
    }
}

/// What transactions share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    pub(crate) domain: Arc<Domain>,
    pub(crate) snapshots: Snapshots,
    pub(crate) running: Running,
    pub(crate) queues: Queues,
    pub(crate) keys: KeyLocks,
    pub(crate) graph: WaitGraph<Entered>,
    pub(crate) committers: Committers,
    pub(crate) validation: Validation,
    pub(crate) conflicts: Conflicts,
    pub(crate) storages: RwLock<BTreeMap<StorageId, Arc<Storage>>>,
    /// Records that came back from the log and that nobody has attached yet.
    pub(crate) recovered: Mutex<BTreeMap<StorageId, Recovered>>,
    /// What is to be forgotten once no snapshot can reach it.
    pub(crate) retired: Mutex<Vec<Retired>>,
    pub(crate) memory: Memory,
    pub(crate) counters: Counters,
    /// States of ended transactions, to be used again.
    pub(crate) pool: Pool,
    /// How checkpoints are going.
    pub(crate) checkpoints: Progress,
    /// It led, and does not any more.
    pub(crate) deposed: AtomicBool,
    /// Who knows whether it leads, in a cluster.
    pub(crate) leadership: OnceLock<Arc<dyn Leadership>>,
    /// A fault that tests put back: predicates are not validated.
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
            running: Running::new(),
            queues: Queues::new(),
            keys: KeyLocks::new(),
            graph: WaitGraph::new(),
            committers: Committers::default(),
            conflicts: Conflicts::default(),
            storages: RwLock::default(),
            recovered: Mutex::new(recovered),
            retired: Mutex::default(),
            counters: Counters::default(),
            pool: Pool::default(),
            checkpoints: Progress::default(),
            deposed: AtomicBool::new(false),
            leadership: OnceLock::new(),
            skips_predicates: AtomicBool::new(false),
        })
    }

    /// How far versions are settled. Nothing that is installed is taken back: on one
    /// node not while the process lives, in a cluster not while this engine does.
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

    /// Whether every storage that came back has been attached or dropped.
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

    /// Whether transactions may begin.
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
        match self.running.claim() {
            Some(place) => Ok(Box::new(State::new(place, self.log.entry_builder()))),
            None => self.pool.take_any().ok_or(Error::OutOfMemory),
        }
    }

    pub(crate) fn give_back(&self, state: Box<State>) {
        if let Some(state) = self.pool.keep(state) {
            self.running.give_back(state.place());
        }
    }

    /// A transaction with its session, while it runs and for a while after it committed.
    pub(crate) fn party(&self, transaction: TransactionId) -> Party {
        let running = self.running.party(transaction);
        if running.session.is_some() {
            return running;
        }
        self.committers.party(transaction).unwrap_or(running)
    }
}

/// A reference to what all share. A transaction takes one when it begins and gives it back when
/// it has ended; they are counted in shards, so that threads seldom count in the same place.
pub(crate) type Share = Arc<CachePadded<Arc<Shared>>>;
