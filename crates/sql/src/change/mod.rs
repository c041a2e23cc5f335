//! Changes of rows: INSERT, UPDATE, DELETE, with RETURNING.
//!
//! A statement first collects which rows it wants to change, by its snapshot, then
//! changes them one by one. Another transaction may have changed a row in between;
//! the row's lock tells:
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
//! At the stronger levels the engine reports such a meeting as a conflict.
//!
//! A statement is planned once ([`bind`]) and executed as often as wanted
//! ([`execute`]). Columns that an UPDATE does not set are copied as bytes, and only
//! columns that an expression names are read at all.
//!
//! Invariants:
//! - The table's lock is taken before anything else, with the schema version the
//!   plan was made for.
//! - No row is changed twice by one statement, and none that the statement itself
//!   has made is looked at: what to change is known before the first change.

mod bind;
mod execute;
mod insert;
mod row;

use std::sync::Arc;

pub(crate) use bind::{bind_delete, bind_insert, bind_update};
pub(crate) use execute::{Changed, execute, lock_for_write};
pub(crate) use row::{
    RowWriter, check_default, constant_default, default_cell, default_expression, unique_violation,
};

use coeval_types::{IndexId, IndexKind};

use crate::catalog::Table;
use crate::expression::Expression;
use crate::output::Column;
use crate::plan::{Access, Path, RowReader};
use crate::select::QueryPlan;

/// A planned INSERT, UPDATE or DELETE.
#[derive(Debug)]
pub(crate) struct ChangePlan {
    /// The table, as the plan's catalog has it.
    pub(crate) table: Arc<Table>,
    pub(crate) kind: ChangeKind,
    pub(crate) returning: Option<Returning>,
}

/// What a plan does.
#[derive(Debug)]
pub(crate) enum ChangeKind {
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
}

/// A planned INSERT.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    pub(crate) source: InsertSource,
    pub(crate) on_conflict: Option<OnConflict>,
}

/// Where new rows come from.
#[derive(Debug)]
pub(crate) enum InsertSource {
    /// Each row's expressions, one for each column of the table.
    Values(Vec<Vec<Expression>>),
    /// A query's rows, and over them one expression for each column of the table.
    Query {
        plan: Arc<QueryPlan>,
        columns: Vec<Expression>,
    },
}

/// ON CONFLICT: what happens instead of a duplicate key.
#[derive(Debug)]
pub(crate) struct OnConflict {
    /// In which index; `None` for any.
    pub(crate) index: Option<IndexId>,
    /// DO UPDATE; `None` for DO NOTHING.
    pub(crate) update: Option<ConflictUpdate>,
}

/// ON CONFLICT DO UPDATE. Expressions are over the row that is there followed by
/// the row that was to be inserted.
#[derive(Debug)]
pub(crate) struct ConflictUpdate {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) condition: Option<Expression>,
}

/// A planned UPDATE.
#[derive(Debug)]
pub(crate) struct UpdatePlan {
    pub(crate) target: Target,
    pub(crate) assignments: Vec<Assignment>,
}

/// A planned DELETE.
#[derive(Debug)]
pub(crate) struct DeletePlan {
    pub(crate) target: Target,
}

/// Which rows are changed.
#[derive(Debug)]
pub(crate) struct Target {
    /// How they are found.
    pub(crate) access: Access,
    /// The whole WHERE clause, for rows that have changed since they were found.
    pub(crate) condition: Option<Expression>,
    /// Reads the columns that any expression names.
    pub(crate) reader: RowReader,
}

impl Target {
    /// Whether one row is wanted, by nothing but values for its primary key that the
    /// statement or its client gives.
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

/// A column and what it is set to.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// Its position among the table's columns.
    pub(crate) column: usize,
    /// Over the row as it was.
    pub(crate) value: Expression,
}

/// RETURNING: over the row as it is after the change (before, for DELETE).
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) columns: Vec<Column>,
    pub(crate) expressions: Vec<Expression>,
}

impl ChangePlan {
    /// Its command's name, as in its tag.
    pub(crate) fn command(&self) -> &'static str {
        match self.kind {
            ChangeKind::Insert(_) => "INSERT",
            ChangeKind::Update(_) => "UPDATE",
            ChangeKind::Delete(_) => "DELETE",
        }
    }
}
