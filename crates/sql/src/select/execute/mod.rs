//! The executor: pull-based (Volcano-style) operators, each with its state, that return
//! one row per call.
//!
//! A [`State`] mirrors the plan's tree. `open` (re)starts a node over a driving row;
//! `next` puts the node's next row into a buffer that the caller reuses. After a pause,
//! `next` continues from the kept state.

mod aggregate;
mod common;
mod frame;
mod full_join;
mod group;
mod join;
mod json_group;
mod lock;
mod ordered_set;
mod rows;
mod scan;
mod set;
mod sort;
mod statistics;
mod time_range;
mod window;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Node, QueryPlan};
use crate::expression::suspension::{Suspension, resumable};
use crate::expression::{BUDGET, EvaluationContext, Expression, ROW, heap_bytes, with_stack};
use crate::{Error, Result, SqlState, Value};

pub(crate) use common::{CommonRows, WorkingTables, forget_commons};

/// Time in milliseconds: a plan that takes longer for one row runs further steps as
/// blocking work, so that the executor's thread can hand its other tasks over.
const LONG_SLICE: u64 = 40;

/// A row under construction.
pub(super) type Row = Vec<Value>;

/// A wait of a function in the row that an operator evaluates.
type Waits = Option<Box<Suspension>>;

/// A hash map with the same iteration order in every run, for deterministic simulation.
pub(super) type FixedMap<V> = HashMap<Vec<u8>, V, BuildHasherDefault<DefaultHasher>>;

/// Result of pulling at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// The node has returned a row.
    Row,
    /// The node has no more rows.
    Done,
    /// The row budget or time slice is used up: the caller yields and calls again.
    Pause,
    /// The node waits for a lock: the caller calls again when woken.
    Pending,
}

/// Continues after a row, and returns from the caller with any other step.
macro_rules! row_or_return {
    ($step:expr) => {
        match $step {
            Pulled::Row => {}
            other => return Ok(other),
        }
    };
}
pub(super) use row_or_return;

/// Execution state of a plan node.
#[derive(Debug)]
pub(super) enum State {
    /// The single row of [`Node::One`]; `None` once returned.
    One {
        row: Option<Row>,
    },
    /// Position in a list of rows.
    Values {
        driving: Row,
        next: usize,
    },
    Scan(Box<scan::ScanState>),
    Rows(Box<rows::RowsState>),
    ProjectSet(Box<rows::ProjectSetState>),
    Filter {
        input: Box<State>,
        waits: Waits,
    },
    Join(Box<join::JoinState>),
    FullJoin(Box<full_join::FullJoinState>),
    Cache(Box<join::CacheState>),
    Derived(Box<DerivedState>),
    Project {
        input: Box<State>,
        row: Row,
        waits: Waits,
    },
    Aggregate(Box<group::AggregateState>),
    Sort(Box<sort::SortState>),
    Distinct(Box<set::DistinctState>),
    Limit(Box<LimitState>),
    Append(Box<set::AppendState>),
    SetOperation(Box<set::SetState>),
    Lock(Box<lock::LockState>),
    WithTies(Box<common::TiesState>),
    Window(Box<window::WindowState>),
    With(Box<common::WithState>),
    Common(Box<common::CommonState>),
    Recursive(Box<common::RecursiveState>),
    Working(Box<common::WorkingState>),
}

/// State of a subquery in FROM: it appends the subquery's rows to the driving row.
#[derive(Debug)]
pub(super) struct DerivedState {
    driving: Row,
    input: State,
    /// Values of the driving row that a LATERAL subquery is correlated with.
    taken: Option<Vec<Value>>,
    row: Row,
}

#[derive(Debug)]
pub(super) struct LimitState {
    input: State,
    /// Rows still to skip; known once the node is opened.
    skip: u64,
    left: u64,
}

