//! Subqueries in conditions as joins: EXISTS and IN become semi joins, NOT EXISTS an anti
//! join; elsewhere a correlated subquery gets a *hashed form*.
//!
//! ```text
//!   … from a where exists (select 1 from b where b.x = a.x and b.y > 5)
//!
//!   a  ⋉  b   on b.x = a.x and b.y > 5
//! ```
//!
//! NOT IN is no anti join: a null on either side makes it null. It stays a subquery, whose
//! values are collected once. A subquery that stays in an expression, and takes values from
//! the enclosing row only to compare them for equality, gets a plan without these
//! comparisons that returns the compared values as well. The executor runs it once, and
//! finds the rows of each enclosing row by hash:
//!
//! ```text
//!   (select max(b.y) from b where b.x = a.x)        select b.x, max(b.y) from b group by b.x
//! ```

use std::sync::Arc;

use super::estimate::Estimator;
use super::from::{FromNode, JoinKind, joined};
use super::join_tree::{spread, used_by_tree, used_columns};
use super::layout::arrange;
use super::node::Node;
use super::select::group;
use super::shape::{Grouped, Shape, is_bound_to_frame, move_expression, substitute};
use super::simplify::Logical;
use crate::Result;
use crate::expression::{Binder, Comparison, Expression, HashedSubquery, Subquery, SubqueryKind};
use crate::plan::Path;
use crate::select::QueryPlan;

/// Makes semi and anti joins of the conditions that are EXISTS, NOT EXISTS and IN.
pub(super) fn pull_up(binder: &Binder<'_>, logical: &mut Logical<'_, '_>) {
    let Some(mut tree) = logical.tree.take() else {
        return;
    };
    let conditions = std::mem::take(logical.conditions);
    for condition in conditions {
        match semi_join(binder, &condition, logical.width) {
            Some((kind, right, on)) => tree = joined(kind, tree, right, on),
            None => logical.conditions.push(condition),
        }
    }
    *logical.tree = Some(tree);
}

/// The join that a condition means: its kind, its right side and its conditions.
fn semi_join(
    binder: &Binder<'_>,
    condition: &Expression,
    width: &mut usize,
) -> Option<(JoinKind, FromNode, Vec<Expression>)> {
    let (kind, subquery) = match condition {
        Expression::Subquery(subquery) => (JoinKind::Semi, subquery),
        Expression::Not(operand) => match &**operand {
            Expression::Subquery(subquery) if subquery.kind == SubqueryKind::Exists => {
                (JoinKind::Anti, subquery)
            }
            _ => return None,
        },
        _ => return None,
    };
    let operand = match subquery.kind {
        SubqueryKind::Exists => None,
        SubqueryKind::Any(Comparison::Equal) => Some(subquery.operand.as_ref()?),
        _ => return None,
    };
    // What the condition does not take from the row is the same for all rows.
    let is_linked = match operand {
        Some(operand) => operand.uses_row(),
        None => subquery.correlations.iter().any(Expression::uses_row),
    };
    let is_stable = |expression: &Expression| !expression.is_volatile();
    let stable = subquery.correlations.iter().chain(operand).all(is_stable);
    let shape = binder.shapes.get(&subquery.number)?;
    if !is_linked || !stable || shape.grouped.is_some() || is_volatile(shape) {
        return None;
    }
    if is_bound_to_frame(shape.tree.as_ref()?) {
        return None;
    }
    let mut shape = shape.clone();
    let by = *width;
    *width += shape.width;
    shape.move_into(by, &subquery.correlations);
    let mut on = shape.conditions;
    if let Some(operand) = operand {
        let value = shape.outputs.into_iter().next()?;
        on.push(Expression::Compare(
            Comparison::Equal,
            Box::new([operand.clone(), value]),
        ));
    }
    Some((kind, shape.tree?, on))
}

fn is_volatile(shape: &Shape) -> bool {
    shape.any(&Expression::is_volatile_here)
}

/// Gives the correlated subqueries of an expression their hashed forms, where they have
/// one.
pub(crate) fn hash_subqueries(binder: &mut Binder<'_>, expression: &mut Expression) -> Result<()> {
    if let Expression::Subquery(subquery) = expression
        && !subquery.correlations.is_empty()
        && !subquery.reads_anew()
        && subquery.hashed.is_none()
    {
        subquery.hashed = hashed(binder, subquery)?;
    }
    let mut result = Ok(());
    expression.children_mut(&mut |child| {
        if result.is_ok() {
            result = hash_subqueries(binder, child);
        }
    });
    result
}

fn takes_outer(expression: &Expression) -> bool {
    expression.any(&|each| matches!(each, Expression::Outer(_)))
}

