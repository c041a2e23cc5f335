//! Subquery flattening: a subquery in FROM that only joins, selects and computes becomes
//! part of the join tree of the query around it.
//!
//! So its relations take part in the choice of the join order, and conditions reach them.
//! The subquery's columns are replaced by what computes them.

use super::from::{FromKind, FromNode, JoinKind};
use super::shape::{Shape, is_bound_to_frame, is_cheap_to_repeat, substitute, visit_tree};
use super::simplify::Logical;
use crate::expression::Expression;

/// Takes the subqueries of the FROM list apart that can be.
pub(super) fn flatten(logical: &mut Logical<'_, '_>) {
    let Some(tree) = logical.tree.take() else {
        return;
    };
    let mut flatten = Flatten {
        width: *logical.width,
        replaced: Vec::new(),
    };
    let mut conditions = Vec::new();
    let mut tree = flatten.node(tree, Standing::Inner, &mut conditions);
    *logical.width = flatten.width;
    let replaced = flatten.replaced;
    if !replaced.is_empty() {
        // What has come from a subquery has no replaced columns left in it.
        visit_tree(&mut tree, &mut |expression| replace(expression, &replaced));
        logical.visit(&mut |expression| replace(expression, &replaced));
        // A subquery's conditions may keep values from those around it that these fail for.
        conditions.append(logical.conditions);
        *logical.conditions = conditions;
    }
    *logical.tree = Some(tree);
}

/// Columns of a subquery, from `start` to `end`, and what computes them.
struct Replaced {
    start: usize,
    end: usize,
    outputs: Vec<Expression>,
}

fn replace(expression: &mut Expression, replaced: &[Replaced]) {
    substitute(expression, &|each| {
        let Expression::Column(position) = each else {
            return None;
        };
        let found = replaced
            .iter()
            .find(|each| (each.start..each.end).contains(position))?;
        found.outputs.get(*position - found.start).cloned()
    });
}

/// Where a relation stands in the join tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Its rows are in the result only if they satisfy the conditions.
    Inner,
    /// An outer join may put nulls in place of its columns.
    Nullable,
    /// Likewise, and no condition can be added to its join.
    Full,
}

struct Flatten {
    width: usize,
    replaced: Vec<Replaced>,
}

impl Flatten {
    /// Flattens what is below a node. Conditions of subqueries are added to `conditions`.
    fn node(
        &mut self,
        mut node: FromNode,
        place: Standing,
        conditions: &mut Vec<Expression>,
    ) -> FromNode {
        match node.kind {
            FromKind::Join(kind, sides, mut on) => {
                let [left, right] = *sides;
                // Those of subqueries come first, as below.
                let mut first = Vec::new();
                let outer = match place {
                    Standing::Full => Standing::Full,
                    Standing::Inner | Standing::Nullable => Standing::Nullable,
                };
                let (left, right) = crate::expression::with_stack(|| match kind {
                    JoinKind::Inner => (
                        self.node(left, place, conditions),
                        self.node(right, place, conditions),
                    ),
                    JoinKind::Left => (
                        self.node(left, place, conditions),
                        self.node(right, outer, &mut first),
                    ),
                    JoinKind::Right => (
                        self.node(left, outer, &mut first),
                        self.node(right, place, conditions),
                    ),
                    JoinKind::Full => (
                        self.node(left, Standing::Full, conditions),
                        self.node(right, Standing::Full, conditions),
                    ),
                    JoinKind::Semi | JoinKind::Anti => (self.node(left, place, conditions), right),
                });
                first.append(&mut on);
                node.kind = FromKind::Join(kind, Box::new([left, right]), first);
                node
            }
            FromKind::Derived(plan, mut correlations, mut source) => {
                // A LATERAL subquery may refer to one that has been taken apart.
                for expression in correlations.iter_mut().flatten() {
                    replace(expression, &self.replaced);
                }
                let lateral = correlations.is_some();
                let shape = source.shape.as_ref();
                let fits = shape.is_some_and(|shape| can_be_flattened(shape, place, lateral));
                match source.shape.take_if(|_| fits) {
                    Some(shape) => {
                        let (start, end) = (node.start, node.end);
                        self.subquery(*shape, correlations.as_deref(), start, end, conditions)
                    }
                    None => {
                        node.kind = FromKind::Derived(plan, correlations, source);
                        node
                    }
                }
            }
            kind => {
                node.kind = kind;
                node
            }
        }
    }

    fn subquery(
        &mut self,
        mut shape: Shape,
        correlations: Option<&[Expression]>,
        start: usize,
        end: usize,
        conditions: &mut Vec<Expression>,
    ) -> FromNode {
        let by = self.width;
        self.width += shape.width;
        // Without LATERAL, values of an enclosing row are those of the same frame.
        shape.move_into(by, correlations.unwrap_or_default());
        conditions.append(&mut shape.conditions);
        self.replaced.push(Replaced {
            start,
            end,
            outputs: shape.outputs,
        });
        shape.tree.unwrap_or_else(|| FromNode::nothing(by))
    }
}

fn can_be_flattened(shape: &Shape, place: Standing, lateral: bool) -> bool {
    if !shape.is_plain() || lateral && shape.tree.as_ref().is_some_and(is_bound_to_frame) {
        return false;
    }
    // An expression that is computed wherever it is used must be cheap and always the same.
    let is_simple = |output: &Expression| {
        is_cheap_to_repeat(output)
            && !output.is_volatile()
            && !output.any(&|each| matches!(each, Expression::Subquery(_)))
    };
    // Beneath an outer join, only a column is null in a row without a match.
    let is_nulled = |output: &Expression| matches!(output, Expression::Column(_));
    let place_permits = match place {
        Standing::Inner => true,
        Standing::Nullable => shape.tree.is_some() && shape.outputs.iter().all(is_nulled),
        Standing::Full => {
            shape.tree.is_some()
                && shape.conditions.is_empty()
                && shape.outputs.iter().all(is_nulled)
        }
    };
    place_permits
        && shape.outputs.iter().all(is_simple)
        && !shape.conditions.iter().any(Expression::is_volatile)
}
