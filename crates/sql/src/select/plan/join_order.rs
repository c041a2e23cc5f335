//! Join ordering: dynamic programming over sets of relations for a few of them (System R),
//! a greedy choice for more.
//!
//! ```text
//!   {a}  {b}  {c}        cheapest way to read each
//!   {a,b}  {a,c}  {b,c}  … with one more relation on the right
//!   {a,b,c}
//! ```
//!
//! Joins are left-deep, as the executor's rows are: each step joins one *item*, which is a
//! relation, or the right side of an outer, semi or anti join. An item of an outer join may
//! be joined as soon as the columns of its ON condition are there, and conditions on its own
//! columns are checked above it: the left rows are kept whatever order they come in. So may
//! one of a semi or an anti join, which only drops left rows.
//!
//! A step reads its item through an index for each left row, or collects it once and finds
//! rows by hash. Costs are in units of a row that is read in order.

use super::estimate::{Estimator, Facts, joined_rows, rows_of};
use super::from::{FromKind, FromNode, JoinKind, joined};
use super::join_tree::{used_by_tree, used_columns};
use super::node::Matching;
use super::shape::leaves;
use crate::expression::{Comparison, Expression};

/// Limit on items whose orders are all tried.
const TRIED_AT_MOST: usize = 10;
/// Limit on conditions over several items; with more, planning would take too long.
const MIXED_AT_MOST: usize = 500;
/// Limit on items that are ordered at all; the sets of more do not fit in a word.
const ORDERED_AT_MOST: usize = 60;

/// Cost of finding the place of a key in an index.
const LOOKUP: f64 = 3.0;
/// Cost of a row that is found through an index.
const FETCH: f64 = 1.5;
/// Cost of collecting a row and putting it into a hash table.
const BUILD: f64 = 2.0;
/// Cost of a lookup in a hash table.
const PROBE: f64 = 1.0;
/// Cost of a row that a join returns.
const RETURN: f64 = 0.5;
/// Cost of comparing two rows.
const COMPARE: f64 = 0.7;
/// Bytes that a collected row takes, as a guess.
const ROW_BYTES: f64 = 250.0;
/// Factor by which rows that exceed the statement's memory cost more: they are read anew
/// for each left row.
const TOO_LARGE: f64 = 50.0;

/// A relation, or the right side of a join, that a step of the order joins.
struct Item {
    node: FromNode,
    kind: JoinKind,
    /// Conditions of an outer, semi or anti join.
    on: Vec<Expression>,
    /// The items that have to be joined before.
    after: u64,
    /// Number of rows, before and after the conditions on it alone.
    raw: f64,
    rows: f64,
    /// Number of rows that are read to find these.
    read: f64,
    /// Equalities between it and something else.
    links: Vec<Link>,
    /// Limits that something else sets to its columns.
    limits: Vec<Link>,
    /// Whether its rows depend on the left row, as those of LATERAL do.
    is_dependent: bool,
}

/// A comparison between an expression over an item and one over other items.
struct Link {
    /// Position in the table of the column that the item's side is, if it is one.
    column: Option<usize>,
    /// Items of the other side.
    others: u64,
    /// Whether the other side depends on the left row.
    uses_row: bool,
    /// Number of values on the other side.
    values: f64,
}

/// Part of the rows that an index finds between two limits that a left row sets, and on one
/// side of one.
const BETWEEN_LIMITS: f64 = 0.005;
const BEYOND_LIMIT: f64 = 1.0 / 3.0;

/// A condition on several items.
struct Mixed {
    items: u64,
    part: f64,
}

/// A way to join a set of items.
#[derive(Clone, Copy, Debug)]
struct Way {
    cost: f64,
    rows: f64,
    /// Item that is joined last.
    last: usize,
    /// Rows of the last item for each left row.
    matches: f64,
    hashed: bool,
}

/// The order of a join tree.
pub(super) struct JoinOrder<'a, 'b, 'c> {
    pub estimator: &'a mut Estimator<'b, 'c>,
    pub facts: Facts,
    /// Memory of the statement, in bytes.
    pub memory: f64,
}

