//! The window operator: collects its input's rows, and for each window sorts them, splits
//! them into partitions, and computes its functions for every row.

use super::aggregate::Accumulator;
use super::frame::{Frames, Peers};
use super::sort::compare;
use super::{Pulled, Row, State, row_bytes, spend_kept};
use crate::expression::{
    AggregateCall, EvaluationContext, ROW, WindowCall, WindowDefinition, WindowFunction,
    heap_bytes, metered,
};
use crate::select::plan::Window;
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState, Value};

/// Number of rows above which windows are computed as blocking work, so that other tasks of
/// the thread need not wait.
const ROWS_IN_A_STEP: usize = 4096;

/// State of the window operator.
#[derive(Debug)]
pub(in crate::select) struct WindowState {
    input: State,
    rows: Vec<Row>,
    /// The rows with their results, once all are collected.
    computed: Option<std::vec::IntoIter<Row>>,
    bytes: usize,
}

impl WindowState {
    pub(super) fn new(window: &Window) -> Self {
        Self {
            input: State::new(&window.input),
            rows: Vec::new(),
            computed: None,
            bytes: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.input.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        window: &Window,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        context.memory.give_back(self.bytes);
        self.bytes = 0;
        self.rows.clear();
        self.computed = None;
        self.input.open(&window.input, context, driving)
    }

    pub(super) fn next(
        &mut self,
        window: &Window,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        while self.computed.is_none() {
            match self.input.next(&window.input, context, row)? {
                Pulled::Row => {
                    let mut own = std::mem::take(row);
                    let bytes = row_bytes(&own) + window.width * size_of::<Value>();
                    context.memory.take(bytes)?;
                    self.bytes += bytes;
                    own.resize(own.len() + window.width, Value::Null);
                    self.rows.push(own);
                }
                Pulled::Done => {
                    let rows = std::mem::take(&mut self.rows);
                    let computed = if rows.len() > ROWS_IN_A_STEP {
                        coeval_env::block_in_place(|| self.compute(window, rows, context))
                    } else {
                        self.compute(window, rows, context)
                    };
                    self.computed = Some(computed?.into_iter());
                }
                other => return Ok(other),
            }
        }
        if spend_kept(context)? {
            return Ok(Pulled::Pause);
        }
        Ok(match self.computed.as_mut().and_then(Iterator::next) {
            Some(next) => {
                *row = next;
                Pulled::Row
            }
            None => Pulled::Done,
        })
    }

    fn compute(
        &mut self,
        window: &Window,
        mut rows: Vec<Row>,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Vec<Row>> {
        let width = rows.first().map_or(0, Vec::len);
        // Results stand behind the input's columns.
        let results_at = width - window.width.min(width);
        for (definition, calls) in &window.steps {
            let sorted = sort(definition, rows, context, &mut self.bytes)?;
            let keys_width = definition.partition.len();
            let mut keys = Vec::with_capacity(sorted.len());
            rows = Vec::with_capacity(sorted.len());
            for (key, row) in sorted {
                keys.push(key);
                rows.push(row);
            }
            let mut start = 0;
            while start < rows.len() {
                let same = |other: &Row| {
                    let mut pairs = keys[start][..keys_width].iter().zip(&other[..keys_width]);
                    pairs.all(|(one, two)| is_equal(one, two))
                };
                let end = start + 1 + keys[start + 1..].iter().take_while(|key| same(key)).count();
                context.work((end - start) * ROW)?;
                let mut partition = Partition {
                    definition,
                    peers: Peers::of(definition, &keys[start..end], context)?,
                    rows: &mut rows[start..end],
                    results_at,
                    bytes: &mut self.bytes,
                };
                for (number, call) in calls {
                    partition.call(*number, call, context)?;
                }
                start = end;
            }
            let held: usize = keys.iter().map(|key| row_bytes(key)).sum();
            context.memory.give_back(held);
            self.bytes = self.bytes.saturating_sub(held);
        }
        Ok(rows)
    }
}

fn is_equal(left: &Value, right: &Value) -> bool {
    compare(left, right, KeyOrder::ASCENDING).is_eq()
}

/// Sorts the rows for a window: returns each behind its keys, those of the partition, then
/// those of the order.
fn sort(
    definition: &WindowDefinition,
    rows: Vec<Row>,
    context: &mut EvaluationContext<'_>,
    taken: &mut usize,
) -> Result<Vec<(Row, Row)>> {
    let order = definition.order.iter().map(|(key, _)| key);
    let expressions: Vec<_> = definition.partition.iter().chain(order).collect();
    let mut keyed = Vec::with_capacity(rows.len());
    for row in rows {
        let mut key = Row::with_capacity(expressions.len());
        for expression in &expressions {
            key.push(expression.evaluate(context, &row)?);
        }
        let bytes = row_bytes(&key);
        context.memory.take(bytes)?;
        *taken += bytes;
        keyed.push((key, row));
    }
    if expressions.is_empty() {
        return Ok(keyed);
    }
    let orders: Vec<KeyOrder> = expressions
        .iter()
        .map(|expression| {
            let mut own = definition
                .order
                .iter()
                .filter(|(key, _)| key == *expression);
            own.next().map_or(KeyOrder::ASCENDING, |(_, order)| *order)
        })
        .collect();
    metered::sort(keyed, context, &|left: &(Row, Row), right: &(Row, Row)| {
        let pairs = left.0.iter().zip(&right.0).zip(&orders);
        pairs
            .map(|((left, right), order)| compare(left, right, *order))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    })
}

/// The rows of a partition, in order.
struct Partition<'a> {
    definition: &'a WindowDefinition,
    peers: Peers,
    rows: &'a mut [Row],
    results_at: usize,
    bytes: &'a mut usize,
}

impl Partition<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    /// Sets the result of a call for a row.
    fn set(
        &mut self,
        row: usize,
        number: usize,
        value: Value,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        let bytes = heap_bytes(std::slice::from_ref(&value));
        context.memory.take(bytes)?;
        *self.bytes += bytes;
        self.rows[row][self.results_at + number] = value;
        Ok(())
    }

