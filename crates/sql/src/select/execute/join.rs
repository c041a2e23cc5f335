//! The join operators: nested loops over the rows of the left side, a cache that turns
//! a loop into a hash join, and RIGHT and FULL joins.

use super::{FixedMap, Pulled, Row, State, row_bytes, row_or_return, spend, spend_kept};
use crate::expression::{EvaluationContext, Expression, ROW, is_true};
use crate::select::plan::{Cache, FullJoin, Join};
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState, Value};

/// State of a nested-loop join: for each left row, it reads the matching right rows.
#[derive(Debug)]
pub(in crate::select) struct JoinState {
    left: State,
    right: State,
    left_row: Row,
    /// `None` before the right side is opened over `left_row`; then whether the right
    /// side has returned a row.
    inside: Option<bool>,
}

impl JoinState {
    pub(super) fn new(join: &Join) -> Self {
        Self {
            left: State::new(&join.left),
            right: State::new(&join.right),
            left_row: Row::new(),
            inside: None,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.left.held_bytes() + self.right.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        join: &Join,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.inside = None;
        self.left.open(&join.left, context, driving)
    }

    pub(super) fn next(
        &mut self,
        join: &Join,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            let Some(matched) = self.inside else {
                row_or_return!(self.left.next(&join.left, context, &mut self.left_row)?);
                self.right.open(&join.right, context, &self.left_row)?;
                self.inside = Some(false);
                continue;
            };
            match self.right.next(&join.right, context, row)? {
                Pulled::Row => {
                    self.inside = Some(true);
                    return Ok(Pulled::Row);
                }
                Pulled::Done => {
                    self.inside = None;
                    if let (Some(width), false) = (join.outer, matched) {
                        row.clear();
                        row.append(&mut self.left_row);
                        row.resize(row.len() + width, Value::Null);
                        return Ok(Pulled::Row);
                    }
                }
                other => return Ok(other),
            }
        }
    }
}

/// State of a cache node: it collects the rows of an input that does not depend on the
/// driving row, and serves them for each driving row.
#[derive(Debug)]
pub(in crate::select) struct CacheState {
    driving: Row,
    mode: Mode,
    /// The input, while the node collects it or rereads it for each driving row.
    input: State,
    /// Position among the collected rows that match the driving row.
    matches: Matches,
    bytes: usize,
}

#[derive(Debug)]
enum Mode {
    /// The node is collecting the input's rows.
    Collecting { rows: Vec<Row>, opened: bool },
    /// The node holds all rows, with a hash index if the join has equality keys.
    Collected {
        rows: Vec<Row>,
        by_key: FixedMap<Vec<u32>>,
    },
    /// The rows exceed the statement's memory: the node reads the input anew for every
    /// driving row.
    Rereading,
}

#[derive(Debug, Default)]
enum Matches {
    #[default]
    None,
    All(usize),
    Key(Vec<u8>, usize),
}

impl CacheState {
    pub(super) fn new(cache: &Cache) -> Self {
        Self {
            driving: Row::new(),
            mode: Mode::Collecting {
                rows: Vec::new(),
                opened: false,
            },
            input: State::new(&cache.input),
            matches: Matches::None,
            bytes: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.input.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        cache: &Cache,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.driving.clear();
        self.driving.extend_from_slice(driving);
        match &mut self.mode {
            Mode::Collecting { rows, opened } => {
                // The collection was interrupted, so it starts again.
                rows.clear();
                *opened = false;
                context.memory.give_back(self.bytes);
                self.bytes = 0;
                Ok(())
            }
            Mode::Collected { .. } => self.find(cache, context),
            Mode::Rereading => self.input.open(&cache.input, context, driving),
        }
    }

    /// Looks up the rows that match the driving row.
    fn find(&mut self, cache: &Cache, context: &mut EvaluationContext<'_>) -> Result<()> {
        if cache.keys.is_empty() {
            self.matches = Matches::All(0);
            return Ok(());
        }
        let expressions = cache.keys.iter().map(|(known, _)| known);
        self.matches = match key(expressions, context, &self.driving)? {
            Some(key) => Matches::Key(key, 0),
            None => Matches::None,
        };
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        cache: &Cache,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        if matches!(self.mode, Mode::Collecting { .. }) {
            row_or_return!(self.collect(cache, context, row)?);
        }
        match &self.mode {
            Mode::Rereading => self.input.next(&cache.input, context, row),
            Mode::Collecting { .. } => Err(Error::internal("rows that were not collected")),
            Mode::Collected { rows, by_key } => {
                if spend(context)? {
                    return Ok(Pulled::Pause);
                }
                let found = match &mut self.matches {
                    Matches::None => None,
                    Matches::All(next) => {
                        *next += 1;
                        rows.get(*next - 1)
                    }
                    Matches::Key(key, next) => {
                        *next += 1;
                        by_key
                            .get(key)
                            .and_then(|places| places.get(*next - 1))
                            .and_then(|place| rows.get(*place as usize))
                    }
                };
                let Some(found) = found else {
                    return Ok(Pulled::Done);
                };
                row.clear();
                row.extend_from_slice(&self.driving);
                row.extend_from_slice(found);
                Ok(Pulled::Row)
            }
        }
    }

    /// Collects the input's rows; returns [`Pulled::Row`] once it has all of them.
    fn collect(
        &mut self,
        cache: &Cache,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        let Mode::Collecting { rows, opened } = &mut self.mode else {
            return Ok(Pulled::Row);
        };
        if !*opened {
            self.input.open(&cache.input, context, &self.driving)?;
            *opened = true;
        }
        loop {
            match self.input.next(&cache.input, context, row)? {
                Pulled::Row => {
                    let own = row.split_off(cache.offset);
                    let bytes = row_bytes(&own) + 16;
                    match context.memory.take(bytes) {
                        Ok(()) => {
                            self.bytes += bytes;
                            rows.push(own);
                        }
                        Err(error) if error.state() == SqlState::OUT_OF_MEMORY => {
                            context.memory.give_back(self.bytes + bytes);
                            self.bytes = 0;
                            self.mode = Mode::Rereading;
                            self.input.open(&cache.input, context, &self.driving)?;
                            return Ok(Pulled::Row);
                        }
                        Err(error) => return Err(error),
                    }
                }
                Pulled::Done => break,
                other => return Ok(other),
            }
        }
        let rows = std::mem::take(rows);
        let mut by_key = FixedMap::<Vec<u32>>::default();
        if !cache.keys.is_empty() {
            let mut wide = vec![Value::Null; cache.offset];
            for (place, own) in rows.iter().enumerate() {
                context.work(ROW)?;
                wide.truncate(cache.offset);
                wide.extend_from_slice(own);
                let expressions = cache.keys.iter().map(|(_, own)| own);
                if let Some(key) = key(expressions, context, &wide)? {
                    by_key.entry(key).or_default().push(place as u32);
                }
            }
        }
        self.mode = Mode::Collected { rows, by_key };
        self.find(cache, context)?;
        Ok(Pulled::Row)
    }
}

/// Encodes values of expressions as one hash key; `None` if a value is null, because
/// null equals nothing.
fn key<'a>(
    expressions: impl Iterator<Item = &'a Expression>,
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::new();
    for expression in expressions {
        let value = expression.evaluate(context, row)?;
        if value.is_null() {
            return Ok(None);
        }
        value.write_key(KeyOrder::ASCENDING, &mut key);
    }
    Ok(Some(key))
}

