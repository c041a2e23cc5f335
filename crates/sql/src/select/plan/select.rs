//! The planner of one SELECT: its list, grouping and order.
//!
//! ```text
//!   Limit ─ Distinct ─ Project ─ Lock ─ Sort ─ [ProjectSet] ─ [Window] ─ [Filter having ─ Aggregate] ─ FROM
//! ```
//!
//! The binder binds every clause above FROM against FROM's columns; in a grouped query
//! it then matches expressions outside aggregates with the grouping expressions, and
//! rejects those that do not match.

use coeval_sql_syntax::tree::{self, Distinctness, Locking, SortItem};

use super::from::{FromKind, FromNode, bind_from};
use super::group::{Regroup, bind_groups, tables_of};
use super::join_tree::{is_never_true, spread, used_by_tree, used_columns};
use super::layout::arrange;
use super::lock::bind_locks;
use super::node::{Aggregate, Lock, Node, ProjectSet, SetFunction, Sort};
use super::output::{Output, SortKey, bind_distinct_on, bind_item, bind_order};
use super::query::{Limits, Planned, Untyped, check_equality};
use super::shape::{Grouped, LEVELS_AT_MOST, Shape, is_small, levels};
use super::simplify::{Logical, simplify};
use super::window::{place_windows, plan_windows};
use super::with::{is_working_table, no_aggregates, references, set_references};
use crate::expression::{
    AggregateCall, Aggregates, Binder, Expression, Frame, WindowList, Windows,
};
use crate::output::Column;
use crate::plan::Path;
use crate::statement::not_here;
use crate::value::{KeyOrder, Value};
use crate::{Error, Result, SqlState};

/// Clauses of the enclosing query that apply to a SELECT.
#[derive(Clone)]
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
    let sets = binder.sets.take();
    let groupings = std::mem::take(&mut binder.groupings);
    let wanted = frame.wants_records();
    let referred = references(binder);
    let plan = |binder: &mut Binder<'_>| {
        binder.in_clause("functions in FROM", |binder| {
            plan_here(binder, select, &around, frame)
        })
    };
    let mut planned = plan(binder);
    if planned.is_err() && !wanted && frame.wants_records() {
        binder.sets = None;
        binder.groupings.clear();
        set_references(binder, &referred);
        planned = plan(binder);
    }
    binder.groupings = groupings;
    binder.sets = sets;
    planned
}

fn refuse_unsupported(binder: &Binder<'_>, select: &tree::Select) -> Result<()> {
    if let Some(into) = &select.into {
        let place = binder.position(into.name.at());
        return Err(not_here().at(place));
    }
    Ok(())
}

