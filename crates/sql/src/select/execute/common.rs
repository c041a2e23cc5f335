//! The operators of WITH: tables whose rows are made once for all that read them, recursive
//! queries, and LIMIT with ties.
//!
//! The rows of a table of WITH belong to the operator of its query ([`WithState`]), which
//! lends them to the context while it runs. Who reads the table finds them there, also from
//! within a subquery, and makes them as far as they are missing. Where no operator does, as
//! in the conditions of UPDATE and DELETE, they are the context's own.

use std::sync::Arc;

use super::set::row_key;
use super::{FixedMap, Pulled, Row, State, count, row_bytes, row_or_return, spend};
use crate::expression::suspension::Suspending;
use crate::expression::{EvaluationContext, with_stack};
use crate::select::plan::{Common, Reading, Recursive, With, WithTies};
use crate::value::KeyOrder;
use crate::{Error, Result, Value};

/// Memory of a row's key in bytes, besides the key itself.
const ENTRY_BYTES: usize = 64;

/// The rows of a table of WITH, as far as they are made.
#[derive(Debug)]
pub(crate) struct CommonRows {
    /// Number of the table.
    number: usize,
    /// The query that makes them, once it runs.
    query: Option<State>,
    /// Values of the query around WITH, for correlations.
    outer: Vec<Value>,
    rows: Vec<Row>,
    done: bool,
    bytes: usize,
}

impl CommonRows {
    fn new(number: usize, outer: Vec<Value>) -> Self {
        Self {
            number,
            query: None,
            outer,
            rows: Vec::new(),
            done: false,
            bytes: 0,
        }
    }

    fn held_bytes(&self) -> usize {
        self.bytes + self.query.as_ref().map_or(0, State::held_bytes)
    }
}

/// The rows of a table in the context, which has them from its WITH, or its own.
fn rows_of<'context>(
    common: &Common,
    context: &'context mut EvaluationContext<'_>,
) -> Result<&'context mut CommonRows> {
    let known = context
        .commons
        .iter()
        .rposition(|rows| rows.number == common.number);
    let at = known.unwrap_or_else(|| {
        context
            .commons
            .push(CommonRows::new(common.number, Vec::new()));
        context.commons.len() - 1
    });
    let rows = context.commons.get_mut(at);
    rows.ok_or_else(|| Error::internal("rows of a table of WITH that are not there"))
}

/// Drops the rows that the context has of its own since the evaluation began that is suspended.
pub(crate) fn forget_commons(context: &mut EvaluationContext<'_>) {
    let before = context.commons_before.min(context.commons.len());
    let begun = context.commons.split_off(before);
    let held = begun.iter().map(CommonRows::held_bytes).sum();
    context.memory.give_back(held);
}

/// Makes the next row of the table.
fn make(common: &Common, context: &mut EvaluationContext<'_>, row: &mut Row) -> Result<Pulled> {
    // An evaluation that is suspended begins anew, and these rows do not: their operators
    // wait by themselves.
    let before = context.commons_before;
    let mut known = context.commons.iter().take(before);
    let stays = context.can_wait() && known.any(|rows| rows.number == common.number);
    if !stays {
        return make_here(common, context, row);
    }
    let suspending = std::mem::replace(&mut context.suspending, Suspending::No);
    let made = make_here(common, context, row);
    context.suspending = suspending;
    context.commons_before = before;
    match made {
        Ok(Pulled::Pending) => Err(context.wait_for_rows()),
        made => made,
    }
}

fn make_here(
    common: &Common,
    context: &mut EvaluationContext<'_>,
    row: &mut Row,
) -> Result<Pulled> {
    let own = rows_of(common, context)?;
    let mut query = own.query.take();
    let mut outer = std::mem::take(&mut own.outer);
    std::mem::swap(&mut context.outer, &mut outer);
    let step = with_stack(|| step(&mut query, common, context, row));
    std::mem::swap(&mut context.outer, &mut outer);
    let own = rows_of(common, context)?;
    own.query = query;
    own.outer = outer;
    step
}

fn step(
    query: &mut Option<State>,
    common: &Common,
    context: &mut EvaluationContext<'_>,
    row: &mut Row,
) -> Result<Pulled> {
    let root = &common.plan.root;
    let state = match query {
        Some(state) => state,
        None => {
            let state = query.insert(State::new(root));
            state.open(root, context, &[])?;
            state
        }
    };
    state.next(root, context, row)
}

/// State of a query behind WITH: it owns the rows of the tables.
#[derive(Debug)]
pub(in crate::select) struct WithState {
    tables: Vec<CommonRows>,
    /// Whether the rows of the tables are those of the present outer values.
    begun: bool,
    input: State,
}

