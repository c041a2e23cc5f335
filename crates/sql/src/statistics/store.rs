//! Storage of statistics: a row for each table that has been analyzed, under its OID.

use std::ops::{Bound, ControlFlow};

use coeval_txn::{
    Bounds, Direction, Engine, Insert, LockWait, LockedRow, ScanProgress, ScanRequest, ScanSource,
    TableLock, Transaction,
};
use coeval_types::{RowBuilder, RowRef, Timestamp};

use super::TableStatistics;
use crate::catalog::statistics_storage::{INDEX, SCHEMA, STATISTICS_STORAGE};
use crate::error::Result;

/// Rows that are read in a step.
const CHUNK: usize = 256;

/// Timestamp of the newest statistics of a table.
pub(super) fn shown_at(engine: &dyn Engine, table: u32) -> Option<Timestamp> {
    let key = table.to_be_bytes();
    engine.show_row_by_key(STATISTICS_STORAGE, INDEX, &key, &mut |_, _| {})
}

/// The newest statistics of a table, encoded, and their timestamp.
pub(super) fn read(engine: &dyn Engine, table: u32) -> Option<(Timestamp, Vec<u8>)> {
    let key = table.to_be_bytes();
    let mut content = Vec::new();
    let shown = engine.show_row_by_key(STATISTICS_STORAGE, INDEX, &key, &mut |_, row| {
        content = row.cell(1).unwrap_or_default().to_vec();
    })?;
    Some((shown, content))
}

/// Writes the statistics of a table.
pub(super) async fn write(
    transaction: &mut dyn Transaction,
    table: u32,
    statistics: &TableStatistics,
) -> Result<()> {
    let key = table.to_be_bytes();
    let content = statistics.encode();
    let mut builder = RowBuilder::new();
    builder.push(Some(&key));
    builder.push(Some(&content));
    let mut row = Vec::new();
    builder.finish(&mut row);
    let lock = TableLock::RowExclusive;
    coeval_txn::lock_table(transaction, STATISTICS_STORAGE, lock, SCHEMA).await?;
    let mut found = None;
    transaction.get(STATISTICS_STORAGE, INDEX, &key, &mut |rid, _| {
        found = Some(rid)
    })?;
    if let Some(rid) = found {
        let wait = LockWait::Wait;
        let locked =
            coeval_txn::lock_row(transaction, STATISTICS_STORAGE, rid, wait, &mut |_, _| {})
                .await?;
        if locked != LockedRow::Gone {
            let row = RowRef::trusted(&row);
            coeval_txn::update(transaction, STATISTICS_STORAGE, rid, row).await?;
            return Ok(());
        }
    }
    let row = RowRef::trusted(&row);
    match coeval_txn::insert(transaction, STATISTICS_STORAGE, row).await? {
        // Another transaction has analyzed the table meanwhile.
        Insert::Inserted(_) | Insert::Duplicate { .. } => Ok(()),
    }
}

/// Deletes the statistics of tables that are not there any more.
pub(super) async fn forget(
    transaction: &mut dyn Transaction,
    exists: &(dyn Fn(u32) -> bool + Sync),
) -> Result<()> {
    let mut gone = Vec::new();
    let mut position: Option<Vec<u8>> = None;
    loop {
        let mut bounds = Bounds::ALL;
        if let Some(position) = &position {
            bounds.lower = Bound::Excluded(position);
        }
        let request = ScanRequest {
            storage: STATISTICS_STORAGE,
            source: ScanSource::Index(INDEX),
            bounds,
            direction: Direction::Forward,
            limit: CHUNK,
        };
        let progress = transaction.scan(&request, &mut |rid, row| {
            let table = row.cell(0).and_then(|cell| cell.try_into().ok());
            if !table.is_some_and(|table| exists(u32::from_be_bytes(table))) {
                gone.push(rid);
            }
            ControlFlow::Continue(())
        })?;
        match progress {
            ScanProgress::More(next) => position = Some(next),
            ScanProgress::Complete => break,
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    let lock = TableLock::RowExclusive;
    coeval_txn::lock_table(transaction, STATISTICS_STORAGE, lock, SCHEMA).await?;
    for rid in gone {
        let wait = LockWait::Wait;
        let locked =
            coeval_txn::lock_row(transaction, STATISTICS_STORAGE, rid, wait, &mut |_, _| {})
                .await?;
        if locked != LockedRow::Gone {
            transaction.delete(STATISTICS_STORAGE, rid)?;
        }
    }
    Ok(())
}
