//! The nodes of a query plan.

use std::sync::Arc;

use coeval_txn::{Direction, LockWait, RowLock};
use smol_str::SmolStr;

use super::with::{Common, Recursive, With};
use crate::catalog::Table;
use crate::expression::json::JsonSet;
use crate::expression::{AggregateCall, Expression, TableFunction, WindowCall, WindowDefinition};
use crate::plan::{Path, RowReader};
use crate::select::QueryPlan;
use crate::system::SystemTable;
use crate::value::{DataType, KeyOrder};

/// A plan node. The executor pulls rows from it; each is the driving row with the
/// node's own columns appended, except for nodes marked *new row*, whose rows hold only
/// the node's own columns.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Returns the driving row once.
    One,
    /// VALUES: rows of expressions.
    Values {
        /// Expressions of each row.
        rows: Vec<Vec<Expression>>,
    },
    /// Scan of a table.
    Scan(Box<Scan>),
    /// Scan of a system table.
    System(&'static SystemTable),
    /// Rows of a function in FROM.
    Function(Box<SetFunction>),
    /// Keeps the rows for which a condition is true.
    Filter {
        /// Input of the filter.
        input: Box<Node>,
        /// The condition.
        condition: Expression,
    },
    /// Join: for every left row, the matching right rows, or whether there are any.
    Join(Box<Join>),
    /// A join that also keeps unmatched right rows.
    FullJoin(Box<FullJoin>),
    /// Collects, once, the rows of an input that does not depend on the driving row.
    Cache(Box<Cache>),
    /// A subquery in FROM.
    Derived(Box<Derived>),
    /// A whole plan as an input. *New row.*
    Plan(Arc<QueryPlan>),
    /// Computes expressions over the input's rows. *New row.*
    Project {
        /// Input of the projection.
        input: Box<Node>,
        /// Expressions to compute.
        expressions: Vec<Expression>,
    },
    /// Set-returning functions over the input's rows, side by side.
    ProjectSet(Box<ProjectSet>),
    /// Grouping: returns the keys of each group, then its aggregates. *New row.*
    Aggregate(Box<Aggregate>),
    /// Sorts the input's rows.
    Sort(Box<Sort>),
    /// Removes duplicates from the input, by all columns or by some expressions.
    Distinct {
        /// Input whose duplicates are removed.
        input: Box<Node>,
        /// Expressions of DISTINCT ON; empty for all columns.
        by: Vec<Expression>,
    },
    /// LIMIT and OFFSET.
    Limit {
        /// Input of the limit.
        input: Box<Node>,
        /// Maximum number of rows; null for no limit.
        limit: Option<Expression>,
        /// Number of rows to skip first.
        offset: Option<Expression>,
    },
    /// LIMIT and OFFSET, and the rows that are equal to the last one in the order.
    WithTies(Box<WithTies>),
    /// Window functions over the input's rows, appended to them.
    Window(Box<Window>),
    /// A query behind WITH. *New row.*
    With(Box<With>),
    /// The rows of a table of WITH. *New row.*
    Common(Arc<Common>),
    /// A query that reads its own rows. *New row.*
    Recursive(Box<Recursive>),
    /// The rows of a recursive query's last step, by the number of its working table. *New
    /// row.*
    Working(usize),
    /// UNION ALL: the rows of one input after the other.
    Append(Vec<Node>),
    /// INTERSECT and EXCEPT.
    SetOperation(Box<SetOperation>),
    /// Locks the input's rows.
    Lock(Box<Lock>),
}

/// A scan of a table.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// The table.
    pub table: Arc<Table>,
    /// Alias of the table in the statement, for EXPLAIN.
    pub alias: String,
    /// Access path; the scan computes its keys over the driving row.
    pub path: Path,
    /// Direction in which an index is read.
    pub direction: Direction,
    /// Condition that the access path does not ensure.
    pub filter: Option<Expression>,
    /// Columns to decode.
    pub reader: RowReader,
    /// Whether the scan appends the row's record id as a last column.
    pub with_record: bool,
    /// Estimated number of rows that one scan returns.
    pub rows: f64,
}

/// A set-returning function call.
#[derive(Clone, Debug)]
pub(crate) struct SetFunction {
    /// Kind of function.
    pub kind: SetKind,
    /// Arguments, evaluated over the driving row.
    pub arguments: Vec<Expression>,
    /// Whether the row number is appended (WITH ORDINALITY).
    pub ordinality: bool,
}

