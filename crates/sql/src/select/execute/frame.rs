//! The frames of a window: for each row of a partition the rows around it.

use std::cmp::Ordering;

use coeval_sql_syntax::tree::{Exclude, FrameUnit};

use super::Row;
use super::sort::compare;
use super::time_range::with_limit;
use crate::expression::{EvaluationContext, FrameLimit, ROW, WindowDefinition, WindowFrame};
use crate::value::{KeyOrder, Numeric};
use crate::{Error, Result, SqlState, Value};

/// The groups of rows of a partition that are equal in its order: *peers*.
#[derive(Debug)]
pub(super) struct Peers {
    /// First row of each group, and at last the number of rows.
    starts: Vec<usize>,
    /// Number of each row's group.
    numbers: Vec<u32>,
    /// The value of the first order key of each row, for RANGE offsets.
    keys: Vec<Value>,
}

impl Peers {
    /// The peers of a partition with these keys of rows, behind those of the partition.
    pub(super) fn of(
        definition: &WindowDefinition,
        keys: &[Row],
        context: &mut EvaluationContext<'_>,
    ) -> Result<Self> {
        let own = definition.partition.len();
        let mut starts = Vec::new();
        let mut numbers = Vec::with_capacity(keys.len());
        for (row, key) in keys.iter().enumerate() {
            context.work(ROW)?;
            let is_peer = row > 0
                && keys[row - 1][own..]
                    .iter()
                    .zip(&key[own..])
                    .all(|(one, two)| compare(one, two, KeyOrder::ASCENDING).is_eq());
            if !is_peer {
                starts.push(row);
            }
            numbers.push(starts.len() as u32 - 1);
        }
        starts.push(keys.len());
        let first_keys = match (definition.frame.unit, definition.order.first()) {
            (FrameUnit::Range, Some(_)) => keys.iter().map(|key| key[own].clone()).collect(),
            _ => Vec::new(),
        };
        Ok(Self {
            starts,
            numbers,
            keys: first_keys,
        })
    }

    fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Number of the row's group.
    pub(super) fn number(&self, row: usize) -> usize {
        self.numbers[row] as usize
    }

    /// The row's group: its first row and the one after its last.
    pub(super) fn group(&self, row: usize) -> (usize, usize) {
        let number = self.number(row);
        (self.starts[number], self.starts[number + 1])
    }
}

/// The frame of a row: up to three runs of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    parts: [(usize, usize); 3],
}

impl Frame {
    /// The runs, from the left.
    pub(super) fn parts(&self) -> impl Iterator<Item = (usize, usize)> {
        self.parts.into_iter().filter(|(start, end)| start < end)
    }

    /// The frame as one run, if it is one and no row was left out.
    pub(super) fn whole(&self) -> Option<(usize, usize)> {
        let [first, second, third] = self.parts;
        let is_one = second.0 == second.1 && third.0 == third.1;
        is_one.then_some(first)
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.parts().map(|(start, end)| end - start).sum()
    }

    /// The row at a position in the frame.
    pub(super) fn place(&self, position: usize) -> Option<usize> {
        let mut left = position;
        for (start, end) in self.parts() {
            if left < end - start {
                return Some(start + left);
            }
            left -= end - start;
        }
        None
    }
}

/// Computes the frames of a partition's rows, one after the other.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    frame: &'a WindowFrame,
    order: KeyOrder,
    /// Offsets of the start and the end.
    offsets: [Value; 2],
    /// Start and end of the last frame of RANGE offsets; neither moves back.
    reached: [usize; 2],
}