impl State {
    /// A state for a node, not opened yet.
    pub(super) fn new(node: &Node) -> Self {
        match node {
            Node::One => Self::One { row: None },
            Node::Values { .. } => Self::Values {
                driving: Row::new(),
                next: 0,
            },
            Node::Scan(_) => Self::Scan(Box::default()),
            Node::System(_) | Node::Function(_) => Self::Rows(Box::default()),
            Node::ProjectSet(project) => {
                Self::ProjectSet(Box::new(rows::ProjectSetState::new(project)))
            }
            Node::Filter { input, .. } => Self::Filter {
                input: Box::new(Self::new(input)),
                waits: None,
            },
            Node::Join(join) => with_stack(|| Self::Join(Box::new(join::JoinState::new(join)))),
            Node::FullJoin(join) => {
                with_stack(|| Self::FullJoin(Box::new(full_join::FullJoinState::new(join))))
            }
            Node::Cache(cache) => Self::Cache(Box::new(join::CacheState::new(cache))),
            Node::Derived(derived) => Self::Derived(Box::new(DerivedState {
                driving: Row::new(),
                input: with_stack(|| Self::new(&derived.plan)),
                taken: None,
                row: Row::new(),
            })),
            Node::Plan(plan) => Self::new(&plan.root),
            Node::Project { input, .. } => Self::Project {
                input: Box::new(Self::new(input)),
                row: Row::new(),
                waits: None,
            },
            Node::Aggregate(aggregate) => {
                Self::Aggregate(Box::new(group::AggregateState::new(aggregate)))
            }
            Node::Sort(sort) => Self::Sort(Box::new(sort::SortState::new(sort))),
            Node::Distinct { input, .. } => {
                Self::Distinct(Box::new(set::DistinctState::new(input)))
            }
            Node::Limit { input, .. } => Self::Limit(Box::new(LimitState {
                input: Self::new(input),
                skip: 0,
                left: 0,
            })),
            Node::Append(inputs) => Self::Append(Box::new(set::AppendState::new(inputs))),
            Node::SetOperation(operation) => {
                Self::SetOperation(Box::new(set::SetState::new(operation)))
            }
            Node::Lock(lock) => Self::Lock(Box::new(lock::LockState::new(lock))),
            Node::WithTies(limit) => Self::WithTies(Box::new(common::TiesState::new(limit))),
            Node::Window(window) => Self::Window(Box::new(window::WindowState::new(window))),
            Node::With(with) => with_stack(|| Self::With(Box::new(common::WithState::new(with)))),
            Node::Common(common) => Self::Common(Box::new(common::CommonState::new(common))),
            Node::Recursive(recursive) => {
                with_stack(|| Self::Recursive(Box::new(common::RecursiveState::new(recursive))))
            }
            Node::Working(_) => Self::Working(Box::default()),
        }
    }

    /// Opens the node (again) over a driving row.
    pub(super) fn open(
        &mut self,
        node: &Node,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        if context.instrument.is_none() {
            return self.open_here(node, context, driving);
        }
        let began = clock(context);
        let result = self.open_here(node, context, driving);
        let time = elapsed(began);
        if let Some(instrument) = &mut context.instrument {
            instrument.opened(node, time);
        }
        result
    }

    /// Puts the next row into `row`.
    #[inline]
    pub(super) fn next(
        &mut self,
        node: &Node,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        if context.instrument.is_none() {
            return self.next_here(node, context, row);
        }
        let began = clock(context);
        let result = self.next_here(node, context, row);
        let time = elapsed(began);
        if let Some(instrument) = &mut context.instrument {
            let returned = matches!(result, Ok(Pulled::Row));
            instrument.pulled(node, returned, time);
        }
        result
    }

