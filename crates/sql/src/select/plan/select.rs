//! The planner of one SELECT: its list, grouping and order.
//!
//! ```text
//!   Limit ─ Distinct ─ Project ─ Lock ─ Sort ─ [ProjectSet] ─ [Filter having ─ Aggregate] ─ FROM
//! ```
//!
//! The binder binds every clause above FROM against FROM's columns; in a grouped query
//! it then matches expressions outside aggregates with the grouping expressions, and
//! rejects those that do not match.

use coeval_sql_syntax::tree::{
    self, Distinctness, Expr, ExprKind, Locking, Path as Name, SortItem, Target,
};

use super::from::{FromKind, FromNode, bind_from};
use super::group::{Regroup, bind_groups};
use super::join_tree::{is_never_true, spread, used_by_tree, used_columns};
use super::layout::arrange;
use super::lock::bind_locks;
use super::name::column_name;
use super::node::{Aggregate, Lock, Node, ProjectSet, SetFunction, Sort};
use super::query::{Limits, Planned, Untyped, bare_name, by_number, check_equality};
use super::shape::{Grouped, LEVELS_AT_MOST, Shape, is_small, levels};
use super::simplify::{Logical, simplify};
use crate::expression::{
    Aggregates, Binder, Bound, Expression, Frame, Scope, ScopeColumn, fold_name, key_order,
    no_order,
};
use crate::output::Column;
use crate::plan::Path;
use crate::statement::not_here;
use crate::value::{KeyOrder, Value};
use crate::{Error, Result, SqlState};

/// A result column while the planner binds the select list.
pub(super) struct Output {
    pub name: String,
    pub bound: Bound,
    pub origin: Option<(u32, i16)>,
}

type SortKey = (Expression, KeyOrder);

/// Clauses of the enclosing query that apply to a SELECT.
pub(super) struct Around<'a> {
    pub order: &'a [SortItem],
    pub limits: Limits,
    pub locks: &'a [Locking],
    pub untyped: Untyped,
    /// Whether the rows end with the records of their tables, as a cursor needs them.
    pub records: bool,
    /// Whether the logical form is asked for.
    pub shaped: bool,
}

pub(super) fn plan_select(
    binder: &mut Binder<'_>,
    select: &tree::Select,
    around: Around<'_>,
    frame: &Frame<'_>,
) -> Result<Planned> {
    refuse_unsupported(binder, select)?;
    let outside = std::mem::replace(&mut binder.aggregates, Aggregates::Forbidden("FROM"));
    let sets = binder.sets.take();
    let planned = plan_here(binder, select, around, frame);
    binder.aggregates = outside;
    binder.sets = sets;
    planned
}

fn refuse_unsupported(binder: &Binder<'_>, select: &tree::Select) -> Result<()> {
    if let Some(into) = &select.into {
        let place = binder.position(into.name.at());
        return Err(not_here().at(place));
    }
    if let Some((name, _)) = select.windows.first() {
        return Err(Error::unsupported("a window").at(binder.position(name.at)));
    }
    Ok(())
}

