//! The executor for INSERT, including ON CONFLICT.

use std::collections::BTreeSet;
use std::sync::Arc;

use coeval_txn::{Insert, LockWait, LockedRow, RowLock};
use coeval_types::{IndexId, Rid, RowRef};

use super::execute::{Replacing, Returned, check_views, holds, record_value};
use super::row::{RowWriter, unique_violation};
use super::with::Write;
use super::{ChangePlan, ConflictUpdate, InsertPlan, InsertSource};
use crate::catalog::Index;
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, Expression};
use crate::plan::RowReader;
use crate::select::{Cursor, QueryPlan};
use crate::value::Value;

/// Maximum size in bytes of a query's rows that INSERT … SELECT collects.
const MAX_COLLECTED: usize = 1 << 30;

/// Maximum number of times that ON CONFLICT DO UPDATE retries because the conflicting
/// row was deleted.
const MAX_TRIES: usize = 100;

pub(super) async fn execute(
    plan: &ChangePlan,
    insert: &InsertPlan,
    context: &mut EvaluationContext<'_>,
    returned: &mut Returned,
) -> Result<u64> {
    let mut inserting = Inserting::new(plan, insert);
    match &insert.source {
        InsertSource::Values(rows) => {
            for row in rows {
                inserting.evaluate(row, context, &[])?;
                inserting.insert(context, returned).await?;
            }
        }
        InsertSource::Query {
            plan: query,
            columns,
        } => {
            let rows = collect(query, columns, &mut inserting, context).await?;
            let reader = RowReader::new(&plan.table);
            for row in rows.iter() {
                inserting.values.clear();
                reader.read(RowRef::trusted(row), &mut inserting.values)?;
                inserting.row.clear();
                inserting.row.extend_from_slice(row);
                inserting.insert(context, returned).await?;
            }
        }
    }
    Ok(inserting.count)
}

/// Encoded rows in one buffer.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }
}

/// Collects a query's rows, encoded as rows of the table. The query completes before
/// the first insert, because it may read the same table.
async fn collect(
    query: &Arc<QueryPlan>,
    columns: &[Expression],
    inserting: &mut Inserting<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<Rows> {
    let mut rows = Rows::default();
    let mut cursor = Cursor::new(query);
    let mut row = Vec::new();
    while cursor.next(context, &mut row).await? {
        inserting.evaluate(columns, context, &row)?;
        let needed = rows.bytes.len() + inserting.row.len();
        if needed > rows.bytes.capacity() {
            let budget = context.session.around.budget();
            budget.ask_for(2 * needed as u64, "Collecting the rows")?;
        }
        rows.bytes.extend_from_slice(&inserting.row);
        rows.ends.push(rows.bytes.len());
        if rows.bytes.len() > MAX_COLLECTED {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("one INSERT … SELECT cannot take more than {MAX_COLLECTED} bytes of rows"),
            )
            .with_hint("Insert the rows in several statements."));
        }
    }
    Ok(rows)
}

/// Execution state of an INSERT.
struct Inserting<'plan> {
    plan: &'plan ChangePlan,
    insert: &'plan InsertPlan,
    writer: RowWriter,
    /// The row to insert, as values and as bytes.
    values: Vec<Value>,
    row: Vec<u8>,
    count: u64,
    /// Records that the statement has inserted or updated; tracked for ON CONFLICT DO
    /// UPDATE only.
    touched: BTreeSet<Rid>,
}

impl<'plan> Inserting<'plan> {
    fn new(plan: &'plan ChangePlan, insert: &'plan InsertPlan) -> Self {
        Self {
            plan,
            insert,
            writer: RowWriter::new(&plan.table),
            values: Vec::new(),
            row: Vec::new(),
            count: 0,
            touched: BTreeSet::new(),
        }
    }

    /// Evaluates one expression per column to make the row.
    fn evaluate(
        &mut self,
        columns: &[Expression],
        context: &mut EvaluationContext<'_>,
        source: &[Value],
    ) -> Result<()> {
        self.values.clear();
        for column in columns {
            self.values.push(column.evaluate(context, source)?);
        }
        let (table, rules) = (&self.plan.table, &self.plan.rules);
        rules.generate(&mut self.values, context)?;
        self.row.clear();
        self.writer.write(table, &self.values, &mut self.row)?;
        rules.check(table, &self.values, context)
    }

    /// Adds the current row to those of RETURNING. Its record is not known before it is
    /// written.
    fn returned(
        &mut self,
        record: Option<Rid>,
        context: &mut EvaluationContext<'_>,
        returned: &mut Returned,
    ) -> Result<()> {
        if self.plan.returning.is_none() {
            return Ok(());
        }
        let columns = self.values.len();
        let record = record.map_or(Value::Null, record_value);
        self.values.extend([record, Value::Oid(0)]);
        let added = returned.add(self.plan.returning.as_ref(), context, &self.values);
        self.values.truncate(columns);
        added
    }