fn plan_here(
    binder: &mut Binder<'_>,
    select: &tree::Select,
    around: &Around<'_>,
    frame: &Frame<'_>,
) -> Result<Planned> {
    let Around {
        order,
        mut limits,
        locks,
        untyped,
        records,
        shaped,
    } = around.clone();
    let scans_one = is_one_table(&select.from);
    // Relations whose rows are locked, or named by a cursor, stay where they are.
    let stays = !locks.is_empty() || records && scans_one;
    let with_records = stays || frame.wants_records();
    let (scope, mut tree) = bind_from(binder, &select.from, frame, with_records)?;
    binder.aggregates = Aggregates::Forbidden("WHERE");
    let mut conditions = match &select.filter {
        Some(filter) => binder.bind_condition(filter, &scope, "WHERE")?.conjuncts(),
        None => Vec::new(),
    };

    binder.aggregates = Aggregates::Collected(Vec::new());
    binder.windows = Windows::Collected(WindowList::default());
    binder.name_windows(&select.windows, &scope)?;
    binder.sets = Some(Vec::new());
    let mut outputs = Vec::with_capacity(select.targets.len());
    for item in &select.targets {
        bind_item(binder, item, &scope, untyped, &mut outputs)?;
    }
    let sets = binder.sets.take().unwrap_or_default();
    let having = match &select.having {
        Some(having) => {
            let windows = std::mem::replace(&mut binder.windows, Windows::Forbidden);
            let having = binder.bind_condition(having, &scope, "HAVING")?;
            binder.windows = windows;
            Some(having)
        }
        None => None,
    };
    let sort = bind_order(binder, order, &outputs, &scope)?;
    let distinct_on = match &select.distinct {
        Distinctness::On(list) => Some(bind_distinct_on(binder, list, &outputs, &scope)?),
        _ => None,
    };
    let windows = std::mem::replace(&mut binder.windows, Windows::Forbidden);
    let aggregates = std::mem::replace(&mut binder.aggregates, Aggregates::Forbidden("GROUP BY"));
    let (Aggregates::Collected(calls), Windows::Collected(windows)) = (aggregates, windows) else {
        return Err(Error::internal("aggregates were not collected"));
    };
    let groupings = std::mem::take(&mut binder.groupings);
    let distinct_groups = select.group_distinct;
    let groups = bind_groups(binder, &select.group, distinct_groups, &outputs, &scope)?;
    let grouped =
        !calls.is_empty() || groups.is_some() || having.is_some() || !groupings.is_empty();
    if !calls.is_empty() && tree.as_ref().is_some_and(reads_working_table) {
        return Err(no_aggregates());
    }
    if windows.has(&is_set_result) {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "window function calls cannot contain set-returning function calls",
        ));
    }

    let is_distinct = select.distinct != Distinctness::All;
    let collected = if is_distinct {
        Some("DISTINCT clause")
    } else if groups.is_some() {
        Some("GROUP BY clause")
    } else if having.is_some() {
        Some("HAVING clause")
    } else if !calls.is_empty() {
        Some("aggregate functions")
    } else if !windows.calls.is_empty() {
        Some("window functions")
    } else {
        None
    };
    let lock = bind_locks(binder, locks, tree.as_ref(), &conditions, collected)?;
    let places = match records && collected.is_none() {
        true => record_places(lock.as_ref(), tree.as_ref().filter(|_| scans_one)),
        false => Vec::new(),
    };

    let mut clauses = Clauses {
        outputs,
        sort,
        distinct_on,
        sets,
        windows,
    };
    let mut grouping = match grouped {
        false => None,
        true => {
            let mut tables = Vec::new();
            if let Some(tree) = &tree {
                tables_of(tree, &mut tables);
            }
            let mut groups = groups.unwrap_or_default();
            let regroup = Regroup {
                groups: &mut groups,
                calls: calls.len(),
                tables: &tables,
                scope: &scope,
            };
            Some(clauses.regroup(regroup, calls, &groupings, having)?)
        }
    };

    let mut shape = None;
    if !stays {
        let mut width = tree.as_ref().map_or(0, |tree| tree.end);
        let mut rows = clauses.rows();
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
        // What windows and grouping sets compute from depends on all rows.
        let has_sets = grouping.as_ref().is_some_and(|each| each.sets.is_some());
        if shaped && is_small && limits.is_none() && clauses.are_plain() && !has_sets {
            shape = Some(Shape {
                tree: tree.clone(),
                width,
                conditions: conditions.clone(),
                outputs: clauses
                    .outputs
                    .iter()
                    .map(|output| output.bound.expression.clone())
                    .collect(),
                grouped: grouping.clone(),
                distinct: is_distinct,
                ordered: !clauses.sort.is_empty(),
                levels,
            });
        }
        let mut rows = clauses.rows();
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
        None => used_columns(clauses.rows().into_iter().map(|each| &*each)),
    };
    used.extend(used_columns(&conditions));
    if let Some(tree) = &tree {
        used_by_tree(tree, &mut used);
    }
    let never = conditions.iter().any(is_never_true);
    let mut width = tree.as_ref().map_or(0, |tree| tree.end);
    let mut node = spread(tree, conditions, &used);
    if never {
        node = Node::Limit {
            input: Box::new(node),
            limit: Some(Expression::Constant(Value::Int8(0))),
            offset: None,
        };
    }
    let mut sorted_before = Vec::new();
    if let Some(grouped) = grouping {
        width = grouped.keys.len() + grouped.calls.len() + grouped.groupings.len();
        sorted_before = (0..grouped.keys.len()).map(Expression::Column).collect();
        node = group(node, grouped);
    }

    let windows = std::mem::take(&mut clauses.windows);
    if !windows.calls.is_empty() {
        let sort = clauses.sort.iter().map(|(key, _)| key.clone());
        let sorted: Vec<Expression> = sort.chain(sorted_before).collect();
        let before = width;
        width += windows.calls.len();
        node = plan_windows(node, windows, sorted);
        for expression in clauses.rows() {
            place_windows(expression, before);
        }
    }

    let sets = std::mem::take(&mut clauses.sets);
    if !sets.is_empty() {
        for expression in clauses.rows() {
            place_sets(expression, width);
        }
        node = Node::ProjectSet(Box::new(ProjectSet {
            input: node,
            functions: sets,
        }));
    }

    let Clauses {
        outputs,
        mut sort,
        distinct_on,
        ..
    } = clauses;
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
                keys: keys.clone(),
                fetch: limits.fetch(),
            }));
        }
        node = limits.apply_ties(node, &keys);
        return Ok(Planned {
            node: limits.apply(node),
            columns,
            shape,
        });
    }

    if let Some(by) = &distinct_on {
        sort_by_distinct(&mut sort, by)?;
    }
    let order_keys = sort.clone();
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
    node = limits.apply_ties(node, &order_keys);
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

