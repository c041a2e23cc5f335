//! The state of one aggregate: it takes rows, and has a result at each moment.

use super::ordered_set::{collected, ordered_set};
use super::statistics::{Moments, Pairs};
use super::{FixedMap, Row, row_bytes};
use crate::expression::{AggregateCall, AggregateFunction, EvaluationContext, is_true};
use crate::value::{DataType, Interval, KeyOrder, Numeric};
use crate::{Error, Result, SqlState, Value};

/// State of one aggregate, of a group or of a window's frame.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    total: Total,
    /// Values aggregated so far, for DISTINCT.
    seen: Option<FixedMap<()>>,
}

#[derive(Clone, Debug)]
enum Total {
    Count(i64),
    /// Sum and count of integers.
    Integer(i128, i64),
    Numeric(Numeric, i64),
    Float(f64, i64),
    Interval(Interval, i64),
    /// Extreme value so far, and whether the aggregate is `max`.
    Extreme(Value, bool),
    /// Rows of aggregates that need all of them: sort keys, value, second argument.
    Rows(Vec<(Row, Value, Value)>),
    Truth(Option<bool>),
    Bits(Option<i64>),
    Moments(Box<Moments>),
    Pairs(Box<Pairs>),
}

impl Accumulator {
    pub(super) fn new(call: &AggregateCall) -> Self {
        use AggregateFunction as F;
        let total = match call.function {
            F::CountRows | F::Count => Total::Count(0),
            F::Sum | F::Average => match call.argument_type.data_type {
                DataType::Int2 | DataType::Int4 | DataType::Int8 => Total::Integer(0, 0),
                DataType::Float4 | DataType::Float8 => Total::Float(0.0, 0),
                DataType::Interval => Total::Interval(Interval::default(), 0),
                _ => Total::Numeric(Numeric::from(0), 0),
            },
            F::Minimum => Total::Extreme(Value::Null, false),
            F::Maximum => Total::Extreme(Value::Null, true),
            F::Array
            | F::String
            | F::OrderedSet(_)
            | F::JsonArray { .. }
            | F::JsonbArray
            | F::JsonObject
            | F::JsonbObject => Total::Rows(Vec::new()),
            F::Every | F::Any => Total::Truth(None),
            F::BitAnd | F::BitOr | F::BitXor => Total::Bits(None),
            F::Spread(_) => Total::Moments(Box::new(Moments::new(call.argument_type.data_type))),
            F::Regression(_) => Total::Pairs(Box::default()),
        };
        Self {
            total,
            seen: call.distinct.then(FixedMap::default),
        }
    }

