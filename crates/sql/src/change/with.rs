//! Statements with data-modifying WITH: changes that run once, whether their rows are read
//! or not, before the statement that stands behind them.
//!
//! All parts of such a statement see the table as it was before: what one changes, the
//! others do not see, except through its RETURNING. But a transaction sees its own
//! versions, also within a statement. So the changes of WITH are prepared first and made
//! last:
//!
//! ```text
//!   with gone as (delete from a … returning *) insert into b select * from gone
//!     1  rows of a: found, locked, judged anew if changed; RETURNING    nothing is written
//!     2  insert into b, which reads gone, and a as it was
//!     3  the rows of a are deleted
//! ```
//!
//! An INSERT with ON CONFLICT is made at once, because only that shows which of its rows
//! it returns.

use coeval_txn::{Insert, Update};
use coeval_types::{Rid, RowRef};

use super::ChangePlan;
use super::execute::{Returned, execute_in, lock_for_write};
use super::row::unique_violation;
use crate::catalog::Table;
use crate::error::{Error, Result};
use crate::expression::{Binder, EvaluationContext};

/// A change of one row that is made at the end of the statement.
#[derive(Debug)]
pub(super) enum Write {
    Insert(Vec<u8>),
    Update(Rid, Vec<u8>),
    Delete(Rid),
}

impl Write {
    /// Memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let row = match self {
            Self::Insert(row) | Self::Update(_, row) => row.len(),
            Self::Delete(_) => 0,
        };
        size_of::<Self>() + row
    }
}

/// The changes of WITH that are prepared, each with its table's plan.
#[derive(Debug, Default)]
pub(crate) struct Prepared<'plan> {
    writes: Vec<(&'plan ChangePlan, Vec<Write>)>,
}

/// The changes of WITH that the binder has met.
pub(crate) fn bound(binder: &mut Binder<'_>) -> Result<Box<[ChangePlan]>> {
    let changes = std::mem::take(&mut binder.changes).into_iter();
    changes
        .map(|change| match change.downcast::<ChangePlan>() {
            Ok(change) => Ok(*change),
            Err(_) => Err(Error::internal("a change that is none")),
        })
        .collect()
}

/// Prepares the changes of WITH: their rows of RETURNING are in the context from then on.
/// `None` if a table's definition has changed since the statement was planned.
pub(crate) async fn prepare<'plan>(
    changes: &'plan [ChangePlan],
    context: &mut EvaluationContext<'_>,
) -> Result<Option<Prepared<'plan>>> {
    for change in changes {
        if !lock_for_write(&change.table, context).await? {
            return Ok(None);
        }
    }
    let mut prepared = Prepared::default();
    context.changed.clear();
    for change in changes {
        let mut returned = Returned::later();
        execute_in(change, context, &mut returned).await?;
        let (rows, writes) = returned.into_parts();
        context.changed.push(rows.into());
        prepared.writes.push((change, writes));
    }
    Ok(Some(prepared))
}

impl Prepared<'_> {
    /// Makes the changes, when the statement behind them has run.
    pub(crate) async fn finish(self, context: &mut EvaluationContext<'_>) -> Result<()> {
        for (change, writes) in self.writes {
            for write in writes {
                context.breathe().await?;
                make(&change.table, write, context).await?;
            }
        }
        Ok(())
    }
}

async fn make(table: &Table, write: Write, context: &mut EvaluationContext<'_>) -> Result<()> {
    let duplicate = |index, row: RowRef<'_>| match table.index(index) {
        Some(index) => unique_violation(table, index, row),
        None => Error::internal("an index that the table does not have"),
    };
    match write {
        Write::Insert(row) => {
            let row = RowRef::trusted(&row);
            let inserted = coeval_txn::insert(context.reads()?, table.storage, row).await?;
            match inserted {
                Insert::Inserted(_) => Ok(()),
                Insert::Duplicate { index, .. } => Err(duplicate(index, row)),
            }
        }
        // The statement behind WITH may have changed the row, too: then that is what
        // remains, as PostgreSQL makes one of two changes of a row in one statement.
        Write::Update(rid, _) | Write::Delete(rid) if !exists(table, rid, context)? => Ok(()),
        Write::Update(rid, row) => {
            let row = RowRef::trusted(&row);
            let updated = coeval_txn::update(context.reads()?, table.storage, rid, row).await?;
            match updated {
                Update::Updated(_) => Ok(()),
                Update::Duplicate { index, .. } => Err(duplicate(index, row)),
            }
        }
        Write::Delete(rid) => Ok(context.reads()?.delete(table.storage, rid)?),
    }
}

/// Whether the transaction still sees the row.
fn exists(table: &Table, rid: Rid, context: &mut EvaluationContext<'_>) -> Result<bool> {
    Ok(context
        .reads()?
        .get_record(table.storage, rid, &mut |_, _| {})?)
}
