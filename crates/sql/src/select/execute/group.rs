//! The aggregation operator (GROUP BY): keeps the state of the aggregates for each
//! group key in a hash table.

use super::sort::compare;
use super::{FixedMap, Pulled, Row, State, row_bytes, spend_kept};
use crate::expression::{
    AggregateCall, AggregateFunction, EvaluationContext, ROW, is_true, metered,
};
use crate::select::plan::Aggregate;
use crate::value::{DataType, Interval, KeyOrder, Numeric};
use crate::{Error, Result, SqlState, Value};

/// Memory of a group in bytes, besides its key and values.
const GROUP_BYTES: usize = 96;

/// State of the aggregation operator: the groups and their aggregates.
#[derive(Debug)]
pub(in crate::select) struct AggregateState {
    input: State,
    groups: Vec<Group>,
    by_key: FixedMap<usize>,
    /// Next group to return, once the operator has read all rows.
    next: Option<usize>,
    row: Row,
    /// Values of the current row's keys.
    keys: Row,
    key: Vec<u8>,
    bytes: usize,
}

#[derive(Debug)]
struct Group {
    keys: Row,
    accumulators: Vec<Accumulator>,
}

/// State of one aggregate of one group.
#[derive(Debug)]
struct Accumulator {
    total: Total,
    /// Values aggregated so far, for DISTINCT.
    seen: Option<FixedMap<()>>,
}

#[derive(Debug)]
enum Total {
    Count(i64),
    /// Sum and count of integers.
    Integer(i128, i64),
    Numeric(Numeric, i64),
    Float(f64, i64),
    Interval(Interval, i64),
    /// Extreme value so far, and whether the aggregate is `max`.
    Extreme(Value, bool),
    /// Rows of `array_agg`, `string_agg` and those of JSON: sort keys, value, separator or
    /// second value.
    Rows(Vec<(Row, Value, Value)>),
    Truth(Option<bool>),
}

impl Accumulator {
    fn new(call: &AggregateCall) -> Self {
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
            | F::JsonArray { .. }
            | F::JsonbArray
            | F::JsonObject
            | F::JsonbObject => Total::Rows(Vec::new()),
            F::Every | F::Any => Total::Truth(None),
        };
        Self {
            total,
            seen: call.distinct.then(FixedMap::default),
        }
    }

    /// Adds a row to the aggregate. Returns the number of bytes that the aggregate
    /// keeps.
    fn take(
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
        let mut kept = 0;
        if let Some(seen) = &mut self.seen {
            let mut key = Vec::new();
            value.write_key(KeyOrder::ASCENDING, &mut key);
            kept += key.len() + 48;
            if seen.insert(key, ()).is_some() {
                return Ok(0);
            }
        }
        match &mut self.total {
            Total::Count(count) => *count += 1,
            Total::Integer(sum, count) => {
                let number = match *value {
                    Value::Int2(number) => i128::from(number),
                    Value::Int4(number) => i128::from(number),
                    Value::Int8(number) => i128::from(number),
                    _ => return Err(not_its_type()),
                };
                // The sum cannot overflow: 2^63 rows of 2^63 each still fit.
                *sum += number;
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
                let number = match *value {
                    Value::Float4(number) => f64::from(number),
                    Value::Float8(number) => number,
                    _ => return Err(not_its_type()),
                };
                let before = *sum;
                *sum += number;
                *count += 1;
                if sum.is_infinite() && before.is_finite() && number.is_finite() {
                    return Err(Error::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        "value out of range: overflow",
                    ));
                }
            }
            Total::Interval(sum, count) => {
                let Value::Interval(interval) = value else {
                    return Err(not_its_type());
                };
                *sum = sum.plus(*interval)?;
                *count += 1;
            }
            Total::Extreme(extreme, greatest) => {
                let order = value.order(extreme);
                let better = if *greatest {
                    order.is_gt()
                } else {
                    order.is_lt()
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
                let separator = match &call.separator {
                    Some(separator) => separator.evaluate(context, row)?,
                    None => Value::Null,
                };
                kept += row_bytes(&keys)
                    + row_bytes(std::slice::from_ref(value))
                    + row_bytes(std::slice::from_ref(&separator));
                rows.push((keys, value.clone(), separator));
            }
            Total::Truth(truth) => {
                let this = is_true(value);
                *truth = Some(match (*truth, call.function) {
                    (None, _) => this,
                    (Some(before), AggregateFunction::Every) => before && this,
                    (Some(before), _) => before || this,
                });
            }
        }
        Ok(kept)
    }

    fn finish(self, call: &AggregateCall, context: &mut EvaluationContext<'_>) -> Result<Value> {
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
            Total::Rows(rows) => return collected(rows, call, context),
        })
    }
}