    fn open_here(
        &mut self,
        node: &Node,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        match (self, node) {
            (state, Node::Plan(plan)) => state.open(&plan.root, context, driving),
            (Self::One { row }, Node::One) => {
                *row = Some(driving.to_vec());
                Ok(())
            }
            (Self::Values { driving: own, next }, Node::Values { .. }) => {
                *own = driving.to_vec();
                *next = 0;
                Ok(())
            }
            (Self::Scan(state), Node::Scan(scan)) => state.open(scan, context, driving),
            (Self::Rows(state), Node::System(table)) => state.open_system(table, context, driving),
            (Self::Rows(state), Node::Function(_)) => {
                state.open_later(driving);
                Ok(())
            }
            (Self::ProjectSet(state), Node::ProjectSet(project)) => {
                state.open(project, context, driving)
            }
            (Self::Filter { input, waits }, Node::Filter { input: node, .. }) => {
                *waits = None;
                input.open(node, context, driving)
            }
            (Self::Join(state), Node::Join(join)) => {
                with_stack(|| state.open(join, context, driving))
            }
            (Self::FullJoin(state), Node::FullJoin(join)) => {
                with_stack(|| state.open(join, context, driving))
            }
            (Self::Cache(state), Node::Cache(cache)) => state.open(cache, context, driving),
            (Self::Derived(state), Node::Derived(derived)) => {
                state.driving.clear();
                state.driving.extend_from_slice(driving);
                state.taken = match &derived.correlations {
                    None => None,
                    Some(correlations) => {
                        let mut taken = Vec::with_capacity(correlations.len());
                        for each in correlations {
                            taken.push(each.evaluate(context, driving)?);
                        }
                        // Rows cached by the subquery's nodes belong to the previous
                        // values.
                        context.memory.give_back(state.input.held_bytes());
                        state.input = Self::new(&derived.plan);
                        Some(taken)
                    }
                };
                state.in_frame(context, |input, context| {
                    with_stack(|| input.open(&derived.plan, context, &[]))
                })
            }
            (Self::Project { input, waits, .. }, Node::Project { input: node, .. }) => {
                *waits = None;
                input.open(node, context, driving)
            }
            (Self::Aggregate(state), Node::Aggregate(aggregate)) => {
                state.open(aggregate, context, driving)
            }
            (Self::Sort(state), Node::Sort(sort)) => state.open(sort, context, driving),
            (Self::Distinct(state), Node::Distinct { input, .. }) => {
                state.open(input, context, driving)
            }
            (
                Self::Limit(state),
                Node::Limit {
                    input,
                    limit,
                    offset,
                },
            ) => {
                state.skip = count(offset.as_ref(), context, "OFFSET")?.unwrap_or(0);
                state.left = count(limit.as_ref(), context, "LIMIT")?.unwrap_or(u64::MAX);
                state.input.open(input, context, driving)
            }
            (Self::Append(state), Node::Append(inputs)) => state.open(inputs, context, driving),
            (Self::SetOperation(state), Node::SetOperation(operation)) => {
                state.open(operation, context, driving)
            }
            (Self::Lock(state), Node::Lock(lock)) => state.open(lock, context, driving),
            (Self::WithTies(state), Node::WithTies(limit)) => state.open(limit, context, driving),
            (Self::Window(state), Node::Window(window)) => state.open(window, context, driving),
            (Self::With(state), Node::With(with)) => state.open(with, context, driving),
            (Self::Common(state), Node::Common(common)) => state.open(common, context),
            (Self::Recursive(state), Node::Recursive(recursive)) => state.open(recursive, context),
            (Self::Working(state), Node::Working(number)) => state.open(*number, context),
            _ => Err(mismatch()),
        }
    }