    /// Inserts the current row.
    async fn insert(
        &mut self,
        context: &mut EvaluationContext<'_>,
        returned: &mut Returned,
    ) -> Result<()> {
        context.breathe().await?;
        let table = &*self.plan.table;
        if returned.is_later() && self.insert.on_conflict.is_none() {
            check_views(self.plan, context, &self.values)?;
            returned.keep(Write::Insert(self.row.clone()), context)?;
            self.count += 1;
            return self.returned(None, context, returned);
        }
        for _ in 0..MAX_TRIES {
            let row = RowRef::trusted(&self.row);
            let inserted = coeval_txn::insert(context.reads()?, table.storage, row).await?;
            let (index, rid) = match inserted {
                Insert::Duplicate { index, rid } => (index, rid),
                Insert::Inserted(rid) => {
                    if self.updates() {
                        self.touched.insert(rid);
                    }
                    self.count += 1;
                    check_views(self.plan, context, &self.values)?;
                    return self.returned(Some(rid), context, returned);
                }
            };
            let unique: &Index = table
                .index(index)
                .ok_or_else(|| Error::internal("an index that the table does not have"))?;
            let (unique, rid) = if self.expects(index) {
                (unique, rid)
            } else {
                match self.conflict_expected(rid, context).await? {
                    Some(expected) => expected,
                    None => {
                        let row = RowRef::trusted(&self.row);
                        return Err(unique_violation(table, unique, row));
                    }
                }
            };
            let Some(update) = self
                .insert
                .on_conflict
                .as_ref()
                .and_then(|conflict| conflict.update.as_ref())
            else {
                return Ok(());
            };
            if self
                .update(update, (unique, rid), context, returned)
                .await?
            {
                return Ok(());
            }
        }
        Err(Error::new(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access: the conflicting row kept coming and going",
        ))
    }

    /// Whether the statement says ON CONFLICT DO UPDATE.
    fn updates(&self) -> bool {
        self.insert
            .on_conflict
            .as_ref()
            .is_some_and(|conflict| conflict.update.is_some())
    }

    /// The lock that ON CONFLICT takes on the existing row. As in PostgreSQL the columns that
    /// DO UPDATE names decide, whatever their new values.
    fn conflict_lock(&self) -> RowLock {
        let conflict = self.insert.on_conflict.as_ref();
        let Some(update) = conflict.and_then(|conflict| conflict.update.as_ref()) else {
            return RowLock::KeyShare;
        };
        let unique = self
            .plan
            .table
            .indexes
            .iter()
            .filter(|index| index.is_unique());
        let mut keys = unique.flat_map(|index| &index.columns);
        let sets = |column| {
            let mut assignments = update.assignments.iter();
            assignments.any(|assignment| assignment.column == column)
        };
        match keys.any(|key| sets(key.column)) {
            true => RowLock::Update,
            false => RowLock::NoKeyUpdate,
        }
    }

    /// Whether the ON CONFLICT clause covers this index.
    fn expects(&self, index: IndexId) -> bool {
        self.insert
            .on_conflict
            .as_ref()
            .is_some_and(|conflict| conflict.index.is_none_or(|wanted| wanted == index))
    }

    /// Looks for a conflict in the index that ON CONFLICT names, after the engine
    /// reported that row `met` has the same key in another index: a conflict in the
    /// named index takes precedence, in whatever order the engine checks the indexes.
    async fn conflict_expected(
        &self,
        met: Rid,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Option<(&'plan Index, Rid)>> {
        let table = &*self.plan.table;
        let conflict = self.insert.on_conflict.as_ref();
        let wanted = conflict.and_then(|conflict| conflict.index);
        let Some(index) = wanted.and_then(|wanted| table.index(wanted)) else {
            return Ok(None);
        };
        let row = RowRef::trusted(&self.row);
        let Some(key) = index.comparable_key(row) else {
            return Ok(None);
        };
        let mut shown = None;
        context
            .reads()?
            .get(table.storage, index.id, &key, &mut |rid, _| {
                shown = Some(rid);
            })?;
        // The row `met` may conflict in the named index even if the snapshot does not
        // show it.
        for rid in shown.into_iter().chain([met]) {
            let mut has_key = false;
            let locked = coeval_txn::lock_row_in(
                context.reads()?,
                (table.storage, rid),
                self.conflict_lock(),
                LockWait::Wait,
                &mut |_, newest| has_key = index.same_key(newest, row),
            )
            .await?;
            if has_key && matches!(locked, LockedRow::Unchanged | LockedRow::Changed) {
                return Ok(Some((index, rid)));
            }
        }
        Ok(None)
    }

    /// Executes ON CONFLICT DO UPDATE on the existing row. Returns false if, before the
    /// lock was granted, the row was deleted or its key changed.
    async fn update(
        &mut self,
        update: &ConflictUpdate,
        (unique, rid): (&Index, Rid),
        context: &mut EvaluationContext<'_>,
        returned: &mut Returned,
    ) -> Result<bool> {
        let table = &*self.plan.table;
        if self.touched.contains(&rid) {
            return Err(Error::new(
                SqlState::CARDINALITY_VIOLATION,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .with_hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."));
        }
        let mut old = Vec::new();
        let locked = coeval_txn::lock_row_in(
            context.reads()?,
            (table.storage, rid),
            self.conflict_lock(),
            LockWait::Wait,
            &mut |_, newest| {
                old.clear();
                old.extend_from_slice(newest.bytes());
            },
        )
        .await?;
        if matches!(locked, LockedRow::Gone | LockedRow::Skipped) {
            return Ok(false);
        }
        if !unique.same_key(RowRef::trusted(&old), RowRef::trusted(&self.row)) {
            self.touched.remove(&rid);
            return Ok(false);
        }
        let mut values = Vec::with_capacity(self.values.len() * 2);
        RowReader::new(table).read(RowRef::trusted(&old), &mut values)?;
        values.extend_from_slice(&self.values);
        if holds(update.condition.as_ref(), context, &values)? {
            let mut replacing = Replacing::new(table);
            // Any number but 0 says that the row was there.
            replacing.xmax = (context.reads()?.id().0 as u32).max(1);
            let replaced = replacing
                .replace_now(
                    self.plan,
                    &update.assignments,
                    (rid, &old),
                    &values,
                    context,
                    returned,
                )
                .await?;
            // An update of the primary key moves the row to a new record.
            self.touched.extend([rid, replaced]);
            self.count += 1;
        }
        Ok(true)
    }
}
