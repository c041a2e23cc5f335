//! Access path selection: turns the join tree into plan nodes and pushes each condition
//! down to the first node that can check it.

use std::collections::BTreeSet;

use coeval_txn::Direction;

use super::from::{FromKind, FromNode, JoinKind};
use super::node::{Cache, Derived, FullJoin, Join, Node, Scan};
use crate::expression::{Comparison, Expression};
use crate::plan::{Access, Path, RowReader};
use crate::value::Value;

/// Collects the columns that an expression uses, by position in the row.
fn columns_of(expression: &Expression, columns: &mut BTreeSet<usize>) {
    if let Expression::Column(position) = expression {
        columns.insert(*position);
    }
    expression.children(&mut |child| columns_of(child, columns));
}

/// The columns that any of the expressions uses.
pub(super) fn used_columns<'a>(
    expressions: impl IntoIterator<Item = &'a Expression>,
) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    for expression in expressions {
        columns_of(expression, &mut columns);
    }
    columns
}

/// Collects the columns that expressions inside the join tree use.
pub(super) fn used_by_tree(node: &FromNode, columns: &mut BTreeSet<usize>) {
    match &node.kind {
        FromKind::Table(..) | FromKind::System(..) => {}
        FromKind::Derived(_, correlations) => {
            for expression in correlations.iter().flatten() {
                columns_of(expression, columns);
            }
        }
        FromKind::Function(function) => {
            for expression in &function.arguments {
                columns_of(expression, columns);
            }
        }
        FromKind::Join(_, sides, on) => {
            for expression in on {
                columns_of(expression, columns);
            }
            for side in &**sides {
                used_by_tree(side, columns);
            }
        }
    }
}

/// Options for turning a join tree into nodes.
pub(super) struct Spread<'a> {
    /// Columns that any part of the query uses; scans read only these.
    pub used: &'a BTreeSet<usize>,
    /// Whether scans append each row's record id as a last column.
    pub with_records: bool,
}

impl Spread<'_> {
    /// Makes a node that returns the rows of `from` for which all conditions are true.
    pub(super) fn node(&self, from: FromNode, conditions: Vec<Expression>) -> Node {
        crate::expression::with_stack(|| self.node_here(from, conditions))
    }

    fn node_here(&self, from: FromNode, conditions: Vec<Expression>) -> Node {
        let (start, end) = (from.start, from.end);
        match from.kind {
            FromKind::Join(JoinKind::Inner, sides, on) => {
                let [left, right] = *sides;
                let (left_conditions, right_conditions) =
                    split(conditions.into_iter().chain(on).collect(), |columns| {
                        columns.iter().all(|column| *column < left.end)
                    });
                Node::Join(Box::new(Join {
                    left: self.node(left, left_conditions),
                    right: self.node(right, right_conditions),
                    outer: None,
                }))
            }
            FromKind::Join(JoinKind::Left, sides, on) => {
                let [left, right] = *sides;
                let (left_conditions, above) = split(conditions, |columns| {
                    columns.iter().all(|column| *column < left.end)
                });
                let width = right.end - right.start;
                let join = Node::Join(Box::new(Join {
                    left: self.node(left, left_conditions),
                    right: self.node(right, on),
                    outer: Some(width),
                }));
                filtered(join, above)
            }
            FromKind::Join(kind, sides, on) => {
                let [left, right] = *sides;
                let widths = [left.end - left.start, right.end - right.start];
                let join = Node::FullJoin(Box::new(FullJoin {
                    left: self.node(left, Vec::new()),
                    right: self.node(right, Vec::new()),
                    widths,
                    condition: Expression::all_of(on),
                    keep_left: kind == JoinKind::Full,
                }));
                filtered(join, conditions)
            }
            FromKind::Table(table, alias) => {
                let known = |column: usize| column < start;
                let scan = |access: Access| {
                    let reader =
                        RowReader::of(&table, &|position| self.used.contains(&(start + position)));
                    Node::Scan(Box::new(Scan {
                        table: std::sync::Arc::clone(&table),
                        alias: alias.to_string(),
                        path: access.path,
                        direction: Direction::Forward,
                        filter: (!access.filter.is_empty())
                            .then(|| Expression::all_of(access.filter)),
                        reader,
                        with_record: self.with_records,
                    }))
                };
                let access = Access::choose(&table, start, conditions.clone(), &known);
                if start == 0 || uses_row(&access.path) {
                    return scan(access);
                }
                // No index lookup uses the driving row, so the planner makes a hash
                // join on the equality conditions.
                let (own, mixed) = split(conditions, |columns| {
                    columns.iter().all(|column| *column >= start)
                });
                let keys = equal_keys(&mixed, start);
                let input = scan(Access::choose(&table, start, own, &known));
                if keys.is_empty() {
                    return filtered(input, mixed);
                }
                filtered(
                    Node::Cache(Box::new(Cache {
                        input,
                        offset: start,
                        keys,
                    })),
                    mixed,
                )
            }
            FromKind::System(table, _) => cached(Node::System(table), start, end, conditions),
            FromKind::Derived(plan, correlations) => {
                let dependent = correlations
                    .as_ref()
                    .is_some_and(|taken| taken.iter().any(Expression::uses_row));
                let node = Node::Derived(Box::new(Derived { plan, correlations }));
                if dependent {
                    filtered(node, conditions)
                } else {
                    cached(node, start, end, conditions)
                }
            }
            FromKind::Function(function) => {
                filtered(Node::Function(Box::new(function)), conditions)
            }
        }
    }
}