    fn next_here(
        &mut self,
        node: &Node,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        match (self, node) {
            (state, Node::Plan(plan)) => state.next(&plan.root, context, row),
            (Self::One { row: own }, Node::One) => match own.take() {
                Some(own) => {
                    *row = own;
                    Ok(Pulled::Row)
                }
                None => Ok(Pulled::Done),
            },
            (Self::Values { driving, next }, Node::Values { rows }) => {
                if spend_kept(context)? {
                    return Ok(Pulled::Pause);
                }
                let Some(expressions) = rows.get(*next) else {
                    return Ok(Pulled::Done);
                };
                *next += 1;
                row.clear();
                row.extend_from_slice(driving);
                for expression in expressions {
                    row.push(expression.evaluate(context, driving)?);
                }
                Ok(Pulled::Row)
            }
            (Self::Scan(state), Node::Scan(scan)) => state.next(scan, context, row),
            (Self::Rows(state), Node::System(_)) => state.next(context, row),
            (Self::Rows(state), Node::Function(function)) => state.next_of(function, context, row),
            (Self::ProjectSet(state), Node::ProjectSet(project)) => {
                state.next(project, context, row)
            }
            (
                Self::Filter { input, waits },
                Node::Filter {
                    input: node,
                    condition,
                },
            ) => loop {
                if waits.is_none() {
                    row_or_return!(input.next(node, context, row)?);
                }
                match resumable(waits, context, |context| condition.evaluate(context, row))? {
                    None => return Ok(Pulled::Pending),
                    Some(Value::Bool(true)) => return Ok(Pulled::Row),
                    Some(_) => {}
                }
            },
            (Self::Join(state), Node::Join(join)) => with_stack(|| state.next(join, context, row)),
            (Self::FullJoin(state), Node::FullJoin(join)) => {
                with_stack(|| state.next(join, context, row))
            }
            (Self::Cache(state), Node::Cache(cache)) => state.next(cache, context, row),
            (Self::Derived(state), Node::Derived(derived)) => {
                let mut own = std::mem::take(&mut state.row);
                let step = state.in_frame(context, |input, context| {
                    with_stack(|| input.next(&derived.plan, context, &mut own))
                });
                state.row = own;
                row_or_return!(step?);
                row.clear();
                row.extend_from_slice(&state.driving);
                row.append(&mut state.row);
                Ok(Pulled::Row)
            }
            (
                Self::Project {
                    input,
                    row: wide,
                    waits,
                },
                Node::Project {
                    input: node,
                    expressions,
                },
            ) => {
                if waits.is_none() {
                    row_or_return!(input.next(node, context, wide)?);
                }
                let projected = resumable(waits, context, |context| {
                    row.clear();
                    for expression in expressions {
                        row.push(expression.evaluate(context, wide)?);
                    }
                    Ok(())
                })?;
                Ok(match projected {
                    Some(()) => Pulled::Row,
                    None => Pulled::Pending,
                })
            }
            (Self::Aggregate(state), Node::Aggregate(aggregate)) => {
                state.next(aggregate, context, row)
            }
            (Self::Sort(state), Node::Sort(sort)) => state.next(sort, context, row),
            (Self::Distinct(state), Node::Distinct { input, by }) => {
                state.next(input, by, context, row)
            }
            (Self::Limit(state), Node::Limit { input, .. }) => {
                if state.left == 0 {
                    return Ok(Pulled::Done);
                }
                loop {
                    row_or_return!(state.input.next(input, context, row)?);
                    if state.skip == 0 {
                        state.left -= 1;
                        return Ok(Pulled::Row);
                    }
                    state.skip -= 1;
                }
            }
            (Self::Append(state), Node::Append(inputs)) => state.next(inputs, context, row),
            (Self::SetOperation(state), Node::SetOperation(operation)) => {
                state.next(operation, context, row)
            }
            (Self::Lock(state), Node::Lock(lock)) => state.next(lock, context, row),
            (Self::WithTies(state), Node::WithTies(limit)) => state.next(limit, context, row),
            (Self::Window(state), Node::Window(window)) => state.next(window, context, row),
            (Self::With(state), Node::With(with)) => state.next(with, context, row),
            (Self::Common(state), Node::Common(common)) => state.next(common, context, row),
            (Self::Recursive(state), Node::Recursive(recursive)) => {
                state.next(recursive, context, row)
            }
            (Self::Working(state), Node::Working(_)) => state.next(context, row),
            _ => Err(mismatch()),
        }
    }
}

impl State {
    /// Memory that this node and those below it have taken of the statement's and not
    /// given back.
    fn held_bytes(&self) -> usize {
        match self {
            Self::One { .. } | Self::Values { .. } | Self::Scan(_) | Self::Rows(_) => 0,
            Self::ProjectSet(state) => state.input().held_bytes(),
            Self::Filter { input, .. } | Self::Project { input, .. } => input.held_bytes(),
            Self::Join(state) => state.held_bytes(),
            Self::FullJoin(state) => state.held_bytes(),
            Self::Cache(state) => state.held_bytes(),
            Self::Derived(state) => state.input.held_bytes(),
            Self::Aggregate(state) => state.held_bytes(),
            Self::Sort(state) => state.held_bytes(),
            Self::Distinct(state) => state.held_bytes(),
            Self::Limit(state) => state.input.held_bytes(),
            Self::Append(state) => state.held_bytes(),
            Self::SetOperation(state) => state.held_bytes(),
            Self::Lock(state) => state.input().held_bytes(),
            Self::WithTies(state) => state.input().held_bytes(),
            Self::Window(state) => state.held_bytes(),
            Self::With(state) => state.held_bytes(),
            Self::Common(state) => state.held_bytes(),
            Self::Recursive(state) => state.held_bytes(),
            Self::Working(_) => 0,
        }
    }
}

