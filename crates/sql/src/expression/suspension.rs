//! Functions that wait (`pg_sleep`, `pg_advisory_lock`), in an evaluator that cannot.
//!
//! The evaluator is a plain recursion, so a function in its midst cannot give its thread
//! back. Instead the evaluation of the row fails, the operator that asked for it waits,
//! and evaluates the row again:
//!
//! ```text
//!   select pg_try_advisory_lock(1), pg_sleep(2), random()
//!             │ true                    │ waits: the evaluation ends here
//!             ▼                         ▼
//!   results  [true]                    Project returns Pending, a timer wakes the task
//!   again     true (as before)          the wait is over        random()
//! ```
//!
//! What a function did must not be done twice. So functions with an effect of this kind
//! keep their results in the order in which they were called ([`EvaluationContext::once`]),
//! and a repeated evaluation takes them from there.
//!
//! An operator opts in with [`resumable`]; elsewhere (in a DEFAULT, in the values of an
//! UPDATE) a function that has to wait fails. Inside a subquery of an expression the
//! operator around the whole expression waits, and the subquery runs again. What is kept
//! beyond one evaluation is not evaluated again: the result of a subquery that is remembered,
//! whose functions are taken off the list ([`EvaluationContext::settle`]), and the rows of a
//! table of WITH around the expression: the operators that make them wait by themselves, and
//! the expression is evaluated again until they are there ([`WaitKind::Rows`]).

use std::sync::Arc;
use std::task::{Context, Poll};

use super::{EvaluationContext, SessionInfo};
use crate::instance::activity::{Activity, AnswerWait};
use crate::instance::advisory::{AdvisoryWait, Timer};
use crate::select::forget_commons;
use crate::{Error, Result, Value};

/// What a function does when it has to wait.
#[derive(Debug, Default)]
pub(crate) enum Suspending {
    /// It fails, unless an operator below changes that.
    #[default]
    No,
    /// It fails: a subquery cannot wait.
    Never,
    /// It suspends the operator; nothing has been kept so far.
    May,
    /// It suspends the operator.
    Kept(Box<Suspension>),
}

/// An evaluation that was suspended, or keeps results of functions for that case.
#[derive(Debug, Default)]
pub(crate) struct Suspension {
    /// Results of the functions that are called once, in the order of their calls.
    results: Vec<(&'static str, Value)>,
    /// Number of results that the present evaluation has used.
    used: usize,
    /// The wait that ended the last evaluation.
    wait: Option<Wait>,
}

/// A function's wait.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) sort: WaitKind,
    /// The function, and its result once the wait is over.
    pub(crate) result: Option<(&'static str, Value)>,
}

impl Wait {
    /// Whether it has been polled already, with the task that is to be woken.
    const fn is_polled(&self) -> bool {
        matches!(self.sort, WaitKind::Rows)
    }
}

/// What a function waits for.
#[derive(Debug)]
pub(crate) enum WaitKind {
    /// A moment.
    Moment(Sleep),
    /// A lock.
    Lock(AdvisoryWait),
    /// Rows of a table of WITH around the expression, whose operator waits and wakes the task.
    Rows,
}

/// A sleep, which the session's page shows while it lasts.
#[derive(Debug)]
pub(crate) struct Sleep {
    timer: Timer,
    page: Option<Arc<Activity>>,
}

impl Sleep {
    /// Sleeps until a moment.
    pub(crate) fn until(moment: coeval_env::Instant, session: &SessionInfo) -> Self {
        let page = session
            .advisory
            .as_ref()
            .map(|locks| Arc::clone(locks.page()));
        if let Some(page) = &page {
            page.answer_waits(AnswerWait::Sleep);
        }
        let timer = Timer::until(moment);
        Self { timer, page }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(page) = &self.page {
            page.answer_waits(AnswerWait::None);
        }
    }
}

/// What a function that may wait has come to.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is done.
    Done(Value),
    /// It has to wait, and returns this value afterwards.
    Waits(WaitKind, Value),
}

impl Suspension {
    fn poll(&mut self, context: &EvaluationContext<'_>) -> Poll<Result<()>> {
        let Some(wait) = &mut self.wait else {
            return Poll::Ready(Ok(()));
        };
        let mut task = Context::from_waker(&context.waker);
        match &mut wait.sort {
            WaitKind::Moment(sleep) => {
                if !sleep.timer.is_over(&mut task) {
                    return Poll::Pending;
                }
            }
            WaitKind::Lock(lock) => match lock.poll(context.engine, &mut task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(result) => result?,
            },
            WaitKind::Rows => {}
        }
        if let Some(over) = self.wait.take() {
            self.results.extend(over.result);
        }
        Poll::Ready(Ok(()))
    }
}