/// Kinds of functions in FROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    /// `generate_series`: counts from one number to another.
    Series(DataType),
    /// `unnest`: the elements of an array, or of several side by side.
    Unnest,
    /// `generate_subscripts`: the subscripts of an array.
    Subscripts,
    /// A function that returns the parts of a JSON document, or a record.
    Json(&'static JsonSet),
    /// A function that returns no set, as a single row.
    Scalar,
    /// The rows that a change in WITH returns, by its number.
    Changed(usize),
    /// A built-in function that computes its rows at once.
    Table(&'static TableFunction),
    /// Such a function outside FROM, where each row is one value.
    Packed(&'static TableFunction),
    /// Such a function outside FROM, of whose rows one column is taken.
    Field(&'static TableFunction, usize),
}

/// A join. It is a loop over the left rows; what the right side is, a lookup in an index or
/// in a [`Cache`] with keys, makes it a nested loop or a hash join.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// The left side.
    pub left: Node,
    /// The right side, opened over each left row. It includes the join condition.
    pub right: Node,
    /// What becomes of left rows with and without a match.
    pub kind: Matching,
    /// Estimated number of rows.
    pub rows: f64,
}

/// What a join returns for a left row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    /// The left row with each right row.
    Inner,
    /// Likewise, and a left row without a match extended by this many nulls.
    Left(usize),
    /// The left row, once, if there is a match.
    Semi,
    /// The left row if there is no match.
    Anti,
}

/// RIGHT JOIN or FULL JOIN.
#[derive(Clone, Debug)]
pub(crate) struct FullJoin {
    /// The left side.
    pub left: Node,
    /// The right side, opened over a driving row with nulls in the left columns.
    pub right: Node,
    /// Number of columns of the left and right side.
    pub widths: [usize; 2],
    /// Equality keys: an expression over the left row, and one over a row with nulls in
    /// place of the left columns. A row with a null key matches nothing.
    pub keys: Vec<(Expression, Expression)>,
    /// Join condition, without that the keys are equal.
    pub condition: Expression,
    /// Whether unmatched left rows are kept (FULL JOIN).
    pub keep_left: bool,
    /// Estimated number of rows.
    pub rows: f64,
}

/// Collects, once, the rows of an input that does not depend on the driving row, and
/// looks them up by hash keys.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// Input whose rows are collected.
    pub input: Node,
    /// Number of columns of the driving row.
    pub offset: usize,
    /// Equality keys: an expression over the driving row and one over the input's row.
    /// A row with a null key matches nothing.
    pub keys: Vec<(Expression, Expression)>,
}

/// A subquery in FROM.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    /// Plan of the subquery.
    pub plan: Node,
    /// Correlations of a LATERAL subquery with the driving row; `None` for a plain
    /// subquery, which shares the frame of the enclosing query.
    pub correlations: Option<Vec<Expression>>,
    /// Name of the subquery in the statement, for EXPLAIN.
    pub alias: SmolStr,
    /// Names of its columns, for EXPLAIN.
    pub columns: Vec<SmolStr>,
}

/// Set-returning functions in a select list: returns as many rows as the longest
/// function, and fills the others up with nulls.
#[derive(Clone, Debug)]
pub(crate) struct ProjectSet {
    /// Input over whose rows the functions are called.
    pub input: Node,
    /// The functions; each appends one column.
    pub functions: Vec<SetFunction>,
}

/// Grouping with aggregates.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    /// Input to group.
    pub input: Node,
    /// Grouping keys. In a set without keys all rows form one group, even if there are none.
    pub keys: Vec<Expression>,
    /// Aggregates computed for each group.
    pub calls: Vec<AggregateCall>,
    /// The grouping sets, by positions of their keys: the other keys are null. Without
    /// GROUPING SETS and its like there is one, with all keys.
    pub sets: Vec<Vec<usize>>,
    /// GROUPING operations, by positions of their keys: a bit for each key that the group's
    /// set lacks.
    pub groupings: Vec<Vec<usize>>,
}

/// LIMIT with the ties of its last row.
#[derive(Clone, Debug)]
pub(crate) struct WithTies {
    /// Input, sorted by the keys.
    pub input: Node,
    /// Maximum number of rows, but for those that are equal to the last one.
    pub limit: Option<Expression>,
    /// Number of rows to skip first.
    pub offset: Option<Expression>,
    /// Sort keys.
    pub keys: Vec<Expression>,
}

/// Window functions.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Input over whose rows they are computed.
    pub input: Node,
    /// The windows, in the order in which they are computed, each with its calls and their
    /// positions among the columns that are appended.
    pub steps: Vec<(WindowDefinition, Vec<(usize, WindowCall)>)>,
    /// Number of columns that are appended.
    pub width: usize,
}

/// Sorting.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    /// Input to sort.
    pub input: Node,
    /// Sort keys, the most significant first.
    pub keys: Vec<(Expression, KeyOrder)>,
    /// LIMIT and OFFSET, if the query reads no more rows than that (top-N sort).
    pub fetch: Option<(Expression, Option<Expression>)>,
}

