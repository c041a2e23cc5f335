//! The planner of whole queries: WITH, set operations, VALUES, and ORDER BY and LIMIT
//! around them.

use std::sync::Arc;

use coeval_sql_syntax::print;
use coeval_sql_syntax::tree::{
    self, Body, Expr, ExprKind, Literal, Query, SetStep, SortItem, StatementKind, Target, With,
};

use super::lock::shown;
use super::node::{Node, SetOperation, Sort};
use super::select::{Around, plan_select};
use super::shape::Shape;
use crate::expression::{
    Binder, Bound, CastContext, Expression, Frame, Scope, common_type, fold_name, key_order,
    no_equality, no_order,
};
use crate::output::Column;
use crate::select::QueryPlan;
use crate::value::{ColumnType, DataType, KeyOrder};
use crate::{Error, Result, SqlState};

/// A common table expression: a query that WITH names.
#[derive(Clone, Debug)]
pub struct CommonTable {
    name: String,
    columns: Vec<String>,
    /// The statement that makes its rows: a query.
    statement: Arc<StatementKind>,
    /// Number of earlier common table expressions that its query can refer to.
    visible: usize,
    /// Whether the planner has planned a reference to it.
    is_used: bool,
}

impl CommonTable {
    /// Whether this is the table's name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name
    }
}

/// How the planner types a column that is a literal or parameter of unknown type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untyped {
    /// Resolves the column to text.
    Settle,
    /// Leaves the column untyped for the caller, which casts it.
    Keep,
}

/// Plans a statement that is a query. Columns of unknown type become text.
pub fn plan_query(binder: &mut Binder<'_>, query: &Query) -> Result<QueryPlan> {
    let frame = Frame::outermost();
    plan_in_frame(binder, query, &frame)
}

/// [`plan_query`] for a cursor: behind its columns, each row has the records of the tables
/// that WHERE CURRENT OF may name ([`QueryPlan::records`]).
pub fn plan_cursor(binder: &mut Binder<'_>, query: &Query) -> Result<QueryPlan> {
    binder.wants_records = true;
    let mut plan = plan_query(binder, query)?;
    plan.records = std::mem::take(&mut binder.records);
    Ok(plan)
}

/// Plans the source of an INSERT: a query whose columns the planner casts to the types
/// of the target columns.
pub fn plan_source(
    binder: &mut Binder<'_>,
    query: &Query,
    targets: &[(&str, ColumnType)],
) -> Result<QueryPlan> {
    let frame = Frame::outermost();
    let planned = plan_parts(binder, query, &frame, Untyped::Keep)?;
    let mut columns = planned.columns;
    // Casts inside the select list, where a parameter's type can still be inferred.
    let (input, expressions) = match planned.node {
        Node::Project { input, expressions } => (*input, expressions),
        node => {
            let all = (0..columns.len()).map(Expression::Column).collect();
            (node, all)
        }
    };
    let mut assigned = Vec::with_capacity(expressions.len());
    for (position, expression) in expressions.into_iter().enumerate() {
        let column = &mut columns[position];
        let bound = Bound::new(expression, column.column_type);
        let bound = match targets.get(position) {
            Some((name, column_type)) => binder.assign(bound, name, *column_type)?,
            // A surplus column; the caller reports the error.
            None => binder.settle(bound)?,
        };
        column.column_type = bound.column_type;
        assigned.push(bound.expression);
    }
    let node = Node::Project {
        input: Box::new(input),
        expressions: assigned,
    };
    Ok(QueryPlan::new(node, columns))
}

/// A query's plan under construction: its nodes and its columns.
pub(super) struct Planned {
    pub node: Node,
    pub columns: Vec<Column>,
    /// The logical form of the query, if it was asked for and is that of one SELECT.
    pub shape: Option<Shape>,
}

/// [`plan_in_frame`], with the logical form of the query if it is a SELECT that a query
/// around it can take apart.
pub(crate) fn plan_with_shape(
    binder: &mut Binder<'_>,
    query: &Query,
    frame: &Frame<'_>,
) -> Result<(QueryPlan, Option<Shape>)> {
    binder.wants_shape = true;
    let planned =
        crate::expression::with_stack(|| plan_parts(binder, query, frame, Untyped::Settle));
    binder.wants_shape = false;
    let planned = planned?;
    let plan = QueryPlan::new(planned.node, planned.columns);
    Ok((plan, planned.shape))
}