    /// Adds a row to the aggregate. Returns the number of bytes that the aggregate
    /// keeps.
    pub(super) fn take(
        &mut self,
        call: &AggregateCall,
        context: &mut EvaluationContext<'_>,
        row: &[Value],
    ) -> Result<usize> {
        if let Some(filter) = &call.filter
            && !is_true(&filter.evaluate(context, row)?)
        {
            return Ok(0);
        }
        if call.function == AggregateFunction::CountRows {
            if let Total::Count(count) = &mut self.total {
                *count += 1;
            }
            return Ok(0);
        }
        let mut slot = Value::Null;
        let value = match &call.argument {
            Some(argument) => argument.borrow(context, row, &mut slot)?,
            None => &slot,
        };
        if value.is_null() && !call.function.takes_nulls() {
            return Ok(0);
        }
        let second = match &call.second {
            Some(second) => second.evaluate(context, row)?,
            None => Value::Null,
        };
        let mut kept = 0;
        if let Some(seen) = &mut self.seen {
            let mut key = Vec::new();
            value.write_key(KeyOrder::ASCENDING, &mut key);
            second.write_key(KeyOrder::ASCENDING, &mut key);
            kept += key.len() + 48;
            if seen.insert(key, ()).is_some() {
                return Ok(0);
            }
        }
        match &mut self.total {
            Total::Count(count) => *count += 1,
            // The sum cannot overflow: 2^63 rows of 2^63 each still fit.
            Total::Integer(sum, count) => {
                *sum += i128::from(integer(value)?);
                *count += 1;
            }
            Total::Numeric(sum, count) => {
                let Value::Numeric(number) = value else {
                    return Err(not_its_type());
                };
                *sum = sum.add(number)?;
                *count += 1;
            }
            Total::Float(sum, count) => {
                let number = float(value)?;
                let before = *sum;
                *sum += number;
                if call.result.data_type == DataType::Float4 {
                    // Sums of `real` are rounded at each step, as in PostgreSQL.
                    *sum = f64::from(*sum as f32);
                }
                *count += 1;
                if sum.is_infinite() && before.is_finite() && number.is_finite() {
                    return Err(overflow());
                }
            }
            Total::Interval(sum, count) => {
                *sum = sum.plus(interval(value)?)?;
                *count += 1;
            }
            Total::Extreme(extreme, greatest) => {
                let order = value.order(extreme);
                // Of equal values that differ (1.0 and 1.00) the last one counts, as in PostgreSQL.
                let better = if *greatest {
                    order.is_ge()
                } else {
                    order.is_le()
                };
                if extreme.is_null() || better {
                    *extreme = value.clone();
                }
            }
            Total::Rows(rows) => {
                let mut keys = Row::with_capacity(call.order.len());
                for (key, ..) in &call.order {
                    keys.push(key.evaluate(context, row)?);
                }
                let leaves_nulls_out = match call.function {
                    AggregateFunction::OrderedSet(function) => !function.is_hypothetical(),
                    _ => false,
                };
                if leaves_nulls_out && keys.iter().any(Value::is_null) {
                    return Ok(0);
                }
                kept += row_bytes(&keys)
                    + row_bytes(std::slice::from_ref(value))
                    + row_bytes(std::slice::from_ref(&second));
                rows.push((keys, value.clone(), second));
            }
            Total::Truth(truth) => {
                let this = is_true(value);
                *truth = Some(match (*truth, call.function) {
                    (None, _) => this,
                    (Some(before), AggregateFunction::Every) => before && this,
                    (Some(before), _) => before || this,
                });
            }
            Total::Bits(bits) => {
                let this = integer(value)?;
                *bits = Some(match (*bits, call.function) {
                    (None, _) => this,
                    (Some(before), AggregateFunction::BitAnd) => before & this,
                    (Some(before), AggregateFunction::BitOr) => before | this,
                    (Some(before), _) => before ^ this,
                });
            }
            Total::Moments(moments) => moments.take(value)?,
            Total::Pairs(pairs) => {
                if second.is_null() {
                    return Ok(0);
                }
                pairs.take(float(value)?, float(&second)?)?;
            }
        }
        Ok(kept)
    }

    /// Takes a row back that it has taken. Returns whether it can; if not, the aggregate
    /// is of no use any more.
    pub(super) fn give_back(
        &mut self,
        call: &AggregateCall,
        context: &mut EvaluationContext<'_>,
        row: &[Value],
    ) -> Result<bool> {
        if let Some(filter) = &call.filter
            && !is_true(&filter.evaluate(context, row)?)
        {
            return Ok(true);
        }
        let value = match &call.argument {
            Some(argument) => argument.evaluate(context, row)?,
            None => Value::Null,
        };
        let is_counted = call.function == AggregateFunction::CountRows;
        if value.is_null() && !is_counted && !call.function.takes_nulls() {
            return Ok(true);
        }
        match &mut self.total {
            Total::Count(count) => *count -= 1,
            Total::Integer(sum, count) => {
                *sum -= i128::from(integer(&value)?);
                *count -= 1;
            }
            Total::Numeric(sum, count) => {
                let Value::Numeric(number) = &value else {
                    return Err(not_its_type());
                };
                // The sum has the scale of the number with most digits: if this was the
                // one, the next is unknown.
                let scale = |number: &Numeric| number.parts().map(|(_, scale)| scale);
                match (scale(number), scale(sum)) {
                    (Some(own), Some(all)) if own < all || all == 0 => {
                        *sum = sum.subtract(number)?;
                        *count -= 1;
                    }
                    _ => return Ok(false),
                }
            }
            Total::Interval(sum, count) => {
                *sum = sum.subtract(interval(&value)?)?;
                *count -= 1;
            }
            Total::Float(..)
            | Total::Extreme(..)
            | Total::Rows(_)
            | Total::Truth(_)
            | Total::Bits(_)
            | Total::Moments(_)
            | Total::Pairs(_) => return Ok(false),
        }
        Ok(true)
    }

