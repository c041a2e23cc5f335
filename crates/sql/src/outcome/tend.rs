//! Marks, the horizon, and the removal of rows below it.

use std::time::Duration;

use super::store::{self, Mark};
use super::{Outcomes, TransactionNumber};
use crate::error::Result;
use crate::expression::EvaluationContext;
use crate::session::Database;

/// Rows removed by one transaction.
const ROWS_IN_A_STEP: usize = 256;
/// Between two of them others have the machine.
const BETWEEN_STEPS: Duration = Duration::from_millis(10);
/// So many marks are made while an outcome is kept: it is removed later than promised
/// by this part of the time at most.
const MARKS: i64 = 24;

impl Database {
    /// Forgets what transactions came to that ended longer than `retention` ago. To be
    /// called now and then, by one at a time: about as often as [`MARKS`] in the time
    /// of retention, or more often. Does nothing where nobody asks for numbers.
    ///
    /// # Errors
    /// When the engine takes no writes. The next call goes on where this one stopped.
    pub async fn forget_outcomes(&self, retention: Duration) -> Result<()> {
        self.forget_outcomes_at(retention, EvaluationContext::clock())
            .await
    }

    /// [`Database::forget_outcomes`], as if it were `now`, in microseconds since 2000
    /// UTC.
    #[doc(hidden)]
    pub async fn forget_outcomes_at(&self, retention: Duration, now: i64) -> Result<()> {
        let outcomes = &self.around.outcomes;
        let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        if let Some(mark) = outcomes.due_mark(now, retention / MARKS) {
            self.write_mark(outcomes, mark).await?;
        }
        let Some(oldest) = now.checked_sub(retention) else {
            return Ok(());
        };
        if let Some(horizon) = self.move_horizon(oldest).await? {
            // The horizon is in force, wherever this goes on, before rows go.
            outcomes.raise_horizon(horizon);
        }
        self.remove_below(outcomes.horizon()).await
    }

    async fn write_mark(&self, outcomes: &Outcomes, mark: Mark) -> Result<()> {
        let mut transaction = store::begin(&*self.engine).await?;
        store::insert_mark(&mut *transaction, mark).await?;
        store::commit(&mut *transaction).await?;
        outcomes.marked(mark);
        Ok(())
    }

    /// Makes the highest mark that is older than `oldest` the horizon.
    async fn move_horizon(&self, oldest: i64) -> Result<Option<TransactionNumber>> {
        let mut transaction = store::begin(&*self.engine).await?;
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
        coeval_txn::durable(&*self.engine, timestamp).await?;
        Ok(Some(horizon))
    }

    async fn remove_below(&self, horizon: TransactionNumber) -> Result<()> {
        loop {
            let mut transaction = store::begin(&*self.engine).await?;
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
}
