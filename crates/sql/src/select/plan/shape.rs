//! The logical form of a SELECT, before its join tree becomes nodes: what the planner of a
//! query around it takes apart.
//!
//! Columns of a logical form are *virtual*: each relation has numbers of its own, wherever
//! it stands in the join tree. So a subquery is pulled up by numbering its columns after
//! those of the query around it, and relations change their order without a change of
//! expressions. [`super::layout`] gives the columns their positions in the rows at last.

use std::cell::Cell;

use super::from::{FromKind, FromNode};
use crate::expression::{AggregateCall, Expression};

/// A SELECT in its logical form.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The join tree; `None` without FROM.
    pub(super) tree: Option<FromNode>,
    /// Number of virtual columns.
    pub(super) width: usize,
    /// Conditions of WHERE: all are true of a row.
    pub(super) conditions: Vec<Expression>,
    /// The select list, over rows of the tree, or over those of the groups.
    pub(super) outputs: Vec<Expression>,
    /// Grouping, if the query has any.
    pub(super) grouped: Option<Grouped>,
    /// Whether duplicates are removed.
    pub(super) distinct: bool,
    /// Whether the rows have an order, which the form does not keep.
    pub(super) ordered: bool,
    /// How many such forms are within each other, this one included.
    pub(super) levels: usize,
}

/// Limit on logical forms within each other: each copies those in it.
pub(super) const LEVELS_AT_MOST: usize = 12;

/// The grouping of a SELECT.
#[derive(Clone, Debug)]
pub(super) struct Grouped {
    pub keys: Vec<Expression>,
    /// The grouping sets, by positions of their keys; `None` for the one that has all keys.
    pub sets: Option<Vec<Vec<usize>>>,
    pub calls: Vec<AggregateCall>,
    /// GROUPING operations, by positions of their keys.
    pub groupings: Vec<Vec<usize>>,
    /// Condition over rows of the groups.
    pub having: Option<Expression>,
}

impl Grouped {
    /// The expressions over rows of the join tree.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let of_calls = self.calls.iter().flat_map(|call| {
            call.argument
                .iter()
                .chain(&call.second)
                .chain(&call.filter)
                .chain(call.order.iter().map(|(key, ..)| key))
        });
        self.keys.iter().chain(of_calls)
    }

    /// The expressions over rows of the groups.
    fn over_groups(&self) -> impl Iterator<Item = &Expression> {
        let direct = self.calls.iter().flat_map(|call| &call.direct);
        direct.chain(&self.having)
    }
}

impl Shape {
    /// Whether the rows are those of the join tree, one for one.
    pub(super) fn is_plain(&self) -> bool {
        self.grouped.is_none() && !self.distinct && !self.ordered
    }

    /// The form with only one of its columns.
    pub(crate) fn column(&self, position: usize) -> Option<Self> {
        let output = self.outputs.get(position)?.clone();
        let mut shape = self.clone();
        shape.outputs = vec![output];
        Some(shape)
    }

    /// Replaces the first column by what `converted` computes from it.
    pub(crate) fn convert_first(&mut self, converted: &Expression) {
        if let Some(output) = self.outputs.first_mut() {
            let mut converted = converted.clone();
            substitute(&mut converted, &|each| match each {
                Expression::Column(0) => Some(output.clone()),
                _ => None,
            });
            *output = converted;
        }
    }

    /// Calls `visit` for the expressions over rows of the join tree.
    pub(super) fn visit(&mut self, visit: &mut dyn FnMut(&mut Expression)) {
        if let Some(tree) = &mut self.tree {
            visit_tree(tree, visit);
        }
        self.conditions.iter_mut().for_each(&mut *visit);
        match &mut self.grouped {
            None => self.outputs.iter_mut().for_each(visit),
            Some(grouped) => {
                grouped.keys.iter_mut().for_each(&mut *visit);
                visit_calls(&mut grouped.calls, visit);
            }
        }
    }

    /// Whether an expression that is evaluated over rows of the join tree, or one of the
    /// nodes inside it, passes `test`.
    pub(super) fn any(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        let tests = |expression: &Expression| expression.any(test);
        self.tree.as_ref().is_some_and(|tree| tree_any(tree, test))
            || self.conditions.iter().any(tests)
            || self.outputs.iter().any(tests)
            || self.grouped.as_ref().is_some_and(|grouped| {
                grouped
                    .expressions()
                    .chain(grouped.over_groups())
                    .any(tests)
            })
    }

    /// Numbers the columns from `by` on, and replaces values of the enclosing query's row
    /// by the expressions that they are there.
    pub(super) fn move_into(&mut self, by: usize, correlations: &[Expression]) {
        if let Some(tree) = &mut self.tree {
            shift(tree, by);
        }
        self.visit(&mut |expression| move_expression(expression, by, correlations));
    }
}

/// See [`Shape::move_into`].
pub(super) fn move_expression(expression: &mut Expression, by: usize, correlations: &[Expression]) {
    substitute(expression, &|each| match each {
        Expression::Column(position) => Some(Expression::Column(position + by)),
        Expression::Outer(number) => correlations.get(*number).cloned(),
        _ => None,
    });
}

