//! The planner of whole queries: WITH, set operations, VALUES, and ORDER BY and LIMIT
//! around them.

use std::sync::Arc;

use sqlparser::ast::{
    self, Expr, LimitClause, OrderByExpr, OrderByKind, OrderBySort, Query, SetExpr, SetOperator,
    SetQuantifier, Spanned, Value as Literal,
};

use super::node::{Node, SetOperation, Sort};
use super::select::{Around, plan_select};
use crate::expression::{
    Binder, Bound, CastContext, Expression, Frame, Scope, common_type, fold_name,
};
use crate::output::Column;
use crate::select::QueryPlan;
use crate::statement::Locking;
use crate::value::{ColumnType, DataType, KeyOrder};
use crate::{Error, Result, SqlState};

/// A common table expression: a query that WITH names.
#[derive(Clone, Debug)]
pub struct CommonTable {
    name: String,
    columns: Vec<String>,
    query: Arc<Query>,
    /// Number of earlier common table expressions that its query can refer to.
    visible: usize,
    /// Whether the planner has planned a reference to it.
    is_used: bool,
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
    fn is_none(&self) -> bool {
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
    if let Some(clause) = unsupported_clause(query) {
        return Err(Error::unsupported(clause).at(binder.position(query.span())));
    }
    let known = binder.with.len();
    if let Some(with) = &query.with {
        define(binder, with)?;
    }
    let planned = plan_body(binder, query, frame, untyped);
    let planned = planned.and_then(|planned| {
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
) -> Result<Planned> {
    let limits = bind_limits(binder, query, frame)?;
    let order = match &query.order_by {
        None => &[][..],
        Some(order) => match &order.kind {
            OrderByKind::Expressions(items) => items,
            OrderByKind::All(_) => return Err(Error::unsupported("ORDER BY ALL")),
        },
    };
    match &*query.body {
        SetExpr::Select(select) => {
            let around = Around {
                order,
                limits,
                locks: &query.locks,
                untyped,
            };
            plan_select(binder, select, around, frame)
        }
        body => {
            if !query.locks.is_empty() {
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!(
                        "{} is not allowed with UNION/INTERSECT/EXCEPT",
                        Locking::of(&query.locks[0])
                    ),
                ));
            }
            let planned = plan_set(binder, body, frame, untyped)?;
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
            })
        }
    }
}

fn unsupported_clause(query: &Query) -> Option<&'static str> {
    if query.for_clause.is_some() {
        return Some("FOR XML or JSON");
    }
    if query.settings.is_some() || query.format_clause.is_some() {
        return Some("SETTINGS or FORMAT");
    }
    if !query.pipe_operators.is_empty() {
        return Some("a pipe operator");
    }
    None
}