    /// An argument of the call over a row.
    fn argument(
        &self,
        call: &WindowCall,
        argument: usize,
        row: usize,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Value> {
        match call.arguments.get(argument) {
            Some(argument) => argument.evaluate(context, &self.rows[row]),
            None => Ok(Value::Null),
        }
    }

    /// Computes a call for every row.
    fn call(
        &mut self,
        number: usize,
        call: &WindowCall,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        use WindowFunction as F;
        match &call.function {
            F::Aggregate(aggregate) => return self.aggregate(number, aggregate, context),
            F::FirstValue | F::LastValue | F::NthValue => {
                return self.nth_value(number, call, context);
            }
            F::Ntile => return self.ntile(number, call, context),
            F::Lag | F::Lead => return self.neighbour(number, call, context),
            F::RowNumber | F::Rank | F::DenseRank | F::PercentRank | F::CumulativeDistribution => {}
        }
        let count = self.len();
        for row in 0..count {
            context.work(ROW)?;
            let (first, after) = self.peers.group(row);
            let value = match &call.function {
                F::RowNumber => Value::Int8(row as i64 + 1),
                F::Rank => Value::Int8(first as i64 + 1),
                F::DenseRank => Value::Int8(self.peers.number(row) as i64 + 1),
                F::PercentRank if count == 1 => Value::Float8(0.0),
                F::PercentRank => Value::Float8(first as f64 / (count - 1) as f64),
                _ => Value::Float8(after as f64 / count as f64),
            };
            self.set(row, number, value, context)?;
        }
        Ok(())
    }

    /// `ntile`: so many parts of equal size, the first ones a row longer if need be.
    fn ntile(
        &mut self,
        number: usize,
        call: &WindowCall,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        let parts = match self.argument(call, 0, 0, context)? {
            Value::Int4(parts) if parts > 0 => parts as usize,
            Value::Int4(_) => {
                return Err(Error::new(
                    SqlState::INVALID_ARGUMENT_FOR_NTILE,
                    "argument of ntile must be greater than zero",
                ));
            }
            _ => return Ok(()),
        };
        let (size, longer) = (self.len() / parts, self.len() % parts);
        for row in 0..self.len() {
            context.work(ROW)?;
            let in_longer = longer * (size + 1);
            let part = if row < in_longer {
                row / (size + 1)
            } else {
                longer + (row - in_longer) / size.max(1)
            };
            self.set(row, number, Value::Int4(part as i32 + 1), context)?;
        }
        Ok(())
    }

    /// `lag` and `lead`: a value of another row of the partition.
    fn neighbour(
        &mut self,
        number: usize,
        call: &WindowCall,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        for row in 0..self.len() {
            context.work(ROW)?;
            let offset = match call.arguments.len() {
                1 => 1,
                _ => match self.argument(call, 1, row, context)? {
                    Value::Int4(offset) => i64::from(offset),
                    _ => continue,
                },
            };
            let place = match call.function {
                WindowFunction::Lag => row as i64 - offset,
                _ => row as i64 + offset,
            };
            let place = usize::try_from(place).ok().filter(|at| *at < self.len());
            let value = match place {
                Some(at) => self.argument(call, 0, at, context)?,
                None => self.argument(call, 2, row, context)?,
            };
            self.set(row, number, value, context)?;
        }
        Ok(())
    }

    /// `first_value`, `last_value` and `nth_value`: a value of a row of the frame.
    fn nth_value(
        &mut self,
        number: usize,
        call: &WindowCall,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        let mut frames = Frames::new(self.definition, context)?;
        for row in 0..self.len() {
            context.work(ROW)?;
            let frame = frames.of(row, &self.peers, context)?;
            let place = match call.function {
                WindowFunction::FirstValue => frame.place(0),
                WindowFunction::LastValue => {
                    frame.len().checked_sub(1).and_then(|at| frame.place(at))
                }
                _ => match self.argument(call, 1, row, context)? {
                    Value::Int4(wanted) if wanted > 0 => frame.place(wanted as usize - 1),
                    Value::Int4(_) => {
                        return Err(Error::new(
                            SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
                            "argument of nth_value must be greater than zero",
                        ));
                    }
                    _ => None,
                },
            };
            if let Some(at) = place {
                let value = self.argument(call, 0, at, context)?;
                self.set(row, number, value, context)?;
            }
        }
        Ok(())
    }

    /// An aggregate over the frame of each row. What two frames have in common is
    /// aggregated once if the frame only grows, or if the aggregate can take rows back.
    fn aggregate(
        &mut self,
        number: usize,
        call: &AggregateCall,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        let mut frames = Frames::new(self.definition, context)?;
        let may_take_back = !call.any(&|each| each.is_volatile());
        let mut running = Running {
            accumulator: Accumulator::new(call),
            start: 0,
            end: 0,
            kept: 0,
            result: None,
        };
        for row in 0..self.len() {
            context.work(ROW)?;
            let frame = frames.of(row, &self.peers, context)?;
            let Some((start, end)) = frame.whole() else {
                // Rows are left out in the middle.
                running.forget(call, context);
                for (start, end) in frame.parts() {
                    running.take(call, context, &self.rows[start..end])?;
                }
                let value = running.finish(call, context)?;
                running.forget(call, context);
                self.set(row, number, value, context)?;
                continue;
            };
            if let Some(value) = running.result.clone().filter(|_| running.is(start, end)) {
                self.set(row, number, value, context)?;
                continue;
            }
            running.result = None;
            let continues = running.start <= start && start <= running.end && running.end <= end;
            let mut fits = continues && (running.start == start || may_take_back);
            while fits && running.start < start {
                context.work(ROW)?;
                let gone = &self.rows[running.start];
                fits = running.accumulator.give_back(call, context, gone)?;
                running.start += 1;
            }
            if !fits {
                running.forget(call, context);
                (running.start, running.end) = (start, start);
            }
            running.take(call, context, &self.rows[running.end..end])?;
            running.end = end;
            let value = running.finish(call, context)?;
            running.result = Some(value.clone());
            self.set(row, number, value, context)?;
        }
        running.forget(call, context);
        Ok(())
    }
}

/// An aggregate over the rows from `start` to `end`.
struct Running {
    accumulator: Accumulator,
    start: usize,
    end: usize,
    /// Memory that the aggregate keeps.
    kept: usize,
    /// Its result, once computed.
    result: Option<Value>,
}

impl Running {
    fn is(&self, start: usize, end: usize) -> bool {
        (self.start, self.end) == (start, end)
    }

    fn take(
        &mut self,
        call: &AggregateCall,
        context: &mut EvaluationContext<'_>,
        rows: &[Row],
    ) -> Result<()> {
        for row in rows {
            context.work(ROW)?;
            let kept = self.accumulator.take(call, context, row)?;
            context.memory.take(kept)?;
            self.kept += kept;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        call: &AggregateCall,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Value> {
        // Copies what the aggregate keeps.
        context.work(self.kept)?;
        self.accumulator.clone().finish(call, context, &[])
    }

    fn forget(&mut self, call: &AggregateCall, context: &mut EvaluationContext<'_>) {
        context.memory.give_back(self.kept);
        self.kept = 0;
        self.accumulator = Accumulator::new(call);
        self.result = None;
        (self.start, self.end) = (0, 0);
    }
}
