//! Collection of statistics: ANALYZE, and the same in the background of the leader for
//! tables that have grown or shrunk.

use std::ops::{Bound, ControlFlow};

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Error as TxnError, Isolation, Outcome, ScanProgress,
    ScanRequest, ScanSource, TableLock, Transaction,
};

use super::{Sample, store};
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::RowReader;

/// Rows that are read in a step.
const CHUNK: usize = 256;

/// Rows below which a table that has not been analyzed is left alone.
const FEW_ROWS: u64 = 1000;

/// Whether the statistics of a table of so many rows are those of another one: PostgreSQL's
/// threshold, with the change of the number of rows for that of rows.
pub(crate) fn are_outdated(analyzed: Option<u64>, rows: u64) -> bool {
    match analyzed {
        None => rows >= FEW_ROWS,
        Some(then) => then.abs_diff(rows) > FEW_ROWS + then / 5,
    }
}

/// Reads a table and writes its statistics. Does nothing if the table has another definition
/// by now.
pub(crate) async fn analyze(
    transaction: &mut dyn Transaction,
    table: &Table,
    check: &(dyn Fn() -> Result<()> + Sync),
) -> Result<()> {
    let lock = TableLock::AccessShare;
    let version = table.schema_version;
    match coeval_txn::lock_table(transaction, table.storage, lock, version).await {
        Ok(()) => {}
        Err(TxnError::SchemaChanged(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let mut sample = Sample::new(table);
    read(transaction, table, &mut sample, check).await?;
    let mut statistics = sample.statistics();
    for position in 0..sample.width() {
        statistics.columns.extend(sample.column(position));
        check()?;
        coeval_env::yield_now().await;
    }
    drop(sample);
    store::write(transaction, table.oid, &statistics).await
}

/// [`analyze`] in a transaction of its own.
pub(crate) async fn analyze_alone(engine: &dyn Engine, table: &Table) -> Result<()> {
    let mut transaction = begin(engine).await?;
    analyze(&mut *transaction, table, &|| Ok(())).await?;
    commit(&mut *transaction).await
}

async fn begin(engine: &dyn Engine) -> Result<Box<dyn Transaction>> {
    let options = BeginOptions {
        isolation: Isolation::ReadCommitted,
        ..BeginOptions::default()
    };
    Ok(coeval_txn::begin(engine, &options).await?)
}

async fn commit(transaction: &mut dyn Transaction) -> Result<()> {
    match coeval_txn::commit(transaction).await {
        Outcome::Committed(_) => Ok(()),
        Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error.into()),
    }
}

/// Deletes the statistics of tables that are not there any more, whose OIDs no other table
/// gets.
pub(crate) async fn forget_dropped(
    engine: &dyn Engine,
    exists: &(dyn Fn(u32) -> bool + Sync),
) -> Result<()> {
    let mut transaction = begin(engine).await?;
    store::forget(&mut *transaction, exists).await?;
    commit(&mut *transaction).await
}

/// Passes the rows of a table to the sample.
async fn read(
    transaction: &mut dyn Transaction,
    table: &Table,
    sample: &mut Sample,
    check: &(dyn Fn() -> Result<()> + Sync),
) -> Result<()> {
    let reader = RowReader::new(table);
    let mut position: Option<Vec<u8>> = None;
    loop {
        let mut bounds = Bounds::ALL;
        if let Some(position) = &position {
            bounds.lower = Bound::Excluded(position);
        }
        let request = ScanRequest {
            storage: table.storage,
            source: ScanSource::Table,
            bounds,
            direction: Direction::Forward,
            limit: CHUNK,
        };
        let mut failure = None;
        let progress = transaction.scan(&request, &mut |_, row| {
            let Some(place) = sample.place() else {
                return ControlFlow::Continue(());
            };
            let mut values = Vec::new();
            match reader.read(row, &mut values) {
                Ok(()) => {
                    sample.put(place, values);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        match progress {
            ScanProgress::More(next) => position = Some(next),
            ScanProgress::Complete => return Ok(()),
        }
        check()?;
        coeval_env::yield_now().await;
    }
}
