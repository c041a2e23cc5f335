//! The serial engine: admits one transaction at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use coeval_types::{
    IndexId, IndexKind, Rid, StorageDefinition, StorageId, Term, Timestamp, TransactionId,
};

use super::database::{Database, Storage};
use super::transaction::SerialTransaction;
use crate::contract::Visit;
use crate::{BeginOptions, Engine, Error, Transaction};

/// Whether a transaction is running, and the begins that wait for its end.
#[derive(Debug, Default)]
struct Gate {
    closed: bool,
    begun: u64,
    /// Wakers of the waiting begins. All are woken at every end: an abandoned begin leaves
    /// its waker here, and must not consume the only wake-up.
    waiting: Vec<Waker>,
}

/// State that the engine shares with its running transaction.
#[derive(Debug, Default)]
pub(super) struct Shared {
    gate: Mutex<Gate>,
    database: Mutex<Database>,
}

impl Shared {
    pub(super) fn database(&self) -> MutexGuard<'_, Database> {
        self.database.lock().expect("no panic while it was held")
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().expect("no panic while it was held")
    }

    /// Admits the next transaction.
    pub(super) fn open_gate(&self) {
        let waiting = {
            let mut gate = self.gate();
            gate.closed = false;
            std::mem::take(&mut gate.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }
}

/// Whether the caller has set its cancel flag.
pub(super) fn is_canceled(cancel: Option<&Arc<AtomicBool>>) -> bool {
    cancel.is_some_and(|flag| flag.load(Ordering::Acquire))
}

/// The engine that runs one transaction at a time. See the [module](super).
#[derive(Clone, Debug, Default)]
pub struct Serial {
    shared: Arc<Shared>,
}

impl Serial {
    /// Creates an engine with an empty database.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory of all rows, index entries and undo steps, in bytes, approximately.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.database().bytes()
    }

    /// Removes every row of a storage, between transactions: no rollback undoes it. Does
    /// nothing for an unknown storage.
    pub fn clear(&self, storage: StorageId) {
        if let Ok(storage) = self.shared.database().storage_mut(storage) {
            storage.clear();
        }
    }
}

impl Engine for Serial {
    fn name(&self) -> &'static str {
        "serial"
    }

    fn poll_begin(
        &self,
        options: &BeginOptions,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<dyn Transaction>, Error>> {
        if is_canceled(options.cancel.as_ref()) {
            return Poll::Ready(Err(Error::Canceled));
        }
        let mut gate = self.shared.gate();
        let commits = Timestamp::from_bits(self.shared.database().commits);
        if gate.closed || options.minimum.is_some_and(|minimum| minimum > commits) {
            if !gate
                .waiting
                .iter()
                .any(|waker| waker.will_wake(context.waker()))
            {
                gate.waiting.push(context.waker().clone());
            }
            return Poll::Pending;
        }
        gate.closed = true;
        gate.begun += 1;
        let id = TransactionId(gate.begun);
        let shared = Arc::clone(&self.shared);
        Poll::Ready(Ok(Box::new(SerialTransaction::new(
            shared, id, commits, options,
        ))))
    }

    fn begins_side_by_side(&self) -> bool {
        false
    }

    /// Ready at once: this engine guarantees no durability.
    fn poll_durable(
        &self,
        _timestamp: Timestamp,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn attach_storage(&self, definition: StorageDefinition) -> Result<(), Error> {
        let primaries = definition
            .indexes
            .iter()
            .filter(|index| index.kind == IndexKind::Primary)
            .count();
        if primaries > 1 {
            return Err(Error::Unknown("storage with two primary indexes"));
        }
        let mut database = self.shared.database();
        if database.storages.contains_key(&definition.id) {
            return Err(Error::Unknown("unused storage number"));
        }
        database
            .storages
            .insert(definition.id, Storage::new(definition));
        Ok(())
    }

    /// Drops at once: a transaction that runs now began after every step that could make
    /// the storage unreachable.
    fn drop_storage(&self, storage: StorageId) {
        self.shared.database().storages.remove(&storage);
    }

    fn storages(&self) -> Vec<StorageId> {
        self.shared.database().storages.keys().copied().collect()
    }

    fn show_row(&self, storage: StorageId, rid: Rid, visit: &mut Visit<'_>) -> Option<Timestamp> {
        let database = self.shared.database();
        visit(rid, database.storage(storage).ok()?.row(rid)?);
        Some(Timestamp::from_bits(database.commits))
    }

    /// Includes uncommitted writes of the running transaction, because this engine has only
    /// one state.
    fn show_row_by_key(
        &self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Option<Timestamp> {
        let database = self.shared.database();
        let storage = database.storage(storage).ok()?;
        let rid = storage.find(index, key).ok()??;
        visit(rid, storage.row(rid)?);
        Some(Timestamp::from_bits(database.commits))
    }

    /// Always term 1.
    fn term(&self) -> Term {
        Term(1)
    }

    fn estimated_rows(&self, storage: StorageId) -> u64 {
        self.shared
            .database()
            .storage(storage)
            .map_or(0, |storage| storage.len() as u64)
    }
}
