//! Layout: gives the columns of a join tree their positions in the rows, in the order in
//! which the joins append them.

use super::estimate::Estimator;
use super::from::{FromKind, FromNode, JoinKind};
use super::join_order::JoinOrder;
use super::shape::substitute;
use super::simplify::Logical;
use crate::Result;
use crate::expression::{Binder, Expression};

/// Chooses the order of joins, and replaces virtual columns by positions in the row.
pub(super) fn arrange(binder: &mut Binder<'_>, logical: &mut Logical<'_, '_>) -> Result<()> {
    let Some(tree) = logical.tree.take() else {
        return Ok(());
    };
    let memory = binder.session.work_memory as f64;
    let is_single = !matches!(tree.kind, FromKind::Join(..));
    let counted = binder.counted.clone();
    let mut estimator = Estimator::new(binder);
    let facts = estimator.facts(&tree, *logical.width);
    let mut order = JoinOrder {
        estimator: &mut estimator,
        facts,
        memory,
    };
    let mut tree = order.order(tree, logical.conditions, None);
    if is_single {
        // The plan is the same for any number of rows.
        binder.counted = counted;
    }
    let mut positions: Vec<Option<usize>> = vec![None; *logical.width];
    let end = place(&mut tree, 0, &mut positions);
    *logical.tree = Some(tree);
    let moved = positions
        .iter()
        .enumerate()
        .any(|(column, position)| position.is_some_and(|position| position != column));
    if moved {
        logical.visit(&mut |expression| {
            substitute(expression, &|each| match each {
                Expression::Column(column) => {
                    let position = positions.get(*column).copied().flatten()?;
                    Some(Expression::Column(position))
                }
                _ => None,
            });
        });
    }
    *logical.width = end;
    Ok(())
}

/// Places the columns of a tree from `at` on; returns the position after the last one that
/// its rows have.
fn place(node: &mut FromNode, at: usize, positions: &mut [Option<usize>]) -> usize {
    let start = node.start;
    node.start = at;
    node.end = match &mut node.kind {
        FromKind::Join(kind, sides, _) => {
            let [left, right] = &mut **sides;
            crate::expression::with_stack(|| {
                let middle = place(left, at, positions);
                let end = place(right, middle, positions);
                match kind {
                    JoinKind::Semi | JoinKind::Anti => middle,
                    _ => end,
                }
            })
        }
        _ => {
            let width = node.end - start;
            for column in 0..width {
                if let Some(position) = positions.get_mut(start + column) {
                    *position = Some(at + column);
                }
            }
            at + width
        }
    };
    node.end
}