/// Plans a query inside `frame`, from which it may take correlated values.
pub fn plan_in_frame(
    binder: &mut Binder<'_>,
    query: &Query,
    frame: &Frame<'_>,
) -> Result<QueryPlan> {
    let planned =
        crate::expression::with_stack(|| plan_parts(binder, query, frame, Untyped::Settle))?;
    Ok(QueryPlan::new(planned.node, planned.columns))
}

/// Bound LIMIT and OFFSET.
#[derive(Default)]
pub(super) struct Limits {
    pub limit: Option<Expression>,
    pub offset: Option<Expression>,
}

impl Limits {
    pub(super) fn is_none(&self) -> bool {
        self.limit.is_none() && self.offset.is_none()
    }

    /// Number of rows that a sort below needs to return.
    pub(super) fn fetch(&self) -> Option<(Expression, Option<Expression>)> {
        self.limit.clone().map(|limit| (limit, self.offset.clone()))
    }

    pub(super) fn apply(self, input: Node) -> Node {
        if self.is_none() {
            return input;
        }
        Node::Limit {
            input: Box::new(input),
            limit: self.limit,
            offset: self.offset,
        }
    }
}

fn plan_parts(
    binder: &mut Binder<'_>,
    query: &Query,
    frame: &Frame<'_>,
    untyped: Untyped,
) -> Result<Planned> {
    let shaped = std::mem::take(&mut binder.wants_shape);
    match &query.with {
        None => plan_body(binder, query, frame, untyped, shaped),
        Some(with) => with_tables(binder, with, |binder| {
            plan_body(binder, query, frame, untyped, shaped)
        }),
    }
}