impl EvaluationContext<'_> {
    /// Calls a function whose effect must not be repeated when the row is evaluated again,
    /// and which may have to wait.
    pub(crate) fn once(
        &mut self,
        name: &'static str,
        call: impl FnOnce(&mut Self) -> Result<Begun>,
    ) -> Result<Value> {
        if let Suspending::Kept(kept) = &mut self.suspending {
            if let Some((function, value)) = kept.results.get(kept.used)
                && *function == name
            {
                kept.used += 1;
                return Ok(value.clone());
            }
            // A condition has changed: what follows belongs to another way through the
            // expression.
            kept.results.truncate(kept.used);
        }
        match call(self)? {
            Begun::Done(value) => {
                if let Some(kept) = self.kept() {
                    kept.results.push((name, value.clone()));
                    kept.used = kept.results.len();
                }
                Ok(value)
            }
            Begun::Waits(sort, value) => {
                let Some(kept) = self.kept() else {
                    return Err(Error::unsupported(format_args!("a wait of {name} here"))
                        .with_hint("Call the function in the list of a SELECT."));
                };
                let result = Some((name, value));
                kept.wait = Some(Wait { sort, result });
                Err(Error::internal("a wait that no operator has taken"))
            }
        }
    }

    /// The error of an evaluation for which rows of a table of WITH around it are not there
    /// yet: the operator that can wait takes it.
    pub(crate) fn wait_for_rows(&mut self) -> Error {
        if let Some(kept) = self.kept() {
            kept.wait = Some(Wait {
                sort: WaitKind::Rows,
                result: None,
            });
        }
        Error::internal("a wait that no operator has taken")
    }

    fn kept(&mut self) -> Option<&mut Suspension> {
        if matches!(self.suspending, Suspending::May) {
            self.suspending = Suspending::Kept(Box::default());
        }
        match &mut self.suspending {
            Suspending::Kept(kept) => Some(kept),
            Suspending::No | Suspending::Never | Suspending::May => None,
        }
    }

    /// Whether a function that has to wait could do so here.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self.suspending, Suspending::May | Suspending::Kept(_))
    }

    /// How many results the present evaluation has used so far.
    pub(crate) fn once_mark(&self) -> usize {
        match &self.suspending {
            Suspending::Kept(kept) => kept.used,
            Suspending::No | Suspending::Never | Suspending::May => 0,
        }
    }

    /// Forgets the results since the mark: what has used them is not evaluated again.
    pub(crate) fn settle(&mut self, mark: usize) {
        if let Suspending::Kept(kept) = &mut self.suspending {
            kept.results.drain(mark..kept.used);
            kept.used = mark;
        }
    }

    /// Runs a subquery of an expression, which cannot be suspended by itself.
    pub(crate) fn unsuspended<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outside = matches!(self.suspending, Suspending::No);
        if outside {
            self.suspending = Suspending::Never;
        }
        let result = work(self);
        if outside {
            self.suspending = Suspending::No;
        }
        result
    }
}

/// Evaluates something for an operator that can wait. `None` while a function waits: then
/// the operator returns that it is pending, with `kept` in its state, and calls again with
/// the same row.
pub(crate) fn resumable<T>(
    kept: &mut Option<Box<Suspension>>,
    context: &mut EvaluationContext<'_>,
    mut evaluate: impl FnMut(&mut EvaluationContext<'_>) -> Result<T>,
) -> Result<Option<T>> {
    if !matches!(context.suspending, Suspending::No) {
        // The operator is part of a subquery, and what is around that waits for it.
        return evaluate(context).map(Some);
    }
    loop {
        context.suspending = match kept.take() {
            None => Suspending::May,
            Some(mut suspension) => {
                // What is dropped here gives its wait up.
                context.check_canceled()?;
                match suspension.poll(context) {
                    Poll::Ready(over) => over?,
                    Poll::Pending => {
                        *kept = Some(suspension);
                        return Ok(None);
                    }
                }
                suspension.used = 0;
                Suspending::Kept(suspension)
            }
        };
        context.commons_before = context.commons.len();
        let result = evaluate(context);
        match (result, std::mem::take(&mut context.suspending)) {
            (Ok(value), _) => return Ok(Some(value)),
            (Err(_), Suspending::Kept(suspension)) if suspension.wait.is_some() => {
                // Tables of WITH that the evaluation has begun to read begin anew with it.
                forget_commons(context);
                let polled = matches!(&suspension.wait, Some(wait) if wait.is_polled());
                *kept = Some(suspension);
                if polled {
                    return Ok(None);
                }
            }
            (Err(error), _) => return Err(error),
        }
    }
}
