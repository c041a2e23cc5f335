//! Execution of subqueries inside expressions.
//!
//! An uncorrelated subquery has one result for the whole statement, also if it calls a
//! volatile function: the evaluator runs it once and remembers the result, as a set for IN,
//! as the least and the greatest value for other comparisons. A correlated subquery runs
//! for every row whose values it has not met ([`super::correlated`]).

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::context::BUDGET;
use super::correlated::Correlated;
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
    /// Plan that finds the rows of all enclosing rows at once.
    pub hashed: Option<Box<HashedSubquery>>,
}

/// The hashed form of a correlated subquery.
#[derive(Clone, Debug)]
pub struct HashedSubquery {
    /// An uncorrelated plan: its first columns are the keys, the next one is the value of a
    /// scalar subquery and the values of IN.
    pub plan: Arc<QueryPlan>,
    /// The keys, over the enclosing query's row.
    pub keys: Vec<Expression>,
    /// Whether the value is an aggregate over the rows with the key.
    pub grouped: bool,
    /// Number of runs of the correlated plan that cost less than one of this plan.
    pub after: u64,
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

/// What is remembered of a subquery.
#[derive(Debug)]
pub(super) enum Remembered {
    /// The result of an uncorrelated subquery.
    Value(Value),
    /// The values of an uncorrelated IN subquery.
    Set(Arc<Set>),
    /// What other comparisons with an uncorrelated subquery depend on.
    Extremes(Arc<Extremes>),
    /// Results of a correlated subquery.
    Correlated(Box<Correlated>),
}

/// The values of an IN subquery.
#[derive(Debug, Default)]
pub(super) struct Set {
    keys: BTreeSet<Vec<u8>>,
    has_null: bool,
}

impl Set {
    /// Adds a value. Returns the bytes that the set takes more.
    pub(super) fn add(&mut self, value: &Value) -> usize {
        if value.is_null() {
            self.has_null = true;
            return 0;
        }
        let mut key = Vec::new();
        value.write_key(KeyOrder::ASCENDING, &mut key);
        let bytes = key.len() + 48;
        if self.keys.insert(key) { bytes } else { 0 }
    }

    /// Whether the operand is one of the values.
    pub(super) fn contains(&self, operand: &Value) -> Value {
        if self.keys.is_empty() && !self.has_null {
            return Value::Bool(false);
        }
        if operand.is_null() {
            return Value::Null;
        }
        let mut key = Vec::new();
        operand.write_key(KeyOrder::ASCENDING, &mut key);
        match (self.keys.contains(&key), self.has_null) {
            (true, _) => Value::Bool(true),
            (false, true) => Value::Null,
            (false, false) => Value::Bool(false),
        }
    }
}

/// The least and the greatest of the values that ANY and ALL compare with: values are
/// totally ordered, so no other one matters.
#[derive(Debug, Default)]
pub(super) struct Extremes {
    ends: Option<(Value, Value)>,
    has_null: bool,
}

impl Extremes {
    fn add(&mut self, value: Value) {
        if value.is_null() {
            self.has_null = true;
            return;
        }
        match &mut self.ends {
            None => self.ends = Some((value.clone(), value)),
            Some((least, _)) if value.order(least).is_lt() => *least = value,
            Some((_, greatest)) if value.order(greatest).is_gt() => *greatest = value,
            Some(_) => {}
        }
    }

    /// The comparison of an operand with any or all of the values.
    fn compare(&self, operand: &Value, comparison: Comparison, all: bool) -> Value {
        let Some((least, greatest)) = &self.ends else {
            return match self.has_null {
                true => Value::Null,
                false => Value::Bool(all),
            };
        };
        if operand.is_null() {
            return Value::Null;
        }
        let holds = |value: &Value| comparison.accepts(operand.order(value));
        // Between the ends the comparison holds if it does at both, but for `=` and `<>`.
        let decided = match (comparison, all) {
            (Comparison::Equal, false) | (Comparison::NotEqual, true) => None,
            (_, false) => Some(holds(least) || holds(greatest)),
            (_, true) => Some(holds(least) && holds(greatest)),
        };
        match decided {
            Some(decided) if decided != all => Value::Bool(decided),
            Some(_) if self.has_null => Value::Null,
            Some(_) => Value::Bool(all),
            // The binder makes sets of these.
            None => Value::Null,
        }
    }
}

pub(super) fn too_many_rows() -> Error {
    Error::new(
        SqlState::CARDINALITY_VIOLATION,
        "more than one row returned by a subquery used as an expression",
    )
}

impl Subquery {
    /// Whether rows find their result by hash: the values of IN that are the same for all
    /// rows, or the hashed form.
    pub(crate) fn is_hashed(&self) -> bool {
        let values = self.kind == SubqueryKind::Any(Comparison::Equal);
        self.hashed.is_some() || values && self.correlations.is_empty()
    }

