//! The nodes of a plan.

use std::sync::Arc;

use coeval_txn::{Direction, LockWait};

use crate::catalog::Table;
use crate::expression::{AggregateCall, Expression};
use crate::plan::{Path, RowReader};
use crate::select::QueryPlan;
use crate::system::SystemTable;
use crate::value::{DataType, KeyOrder};

/// A node of a plan. Rows are pulled from it; each is the driving row with the
/// node's own columns appended, up to the nodes marked *new row*, whose rows hold
/// just what they say.
#[derive(Debug)]
pub(crate) enum Node {
    /// The driving row, once.
    One,
    /// Rows of expressions.
    Values {
        /// The rows.
        rows: Vec<Vec<Expression>>,
    },
    /// The rows of a table.
    Scan(Box<Scan>),
    /// The rows of a system table.
    System(&'static SystemTable),
    /// The rows of a function.
    Function(Box<SetFunction>),
    /// The rows for which a condition is true.
    Filter {
        /// Of these.
        input: Box<Node>,
        /// The condition.
        condition: Expression,
    },
    /// For every row of the left the rows of the right.
    Join(Box<Join>),
    /// The join that keeps rows of the right, too.
    FullJoin(Box<FullJoin>),
    /// The rows of a node that does not depend on the driving row, collected once.
    Cache(Box<Cache>),
    /// A subquery in FROM.
    Derived(Box<Derived>),
    /// A whole plan. *New row.*
    Plan(Arc<QueryPlan>),
    /// Expressions over the input's rows. *New row.*
    Project {
        /// The input.
        input: Box<Node>,
        /// The expressions.
        expressions: Vec<Expression>,
    },
    /// For every row of the input the rows of functions, side by side.
    ProjectSet(Box<ProjectSet>),
    /// Groups: their keys, then their aggregates. *New row.*
    Aggregate(Box<Aggregate>),
    /// The input's rows in order.
    Sort(Box<Sort>),
    /// The input's rows, each but once: by all columns, or by these.
    Distinct {
        /// The input.
        input: Box<Node>,
        /// By what; empty for all columns.
        by: Vec<Expression>,
    },
    /// Some of the input's rows.
    Limit {
        /// The input.
        input: Box<Node>,
        /// How many; null for all.
        limit: Option<Expression>,
        /// How many are left out first.
        offset: Option<Expression>,
    },
    /// The rows of one input after the other.
    Append(Vec<Node>),
    /// INTERSECT and EXCEPT.
    SetOperation(Box<SetOperation>),
    /// The input's rows, locked.
    Lock(Box<Lock>),
}

/// The rows of a table.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The table.
    pub table: Arc<Table>,
    /// What it is called in the statement.
    pub alias: String,
    /// The way to its rows; keys are computed over the driving row.
    pub path: Path,
    /// Which way an index is read.
    pub direction: Direction,
    /// What the path does not ensure.
    pub filter: Option<Expression>,
    /// Which columns are wanted.
    pub reader: RowReader,
    /// Whether the row's record is appended as a last column.
    pub with_record: bool,
}

/// The rows of a function in FROM.
#[derive(Debug)]
pub(crate) struct SetFunction {
    /// Which.
    pub kind: SetKind,
    /// Of what, over the driving row.
    pub arguments: Vec<Expression>,
    /// Whether the row's number is appended.
    pub ordinality: bool,
}

/// What a function in FROM does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    /// Counts from one number to another.
    Series(DataType),
    /// The elements of an array.
    Unnest,
    /// The subscripts of an array.
    Subscripts,
    /// The one row of a function that returns no set.
    Scalar,
}

/// For every row of the left the rows of the right.
#[derive(Debug)]
pub(crate) struct Join {
    /// The left side.
    pub left: Node,
    /// The right side, opened over a row of the left. The condition is in it.
    pub right: Node,
    /// Whether a left row without any is kept, with so many nulls.
    pub outer: Option<usize>,
}

