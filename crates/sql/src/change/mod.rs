//! DML: planning and execution of INSERT, UPDATE and DELETE, with RETURNING.
//!
//! A statement first collects the rows to change, as its snapshot shows them, then
//! changes them one by one. Another transaction may have changed a row in between; the
//! result of locking the row shows this:
//!
//! ```text
//!   update t set a = a + 1 where b = 2          READ COMMITTED
//!
//!   collect   rid 7: a 10, b 2                  as the snapshot shows it
//!   lock 7    waits for another transaction, which commits a 11, b 2
//!             Changed ─▶ is b = 2 still?  yes: a becomes 12
//!                                         no:  leave it alone
//!             Gone    ─▶ leave it alone, and look once more when done: with another
//!                        primary key it would be another record
//! ```
//!
//! At the stronger isolation levels the engine reports such a change as a conflict.
//!
//! A statement is planned once ([`bind`]) and executed any number of times
//! ([`mod@execute`]). The executor copies columns that an UPDATE does not set as bytes, and
//! decodes only columns that an expression uses.
//!
//! Invariants:
//! - The executor locks the table before anything else, with the schema version of the
//!   plan.
//! - A statement changes no row twice and does not process rows that it has made
//!   itself: the executor collects all rows before the first change.

mod bind;
mod bind_joined;
mod execute;
mod insert;
mod joined;
mod row;
mod rules;
mod subject;
pub(crate) mod with;

use std::sync::Arc;

pub(crate) use bind::{bind_delete, bind_in_with, bind_insert, bind_update};
pub(crate) use execute::{Changed, execute, lock_for_write};
pub(crate) use row::{
    RowWriter, check_default, constant_default, default_expression, default_of, unique_violation,
};
pub(crate) use rules::{Rules, bind_check, bind_generated, bind_stored_check, with_column_renamed};
pub(crate) use subject::{not_updatable, updatable_columns};

use coeval_types::{IndexId, IndexKind};

use crate::catalog::Table;
use crate::expression::Expression;
use crate::output::Column;
use crate::plan::{Access, Path, RowReader};
use crate::select::QueryPlan;

/// A planned INSERT, UPDATE or DELETE.
#[derive(Debug)]
pub(crate) struct ChangePlan {
    /// The table, as in the catalog that the plan was made with.
    pub(crate) table: Arc<Table>,
    pub(crate) kind: ChangeKind,
    /// What the table says about each row that is written.
    pub(crate) rules: Rules,
    pub(crate) returning: Option<Returning>,
    /// Conditions of views WITH CHECK OPTION that new rows must meet.
    pub(crate) checks: Vec<ViewCheck>,
}

/// The condition of a view WITH CHECK OPTION, over a row of the table.
#[derive(Clone, Debug)]
pub(crate) struct ViewCheck {
    /// Name of the view.
    pub(crate) view: String,
    pub(crate) condition: Expression,
}

/// Kind of change, with its plan.
#[derive(Debug)]
pub(crate) enum ChangeKind {
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
    /// UPDATE … FROM and DELETE … USING.
    Joined(JoinedPlan),
}

/// A planned INSERT.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    pub(crate) source: InsertSource,
    pub(crate) on_conflict: Option<OnConflict>,
}

/// Source of an INSERT's rows.
#[derive(Debug)]
pub(crate) enum InsertSource {
    /// VALUES: one expression per column of the table for each row.
    Values(Vec<Vec<Expression>>),
    /// A query, and over its rows one expression per column of the table.
    Query {
        plan: Arc<QueryPlan>,
        columns: Vec<Expression>,
    },
}

/// ON CONFLICT: the action that replaces a unique violation.
#[derive(Debug)]
pub(crate) struct OnConflict {
    /// Index in which a conflict triggers the action; `None` for any.
    pub(crate) index: Option<IndexId>,
    /// Action DO UPDATE; `None` for DO NOTHING.
    pub(crate) update: Option<ConflictUpdate>,
}

