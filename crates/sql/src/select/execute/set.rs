//! The operators for DISTINCT, UNION, INTERSECT and EXCEPT: they compare rows by their
//! encoded keys.

use super::{FixedMap, Pulled, Row, State, row_or_return};
use crate::expression::{EvaluationContext, Expression};
use crate::select::Node;
use crate::select::plan::SetOperation;
use crate::value::KeyOrder;
use crate::{Result, Value};

/// Memory of a stored key in bytes, besides the key itself.
const ENTRY_BYTES: usize = 64;

/// Encodes a row so that two encodings are equal exactly if the rows are.
pub(super) fn row_key(row: &[Value]) -> Vec<u8> {
    let mut key = Vec::new();
    for value in row {
        value.write_key(KeyOrder::ASCENDING, &mut key);
    }
    key
}

/// State of DISTINCT: the rows returned so far.
#[derive(Debug)]
pub(in crate::select) struct DistinctState {
    input: State,
    seen: FixedMap<()>,
    bytes: usize,
}

impl DistinctState {
    pub(super) fn new(input: &Node) -> Self {
        Self {
            input: State::new(input),
            seen: FixedMap::default(),
            bytes: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.input.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        input: &Node,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        context.memory.give_back(self.bytes);
        self.bytes = 0;
        self.seen.clear();
        self.input.open(input, context, driving)
    }

    pub(super) fn next(
        &mut self,
        input: &Node,
        by: &[Expression],
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            row_or_return!(self.input.next(input, context, row)?);
            let key = if by.is_empty() {
                row_key(row)
            } else {
                let mut values = Row::with_capacity(by.len());
                for expression in by {
                    values.push(expression.evaluate(context, row)?);
                }
                row_key(&values)
            };
            let bytes = key.len() + ENTRY_BYTES;
            if self.seen.insert(key, ()).is_none() {
                context.memory.take(bytes)?;
                self.bytes += bytes;
                return Ok(Pulled::Row);
            }
        }
    }
}

/// State of UNION ALL: reads one input after the other.
#[derive(Debug)]
pub(in crate::select) struct AppendState {
    driving: Row,
    inputs: Vec<State>,
    current: usize,
    opened: bool,
}

impl AppendState {
    pub(super) fn new(inputs: &[Node]) -> Self {
        Self {
            driving: Row::new(),
            inputs: inputs.iter().map(State::new).collect(),
            current: 0,
            opened: false,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.inputs.iter().map(State::held_bytes).sum()
    }

    pub(super) fn open(
        &mut self,
        _inputs: &[Node],
        _context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.driving = driving.to_vec();
        self.current = 0;
        self.opened = false;
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        inputs: &[Node],
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        while let (Some(state), Some(node)) =
            (self.inputs.get_mut(self.current), inputs.get(self.current))
        {
            if !self.opened {
                state.open(node, context, &self.driving)?;
                self.opened = true;
            }
            match state.next(node, context, row)? {
                Pulled::Done => {
                    self.current += 1;
                    self.opened = false;
                }
                other => return Ok(other),
            }
        }
        Ok(Pulled::Done)
    }
}

/// State of INTERSECT and EXCEPT: it counts the rows of the right side, then reads the
/// left side.
#[derive(Debug)]
pub(in crate::select) struct SetState {
    driving: Row,
    left: State,
    right: State,
    /// For each distinct row, the number of times that the right side returned it, and
    /// whether the operator has returned it.
    counts: FixedMap<Count>,
    counted: bool,
    left_opened: bool,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    right: u64,
    shown: bool,
}

impl SetState {
    pub(super) fn new(operation: &SetOperation) -> Self {
        Self {
            driving: Row::new(),
            left: State::new(&operation.left),
            right: State::new(&operation.right),
            counts: FixedMap::default(),
            counted: false,
            left_opened: false,
            bytes: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.left.held_bytes() + self.right.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        operation: &SetOperation,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        context.memory.give_back(self.bytes);
        self.bytes = 0;
        self.counts.clear();
        self.counted = false;
        self.left_opened = false;
        self.driving = driving.to_vec();
        self.right.open(&operation.right, context, driving)
    }

    fn entry(&mut self, row: &[Value], context: &mut EvaluationContext<'_>) -> Result<&mut Count> {
        let key = row_key(row);
        if !self.counts.contains_key(&key) {
            let bytes = key.len() + ENTRY_BYTES;
            context.memory.take(bytes)?;
            self.bytes += bytes;
        }
        Ok(self.counts.entry(key).or_default())
    }

    pub(super) fn next(
        &mut self,
        operation: &SetOperation,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        while !self.counted {
            match self.right.next(&operation.right, context, row)? {
                Pulled::Row => self.entry(row, context)?.right += 1,
                Pulled::Done => self.counted = true,
                other => return Ok(other),
            }
        }
        if !self.left_opened {
            self.left.open(&operation.left, context, &self.driving)?;
            self.left_opened = true;
        }
        loop {
            row_or_return!(self.left.next(&operation.left, context, row)?);
            let count = self.entry(row, context)?;
            let wanted = match (operation.all, operation.except) {
                // INTERSECT ALL returns a left row for each right row paired with it,
                // EXCEPT ALL each left row without a pair.
                (true, except) => {
                    let paired = count.right > 0;
                    count.right = count.right.saturating_sub(1);
                    paired != except
                }
                (false, except) => {
                    let first = !count.shown;
                    count.shown = true;
                    first && (count.right > 0) != except
                }
            };
            if wanted {
                return Ok(Pulled::Row);
            }
        }
    }
}
