//! The rows of sequences' states, in a storage of their own.
//!
//! ```text
//!   cell 0   the state's number, big-endian
//!   cell 1   i64 number, u8 is called (0 or 1)
//! ```
//!
//! The number was handed out at most, if it is called; else it is the next one.

use std::future::Future;
use std::ops::{Bound, ControlFlow};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Insert, Isolation, LockWait, LockedRow, Outcome,
    ScanProgress, ScanRequest, ScanSource, TableLock, Transaction,
};
use coeval_types::{
    IndexDefinition, IndexId, IndexKind, Rid, RowBuilder, RowRef, StorageDefinition, StorageId,
    Timestamp, planted,
};

use crate::error::{Error, Result, SqlState};
use crate::record::{FirstCell, damaged};

/// The storage of sequences' states, next to the catalog's own storages.
pub(crate) const SEQUENCE_STORAGE: StorageId = StorageId(6);
const INDEX: IndexId = IndexId(6);
/// Schema version of the storage, which never changes.
const SCHEMA: u64 = 1;

/// How often a transaction that has to wait is polled before it is given up.
const POLLS: usize = 10_000;

/// The storage definition for the engine.
pub(crate) fn definition() -> StorageDefinition {
    StorageDefinition {
        id: SEQUENCE_STORAGE,
        schema_version: SCHEMA,
        indexes: vec![IndexDefinition {
            id: INDEX,
            kind: IndexKind::Primary,
            extractor: Arc::new(FirstCell),
        }],
    }
}

/// A state as its row says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) number: i64,
    pub(super) is_called: bool,
}

fn row(state: u64, kept: Kept) -> Vec<u8> {
    let mut content = kept.number.to_le_bytes().to_vec();
    content.push(u8::from(kept.is_called));
    let mut builder = RowBuilder::new();
    builder.push(Some(&state.to_be_bytes()));
    builder.push(Some(&content));
    let mut row = Vec::new();
    builder.finish(&mut row);
    row
}

fn kept(row: RowRef<'_>) -> Result<Kept> {
    let content = row.cell(1).unwrap_or_default();
    let read = content.split_first_chunk().and_then(|(number, called)| {
        Some(Kept {
            number: i64::from_le_bytes(*number),
            is_called: match called {
                [0] => false,
                [1] => true,
                _ => return None,
            },
        })
    });
    read.ok_or_else(|| damaged("the state of a sequence makes no sense"))
}

/// The newest row of a state, and when it was committed, outside of any snapshot.
pub(super) fn read(engine: &dyn Engine, state: u64) -> Result<Option<(Kept, Timestamp)>> {
    let mut found = None;
    let key = state.to_be_bytes();
    let committed = engine.show_row_by_key(SEQUENCE_STORAGE, INDEX, &key, &mut |_, row| {
        found = Some(kept(row));
    });
    match (found.transpose()?, committed) {
        (Some(kept), Some(committed)) => Ok(Some((kept, committed))),
        _ => Ok(None),
    }
}

/// Writes the row of a state in a transaction of its own. Returns when it was committed.
///
/// The caller is in the middle of an expression, where nothing waits. The transaction need
/// not: no other one touches the row, as long as the caller has the state's mutex. Only if
/// the log has no room, others get their turn a number of times.
pub(super) fn write(engine: &dyn Engine, state: u64, kept: Kept) -> Result<Timestamp> {
    if !engine.begins_side_by_side() || planted!(SequenceWithoutRow) {
        return Ok(Timestamp::ZERO);
    }
    at_once(put(engine, state, kept))
}

async fn put(engine: &dyn Engine, state: u64, kept: Kept) -> Result<Timestamp> {
    let options = BeginOptions {
        isolation: Isolation::ReadCommitted,
        ..BeginOptions::default()
    };
    let mut transaction = coeval_txn::begin(engine, &options).await?;
    let transaction = &mut *transaction;
    lock_table(transaction).await?;
    let row = row(state, kept);
    let row = RowRef::trusted(&row);
    let known = match find(transaction, state)? {
        Some(rid) if lock_row(transaction, rid).await? => Some(rid),
        _ => None,
    };
    match known {
        Some(rid) => {
            coeval_txn::update(transaction, SEQUENCE_STORAGE, rid, row).await?;
        }
        None => {
            let inserted = coeval_txn::insert(transaction, SEQUENCE_STORAGE, row).await?;
            if let Insert::Duplicate { .. } = inserted {
                return Err(Error::internal("a sequence's state is there twice"));
            }
        }
    }
    match coeval_txn::commit(transaction).await {
        Outcome::Committed(timestamp) => Ok(timestamp),
        Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error.into()),
    }
}

