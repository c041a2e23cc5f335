//! The operator of RIGHT JOIN and FULL JOIN: a hash join that notes which right rows have
//! matched.
//!
//! It collects the right side, with a hash index if the join has equality keys, then looks
//! the rows of the left side up in it, and at last returns the right rows that have not
//! matched any.

use super::join::key;
use super::{FixedMap, Pulled, Row, State, row_bytes, spend, spend_kept};
use crate::expression::{EvaluationContext, ROW, is_true};
use crate::select::plan::FullJoin;
use crate::{Result, Value};

/// State of RIGHT JOIN and FULL JOIN.
#[derive(Debug)]
pub(in crate::select) struct FullJoinState {
    driving: Row,
    left: State,
    right: State,
    /// Next step of the join.
    phase: Phase,
    left_row: Row,
    right_rows: Vec<Row>,
    right_matched: Vec<bool>,
    by_key: FixedMap<Vec<u32>>,
    /// Key of the left row; `None` if one of its values is null.
    left_key: Option<Vec<u8>>,
    bytes: usize,
}

#[derive(Debug)]
enum Phase {
    OpenRight,
    CollectRight,
    /// Reads the next left row.
    Left,
    /// Compares the left row with its candidates from this position on; whether it has
    /// matched one.
    Pairs(usize, bool),
    /// Returns unmatched right rows from this position on.
    Rest(usize),
}

impl FullJoinState {
    pub(super) fn new(join: &FullJoin) -> Self {
        Self {
            driving: Row::new(),
            left: State::new(&join.left),
            right: State::new(&join.right),
            phase: Phase::OpenRight,
            left_row: Row::new(),
            right_rows: Vec::new(),
            right_matched: Vec::new(),
            by_key: FixedMap::default(),
            left_key: None,
            bytes: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.left.held_bytes() + self.right.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        join: &FullJoin,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        context.memory.give_back(self.held_bytes());
        *self = Self::new(join);
        self.driving = driving.to_vec();
        Ok(())
    }

    /// Keeps a right row, and finds it by its key.
    fn keep(
        &mut self,
        join: &FullJoin,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<()> {
        let mut bytes = 1;
        if !join.keys.is_empty() {
            context.work(ROW)?;
            let own = join.keys.iter().map(|(_, own)| own);
            if let Some(key) = key(own, context, row)? {
                bytes += key.len() + 48;
                let place = self.right_rows.len() as u32;
                self.by_key.entry(key).or_default().push(place);
            }
        }
        let own = row.split_off(self.driving.len() + join.widths[0]);
        bytes += row_bytes(&own);
        context.memory.take(bytes)?;
        self.bytes += bytes;
        self.right_rows.push(own);
        self.right_matched.push(false);
        Ok(())
    }

    /// Position of the left row's candidate of this number.
    fn candidate(&self, join: &FullJoin, number: usize) -> Option<usize> {
        if join.keys.is_empty() {
            return (number < self.right_rows.len()).then_some(number);
        }
        let places = self.by_key.get(self.left_key.as_ref()?)?;
        places.get(number).map(|place| *place as usize)
    }

    pub(super) fn next(
        &mut self,
        join: &FullJoin,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            match self.phase {
                Phase::OpenRight => {
                    let mut driving = self.driving.clone();
                    driving.resize(driving.len() + join.widths[0], Value::Null);
                    self.right.open(&join.right, context, &driving)?;
                    self.phase = Phase::CollectRight;
                }
                Phase::CollectRight => match self.right.next(&join.right, context, row)? {
                    Pulled::Row => self.keep(join, context, row)?,
                    Pulled::Done => {
                        self.left.open(&join.left, context, &self.driving)?;
                        self.phase = Phase::Left;
                    }
                    other => return Ok(other),
                },
                Phase::Left => match self.left.next(&join.left, context, &mut self.left_row)? {
                    Pulled::Row => {
                        let known = join.keys.iter().map(|(known, _)| known);
                        self.left_key = key(known, context, &self.left_row)?;
                        self.phase = Phase::Pairs(0, false);
                    }
                    Pulled::Done => self.phase = Phase::Rest(0),
                    other => return Ok(other),
                },
                Phase::Pairs(number, matched) => {
                    if spend(context)? {
                        return Ok(Pulled::Pause);
                    }
                    row.clear();
                    row.extend_from_slice(&self.left_row);
                    let Some(place) = self.candidate(join, number) else {
                        self.phase = Phase::Left;
                        if !matched && join.keep_left {
                            row.resize(row.len() + join.widths[1], Value::Null);
                            return Ok(Pulled::Row);
                        }
                        continue;
                    };
                    row.extend_from_slice(&self.right_rows[place]);
                    let holds = is_true(&join.condition.evaluate(context, row)?);
                    self.phase = Phase::Pairs(number + 1, matched || holds);
                    if holds {
                        self.right_matched[place] = true;
                        return Ok(Pulled::Row);
                    }
                }
                Phase::Rest(right) => {
                    if spend_kept(context)? {
                        return Ok(Pulled::Pause);
                    }
                    let Some(right_row) = self.right_rows.get(right) else {
                        return Ok(Pulled::Done);
                    };
                    self.phase = Phase::Rest(right + 1);
                    if !self.right_matched[right] {
                        row.clear();
                        row.extend_from_slice(&self.driving);
                        row.resize(row.len() + join.widths[0], Value::Null);
                        row.extend_from_slice(right_row);
                        return Ok(Pulled::Row);
                    }
                }
            }
        }
    }
}