impl DerivedState {
    /// Runs `work` on the input, with the correlated values as the context's outer
    /// values.
    fn in_frame<T>(
        &mut self,
        context: &mut EvaluationContext<'_>,
        work: impl FnOnce(&mut State, &mut EvaluationContext<'_>) -> T,
    ) -> T {
        match &mut self.taken {
            None => work(&mut self.input, context),
            Some(taken) => {
                std::mem::swap(&mut context.outer, taken);
                let result = work(&mut self.input, context);
                std::mem::swap(&mut context.outer, taken);
                result
            }
        }
    }
}

/// The time, if the statement takes that of its nodes.
fn clock(context: &EvaluationContext<'_>) -> Option<coeval_env::Instant> {
    let timing = context
        .instrument
        .as_ref()
        .is_some_and(|each| each.takes_time());
    timing.then(coeval_env::now)
}

fn elapsed(began: Option<coeval_env::Instant>) -> Duration {
    began.map_or(Duration::ZERO, |began| began.elapsed())
}

fn mismatch() -> Error {
    Error::internal("a state that is not its node's")
}

/// Evaluates LIMIT or OFFSET; `None` for no limit.
pub(super) fn count(
    expression: Option<&Expression>,
    context: &mut EvaluationContext<'_>,
    clause: &'static str,
) -> Result<Option<u64>> {
    let Some(expression) = expression else {
        return Ok(None);
    };
    match expression.evaluate(context, &[])? {
        Value::Int8(number) => u64::try_from(number).map(Some).map_err(|_| {
            let state = if clause == "LIMIT" {
                SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE
            } else {
                SqlState::INVALID_ROW_COUNT_IN_OFFSET_CLAUSE
            };
            Error::new(state, format!("{clause} must not be negative"))
        }),
        _ => Ok(None),
    }
}

/// Approximate memory of a row in bytes.
pub(crate) fn row_bytes(row: &[Value]) -> usize {
    std::mem::size_of::<Row>() + std::mem::size_of_val(row) + heap_bytes(row)
}

/// Charges one row to the row budget. Returns whether the caller should pause.
pub(super) fn spend(context: &mut EvaluationContext<'_>) -> Result<bool> {
    if context.budget == 0 {
        return Ok(true);
    }
    context.budget -= 1;
    if context.is_overdue() {
        context.check_canceled()?;
        return Ok(true);
    }
    if context.budget.is_multiple_of(256) {
        context.check_canceled()?;
    }
    Ok(false)
}

/// Charges one row of those that an operator has kept and returns, to the work meter.
/// Returns whether the caller should pause.
pub(super) fn spend_kept(context: &mut EvaluationContext<'_>) -> Result<bool> {
    if context.is_overdue() {
        context.check_canceled()?;
        return Ok(true);
    }
    context.work(ROW)?;
    Ok(false)
}

/// A cursor: one execution of a plan, and its position.
///
/// The cursor outlives the contexts that its calls pass in, so that a portal can be
/// executed in parts; the contexts must have the same transaction, parameters and
/// snapshot.
#[derive(Debug)]
pub struct Cursor {
    plan: Arc<QueryPlan>,
    state: State,
    opened: bool,
    done: bool,
    /// Whether the last call paused to let other tasks run.
    paused: bool,
    /// Whether a single row has taken so long that other tasks had to wait.
    takes_long: bool,
}

impl Cursor {
    /// A cursor before the first row.
    #[must_use]
    pub fn new(plan: &Arc<QueryPlan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            state: State::new(&plan.root),
            opened: false,
            done: false,
            paused: false,
            takes_long: false,
        }
    }

    /// The plan that the cursor executes.
    #[must_use]
    pub fn plan(&self) -> &Arc<QueryPlan> {
        &self.plan
    }

