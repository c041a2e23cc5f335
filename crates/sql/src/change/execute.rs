//! The executor for INSERT, UPDATE and DELETE.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use coeval_txn::{
    Direction, Error as TxnError, Isolation, LockWait, LockedRow, RowLock, ScanProgress,
    ScanRequest, ScanSource, TableLock, Update,
};
use coeval_types::{IndexId, Rid, RowRef};

use super::row::{RowWriter, check_violation, unique_violation};
use super::with::Write;
use super::{
    Assignment, ChangeKind, ChangePlan, ChangeTarget, DeletePlan, Returning, UpdatePlan, insert,
    joined,
};
use crate::catalog::Table;
use crate::error::{Error, Result};
use crate::expression::{EvaluationContext, Expression, is_true};
use crate::plan::{KeyRange, Keys, RowReader};
use crate::value::Value;

/// Number of rows read in one step.
const CHUNK: usize = 256;

/// Maximum number of times that a statement searches for its rows again because other
/// transactions have deleted some.
const MAX_LOOKS: u32 = 100;

/// Result of a change.
#[derive(Debug)]
pub(crate) enum Changed {
    /// Number of changed rows, and the rows of RETURNING.
    Rows {
        count: u64,
        returned: Vec<Vec<Value>>,
    },
    /// No change: the table's definition has changed since the statement was planned.
    Outdated,
}

/// What a change has collected so far: the rows of RETURNING, and the writes that are made
/// later, if they are.
#[derive(Debug, Default)]
pub(super) struct Returned {
    rows: Vec<Vec<Value>>,
    /// `None` where rows are written at once.
    writes: Option<Vec<Write>>,
}

impl Returned {
    /// For a change of WITH: its rows are written when the statement behind it has run.
    pub(super) fn later() -> Self {
        Self {
            rows: Vec::new(),
            writes: Some(Vec::new()),
        }
    }

    pub(super) fn into_parts(self) -> (Vec<Vec<Value>>, Vec<Write>) {
        (self.rows, self.writes.unwrap_or_default())
    }