/// RIGHT JOIN and FULL JOIN.
#[derive(Debug)]
pub(crate) struct FullJoin {
    /// The left side.
    pub left: Node,
    /// The right side, opened over a driving row with nulls for the left.
    pub right: Node,
    /// Columns of each.
    pub widths: [usize; 2],
    /// When two rows belong together.
    pub condition: Expression,
    /// Whether left rows without any are kept.
    pub keep_left: bool,
}

/// The rows of a node that does not depend on the driving row, collected once and
/// found by keys.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The node.
    pub input: Node,
    /// How many columns the driving row has.
    pub offset: usize,
    /// Expressions over the driving row, and over the input's row, that must be
    /// equal. The input's are not null in the rows that match.
    pub keys: Vec<(Expression, Expression)>,
}

/// A subquery in FROM.
#[derive(Debug)]
pub(crate) struct Derived {
    /// Its plan.
    pub plan: Node,
    /// What it takes from the driving row; `None` when it is no LATERAL one and
    /// shares the frame of the query around it.
    pub correlations: Option<Vec<Expression>>,
}

/// Set-returning functions in the list of a SELECT: as many rows as the longest
/// gives, the others filled up with nulls.
#[derive(Debug)]
pub(crate) struct ProjectSet {
    /// The rows.
    pub input: Node,
    /// The functions; each appends its one column.
    pub functions: Vec<SetFunction>,
}

/// Groups and their aggregates.
#[derive(Debug)]
pub(crate) struct Aggregate {
    /// The rows.
    pub input: Node,
    /// What groups have in common. None means one group, even of no rows.
    pub keys: Vec<Expression>,
    /// What is computed for each.
    pub calls: Vec<AggregateCall>,
}

/// Rows in order.
#[derive(Debug)]
pub(crate) struct Sort {
    /// The rows.
    pub input: Node,
    /// By what, the most significant first.
    pub keys: Vec<(Expression, KeyOrder)>,
    /// LIMIT and OFFSET, when only that many will be asked for.
    pub fetch: Option<(Expression, Option<Expression>)>,
}

/// What is done with two sets.
#[derive(Debug)]
pub(crate) struct SetOperation {
    /// Of these.
    pub left: Node,
    /// And these.
    pub right: Node,
    /// Whether rows of the right are left out (EXCEPT), or wanted (INTERSECT).
    pub except: bool,
    /// Whether rows count as often as they are there.
    pub all: bool,
}

/// Rows that are locked before they are shown.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The rows.
    pub input: Node,
    /// What is locked of each.
    pub targets: Vec<LockTarget>,
    /// What a row that changed meanwhile must still fulfil.
    pub condition: Option<Expression>,
}

/// What is locked of a row.
#[derive(Debug)]
pub(crate) struct LockTarget {
    /// The table.
    pub table: Arc<Table>,
    /// Where its columns begin.
    pub offset: usize,
    /// Where its record is.
    pub record: usize,
    /// Its columns.
    pub reader: RowReader,
    /// What happens when it is locked already.
    pub wait: LockWait,
}

impl Node {
    /// Calls `visit` for the node's inputs.
    pub(crate) fn inputs<'a>(&'a self, visit: &mut dyn FnMut(&'a Node)) {
        match self {
            Self::One
            | Self::Values { .. }
            | Self::Scan(_)
            | Self::System(_)
            | Self::Function(_) => {}
            Self::Plan(plan) => visit(&plan.root),
            Self::Filter { input, .. }
            | Self::Project { input, .. }
            | Self::Distinct { input, .. }
            | Self::Limit { input, .. } => visit(input),
            Self::Join(join) => {
                visit(&join.left);
                visit(&join.right);
            }
            Self::FullJoin(join) => {
                visit(&join.left);
                visit(&join.right);
            }
            Self::Cache(cache) => visit(&cache.input),
            Self::Derived(derived) => visit(&derived.plan),
            Self::ProjectSet(project) => visit(&project.input),
            Self::Aggregate(aggregate) => visit(&aggregate.input),
            Self::Sort(sort) => visit(&sort.input),
            Self::Append(inputs) => inputs.iter().for_each(visit),
            Self::SetOperation(operation) => {
                visit(&operation.left);
                visit(&operation.right);
            }
            Self::Lock(lock) => visit(&lock.input),
        }
    }

