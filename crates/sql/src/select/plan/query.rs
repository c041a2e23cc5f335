//! The planner of whole queries: set operations, VALUES, and ORDER BY and LIMIT around
//! them.

use coeval_sql_syntax::tree::{
    self, Body, Expr, ExprKind, Literal, Query, SetStep, SortItem, Target,
};

use super::lock::shown;
use super::node::{Node, SetOperation, Sort, WithTies};
use super::select::{Around, plan_select};
use super::shape::Shape;
use super::with::{
    around, changes_rows, plan_last_step, recursive_steps, refuse_around, with_tables,
};
use crate::expression::{
    Binder, Bound, CastContext, Expression, Frame, Recursion, Scope, common_type, fold_name,
    key_order, no_equality, no_order,
};
use crate::output::Column;
use crate::select::QueryPlan;
use crate::value::{ColumnType, DataType, KeyOrder};
use crate::{Error, Result, SqlState};

/// How the planner types a column that is a literal or parameter of unknown type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untyped {
    /// Resolves the column to text.
    Settle,
    /// Leaves the column untyped for the caller, which casts it.
    Keep,
}

/// What is asked of the plan of a query.
#[derive(Clone, Copy, Debug)]
struct Wants {
    untyped: Untyped,
    /// Whether the logical form is asked for.
    shaped: bool,
    /// Whether the rows end with the records of their tables, as a cursor needs them.
    records: bool,
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
    let planned_width = planned.columns.len();
    let mut columns = planned.columns;
    let mut node = planned.node;
    let mut assign = |position: usize, expression: Expression| -> Result<Expression> {
        let column = &mut columns[position];
        let bound = Bound::new(expression, column.column_type);
        let bound = match targets.get(position) {
            Some((name, column_type)) => binder.assign(bound, name, *column_type)?,
            // A surplus column; the caller reports the error.
            None => binder.settle(bound)?,
        };
        column.column_type = bound.column_type;
        Ok(bound.expression)
    };
    // Casts inside the select list, where a parameter's type can still be inferred.
    match select_list(&mut node) {
        Some(expressions) => replace_all(expressions, &mut assign)?,
        None => {
            let mut expressions: Vec<Expression> =
                (0..planned_width).map(Expression::Column).collect();
            replace_all(&mut expressions, &mut assign)?;
            node = Node::Project {
                input: Box::new(node),
                expressions,
            };
        }
    }
    Ok(QueryPlan::new(node, columns))
}

/// Replaces each expression by another for its position.
fn replace_all(
    expressions: &mut [Expression],
    replace: &mut dyn FnMut(usize, Expression) -> Result<Expression>,
) -> Result<()> {
    for (position, expression) in expressions.iter_mut().enumerate() {
        *expression = replace(position, std::mem::replace(expression, Expression::NULL))?;
    }
    Ok(())
}

/// The expressions that compute the columns of a query's node.
fn select_list(node: &mut Node) -> Option<&mut Vec<Expression>> {
    match node {
        Node::Project { expressions, .. } => Some(expressions),
        Node::Limit { input, .. } => select_list(input),
        Node::With(with) => select_list(&mut with.input),
        _ => None,
    }
}

/// The type with which a column of unknown type is shown.
pub(super) fn settled(column_type: ColumnType) -> ColumnType {
    match column_type.data_type {
        DataType::Unknown => DataType::Text.into(),
        _ => column_type,
    }
}

/// Casts columns of unknown type to text.
pub(super) fn settle_columns(binder: &mut Binder<'_>, planned: Planned) -> Result<Planned> {
    let Planned {
        mut node,
        mut columns,
        ..
    } = planned;
    for (position, column) in columns.iter_mut().enumerate() {
        if column.column_type.data_type == DataType::Unknown {
            let text = ColumnType::from(DataType::Text);
            cast_in_list(binder, &mut node, position, text)?;
            column.column_type = text;
        }
    }
    Ok(Planned {
        node,
        columns,
        shape: None,
    })
}

