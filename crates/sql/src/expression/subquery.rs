//! Execution of subqueries inside expressions.
//!
//! An uncorrelated subquery has one result for the whole statement: the evaluator runs
//! it once and caches the result, as a set for IN. A correlated subquery runs for every
//! row.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::context::BUDGET;
use super::{Comparison, EvaluationContext, Expression};
use crate::select::{Cursor, QueryPlan};
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState, Value};

/// A bound subquery inside an expression.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// How the expression uses the subquery's rows.
    pub kind: SubqueryKind,
    /// Value that IN, ANY and ALL compare with the subquery's rows.
    pub operand: Option<Expression>,
    /// Plan of the subquery.
    pub plan: Arc<QueryPlan>,
    /// Expressions over the enclosing query's row that the subquery is correlated with.
    pub correlations: Vec<Expression>,
    /// Number of the subquery within the statement; the key of its cached result.
    pub number: usize,
}

impl PartialEq for Subquery {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && self.correlations == other.correlations
    }
}

/// How an expression uses a subquery's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryKind {
    /// Scalar subquery: the value of its only row; null if it returns none.
    Scalar,
    /// EXISTS: whether it returns a row.
    Exists,
    /// Whether a comparison is true for any row. IN is ANY with `=`.
    Any(Comparison),
    /// ALL: whether a comparison is true for all rows.
    All(Comparison),
    /// ARRAY: the values of all rows as an array.
    Array,
}

/// Cached result of an uncorrelated subquery.
#[derive(Clone, Debug)]
pub(super) enum Remembered {
    Value(Value),
    Set(Arc<Set>),
}

/// The values of an uncorrelated IN subquery.
#[derive(Debug)]
pub(super) struct Set {
    keys: BTreeSet<Vec<u8>>,
    has_null: bool,
}

fn too_many_rows() -> Error {
    Error::new(
        SqlState::CARDINALITY_VIOLATION,
        "more than one row returned by a subquery used as an expression",
    )
}

impl Subquery {
    pub(super) fn evaluate(
        &self,
        context: &mut EvaluationContext<'_>,
        row: &[Value],
    ) -> Result<Value> {
        let operand = match &self.operand {
            Some(operand) => operand.evaluate(context, row)?,
            None => Value::Null,
        };
        let constant = self.correlations.is_empty() && !self.plan.is_volatile();
        if constant {
            match context.remembered.get(&self.number) {
                Some(Remembered::Value(value)) => return Ok(value.clone()),
                Some(Remembered::Set(set)) => return Ok(is_in(&operand, &Arc::clone(set))),
                None => {}
            }
        }
        let mut taken = Vec::with_capacity(self.correlations.len());
        for correlation in &self.correlations {
            taken.push(correlation.evaluate(context, row)?);
        }
        let outer = std::mem::replace(&mut context.outer, taken);
        let budget = std::mem::replace(&mut context.budget, BUDGET);
        let result = self.run(context, &operand, constant);
        context.outer = outer;
        // Charges the subquery's rows to the enclosing query's row budget.
        let spent = BUDGET.saturating_sub(context.budget);
        context.budget = budget.saturating_sub(spent);
        let value = result?;
        let depends_on_operand = self.operand.is_some();
        if constant && !depends_on_operand {
            context
                .remembered
                .insert(self.number, Remembered::Value(value.clone()));
        }
        Ok(value)
    }

    fn run(
        &self,
        context: &mut EvaluationContext<'_>,
        operand: &Value,
        constant: bool,
    ) -> Result<Value> {
        let mut cursor = Cursor::new(&self.plan);
        let result = self.run_cursor(&mut cursor, context, operand, constant);
        cursor.give_back(context);
        result
    }

    fn run_cursor(
        &self,
        cursor: &mut Cursor,
        context: &mut EvaluationContext<'_>,
        operand: &Value,
        constant: bool,
    ) -> Result<Value> {
        match self.kind {
            SubqueryKind::Scalar => {
                let mut value = None;
                cursor.visit_now(context, &mut |_, row| {
                    if value.is_some() {
                        return Err(too_many_rows());
                    }
                    value = Some(first(row));
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(value.unwrap_or_default())
            }
            SubqueryKind::Exists => {
                let mut exists = false;
                cursor.visit_now(context, &mut |_, _| {
                    exists = true;
                    Ok(ControlFlow::Break(()))
                })?;
                Ok(Value::Bool(exists))
            }
            SubqueryKind::Array => {
                let mut values = Vec::new();
                cursor.visit_now(context, &mut |context, row| {
                    context.memory.take(std::mem::size_of::<Value>())?;
                    values.push(first(row));
                    Ok(ControlFlow::Continue(()))
                })?;
                // The array's memory is that of the row it becomes part of.
                context
                    .memory
                    .give_back(values.len() * std::mem::size_of::<Value>());
                Ok(Value::Array(values.into()))
            }
            SubqueryKind::Any(Comparison::Equal) if constant => {
                let set = Arc::new(collect(cursor, context)?);
                context
                    .remembered
                    .insert(self.number, Remembered::Set(Arc::clone(&set)));
                Ok(is_in(operand, &set))
            }
            SubqueryKind::Any(comparison) => {
                compare_all(cursor, context, operand, comparison, true)
            }
            SubqueryKind::All(comparison) => {
                compare_all(cursor, context, operand, comparison, false)
            }
        }
    }
}

/// The only column of a scalar subquery's row.
fn first(row: Vec<Value>) -> Value {
    row.into_iter().next().unwrap_or_default()
}

/// Collects the values of all rows into a set.
fn collect(cursor: &mut Cursor, context: &mut EvaluationContext<'_>) -> Result<Set> {
    let mut set = Set {
        keys: BTreeSet::new(),
        has_null: false,
    };
    cursor.visit_now(context, &mut |context, row| {
        let value = first(row);
        if value.is_null() {
            set.has_null = true;
        } else {
            let mut key = Vec::new();
            value.write_key(KeyOrder::ASCENDING, &mut key);
            let bytes = key.len() + 48;
            if set.keys.insert(key) {
                context.memory.take(bytes)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(set)
}

/// ANY is `decisive` as soon as the comparison is true, ALL as soon as it is false. If
/// no row decides, a row that compares as null makes the result null.
fn compare_all(
    cursor: &mut Cursor,
    context: &mut EvaluationContext<'_>,
    operand: &Value,
    comparison: Comparison,
    decisive: bool,
) -> Result<Value> {
    let mut result = Value::Bool(!decisive);
    cursor.visit_now(context, &mut |_, row| {
        Ok(match comparison.holds(operand, &first(row)) {
            Some(holds) if holds == decisive => {
                result = Value::Bool(decisive);
                ControlFlow::Break(())
            }
            Some(_) => ControlFlow::Continue(()),
            None => {
                result = Value::Null;
                ControlFlow::Continue(())
            }
        })
    })?;
    Ok(result)
}

fn is_in(operand: &Value, set: &Set) -> Value {
    if set.keys.is_empty() && !set.has_null {
        return Value::Bool(false);
    }
    if operand.is_null() {
        return Value::Null;
    }
    let mut key = Vec::new();
    operand.write_key(KeyOrder::ASCENDING, &mut key);
    match (set.keys.contains(&key), set.has_null) {
        (true, _) => Value::Bool(true),
        (false, true) => Value::Null,
        (false, false) => Value::Bool(false),
    }
}