impl JoinOrder<'_, '_, '_> {
    /// Orders the joins of a tree, whose rows satisfy the conditions. `outside` is the number
    /// of left rows for each of which the tree is read; `None` if it is read once.
    pub(super) fn order(
        &mut self,
        tree: FromNode,
        conditions: &mut Vec<Expression>,
        outside: Option<f64>,
    ) -> FromNode {
        let mut items = Vec::new();
        self.take_apart(tree, &mut items, conditions);
        if items.len() > ORDERED_AT_MOST {
            return self.as_written(items);
        }
        let mixed = self.describe(&mut items, conditions);
        if mixed.len() > MIXED_AT_MOST {
            return self.as_written(items);
        }
        let steps = match items.len() {
            0..=TRIED_AT_MOST => self.try_all(&items, &mixed, outside),
            _ => self.choose_greedily(&items, &mixed, outside),
        };
        match steps {
            Some(steps) => self.build(items, steps),
            None => self.as_written(items),
        }
    }

    /// Orders the joins of a side of a FULL JOIN.
    fn side(&mut self, node: FromNode) -> FromNode {
        let mut conditions = Vec::new();
        let tree = self.order(node, &mut conditions, None);
        if conditions.is_empty() {
            return tree;
        }
        // The conditions of its inner joins hold for all its rows, so for those of a join
        // with nothing.
        let rows = tree.expected.rows;
        let mut joined = joined(JoinKind::Inner, tree, FromNode::nothing(0), conditions);
        joined.expected.rows = rows;
        joined
    }

    /// Splits a tree into items, in the order of the text.
    fn take_apart(
        &mut self,
        node: FromNode,
        items: &mut Vec<Item>,
        conditions: &mut Vec<Expression>,
    ) {
        match node.kind {
            FromKind::Join(JoinKind::Inner, sides, mut on) => {
                let [left, right] = *sides;
                conditions.append(&mut on);
                crate::expression::with_stack(|| {
                    self.take_apart(left, items, conditions);
                    self.take_apart(right, items, conditions);
                });
            }
            FromKind::Join(
                join @ (JoinKind::Left | JoinKind::Right | JoinKind::Semi | JoinKind::Anti),
                sides,
                on,
            ) => {
                let [mut left, mut right] = *sides;
                let join = match join {
                    JoinKind::Right => {
                        std::mem::swap(&mut left, &mut right);
                        JoinKind::Left
                    }
                    other => other,
                };
                crate::expression::with_stack(|| self.take_apart(left, items, conditions));
                items.push(Item::new(right, join, on));
            }
            FromKind::Join(JoinKind::Full, sides, on) => {
                let [left, right] = *sides;
                let (left, right) =
                    crate::expression::with_stack(|| (self.side(left), self.side(right)));
                let mut full = joined(JoinKind::Full, left, right, on);
                full.expected.rows = self.estimator.rows(&full);
                items.push(Item::new(full, JoinKind::Inner, Vec::new()));
            }
            other => {
                let node = FromNode {
                    kind: other,
                    ..node
                };
                items.push(Item::new(node, JoinKind::Inner, Vec::new()));
            }
        }
    }

    /// Fills in what the items cost, and returns the conditions on several of them.
    fn describe(&mut self, items: &mut [Item], conditions: &[Expression]) -> Vec<Mixed> {
        let mut ranges = Vec::new();
        for (number, item) in items.iter().enumerate() {
            let mut relations = Vec::new();
            leaves(&item.node, &mut relations);
            ranges.extend(
                relations
                    .iter()
                    .map(|relation| (relation.start..relation.end, number)),
            );
        }
        let owner = |column: usize| {
            ranges
                .iter()
                .find(|(range, _)| range.contains(&column))
                .map(|(_, number)| *number)
        };
        let items_of = |expression: &Expression| {
            used_columns([expression])
                .into_iter()
                .filter_map(owner)
                .fold(0_u64, |items, number| items | (1_u64 << number))
        };
        let everything: u64 = (0..items.len())
            .filter(|number| matches!(items[*number].kind, JoinKind::Inner | JoinKind::Left))
            .fold(0_u64, |all, number| all | (1_u64 << number));
        let mut mixed = Vec::new();
        let mut own: Vec<Vec<Expression>> = items.iter().map(|_| Vec::new()).collect();
        for condition in conditions {
            let mask = match condition.is_volatile() {
                true => everything,
                false => items_of(condition),
            };
            if mask.count_ones() == 1 {
                own[mask.trailing_zeros() as usize].push(condition.clone());
                continue;
            }
            mixed.push(Mixed {
                items: mask,
                part: self.facts.selectivity(condition),
            });
        }
        for (number, item) in items.iter_mut().enumerate() {
            let bit = 1_u64 << number;
            item.raw = self.estimator.rows(&item.node);
            let mut below = std::collections::BTreeSet::new();
            used_by_tree(&item.node, &mut below);
            let outside = |column: &usize| owner(*column) != Some(number);
            let needs = below.iter().filter(|column| outside(column));
            item.is_dependent = needs.clone().next().is_some();
            item.after = needs
                .filter_map(|column| owner(*column))
                .fold(0_u64, |items, number| items | (1_u64 << number));
            let links_of = match item.kind {
                JoinKind::Inner => conditions,
                _ => item.on.as_slice(),
            };
            for condition in links_of {
                match link(condition, bit, &items_of, &item.node) {
                    Some((link, true)) => item.links.push(link),
                    Some((link, false)) => item.limits.push(link),
                    None => {}
                }
            }
            if item.kind == JoinKind::Inner {
                item.rows = item.raw * self.facts.of_all(&own[number]);
            } else {
                for condition in &item.on {
                    item.after |= items_of(condition) & !bit;
                }
                let (local, _): (Vec<Expression>, Vec<Expression>) = item
                    .on
                    .iter()
                    .cloned()
                    .partition(|condition| items_of(condition) == bit);
                item.rows = item.raw * self.facts.of_all(&local);
            }
            item.rows = item.rows.max(0.01);
            let through_index = item.through_index(&self.facts, 0, false);
            item.read = match &item.node.kind {
                FromKind::Table(..) => {
                    through_index.map_or(item.raw, |found| found * FETCH + LOOKUP)
                }
                FromKind::Derived(plan, ..) => rows_of(plan) * 2.0,
                _ => item.raw,
            };
        }
        mixed
    }

    /// The cheapest way to join an item to a set of others; `None` if that cannot be.
    fn step(
        &self,
        item: (usize, &Item),
        done: u64,
        before: Option<Way>,
        mixed: &[Mixed],
        outside: Option<f64>,
    ) -> Option<Way> {
        let (number, item) = item;
        let bit = 1_u64 << number;
        if item.after & !done != 0 {
            return None;
        }
        let left = match (before, outside) {
            (Some(before), _) => before.rows,
            (None, _) if item.kind != JoinKind::Inner => return None,
            (None, Some(outside)) => outside,
            (None, None) => {
                return Some(Way {
                    cost: item.read,
                    rows: item.rows,
                    last: number,
                    matches: item.rows,
                    hashed: false,
                });
            }
        };
        // Rows of the item for each left row.
        let mut matches = item.rows;
        if item.kind == JoinKind::Inner {
            for condition in mixed {
                if condition.items & bit != 0 && condition.items & !(done | bit) == 0 {
                    matches *= condition.part;
                }
            }
        } else {
            for condition in &item.on {
                if !item.is_local(condition) {
                    matches *= self.facts.selectivity(condition);
                }
            }
        }
        let kind = match item.kind {
            JoinKind::Left => Matching::Left(0),
            JoinKind::Semi => Matching::Semi,
            JoinKind::Anti => Matching::Anti,
            JoinKind::Inner | JoinKind::Right | JoinKind::Full => Matching::Inner,
        };
        let rows = joined_rows(kind, left, matches);
        let has_left = before.is_some() || outside.is_some();
        let index = item
            .through_index(&self.facts, done, has_left)
            .map(|found| left * (LOOKUP + found * FETCH));
        let linked = item
            .links
            .iter()
            .any(|link| link.uses_row && link.others & !done == 0);
        let mut collected = item.read + item.rows * BUILD;
        collected += match linked {
            true => left * (PROBE + matches * COMPARE),
            false => left * item.rows * COMPARE,
        };
        if item.rows * ROW_BYTES > self.memory {
            collected *= TOO_LARGE;
        }
        let again = match item.is_dependent {
            true => Some(left * (LOOKUP + item.raw)),
            false => None,
        };
        let (cost, hashed) = match (index, again) {
            (Some(index), _) if index <= collected => (index, false),
            (_, Some(again)) => (again, false),
            _ => (collected, linked || left > 1.5),
        };
        Some(Way {
            cost: before.map_or(0.0, |before| before.cost) + cost + rows * RETURN,
            rows,
            last: number,
            matches: if hashed { item.rows } else { matches },
            hashed,
        })
    }

    /// Tries all orders; returns the steps of the cheapest.
    fn try_all(&self, items: &[Item], mixed: &[Mixed], outside: Option<f64>) -> Option<Vec<Way>> {
        let all = (1_usize << items.len()) - 1;
        let mut best: Vec<Option<Way>> = vec![None; all + 1];
        for set in 1..=all {
            // Of equal costs, the order of the text wins.
            for last in (0..items.len())
                .rev()
                .filter(|last| set & (1_usize << *last) != 0)
            {
                let done = set & !(1 << last);
                let before = best[done];
                if done != 0 && before.is_none() {
                    continue;
                }
                let item = (last, &items[last]);
                let Some(way) = self.step(item, done as u64, before, mixed, outside) else {
                    continue;
                };
                if best[set].is_none_or(|known| way.cost < known.cost * 0.999) {
                    best[set] = Some(way);
                }
            }
        }
        let mut steps = Vec::with_capacity(items.len());
        let mut set = all;
        while set != 0 {
            let way = best[set]?;
            steps.push(way);
            set &= !(1 << way.last);
        }
        steps.reverse();
        Some(steps)
    }

    /// Joins the item next that costs least and leaves the fewest rows.
    fn choose_greedily(
        &self,
        items: &[Item],
        mixed: &[Mixed],
        outside: Option<f64>,
    ) -> Option<Vec<Way>> {
        let mut steps: Vec<Way> = Vec::with_capacity(items.len());
        let mut done = 0_u64;
        while steps.len() < items.len() {
            let before = steps.last().copied();
            let next = items
                .iter()
                .enumerate()
                .filter(|(number, _)| done & (1_u64 << *number) == 0)
                .filter_map(|item| self.step(item, done, before, mixed, outside))
                .min_by(|one, other| (one.cost + one.rows).total_cmp(&(other.cost + other.rows)))?;
            done |= 1 << next.last;
            steps.push(next);
        }
        Some(steps)
    }

    /// The tree that joins the items in these steps.
    fn build(&mut self, items: Vec<Item>, steps: Vec<Way>) -> FromNode {
        let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
        let mut tree: Option<FromNode> = None;
        let mut left_rows = 1.0;
        for step in steps {
            let Some(item) = items[step.last].take() else {
                continue;
            };
            let right = self.item(item, step, left_rows);
            left_rows = step.rows;
            tree = Some(match tree {
                None => right.0,
                Some(left) => {
                    let (right, kind, on) = right;
                    let mut join = joined(kind, left, right, on);
                    join.expected.rows = step.rows;
                    join
                }
            });
        }
        tree.unwrap_or_else(|| FromNode::nothing(0))
    }

    fn item(
        &mut self,
        item: Item,
        step: Way,
        left_rows: f64,
    ) -> (FromNode, JoinKind, Vec<Expression>) {
        let Item {
            mut node,
            kind,
            mut on,
            ..
        } = item;
        if kind != JoinKind::Inner && matches!(node.kind, FromKind::Join(..)) {
            node = crate::expression::with_stack(|| self.order(node, &mut on, Some(left_rows)));
        } else {
            node.expected.rows = step.matches;
            node.expected.hashed = step.hashed;
        }
        (node, kind, on)
    }

    /// The tree in the order of the text.
    fn as_written(&mut self, items: Vec<Item>) -> FromNode {
        let steps = (0..items.len())
            .map(|last| Way {
                cost: 0.0,
                rows: items[last].raw,
                last,
                matches: items[last].raw,
                hashed: false,
            })
            .collect();
        self.build(items, steps)
    }
}

