//! The expression evaluator: walks a bound expression's tree once for each row.

use super::functions::json;
use super::{Call, Cast, EvaluationContext, Expression, ROW, bind, cast, operator};
use crate::value::{DataType, Numeric};
use crate::{Error, Result, Value};

/// Size in bytes of arguments from which functions and casts claim memory before they
/// run. Below it they are cheap enough to run unclaimed.
const CLAIMED_FROM: usize = 64 << 10;

/// Whether a condition lets a row through: true does, false and null do not.
#[inline]
#[must_use]
pub fn is_true(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}

/// Approximate heap memory of values, in bytes.
pub(crate) fn heap_bytes(values: &[Value]) -> usize {
    let heap = |value: &Value| match value {
        Value::Text(text) if text.is_heap_allocated() => text.len(),
        Value::Numeric(_) => 64,
        Value::Bytes(bytes) => bytes.len(),
        Value::Jsonb(document) => document.bytes().len(),
        Value::Array(elements) => std::mem::size_of_val(&**elements) + heap_bytes(elements),
        _ => 0,
    };
    values.iter().map(heap).sum()
}

/// Steps of numeric arithmetic, in groups of digits of both numbers, that count as a
/// byte of work.
const DIGITS_PER_BYTE: usize = 16;

/// Size of a number, in groups of some twenty digits.
fn digits(number: &Numeric) -> usize {
    number
        .parts()
        .map_or(1, |(unscaled, _)| 1 + unscaled.bits() as usize / 64)
}

fn truth(value: Option<bool>) -> Value {
    value.map_or(Value::Null, Value::Bool)
}

impl Expression {
    /// The value of a constant or a column, where it is.
    #[inline]
    fn peek<'value>(&'value self, row: &'value [Value]) -> Option<&'value Value> {
        match self {
            Self::Constant(value) => Some(value),
            Self::Column(position) => row.get(*position),
            _ => None,
        }
    }