/// ON CONFLICT DO UPDATE. Its expressions are evaluated over the existing row followed
/// by the row proposed for insertion.
#[derive(Debug)]
pub(crate) struct ConflictUpdate {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) condition: Option<Expression>,
}

/// A planned UPDATE.
#[derive(Debug)]
pub(crate) struct UpdatePlan {
    pub(crate) target: ChangeTarget,
    pub(crate) assignments: Vec<Assignment>,
}

/// A planned DELETE.
#[derive(Debug)]
pub(crate) struct DeletePlan {
    pub(crate) target: ChangeTarget,
}

/// A planned UPDATE or DELETE of rows that are joined with a FROM list.
#[derive(Debug)]
pub(crate) struct JoinedPlan {
    /// The joined rows.
    pub(crate) source: Arc<QueryPlan>,
    /// Position of the target's first column in them. Its record id stands behind its last
    /// one.
    pub(crate) start: usize,
    /// The whole WHERE clause, to recheck rows changed concurrently.
    pub(crate) condition: Option<Expression>,
    /// What UPDATE sets, evaluated over the joined rows; `None` for DELETE.
    pub(crate) assignments: Option<Vec<Assignment>>,
}

/// Selection of the rows to change.
#[derive(Debug)]
pub(crate) struct ChangeTarget {
    /// Access path to the rows.
    pub(crate) access: Access,
    /// The whole WHERE clause, to recheck rows changed concurrently.
    pub(crate) condition: Option<Expression>,
    /// Decoder of the columns that expressions use.
    pub(crate) reader: RowReader,
    /// WHERE CURRENT OF: the cursor that stands on the row.
    pub(crate) current_of: Option<String>,
    /// Whether the row's record id stands behind them.
    pub(crate) with_record: bool,
}

impl ChangeTarget {
    /// Whether the statement selects one row by its primary key alone, with values that
    /// the statement or its parameters contain.
    pub(crate) fn is_by_given_primary_key(&self) -> bool {
        let Path::Key { index, key } = &self.access.path else {
            return false;
        };
        let is_read = |part: &Expression| {
            part.any(&|each| matches!(each, Expression::Subquery(_) | Expression::Call(_)))
        };
        index.kind == IndexKind::Primary
            && self.access.filter.is_empty()
            && !key.iter().any(is_read)
    }
}

/// An assignment of SET: a column and its new value.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// Position of the column in the table.
    pub(crate) column: usize,
    /// New value, evaluated over the old row.
    pub(crate) value: Expression,
}

/// RETURNING, evaluated over the row after the change (before the change, for DELETE),
/// with its record id and its `xmax` behind its columns.
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) columns: Vec<Column>,
    pub(crate) expressions: Vec<Expression>,
}

impl ChangePlan {
    /// The cursor that stands on the row to be changed, if the statement names one.
    pub(crate) fn current_of(&self) -> Option<&str> {
        let target = match &self.kind {
            ChangeKind::Insert(_) | ChangeKind::Joined(_) => return None,
            ChangeKind::Update(update) => &update.target,
            ChangeKind::Delete(delete) => &delete.target,
        };
        target.current_of.as_deref()
    }

    /// A plan that inserts the rows of a query into a new table, whose columns are the
    /// query's.
    pub(crate) fn fill(table: Arc<Table>, query: Arc<QueryPlan>) -> Self {
        let columns = (0..table.columns.len()).map(Expression::Column).collect();
        let source = InsertSource::Query {
            plan: query,
            columns,
        };
        Self {
            table,
            kind: ChangeKind::Insert(InsertPlan {
                source,
                on_conflict: None,
            }),
            rules: Rules::default(),
            returning: None,
            checks: Vec::new(),
        }
    }

    /// Name of the command, as in its command tag.
    pub(crate) fn command(&self) -> &'static str {
        match &self.kind {
            ChangeKind::Insert(_) => "INSERT",
            ChangeKind::Update(_) => "UPDATE",
            ChangeKind::Delete(_) => "DELETE",
            ChangeKind::Joined(joined) if joined.assignments.is_some() => "UPDATE",
            ChangeKind::Joined(_) => "DELETE",
        }
    }
}
