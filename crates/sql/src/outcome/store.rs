//! Storage of outcomes, marks and the horizon: one storage with three kinds of rows.
//!
//! ```text
//!   key                     cell 1
//!   0                       number    the horizon
//!   1, number big-endian    time      a mark
//!   2, number big-endian              a committed transaction
//! ```

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Insert, Isolation, LockWait, LockedRow, Outcome,
    ScanProgress, ScanRequest, ScanSource, TableLock, Transaction,
};
use coeval_types::{
    IndexDefinition, IndexId, IndexKind, Rid, RowBuilder, RowRef, StorageDefinition, StorageId,
    Timestamp, planted,
};

use super::TransactionNumber;
use crate::error::{Error, Result};
use crate::record::{FirstCell, damaged};

/// The storage of outcomes, next to the catalog's own storages.
pub const OUTCOME_STORAGE: StorageId = StorageId(4);
const INDEX: IndexId = IndexId(4);
/// Schema version of the storage, which never changes.
const SCHEMA: u64 = 1;

const HORIZON: u8 = 0;
const MARK: u8 = 1;
const COMMITTED: u8 = 2;

/// The storage definition for the engine.
pub(crate) fn definition() -> StorageDefinition {
    StorageDefinition {
        id: OUTCOME_STORAGE,
        schema_version: SCHEMA,
        indexes: vec![IndexDefinition {
            id: INDEX,
            kind: IndexKind::Primary,
            extractor: Arc::new(FirstCell),
        }],
    }
}

/// A mark: every transaction with a number below `below` had ended at `time`, in
/// microseconds since 2000 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) below: TransactionNumber,
    pub(crate) time: i64,
}

/// Whether a row of the storage is a mark.
#[must_use]
pub fn is_mark(row: RowRef<'_>) -> bool {
    row.cell(0).and_then(<[u8]>::first) == Some(&MARK)
}

/// State loaded from the rows when a node starts to write the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) horizon: TransactionNumber,
    pub(crate) newest_mark: Option<Mark>,
    /// Whether there is an outcome above the newest mark.
    pub(crate) unmarked: bool,
}

fn key(kind: u8, number: TransactionNumber) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.0.to_be_bytes());
    key
}

fn row(key: &[u8], content: Option<[u8; 8]>) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    builder.push(Some(key));
    if let Some(content) = &content {
        builder.push(Some(content));
    }
    let mut row = Vec::new();
    builder.finish(&mut row);
    row
}

fn number_of(row: RowRef<'_>) -> Result<TransactionNumber> {
    let cell = row.cell(0).and_then(|cell| cell.get(1..)?.try_into().ok());
    cell.map(|bytes| TransactionNumber(u64::from_be_bytes(bytes)))
        .ok_or_else(|| damaged("an outcome has no number"))
}

fn content_of(row: RowRef<'_>) -> Result<[u8; 8]> {
    row.cell(1)
        .and_then(|cell| cell.try_into().ok())
        .ok_or_else(|| damaged("a mark among the outcomes says nothing"))
}

/// Timestamp of the commit of the transaction with this number, if it committed.
pub(crate) fn exists(engine: &dyn Engine, number: TransactionNumber) -> Option<Timestamp> {
    let key = key(COMMITTED, number);
    engine.show_row_by_key(OUTCOME_STORAGE, INDEX, &key, &mut |_, _| {})
}

/// Inserts the outcome as part of the transaction, so that the row exists exactly if
/// the transaction commits.
pub(crate) async fn insert(
    transaction: &mut dyn Transaction,
    number: TransactionNumber,
) -> Result<()> {
    let row = row(&key(COMMITTED, number), None);
    lock_table(transaction).await?;
    insert_row(transaction, &row).await
}

/// Records, in a transaction of its own, the outcome of a committed transaction that
/// has written nothing. Returns the commit timestamp of the row.
pub(crate) async fn record_alone(
    engine: &dyn Engine,
    number: TransactionNumber,
) -> Result<Timestamp> {
    let mut transaction = begin(engine).await?;
    insert(&mut *transaction, number).await?;
    commit(&mut *transaction).await
}

/// Loads the state needed at a start.
pub(crate) fn load(transaction: &mut dyn Transaction) -> Result<Loaded> {
    let mut horizon = None;
    transaction.get(OUTCOME_STORAGE, INDEX, &[HORIZON], &mut |_, row| {
        horizon = Some(content_of(row));
    })?;
    let horizon = horizon.transpose()?.map_or(0, u64::from_be_bytes);
    let newest_mark = marks(transaction)?.last().map(|&(_, mark)| mark);
    let mut newest = None;
    let all = (&[COMMITTED][..], &[COMMITTED + 1][..]);
    scan(transaction, all, Direction::Backward, 1, &mut |_, row| {
        newest = Some(number_of(row))
    })?;
    let newest = newest.transpose()?;
    let horizon = match newest {
        Some(newest) if planted!(ForgetOutcomes) => newest.0 + 1,
        _ => horizon,
    };
    let unmarked = newest.is_some_and(|newest| newest_mark.is_none_or(|mark| newest >= mark.below));
    Ok(Loaded {
        horizon: TransactionNumber(horizon),
        newest_mark,
        unmarked,
    })
}