    /// The value, where it is or in `slot`: comparing and computing copy no operands.
    #[inline]
    pub(crate) fn borrow<'value>(
        &'value self,
        context: &mut EvaluationContext<'_>,
        row: &'value [Value],
        slot: &'value mut Value,
    ) -> Result<&'value Value> {
        if let Some(value) = self.peek(row) {
            return Ok(value);
        }
        *slot = self.evaluate(context, row)?;
        Ok(slot)
    }

    /// Evaluates the expression over `row`.
    pub fn evaluate(&self, context: &mut EvaluationContext<'_>, row: &[Value]) -> Result<Value> {
        if let Self::Compare(comparison, operands) = self
            && let Some(left) = operands[0].peek(row)
            && let Some(right) = operands[1].peek(row)
        {
            return Ok(truth(comparison.holds(left, right)));
        }
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Column(position) => row
                .get(*position)
                .cloned()
                .ok_or_else(|| Error::internal("a column the row does not have")),
            Self::Outer(position) => context
                .outer
                .get(*position)
                .cloned()
                .ok_or_else(|| Error::internal("a value that was not handed in")),
            Self::Parameter(position) => context
                .parameters
                .get(*position)
                .cloned()
                .ok_or_else(|| Error::internal("a parameter that was not given")),
            // The time these expressions take depends on the size of the values.
            Self::Call(_)
            | Self::Arithmetic(..)
            | Self::Cast(_)
            | Self::Regex(..)
            | Self::Array(_) => {
                bind::with_stack(|| context.in_place(|context| self.evaluate_inner(context, row)))
            }
            _ => bind::with_stack(|| self.evaluate_inner(context, row)),
        }
    }

    /// Evaluates an expression that has operands.
    fn evaluate_inner(&self, context: &mut EvaluationContext<'_>, row: &[Value]) -> Result<Value> {
        match self {
            Self::Constant(_) | Self::Column(_) | Self::Outer(_) | Self::Parameter(_) => {
                self.evaluate(context, row)
            }
            Self::Aggregate(_) | Self::SetResult(_) | Self::Window(_) | Self::Grouping(_) => {
                Err(Error::internal("a placeholder that planning left behind"))
            }
            Self::Arithmetic(operator, operands) => {
                if *operator == operator::ArithmeticOperator::Append {
                    let left = operands[0].evaluate(context, row)?;
                    let right = operands[1].evaluate(context, row)?;
                    let bytes = heap_bytes(std::slice::from_ref(&left))
                        .saturating_add(heap_bytes(std::slice::from_ref(&right)));
                    context.claim(bytes)?;
                    context.work(bytes)?;
                    return Ok(append(left, right));
                }
                let (mut first, mut second) = (Value::Null, Value::Null);
                let left = operands[0].borrow(context, row, &mut first)?;
                let right = operands[1].borrow(context, row, &mut second)?;
                if left.is_null() || right.is_null() {
                    return Ok(Value::Null);
                }
                if let (Value::Text(left), Value::Text(right)) = (left, right) {
                    let bytes = left.len().saturating_add(right.len());
                    context.claim(bytes)?;
                    context.work(bytes)?;
                }
                if let (Value::Numeric(left), Value::Numeric(right)) = (left, right) {
                    context.work(digits(left) * digits(right) / DIGITS_PER_BYTE)?;
                }
                operator::arithmetic(*operator, left, right)
            }
            Self::Negate(operand) => {
                let value = operand.evaluate(context, row)?;
                if value.is_null() {
                    return Ok(value);
                }
                operator::negate(&value)
            }
            Self::Compare(comparison, operands) => {
                let (mut first, mut second) = (Value::Null, Value::Null);
                let left = operands[0].borrow(context, row, &mut first)?;
                let right = operands[1].borrow(context, row, &mut second)?;
                Ok(truth(comparison.holds(left, right)))
            }
            Self::And(operands) => evaluate_all(operands, context, row),
            Self::Or(operands) => evaluate_any(operands, context, row),
            Self::Not(operand) => Ok(match operand.evaluate(context, row)? {
                Value::Bool(value) => Value::Bool(!value),
                _ => Value::Null,
            }),
            Self::IsNull(operand) => Ok(Value::Bool(operand.evaluate(context, row)?.is_null())),
            Self::IsTruth(operand, wanted) => {
                let value = operand.evaluate(context, row)?;
                Ok(Value::Bool(
                    matches!(value, Value::Bool(value) if value == *wanted),
                ))
            }
            Self::Distinct(operands) => {
                let left = operands[0].evaluate(context, row)?;
                let right = operands[1].evaluate(context, row)?;
                Ok(Value::Bool(left.order(&right).is_ne()))
            }
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    if is_true(&condition.evaluate(context, row)?) {
                        return result.evaluate(context, row);
                    }
                }
                otherwise.evaluate(context, row)
            }
            Self::Coalesce(operands) => {
                for operand in operands {
                    let value = operand.evaluate(context, row)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Self::Extreme { greatest, operands } => {
                let mut extreme = Value::Null;
                for operand in operands {
                    let value = operand.evaluate(context, row)?;
                    if value.is_null() {
                        continue;
                    }
                    let order = value.order(&extreme);
                    if extreme.is_null() || order.is_gt() == *greatest && order.is_ne() {
                        extreme = value;
                    }
                }
                Ok(extreme)
            }
            Self::NullIf(operands) => {
                if is_true(&operands[0].evaluate(context, row)?) {
                    return Ok(Value::Null);
                }
                operands[1].evaluate(context, row)
            }
            Self::InList(operand, list) => evaluate_in(operand, list, context, row),
            Self::Quantified { .. } => self.evaluate_quantified(context, row),
            Self::Like(operands, pattern) => {
                let (mut first, mut second) = (Value::Null, Value::Null);
                let subject = operands[0].borrow(context, row, &mut first)?;
                let wanted = operands[1].borrow(context, row, &mut second)?;
                pattern.evaluate(subject, wanted, context)
            }
            Self::Regex(operands, pattern) => {
                let subject = operands[0].evaluate(context, row)?;
                let wanted = operands[1].evaluate(context, row)?;
                pattern.evaluate(&subject, &wanted, context)
            }
            Self::Cast(cast) => cast.evaluate(context, row),
            Self::Call(call) => call.evaluate(context, row),
            Self::Array(operands) => {
                let values: Result<Vec<Value>> = operands
                    .iter()
                    .map(|operand| operand.evaluate(context, row))
                    .collect();
                Ok(Value::Array(values?.into()))
            }
            Self::Subscript(operands) => {
                let array = operands[0].evaluate(context, row)?;
                let subscript = operands[1].evaluate(context, row)?;
                Ok(match (array, subscript) {
                    (Value::Array(elements), Value::Int4(position)) => {
                        usize::try_from(i64::from(position) - 1)
                            .ok()
                            .and_then(|position| elements.get(position).cloned())
                            .unwrap_or_default()
                    }
                    _ => Value::Null,
                })
            }
            Self::Subquery(subquery) => subquery.evaluate(context, row),
        }
    }

    fn evaluate_quantified(
        &self,
        context: &mut EvaluationContext<'_>,
        row: &[Value],
    ) -> Result<Value> {
        let Self::Quantified {
            comparison,
            all,
            operands,
        } = self
        else {
            return Err(Error::internal("not a quantified comparison"));
        };
        let operand = operands[0].evaluate(context, row)?;
        let Value::Array(elements) = operands[1].evaluate(context, row)? else {
            return Ok(Value::Null);
        };
        let mut unknown = false;
        for element in elements.iter() {
            context.work(ROW)?;
            match comparison.holds(&operand, element) {
                Some(holds) if holds != *all => return Ok(Value::Bool(holds)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown {
            Value::Null
        } else {
            Value::Bool(*all)
        })
    }
}

/// `||` of arrays; a null array counts as empty.
fn append(left: Value, right: Value) -> Value {
    match (&left, &right) {
        (Value::Null, Value::Array(_)) => right,
        (Value::Array(_), Value::Null) => left,
        (Value::Null, Value::Null) => Value::Null,
        _ => operator::arithmetic(operator::ArithmeticOperator::Append, &left, &right)
            .unwrap_or_default(),
    }
}

fn evaluate_all(
    operands: &[Expression],
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Value> {
    let mut unknown = false;
    for operand in operands {
        match operand.evaluate(context, row)? {
            Value::Bool(true) => {}
            Value::Bool(false) => return Ok(Value::Bool(false)),
            _ => unknown = true,
        }
    }
    Ok(if unknown {
        Value::Null
    } else {
        Value::Bool(true)
    })
}

fn evaluate_any(
    operands: &[Expression],
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Value> {
    let mut unknown = false;
    for operand in operands {
        match operand.evaluate(context, row)? {
            Value::Bool(true) => return Ok(Value::Bool(true)),
            Value::Bool(false) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown {
        Value::Null
    } else {
        Value::Bool(false)
    })
}

fn evaluate_in(
    operand: &Expression,
    list: &[Expression],
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Value> {
    let mut slot = Value::Null;
    let value = operand.borrow(context, row, &mut slot)?;
    if value.is_null() {
        return Ok(Value::Null);
    }
    let mut unknown = false;
    for each in list {
        context.work(ROW)?;
        let mut slot = Value::Null;
        let element = each.borrow(context, row, &mut slot)?;
        if element.is_null() {
            unknown = true;
        } else if value.order(element).is_eq() {
            return Ok(Value::Bool(true));
        }
    }
    Ok(if unknown {
        Value::Null
    } else {
        Value::Bool(false)
    })
}

impl Cast {
    fn evaluate(&self, context: &mut EvaluationContext<'_>, row: &[Value]) -> Result<Value> {
        let value = self.input.evaluate(context, row)?;
        let bytes = heap_bytes(std::slice::from_ref(&value));
        if bytes <= CLAIMED_FROM {
            return cast::cast_value(value, self.from, self.to, self.explicit, context);
        }
        context.claim(match (&value, self.to.data_type.element()) {
            // So can a value in a document, which takes more.
            (Value::Text(_), None) if self.to.data_type == DataType::Jsonb => {
                bytes.saturating_mul(json::TREE_PER_BYTE)
            }
            // An array element can take as little as two bytes of text.
            (Value::Text(_), Some(_)) => (bytes / 2).saturating_mul(size_of::<Value>()),
            (Value::Array(_), _) => bytes.saturating_mul(2),
            _ => bytes,
        })?;
        coeval_env::block_in_place(|| {
            cast::cast_value(value, self.from, self.to, self.explicit, context)
        })
    }
}

impl Call {
    fn evaluate(&self, context: &mut EvaluationContext<'_>, row: &[Value]) -> Result<Value> {
        // Most functions have at most three arguments; these need no heap allocation.
        let mut few: [Value; 3] = Default::default();
        let mut many = Vec::new();
        let values: &[Value] = if self.arguments.len() <= few.len() {
            for (slot, argument) in few.iter_mut().zip(&self.arguments) {
                *slot = argument.evaluate(context, row)?;
            }
            &few[..self.arguments.len()]
        } else {
            for argument in &self.arguments {
                many.push(argument.evaluate(context, row)?);
            }
            &many
        };
        let bytes = heap_bytes(values);
        if bytes <= CLAIMED_FROM {
            return self.function.call(values, &self.types, context);
        }
        // Most results are at most as long as the arguments; functions with longer
        // results claim memory themselves.
        if self.function.makes_long_values() {
            context.claim(bytes)?;
        }
        context.check_canceled()?;
        context.work(ROW)?;
        coeval_env::block_in_place(|| self.function.call(values, &self.types, context))
    }
}