fn plan_here(
    binder: &mut Binder<'_>,
    select: &tree::Select,
    around: Around<'_>,
    frame: &Frame<'_>,
) -> Result<Planned> {
    let Around {
        order,
        limits,
        locks,
        untyped,
        records,
        shaped,
    } = around;
    let scans_one = is_one_table(&select.from);
    let with_records = !locks.is_empty() || records && scans_one;
    let (scope, mut tree) = bind_from(binder, &select.from, frame, with_records)?;
    binder.aggregates = Aggregates::Forbidden("WHERE");
    let mut conditions = match &select.filter {
        Some(filter) => binder.bind_condition(filter, &scope, "WHERE")?.conjuncts(),
        None => Vec::new(),
    };

    binder.aggregates = Aggregates::Collected(Vec::new());
    binder.sets = Some(Vec::new());
    let mut outputs = Vec::with_capacity(select.targets.len());
    for item in &select.targets {
        bind_item(binder, item, &scope, untyped, &mut outputs)?;
    }
    let mut sets = binder.sets.take().unwrap_or_default();
    let having = match &select.having {
        Some(having) => Some(binder.bind_condition(having, &scope, "HAVING")?),
        None => None,
    };
    let mut sort = bind_order(binder, order, &outputs, &scope)?;
    let distinct_on = match &select.distinct {
        Distinctness::On(list) => Some(bind_distinct_on(binder, list, &outputs, &scope)?),
        _ => None,
    };
    let Aggregates::Collected(calls) =
        std::mem::replace(&mut binder.aggregates, Aggregates::Forbidden("GROUP BY"))
    else {
        return Err(Error::internal("aggregates were not collected"));
    };
    let groups = bind_groups(binder, &select.group, &outputs, &scope)?;
    let grouped = !calls.is_empty() || groups.is_some() || having.is_some();

    let is_distinct = select.distinct != Distinctness::All;
    let collected = if is_distinct {
        Some("DISTINCT clause")
    } else if groups.is_some() {
        Some("GROUP BY clause")
    } else if having.is_some() {
        Some("HAVING clause")
    } else if !calls.is_empty() {
        Some("aggregate functions")
    } else {
        None
    };
    let lock = bind_locks(binder, locks, tree.as_ref(), &conditions, collected)?;
    let places = match records && collected.is_none() {
        true => record_places(lock.as_ref(), tree.as_ref().filter(|_| scans_one)),
        false => Vec::new(),
    };

    // Behind GROUP BY, expressions are over rows of the groups.
    let mut distinct_on = distinct_on;
    let mut grouping = match grouped {
        false => None,
        true => {
            let keys = groups.unwrap_or_default();
            let regroup = Regroup {
                keys: &keys,
                scope: &scope,
            };
            for output in &mut outputs {
                regroup
                    .apply(&mut output.bound.expression)
                    .map_err(|error| error.at(output.bound.position))?;
            }
            for (key, _) in &mut sort {
                regroup.apply(key)?;
            }
            for expression in distinct_on.iter_mut().flatten() {
                regroup.apply(expression)?;
            }
            for argument in sets.iter_mut().flat_map(|set| &mut set.arguments) {
                regroup.apply(argument)?;
            }
            let mut having = having;
            if let Some(having) = &mut having {
                regroup.apply(having)?;
            }
            Some(Grouped {
                keys,
                calls,
                having,
            })
        }
    };

    // Relations whose rows are locked, or named by a cursor, stay where they are.
    let mut shape = None;
    if !with_records {
        let mut width = tree.as_ref().map_or(0, |tree| tree.end);
        let mut rows = rows_of(&mut outputs, &mut sort, &mut distinct_on, &mut sets);
        let mut logical = Logical {
            tree: &mut tree,
            width: &mut width,
            conditions: &mut conditions,
            grouping: &mut grouping,
            rows: &mut rows,
        };
        simplify(binder, &mut logical)?;
        let levels = 1 + tree.as_ref().map_or(0, levels);
        let is_small = levels <= LEVELS_AT_MOST && tree.as_ref().is_none_or(is_small);
        if shaped && is_small && limits.is_none() && sets.is_empty() && distinct_on.is_none() {
            shape = Some(Shape {
                tree: tree.clone(),
                width,
                conditions: conditions.clone(),
                outputs: outputs
                    .iter()
                    .map(|output| output.bound.expression.clone())
                    .collect(),
                grouped: grouping.clone(),
                distinct: is_distinct,
                ordered: !sort.is_empty(),
                levels,
            });
        }
        let mut rows = rows_of(&mut outputs, &mut sort, &mut distinct_on, &mut sets);
        let mut logical = Logical {
            tree: &mut tree,
            width: &mut width,
            conditions: &mut conditions,
            grouping: &mut grouping,
            rows: &mut rows,
        };
        arrange(binder, &mut logical)?;
    }

    // Columns of the FROM list that any clause uses.
    let mut used = match &grouping {
        Some(grouped) => used_columns(grouped.expressions()),
        None => used_columns(
            outputs
                .iter()
                .map(|output| &output.bound.expression)
                .chain(sort.iter().map(|(key, _)| key))
                .chain(distinct_on.iter().flatten())
                .chain(sets.iter().flat_map(|set| &set.arguments)),
        ),
    };
    used.extend(used_columns(&conditions));
    if let Some(tree) = &tree {
        used_by_tree(tree, &mut used);
    }
    let never = conditions.iter().any(is_never_true);
    let mut width = tree.as_ref().map_or(0, |tree| tree.end);
    let mut node = spread(tree, conditions, &used, with_records);
    if never {
        node = Node::Limit {
            input: Box::new(node),
            limit: Some(Expression::Constant(Value::Int8(0))),
            offset: None,
        };
    }
    if let Some(grouped) = grouping {
        width = grouped.keys.len() + grouped.calls.len();
        node = group(node, grouped);
    }

    if !sets.is_empty() {
        let expressions = outputs
            .iter_mut()
            .map(|output| &mut output.bound.expression)
            .chain(sort.iter_mut().map(|(key, _)| key))
            .chain(distinct_on.iter_mut().flatten());
        for expression in expressions {
            place_sets(expression, width);
        }
        node = Node::ProjectSet(Box::new(ProjectSet {
            input: node,
            functions: sets,
        }));
    }

    let columns: Vec<Column> = outputs
        .iter()
        .map(|output| Column {
            name: output.name.clone(),
            column_type: output.bound.column_type,
            table_oid: output.origin.map_or(0, |(table, _)| table),
            attribute: output.origin.map_or(0, |(_, attribute)| attribute),
        })
        .collect();
    let mut expressions: Vec<Expression> = outputs
        .into_iter()
        .map(|output| output.bound.expression)
        .collect();

    let plain_distinct = select.distinct == Distinctness::Distinct;
    if plain_distinct {
        check_equality(&columns)?;
    }
    if plain_distinct {
        let mut keys = Vec::with_capacity(sort.len());
        for (key, order) in sort {
            let position = expressions
                .iter()
                .position(|expression| *expression == key)
                .ok_or_else(|| {
                    Error::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    )
                })?;
            keys.push((Expression::Column(position), order));
        }
        node = Node::Distinct {
            input: Box::new(Node::Project {
                input: Box::new(node),
                expressions,
            }),
            by: Vec::new(),
        };
        if !keys.is_empty() {
            node = Node::Sort(Box::new(Sort {
                input: node,
                keys,
                fetch: limits.fetch(),
            }));
        }
        return Ok(Planned {
            node: limits.apply(node),
            columns,
            shape,
        });
    }

    if !sort.is_empty() && !use_index_order(&mut node, &sort) {
        let fetch = if distinct_on.is_none() && lock.is_none() {
            limits.fetch()
        } else {
            None
        };
        node = Node::Sort(Box::new(Sort {
            input: node,
            keys: sort,
            fetch,
        }));
    }
    if let Some(mut lock) = lock {
        lock.input = node;
        node = Node::Lock(Box::new(lock));
    }
    if let Some(by) = distinct_on {
        node = Node::Distinct {
            input: Box::new(node),
            by,
        };
    }
    for (table, place) in places {
        expressions.push(Expression::Column(place));
        binder.records.push(table);
    }
    node = Node::Project {
        input: Box::new(node),
        expressions,
    };
    Ok(Planned {
        node: limits.apply(node),
        columns,
        shape,
    })
}

