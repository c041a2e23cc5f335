//! The polling calls of the contract as futures, for callers in async code.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use coeval_types::{IndexDefinition, Rid, RowLock, RowRef, StorageId, Timestamp};

use crate::contract::Visit;
use crate::{
    BeginOptions, Engine, Error, IndexBuild, Insert, LockWait, LockedRow, Outcome, TableLock,
    Transaction, Update,
};

/// A wait for a state that the engine does not show yet: if its caller gives it up, the engine
/// forgets the caller's waker ([`Engine::stop_waiting`]).
pub struct StateWait<'engine> {
    engine: &'engine dyn Engine,
    waker: Option<Waker>,
}

impl<'engine> StateWait<'engine> {
    /// A wait that has not begun.
    #[must_use]
    pub const fn new(engine: &'engine dyn Engine) -> Self {
        Self {
            engine,
            waker: None,
        }
    }

    /// Notes what a poll of the engine has returned to the task of this context, and returns it.
    pub fn note<T>(&mut self, polled: Poll<T>, context: &Context<'_>) -> Poll<T> {
        match &mut self.waker {
            _ if polled.is_ready() => self.waker = None,
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        polled
    }
}

impl Drop for StateWait<'_> {
    fn drop(&mut self) {
        if let Some(waker) = &self.waker {
            self.engine.stop_waiting(waker);
        }
    }
}

impl fmt::Debug for StateWait<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StateWait")
            .field("waits", &self.waker.is_some())
            .finish_non_exhaustive()
    }
}

/// Begins a transaction: [`Engine::poll_begin`] as a future.
pub async fn begin(
    engine: &dyn Engine,
    options: &BeginOptions,
) -> Result<Box<dyn Transaction>, Error> {
    let mut wait = StateWait::new(engine);
    poll_fn(|context| wait.note(engine.poll_begin(options, context), context)).await
}

/// Waits until a commit is durable: [`Engine::poll_durable`] as a future.
pub async fn durable(engine: &dyn Engine, timestamp: Timestamp) -> Result<(), Error> {
    poll_fn(|context| engine.poll_durable(timestamp, context)).await
}

/// Waits until the engine has confirmed that reads made here before this call were not
/// stale.
pub async fn confirmed(engine: &dyn Engine) -> Result<(), Error> {
    match engine.ask_confirmation() {
        Some(asked) => poll_fn(|context| engine.poll_confirmed(asked, context)).await,
        None => Ok(()),
    }
}

/// Waits until snapshots of the engine include everything that was acknowledged before this
/// call: [`Engine::ask_newest`] and [`Engine::poll_newest`] as a future.
pub async fn newest(engine: &dyn Engine) -> Result<(), Error> {
    match engine.ask_newest() {
        Some(asked) => {
            let mut wait = StateWait::new(engine);
            poll_fn(|context| wait.note(engine.poll_newest(asked, context), context)).await
        }
        None => Ok(()),
    }
}

/// Locks a table: [`Transaction::poll_lock_table`] as a future.
pub async fn lock_table(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    mode: TableLock,
    schema_version: u64,
) -> Result<(), Error> {
    poll_fn(|context| {
        transaction.poll_lock_table(storage, mode, LockWait::Wait, schema_version, context)
    })
    .await
}

/// Builds an index: [`Transaction::poll_build_index`] as a future.
pub async fn build_index(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    definition: &IndexDefinition,
) -> Result<IndexBuild, Error> {
    poll_fn(|context| transaction.poll_build_index(storage, definition, context)).await
}

/// Locks a row for any change: [`Transaction::poll_lock_row`] with [`RowLock::Update`].
pub async fn lock_row(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    rid: Rid,
    wait: LockWait,
    visit: &mut Visit<'_>,
) -> Result<LockedRow, Error> {
    lock_row_in(transaction, (storage, rid), RowLock::Update, wait, visit).await
}

/// Locks a row: [`Transaction::poll_lock_row`] as a future.
pub async fn lock_row_in(
    transaction: &mut dyn Transaction,
    (storage, rid): (StorageId, Rid),
    mode: RowLock,
    wait: LockWait,
    visit: &mut Visit<'_>,
) -> Result<LockedRow, Error> {
    poll_fn(|context| transaction.poll_lock_row(storage, rid, mode, wait, visit, context)).await
}

/// Inserts a row: [`Transaction::poll_insert`] as a future.
pub async fn insert(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    row: RowRef<'_>,
) -> Result<Insert, Error> {
    poll_fn(|context| transaction.poll_insert(storage, row, context)).await
}

/// Replaces a row: [`Transaction::poll_update`] as a future.
pub async fn update(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    rid: Rid,
    row: RowRef<'_>,
) -> Result<Update, Error> {
    poll_fn(|context| transaction.poll_update(storage, rid, row, context)).await
}

/// Commits a transaction: [`Transaction::poll_commit`] as a future.
pub async fn commit(transaction: &mut dyn Transaction) -> Outcome {
    poll_fn(|context| transaction.poll_commit(context)).await
}