fn hashed(binder: &mut Binder<'_>, subquery: &Subquery) -> Result<Option<Box<HashedSubquery>>> {
    let Some(shape) = binder.shapes.get(&subquery.number) else {
        return Ok(None);
    };
    let fits = match (subquery.kind, &shape.grouped) {
        (SubqueryKind::Exists | SubqueryKind::Any(Comparison::Equal), None) => true,
        (SubqueryKind::Scalar, None) => !shape.distinct,
        (SubqueryKind::Scalar, Some(grouped)) => {
            grouped.keys.is_empty()
                && grouped.groupings.is_empty()
                && grouped.having.is_none()
                && !shape.distinct
        }
        _ => false,
    };
    if !fits || shape.tree.is_none() || is_volatile(shape) {
        return Ok(None);
    }
    let mut shape = shape.clone();
    let Some((outer, inner)) = split_keys(&mut shape) else {
        return Ok(None);
    };
    if subquery.kind == SubqueryKind::Exists {
        shape.outputs.clear();
    }
    // The executor makes sets of the rows itself.
    shape.distinct = false;
    if shape.any(&|each| matches!(each, Expression::Outer(_))) {
        return Ok(None);
    }
    let has_index = uses_index(&subquery.plan.root);
    let rows = Estimator::new(binder).read_rows(&shape);
    let grouped = shape.grouped.is_some();
    match &mut shape.grouped {
        None => {
            let mut outputs = inner;
            outputs.append(&mut shape.outputs);
            shape.outputs = outputs;
        }
        Some(Grouped { keys, .. }) => {
            let count = inner.len();
            *keys = inner;
            for output in &mut shape.outputs {
                move_expression(output, count, &[]);
            }
            let keys = (0..count).map(Expression::Column);
            shape.outputs = keys.chain(std::mem::take(&mut shape.outputs)).collect();
        }
    }
    let plan = plan_shape(binder, shape)?;
    let keys = outer
        .into_iter()
        .map(|mut key| {
            substitute(&mut key, &|each| match each {
                Expression::Outer(number) => subquery.correlations.get(*number).cloned(),
                _ => None,
            });
            key
        })
        .collect();
    Ok(Some(Box::new(HashedSubquery {
        plan: Arc::new(plan),
        keys,
        grouped,
        // Some lookups in an index cost less than reading everything once.
        after: if has_index {
            (rows / ROWS_A_LOOKUP) as u64
        } else {
            0
        },
    })))
}

/// Rows that are read in the time of a subquery's run that uses an index.
const ROWS_A_LOOKUP: f64 = 10.0;

/// Takes the conditions that compare a value of the enclosing row with one of the
/// subquery's out of the shape: the compared values of both. `None` if there are none.
fn split_keys(shape: &mut Shape) -> Option<(Vec<Expression>, Vec<Expression>)> {
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    shape.conditions.retain(|condition| {
        let Expression::Compare(Comparison::Equal, operands) = condition else {
            return true;
        };
        let [one, other] = &**operands;
        for (known, own) in [(one, other), (other, one)] {
            if takes_outer(known) && !known.uses_row() && own.uses_row() && !takes_outer(own) {
                outer.push(known.clone());
                inner.push(own.clone());
                return false;
            }
        }
        true
    });
    (!outer.is_empty()).then_some((outer, inner))
}

/// Whether a node finds rows through an index by values of the enclosing row.
fn uses_index(node: &Node) -> bool {
    node.any_node(&|node| {
        let Node::Scan(scan) = node else {
            return false;
        };
        match &scan.path {
            Path::Key { key, .. } => key.iter().any(takes_outer),
            Path::Range { prefix, .. } => prefix.iter().any(takes_outer),
            Path::List { prefix, list, .. } => {
                prefix.iter().chain(list.expressions()).any(takes_outer)
            }
            Path::Table => false,
        }
    })
}

/// Makes nodes of a SELECT in its logical form.
pub(super) fn plan_shape(binder: &mut Binder<'_>, shape: Shape) -> Result<QueryPlan> {
    let Shape {
        mut tree,
        mut width,
        mut conditions,
        mut outputs,
        mut grouped,
        distinct,
        ..
    } = shape;
    let mut rows: Vec<&mut Expression> = outputs.iter_mut().collect();
    let mut logical = Logical {
        tree: &mut tree,
        width: &mut width,
        conditions: &mut conditions,
        grouping: &mut grouped,
        rows: &mut rows,
    };
    arrange(binder, &mut logical)?;
    let mut used = match &grouped {
        None => used_columns(&outputs),
        Some(grouped) => used_columns(grouped.expressions()),
    };
    used.extend(used_columns(&conditions));
    if let Some(tree) = &tree {
        used_by_tree(tree, &mut used);
    }
    let mut node = spread(tree, conditions, &used);
    if let Some(grouped) = grouped {
        node = group(node, grouped);
    }
    node = Node::Project {
        input: Box::new(node),
        expressions: outputs,
    };
    if distinct {
        node = Node::Distinct {
            input: Box::new(node),
            by: Vec::new(),
        };
    }
    Ok(QueryPlan::new(node, Vec::new()))
}