    /// Gives back the memory of sorts, groups and collected rows, once the subquery
    /// has been executed.
    pub(crate) fn give_back(self, context: &mut EvaluationContext<'_>) {
        context.memory.give_back(self.state.held_bytes());
    }

    fn step(
        &mut self,
        context: &mut EvaluationContext<'_>,
        row: &mut Vec<Value>,
    ) -> Result<Pulled> {
        if self.done {
            return Ok(Pulled::Done);
        }
        if !self.opened {
            self.state.open(&self.plan.root, context, &[])?;
            self.opened = true;
        }
        let step = self.state.next(&self.plan.root, context, row)?;
        self.done = step == Pulled::Done;
        Ok(step)
    }

    /// Puts the next row into `row` and returns true, or false after the last row.
    /// Returns pending to let other tasks run, and while it waits for a lock.
    pub fn poll_next(
        &mut self,
        context: &mut EvaluationContext<'_>,
        task: &mut Context<'_>,
        row: &mut Vec<Value>,
    ) -> Poll<Result<bool>> {
        if context.budget > BUDGET {
            context.budget = BUDGET;
        }
        if !context.waker.will_wake(task.waker()) {
            context.waker = task.waker().clone();
        }
        if std::mem::take(&mut self.paused) {
            context.begin_slice();
            if let Err(error) = context.check_canceled() {
                return Poll::Ready(Err(error));
            }
        }
        let step = if self.takes_long {
            coeval_env::block_in_place(|| self.step(context, row))
        } else {
            self.step(context, row)
        };
        match step {
            Err(error) => Poll::Ready(Err(error)),
            Ok(Pulled::Row) => Poll::Ready(Ok(true)),
            Ok(Pulled::Done) => Poll::Ready(Ok(false)),
            Ok(Pulled::Pause) => {
                let took = coeval_env::coarse_milliseconds().saturating_sub(context.slice_began);
                self.takes_long |= took > LONG_SLICE;
                self.paused = true;
                context.budget = BUDGET;
                context.session.work_meter.tick(&context.session.cancel);
                context.session.work_meter.give_way();
                coeval_env::wake_after_others(task);
                Poll::Pending
            }
            Ok(Pulled::Pending) => Poll::Pending,
        }
    }

    /// [`Cursor::poll_next`] as a future.
    pub async fn next(
        &mut self,
        context: &mut EvaluationContext<'_>,
        row: &mut Vec<Value>,
    ) -> Result<bool> {
        std::future::poll_fn(|task| self.poll_next(context, task, row)).await
    }

    /// Passes the rows to `visit` until it breaks, without suspending: for subqueries
    /// in expressions. When the time slice is used up, the executor's thread hands its
    /// other tasks over and the query continues as blocking work.
    pub(crate) fn visit_now(
        &mut self,
        context: &mut EvaluationContext<'_>,
        visit: &mut dyn FnMut(&mut EvaluationContext<'_>, Row) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        context.unsuspended(|context| self.visit_in_place(context, visit))
    }

    fn visit_in_place(
        &mut self,
        context: &mut EvaluationContext<'_>,
        visit: &mut dyn FnMut(&mut EvaluationContext<'_>, Row) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        if self.visit_until_pause(context, visit)? {
            return Ok(());
        }
        coeval_env::block_in_place(|| {
            loop {
                context.check_canceled()?;
                context.budget = u32::MAX;
                context.slice_began = coeval_env::coarse_milliseconds();
                if self.visit_until_pause(context, visit)? {
                    return Ok(());
                }
            }
        })
    }

    /// Returns false if the budget is used up before the last row.
    fn visit_until_pause(
        &mut self,
        context: &mut EvaluationContext<'_>,
        visit: &mut dyn FnMut(&mut EvaluationContext<'_>, Row) -> Result<ControlFlow<()>>,
    ) -> Result<bool> {
        loop {
            let mut row = Row::new();
            match self.step(context, &mut row)? {
                Pulled::Row => {
                    if visit(context, row)?.is_break() {
                        return Ok(true);
                    }
                }
                Pulled::Done => return Ok(true),
                Pulled::Pause => return Ok(false),
                Pulled::Pending => {
                    return Err(Error::unsupported(
                        "FOR UPDATE in a subquery of an expression",
                    ));
                }
            }
        }
    }
}