/// Splits conditions by the columns they use.
fn split(
    conditions: Vec<Expression>,
    first: impl Fn(&BTreeSet<usize>) -> bool,
) -> (Vec<Expression>, Vec<Expression>) {
    conditions
        .into_iter()
        .partition(|condition| !condition.is_volatile() && first(&used_columns([condition])))
}

fn filtered(input: Node, conditions: Vec<Expression>) -> Node {
    if conditions.is_empty() {
        return input;
    }
    Node::Filter {
        input: Box::new(input),
        condition: Expression::all_of(conditions),
    }
}

/// Wraps an input that does not depend on the driving row in a cache, unless it is the
/// first relation.
fn cached(input: Node, start: usize, end: usize, conditions: Vec<Expression>) -> Node {
    if start == 0 {
        return filtered(input, conditions);
    }
    let (own, mixed) = split(conditions, |columns| {
        columns.iter().all(|column| (start..end).contains(column))
    });
    let keys = equal_keys(&mixed, start);
    filtered(
        Node::Cache(Box::new(Cache {
            input: filtered(input, own),
            offset: start,
            keys,
        })),
        mixed,
    )
}

/// Equality conditions between an expression over earlier columns and one over own
/// columns: the keys of a hash join.
fn equal_keys(conditions: &[Expression], start: usize) -> Vec<(Expression, Expression)> {
    let mut keys = Vec::new();
    for condition in conditions {
        let Expression::Compare(Comparison::Equal, operands) = condition else {
            continue;
        };
        let known = |side: &Expression| {
            !side.is_volatile() && used_columns([side]).iter().all(|column| *column < start)
        };
        let own = |side: &Expression| {
            let columns = used_columns([side]);
            !side.is_volatile()
                && !columns.is_empty()
                && columns.iter().all(|column| *column >= start)
        };
        let [left, right] = &**operands;
        if known(left) && own(right) {
            keys.push((left.clone(), right.clone()));
        } else if known(right) && own(left) {
            keys.push((right.clone(), left.clone()));
        }
    }
    keys
}

/// Whether the keys of an access path depend on the driving row.
fn uses_row(path: &Path) -> bool {
    match path {
        Path::Table => false,
        Path::Key { key, .. } => key.iter().any(Expression::uses_row),
        Path::Range {
            prefix,
            lower,
            upper,
            ..
        } => {
            prefix.iter().any(Expression::uses_row)
                || lower
                    .iter()
                    .chain(upper)
                    .any(|limit| limit.value.uses_row())
        }
        Path::List { prefix, list, .. } => prefix
            .iter()
            .chain(list.expressions())
            .any(Expression::uses_row),
    }
}

/// Whether a condition is constant and not true, so that the planner can drop the whole
/// input.
pub(super) fn is_never_true(condition: &Expression) -> bool {
    matches!(
        condition,
        Expression::Constant(Value::Null | Value::Bool(false))
    )
}
