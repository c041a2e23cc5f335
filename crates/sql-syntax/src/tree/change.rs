//! INSERT, UPDATE, DELETE and MERGE.

use super::{AssignTarget, Expr, IndexItem, Name, Path, Query, Relation, TableRef, Target, With};

#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    pub with: Option<With>,
    pub table: Path,
    pub alias: Option<Name>,
    pub columns: Vec<AssignTarget>,
    pub overriding: Option<Overriding>,
    /// None is DEFAULT VALUES.
    pub source: Option<Query>,
    pub conflict: Option<OnConflict>,
    pub returning: Vec<Target>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    User,
    System,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    pub at: u32,
    pub target: ConflictTarget,
    pub action: ConflictAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ConflictTarget {
    Any,
    Columns(Vec<IndexItem>, Option<Expr>),
    Constraint(Name),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    Nothing,
    Update(Vec<Assignment>, Option<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Assignment {
    One(AssignTarget, Expr),
    /// `(a, b) = (…)`
    Several(Vec<AssignTarget>, Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub with: Option<With>,
    pub table: Relation,
    pub alias: Option<Name>,
    pub assignments: Vec<Assignment>,
    pub from: Vec<TableRef>,
    pub filter: Filter,
    pub returning: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub with: Option<With>,
    pub table: Relation,
    pub alias: Option<Name>,
    pub using: Vec<TableRef>,
    pub filter: Filter,
    pub returning: Vec<Target>,
}

/// Which rows are changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    All,
    Where(Expr),
    /// WHERE CURRENT OF cursor
    CurrentOf(Name),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    pub with: Option<With>,
    pub table: Relation,
    pub alias: Option<Name>,
    pub source: TableRef,
    pub condition: Expr,
    pub branches: Vec<MergeBranch>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MergeBranch {
    pub matched: bool,
    pub condition: Option<Expr>,
    pub action: MergeAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    Nothing,
    Delete,
    Update(Vec<Assignment>),
    Insert {
        columns: Vec<AssignTarget>,
        overriding: Option<Overriding>,
        /// Empty is DEFAULT VALUES.
        values: Vec<Expr>,
    },
}
