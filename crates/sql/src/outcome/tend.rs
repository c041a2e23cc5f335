//! Garbage collector of outcomes: writes marks, raises the horizon, and removes rows
//! below it.

use std::time::Duration;

use coeval_txn::Engine;

use super::store::{self, Mark};
use super::{Outcomes, TransactionNumber};
use crate::error::Result;

/// Number of rows removed by one transaction.
const ROWS_IN_A_STEP: usize = 256;
/// Pause between two such transactions, for other work.
const BETWEEN_STEPS: Duration = Duration::from_millis(10);
/// Number of marks written per retention time. An outcome is removed at most this
/// fraction of the retention time late.
const MARKS: i64 = 24;

/// Removes the outcomes of transactions that ended more than `retention` before `now`,
/// in microseconds since 2000 UTC. The caller runs it periodically, never twice at
/// once, and at least [`MARKS`] times per retention time. It does nothing if no
/// transaction asks for its number.
///
/// # Errors
/// If the engine takes no writes. The next call continues where this one stopped.
pub(crate) async fn forget(
    engine: &dyn Engine,
    outcomes: &Outcomes,
    retention: Duration,
    now: i64,
) -> Result<()> {
    let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
    if let Some(mark) = outcomes.due_mark(now, retention / MARKS) {
        write_mark(engine, outcomes, mark).await?;
    }
    let Some(oldest) = now.checked_sub(retention) else {
        return Ok(());
    };
    if let Some(horizon) = move_horizon(engine, oldest).await? {
        // The horizon takes effect before any row is removed, even if a later step
        // fails.
        outcomes.raise_horizon(horizon);
    }
    remove_below(engine, outcomes.horizon()).await
}

async fn write_mark(engine: &dyn Engine, outcomes: &Outcomes, mark: Mark) -> Result<()> {
    let mut transaction = store::begin(engine).await?;
    store::insert_mark(&mut *transaction, mark).await?;
    store::commit(&mut *transaction).await?;
    outcomes.marked(mark);
    Ok(())
}

/// Makes the highest mark that is older than `oldest` the horizon.
async fn move_horizon(engine: &dyn Engine, oldest: i64) -> Result<Option<TransactionNumber>> {
    let mut transaction = store::begin(engine).await?;
    let marks = store::marks(&mut *transaction)?;
    let expired = marks.iter().rposition(|(_, mark)| mark.time <= oldest);
    let Some(expired) = expired else {
        transaction.abort();
        return Ok(None);
    };
    let horizon = marks[expired].1.below;
    let rows: Vec<_> = marks[..=expired].iter().map(|&(rid, _)| rid).collect();
    store::put_horizon(&mut *transaction, horizon).await?;
    store::delete(&mut *transaction, &rows).await?;
    let timestamp = store::commit(&mut *transaction).await?;
    coeval_txn::durable(engine, timestamp).await?;
    Ok(Some(horizon))
}

async fn remove_below(engine: &dyn Engine, horizon: TransactionNumber) -> Result<()> {
    loop {
        let mut transaction = store::begin(engine).await?;
        let rows = store::outcomes_below(&mut *transaction, horizon, ROWS_IN_A_STEP)?;
        if rows.is_empty() {
            transaction.abort();
            return Ok(());
        }
        store::delete(&mut *transaction, &rows).await?;
        store::commit(&mut *transaction).await?;
        if rows.len() < ROWS_IN_A_STEP {
            return Ok(());
        }
        drop(transaction);
        coeval_env::sleep(BETWEEN_STEPS).await;
    }
}