impl<'a> Frames<'a> {
    /// Evaluates the offsets of the frame; errors 22004, 22013.
    pub(super) fn new(
        definition: &'a WindowDefinition,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Self> {
        let frame = &definition.frame;
        let mut offset = |limit: &FrameLimit, word: &str| -> Result<Value> {
            let Some(offset) = limit.offset() else {
                return Ok(Value::Null);
            };
            let value = offset.evaluate(context, &[])?;
            if value.is_null() {
                return Err(Error::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    format!("frame {word} offset must not be null"),
                ));
            }
            if is_negative(&value) {
                return Err(Error::new(
                    SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
                    match frame.unit {
                        FrameUnit::Range => {
                            "invalid preceding or following size in window function".to_owned()
                        }
                        _ => format!("frame {word} offset must not be negative"),
                    },
                ));
            }
            Ok(value)
        };
        let offsets = [
            offset(&frame.start, "starting")?,
            offset(&frame.end, "ending")?,
        ];
        Ok(Self {
            frame,
            order: definition
                .order
                .first()
                .map_or(KeyOrder::ASCENDING, |(_, order)| *order),
            offsets,
            reached: [0, 0],
        })
    }

    /// The frame of a row. Rows are asked for in order.
    pub(super) fn of(
        &mut self,
        row: usize,
        peers: &Peers,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Frame> {
        let start = self.start(row, peers, context)?;
        let end = self.end(row, peers, context)?.max(start);
        let within = |(from, to): (usize, usize)| {
            let from = from.clamp(start, end);
            (from, to.clamp(from, end))
        };
        let group = peers.group(row);
        let parts = match self.frame.exclude {
            Exclude::Nothing => [(start, end), (end, end), (end, end)],
            Exclude::CurrentRow => [within((start, row)), within((row + 1, end)), (end, end)],
            Exclude::Group => [within((start, group.0)), within((group.1, end)), (end, end)],
            Exclude::Ties => [
                within((start, group.0)),
                within((row, row + 1)),
                within((group.1, end)),
            ],
        };
        Ok(Frame { parts })
    }

    /// A number of rows or groups.
    fn count(&self, limit: usize) -> usize {
        match &self.offsets[limit] {
            Value::Int8(count) => usize::try_from(*count).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    fn start(
        &mut self,
        row: usize,
        peers: &Peers,
        context: &mut EvaluationContext<'_>,
    ) -> Result<usize> {
        let count = self.count(0);
        let number = peers.number(row);
        let groups = peers.starts.len() - 1;
        let frame = self.frame;
        Ok(match (&frame.start, frame.unit) {
            (FrameLimit::Unbounded, _) => 0,
            (FrameLimit::CurrentRow, FrameUnit::Rows) => row,
            (FrameLimit::CurrentRow, _) => peers.group(row).0,
            (FrameLimit::Preceding(_), FrameUnit::Rows) => row.saturating_sub(count),
            (FrameLimit::Following(_), FrameUnit::Rows) => {
                row.saturating_add(count).min(peers.count())
            }
            (FrameLimit::Preceding(_), FrameUnit::Groups) => {
                peers.starts[number.saturating_sub(count)]
            }
            (FrameLimit::Following(_), FrameUnit::Groups) => {
                peers.starts[number.saturating_add(count).min(groups)]
            }
            (FrameLimit::Preceding(_), FrameUnit::Range) => {
                self.range(0, true, row, peers, context)?
            }
            (FrameLimit::Following(_), FrameUnit::Range) => {
                self.range(0, false, row, peers, context)?
            }
        })
    }

    fn end(
        &mut self,
        row: usize,
        peers: &Peers,
        context: &mut EvaluationContext<'_>,
    ) -> Result<usize> {
        let count = self.count(1);
        let number = peers.number(row);
        let groups = peers.starts.len() - 1;
        let frame = self.frame;
        Ok(match (&frame.end, frame.unit) {
            (FrameLimit::Unbounded, _) => peers.count(),
            (FrameLimit::CurrentRow, FrameUnit::Rows) => row + 1,
            (FrameLimit::CurrentRow, _) => peers.group(row).1,
            (FrameLimit::Preceding(_), FrameUnit::Rows) => (row + 1).saturating_sub(count),
            (FrameLimit::Following(_), FrameUnit::Rows) => row
                .saturating_add(count)
                .saturating_add(1)
                .min(peers.count()),
            (FrameLimit::Preceding(_), FrameUnit::Groups) => {
                peers.starts[(number + 1).saturating_sub(count)]
            }
            (FrameLimit::Following(_), FrameUnit::Groups) => {
                peers.starts[number.saturating_add(count).saturating_add(1).min(groups)]
            }
            (FrameLimit::Preceding(_), FrameUnit::Range) => {
                self.range(1, true, row, peers, context)?
            }
            (FrameLimit::Following(_), FrameUnit::Range) => {
                self.range(1, false, row, peers, context)?
            }
        })
    }

    /// A limit by the value of the order's key: the first row that is in the range, or for
    /// the end (1) the first one behind it. Nulls are in range of nulls only.
    fn range(
        &mut self,
        limit: usize,
        preceding: bool,
        row: usize,
        peers: &Peers,
        context: &mut EvaluationContext<'_>,
    ) -> Result<usize> {
        let is_end = limit == 1;
        let base = &peers.keys[row];
        let order = self.order;
        let mut at = self.reached[limit];
        while at < peers.count() {
            context.work(ROW)?;
            let value = &peers.keys[at];
            let stops = if value.is_null() || base.is_null() {
                let (first, last) = match order.nulls_first {
                    true => (
                        !value.is_null() || base.is_null(),
                        !value.is_null() && base.is_null(),
                    ),
                    false => (
                        value.is_null() || !base.is_null(),
                        value.is_null() && !base.is_null(),
                    ),
                };
                if is_end { last } else { first }
            } else {
                let subtract = preceding != order.descending;
                let less = is_end != order.descending;
                let offset = &self.offsets[limit];
                in_range(value, base, offset, (subtract, less), context)? != is_end
            };
            if stops {
                break;
            }
            at += 1;
        }
        self.reached[limit] = at;
        Ok(at)
    }
}

fn is_negative(value: &Value) -> bool {
    match value {
        Value::Int8(number) => *number < 0,
        Value::Float8(number) => number.is_nan() || *number < 0.0,
        Value::Numeric(number) => matches!(**number, Numeric::NaN) || number.signum() < 0,
        _ => false,
    }
}

/// Whether `value` is at most (`less`) or at least `base` plus or minus the offset.
fn in_range(
    value: &Value,
    base: &Value,
    offset: &Value,
    (subtract, less): (bool, bool),
    context: &mut EvaluationContext<'_>,
) -> Result<bool> {
    let holds = |order: Ordering| if less { order.is_le() } else { order.is_ge() };
    let mismatch = || Error::internal("a frame's offset that is not of its key's type");
    let integer = |value: &Value| match value {
        Value::Int2(number) => Ok(i128::from(*number)),
        Value::Int4(number) => Ok(i128::from(*number)),
        Value::Int8(number) => Ok(i128::from(*number)),
        _ => Err(mismatch()),
    };
    let float = |value: &Value| match value {
        Value::Float4(number) => Ok(f64::from(*number)),
        Value::Float8(number) => Ok(*number),
        _ => Err(mismatch()),
    };
    match offset {
        Value::Int8(offset) => {
            let offset = i128::from(*offset);
            let base = integer(base)?;
            let limit = if subtract {
                base - offset
            } else {
                base + offset
            };
            Ok(holds(integer(value)?.cmp(&limit)))
        }
        Value::Float8(offset) => {
            let (value, base) = (float(value)?, float(base)?);
            if value.is_nan() {
                return Ok(base.is_nan() || !less);
            }
            if base.is_nan() {
                return Ok(less);
            }
            // The limit would be no number: every value is in range.
            let towards = if subtract { base > 0.0 } else { base < 0.0 };
            if offset.is_infinite() && base.is_infinite() && towards {
                return Ok(true);
            }
            let limit = if subtract {
                base - offset
            } else {
                base + offset
            };
            Ok(value.partial_cmp(&limit).is_some_and(holds))
        }
        Value::Numeric(offset) => {
            let (Value::Numeric(value), Value::Numeric(base)) = (value, base) else {
                return Err(mismatch());
            };
            if matches!(**value, Numeric::NaN) {
                return Ok(matches!(**base, Numeric::NaN) || !less);
            }
            if matches!(**base, Numeric::NaN) {
                return Ok(less);
            }
            let limit = match subtract {
                true => base.subtract(offset)?,
                false => base.add(offset)?,
            };
            if matches!(limit, Numeric::NaN) {
                return Ok(true);
            }
            Ok(holds((**value).cmp(&limit)))
        }
        Value::Interval(offset) => {
            let (value, limit) = with_limit(value, base, *offset, subtract, context)?;
            // A limit behind every time of day has all of them before it.
            Ok(limit.map_or(less != subtract, |limit| holds(value.order(&limit))))
        }
        _ => Err(mismatch()),
    }
}