    /// Keeps a write for later; returns it if it has to be made at once.
    pub(super) fn keep(
        &mut self,
        write: Write,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Option<Write>> {
        let Some(writes) = &mut self.writes else {
            return Ok(Some(write));
        };
        context.memory.take(write.bytes())?;
        writes.push(write);
        Ok(None)
    }

    /// Whether rows are written later.
    pub(super) const fn is_later(&self) -> bool {
        self.writes.is_some()
    }

    /// Evaluates RETURNING for a changed row and adds the result.
    pub(super) fn add(
        &mut self,
        returning: Option<&Returning>,
        context: &mut EvaluationContext<'_>,
        values: &[Value],
    ) -> Result<()> {
        let Some(returning) = returning else {
            return Ok(());
        };
        let mut row = Vec::with_capacity(returning.expressions.len());
        for expression in &returning.expressions {
            row.push(expression.evaluate(context, values)?);
        }
        context
            .memory
            .take(row.len() * size_of::<Value>() + size_of::<Vec<Value>>())?;
        self.rows.push(row);
        Ok(())
    }
}

/// Executes a change. The caller has already declared the transaction as writing.
pub(crate) async fn execute(
    plan: &ChangePlan,
    context: &mut EvaluationContext<'_>,
) -> Result<Changed> {
    if !lock_for_write(&plan.table, context).await? {
        return Ok(Changed::Outdated);
    }
    let mut returned = Returned::default();
    let count = execute_in(plan, context, &mut returned).await?;
    Ok(Changed::Rows {
        count,
        returned: returned.rows,
    })
}

/// Executes a change whose table is locked. Returns the number of rows.
pub(super) async fn execute_in(
    plan: &ChangePlan,
    context: &mut EvaluationContext<'_>,
    returned: &mut Returned,
) -> Result<u64> {
    let counted = match &plan.kind {
        ChangeKind::Insert(insert) => insert::execute(plan, insert, context, returned).await,
        ChangeKind::Update(update) => execute_update(plan, update, context, returned).await,
        ChangeKind::Delete(delete) => execute_delete(plan, delete, context, returned).await,
        ChangeKind::Joined(change) => joined::execute(plan, change, context, returned).await,
    };
    if counted.is_err() {
        context.reads()?.disclose_all();
    }
    counted
}

/// Locks a table for writing. Returns false if its definition has changed since the
/// statement was planned and a new snapshot would show the new definition.
pub(crate) async fn lock_for_write(
    table: &Table,
    context: &mut EvaluationContext<'_>,
) -> Result<bool> {
    let transaction = context.reads()?;
    let locked = coeval_txn::lock_table(
        transaction,
        table.storage,
        TableLock::RowExclusive,
        table.schema_version,
    )
    .await;
    match locked {
        Ok(()) => Ok(true),
        Err(TxnError::SchemaChanged(_)) if transaction.isolation() == Isolation::ReadCommitted => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Fails if a new row is none that a view WITH CHECK OPTION shows.
pub(super) fn check_views(
    plan: &ChangePlan,
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<()> {
    for check in &plan.checks {
        if !holds(Some(&check.condition), context, row)? {
            return Err(check_violation(&plan.table, &check.view, row));
        }
    }
    Ok(())
}

/// Whether a condition is true for a row, or absent.
pub(super) fn holds(
    condition: Option<&Expression>,
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<bool> {
    match condition {
        None => Ok(true),
        Some(condition) => Ok(is_true(&condition.evaluate(context, row)?)),
    }
}

fn passes(
    filter: &[Expression],
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<bool> {
    for condition in filter {
        if !is_true(&condition.evaluate(context, row)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl ChangeTarget {
    /// Appends a row's values, and its record id if an expression uses it.
    fn read(&self, rid: Rid, row: RowRef<'_>, values: &mut Vec<Value>) -> Result<()> {
        self.reader.read(row, values)?;
        if self.with_record {
            values.push(record_value(rid));
        }
        Ok(())
    }
}

/// A record id as a value.
pub(super) fn record_value(rid: Rid) -> Value {
    Value::Int8(rid.0 as i64)
}

/// Collects the record ids of the rows that a statement wants to change.
///
/// For a row found by its primary key alone, the client learns only that the row
/// exists, unless the statement returns rows or fails: see
/// [`coeval_txn::Transaction::disclose_presence_only`].
async fn collect(
    plan: &ChangePlan,
    target: &ChangeTarget,
    context: &mut EvaluationContext<'_>,
) -> Result<Vec<Rid>> {
    if target.current_of.is_some() {
        return Ok(context.current_row.into_iter().collect());
    }
    let table = &*plan.table;
    let keys = target.access.path.keys(context, &[])?;
    if plan.returning.is_none() && target.is_by_given_primary_key() {
        context.reads()?.disclose_presence_only();
    }
    let index = target.access.path.index();
    let source = index.map_or(ScanSource::Table, |index| ScanSource::Index(index.id));
    let mut rids = Vec::new();
    match (keys, index) {
        (Keys::None, _) => {}
        (Keys::One(key), Some(index)) => {
            rids.extend(collect_one(table, target, index.id, &key, context)?);
        }
        (Keys::Some(keys), Some(index)) => {
            for key in keys {
                rids.extend(collect_one(table, target, index.id, &key, context)?);
            }
        }
        (Keys::Prefixes(prefixes), Some(_)) => {
            for prefix in prefixes {
                let range = KeyRange::of_prefix(prefix);
                collect_range(table, target, source, range, context, &mut rids).await?;
            }
        }
        (Keys::Range(range), Some(_)) => {
            collect_range(table, target, source, range, context, &mut rids).await?;
        }
        (_, None) => {
            collect_range(table, target, source, KeyRange::ALL, context, &mut rids).await?;
        }
        (Keys::All, Some(_)) => return Err(Error::internal("an index without its keys")),
    }
    Ok(rids)
}

/// The record id of the row with this key, if the row satisfies the conditions.
fn collect_one(
    table: &Table,
    target: &ChangeTarget,
    index: IndexId,
    key: &[u8],
    context: &mut EvaluationContext<'_>,
) -> Result<Option<Rid>> {
    let filter = &target.access.filter;
    let mut found = None;
    let mut values = Vec::new();
    let mut read = Ok(());
    context
        .reads()?
        .get(table.storage, index, key, &mut |rid, row| {
            found = Some(rid);
            if !filter.is_empty() {
                read = target.read(rid, row, &mut values);
            }
        })?;
    read?;
    Ok(match found {
        Some(rid) if passes(filter, context, &values)? => Some(rid),
        _ => None,
    })
}

/// Appends the record ids of the rows in a range that satisfy the conditions.
async fn collect_range(
    table: &Table,
    target: &ChangeTarget,
    source: ScanSource,
    mut range: KeyRange,
    context: &mut EvaluationContext<'_>,
    rids: &mut Vec<Rid>,
) -> Result<()> {
    let filter = &target.access.filter;
    let width = target.reader.width() + usize::from(target.with_record);
    let mut values = Vec::new();
    loop {
        context.check_canceled()?;
        let first = rids.len();
        let mut read = Ok(());
        values.clear();
        let progress = context.reads()?.scan(
            &ScanRequest {
                storage: table.storage,
                source,
                bounds: range.bounds(),
                direction: Direction::Forward,
                limit: CHUNK,
            },
            &mut |rid, row| {
                rids.push(rid);
                if !filter.is_empty() {
                    read = target.read(rid, row, &mut values);
                }
                match read {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            },
        )?;
        read?;
        if !filter.is_empty() {
            let mut kept = first;
            for position in first..rids.len() {
                let from = (position - first) * width;
                if passes(filter, context, &values[from..from + width])? {
                    rids[kept] = rids[position];
                    kept += 1;
                }
            }
            rids.truncate(kept);
        }
        context
            .memory
            .take((rids.len() - first) * size_of::<Rid>())?;
        match progress {
            ScanProgress::Complete => return Ok(()),
            ScanProgress::More(last) => range.lower = Bound::Excluded(last),
        }
        // Lets other tasks run between chunks.
        coeval_env::yield_now().await;
    }
}

/// The rows that a statement changes, one by one.
///
/// An update of the primary key by another transaction moves a row to a new record and
/// deletes the old one. So if a row was deleted meanwhile, a statement at READ
/// COMMITTED searches again with a new snapshot, for rows that it has not processed
/// yet.
struct Targets {
    rids: Vec<Rid>,
    next: usize,
    /// Whether a row was deleted since the last search.
    gone: bool,
    looks: u32,
    /// Records not to process again: those of earlier searches, and those that the
    /// statement itself has made.
    met: BTreeSet<Rid>,
}

impl Targets {
    async fn find(
        plan: &ChangePlan,
        target: &ChangeTarget,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Self> {
        Ok(Self {
            rids: collect(plan, target, context).await?,
            next: 0,
            gone: false,
            looks: 1,
            met: BTreeSet::new(),
        })
    }

    /// The next record id; `None` after the last row.
    async fn next(
        &mut self,
        plan: &ChangePlan,
        target: &ChangeTarget,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Option<Rid>> {
        context.breathe().await?;
        loop {
            if let Some(&rid) = self.rids.get(self.next) {
                self.next += 1;
                return Ok(Some(rid));
            }
            let again = std::mem::take(&mut self.gone)
                && self.looks < MAX_LOOKS
                && context.reads()?.isolation() == Isolation::ReadCommitted;
            if !again {
                return Ok(None);
            }
            self.looks += 1;
            self.met.extend(self.rids.drain(..));
            self.next = 0;
            context.reads()?.begin_statement()?;
            context.forget_subqueries();
            self.rids = collect(plan, target, context).await?;
            self.rids.retain(|rid| !self.met.contains(rid));
        }
    }
}

/// Locks a row and reads its newest version: `row` receives its bytes and `values` its
/// columns. Returns false if the row no longer satisfies the conditions.
async fn lock(
    table: &Table,
    target: &ChangeTarget,
    (rid, mode, targets): (Rid, RowLock, &mut Targets),
    context: &mut EvaluationContext<'_>,
    row: &mut Vec<u8>,
    values: &mut Vec<Value>,
) -> Result<bool> {
    row.clear();
    values.clear();
    let locked = coeval_txn::lock_row_in(
        context.reads()?,
        (table.storage, rid),
        mode,
        LockWait::Wait,
        &mut |_, newest| {
            row.clear();
            row.extend_from_slice(newest.bytes());
        },
    )
    .await?;
    match locked {
        LockedRow::Gone => {
            targets.gone = true;
            return Ok(false);
        }
        LockedRow::Skipped => return Ok(false),
        LockedRow::Unchanged | LockedRow::Changed => {}
    }
    target.read(rid, RowRef::trusted(row), values)?;
    if locked == LockedRow::Changed {
        return holds(target.condition.as_ref(), context, values);
    }
    Ok(true)
}

async fn execute_update(
    plan: &ChangePlan,
    update: &UpdatePlan,
    context: &mut EvaluationContext<'_>,
    returned: &mut Returned,
) -> Result<u64> {
    let table = &*plan.table;
    let target = &update.target;
    let mut targets = Targets::find(plan, target, context).await?;
    let mut replacing = Replacing::new(table);
    let (mut old, mut values) = (Vec::new(), Vec::new());
    let mut count = 0;
    while let Some(rid) = targets.next(plan, target, context).await? {
        // The engine takes a stronger lock if a unique key turns out to change.
        let locking = (rid, RowLock::NoKeyUpdate, &mut targets);
        if !lock(table, target, locking, context, &mut old, &mut values).await? {
            continue;
        }
        let replaced = replacing
            .replace(
                plan,
                &update.assignments,
                (rid, &old),
                &values,
                context,
                returned,
            )
            .await?;
        if replaced != rid {
            targets.met.insert(replaced);
        }
        count += 1;
    }
    Ok(count)
}

/// Row replacement of UPDATE; keeps its buffers between rows.
pub(super) struct Replacing {
    writer: RowWriter,
    changes: Vec<(usize, Value)>,
    new: Vec<u8>,
    /// The whole row, for a table with rules.
    whole: Vec<Value>,
    /// `xmax` of the new row, for RETURNING.
    pub(super) xmax: u32,
}

impl Replacing {
    pub(super) fn new(table: &Table) -> Self {
        Self {
            writer: RowWriter::new(table),
            changes: Vec::new(),
            new: Vec::new(),
            whole: Vec::new(),
            xmax: 0,
        }
    }

    /// Replaces a locked row by a row with new values in some columns. The assignments
    /// are evaluated over `values`. Returns the record id of the new row.
    pub(super) async fn replace(
        &mut self,
        plan: &ChangePlan,
        assignments: &[Assignment],
        (rid, old): (Rid, &[u8]),
        values: &[Value],
        context: &mut EvaluationContext<'_>,
        returned: &mut Returned,
    ) -> Result<Rid> {
        let made = self
            .write(plan, assignments, (rid, old), values, context, returned)
            .await?;
        if plan.returning.is_some() {
            let mut values = Vec::new();
            RowReader::new(&plan.table).read(RowRef::trusted(&self.new), &mut values)?;
            values.extend([record_value(made), Value::Oid(self.xmax)]);
            returned.add(plan.returning.as_ref(), context, &values)?;
        }
        Ok(made)
    }

    /// [`Replacing::replace`] of a row that is written at once, whatever of the change is
    /// written later.
    pub(super) async fn replace_now(
        &mut self,
        plan: &ChangePlan,
        assignments: &[Assignment],
        locked: (Rid, &[u8]),
        values: &[Value],
        context: &mut EvaluationContext<'_>,
        returned: &mut Returned,
    ) -> Result<Rid> {
        let writes = returned.writes.take();
        let replaced = self
            .replace(plan, assignments, locked, values, context, returned)
            .await;
        returned.writes = writes;
        replaced
    }

    /// Checks the new row against the views WITH CHECK OPTION.
    fn check(&self, plan: &ChangePlan, context: &mut EvaluationContext<'_>) -> Result<()> {
        if plan.checks.is_empty() {
            return Ok(());
        }
        let mut values = Vec::new();
        RowReader::new(&plan.table).read(RowRef::trusted(&self.new), &mut values)?;
        check_views(plan, context, &values)
    }

    /// The row that was written last.
    pub(super) fn written(&self) -> &[u8] {
        &self.new
    }

    /// [`Replacing::replace`] without RETURNING.
    pub(super) async fn write(
        &mut self,
        plan: &ChangePlan,
        assignments: &[Assignment],
        (rid, old): (Rid, &[u8]),
        values: &[Value],
        context: &mut EvaluationContext<'_>,
        returned: &mut Returned,
    ) -> Result<Rid> {
        let table = &*plan.table;
        self.changes.clear();
        for assignment in assignments {
            let value = assignment.value.evaluate(context, values)?;
            self.changes.push((assignment.column, value));
        }
        let rules = &plan.rules;
        if !rules.is_empty() {
            self.whole.clear();
            RowReader::new(table).read(RowRef::trusted(old), &mut self.whole)?;
            for (column, value) in &self.changes {
                self.whole[*column] = value.clone();
            }
            rules.generate_changes(&mut self.whole, &mut self.changes, context)?;
        }
        self.new.clear();
        self.writer
            .patch(table, RowRef::trusted(old), &self.changes, &mut self.new)?;
        rules.check(table, &self.whole, context)?;
        if returned.is_later() {
            self.check(plan, context)?;
            returned.keep(Write::Update(rid, self.new.clone()), context)?;
            return Ok(rid);
        }
        let row = RowRef::trusted(&self.new);
        let updated = coeval_txn::update(context.reads()?, table.storage, rid, row).await?;
        match updated {
            Update::Updated(rid) => {
                self.check(plan, context)?;
                Ok(rid)
            }
            Update::Duplicate { index, .. } => Err(match table.index(index) {
                Some(index) => unique_violation(table, index, row),
                None => Error::internal("an index that the table does not have"),
            }),
        }
    }
}

async fn execute_delete(
    plan: &ChangePlan,
    delete: &DeletePlan,
    context: &mut EvaluationContext<'_>,
    returned: &mut Returned,
) -> Result<u64> {
    let table = &*plan.table;
    let target = &delete.target;
    let mut targets = Targets::find(plan, target, context).await?;
    let (mut row, mut values) = (Vec::new(), Vec::new());
    let mut count = 0;
    while let Some(rid) = targets.next(plan, target, context).await? {
        let locking = (rid, RowLock::Update, &mut targets);
        if !lock(table, target, locking, context, &mut row, &mut values).await? {
            continue;
        }
        if returned.keep(Write::Delete(rid), context)?.is_some() {
            context.reads()?.delete(table.storage, rid)?;
        }
        values.truncate(table.columns.len());
        values.push(record_value(rid));
        returned.add(plan.returning.as_ref(), context, &values)?;
        count += 1;
    }
    Ok(count)
}
