//! Logical rewrites of a SELECT: its subqueries join the tree, conditions take the form
//! that indexes and hash joins can use, and outer joins become inner ones where a condition
//! drops the rows that only an outer join has.

use std::collections::BTreeSet;

use super::flatten::flatten;
use super::from::{FromKind, FromNode, JoinKind};
use super::join_tree::used_columns;
use super::pull_up::{hash_subqueries, pull_up};
use super::push_down::push_down;
use super::shape::{Grouped, has_column, leaves, visit_calls, visit_tree};
use crate::expression::{Binder, Comparison, Expression};
use crate::value::Value;
use crate::{Error, Result};

/// The parts of a SELECT while it is rewritten.
pub(super) struct Logical<'a, 'b> {
    pub tree: &'a mut Option<FromNode>,
    /// Number of virtual columns.
    pub width: &'a mut usize,
    pub conditions: &'a mut Vec<Expression>,
    pub grouping: &'a mut Option<Grouped>,
    /// The expressions of the other clauses: over rows of the tree, or those of the groups.
    pub rows: &'a mut Vec<&'b mut Expression>,
}

impl Logical<'_, '_> {
    /// Calls `visit` for the expressions over rows of the join tree.
    pub(super) fn visit(&mut self, visit: &mut dyn FnMut(&mut Expression)) {
        if let Some(tree) = self.tree {
            visit_tree(tree, visit);
        }
        self.conditions.iter_mut().for_each(&mut *visit);
        match self.grouping {
            None => self.rows.iter_mut().for_each(|each| visit(each)),
            Some(grouped) => {
                grouped.keys.iter_mut().for_each(&mut *visit);
                visit_calls(&mut grouped.calls, visit);
            }
        }
    }

    /// Calls `visit` for all expressions.
    fn visit_all(&mut self, visit: &mut dyn FnMut(&mut Expression)) {
        self.visit(visit);
        if let Some(grouped) = self.grouping {
            let direct = grouped.calls.iter_mut().flat_map(|call| &mut call.direct);
            direct.chain(&mut grouped.having).for_each(&mut *visit);
            self.rows.iter_mut().for_each(|each| visit(each));
        }
    }
}

/// Rewrites a SELECT.
pub(super) fn simplify(binder: &mut Binder<'_>, logical: &mut Logical<'_, '_>) -> Result<()> {
    flatten(logical);
    *logical.conditions = normal(std::mem::take(logical.conditions));
    if let Some(tree) = logical.tree {
        let mut strict = BTreeSet::new();
        for condition in logical.conditions.iter() {
            strict.extend(strict_columns(condition));
        }
        reduce(tree, &strict);
        check_full(tree)?;
        let mut hoisted = std::mem::take(logical.conditions);
        hoist(tree, &mut hoisted);
        *logical.conditions = normal(hoisted);
    }
    if logical.tree.is_some() {
        pull_up(binder, logical);
        transfer_constants(logical.conditions);
        restrict_by_arms(logical);
        push_down(binder, logical)?;
    }
    let mut error = None;
    logical.visit_all(&mut |expression| {
        if error.is_none() {
            error = hash_subqueries(binder, expression).err();
        }
    });
    error.map_or(Ok(()), Err)
}

/// Conditions in conjunctive form: without constants that are true, and with what all arms
/// of an OR have in common in front of it.
fn normal(conditions: Vec<Expression>) -> Vec<Expression> {
    let mut all = Vec::with_capacity(conditions.len());
    for condition in conditions {
        for part in condition.conjuncts() {
            match part {
                Expression::Constant(Value::Bool(true)) => {}
                Expression::Or(arms) => factored(arms, &mut all),
                other if is_known(&other, &all) => {}
                other => all.push(other),
            }
        }
    }
    all
}

/// Limit on the work of comparing conditions with each other, in comparisons.
const COMPARED_AT_MOST: usize = 10_000;

/// Whether a condition is repeated.
fn is_known(condition: &Expression, all: &[Expression]) -> bool {
    all.len() < 100 && !condition.is_volatile() && all.contains(condition)
}

