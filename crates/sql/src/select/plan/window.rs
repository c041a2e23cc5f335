//! The planner of window functions: the order in which the windows of a query are computed.
//!
//! Each window sorts the rows anew unless the one before has left them in its order, so
//! windows with equal keys follow each other. The order is PostgreSQL's, because that of the
//! last window shows in a result without ORDER BY.

use std::cmp::Ordering;

use super::node::{Node, Window};
use crate::expression::{Expression, WindowDefinition, WindowList};
use crate::value::KeyOrder;

/// Plans the window functions over the input's rows. `sorted` are the keys of ORDER BY and
/// GROUP BY: PostgreSQL counts sort keys in that order, and before those of windows.
pub(super) fn plan_windows(input: Node, list: WindowList, sorted: Vec<Expression>) -> Node {
    let WindowList {
        definitions, calls, ..
    } = list;
    let mut known = sorted;
    for definition in &definitions {
        let order = definition.order.iter().map(|(key, _)| key);
        for key in order.chain(&definition.partition) {
            if !known.contains(key) {
                known.push(key.clone());
            }
        }
    }
    let width = calls.len();
    let mut steps: Vec<_> = definitions
        .into_iter()
        .map(|definition| (definition, Vec::new()))
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        if let Some((_, calls)) = steps.get_mut(call.definition) {
            calls.push((number, call));
        }
    }
    steps.retain(|(_, calls)| !calls.is_empty());
    steps.sort_by(|(left, _), (right, _)| before(left, right, &known));
    Node::Window(Box::new(Window {
        input,
        steps,
        width,
    }))
}

/// PostgreSQL's order of windows (`common_prefix_cmp`): by the numbers of their sort keys,
/// later ones first, then the longer list of keys.
fn before(left: &WindowDefinition, right: &WindowDefinition, known: &[Expression]) -> Ordering {
    let number = |key: &Expression| known.iter().position(|each| each == key);
    let (left, right) = (left.sort_keys(), right.sort_keys());
    let directions = |order: KeyOrder| (order.descending, order.nulls_first);
    let of_keys = left
        .iter()
        .zip(&right)
        .map(|((one, one_order), (two, two_order))| {
            let by_number = number(two).cmp(&number(one));
            by_number.then_with(|| directions(*two_order).cmp(&directions(*one_order)))
        });
    let mut differing = of_keys.filter(|order| order.is_ne());
    differing
        .next()
        .unwrap_or_else(|| right.len().cmp(&left.len()))
}

/// Replaces references to window functions by columns behind the row's own.
pub(super) fn place_windows(expression: &mut Expression, width: usize) {
    if let Expression::Window(number) = expression {
        *expression = Expression::Column(width + *number);
        return;
    }
    expression.children_mut(&mut |child| place_windows(child, width));
}
