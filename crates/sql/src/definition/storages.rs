//! Cleanup list of storages that a transaction's schema changes create and replace.
//!
//! The engine creates a storage at once and outside the transaction, so a rollback does
//! not remove it. [`Storages`] lists the storages to drop when the transaction ends, by
//! outcome. Indexes need no such list, because the engine creates and drops them with
//! its transaction. It also lists the states of sequences that the leader may forget.

use std::sync::Arc;

use coeval_txn::Engine;
use coeval_types::StorageId;

use crate::catalog::is_own;
use crate::instance::Instance;

/// Storages to drop when the transaction ends.
#[derive(Debug, Default)]
pub(crate) struct Storages {
    /// Created by this transaction; dropped after a rollback.
    made: Vec<StorageId>,
    /// Replaced by this transaction; dropped after the commit.
    replaced: Vec<StorageId>,
    /// Dropped after either outcome.
    useless: Vec<StorageId>,
    /// States of sequences that this transaction gives up, with who has them in memory;
    /// forgotten after the commit.
    states: Vec<(Arc<Instance>, u64)>,
}

/// State of a transaction's storage lists at a savepoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoragesMark {
    made: usize,
    replaced: usize,
    states: usize,
}

impl Storages {
    /// Registers a storage created in the engine.
    pub(super) fn note_made(&mut self, storage: StorageId) {
        debug_assert!(!is_own(storage), "the session drops its own storages");
        self.made.push(storage);
    }

    /// Registers a storage that is not needed after the commit. If this transaction
    /// created it, either outcome drops it.
    pub(super) fn note_replaced(&mut self, storage: StorageId) {
        // The session's own engine drops what no definition names.
        if is_own(storage) {
            return;
        }
        self.replaced.push(storage);
    }

    /// Registers the state of a sequence that is not needed after the commit.
    pub(super) fn note_state(&mut self, around: &Arc<Instance>, state: u64) {
        self.states.push((Arc::clone(around), state));
    }

    /// The state at a new savepoint.
    pub(crate) fn mark(&self) -> StoragesMark {
        StoragesMark {
            made: self.made.len(),
            replaced: self.replaced.len(),
            states: self.states.len(),
        }
    }

    /// Handles a rollback to a savepoint.
    pub(crate) fn rollback_to(&mut self, mark: StoragesMark) {
        // Undoing the transaction may still notify other transactions of these
        // storages, so they are dropped at the transaction's end.
        self.useless.extend(self.made.drain(mark.made..));
        self.replaced.truncate(mark.replaced);
        self.states.truncate(mark.states);
    }

    /// Drops storages after the commit.
    pub(crate) fn committed(&mut self, engine: &dyn Engine) {
        for storage in self.replaced.drain(..).chain(self.useless.drain(..)) {
            engine.drop_storage(storage);
        }
        for (around, state) in self.states.drain(..) {
            around.sequences.forget(state);
        }
    }

    /// Drops storages after a rollback.
    pub(crate) fn rolled_back(&mut self, engine: &dyn Engine) {
        for storage in self.made.drain(..).chain(self.useless.drain(..)) {
            engine.drop_storage(storage);
        }
    }
}