/// Plans what stands behind WITH, and sees its tables.
pub(crate) fn with_tables<T>(
    binder: &mut Binder<'_>,
    with: &With,
    plan: impl FnOnce(&mut Binder<'_>) -> Result<T>,
) -> Result<T> {
    let known = binder.with.len();
    define(binder, with)?;
    let planned = plan(binder).and_then(|planned| {
        plan_unused(binder, known)?;
        Ok(planned)
    });
    binder.with.truncate(known);
    planned
}

/// Plans the common table expressions from `known` on that the query does not refer to,
/// and discards their plans: PostgreSQL checks their privileges and names, too. Plans
/// the last one first, because it may refer to earlier ones.
fn plan_unused(binder: &mut Binder<'_>, known: usize) -> Result<()> {
    for at in (known..binder.with.len()).rev() {
        if !binder.with[at].is_used {
            plan_table_at(binder, at)?;
        }
    }
    Ok(())
}

fn plan_body(
    binder: &mut Binder<'_>,
    query: &Query,
    frame: &Frame<'_>,
    untyped: Untyped,
    shaped: bool,
) -> Result<Planned> {
    let records = std::mem::take(&mut binder.wants_records);
    let limits = bind_limits(binder, query, frame)?;
    let order = query.order.as_slice();
    let whole_table;
    let select = match &query.body {
        Body::Select(select) => Some(&**select),
        Body::Table(relation) => {
            let all = vec![Target::Star(relation.name.at())];
            whole_table = tree::Select::from_relation(relation.clone(), all);
            Some(&whole_table)
        }
        Body::Values(_) | Body::Set(..) => None,
    };
    match select {
        Some(select) => {
            let around = Around {
                order,
                limits,
                locks: &query.locking,
                untyped,
                records,
                shaped,
            };
            plan_select(binder, select, around, frame)
        }
        None => {
            if let Some(locking) = query.locking.first() {
                let clause = shown(locking);
                let message = match query.body {
                    Body::Values(_) => format!("{clause} cannot be applied to VALUES"),
                    _ => format!("{clause} is not allowed with UNION/INTERSECT/EXCEPT"),
                };
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let planned = match &query.body {
                Body::Values(rows) => {
                    let mut planned = plan_values(binder, rows, frame)?;
                    if shaped && limits.is_none() {
                        planned.shape = single_row(&planned.node);
                    }
                    planned
                }
                Body::Set(first, steps) => plan_steps(binder, first, steps, frame, untyped)?,
                Body::Select(_) | Body::Table(_) => {
                    return Err(Error::internal("a select that is none"));
                }
            };
            let keys = order_by_columns(binder, order, &planned.columns)?;
            let mut node = planned.node;
            if !keys.is_empty() {
                node = Node::Sort(Box::new(Sort {
                    input: node,
                    keys,
                    fetch: limits.fetch(),
                }));
            }
            Ok(Planned {
                node: limits.apply(node),
                columns: planned.columns,
                shape: planned.shape,
            })
        }
    }
}

/// Makes the tables of WITH known to the binder; the caller takes them away again.
pub(crate) fn define(binder: &mut Binder<'_>, with: &With) -> Result<()> {
    for table in &with.tables {
        let position = binder.position(table.name.at);
        let StatementKind::Query(query) = &*table.statement else {
            return Err(Error::unsupported("a change of rows inside a query").at(position));
        };
        if table.search.is_some() || table.cycle.is_some() {
            return Err(Error::unsupported("SEARCH and CYCLE").at(position));
        }
        // With RECURSIVE, a query that does not contain its own name is an ordinary query.
        let name = fold_name(&table.name).to_lowercase();
        let text = |query| crate::expression::with_stack(|| print::query(query));
        if with.recursive && text(query).to_lowercase().contains(&name) {
            return Err(Error::unsupported("WITH RECURSIVE").at(binder.position(with.at)));
        }
    }
    for table in &with.tables {
        let visible = binder.with.len();
        binder.with.push(CommonTable {
            name: fold_name(&table.name),
            columns: table.columns.iter().map(fold_name).collect(),
            statement: Arc::clone(&table.statement),
            visible,
            is_used: false,
        });
    }
    Ok(())
}

/// Plans a reference to the common table expression of this name, if it exists.
pub(super) fn plan_common_table(
    binder: &mut Binder<'_>,
    name: &str,
) -> Result<Option<(Node, Vec<Column>)>> {
    match binder.with.iter().rposition(|table| table.name == name) {
        Some(at) => plan_table_at(binder, at).map(Some),
        None => Ok(None),
    }
}

/// Limit on plans of common table expressions in a statement. Each reference gets its
/// own plan, so expressions that refer to the previous one twice double the work with
/// each level; without a limit, a short statement could occupy its thread for ever.
const TABLES_PLANNED_AT_MOST: usize = 500;

/// Number of planned references after which planning runs as blocking work, so that
/// other sessions of the thread need not wait.
const TABLES_PLANNED_IN_A_STEP: usize = 16;

fn plan_table_at(binder: &mut Binder<'_>, at: usize) -> Result<(Node, Vec<Column>)> {
    binder.with[at].is_used = true;
    binder.tables_planned += 1;
    let tables_planned = binder.tables_planned;
    if tables_planned > TABLES_PLANNED_AT_MOST {
        return Err(Error::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            format!(
                "tables of WITH are read more than {TABLES_PLANNED_AT_MOST} times in all, \
                 those that other tables of WITH read counted for each reader"
            ),
        )
        .with_hint("Put what is read often into a table, or split the statement."));
    }
    let table = binder.with[at].clone();
    let name = &table.name;
    let StatementKind::Query(query) = &*table.statement else {
        return Err(Error::internal("a table of WITH that is no query"));
    };
    let hidden = binder.with.split_off(table.visible);
    let frame = Frame::outermost();
    let mut plan = || plan_in_frame(binder, query, &frame);
    let plan = if tables_planned > TABLES_PLANNED_IN_A_STEP {
        coeval_env::block_in_place(plan)
    } else {
        plan()
    };
    binder.with.extend(hidden);
    let plan = plan?;
    let mut columns = plan.columns().to_vec();
    if table.columns.len() > columns.len() {
        return Err(Error::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                table.columns.len()
            ),
        ));
    }
    for (column, renamed) in columns.iter_mut().zip(table.columns) {
        column.name = renamed;
    }
    Ok((plan.root, columns))
}

