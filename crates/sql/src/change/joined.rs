//! The executor for UPDATE … FROM and DELETE … USING.
//!
//! The join is read to its end before the first change. Of several joined rows with the
//! same row of the target the first one counts, as in PostgreSQL, where it is as open
//! which one that is. A row that another transaction has changed meanwhile is judged anew
//! with its newest version beside the other tables' rows as the snapshot shows them.

use std::collections::BTreeSet;

use coeval_txn::{Isolation, LockWait, LockedRow, RowLock};
use coeval_types::{Rid, RowRef};

use super::execute::{Replacing, Returned, holds, record_value};
use super::with::Write;
use super::{ChangePlan, JoinedPlan};
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, heap_bytes};
use crate::plan::RowReader;
use crate::select::Cursor;
use crate::value::Value;

/// Maximum size in bytes of the joined rows that a statement collects.
const MAX_COLLECTED: usize = 1 << 30;

/// Maximum number of times that a statement joins again because other transactions have
/// deleted rows of the target; see `Targets`.
const MAX_LOOKS: u32 = 100;

/// Joined rows, and the record of the target in each.
type JoinedRows = Vec<(Rid, Vec<Value>)>;

pub(super) async fn execute(
    plan: &ChangePlan,
    joined: &JoinedPlan,
    context: &mut EvaluationContext<'_>,
    returned: &mut Returned,
) -> Result<u64> {
    let table = &*plan.table;
    let reader = RowReader::new(table);
    let mut replacing = Replacing::new(table);
    // Records that are done, and those that the statement has made.
    let mut met = BTreeSet::new();
    let (mut old, mut newest) = (Vec::new(), Vec::new());
    let (mut count, mut looks) = (0, 1);
    let mode = match joined.assignments {
        Some(_) => RowLock::NoKeyUpdate,
        None => RowLock::Update,
    };
    loop {
        let mut gone = false;
        for (rid, mut row) in collect(joined, table.columns.len(), &met, context).await? {
            context.breathe().await?;
            if !met.insert(rid) {
                continue;
            }
            old.clear();
            let locked = coeval_txn::lock_row_in(
                context.reads()?,
                (table.storage, rid),
                mode,
                LockWait::Wait,
                &mut |_, version| {
                    old.clear();
                    old.extend_from_slice(version.bytes());
                },
            )
            .await?;
            match locked {
                LockedRow::Gone => {
                    gone = true;
                    continue;
                }
                LockedRow::Skipped => continue,
                LockedRow::Unchanged => {}
                LockedRow::Changed => {
                    newest.clear();
                    reader.read(RowRef::trusted(&old), &mut newest)?;
                    let places = row[joined.start..].iter_mut();
                    for (place, value) in places.zip(newest.drain(..)) {
                        *place = value;
                    }
                    if !holds(joined.condition.as_ref(), context, &row)? {
                        continue;
                    }
                }
            }
            match &joined.assignments {
                None if returned.keep(Write::Delete(rid), context)?.is_none() => {}
                None => context.reads()?.delete(table.storage, rid)?,
                Some(assignments) => {
                    let made = replacing
                        .write(plan, assignments, (rid, &old), &row, context, returned)
                        .await?;
                    met.insert(made);
                    row[joined.start + table.columns.len()] = record_value(made);
                    if plan.returning.is_some() {
                        newest.clear();
                        reader.read(RowRef::trusted(replacing.written()), &mut newest)?;
                        let places = row[joined.start..].iter_mut();
                        for (place, value) in places.zip(newest.drain(..)) {
                            *place = value;
                        }
                    }
                }
            }
            returned.add(plan.returning.as_ref(), context, &row)?;
            count += 1;
        }
        let again =
            gone && looks < MAX_LOOKS && context.reads()?.isolation() == Isolation::ReadCommitted;
        if !again {
            return Ok(count);
        }
        looks += 1;
        context.reads()?.begin_statement()?;
    }
}

/// Reads the join to its end, without the rows of the target that are done.
async fn collect(
    joined: &JoinedPlan,
    columns: usize,
    met: &BTreeSet<Rid>,
    context: &mut EvaluationContext<'_>,
) -> Result<JoinedRows> {
    let mut rows = JoinedRows::new();
    let mut cursor = Cursor::new(&joined.source);
    let mut row = Vec::new();
    let (mut bytes, mut asked) = (0_usize, 0_usize);
    let mut seen = BTreeSet::new();
    while cursor.next(context, &mut row).await? {
        let Some(Value::Int8(record)) = row.get(joined.start + columns) else {
            return Err(Error::internal("a joined row without its record"));
        };
        let rid = Rid(*record as u64);
        if met.contains(&rid) || !seen.insert(rid) {
            continue;
        }
        bytes += size_of_val(&*row) + heap_bytes(&row) + 2 * size_of::<Vec<Value>>();
        if bytes > asked {
            asked = 2 * bytes;
            let budget = context.session.around.budget();
            budget.ask_for(asked as u64, "Collecting the rows")?;
        }
        if bytes > MAX_COLLECTED {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("one statement cannot join more than {MAX_COLLECTED} bytes of rows"),
            )
            .with_hint("Change the rows in several statements."));
        }
        rows.push((rid, std::mem::take(&mut row)));
    }
    Ok(rows)
}