/// Whether a FROM list names one relation and nothing else.
fn is_one_table(list: &[tree::TableRef]) -> bool {
    let [only] = list else {
        return false;
    };
    only.joins.is_empty() && matches!(only.first, tree::TableFactor::Table { .. })
}

/// Where a row of the FROM list has the records of the tables that WHERE CURRENT OF may name,
/// with the OIDs of those: the tables whose rows are locked, or the only one that is scanned.
fn record_places(lock: Option<&Lock>, tree: Option<&FromNode>) -> Vec<(u32, usize)> {
    if let Some(lock) = lock {
        let targets = lock.targets.iter();
        return targets.map(|each| (each.table.oid, each.record)).collect();
    }
    match tree {
        Some(FromNode {
            kind: FromKind::Table(table, _),
            start,
            ..
        }) => vec![(table.oid, start + table.columns.len())],
        _ => Vec::new(),
    }
}

/// The expressions of a SELECT behind FROM, WHERE and GROUP BY.
fn rows_of<'a>(
    outputs: &'a mut [Output],
    sort: &'a mut [SortKey],
    distinct_on: &'a mut Option<Vec<Expression>>,
    sets: &'a mut [SetFunction],
) -> Vec<&'a mut Expression> {
    outputs
        .iter_mut()
        .map(|output| &mut output.bound.expression)
        .chain(sort.iter_mut().map(|(key, _)| key))
        .chain(distinct_on.iter_mut().flatten())
        .chain(sets.iter_mut().flat_map(|set| &mut set.arguments))
        .collect()
}