fn bind_limits(binder: &mut Binder<'_>, query: &Query, frame: &Frame<'_>) -> Result<Limits> {
    let scope = Scope::empty(frame);
    let mut bind = |expr: &Expr, clause: &str| -> Result<Option<Expression>> {
        let bound = binder.bind(expr, &scope)?;
        if bound.expression == Expression::NULL {
            return Ok(None);
        }
        let data_type = bound.column_type.data_type;
        if !data_type.is_number() && data_type != DataType::Unknown {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {clause} must be type bigint, not type {data_type}"),
            )
            .at(bound.position));
        }
        let cast = binder.cast(bound, DataType::Int8.into(), CastContext::Assignment)?;
        Ok(Some(cast.expression))
    };
    let mut limits = Limits::default();
    if let Some(limit) = &query.limit {
        if limit.with_ties {
            return Err(Error::unsupported("FETCH with TIES"));
        }
        if let Some(count) = &limit.count {
            limits.limit = bind(count, "LIMIT")?;
        }
    }
    if let Some(offset) = &query.offset {
        limits.offset = bind(offset, "OFFSET")?;
    }
    Ok(limits)
}

/// Plans set operations of one precedence from the left, with a loop instead of recursion.
fn plan_steps(
    binder: &mut Binder<'_>,
    first: &Query,
    steps: &[SetStep],
    frame: &Frame<'_>,
    untyped: Untyped,
) -> Result<Planned> {
    // A query in brackets with something around it is a set of one.
    let kept = match steps.is_empty() {
        true => untyped,
        false => Untyped::Keep,
    };
    let operand = |binder: &mut Binder<'_>, query: &Query, steps_above: usize| {
        let levels = LEVELS_OF_STEP * steps_above;
        binder.below(levels, |binder| plan_parts(binder, query, frame, kept))
    };
    let mut left = operand(binder, first, steps.len())?;
    for (number, step) in steps.iter().enumerate() {
        let right = operand(binder, &step.query, steps.len() - number)?;
        left = plan_step(binder, left, right, step)?;
    }
    Ok(left)
}

/// Levels of a plan that a set operation takes: casts of its operands, and what makes rows
/// distinct.
const LEVELS_OF_STEP: usize = 3;

fn plan_step(
    binder: &mut Binder<'_>,
    left: Planned,
    right: Planned,
    step: &SetStep,
) -> Result<Planned> {
    let (left, right, columns) = match_columns(binder, left, right, step.operation)?;
    if !(step.all && step.operation == tree::SetOperation::Union) {
        check_equality(&columns)?;
    }
    let node = match step.operation {
        tree::SetOperation::Union => {
            let both = Node::Append(vec![left, right]);
            if step.all {
                both
            } else {
                Node::Distinct {
                    input: Box::new(both),
                    by: Vec::new(),
                }
            }
        }
        tree::SetOperation::Intersect | tree::SetOperation::Except => {
            Node::SetOperation(Box::new(SetOperation {
                left,
                right,
                except: step.operation == tree::SetOperation::Except,
                all: step.all,
            }))
        }
    };
    Ok(Planned {
        node,
        columns,
        shape: None,
    })
}

/// Fails if rows of these columns cannot be equal.
pub(super) fn check_equality(columns: &[Column]) -> Result<()> {
    let mut columns = columns.iter();
    match columns.find_map(|column| no_equality(column.column_type.data_type)) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Casts the columns of both sides to common types.
fn match_columns(
    binder: &mut Binder<'_>,
    left: Planned,
    right: Planned,
    operation: tree::SetOperation,
) -> Result<(Node, Node, Vec<Column>)> {
    let op = match operation {
        tree::SetOperation::Union => "UNION",
        tree::SetOperation::Intersect => "INTERSECT",
        tree::SetOperation::Except => "EXCEPT",
    };
    if left.columns.len() != right.columns.len() {
        return Err(Error::syntax(format!(
            "each {op} query must have the same number of columns"
        )));
    }
    let mut columns = left.columns.clone();
    let mut casts = [Vec::new(), Vec::new()];
    for (position, column) in columns.iter_mut().enumerate() {
        let types = [
            left.columns[position].column_type,
            right.columns[position].column_type,
        ];
        let Some(common) = common_type(&types.map(|each| each.data_type)) else {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "{op} types {} and {} cannot be matched",
                    types[0].data_type, types[1].data_type
                ),
            ));
        };
        let target = if types[0] == types[1] {
            types[0]
        } else {
            ColumnType::from(common)
        };
        for (side, given) in types.into_iter().enumerate() {
            let bound = Bound::new(Expression::Column(position), given);
            let cast = binder.cast(bound, common.into(), CastContext::Implicit)?;
            casts[side].push(cast.expression);
        }
        column.column_type = target;
        column.table_oid = 0;
        column.attribute = 0;
    }
    let [left_casts, right_casts] = casts;
    Ok((
        projected(left.node, left_casts),
        projected(right.node, right_casts),
        columns,
    ))
}