    /// Whether the subquery reads a table of WITH that a query around it makes anew whenever
    /// it runs ([`super::Frame::depend`]), so that its result depends on more than the
    /// values that it takes.
    pub(crate) fn reads_anew(&self) -> bool {
        self.correlations.contains(&Expression::NULL)
    }

    pub(super) fn evaluate(
        &self,
        context: &mut EvaluationContext<'_>,
        row: &[Value],
    ) -> Result<Value> {
        let operand = match &self.operand {
            Some(operand) => operand.evaluate(context, row)?,
            None => Value::Null,
        };
        let constant = self.correlations.is_empty();
        if constant {
            match context.remembered.get(&self.number) {
                Some(Remembered::Value(value)) => return Ok(value.clone()),
                Some(Remembered::Set(set)) => return Ok(set.contains(&operand)),
                Some(Remembered::Extremes(extremes)) => {
                    let (comparison, all) = self.quantified();
                    return Ok(extremes.compare(&operand, comparison, all));
                }
                Some(Remembered::Correlated(_)) | None => {}
            }
        }
        if !constant && !self.plan.is_volatile() && !self.reads_anew() {
            return self.evaluate_correlated(context, &operand, row);
        }
        let mark = context.once_mark();
        let value = self.run_over(context, &operand, row, constant)?;
        if constant && self.operand.is_none() {
            context
                .remembered
                .insert(self.number, Remembered::Value(value.clone()));
        }
        if context.remembered.contains_key(&self.number) {
            context.settle(mark);
        }
        Ok(value)
    }

    /// The comparison of ANY or ALL, and whether it is ALL.
    fn quantified(&self) -> (Comparison, bool) {
        match self.kind {
            SubqueryKind::Any(comparison) => (comparison, false),
            SubqueryKind::All(comparison) => (comparison, true),
            SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array => {
                (Comparison::Equal, false)
            }
        }
    }

    /// Runs the subquery for a row of the enclosing query.
    pub(super) fn run_over(
        &self,
        context: &mut EvaluationContext<'_>,
        operand: &Value,
        row: &[Value],
        constant: bool,
    ) -> Result<Value> {
        let mut taken = Vec::with_capacity(self.correlations.len());
        for correlation in &self.correlations {
            taken.push(correlation.evaluate(context, row)?);
        }
        let outer = std::mem::replace(&mut context.outer, taken);
        let budget = std::mem::replace(&mut context.budget, BUDGET);
        let result = self.run(context, operand, constant);
        context.outer = outer;
        // Charges the subquery's rows to the enclosing query's row budget.
        let spent = BUDGET.saturating_sub(context.budget);
        context.budget = budget.saturating_sub(spent);
        result
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
                Ok(set.contains(operand))
            }
            SubqueryKind::Any(comparison) | SubqueryKind::All(comparison)
                if constant && self.kind != SubqueryKind::All(Comparison::NotEqual) =>
            {
                let mut extremes = Extremes::default();
                cursor.visit_now(context, &mut |_, row| {
                    extremes.add(first(row));
                    Ok(ControlFlow::Continue(()))
                })?;
                let all = matches!(self.kind, SubqueryKind::All(_));
                let value = extremes.compare(operand, comparison, all);
                let remembered = Remembered::Extremes(Arc::new(extremes));
                context.remembered.insert(self.number, remembered);
                Ok(value)
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
    let mut set = Set::default();
    cursor.visit_now(context, &mut |context, row| {
        let bytes = set.add(&first(row));
        if bytes > 0 {
            context.memory.take(bytes)?;
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
