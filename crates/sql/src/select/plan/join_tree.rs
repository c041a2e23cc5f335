//! Access path selection: turns the join tree into plan nodes and pushes each condition
//! down to the first node that can check it.

use std::collections::BTreeSet;
use std::sync::Arc;

use coeval_txn::Direction;
use smol_str::SmolStr;

use super::from::{FromKind, FromNode, JoinKind};
use super::node::{Cache, Derived, FullJoin, Join, Matching, Node, Scan};
use crate::catalog::Table;
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
        FromKind::Nothing | FromKind::Table(..) | FromKind::System(..) => {}
        FromKind::Derived(_, correlations, _) => {
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

/// Makes a node that returns the rows of the join tree for which all conditions are true.
/// Scans read only the columns that are `used`. Those of tables that have a column more in
/// the tree than in the catalog append each row's record id.
pub(super) fn spread(
    tree: Option<FromNode>,
    conditions: Vec<Expression>,
    used: &BTreeSet<usize>,
) -> Node {
    match tree {
        Some(tree) => Spread { used }.node(tree, conditions),
        None => filtered(Node::One, conditions),
    }
}

/// Options for turning a join tree into nodes.
struct Spread<'a> {
    /// Columns that any part of the query uses; scans read only these.
    used: &'a BTreeSet<usize>,
}

impl Spread<'_> {
    fn node(&self, from: FromNode, conditions: Vec<Expression>) -> Node {
        crate::expression::with_stack(|| self.node_here(from, conditions))
    }

    fn node_here(&self, from: FromNode, conditions: Vec<Expression>) -> Node {
        let (start, end) = (from.start, from.end);
        let expected = from.expected;
        let rows = expected.rows;
        match from.kind {
            FromKind::Nothing => filtered(Node::One, conditions),
            FromKind::Join(JoinKind::Inner, sides, on) => {
                let [left, right] = *sides;
                let (left_conditions, right_conditions) =
                    split(conditions.into_iter().chain(on).collect(), |columns| {
                        columns.iter().all(|column| *column < left.end)
                    });
                Node::Join(Box::new(Join {
                    left: self.node(left, left_conditions),
                    right: self.node(right, right_conditions),
                    kind: Matching::Inner,
                    rows,
                }))
            }
            FromKind::Join(
                kind @ (JoinKind::Left | JoinKind::Semi | JoinKind::Anti),
                sides,
                on,
            ) => {
                let [left, right] = *sides;
                let (left_conditions, above) = split(conditions, |columns| {
                    columns.iter().all(|column| *column < left.end)
                });
                let kind = match kind {
                    JoinKind::Semi => Matching::Semi,
                    JoinKind::Anti => Matching::Anti,
                    _ => Matching::Left(right.end - right.start),
                };
                let join = Node::Join(Box::new(Join {
                    left: self.node(left, left_conditions),
                    right: self.node(right, on),
                    kind,
                    rows,
                }));
                filtered(join, above)
            }
            FromKind::Join(kind @ (JoinKind::Right | JoinKind::Full), sides, on) => {
                let mut below = BTreeSet::new();
                for side in &*sides {
                    used_by_tree(side, &mut below);
                }
                let [left, right] = *sides;
                let widths = [left.end - left.start, right.end - right.start];
                let mut on = on.into_iter().flat_map(Expression::conjuncts).collect();
                let keys = take_keys(&mut on, right.start);
                let join = Node::FullJoin(Box::new(FullJoin {
                    left: self.node(left, Vec::new()),
                    right: self.node(right, Vec::new()),
                    widths,
                    keys,
                    condition: Expression::all_of(on),
                    keep_left: kind == JoinKind::Full,
                    rows,
                }));
                if below.iter().any(|column| *column < start) {
                    return filtered(join, conditions);
                }
                cached(join, start, end, conditions)
            }
            FromKind::Table(table, alias) => {
                let table = TableLeaf {
                    spread: self,
                    with_record: end - start > table.columns.len(),
                    table,
                    alias,
                    start,
                    rows,
                };
                table.node(conditions, expected.hashed)
            }
            FromKind::System(table, _) => cached(Node::System(table), start, end, conditions),
            FromKind::Derived(plan, correlations, source) => {
                let dependent = correlations
                    .as_ref()
                    .is_some_and(|taken| taken.iter().any(Expression::uses_row));
                let node = Node::Derived(Box::new(Derived {
                    plan,
                    correlations,
                    alias: source.alias,
                    columns: source.columns,
                }));
                if dependent {
                    filtered(node, conditions)
                } else {
                    cached(node, start, end, conditions)
                }
            }
            FromKind::Function(function) => {
                let stays = |each: &Expression| !each.uses_row() && !each.is_volatile();
                let same = function.arguments.iter().all(stays);
                let node = Node::Function(Box::new(function));
                if same && !take_keys(&mut conditions.clone(), start).is_empty() {
                    cached(node, start, end, conditions)
                } else {
                    filtered(node, conditions)
                }
            }
        }
    }
}

/// A table of the join tree.
struct TableLeaf<'a, 'b> {
    spread: &'a Spread<'b>,
    table: Arc<Table>,
    alias: SmolStr,
    /// Position of its first column.
    start: usize,
    /// Whether the scan appends the row's record id as a last column.
    with_record: bool,
    rows: f64,
}

