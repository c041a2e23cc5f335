//! Predicate pushdown: conditions on the groups of a subquery in FROM that depend on its
//! grouping keys only become conditions on its rows.
//!
//! ```text
//!   select … from (select k, sum(v) from t group by k) s where s.k = 7
//!                  … from t where k = 7 group by k
//! ```
//!
//! So an index finds the rows, and groups that the query leaves out are not made.

use super::from::{FromKind, FromNode, JoinKind};
use super::join_tree::used_columns;
use super::pull_up::plan_shape;
use super::shape::{Shape, is_bound_to_frame, is_cheap_to_repeat, substitute};
use super::simplify::Logical;
use crate::Result;
use crate::expression::{Binder, Expression};

/// Moves conditions into the subqueries whose rows they decide on.
pub(super) fn push_down(binder: &mut Binder<'_>, logical: &mut Logical<'_, '_>) -> Result<()> {
    match logical.tree {
        None => Ok(()),
        Some(tree) => below(binder, tree, logical.conditions),
    }
}

/// Goes through the relations that no outer join puts nulls in place of.
fn below(
    binder: &mut Binder<'_>,
    node: &mut FromNode,
    conditions: &mut Vec<Expression>,
) -> Result<()> {
    let (start, end) = (node.start, node.end);
    match &mut node.kind {
        FromKind::Join(kind, sides, _) => {
            let [left, right] = &mut **sides;
            crate::expression::with_stack(|| {
                if *kind != JoinKind::Right && *kind != JoinKind::Full {
                    below(binder, left, conditions)?;
                }
                if matches!(kind, JoinKind::Inner | JoinKind::Right) {
                    below(binder, right, conditions)?;
                }
                Ok(())
            })
        }
        FromKind::Derived(plan, None, source) => {
            let Some(shape) = &mut source.shape else {
                return Ok(());
            };
            if shape.ordered || shape.tree.as_ref().is_none_or(is_bound_to_frame) {
                return Ok(());
            }
            let before = shape.conditions.len();
            let mut kept = Vec::with_capacity(conditions.len());
            for condition in std::mem::take(conditions) {
                match over_rows(shape, &condition, start, end) {
                    Some(pushed) => shape.conditions.push(pushed),
                    None => kept.push(condition),
                }
            }
            *conditions = kept;
            if shape.conditions.len() > before {
                let planned = plan_shape(binder, (**shape).clone())?;
                *plan = planned.root;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The condition as one over the rows that the subquery groups, if it depends on what is the
/// same for all rows of a group.
fn over_rows(
    shape: &Shape,
    condition: &Expression,
    start: usize,
    end: usize,
) -> Option<Expression> {
    let columns = used_columns([condition]);
    let is_own = |column: &usize| (start..end).contains(column);
    let is_simple = !condition.is_volatile()
        && !condition.any(&|each| matches!(each, Expression::Subquery(_) | Expression::Outer(_)));
    if columns.is_empty() || !columns.iter().all(is_own) || !is_simple {
        return None;
    }
    // What computes each column, over rows of the subquery's join tree.
    let mut outputs = Vec::with_capacity(columns.len());
    for column in columns {
        let mut output = shape.outputs.get(column - start)?.clone();
        if let Some(grouped) = &shape.grouped {
            let is_key = |column: &usize| *column < grouped.keys.len();
            if !used_columns([&output]).iter().all(is_key) {
                return None;
            }
            substitute(&mut output, &|each| match each {
                Expression::Column(key) => grouped.keys.get(*key).cloned(),
                _ => None,
            });
        }
        let has_subquery = output.any(&|each| matches!(each, Expression::Subquery(_)));
        if output.is_volatile() || has_subquery || !is_cheap_to_repeat(&output) {
            return None;
        }
        outputs.push((column, output));
    }
    // Without GROUP BY there is a group of no rows, too.
    if shape
        .grouped
        .as_ref()
        .is_some_and(|grouped| grouped.keys.is_empty())
    {
        return None;
    }
    let mut condition = condition.clone();
    substitute(&mut condition, &|each| match each {
        Expression::Column(column) => outputs
            .iter()
            .find(|(known, _)| known == column)
            .map(|(_, output)| output.clone()),
        _ => None,
    });
    Some(condition)
}