/// Adds a projection, unless it would change nothing.
fn projected(input: Node, expressions: Vec<Expression>) -> Node {
    let same = expressions
        .iter()
        .enumerate()
        .all(|(position, each)| *each == Expression::Column(position));
    if same {
        return input;
    }
    Node::Project {
        input: Box::new(input),
        expressions,
    }
}

fn plan_values(
    binder: &mut Binder<'_>,
    values: &[Vec<Expr>],
    frame: &Frame<'_>,
) -> Result<Planned> {
    let scope = Scope::empty(frame);
    let width = values.first().map_or(0, Vec::len);
    let mut by_column: Vec<Vec<Bound>> = (0..width).map(|_| Vec::new()).collect();
    for row in values {
        if row.len() != width {
            return Err(Error::syntax("VALUES lists must all be the same length"));
        }
        for (column, expr) in by_column.iter_mut().zip(row) {
            column.push(binder.bind(expr, &scope)?);
        }
    }
    let mut columns = Vec::with_capacity(width);
    let mut rows: Vec<Vec<Expression>> = values.iter().map(|_| Vec::with_capacity(width)).collect();
    for (position, bounds) in by_column.into_iter().enumerate() {
        let (expressions, column_type) = binder.unify(bounds, "VALUES")?;
        for (row, expression) in rows.iter_mut().zip(expressions) {
            row.push(expression);
        }
        columns.push(Column {
            name: format!("column{}", position + 1),
            column_type,
            table_oid: 0,
            attribute: 0,
        });
    }
    Ok(Planned {
        node: Node::Values { rows },
        columns,
        shape: None,
    })
}

/// The logical form of VALUES with one row.
fn single_row(node: &Node) -> Option<Shape> {
    let Node::Values { rows } = node else {
        return None;
    };
    let [row] = rows.as_slice() else {
        return None;
    };
    Some(Shape {
        tree: None,
        width: 0,
        conditions: Vec::new(),
        outputs: row.clone(),
        grouped: None,
        distinct: false,
        ordered: false,
        levels: 1,
    })
}

/// The output column that an ORDER BY or GROUP BY item refers to by number.
pub(super) fn by_number(
    binder: &Binder<'_>,
    expr: &Expr,
    count: usize,
    clause: &str,
) -> Result<Option<usize>> {
    let ExprKind::Literal(literal) = &expr.kind else {
        return Ok(None);
    };
    let position = binder.position(expr.at);
    match literal {
        Literal::Integer(number) => match usize::try_from(*number) {
            Ok(number) if (1..=count).contains(&number) => Ok(Some(number - 1)),
            _ => Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{clause} position {number} is not in select list"),
            )
            .at(position)),
        },
        Literal::Null => Ok(None),
        _ => Err(Error::syntax(format!("non-integer constant in {clause}")).at(position)),
    }
}

/// The name of an expression that is a column's name without a table's.
pub(super) fn bare_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Column { path, star: false } => match path.0.as_slice() {
            [name] => Some(fold_name(name)),
            _ => None,
        },
        _ => None,
    }
}

/// Binds ORDER BY of a set operation, which can refer to output columns only.
fn order_by_columns(
    binder: &mut Binder<'_>,
    order: &[SortItem],
    columns: &[Column],
) -> Result<Vec<(Expression, KeyOrder)>> {
    let mut keys = Vec::with_capacity(order.len());
    for item in order {
        let key_order = key_order(item)?;
        let position = match by_number(binder, &item.expr, columns.len(), "ORDER BY")? {
            Some(position) => Some(position),
            None => bare_name(&item.expr)
                .and_then(|name| columns.iter().position(|column| column.name == name)),
        };
        let Some(position) = position else {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
            )
            .with_detail("Only result column names can be used, not expressions or functions.")
            .with_hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.")
            .at(binder.position(item.expr.at)));
        };
        if let Some(error) = no_order(columns[position].column_type.data_type) {
            return Err(error.at(binder.position(item.expr.at)));
        }
        keys.push((Expression::Column(position), key_order));
    }
    Ok(keys)
}