/// Takes the conditions that all arms of an OR have in common out of it.
fn factored(arms: Vec<Expression>, all: &mut Vec<Expression>) {
    let mut arms: Vec<Vec<Expression>> = arms.into_iter().map(Expression::conjuncts).collect();
    let Some((first, others)) = arms.split_first() else {
        return;
    };
    let compared = first.len() * others.iter().map(Vec::len).sum::<usize>();
    let is_common = |each: &&Expression| {
        compared <= COMPARED_AT_MOST
            && !each.is_volatile()
            && others.iter().all(|arm| arm.contains(each))
    };
    let common: Vec<Expression> = first.iter().filter(is_common).cloned().collect();
    if !common.is_empty() {
        for arm in &mut arms {
            arm.retain(|each| !common.contains(each));
        }
        for each in common {
            if !is_known(&each, all) {
                all.push(each);
            }
        }
        // An arm with nothing of its own holds wherever the common conditions do.
        if arms.iter().any(Vec::is_empty) {
            return;
        }
    }
    all.push(Expression::Or(
        arms.into_iter().map(Expression::all_of).collect(),
    ));
}

/// The columns of which none can be null where the condition is true.
fn strict_columns(condition: &Expression) -> BTreeSet<usize> {
    match condition {
        Expression::And(operands) => operands.iter().flat_map(strict_columns).collect(),
        Expression::Or(operands) => {
            let mut arms = operands.iter().map(strict_columns);
            let first = arms.next().unwrap_or_default();
            arms.fold(first, |known, arm| {
                known.intersection(&arm).copied().collect()
            })
        }
        Expression::Not(operand) => match &**operand {
            Expression::IsNull(operand) => strict_in(operand),
            // NOT of a false condition is true, whatever its other operands are.
            Expression::And(_) | Expression::Or(_) | Expression::Subquery(_) => BTreeSet::new(),
            operand => strict_in(operand),
        },
        Expression::IsTruth(operand, true) => strict_columns(operand),
        Expression::InList(operand, _) => strict_in(operand),
        Expression::Quantified {
            all: false,
            operands,
            ..
        } => strict_in(&operands[0]),
        other => strict_in(other),
    }
}