/// Groups the rows of a node.
pub(super) fn group(input: Node, grouped: Grouped) -> Node {
    let node = Node::Aggregate(Box::new(Aggregate {
        input,
        keys: grouped.keys,
        calls: grouped.calls,
    }));
    match grouped.having {
        None => node,
        Some(condition) => Node::Filter {
            input: Box::new(node),
            condition,
        },
    }
}

/// Replaces references to set-returning functions by column positions after the row's
/// own columns.
fn place_sets(expression: &mut Expression, width: usize) {
    if let Expression::SetResult(number) = expression {
        *expression = Expression::Column(width + *number);
        return;
    }
    expression.children_mut(&mut |child| place_sets(child, width));
}

/// If the query reads a single table and an index has the wanted order, lets the scan
/// use the index and returns true.
fn use_index_order(node: &mut Node, sort: &[SortKey]) -> bool {
    let Node::Scan(scan) = node else {
        return false;
    };
    let mut wanted = Vec::with_capacity(sort.len());
    for (key, order) in sort {
        match key {
            Expression::Column(position) if *position < scan.table.columns.len() => {
                wanted.push((*position, *order));
            }
            // A constant key does not affect the order.
            key if !key.uses_row() && !key.is_volatile() => {}
            _ => return false,
        }
    }
    if let Some(direction) = scan.path.direction_for(&wanted) {
        scan.direction = direction;
        return true;
    }
    if matches!(scan.path, Path::Table)
        && let Some((path, direction)) = Path::ordered(&scan.table, &wanted)
    {
        scan.path = path;
        scan.direction = direction;
        return true;
    }
    false
}