/// Whether an expression may be put in place of each column that shows it: without a bound, each
/// level of nested subqueries that uses a column twice would double the plan.
pub(super) fn is_cheap_to_repeat(expression: &Expression) -> bool {
    /// Most parts of it.
    const PARTS: u32 = 32;
    let parts = Cell::new(0);
    !expression.any(&|_| {
        parts.set(parts.get() + 1);
        parts.get() > PARTS
    })
}

/// Replaces the parts of an expression for which `replace` returns something.
pub(super) fn substitute(
    expression: &mut Expression,
    replace: &dyn Fn(&Expression) -> Option<Expression>,
) {
    if let Some(new) = replace(expression) {
        *expression = new;
        return;
    }
    expression.children_mut(&mut |child| substitute(child, replace));
}

/// Calls `visit` for the expressions of aggregates over rows of the join tree.
pub(super) fn visit_calls(calls: &mut [AggregateCall], visit: &mut dyn FnMut(&mut Expression)) {
    for call in calls {
        call.over_rows_mut(visit);
    }
}

/// Calls `visit` for the expressions of a join tree.
pub(super) fn visit_tree(node: &mut FromNode, visit: &mut dyn FnMut(&mut Expression)) {
    match &mut node.kind {
        FromKind::Nothing | FromKind::Table(..) | FromKind::System(..) => {}
        FromKind::Derived(_, correlations, _) => correlations.iter_mut().flatten().for_each(visit),
        FromKind::Function(function) => function.arguments.iter_mut().for_each(visit),
        FromKind::Join(_, sides, on) => {
            on.iter_mut().for_each(&mut *visit);
            for side in &mut **sides {
                crate::expression::with_stack(|| visit_tree(side, visit));
            }
        }
    }
}

/// Whether an expression of the tree, or of a subquery's nodes in it, passes the test.
fn tree_any(node: &FromNode, test: &dyn Fn(&Expression) -> bool) -> bool {
    match &node.kind {
        FromKind::Nothing | FromKind::Table(..) | FromKind::System(..) => false,
        FromKind::Derived(plan, correlations, _) => {
            correlations.iter().flatten().any(|each| each.any(test))
                || plan.any_expression(&|each| each.any(test))
        }
        FromKind::Function(function) => function.arguments.iter().any(|each| each.any(test)),
        FromKind::Join(_, sides, on) => {
            on.iter().any(|each| each.any(test))
                || sides
                    .iter()
                    .any(|side| crate::expression::with_stack(|| tree_any(side, test)))
        }
    }
}

/// Whether a subquery in the tree, without LATERAL, takes values from the enclosing query's
/// row: its nodes can then run in this frame only.
pub(super) fn is_bound_to_frame(node: &FromNode) -> bool {
    let takes = |each: &Expression| matches!(each, Expression::Outer(_));
    match &node.kind {
        FromKind::Derived(plan, None, _) => plan.any_expression(&|each| each.any(&takes)),
        FromKind::Join(_, sides, _) => sides
            .iter()
            .any(|side| crate::expression::with_stack(|| is_bound_to_frame(side))),
        _ => false,
    }
}

/// Moves the columns of all relations.
fn shift(node: &mut FromNode, by: usize) {
    node.start += by;
    node.end += by;
    if let FromKind::Join(_, sides, _) = &mut node.kind {
        for side in &mut **sides {
            crate::expression::with_stack(|| shift(side, by));
        }
    }
}

/// The relations of a join tree, from the left.
pub(super) fn leaves<'a>(node: &'a FromNode, found: &mut Vec<&'a FromNode>) {
    match &node.kind {
        FromKind::Join(_, sides, _) => {
            for side in &**sides {
                crate::expression::with_stack(|| leaves(side, found));
            }
        }
        _ => found.push(node),
    }
}

/// Limit on relations of a query that a query around it takes apart: its logical form is
/// copied.
const COPIED_AT_MOST: usize = 100;

/// How many logical forms are within each other in a tree.
pub(super) fn levels(tree: &FromNode) -> usize {
    let mut relations = Vec::new();
    leaves(tree, &mut relations);
    let of_relations = relations.iter().map(|relation| match &relation.kind {
        FromKind::Derived(_, _, source) => source.shape.as_ref().map_or(0, |shape| shape.levels),
        _ => 0,
    });
    of_relations.max().unwrap_or(0)
}

/// Whether the tree has few relations.
pub(super) fn is_small(tree: &FromNode) -> bool {
    let mut relations = Vec::new();
    leaves(tree, &mut relations);
    relations.len() <= COPIED_AT_MOST
}

/// Whether a column belongs to the tree.
pub(super) fn has_column(node: &FromNode, column: usize) -> bool {
    let mut relations = Vec::new();
    leaves(node, &mut relations);
    relations
        .iter()
        .any(|relation| (relation.start..relation.end).contains(&column))
}
