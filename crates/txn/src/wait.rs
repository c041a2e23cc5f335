//! The waiting calls of the contract as futures.

use std::future::poll_fn;

use coeval_types::{IndexDefinition, Rid, RowRef, StorageId, Timestamp};

use crate::contract::Visit;
use crate::{
    BeginOptions, Engine, Error, IndexBuild, Insert, LockWait, LockedRow, Outcome, TableLock,
    Transaction, Update,
};

/// [`Engine::poll_begin`].
pub async fn begin(
    engine: &dyn Engine,
    options: &BeginOptions,
) -> Result<Box<dyn Transaction>, Error> {
    poll_fn(|context| engine.poll_begin(options, context)).await
}

/// [`Engine::poll_durable`].
pub async fn durable(engine: &dyn Engine, timestamp: Timestamp) -> Result<(), Error> {
    poll_fn(|context| engine.poll_durable(timestamp, context)).await
}

/// Waits until it is certain that what was read here before this call was not old.
pub async fn confirmed(engine: &dyn Engine) -> Result<(), Error> {
    match engine.ask_confirmation() {
        Some(asked) => poll_fn(|context| engine.poll_confirmed(asked, context)).await,
        None => Ok(()),
    }
}

/// [`Transaction::poll_lock_table`].
pub async fn lock_table(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    mode: TableLock,
    schema_version: u64,
) -> Result<(), Error> {
    poll_fn(|context| transaction.poll_lock_table(storage, mode, schema_version, context)).await
}

/// [`Transaction::poll_build_index`].
pub async fn build_index(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    definition: &IndexDefinition,
) -> Result<IndexBuild, Error> {
    poll_fn(|context| transaction.poll_build_index(storage, definition, context)).await
}

/// [`Transaction::poll_lock_row`].
pub async fn lock_row(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    rid: Rid,
    wait: LockWait,
    visit: &mut Visit<'_>,
) -> Result<LockedRow, Error> {
    poll_fn(|context| transaction.poll_lock_row(storage, rid, wait, visit, context)).await
}

/// [`Transaction::poll_insert`].
pub async fn insert(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    row: RowRef<'_>,
) -> Result<Insert, Error> {
    poll_fn(|context| transaction.poll_insert(storage, row, context)).await
}

/// [`Transaction::poll_update`].
pub async fn update(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    rid: Rid,
    row: RowRef<'_>,
) -> Result<Update, Error> {
    poll_fn(|context| transaction.poll_update(storage, rid, row, context)).await
}

/// [`Transaction::poll_commit`].
pub async fn commit(transaction: &mut dyn Transaction) -> Outcome {
    poll_fn(|context| transaction.poll_commit(context)).await
}