fn define(binder: &mut Binder<'_>, with: &ast::With) -> Result<()> {
    if with.recursive {
        let names_itself = with.cte_tables.iter().any(|table| {
            let name = fold_name(&table.alias.name);
            // With RECURSIVE, a query that does not contain its own name is an ordinary
            // query.
            table
                .query
                .to_string()
                .to_lowercase()
                .contains(&name.to_lowercase())
        });
        if names_itself {
            return Err(Error::unsupported("WITH RECURSIVE").at(binder.position(with.span())));
        }
    }
    for table in &with.cte_tables {
        let name = fold_name(&table.alias.name);
        let visible = binder.with.len();
        binder.with.push(CommonTable {
            name,
            columns: table
                .alias
                .columns
                .iter()
                .map(|column| fold_name(&column.name))
                .collect(),
            query: Arc::new((*table.query).clone()),
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
    let hidden = binder.with.split_off(table.visible);
    let frame = Frame::outermost();
    let mut plan = || plan_in_frame(binder, &table.query, &frame);
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
    match &query.limit_clause {
        None => {}
        Some(LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) => {
            if !limit_by.is_empty() {
                return Err(Error::unsupported("LIMIT BY"));
            }
            if let Some(limit) = limit {
                limits.limit = bind(limit, "LIMIT")?;
            }
            if let Some(offset) = offset {
                limits.offset = bind(&offset.value, "OFFSET")?;
            }
        }
        Some(LimitClause::OffsetCommaLimit { .. }) => {
            return Err(Error::syntax("LIMIT #,# syntax is not supported")
                .with_hint("Use separate LIMIT and OFFSET clauses."));
        }
    }
    if let Some(fetch) = &query.fetch {
        if fetch.with_ties || fetch.percent {
            return Err(Error::unsupported("FETCH with TIES or PERCENT"));
        }
        limits.limit = match &fetch.quantity {
            Some(quantity) => bind(quantity, "FETCH")?,
            None => Some(Expression::Constant(crate::Value::Int8(1))),
        };
    }
    Ok(limits)
}

fn plan_set(
    binder: &mut Binder<'_>,
    body: &SetExpr,
    frame: &Frame<'_>,
    untyped: Untyped,
) -> Result<Planned> {
    crate::expression::with_stack(|| plan_set_here(binder, body, frame, untyped))
}

fn plan_set_here(
    binder: &mut Binder<'_>,
    body: &SetExpr,
    frame: &Frame<'_>,
    untyped: Untyped,
) -> Result<Planned> {
    match body {
        SetExpr::Select(select) => {
            let around = Around {
                order: &[],
                limits: Limits::default(),
                locks: &[],
                untyped,
            };
            plan_select(binder, select, around, frame)
        }
        SetExpr::Query(query) => plan_parts(binder, query, frame, untyped),
        SetExpr::Values(values) => plan_values(binder, values, frame),
        SetExpr::Table(table) => {
            let name = table.table_name.clone().unwrap_or_default();
            Err(Error::unsupported(format_args!("TABLE {name}")))
        }
        SetExpr::SetOperation {
            op,
            set_quantifier,
            left,
            right,
        } => {
            let all = match set_quantifier {
                SetQuantifier::All => true,
                SetQuantifier::None | SetQuantifier::Distinct => false,
                other => return Err(Error::unsupported(format_args!("{op} {other}"))),
            };
            let left = plan_set(binder, left, frame, Untyped::Keep)?;
            let right = plan_set(binder, right, frame, Untyped::Keep)?;
            let (left, right, columns) = match_columns(binder, left, right, *op)?;
            let node = match op {
                SetOperator::Union => {
                    let both = Node::Append(vec![left, right]);
                    if all {
                        both
                    } else {
                        Node::Distinct {
                            input: Box::new(both),
                            by: Vec::new(),
                        }
                    }
                }
                SetOperator::Intersect | SetOperator::Except => {
                    Node::SetOperation(Box::new(SetOperation {
                        left,
                        right,
                        except: *op == SetOperator::Except,
                        all,
                    }))
                }
                SetOperator::Minus => return Err(Error::unsupported("MINUS")),
            };
            Ok(Planned { node, columns })
        }
        _ => Err(Error::unsupported("a change of rows inside a query")),
    }
}

/// Casts the columns of both sides to common types.
fn match_columns(
    binder: &mut Binder<'_>,
    left: Planned,
    right: Planned,
    op: SetOperator,
) -> Result<(Node, Node, Vec<Column>)> {
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
    values: &ast::Values,
    frame: &Frame<'_>,
) -> Result<Planned> {
    let scope = Scope::empty(frame);
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mut by_column: Vec<Vec<Bound>> = (0..width).map(|_| Vec::new()).collect();
    for row in &values.rows {
        if row.content.len() != width {
            return Err(Error::syntax("VALUES lists must all be the same length"));
        }
        for (column, expr) in by_column.iter_mut().zip(&row.content) {
            column.push(binder.bind(expr, &scope)?);
        }
    }
    let mut columns = Vec::with_capacity(width);
    let mut rows: Vec<Vec<Expression>> = values
        .rows
        .iter()
        .map(|_| Vec::with_capacity(width))
        .collect();
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
    })
}

/// Sort order of an ORDER BY item.
pub(super) fn key_order(item: &OrderByExpr) -> Result<KeyOrder> {
    let descending = match &item.options.sort {
        None | Some(OrderBySort::Asc) => false,
        Some(OrderBySort::Desc) => true,
        #[allow(unreachable_patterns, reason = "the parser may learn of more")]
        Some(_) => return Err(Error::unsupported("ORDER BY USING")),
    };
    if item.with_fill.is_some() {
        return Err(Error::unsupported("WITH FILL"));
    }
    Ok(KeyOrder {
        descending,
        nulls_first: item.options.nulls_first.unwrap_or(descending),
    })
}

/// The output column that an ORDER BY or GROUP BY item refers to by number.
pub(super) fn by_number(
    binder: &Binder<'_>,
    expr: &Expr,
    count: usize,
    clause: &str,
) -> Result<Option<usize>> {
    let Expr::Value(value) = expr else {
        return Ok(None);
    };
    let position = binder.position(value.span);
    match &value.value {
        Literal::Number(digits, _) => match digits.parse::<usize>() {
            Ok(number) if (1..=count).contains(&number) => Ok(Some(number - 1)),
            Ok(number) => Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{clause} position {number} is not in select list"),
            )
            .at(position)),
            Err(_) => Err(Error::syntax(format!("non-integer constant in {clause}")).at(position)),
        },
        Literal::Placeholder(_) | Literal::Null => Ok(None),
        _ => Err(Error::syntax(format!("non-integer constant in {clause}")).at(position)),
    }
}

/// Binds ORDER BY of a set operation, which can refer to output columns only.
fn order_by_columns(
    binder: &mut Binder<'_>,
    order: &[OrderByExpr],
    columns: &[Column],
) -> Result<Vec<(Expression, KeyOrder)>> {
    let mut keys = Vec::with_capacity(order.len());
    for item in order {
        let key_order = key_order(item)?;
        let position = match by_number(binder, &item.expr, columns.len(), "ORDER BY")? {
            Some(position) => Some(position),
            None => match &item.expr {
                Expr::Identifier(name) => {
                    let name = fold_name(name);
                    columns.iter().position(|column| column.name == name)
                }
                _ => None,
            },
        };
        let Some(position) = position else {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
            )
            .with_detail("Only result column names can be used, not expressions or functions.")
            .with_hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.")
            .at(binder.position(item.expr.span())));
        };
        keys.push((Expression::Column(position), key_order));
    }
    Ok(keys)
}