/// The clauses of a SELECT behind FROM, WHERE and GROUP BY.
struct Clauses {
    outputs: Vec<Output>,
    sort: Vec<SortKey>,
    distinct_on: Option<Vec<Expression>>,
    sets: Vec<SetFunction>,
    windows: WindowList,
}

impl Clauses {
    /// The expressions over rows of the FROM list, or of the groups.
    fn rows(&mut self) -> Vec<&mut Expression> {
        let mut rows: Vec<&mut Expression> = self
            .outputs
            .iter_mut()
            .map(|output| &mut output.bound.expression)
            .chain(self.sort.iter_mut().map(|(key, _)| key))
            .chain(self.distinct_on.iter_mut().flatten())
            .chain(self.sets.iter_mut().flat_map(|set| &mut set.arguments))
            .collect();
        self.windows.expressions_mut(&mut |each| rows.push(each));
        rows
    }

    /// Whether each row gives one row of the result, which depends on no other.
    fn are_plain(&self) -> bool {
        self.sets.is_empty() && self.distinct_on.is_none() && self.windows.calls.is_empty()
    }

    /// Makes the expressions ones over rows of the groups.
    fn regroup(
        &mut self,
        mut regroup: Regroup<'_>,
        mut calls: Vec<AggregateCall>,
        groupings: &[Vec<Expression>],
        mut having: Option<Expression>,
    ) -> Result<Grouped> {
        let direct = calls.iter_mut().flat_map(|call| &mut call.direct);
        let others: Vec<&mut Expression> = direct.chain(&mut having).collect();
        let count = self.outputs.len();
        for expression in self.rows().iter().chain(&others) {
            regroup.add_dependent(expression);
        }
        let groupings = groupings
            .iter()
            .map(|arguments| regroup.grouping(arguments))
            .collect::<Result<Vec<_>>>()?;
        for output in &mut self.outputs {
            regroup
                .apply(&mut output.bound.expression)
                .map_err(|error| error.at(output.bound.position))?;
        }
        for expression in self.rows().into_iter().skip(count).chain(others) {
            regroup.apply(expression)?;
        }
        Ok(Grouped {
            keys: std::mem::take(&mut regroup.groups.keys),
            sets: regroup.groups.sets.take(),
            calls,
            groupings,
            having,
        })
    }
}

/// Groups the rows of a node.
pub(super) fn group(input: Node, grouped: Grouped) -> Node {
    let keys = grouped.keys;
    let all_keys = || vec![(0..keys.len()).collect()];
    let sets = grouped.sets.unwrap_or_else(all_keys);
    let node = Node::Aggregate(Box::new(Aggregate {
        input,
        keys,
        calls: grouped.calls,
        sets,
        groupings: grouped.groupings,
    }));
    match grouped.having {
        None => node,
        Some(condition) => Node::Filter {
            input: Box::new(node),
            condition,
        },
    }
}

/// Sorts by the expressions of DISTINCT ON, after those that ORDER BY begins with: of equal
/// rows the first is kept.
fn sort_by_distinct(sort: &mut Vec<SortKey>, by: &[Expression]) -> Result<()> {
    let others = sort.iter().position(|(key, _)| !by.contains(key));
    let begun = &sort[..others.unwrap_or(sort.len())];
    let missing: Vec<&Expression> = by
        .iter()
        .filter(|each| !begun.iter().any(|(key, _)| key == *each))
        .collect();
    if others.is_some() && !missing.is_empty() {
        return Err(Error::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
        ));
    }
    for key in missing {
        if !sort.iter().any(|(known, _)| known == key) {
            sort.push((key.clone(), KeyOrder::ASCENDING));
        }
    }
    Ok(())
}

/// Whether a recursive query's own rows stand in the FROM list.
fn reads_working_table(node: &FromNode) -> bool {
    match &node.kind {
        FromKind::Derived(node, ..) => is_working_table(node),
        FromKind::Join(_, sides, _) => sides.iter().any(reads_working_table),
        FromKind::Nothing | FromKind::Table(..) | FromKind::System(..) | FromKind::Function(_) => {
            false
        }
    }
}

const fn is_set_result(expression: &Expression) -> bool {
    matches!(expression, Expression::SetResult(_))
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