/// INTERSECT or EXCEPT.
#[derive(Clone, Debug)]
pub(crate) struct SetOperation {
    /// Left input.
    pub left: Node,
    /// Right input.
    pub right: Node,
    /// True for EXCEPT, false for INTERSECT.
    pub except: bool,
    /// Whether duplicates count (ALL).
    pub all: bool,
}

/// Locks rows before they are returned.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    /// Input whose rows are locked.
    pub input: Node,
    /// Tables whose part of each row is locked.
    pub targets: Vec<LockTarget>,
    /// Condition that the newest version of a concurrently changed row must still
    /// satisfy.
    pub condition: Option<Expression>,
}

/// A table whose part of a row is locked.
#[derive(Clone, Debug)]
pub(crate) struct LockTarget {
    /// The table.
    pub table: Arc<Table>,
    /// Position of its first column in the row.
    pub offset: usize,
    /// Position of its record id in the row.
    pub record: usize,
    /// Decoder of its columns.
    pub reader: RowReader,
    /// Mode of the lock.
    pub mode: RowLock,
    /// Behaviour if the row is already locked in a mode that conflicts.
    pub wait: LockWait,
}

impl Node {
    /// Calls `visit` for each input of the node.
    pub(crate) fn inputs<'a>(&'a self, visit: &mut dyn FnMut(&'a Node)) {
        match self {
            Self::One
            | Self::Values { .. }
            | Self::Scan(_)
            | Self::System(_)
            | Self::Function(_)
            | Self::Common(_)
            | Self::Working(_) => {}
            Self::WithTies(limit) => visit(&limit.input),
            Self::Window(window) => visit(&window.input),
            Self::With(with) => {
                with.commons
                    .iter()
                    .for_each(|common| visit(&common.plan.root));
                visit(&with.input);
            }
            Self::Recursive(recursive) => {
                visit(&recursive.base);
                visit(&recursive.step);
            }
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

    /// Calls `visit` for each of the node's own expressions.
    fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::One
            | Self::System(_)
            | Self::Plan(_)
            | Self::Join(_)
            | Self::Append(_)
            | Self::SetOperation(_)
            | Self::With(_)
            | Self::Common(_)
            | Self::Recursive(_)
            | Self::Working(_) => {}
            Self::WithTies(limit) => limit
                .limit
                .iter()
                .chain(&limit.offset)
                .chain(&limit.keys)
                .for_each(visit),
            Self::Window(window) => {
                for (definition, calls) in &window.steps {
                    definition.expressions(visit);
                    let limits = [&definition.frame.start, &definition.frame.end];
                    limits
                        .into_iter()
                        .filter_map(|limit| limit.offset())
                        .for_each(&mut *visit);
                    calls.iter().for_each(|(_, call)| call.expressions(visit));
                }
            }
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
            Self::FullJoin(join) => {
                for (left, right) in &join.keys {
                    visit(left);
                    visit(right);
                }
                visit(&join.condition);
            }
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
                    call.over_rows(visit);
                    call.direct.iter().for_each(&mut *visit);
                }
            }
            Self::Sort(sort) => sort.keys.iter().for_each(|(key, _)| visit(key)),
            Self::Distinct { by, .. } => by.iter().for_each(visit),
            Self::Limit { limit, offset, .. } => limit.iter().chain(offset).for_each(visit),
            Self::Lock(lock) => lock.condition.iter().for_each(visit),
        }
    }

    /// Whether the node itself reads the database or the state of the engine.
    pub(crate) fn looks(&self) -> bool {
        match self {
            Self::Scan(_) | Self::System(_) | Self::Lock(_) => true,
            Self::Function(function) => !matches!(function.kind, SetKind::Series(_)),
            Self::ProjectSet(_) => true,
            Self::Plan(plan) => plan.looks(),
            Self::Derived(derived) => derived.plan.looks(),
            Self::Common(common) => common.plan.looks(),
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
            | Self::WithTies(_)
            | Self::Window(_)
            | Self::With(_)
            | Self::Recursive(_)
            | Self::Working(_)
            | Self::Append(_)
            | Self::SetOperation(_) => false,
        }
    }

    /// Whether `test` holds for this node or any node below it.
    pub(crate) fn any_node(&self, test: &dyn Fn(&Node) -> bool) -> bool {
        let mut found = test(self);
        self.inputs(&mut |input| found = found || input.any_node(test));
        found
    }

    /// Whether `test` holds for an expression of this node or any node below it.
    pub(crate) fn any_expression(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        self.any_node(&|node| {
            let mut found = false;
            node.expressions(&mut |expression| found = found || test(expression));
            found
        })
    }
}