/// Casts a column of unknown type where the select list computes it, so that a parameter
/// takes that type. Returns whether there is a select list.
fn cast_in_list(
    binder: &mut Binder<'_>,
    node: &mut Node,
    position: usize,
    to: ColumnType,
) -> Result<bool> {
    let Some(expression) = select_list(node).and_then(|expressions| expressions.get_mut(position))
    else {
        return Ok(false);
    };
    let given = std::mem::replace(expression, Expression::NULL);
    let bound = Bound::new(given, DataType::Unknown);
    *expression = binder.cast(bound, to, CastContext::Implicit)?.expression;
    Ok(true)
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
#[derive(Clone, Default)]
pub(super) struct Limits {
    pub limit: Option<Expression>,
    pub offset: Option<Expression>,
    /// Whether rows with the last one's sort keys follow it.
    pub with_ties: bool,
}

impl Limits {
    pub(super) fn is_none(&self) -> bool {
        self.limit.is_none() && self.offset.is_none()
    }

    /// Number of rows that a sort below needs to return.
    pub(super) fn fetch(&self) -> Option<(Expression, Option<Expression>)> {
        let limit = self.limit.clone().filter(|_| !self.with_ties);
        limit.map(|limit| (limit, self.offset.clone()))
    }

    /// Applies LIMIT with the ties of its last row: to rows from which the sort keys can
    /// still be computed.
    pub(super) fn apply_ties(&mut self, input: Node, keys: &[(Expression, KeyOrder)]) -> Node {
        if !std::mem::take(&mut self.with_ties) {
            return input;
        }
        Node::WithTies(Box::new(WithTies {
            input,
            limit: self.limit.take(),
            offset: self.offset.take(),
            keys: keys.iter().map(|(key, _)| key.clone()).collect(),
        }))
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

pub(super) fn plan_parts(
    binder: &mut Binder<'_>,
    query: &Query,
    frame: &Frame<'_>,
    untyped: Untyped,
) -> Result<Planned> {
    let shaped = std::mem::take(&mut binder.wants_shape);
    let records = std::mem::take(&mut binder.wants_records);
    let recursive = recursive_steps(binder, query);
    let wants = Wants {
        untyped,
        shaped: shaped && query.with.is_none(),
        records,
    };
    let Some(with) = &query.with else {
        binder.bind_change = None;
        return plan_body(binder, query, recursive, frame, wants);
    };
    let (planned, commons) = with_tables(binder, with, frame, |binder| {
        plan_body(binder, query, recursive, frame, wants)
    })?;
    // Rows that a change in WITH reads as well are made before the query runs.
    let node = match changes_rows(with) {
        true => planned.node,
        false => around(planned.node, commons, frame.depth()),
    };
    // A query around this one does not take it apart: its tables belong to it.
    Ok(Planned {
        node,
        columns: planned.columns,
        shape: None,
    })
}

fn plan_body(
    binder: &mut Binder<'_>,
    query: &Query,
    recursive: Option<usize>,
    frame: &Frame<'_>,
    wants: Wants,
) -> Result<Planned> {
    let mut limits = bind_limits(binder, query, frame)?;
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
                untyped: wants.untyped,
                records: wants.records,
                shaped: wants.shaped,
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
                    if wants.shaped && limits.is_none() {
                        planned.shape = single_row(&planned.node);
                    }
                    planned
                }
                Body::Set(first, steps) => {
                    let (planned, is_recursive) =
                        plan_steps(binder, first, steps, recursive, frame, wants.untyped)?;
                    if is_recursive {
                        refuse_around(query)?;
                    }
                    planned
                }
                Body::Select(_) | Body::Table(_) => {
                    return Err(Error::internal("a select that is none"));
                }
            };
            let keys = order_by_columns(binder, order, &planned.columns)?;
            let mut node = planned.node;
            if !keys.is_empty() {
                node = Node::Sort(Box::new(Sort {
                    input: node,
                    keys: keys.clone(),
                    fetch: limits.fetch(),
                }));
            }
            node = limits.apply_ties(node, &keys);
            Ok(Planned {
                node: limits.apply(node),
                columns: planned.columns,
                shape: planned.shape,
            })
        }
    }
}