    /// The result. `keys` are those of the group.
    pub(super) fn finish(
        self,
        call: &AggregateCall,
        context: &mut EvaluationContext<'_>,
        keys: &[Value],
    ) -> Result<Value> {
        let average = call.function == AggregateFunction::Average;
        Ok(match self.total {
            Total::Count(count) => Value::Int8(count),
            Total::Integer(_, 0)
            | Total::Numeric(_, 0)
            | Total::Float(_, 0)
            | Total::Interval(_, 0) => Value::Null,
            Total::Interval(sum, count) if average => Value::Interval(sum.divide(count as f64)?),
            Total::Interval(sum, _) => Value::Interval(sum),
            Total::Integer(sum, count) if average => {
                let mean = Numeric::from(sum).divide(&Numeric::from(count))?;
                Value::Numeric(Box::new(mean))
            }
            Total::Integer(sum, _) if call.result.data_type == DataType::Numeric => {
                Value::Numeric(Box::new(Numeric::from(sum)))
            }
            Total::Integer(sum, _) => match i64::try_from(sum) {
                Ok(sum) => Value::Int8(sum),
                Err(_) => {
                    return Err(Error::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        "bigint out of range",
                    ));
                }
            },
            Total::Numeric(sum, count) if average => {
                Value::Numeric(Box::new(sum.divide(&Numeric::from(count))?))
            }
            Total::Numeric(sum, _) => Value::Numeric(Box::new(sum)),
            Total::Float(sum, count) if average => Value::Float8(sum / count as f64),
            Total::Float(sum, _) if call.result.data_type == DataType::Float4 => {
                Value::Float4(sum as f32)
            }
            Total::Float(sum, _) => Value::Float8(sum),
            Total::Extreme(extreme, _) => extreme,
            Total::Truth(truth) => truth.map_or(Value::Null, Value::Bool),
            Total::Bits(bits) => match (bits, call.result.data_type) {
                (None, _) => Value::Null,
                (Some(bits), DataType::Int2) => Value::Int2(bits as i16),
                (Some(bits), DataType::Int4) => Value::Int4(bits as i32),
                (Some(bits), _) => Value::Int8(bits),
            },
            Total::Moments(moments) => match call.function {
                AggregateFunction::Spread(spread) => moments.spread(spread)?,
                _ => return Err(not_its_type()),
            },
            Total::Pairs(pairs) => match call.function {
                AggregateFunction::Regression(statistic) => pairs.statistic(statistic),
                _ => return Err(not_its_type()),
            },
            Total::Rows(rows) => {
                return match call.function {
                    AggregateFunction::OrderedSet(function) => {
                        ordered_set(function, rows, call, context, keys)
                    }
                    _ => collected(rows, call, context),
                };
            }
        })
    }
}

fn integer(value: &Value) -> Result<i64> {
    match value {
        Value::Int2(number) => Ok(i64::from(*number)),
        Value::Int4(number) => Ok(i64::from(*number)),
        Value::Int8(number) => Ok(*number),
        _ => Err(not_its_type()),
    }
}

fn interval(value: &Value) -> Result<Interval> {
    match value {
        Value::Interval(interval) => Ok(*interval),
        _ => Err(not_its_type()),
    }
}

fn float(value: &Value) -> Result<f64> {
    match value {
        Value::Float4(number) => Ok(f64::from(*number)),
        Value::Float8(number) => Ok(*number),
        _ => Err(not_its_type()),
    }
}

pub(super) fn overflow() -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value out of range: overflow",
    )
}

pub(super) fn not_its_type() -> Error {
    Error::internal("an aggregate's argument is not of its type")
}