impl Item {
    fn new(node: FromNode, kind: JoinKind, on: Vec<Expression>) -> Self {
        Self {
            node,
            kind,
            on,
            after: 0,
            raw: 1.0,
            rows: 1.0,
            read: 1.0,
            links: Vec::new(),
            limits: Vec::new(),
            is_dependent: false,
        }
    }

    fn is_local(&self, condition: &Expression) -> bool {
        let mut relations = Vec::new();
        leaves(&self.node, &mut relations);
        used_columns([condition]).iter().all(|column| {
            relations
                .iter()
                .any(|relation| (relation.start..relation.end).contains(column))
        })
    }

    /// Number of rows that the best index finds by equalities with constants, and with what
    /// is `done` if there is a left row; `None` without an index, or if there is a left row
    /// and the index does not depend on it.
    fn through_index(&self, facts: &Facts, done: u64, has_left: bool) -> Option<f64> {
        let FromKind::Table(table, _) = &self.node.kind else {
            return None;
        };
        let mut best: Option<f64> = None;
        for index in table.indexes.iter().filter(|index| index.is_built) {
            let mut found = self.raw;
            let mut depends = false;
            let mut fixed = 0;
            let is_known = |link: &Link| link.others & !done == 0 && (has_left || !link.uses_row);
            let mut limited = false;
            for key in &index.columns {
                let link = self
                    .links
                    .iter()
                    .find(|link| link.column == Some(key.column) && is_known(link));
                let Some(link) = link else {
                    let of_column = |link: &&Link| link.column == Some(key.column);
                    let limits = self.limits.iter().filter(of_column);
                    let limits: Vec<&Link> = limits.filter(|link| is_known(link)).collect();
                    depends |= limits.iter().any(|link| link.uses_row);
                    found *= match limits.len() {
                        0 => break,
                        1 => BEYOND_LIMIT,
                        _ => BETWEEN_LIMITS,
                    };
                    limited = true;
                    break;
                };
                depends |= link.uses_row;
                fixed += 1;
                let column = Expression::Column(self.node.start + key.column);
                found *= link.values;
                found /= facts.column(&column).map_or(10.0, |column| column.distinct);
            }
            if fixed == 0 && !limited || has_left && !depends {
                continue;
            }
            let found = found.max(0.5);
            if best.is_none_or(|known| found < known) {
                best = Some(found);
            }
        }
        best
    }
}

