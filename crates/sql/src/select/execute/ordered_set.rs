//! Aggregates that need all their rows: `array_agg`, `string_agg`, and those over rows in
//! the order of WITHIN GROUP.

use std::cmp::Ordering;

use super::Row;
use super::sort::compare;
use crate::expression::{
    AggregateCall, AggregateFunction, EvaluationContext, OrderedSet, ROW, metered,
};
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState, Value};

/// Sort keys, value and second argument of a row.
type Kept = (Row, Value, Value);

/// Compares sort keys in the order of the call.
fn by_keys(left: &[Value], right: &[Value], call: &AggregateCall) -> Ordering {
    let pairs = left.iter().zip(right).zip(&call.order);
    pairs
        .map(|((left, right), (_, descending, nulls_first))| {
            let order = KeyOrder {
                descending: *descending,
                nulls_first: *nulls_first,
            };
            compare(left, right, order)
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The result of `array_agg`, `string_agg` and those of JSON.
pub(super) fn collected(
    mut rows: Vec<Kept>,
    call: &AggregateCall,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    if rows.is_empty() {
        return Ok(Value::Null);
    }
    if call.distinct && call.order.is_empty() {
        // PostgreSQL sorts to find distinct values, which shows in the order of the
        // result.
        rows = metered::sort(rows, context, &|left, right| left.1.order(&right.1))?;
    }
    rows = metered::sort(rows, context, &|left, right| {
        by_keys(&left.0, &right.0, call)
    })?;
    if call.function.is_json() {
        return super::json_group::document(rows, call, context);
    }
    if call.function == AggregateFunction::Array {
        let values: Vec<Value> = rows.into_iter().map(|(_, value, _)| value).collect();
        return Ok(Value::Array(values.into()));
    }
    let length = |value: &Value| match value {
        Value::Text(text) => text.len(),
        _ => 0,
    };
    let bytes = rows
        .iter()
        .map(|(_, value, separator)| length(value) + length(separator))
        .sum();
    context.claim(bytes)?;
    let mut joined = String::with_capacity(bytes);
    for (position, (_, value, separator)) in rows.into_iter().enumerate() {
        if position > 0
            && let Value::Text(separator) = separator
        {
            joined.push_str(&separator);
        }
        context.work(ROW)?;
        if let Value::Text(text) = value {
            context.work(text.len())?;
            joined.push_str(&text);
        }
    }
    Ok(Value::text(joined))
}

/// The result of an aggregate with WITHIN GROUP.
pub(super) fn ordered_set(
    function: OrderedSet,
    rows: Vec<Kept>,
    call: &AggregateCall,
    context: &mut EvaluationContext<'_>,
    keys: &[Value],
) -> Result<Value> {
    let mut direct = Row::with_capacity(call.direct.len());
    for argument in &call.direct {
        direct.push(argument.evaluate(context, keys)?);
    }
    if function.is_hypothetical() {
        return hypothetical(function, &rows, &direct, call, context);
    }
    let rows = metered::sort(rows, context, &|left, right| {
        by_keys(&left.0, &right.0, call)
    })?;
    let values: Vec<Value> = rows
        .into_iter()
        .filter_map(|(keys, ..)| keys.into_iter().next())
        .collect();
    if function == OrderedSet::Mode {
        return mode(&values, context);
    }
    match direct.first() {
        Some(Value::Float8(fraction)) => percentile(function, &values, *fraction),
        Some(Value::Array(fractions)) => {
            if values.is_empty() {
                return Ok(Value::Null);
            }
            let mut results = Vec::with_capacity(fractions.len());
            for fraction in fractions.iter() {
                context.work(ROW)?;
                results.push(match fraction {
                    Value::Float8(fraction) => percentile(function, &values, *fraction)?,
                    _ => Value::Null,
                });
            }
            Ok(Value::Array(results.into()))
        }
        _ => Ok(Value::Null),
    }
}

/// The value at a fraction of the sorted values.
fn percentile(function: OrderedSet, values: &[Value], fraction: f64) -> Result<Value> {
    if !(0.0..=1.0).contains(&fraction) {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("percentile value {fraction} is not between 0 and 1"),
        ));
    }
    let Some(last) = values.len().checked_sub(1) else {
        return Ok(Value::Null);
    };
    if function == OrderedSet::PercentileDiscrete {
        let number = (fraction * values.len() as f64).ceil() as usize;
        return Ok(values[number.clamp(1, values.len()) - 1].clone());
    }
    let place = fraction * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    let value = |at: usize| match values.get(at) {
        Some(Value::Float8(number)) => Ok(*number),
        _ => Err(super::aggregate::not_its_type()),
    };
    let (first, second) = (value(low)?, value(high)?);
    if low == high {
        return Ok(Value::Float8(first));
    }
    Ok(Value::Float8(
        first + (place - low as f64) * (second - first),
    ))
}

/// The value that is there most often; of several the first.
fn mode(values: &[Value], context: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut best: (usize, Option<&Value>) = (0, None);
    let mut run = 0;
    for (at, value) in values.iter().enumerate() {
        context.work(ROW)?;
        let continues = at > 0 && values[at - 1].order(value).is_eq();
        run = if continues { run + 1 } else { 1 };
        if run > best.0 {
            best = (run, Some(value));
        }
    }
    Ok(best.1.cloned().unwrap_or_default())
}

/// The place that a row would have among the others.
fn hypothetical(
    function: OrderedSet,
    rows: &[Kept],
    row: &[Value],
    call: &AggregateCall,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let (mut before, mut equal) = (0_i64, 0_i64);
    let mut distinct: Vec<&Row> = Vec::new();
    for (keys, ..) in rows {
        context.work(ROW)?;
        match by_keys(keys, row, call) {
            Ordering::Less => {
                before += 1;
                distinct.push(keys);
            }
            Ordering::Equal => equal += 1,
            Ordering::Greater => {}
        }
    }
    let count = rows.len() as f64;
    Ok(match function {
        OrderedSet::DenseRank => {
            let mut sorted =
                metered::sort(distinct, context, &|left, right| by_keys(left, right, call))?;
            sorted.dedup_by(|left, right| by_keys(left, right, call).is_eq());
            Value::Int8(1 + sorted.len() as i64)
        }
        OrderedSet::PercentRank if rows.is_empty() => Value::Float8(0.0),
        OrderedSet::PercentRank => Value::Float8(before as f64 / count),
        OrderedSet::CumulativeDistribution => {
            Value::Float8((before + equal + 1) as f64 / (count + 1.0))
        }
        _ => Value::Int8(1 + before),
    })
}