fn bind_limits(binder: &mut Binder<'_>, query: &Query, frame: &Frame<'_>) -> Result<Limits> {
    let scope = Scope::empty(frame);
    let mut bind = |expr: &Expr, clause: &'static str| -> Result<Option<Expression>> {
        let bound = binder.in_clause(clause, |binder| binder.bind(expr, &scope))?;
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
        if let Some(count) = &limit.count {
            limits.limit = bind(count, "LIMIT")?;
        }
        limits.with_ties = limit.with_ties;
        if limit.with_ties && limits.limit.is_none() {
            return Err(Error::new(
                SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
                "row count cannot be null in FETCH FIRST ... WITH TIES clause",
            ));
        }
    }
    if let Some(offset) = &query.offset {
        limits.offset = bind(offset, "OFFSET")?;
    }
    Ok(limits)
}

/// Plans set operations of one precedence from the left, with a loop instead of recursion.
/// Returns whether the last of them is recursive, as that of the table of WITH that is
/// given may be.
fn plan_steps(
    binder: &mut Binder<'_>,
    first: &Query,
    steps: &[SetStep],
    recursive: Option<usize>,
    frame: &Frame<'_>,
    untyped: Untyped,
) -> Result<(Planned, bool)> {
    // A query in brackets with something around it is a set of one.
    let kept = match steps.is_empty() {
        true => untyped,
        false => Untyped::Keep,
    };
    let operand = |binder: &mut Binder<'_>, query: &Query, steps_above: usize| {
        let levels = LEVELS_OF_STEP * steps_above;
        binder.below(levels, |binder| plan_parts(binder, query, frame, kept))
    };
    let place = binder.recursion;
    // EXCEPT's left side may be recursive, unless its duplicates count.
    let on_the_left = steps.iter().find_map(|step| match step.operation {
        tree::SetOperation::Intersect if step.all => Some(Recursion::Within("INTERSECT")),
        tree::SetOperation::Except if step.all => Some(Recursion::Within("EXCEPT")),
        _ => None,
    });
    binder.recursion = on_the_left.unwrap_or(place);
    let left = operand(binder, first, steps.len());
    binder.recursion = place;
    let mut left = left?;
    let mut is_recursive = false;
    for (number, step) in steps.iter().enumerate() {
        let is_last = number + 1 == steps.len();
        let right = |binder: &mut Binder<'_>| operand(binder, &step.query, steps.len() - number);
        if let (true, Some(at)) = (is_last, recursive) {
            let join = |binder: &mut Binder<'_>, left, right| plan_step(binder, left, right, step);
            (left, is_recursive) = plan_last_step(binder, at, left, right, join, !step.all)?;
            continue;
        }
        binder.recursion = match step.operation {
            tree::SetOperation::Union => place,
            tree::SetOperation::Intersect if step.all => Recursion::Within("INTERSECT"),
            tree::SetOperation::Intersect => place,
            tree::SetOperation::Except => Recursion::Within("EXCEPT"),
        };
        let planned = right(binder);
        binder.recursion = place;
        left = plan_step(binder, left, planned?, step)?;
    }
    Ok((left, is_recursive))
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
    mut left: Planned,
    mut right: Planned,
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
        let target = if types[0] == types[1] && types[0].data_type == common {
            types[0]
        } else {
            ColumnType::from(common)
        };
        for (side, mut given) in types.into_iter().enumerate() {
            let node = if side == 0 {
                &mut left.node
            } else {
                &mut right.node
            };
            if given.data_type == DataType::Unknown
                && cast_in_list(binder, node, position, common.into())?
            {
                given = common.into();
            }
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
    binder.in_clause("VALUES", |binder| plan_values_here(binder, values, frame))
}

fn plan_values_here(
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