impl WithState {
    pub(super) fn new(with: &With) -> Self {
        Self {
            tables: Vec::new(),
            begun: false,
            input: State::new(&with.input),
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(CommonRows::held_bytes).sum();
        tables + self.input.held_bytes()
    }

    /// Runs the query, with the tables in the context.
    fn inside<T>(
        &mut self,
        context: &mut EvaluationContext<'_>,
        work: impl FnOnce(&mut State, &mut EvaluationContext<'_>) -> T,
    ) -> T {
        let numbers: Vec<usize> = self.tables.iter().map(|rows| rows.number).collect();
        context.commons.append(&mut self.tables);
        let result = with_stack(|| work(&mut self.input, context));
        let lent = |rows: &mut CommonRows| numbers.contains(&rows.number);
        self.tables.extend(context.commons.extract_if(.., lent));
        result
    }

    pub(super) fn open(
        &mut self,
        with: &With,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        if !(self.begun && with.lasts) {
            let held: usize = self.tables.iter().map(CommonRows::held_bytes).sum();
            context.memory.give_back(held);
            self.tables = with
                .commons
                .iter()
                .filter(|common| common.reading() != Reading::Inlined)
                .map(|common| CommonRows::new(common.number, context.outer.clone()))
                .collect();
            self.begun = true;
        }
        self.inside(context, |input, context| {
            input.open(&with.input, context, driving)
        })
    }

    pub(super) fn next(
        &mut self,
        with: &With,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        self.inside(context, |input, context| {
            input.next(&with.input, context, row)
        })
    }
}

/// State of a reader of a table of WITH.
#[derive(Debug)]
pub(in crate::select) struct CommonState {
    /// The query, if the reader runs it itself.
    own: Option<State>,
    /// Number of rows read.
    read: usize,
}

impl CommonState {
    pub(super) fn new(common: &Common) -> Self {
        let inlined = common.reading() == Reading::Inlined;
        Self {
            own: inlined.then(|| with_stack(|| State::new(&common.plan.root))),
            read: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.own.as_ref().map_or(0, State::held_bytes)
    }

    pub(super) fn open(
        &mut self,
        common: &Common,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        if let Some(own) = &mut self.own {
            return with_stack(|| own.open(&common.plan.root, context, &[]));
        }
        let before = std::mem::take(&mut self.read);
        if before > 0 && common.reading() == Reading::Streamed {
            // The rows were not kept, so they are made again.
            let rows = rows_of(common, context)?;
            let held = rows.held_bytes();
            rows.query = None;
            rows.done = false;
            context.memory.give_back(held);
        }
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        common: &Common,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        if let Some(own) = &mut self.own {
            return with_stack(|| own.next(&common.plan.root, context, row));
        }
        let read = self.read;
        let rows = rows_of(common, context)?;
        if let Some(known) = rows.rows.get(read) {
            row.clear();
            row.extend_from_slice(known);
            if spend(context)? {
                return Ok(Pulled::Pause);
            }
            self.read += 1;
            return Ok(Pulled::Row);
        }
        if rows.done {
            return Ok(Pulled::Done);
        }
        let step = make(common, context, row)?;
        match step {
            Pulled::Row => self.read += 1,
            Pulled::Done => rows_of(common, context)?.done = true,
            Pulled::Pause | Pulled::Pending => return Ok(step),
        }
        if step == Pulled::Row && common.reading() == Reading::Kept {
            let bytes = row_bytes(row);
            context.memory.take(bytes)?;
            let rows = rows_of(common, context)?;
            rows.bytes += bytes;
            rows.rows.push(row.clone());
        }
        Ok(step)
    }
}

/// The rows of working tables, by their numbers.
pub(crate) type WorkingTables = Vec<(usize, Arc<Vec<Row>>)>;

/// State of a recursive query.
#[derive(Debug)]
pub(in crate::select) struct RecursiveState {
    base: State,
    step: State,
    phase: Phase,
    /// The rows that the step reads.
    working: Arc<Vec<Row>>,
    /// The rows of the present step.
    made: Vec<Row>,
    /// The rows so far, for UNION without ALL.
    seen: FixedMap<()>,
    /// Memory of `working`, `made` and `seen`.
    bytes: [usize; 3],
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Base,
    /// All rows of the base or of a step are there.
    Turn,
    Step,
    Done,
}

impl RecursiveState {
    pub(super) fn new(recursive: &Recursive) -> Self {
        Self {
            base: State::new(&recursive.base),
            step: State::new(&recursive.step),
            phase: Phase::Base,
            working: Arc::default(),
            made: Vec::new(),
            seen: FixedMap::default(),
            bytes: [0; 3],
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.iter().sum::<usize>() + self.base.held_bytes() + self.step.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        recursive: &Recursive,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        context.memory.give_back(self.held_bytes());
        *self = Self::new(recursive);
        self.base.open(&recursive.base, context, &[])
    }

    /// Runs the step, with the working table in the context.
    fn inside<T>(
        &mut self,
        number: usize,
        context: &mut EvaluationContext<'_>,
        work: impl FnOnce(&mut State, &mut EvaluationContext<'_>) -> T,
    ) -> T {
        context.working.push((number, Arc::clone(&self.working)));
        let result = with_stack(|| work(&mut self.step, context));
        context.working.pop();
        result
    }

    /// Keeps a row for the next step. Returns false if it is to be left out.
    fn keep(
        &mut self,
        recursive: &Recursive,
        context: &mut EvaluationContext<'_>,
        row: &Row,
    ) -> Result<bool> {
        if recursive.distinct {
            let key = row_key(row);
            let bytes = key.len() + ENTRY_BYTES;
            if self.seen.insert(key, ()).is_some() {
                return Ok(false);
            }
            context.memory.take(bytes)?;
            self.bytes[2] += bytes;
        }
        let bytes = row_bytes(row);
        context.memory.take(bytes)?;
        self.bytes[1] += bytes;
        self.made.push(row.clone());
        Ok(true)
    }

    pub(super) fn next(
        &mut self,
        recursive: &Recursive,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            let pulled = match self.phase {
                Phase::Base => self.base.next(&recursive.base, context, row)?,
                Phase::Step => self.inside(recursive.number, context, |step, context| {
                    step.next(&recursive.step, context, row)
                })?,
                Phase::Turn => {
                    if spend(context)? {
                        return Ok(Pulled::Pause);
                    }
                    self.turn(recursive, context)?;
                    continue;
                }
                Phase::Done => return Ok(Pulled::Done),
            };
            match pulled {
                Pulled::Row => {
                    if self.keep(recursive, context, row)? {
                        return Ok(Pulled::Row);
                    }
                }
                Pulled::Done => self.phase = Phase::Turn,
                other => return Ok(other),
            }
        }
    }

    /// Begins the next step, over the rows of the last one.
    fn turn(&mut self, recursive: &Recursive, context: &mut EvaluationContext<'_>) -> Result<()> {
        context.memory.give_back(self.bytes[0]);
        self.bytes[0] = std::mem::take(&mut self.bytes[1]);
        self.working = Arc::new(std::mem::take(&mut self.made));
        if self.working.is_empty() {
            self.phase = Phase::Done;
            return Ok(());
        }
        if !recursive.reopens {
            context.memory.give_back(self.step.held_bytes());
            self.step = State::new(&recursive.step);
        }
        self.phase = Phase::Step;
        self.inside(recursive.number, context, |step, context| {
            step.open(&recursive.step, context, &[])
        })
    }
}

/// State of a reader of a working table.
#[derive(Debug, Default)]
pub(in crate::select) struct WorkingState {
    rows: Arc<Vec<Row>>,
    read: usize,
}

impl WorkingState {
    pub(super) fn open(
        &mut self,
        number: usize,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        let mut tables = context.working.iter().rev();
        let (_, rows) = tables
            .find(|(known, _)| *known == number)
            .ok_or_else(|| Error::internal("a working table that is not there"))?;
        self.rows = Arc::clone(rows);
        self.read = 0;
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        if spend(context)? {
            return Ok(Pulled::Pause);
        }
        let Some(next) = self.rows.get(self.read) else {
            return Ok(Pulled::Done);
        };
        self.read += 1;
        row.clear();
        row.extend_from_slice(next);
        Ok(Pulled::Row)
    }
}

/// State of LIMIT with ties.
#[derive(Debug)]
pub(in crate::select) struct TiesState {
    input: State,
    skip: u64,
    left: u64,
    /// Sort keys of the last row within the limit.
    last: Option<Vec<u8>>,
}

impl TiesState {
    pub(super) fn new(limit: &WithTies) -> Self {
        Self {
            input: State::new(&limit.input),
            skip: 0,
            left: 0,
            last: None,
        }
    }

    pub(super) const fn input(&self) -> &State {
        &self.input
    }

    pub(super) fn open(
        &mut self,
        limit: &WithTies,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.skip = count(limit.offset.as_ref(), context, "OFFSET")?.unwrap_or(0);
        self.left = count(limit.limit.as_ref(), context, "LIMIT")?.unwrap_or(u64::MAX);
        self.last = None;
        self.input.open(&limit.input, context, driving)
    }

    pub(super) fn next(
        &mut self,
        limit: &WithTies,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        loop {
            if self.left == 0 && self.last.is_none() {
                return Ok(Pulled::Done);
            }
            row_or_return!(self.input.next(&limit.input, context, row)?);
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            let is_within = self.left > 0;
            self.left = self.left.saturating_sub(1);
            if self.left > 0 {
                return Ok(Pulled::Row);
            }
            let mut key = Vec::new();
            for expression in &limit.keys {
                let value = expression.evaluate(context, row)?;
                value.write_key(KeyOrder::ASCENDING, &mut key);
            }
            if is_within || self.last.as_ref() == Some(&key) {
                self.last = Some(key);
                return Ok(Pulled::Row);
            }
            self.last = None;
        }
    }
}