/// Limit on the arms of an OR that become scans of an index each.
const ARMS_AT_MOST: usize = 16;

impl TableLeaf<'_, '_> {
    fn choose(&self, conditions: Vec<Expression>) -> Access {
        Access::choose(&self.table, self.start, conditions, &|column| {
            column < self.start
        })
    }

    fn scan(&self, access: Access, rows: f64) -> Node {
        let used = self.spread.used;
        let wanted = |position| used.contains(&(self.start + position));
        Node::Scan(Box::new(Scan {
            table: Arc::clone(&self.table),
            alias: self.alias.to_string(),
            path: access.path,
            direction: Direction::Forward,
            filter: (!access.filter.is_empty()).then(|| Expression::all_of(access.filter)),
            reader: RowReader::of(&self.table, &wanted),
            with_record: self.with_record,
            rows,
        }))
    }

    /// The node of the table, collected and hashed if that is `hashed` to be.
    fn node(&self, conditions: Vec<Expression>, hashed: bool) -> Node {
        let access = self.choose(conditions.clone());
        if self.start == 0 || uses_row(&access.path) && !hashed {
            if matches!(access.path, Path::Table)
                && let Some(union) = self.union(&conditions)
            {
                return union;
            }
            return self.scan(access, self.rows);
        }
        // No index lookup uses the driving row, so the planner makes a hash join on the
        // equality conditions.
        let (own, mut mixed) = split(conditions.clone(), |columns| {
            columns.iter().all(|column| *column >= self.start)
        });
        let keys = take_keys(&mut mixed, self.start);
        if keys.is_empty()
            && let Some(union) = self.union(&conditions)
        {
            return union;
        }
        let access = self.choose(own.clone());
        let union = match access.path {
            Path::Table => self.union(&own),
            _ => None,
        };
        let input = union.unwrap_or_else(|| self.scan(access, self.rows));
        if keys.is_empty() && !hashed {
            return filtered(input, mixed);
        }
        filtered(
            Node::Cache(Box::new(Cache {
                input,
                offset: self.start,
                keys,
            })),
            mixed,
        )
    }

    /// For an OR of which each arm has an index to find its rows with: a scan for each arm,
    /// without the rows that an earlier one has found.
    fn union(&self, conditions: &[Expression]) -> Option<Node> {
        let (place, arms) = conditions
            .iter()
            .enumerate()
            .find_map(|(place, condition)| {
                let Expression::Or(arms) = condition else {
                    return None;
                };
                let fits = arms.len() <= ARMS_AT_MOST && !condition.is_volatile();
                let found: Option<Vec<Access>> = arms
                    .iter()
                    .map(|arm| {
                        let access = self.choose(arm.clone().conjuncts());
                        is_narrow(&access.path).then_some(access)
                    })
                    .collect();
                found.filter(|_| fits).map(|found| (place, found))
            })?;
        let Expression::Or(tests) = &conditions[place] else {
            return None;
        };
        let rows = self.rows / arms.len() as f64;
        let scans =
            arms.into_iter().enumerate().map(|(number, mut access)| {
                let others = conditions.iter().enumerate();
                let others = others.filter(|(other, _)| *other != place);
                access.filter.extend(others.map(|(_, each)| each.clone()));
                let earlier = tests[..number].iter().cloned();
                access.filter.extend(earlier.map(|test| {
                    Expression::Not(Box::new(Expression::IsTruth(Box::new(test), true)))
                }));
                self.scan(access, rows)
            });
        Some(Node::Append(scans.collect()))
    }
}

/// Whether a path reads a small part of its index.
fn is_narrow(path: &Path) -> bool {
    match path {
        Path::Table => false,
        Path::Key { .. } | Path::List { .. } => true,
        Path::Range {
            prefix,
            lower,
            upper,
            ..
        } => !prefix.is_empty() || lower.is_some() && upper.is_some(),
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
    let (own, mut mixed) = split(conditions, |columns| {
        columns.iter().all(|column| (start..end).contains(column))
    });
    let keys = take_keys(&mut mixed, start);
    filtered(
        Node::Cache(Box::new(Cache {
            input: filtered(input, own),
            offset: start,
            keys,
        })),
        mixed,
    )
}

/// Takes the equality conditions between an expression over earlier columns and one over
/// own columns out of the conditions: the keys of a hash join.
fn take_keys(conditions: &mut Vec<Expression>, start: usize) -> Vec<(Expression, Expression)> {
    let mut keys = Vec::new();
    let known = |side: &Expression| {
        !side.is_volatile() && used_columns([side]).iter().all(|column| *column < start)
    };
    let own = |side: &Expression| {
        let columns = used_columns([side]);
        !side.is_volatile() && !columns.is_empty() && columns.iter().all(|column| *column >= start)
    };
    conditions.retain(|condition| {
        let Expression::Compare(Comparison::Equal, operands) = condition else {
            return true;
        };
        let [left, right] = &**operands;
        if known(left) && own(right) {
            keys.push((left.clone(), right.clone()));
        } else if known(right) && own(left) {
            keys.push((right.clone(), left.clone()));
        } else {
            return true;
        }
        false
    });
    keys
}

/// Whether the keys of an access path depend on the driving row.
pub(super) fn uses_row(path: &Path) -> bool {
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