fn not_its_type() -> Error {
    Error::internal("an aggregate's argument is not of its type")
}

/// The result of `array_agg` and `string_agg`.
fn collected(
    mut rows: Vec<(Row, Value, Value)>,
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
        left.0
            .iter()
            .zip(&right.0)
            .zip(&call.order)
            .map(|((left, right), (_, descending, nulls_first))| {
                let order = KeyOrder {
                    descending: *descending,
                    nulls_first: *nulls_first,
                };
                compare(left, right, order)
            })
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
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

impl AggregateState {
    pub(super) fn new(aggregate: &Aggregate) -> Self {
        Self {
            input: State::new(&aggregate.input),
            groups: Vec::new(),
            by_key: FixedMap::default(),
            next: None,
            row: Row::new(),
            keys: Row::new(),
            key: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.input.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        aggregate: &Aggregate,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        context.memory.give_back(self.bytes);
        self.bytes = 0;
        self.groups.clear();
        self.by_key.clear();
        self.next = None;
        if aggregate.keys.is_empty() {
            self.groups.push(Group {
                keys: Row::new(),
                accumulators: aggregate.calls.iter().map(Accumulator::new).collect(),
            });
        }
        self.input.open(&aggregate.input, context, driving)
    }

    /// Looks up or creates the group of the current row.
    fn group(
        &mut self,
        aggregate: &Aggregate,
        context: &mut EvaluationContext<'_>,
    ) -> Result<usize> {
        if aggregate.keys.is_empty() {
            return Ok(0);
        }
        self.keys.clear();
        self.key.clear();
        for key in &aggregate.keys {
            let value = key.evaluate(context, &self.row)?;
            value.write_key(KeyOrder::ASCENDING, &mut self.key);
            self.keys.push(value);
        }
        if let Some(known) = self.by_key.get(&self.key) {
            return Ok(*known);
        }
        let keys = std::mem::take(&mut self.keys);
        let bytes = GROUP_BYTES
            + self.key.len()
            + row_bytes(&keys)
            + aggregate.calls.len() * std::mem::size_of::<Accumulator>();
        context.memory.take(bytes)?;
        self.bytes += bytes;
        let number = self.groups.len();
        self.by_key.insert(self.key.clone(), number);
        self.groups.push(Group {
            keys,
            accumulators: aggregate.calls.iter().map(Accumulator::new).collect(),
        });
        Ok(number)
    }

    pub(super) fn next(
        &mut self,
        aggregate: &Aggregate,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        while self.next.is_none() {
            match self.input.next(&aggregate.input, context, &mut self.row)? {
                Pulled::Row => {
                    let group = self.group(aggregate, context)?;
                    let accumulators = &mut self.groups[group].accumulators;
                    for (call, accumulator) in aggregate.calls.iter().zip(accumulators) {
                        let kept = accumulator.take(call, context, &self.row)?;
                        if kept > 0 {
                            context.memory.take(kept)?;
                            self.bytes += kept;
                        }
                    }
                }
                Pulled::Done => self.next = Some(0),
                other => return Ok(other),
            }
        }
        if spend_kept(context)? {
            return Ok(Pulled::Pause);
        }
        let Some(next) = &mut self.next else {
            return Ok(Pulled::Done);
        };
        let Some(group) = self.groups.get_mut(*next) else {
            return Ok(Pulled::Done);
        };
        *next += 1;
        row.clear();
        row.append(&mut group.keys);
        for (call, accumulator) in aggregate
            .calls
            .iter()
            .zip(std::mem::take(&mut group.accumulators))
        {
            row.push(accumulator.finish(call, context)?);
        }
        Ok(Pulled::Row)
    }
}