/// Runs a future that is not expected to wait.
fn at_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        coeval_env::hand_over();
        coeval_env::give_way();
    }
    Err(Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the log has no room for the numbers of a sequence",
    )
    .with_hint("Run the transaction again."))
}

/// Deletes the row of a state, as part of the transaction that gives its sequence up. Only at
/// READ COMMITTED, where the row that is there can be deleted: else it is left to [`clean`].
pub(crate) async fn delete(
    engine: &dyn Engine,
    transaction: &mut dyn Transaction,
    state: u64,
) -> Result<()> {
    let deletes = transaction.isolation() == Isolation::ReadCommitted;
    if !deletes || !engine.begins_side_by_side() {
        return Ok(());
    }
    if let Some(rid) = find(transaction, state)? {
        lock_table(transaction).await?;
        if lock_row(transaction, rid).await? {
            transaction.delete(SEQUENCE_STORAGE, rid)?;
        }
    }
    Ok(())
}

/// Deletes the rows of states that no sequence has: of sequences whose transaction rolled
/// back, or that were given up above READ COMMITTED.
pub(crate) async fn clean(
    transaction: &mut dyn Transaction,
    is_known: &(dyn Fn(u64) -> bool + Sync),
) -> Result<()> {
    let mut gone = Vec::new();
    let mut position: Option<Vec<u8>> = None;
    loop {
        let progress = transaction.scan(
            &ScanRequest {
                storage: SEQUENCE_STORAGE,
                source: ScanSource::Index(INDEX),
                bounds: Bounds {
                    lower: match &position {
                        Some(position) => Bound::Excluded(position),
                        None => Bound::Unbounded,
                    },
                    upper: Bound::Unbounded,
                },
                direction: Direction::Forward,
                limit: 256,
            },
            &mut |rid, row| {
                let state = row.cell(0).and_then(|cell| cell.try_into().ok());
                if !state.map(u64::from_be_bytes).is_some_and(is_known) {
                    gone.push(rid);
                }
                ControlFlow::Continue(())
            },
        )?;
        match progress {
            ScanProgress::Complete => break,
            ScanProgress::More(last) => position = Some(last),
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    lock_table(transaction).await?;
    for rid in gone {
        if lock_row(transaction, rid).await? {
            transaction.delete(SEQUENCE_STORAGE, rid)?;
        }
    }
    Ok(())
}

async fn lock_table(transaction: &mut dyn Transaction) -> Result<()> {
    let mode = TableLock::RowExclusive;
    coeval_txn::lock_table(transaction, SEQUENCE_STORAGE, mode, SCHEMA).await?;
    Ok(())
}

fn find(transaction: &mut dyn Transaction, state: u64) -> Result<Option<Rid>> {
    let mut found = None;
    let key = state.to_be_bytes();
    transaction.get(SEQUENCE_STORAGE, INDEX, &key, &mut |rid, _| {
        found = Some(rid);
    })?;
    Ok(found)
}

/// Locks a row; returns false if it has been deleted.
async fn lock_row(transaction: &mut dyn Transaction, rid: Rid) -> Result<bool> {
    let wait = LockWait::Wait;
    let locked =
        coeval_txn::lock_row(transaction, SEQUENCE_STORAGE, rid, wait, &mut |_, _| {}).await?;
    Ok(locked != LockedRow::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_from_its_row() {
        for state in [
            Kept {
                number: -7,
                is_called: true,
            },
            Kept {
                number: i64::MAX,
                is_called: false,
            },
        ] {
            let row = row(9, state);
            assert_eq!(kept(RowRef::trusted(&row)).unwrap(), state);
        }
    }
}