/// The comparison that a condition is between an item and something else: other items, an
/// enclosing row or a constant; and whether it is an equality.
fn link(
    condition: &Expression,
    bit: u64,
    items_of: &dyn Fn(&Expression) -> u64,
    node: &FromNode,
) -> Option<(Link, bool)> {
    if condition.is_volatile() {
        return None;
    }
    let column_of = |own: &Expression| {
        let position = match own {
            Expression::Column(position) => *position,
            Expression::Cast(cast) => match cast.input {
                Expression::Column(position) => position,
                _ => return None,
            },
            _ => return None,
        };
        position.checked_sub(node.start)
    };
    match condition {
        Expression::Compare(comparison, operands) if *comparison != Comparison::NotEqual => {
            let [one, other] = &**operands;
            let (own, known) = if items_of(one) == bit && items_of(other) & bit == 0 {
                (one, other)
            } else if items_of(other) == bit && items_of(one) & bit == 0 {
                (other, one)
            } else {
                return None;
            };
            let link = Link {
                column: column_of(own),
                others: items_of(known),
                uses_row: known.uses_row(),
                values: 1.0,
            };
            Some((link, *comparison == Comparison::Equal))
        }
        Expression::InList(own, values) if items_of(condition) == bit => {
            let link = Link {
                column: column_of(own),
                others: 0,
                uses_row: false,
                values: values.len() as f64,
            };
            Some((link, true))
        }
        _ => None,
    }
}