fn bind_item(
    binder: &mut Binder<'_>,
    item: &Target,
    scope: &Scope<'_>,
    untyped: Untyped,
    outputs: &mut Vec<Output>,
) -> Result<()> {
    match item {
        Target::Expr(
            Expr {
                kind: ExprKind::Column { path, star: true },
                ..
            },
            label,
        ) => {
            if let Some(label) = label {
                // PostgreSQL's grammar permits it, and its analysis does not.
                return Err(Error::unsupported("a name for all columns of a table")
                    .at(binder.position(label.at)));
            }
            all_columns(binder, path, scope, outputs)?;
        }
        Target::Expr(expr, label) => {
            let name = label.as_ref().map_or_else(|| column_name(expr), fold_name);
            outputs.push(bind_output(binder, expr, name, scope, untyped)?);
        }
        Target::Star(at) => {
            if scope.relations.is_empty() {
                return Err(
                    Error::syntax("SELECT * with no tables specified is not valid")
                        .at(binder.position(*at)),
                );
            }
            for relation in &scope.relations {
                for (column, merged) in relation.columns.iter().zip(&relation.merged) {
                    if !merged {
                        binder.views.used(column.origin);
                        outputs.push(star(column));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Appends the columns of the table that `t.*` names.
fn all_columns(
    binder: &mut Binder<'_>,
    path: &Name,
    scope: &Scope<'_>,
    outputs: &mut Vec<Output>,
) -> Result<()> {
    let position = binder.position(path.at());
    let parts: Vec<String> = path.0.iter().map(fold_name).collect();
    let (schema, table) = match parts.as_slice() {
        [table] => (None, table.as_str()),
        [schema, table] => (Some(schema.as_str()), table.as_str()),
        _ => return Err(Error::syntax("improper relation name").at(position)),
    };
    let relation = scope.relation(schema, table)?.ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_TABLE,
            format!("missing FROM-clause entry for table \"{table}\""),
        )
        .at(position)
    })?;
    for column in &relation.columns {
        binder.views.used(column.origin);
        outputs.push(star(column));
    }
    Ok(())
}

fn star(column: &ScopeColumn) -> Output {
    Output {
        name: column.name.to_string(),
        bound: Bound::new(column.expression.clone(), column.column_type),
        origin: column.origin,
    }
}

fn bind_output(
    binder: &mut Binder<'_>,
    expr: &Expr,
    name: String,
    scope: &Scope<'_>,
    untyped: Untyped,
) -> Result<Output> {
    let origin = origin_of(expr, scope);
    let mut bound = binder.bind(expr, scope)?;
    if untyped == Untyped::Settle {
        bound = binder.settle(bound)?;
    }
    Ok(Output {
        name,
        bound,
        origin,
    })
}

/// Table and attribute that an expression shows unchanged, if it is a plain column.
fn origin_of(expr: &Expr, scope: &Scope<'_>) -> Option<(u32, i16)> {
    let ExprKind::Column { path, star: false } = &expr.kind else {
        return None;
    };
    let names: Vec<String> = path.0.iter().map(fold_name).collect();
    let column = match names.as_slice() {
        [name] => scope.find(name).ok()?,
        [relation, name] => scope.qualified_column(None, relation, name).ok(),
        _ => None,
    };
    column?.origin
}

/// The output column that an item refers to by number or name.
pub(super) fn output_by_reference(
    binder: &Binder<'_>,
    expr: &Expr,
    outputs: &[Output],
    clause: &str,
) -> Result<Option<usize>> {
    if let Some(position) = by_number(binder, expr, outputs.len(), clause)? {
        return Ok(Some(position));
    }
    let Some(name) = bare_name(expr) else {
        return Ok(None);
    };
    let mut found: Option<usize> = None;
    for (position, output) in outputs.iter().enumerate() {
        if output.name != name {
            continue;
        }
        match found {
            Some(first) if outputs[first].bound.expression != output.bound.expression => {
                return Err(Error::new(
                    SqlState::AMBIGUOUS_COLUMN,
                    format!("{clause} \"{name}\" is ambiguous"),
                )
                .at(binder.position(expr.at)));
            }
            Some(_) => {}
            None => found = Some(position),
        }
    }
    Ok(found)
}

fn bind_order(
    binder: &mut Binder<'_>,
    order: &[SortItem],
    outputs: &[Output],
    scope: &Scope<'_>,
) -> Result<Vec<SortKey>> {
    let mut keys: Vec<SortKey> = Vec::with_capacity(order.len());
    for item in order {
        let key_order = key_order(item)?;
        let bound = match output_by_reference(binder, &item.expr, outputs, "ORDER BY")? {
            Some(position) => outputs[position].bound.clone(),
            None => {
                let bound = binder.bind(&item.expr, scope)?;
                binder.settle(bound)?
            }
        };
        if let Some(error) = no_order(bound.column_type.data_type) {
            return Err(error.at(binder.position(item.expr.at)));
        }
        let expression = bound.expression;
        // A repeated sort key changes nothing.
        if !keys.iter().any(|(known, _)| *known == expression) {
            keys.push((expression, key_order));
        }
    }
    Ok(keys)
}

fn bind_distinct_on(
    binder: &mut Binder<'_>,
    list: &[Expr],
    outputs: &[Output],
    scope: &Scope<'_>,
) -> Result<Vec<Expression>> {
    list.iter()
        .map(|expr| {
            Ok(
                match output_by_reference(binder, expr, outputs, "DISTINCT ON")? {
                    Some(position) => outputs[position].bound.expression.clone(),
                    None => {
                        let bound = binder.bind(expr, scope)?;
                        binder.settle(bound)?.expression
                    }
                },
            )
        })
        .collect()
}

/// Binds a list of expressions over the rows of `scope`, such as that of RETURNING.
pub fn bind_list(
    binder: &mut Binder<'_>,
    items: &[Target],
    scope: &Scope<'_>,
) -> Result<(Vec<Column>, Vec<Expression>)> {
    let mut outputs = Vec::with_capacity(items.len());
    for item in items {
        bind_item(binder, item, scope, Untyped::Settle, &mut outputs)?;
    }
    Ok(outputs
        .into_iter()
        .map(|output| {
            let (table_oid, attribute) = output.origin.unwrap_or((0, 0));
            let column = Column {
                name: output.name,
                column_type: output.bound.column_type,
                table_oid,
                attribute,
            };
            (column, output.bound.expression)
        })
        .unzip())
}