    /// Calls `visit` for the node's own expressions.
    fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::One
            | Self::System(_)
            | Self::Plan(_)
            | Self::Join(_)
            | Self::Append(_)
            | Self::SetOperation(_) => {}
            Self::Values { rows } => rows.iter().flatten().for_each(visit),
            Self::Scan(scan) => {
                match &scan.path {
                    Path::Table => {}
                    Path::Key { key, .. } => key.iter().for_each(&mut *visit),
                    Path::Range {
                        prefix,
                        lower,
                        upper,
                        ..
                    } => {
                        prefix.iter().for_each(&mut *visit);
                        for limit in lower.iter().chain(upper) {
                            visit(&limit.value);
                        }
                    }
                    Path::List { prefix, list, .. } => {
                        prefix
                            .iter()
                            .chain(list.expressions())
                            .for_each(&mut *visit);
                    }
                }
                scan.filter.iter().for_each(visit);
            }
            Self::Function(function) => function.arguments.iter().for_each(visit),
            Self::ProjectSet(project) => project
                .functions
                .iter()
                .flat_map(|function| &function.arguments)
                .for_each(visit),
            Self::Filter { condition, .. } => visit(condition),
            Self::FullJoin(join) => visit(&join.condition),
            Self::Cache(cache) => {
                for (left, right) in &cache.keys {
                    visit(left);
                    visit(right);
                }
            }
            Self::Derived(derived) => derived.correlations.iter().flatten().for_each(visit),
            Self::Project { expressions, .. } => expressions.iter().for_each(visit),
            Self::Aggregate(aggregate) => {
                aggregate.keys.iter().for_each(&mut *visit);
                for call in &aggregate.calls {
                    call.argument
                        .iter()
                        .chain(&call.separator)
                        .chain(&call.filter)
                        .for_each(&mut *visit);
                    call.order.iter().for_each(|(key, ..)| visit(key));
                }
            }
            Self::Sort(sort) => sort.keys.iter().for_each(|(key, _)| visit(key)),
            Self::Distinct { by, .. } => by.iter().for_each(visit),
            Self::Limit { limit, offset, .. } => limit.iter().chain(offset).for_each(visit),
            Self::Lock(lock) => lock.condition.iter().for_each(visit),
        }
    }

    /// Appends the tables of which this node or any below it locks rows.
    pub(crate) fn collect_locked(&self, tables: &mut Vec<Arc<Table>>) {
        if let Self::Lock(lock) = self {
            tables.extend(lock.targets.iter().map(|target| Arc::clone(&target.table)));
        }
        self.inputs(&mut |input| input.collect_locked(tables));
    }

    /// Whether the node itself reads what is in the database, or what an engine says.
    pub(crate) fn looks(&self) -> bool {
        match self {
            Self::Scan(_) | Self::System(_) | Self::Lock(_) => true,
            Self::Function(function) => !matches!(function.kind, SetKind::Series(_)),
            Self::ProjectSet(_) => true,
            Self::Plan(plan) => plan.looks(),
            Self::Derived(derived) => derived.plan.looks(),
            Self::One
            | Self::Values { .. }
            | Self::Filter { .. }
            | Self::Join(_)
            | Self::FullJoin(_)
            | Self::Cache(_)
            | Self::Project { .. }
            | Self::Aggregate(_)
            | Self::Sort(_)
            | Self::Distinct { .. }
            | Self::Limit { .. }
            | Self::Append(_)
            | Self::SetOperation(_) => false,
        }
    }

    /// Whether `test` holds for this node or any below it.
    pub(crate) fn any_node(&self, test: &dyn Fn(&Node) -> bool) -> bool {
        let mut found = test(self);
        self.inputs(&mut |input| found = found || input.any_node(test));
        found
    }

    /// Whether `test` holds for an expression of this node or any below it.
    pub(crate) fn any_expression(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        self.any_node(&|node| {
            let mut found = false;
            node.expressions(&mut |expression| found = found || test(expression));
            found
        })
    }
}