/// The columns that make the value null if they are.
fn strict_in(expression: &Expression) -> BTreeSet<usize> {
    match expression {
        Expression::Column(position) => BTreeSet::from([*position]),
        Expression::Compare(_, operands)
        | Expression::Like(operands, _)
        | Expression::Regex(operands, _) => operands.iter().flat_map(strict_in).collect(),
        Expression::Arithmetic(operator, operands)
            if *operator != crate::expression::ArithmeticOperator::Append =>
        {
            operands.iter().flat_map(strict_in).collect()
        }
        Expression::Negate(operand) | Expression::Not(operand) => strict_in(operand),
        Expression::Cast(cast) => strict_in(&cast.input),
        Expression::Call(call) if call.function.strict => {
            call.arguments.iter().flat_map(strict_in).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Makes outer joins inner, or less outer, where rows that they extend with nulls are
/// dropped above: none of the `strict` columns may be null.
fn reduce(node: &mut FromNode, strict: &BTreeSet<usize>) {
    let FromKind::Join(kind, sides, on) = &mut node.kind else {
        return;
    };
    let hits = |side: &FromNode| strict.iter().any(|column| has_column(side, *column));
    let [left, right] = &mut **sides;
    *kind = match *kind {
        JoinKind::Left if hits(right) => JoinKind::Inner,
        JoinKind::Right if hits(left) => JoinKind::Inner,
        JoinKind::Full => match (hits(left), hits(right)) {
            (true, true) => JoinKind::Inner,
            (true, false) => JoinKind::Left,
            (false, true) => JoinKind::Right,
            (false, false) => JoinKind::Full,
        },
        same => same,
    };
    let here: BTreeSet<usize> = on.iter().flat_map(strict_columns).collect();
    let both: BTreeSet<usize> = strict.union(&here).copied().collect();
    let none = BTreeSet::new();
    let (of_left, of_right) = match kind {
        JoinKind::Inner => (&both, &both),
        JoinKind::Left => (strict, &here),
        JoinKind::Right => (&here, strict),
        JoinKind::Full => (&none, &none),
        JoinKind::Semi => (&both, &here),
        JoinKind::Anti => (strict, &here),
    };
    crate::expression::with_stack(|| {
        reduce(left, of_left);
        reduce(right, of_right);
    });
}

/// Moves the conditions of inner joins that no outer join is above to those of WHERE, which
/// mean the same.
fn hoist(node: &mut FromNode, conditions: &mut Vec<Expression>) {
    let FromKind::Join(kind, sides, on) = &mut node.kind else {
        return;
    };
    let [left, right] = &mut **sides;
    crate::expression::with_stack(|| match kind {
        JoinKind::Inner => {
            conditions.append(on);
            hoist(left, conditions);
            hoist(right, conditions);
        }
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti => hoist(left, conditions),
        JoinKind::Right => hoist(right, conditions),
        JoinKind::Full => {}
    });
}

/// Fails for a FULL JOIN that no hash join can do, as PostgreSQL does.
fn check_full(node: &FromNode) -> Result<()> {
    let FromKind::Join(kind, sides, on) = &node.kind else {
        return Ok(());
    };
    if *kind == JoinKind::Full {
        let [left, right] = &**sides;
        let on: Vec<Expression> = on.iter().cloned().flat_map(Expression::conjuncts).collect();
        let equal = on.iter().any(|condition| is_key(condition, left, right));
        let constant = |each: &Expression| matches!(each, Expression::Constant(_));
        if !equal && !on.iter().all(constant) {
            return Err(Error::new(
                crate::SqlState::FEATURE_NOT_SUPPORTED,
                "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions",
            ));
        }
    }
    sides
        .iter()
        .try_for_each(|side| crate::expression::with_stack(|| check_full(side)))
}

/// Whether a condition says that an expression over one side equals one over the other.
fn is_key(condition: &Expression, left: &FromNode, right: &FromNode) -> bool {
    let Expression::Compare(Comparison::Equal, operands) = condition else {
        return false;
    };
    let within = |expression: &Expression, side: &FromNode| {
        let columns = used_columns([expression]);
        !columns.is_empty() && columns.iter().all(|column| has_column(side, *column))
    };
    let [one, other] = &**operands;
    !condition.is_volatile()
        && (within(one, left) && within(other, right) || within(one, right) && within(other, left))
}

/// Adds `a = 5` where `a = b` and `b = 5` hold.
fn transfer_constants(conditions: &mut Vec<Expression>) {
    let mut pairs = Vec::new();
    let mut fixed = Vec::new();
    for condition in conditions.iter() {
        let Expression::Compare(Comparison::Equal, operands) = condition else {
            continue;
        };
        match &**operands {
            [Expression::Column(one), Expression::Column(other)] => pairs.push((*one, *other)),
            [Expression::Column(column), value] | [value, Expression::Column(column)]
                if matches!(
                    value,
                    Expression::Constant(_) | Expression::Parameter(_) | Expression::Outer(_)
                ) =>
            {
                fixed.push((*column, value.clone()));
            }
            _ => {}
        }
    }
    if pairs.is_empty() || fixed.is_empty() || pairs.len() * fixed.len() > COMPARED_AT_MOST {
        return;
    }
    // Each round carries a constant over one more equality.
    let mut at = 0;
    while let Some((column, value)) = fixed.get(at).cloned() {
        at += 1;
        for (one, other) in &pairs {
            let next = if *one == column {
                *other
            } else if *other == column {
                *one
            } else {
                continue;
            };
            if fixed.iter().any(|(known, _)| *known == next) {
                continue;
            }
            fixed.push((next, value.clone()));
            conditions.push(Expression::Compare(
                Comparison::Equal,
                Box::new([Expression::Column(next), value.clone()]),
            ));
        }
    }
}

/// Adds, for an OR over several relations of which every arm says something of one, what
/// the arms say of that relation: `(a.x = 1 and b.y = 2) or (a.x = 3 and b.y = 4)` leaves
/// only rows of `a` with an `x` of 1 or 3.
fn restrict_by_arms(logical: &mut Logical<'_, '_>) {
    let Some(tree) = &*logical.tree else {
        return;
    };
    let mut relations = Vec::new();
    leaves(tree, &mut relations);
    if relations.len() < 2 {
        return;
    }
    let mut added = Vec::new();
    for condition in logical.conditions.iter() {
        let Expression::Or(arms) = condition else {
            continue;
        };
        let columns = used_columns([condition]);
        let is_simple = !condition.any(&|each| matches!(each, Expression::Subquery(_)))
            && !condition.is_volatile();
        if !is_simple {
            continue;
        }
        for relation in &relations {
            let own = |column: &usize| (relation.start..relation.end).contains(column);
            if !columns.iter().any(own) || columns.iter().all(own) {
                continue;
            }
            let said: Option<Vec<Expression>> = arms
                .iter()
                .map(|arm| {
                    let said: Vec<Expression> = arm
                        .clone()
                        .conjuncts()
                        .into_iter()
                        .filter(|each| {
                            let columns = used_columns([each]);
                            !columns.is_empty() && columns.iter().all(own)
                        })
                        .collect();
                    (!said.is_empty()).then(|| Expression::all_of(said))
                })
                .collect();
            added.extend(said.map(Expression::Or));
        }
    }
    for condition in added {
        if !logical.conditions.contains(&condition) {
            logical.conditions.push(condition);
        }
    }
}
