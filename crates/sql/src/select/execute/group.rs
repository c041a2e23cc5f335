//! The aggregation operator (GROUP BY): keeps the state of the aggregates for each
//! group key in a hash table.

use super::aggregate::Accumulator;
use super::{FixedMap, Pulled, Row, State, row_bytes, spend_kept};
use crate::expression::{EvaluationContext, ROW};
use crate::select::plan::Aggregate;
use crate::value::KeyOrder;
use crate::{Result, Value};

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
    /// Number of its grouping set.
    set: usize,
    accumulators: Vec<Accumulator>,
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
        for (number, set) in aggregate.sets.iter().enumerate() {
            if set.is_empty() {
                // All rows are one group, which there is also without any row.
                self.add(aggregate, context, Row::new(), number)?;
            }
        }
        self.input.open(&aggregate.input, context, driving)
    }

    /// Adds a group without rows.
    fn add(
        &mut self,
        aggregate: &Aggregate,
        context: &mut EvaluationContext<'_>,
        keys: Row,
        set: usize,
    ) -> Result<usize> {
        let bytes = GROUP_BYTES
            + self.key.len()
            + row_bytes(&keys)
            + aggregate.calls.len() * std::mem::size_of::<Accumulator>();
        context.memory.take(bytes)?;
        self.bytes += bytes;
        self.groups.push(Group {
            keys,
            set,
            accumulators: aggregate.calls.iter().map(Accumulator::new).collect(),
        });
        Ok(self.groups.len() - 1)
    }

    /// Looks up or creates the group of the current row in one of the grouping sets, by the
    /// row's keys.
    fn group(
        &mut self,
        aggregate: &Aggregate,
        context: &mut EvaluationContext<'_>,
        (number, set): (usize, &[usize]),
        keys: &[Value],
    ) -> Result<usize> {
        if set.is_empty() {
            // The groups of all rows are the first ones.
            let before = aggregate.sets[..number].iter();
            return Ok(before.filter(|set| set.is_empty()).count());
        }
        self.key.clear();
        if aggregate.sets.len() > 1 {
            self.key.extend_from_slice(&(number as u32).to_be_bytes());
        }
        for position in set {
            keys[*position].write_key(KeyOrder::ASCENDING, &mut self.key);
        }
        if let Some(known) = self.by_key.get(&self.key) {
            return Ok(*known);
        }
        let mut own = vec![Value::Null; keys.len()];
        for position in set {
            own[*position] = keys[*position].clone();
        }
        let group = self.add(aggregate, context, own, number)?;
        self.by_key.insert(self.key.clone(), group);
        Ok(group)
    }

    /// Adds the current row to its groups.
    fn take_row(
        &mut self,
        aggregate: &Aggregate,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        for key in &aggregate.keys {
            keys.push(key.evaluate(context, &self.row)?);
        }
        for (number, set) in aggregate.sets.iter().enumerate() {
            if number > 0 {
                context.work(ROW)?;
            }
            let group = self.group(aggregate, context, (number, set), &keys)?;
            let accumulators = &mut self.groups[group].accumulators;
            for (call, accumulator) in aggregate.calls.iter().zip(accumulators) {
                let kept = accumulator.take(call, context, &self.row)?;
                if kept > 0 {
                    context.memory.take(kept)?;
                    self.bytes += kept;
                }
            }
        }
        self.keys = keys;
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        aggregate: &Aggregate,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        while self.next.is_none() {
            match self.input.next(&aggregate.input, context, &mut self.row)? {
                Pulled::Row => self.take_row(aggregate, context)?,
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
        row.resize(aggregate.keys.len(), Value::Null);
        let set = group.set;
        for (call, accumulator) in aggregate
            .calls
            .iter()
            .zip(std::mem::take(&mut group.accumulators))
        {
            let value = accumulator.finish(call, context, row)?;
            row.push(value);
        }
        for grouping in &aggregate.groupings {
            let lacks = |key: &usize| !aggregate.sets[set].contains(key);
            let bits = grouping
                .iter()
                .fold(0, |bits, key| bits << 1 | i32::from(lacks(key)));
            row.push(Value::Int4(bits));
        }
        Ok(Pulled::Row)
    }
}