/// State of RIGHT JOIN and FULL JOIN: it collects both sides.
#[derive(Debug)]
pub(in crate::select) struct FullJoinState {
    driving: Row,
    left: State,
    right: State,
    /// Next step of the join.
    phase: Phase,
    left_rows: Vec<Row>,
    right_rows: Vec<Row>,
    right_matched: Vec<bool>,
    bytes: usize,
}

#[derive(Debug)]
enum Phase {
    CollectLeft,
    OpenRight,
    CollectRight,
    /// Compares pairs of rows from this position on: left row, right row, whether the
    /// left row has matched.
    Pairs(usize, usize, bool),
    /// Returns unmatched right rows from this position on.
    Rest(usize),
}

impl FullJoinState {
    pub(super) fn new(join: &FullJoin) -> Self {
        Self {
            driving: Row::new(),
            left: State::new(&join.left),
            right: State::new(&join.right),
            phase: Phase::CollectLeft,
            left_rows: Vec::new(),
            right_rows: Vec::new(),
            right_matched: Vec::new(),
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
        self.left.open(&join.left, context, driving)
    }

    pub(super) fn next(
        &mut self,
        join: &FullJoin,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            match self.phase {
                Phase::CollectLeft => match self.left.next(&join.left, context, row)? {
                    Pulled::Row => {
                        let own = row.split_off(self.driving.len());
                        let bytes = row_bytes(&own);
                        context.memory.take(bytes)?;
                        self.bytes += bytes;
                        self.left_rows.push(own);
                    }
                    Pulled::Done => self.phase = Phase::OpenRight,
                    other => return Ok(other),
                },
                Phase::OpenRight => {
                    let mut driving = self.driving.clone();
                    driving.resize(driving.len() + join.widths[0], Value::Null);
                    self.right.open(&join.right, context, &driving)?;
                    self.phase = Phase::CollectRight;
                }
                Phase::CollectRight => match self.right.next(&join.right, context, row)? {
                    Pulled::Row => {
                        let own = row.split_off(self.driving.len() + join.widths[0]);
                        let bytes = row_bytes(&own) + 1;
                        context.memory.take(bytes)?;
                        self.bytes += bytes;
                        self.right_rows.push(own);
                        self.right_matched.push(false);
                    }
                    Pulled::Done => self.phase = Phase::Pairs(0, 0, false),
                    other => return Ok(other),
                },
                Phase::Pairs(left, right, matched) => {
                    if spend(context)? {
                        return Ok(Pulled::Pause);
                    }
                    let Some(left_row) = self.left_rows.get(left) else {
                        self.phase = Phase::Rest(0);
                        continue;
                    };
                    row.clear();
                    row.extend_from_slice(&self.driving);
                    row.extend_from_slice(left_row);
                    let Some(right_row) = self.right_rows.get(right) else {
                        self.phase = Phase::Pairs(left + 1, 0, false);
                        if !matched && join.keep_left {
                            row.resize(row.len() + join.widths[1], Value::Null);
                            return Ok(Pulled::Row);
                        }
                        continue;
                    };
                    row.extend_from_slice(right_row);
                    let holds = is_true(&join.condition.evaluate(context, row)?);
                    self.phase = Phase::Pairs(left, right + 1, matched || holds);
                    if holds {
                        self.right_matched[right] = true;
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
