//! The join operators: loops over the rows of the left side, and a cache that turns a
//! loop into a hash join.

use super::{FixedMap, Pulled, Row, State, row_bytes, row_or_return, spend};
use crate::expression::{EvaluationContext, Expression, ROW, is_true};
use crate::select::Node;
use crate::select::plan::{Cache, Join, Matching};
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState, Value};

/// State of a join: for each left row, it reads the matching right rows.
#[derive(Debug)]
pub(in crate::select) struct JoinState {
    left: State,
    right: State,
    left_row: Row,
    /// `None` before the right side is opened over `left_row`; then whether the right
    /// side has returned a row.
    inside: Option<bool>,
    /// Whether `left_row` is looked up in the hash table directly.
    hashing: bool,
    /// Whether a condition over the hash table may have to wait, as its own node can.
    may_wait: bool,
    /// Buffer for keys.
    key: Vec<u8>,
}

impl JoinState {
    pub(super) fn new(join: &Join) -> Self {
        let may_wait = match &join.right {
            Node::Filter { condition, .. } => condition.is_volatile(),
            _ => false,
        };
        Self {
            left: State::new(&join.left),
            right: State::new(&join.right),
            left_row: Row::new(),
            inside: None,
            hashing: false,
            may_wait,
            key: Vec::new(),
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
        self.hashing = false;
        self.left.open(&join.left, context, driving)
    }

    /// Whether the right side is a cache that holds all its rows, perhaps with a filter above.
    /// Rows that are counted one by one go through the nodes.
    fn is_hashed(&self, join: &Join, context: &EvaluationContext<'_>) -> bool {
        if context.instrument.is_some() || self.may_wait {
            return false;
        }
        let state = match (&self.right, &join.right) {
            (State::Cache(state), Node::Cache(_)) => state,
            (State::Filter { input, .. }, Node::Filter { input: node, .. }) => {
                match (&**input, &**node) {
                    (State::Cache(state), Node::Cache(_)) => state,
                    _ => return false,
                }
            }
            _ => return false,
        };
        matches!(state.mode, Mode::Collected { .. })
    }

    /// The next row of a join with a cache that holds all its rows. It does the same as the
    /// cache and the filter, without copies of the left row for them.
    fn next_hashed(
        &mut self,
        join: &Join,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        let (cache, condition) = match &join.right {
            Node::Cache(cache) => (cache, None),
            Node::Filter { input, condition } => match &**input {
                Node::Cache(cache) => (cache, Some(condition)),
                _ => return Err(not_hashed()),
            },
            _ => return Err(not_hashed()),
        };
        let state = match &mut self.right {
            State::Cache(state) => state,
            State::Filter { input, .. } => match &mut **input {
                State::Cache(state) => state,
                _ => return Err(not_hashed()),
            },
            _ => return Err(not_hashed()),
        };
        let CacheState { mode, matches, .. } = &mut **state;
        let Mode::Collected { rows, by_key } = mode else {
            return Err(not_hashed());
        };
        self.hashing = true;
        loop {
            let Some(matched) = self.inside else {
                row_or_return!(self.left.next(&join.left, context, &mut self.left_row)?);
                *matches = if cache.keys.is_empty() {
                    Matches::All(0)
                } else {
                    let known = cache.keys.iter().map(|(known, _)| known);
                    match write_key(known, context, &self.left_row, &mut self.key)? {
                        true => Matches::Key(Vec::new(), 0),
                        false => Matches::None,
                    }
                };
                self.inside = Some(false);
                continue;
            };
            if spend(context)? {
                return Ok(Pulled::Pause);
            }
            let (found, is_last) = match matches {
                Matches::None => (None, true),
                Matches::All(next) => {
                    *next += 1;
                    (rows.get(*next - 1), *next >= rows.len())
                }
                Matches::Key(_, next) => {
                    let places = by_key.get(&self.key).map_or(&[][..], Vec::as_slice);
                    *next += 1;
                    let place = places.get(*next - 1);
                    let found = place.and_then(|place| rows.get(*place as usize));
                    (found, *next >= places.len())
                }
            };
            let Some(found) = found else {
                self.inside = None;
                let nulls = match join.kind {
                    Matching::Left(width) if !matched => width,
                    Matching::Anti => 0,
                    Matching::Inner | Matching::Left(_) | Matching::Semi => continue,
                };
                row.clear();
                row.append(&mut self.left_row);
                row.resize(row.len() + nulls, Value::Null);
                return Ok(Pulled::Row);
            };
            row.clear();
            if condition.is_none()
                && is_last
                && matches!(join.kind, Matching::Inner | Matching::Left(_))
            {
                // No later match needs the left row.
                row.append(&mut self.left_row);
                row.extend_from_slice(found);
                self.inside = None;
                return Ok(Pulled::Row);
            }
            if let Some(condition) = condition {
                row.extend_from_slice(&self.left_row);
                row.extend_from_slice(found);
                if !is_true(&condition.evaluate(context, row)?) {
                    continue;
                }
            }
            match join.kind {
                Matching::Inner | Matching::Left(_) => {
                    if condition.is_none() {
                        row.extend_from_slice(&self.left_row);
                        row.extend_from_slice(found);
                    }
                    self.inside = Some(true);
                    return Ok(Pulled::Row);
                }
                Matching::Semi => {
                    self.inside = None;
                    row.clear();
                    row.append(&mut self.left_row);
                    return Ok(Pulled::Row);
                }
                Matching::Anti => self.inside = None,
            }
        }
    }

    /// Returns the left row without a right one, extended by nulls, and goes on to the
    /// next left row.
    fn left_alone(&mut self, row: &mut Row, nulls: usize) -> Pulled {
        self.inside = None;
        row.clear();
        row.append(&mut self.left_row);
        row.resize(row.len() + nulls, Value::Null);
        Pulled::Row
    }

    pub(super) fn next(
        &mut self,
        join: &Join,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            let Some(matched) = self.inside else {
                if self.is_hashed(join, context) {
                    return self.next_hashed(join, context, row);
                }
                row_or_return!(self.left.next(&join.left, context, &mut self.left_row)?);
                self.right.open(&join.right, context, &self.left_row)?;
                self.inside = Some(false);
                continue;
            };
            if self.hashing {
                return self.next_hashed(join, context, row);
            }
            match self.right.next(&join.right, context, row)? {
                Pulled::Row => match join.kind {
                    Matching::Inner | Matching::Left(_) => {
                        self.inside = Some(true);
                        return Ok(Pulled::Row);
                    }
                    Matching::Semi => return Ok(self.left_alone(row, 0)),
                    Matching::Anti => self.inside = None,
                },
                Pulled::Done => match join.kind {
                    Matching::Left(width) if !matched => return Ok(self.left_alone(row, width)),
                    Matching::Anti => return Ok(self.left_alone(row, 0)),
                    Matching::Inner | Matching::Left(_) | Matching::Semi => self.inside = None,
                },
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
            Mode::Rereading => self.reread(cache, context, row),
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

    /// The next row of the input that matches the driving row.
    fn reread(
        &mut self,
        cache: &Cache,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            row_or_return!(self.input.next(&cache.input, context, row)?);
            if cache.keys.is_empty() {
                return Ok(Pulled::Row);
            }
            let wanted = key(cache.keys.iter().map(|(known, _)| known), context, row)?;
            let own = key(cache.keys.iter().map(|(_, own)| own), context, row)?;
            if wanted.is_some() && wanted == own {
                return Ok(Pulled::Row);
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

fn not_hashed() -> Error {
    Error::internal("a hash join without a hash table")
}

/// Encodes values of expressions as one hash key; returns false if a value is null, because
/// null equals nothing.
fn write_key<'a>(
    expressions: impl Iterator<Item = &'a Expression>,
    context: &mut EvaluationContext<'_>,
    row: &[Value],
    key: &mut Vec<u8>,
) -> Result<bool> {
    key.clear();
    for expression in expressions {
        let value = expression.evaluate(context, row)?;
        if value.is_null() {
            return Ok(false);
        }
        value.write_key(KeyOrder::ASCENDING, key);
    }
    Ok(true)
}

/// Encodes values of expressions as one hash key; `None` if a value is null.
pub(super) fn key<'a>(
    expressions: impl Iterator<Item = &'a Expression>,
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::new();
    Ok(write_key(expressions, context, row, &mut key)?.then_some(key))
}