/// All marks, in ascending order.
pub(super) fn marks(transaction: &mut dyn Transaction) -> Result<Vec<(Rid, Mark)>> {
    let mut marks = Vec::new();
    let all = (&[MARK][..], &[MARK + 1][..]);
    scan(
        transaction,
        all,
        Direction::Forward,
        usize::MAX,
        &mut |rid, row| {
            marks.push((|| {
                let below = number_of(row)?;
                let time = i64::from_be_bytes(content_of(row)?);
                Ok((rid, Mark { below, time }))
            })());
        },
    )?;
    marks.into_iter().collect()
}

/// The record ids of the first `limit` outcomes below a number.
pub(super) fn outcomes_below(
    transaction: &mut dyn Transaction,
    below: TransactionNumber,
    limit: usize,
) -> Result<Vec<Rid>> {
    let mut found = Vec::new();
    let upper = key(COMMITTED, below);
    let those = (&[COMMITTED][..], &upper[..]);
    scan(
        transaction,
        those,
        Direction::Forward,
        limit,
        &mut |rid, _| found.push(rid),
    )?;
    Ok(found)
}

/// Inserts a mark.
pub(super) async fn insert_mark(transaction: &mut dyn Transaction, mark: Mark) -> Result<()> {
    let row = row(&key(MARK, mark.below), Some(mark.time.to_be_bytes()));
    lock_table(transaction).await?;
    insert_row(transaction, &row).await
}

/// Writes the horizon.
pub(super) async fn put_horizon(
    transaction: &mut dyn Transaction,
    horizon: TransactionNumber,
) -> Result<()> {
    let row = row(&[HORIZON], Some(horizon.0.to_be_bytes()));
    lock_table(transaction).await?;
    let mut found = None;
    transaction.get(OUTCOME_STORAGE, INDEX, &[HORIZON], &mut |rid, _| {
        found = Some(rid);
    })?;
    match found {
        None => insert_row(transaction, &row).await,
        Some(rid) => {
            lock_row(transaction, rid).await?;
            coeval_txn::update(transaction, OUTCOME_STORAGE, rid, RowRef::trusted(&row)).await?;
            Ok(())
        }
    }
}

/// Deletes rows that this transaction has read.
pub(super) async fn delete(transaction: &mut dyn Transaction, rows: &[Rid]) -> Result<()> {
    lock_table(transaction).await?;
    for &rid in rows {
        if lock_row(transaction, rid).await? {
            transaction.delete(OUTCOME_STORAGE, rid)?;
        }
    }
    Ok(())
}

/// Begins an internal transaction.
pub(super) async fn begin(engine: &dyn Engine) -> Result<Box<dyn Transaction>> {
    let options = BeginOptions {
        isolation: Isolation::ReadCommitted,
        ..BeginOptions::default()
    };
    Ok(coeval_txn::begin(engine, &options).await?)
}

/// Commits an internal transaction.
pub(super) async fn commit(transaction: &mut dyn Transaction) -> Result<Timestamp> {
    match coeval_txn::commit(transaction).await {
        Outcome::Committed(timestamp) => Ok(timestamp),
        Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error.into()),
    }
}

async fn lock_table(transaction: &mut dyn Transaction) -> Result<()> {
    coeval_txn::lock_table(
        transaction,
        OUTCOME_STORAGE,
        TableLock::RowExclusive,
        SCHEMA,
    )
    .await?;
    Ok(())
}

async fn insert_row(transaction: &mut dyn Transaction, row: &[u8]) -> Result<()> {
    match coeval_txn::insert(transaction, OUTCOME_STORAGE, RowRef::trusted(row)).await? {
        Insert::Inserted(_) => Ok(()),
        Insert::Duplicate { .. } => Err(Error::internal("a transaction's number is used twice")),
    }
}

/// Locks a row; returns false if it has been deleted.
async fn lock_row(transaction: &mut dyn Transaction, rid: Rid) -> Result<bool> {
    let wait = LockWait::Wait;
    let locked =
        coeval_txn::lock_row(transaction, OUTCOME_STORAGE, rid, wait, &mut |_, _| {}).await?;
    Ok(locked != LockedRow::Gone)
}

/// Passes the first `most` rows with keys between `lower` (included) and `upper`
/// (excluded) to `visit`.
fn scan(
    transaction: &mut dyn Transaction,
    (lower, upper): (&[u8], &[u8]),
    direction: Direction,
    most: usize,
    visit: &mut (dyn FnMut(Rid, RowRef<'_>) + Send),
) -> Result<()> {
    const CHUNK: usize = 256;
    let mut seen = 0;
    let mut position: Option<Vec<u8>> = None;
    loop {
        let mut bounds = Bounds {
            lower: Bound::Included(lower),
            upper: Bound::Excluded(upper),
        };
        if let Some(position) = &position {
            match direction {
                Direction::Forward => bounds.lower = Bound::Excluded(&position[..]),
                Direction::Backward => bounds.upper = Bound::Excluded(&position[..]),
            }
        }
        let request = ScanRequest {
            storage: OUTCOME_STORAGE,
            source: ScanSource::Index(INDEX),
            bounds,
            direction,
            limit: CHUNK,
        };
        let progress = transaction.scan(&request, &mut |rid, row| {
            seen += 1;
            visit(rid, row);
            if seen >= most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        match progress {
            ScanProgress::More(last) if seen < most => position = Some(last),
            _ => return Ok(()),
        }
    }
}
