//! Tasks and threads: spawning, joining, and work that blocks.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::real;
#[cfg(feature = "sim")]
use crate::sim;
use crate::world::{World, current};

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// The task was aborted, or its runtime ended.
    Cancelled,
    /// The task panicked, with this message.
    Panicked(String),
    /// The task waits for an event that cannot happen any more. Only a simulated world
    /// detects it.
    Stuck,
}

impl JoinError {
    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown panic".to_owned());
        Self::Panicked(message)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => formatter.write_str("the task was cancelled"),
            Self::Panicked(message) => write!(formatter, "the task panicked: {message}"),
            Self::Stuck => {
                formatter.write_str("every task waits for another, and none for a timer")
            }
        }
    }
}

impl std::error::Error for JoinError {}

/// Handle of a running task: a future of its result. After dropping it the task continues
/// by itself.
#[derive(Debug)]
pub struct JoinHandle<T> {
    pub(crate) inner: real::task::JoinHandle<T>,
}

impl<T> JoinHandle<T> {
    /// Aborts the task at its next await. Does nothing when the task has ended.
    pub fn abort(&self) {
        self.inner.abort();
    }

    /// Whether the task has ended, with or without a result.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.get_mut().inner).poll(context)
    }
}

/// Runs `future` as a task of its own on the caller's executor. `name` is for debugging.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let inner = match current() {
        World::Real => real::task::spawn(name, future),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::task::spawn_local(context, name, future),
    };
    JoinHandle { inner }
}

/// Runs the future returned by `make_future` on a thread of its own, which is a small
/// executor: tasks it spawns run on that thread too, and end with it. The future may
/// block its thread.
///
/// # Panics
/// When the operating system refuses another thread.
pub fn spawn_dedicated<M, F>(name: &'static str, make_future: M) -> JoinHandle<F::Output>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let inner = match current() {
        World::Real => real::task::spawn_dedicated(name, make_future),
        #[cfg(feature = "sim")]
        World::Sim(context) => {
            sim::task::spawn_local(context, name, async move { make_future().await })
        }
    };
    JoinHandle { inner }
}

/// Runs `future` as a task of an executor of its own, which runs one task at a time on
/// one thread; tasks it spawns run there too, and end with it. Unlike those of
/// [`spawn_dedicated`], these tasks may do long work within [`block_in_place`] without
/// delaying each other, for which the executor may continue them on another thread.
///
/// # Panics
/// When the operating system refuses another thread.
pub fn spawn_executor<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let inner = match current() {
        World::Real => real::task::spawn_executor(name, future),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::task::spawn_local(context, name, future),
    };
    JoinHandle { inner }
}

/// Runs work that takes long and cannot be interrupted, a millisecond or more. On an
/// executor of [`spawn_executor`] the other tasks continue meanwhile, on another thread;
/// elsewhere, and in a simulated world, they wait. It costs some ten microseconds.
pub fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    match current() {
        World::Real => real::task::block_in_place(work),
        #[cfg(feature = "sim")]
        World::Sim(_) => work(),
    }
}

/// Runs work that takes long and cannot be interrupted on a thread of its own, from the
/// executor's pool, while the caller's task may do something else or give up: dropping the
/// handle does not end the work. Without an executor, and in a simulated world, where it
/// is a task, nothing else runs meanwhile.
pub fn spawn_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let inner = match current() {
        World::Real => real::task::spawn_blocking(work),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::task::spawn_local(context, name, async move { work() }),
    };
    let _ = name;
    JoinHandle { inner }
}

/// In the middle of long work: hands the executor's other tasks to another thread, and
/// returns once those that are ready have had their turn, or after a few milliseconds
/// at the latest. The caller then continues on its own thread beside them, until its
/// poll ends. Outside an executor of [`spawn_executor`], and in a simulated world, it
/// does nothing.
pub fn hand_over() {
    match current() {
        World::Real => real::task::hand_over(),
        #[cfg(feature = "sim")]
        World::Sim(_) => {}
    }
}

/// Calls `work` with every number below `parts`, each on a thread of its own, and returns
/// the results in order when all have ended. Blocks the calling thread: for long work in
/// memory, where no other task needs that thread. In a simulated world the caller's
/// thread runs one part after another.
///
/// # Panics
/// When a part panics, or the operating system refuses another thread.
pub fn scatter<T: Send>(parts: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    match current() {
        World::Real if parts > 1 => real::task::scatter(parts, work),
        _ => (0..parts).map(work).collect(),
    }
}

/// Yields the core to other threads that are ready to run on it, if there are any: on an
/// idle core it returns at once. For dedicated threads whose work is cheaper in larger
/// batches. In a simulated world, where threads are tasks, it does nothing.
pub fn give_way() {
    match current() {
        World::Real => real::task::give_way(),
        #[cfg(feature = "sim")]
        World::Sim(_) => {}
    }
}

/// Lets the executor's other tasks run first.
#[expect(clippy::disallowed_methods, reason = "this is the environment")]
pub async fn yield_now() {
    tokio::task::yield_now().await;
}

/// Called by a poll that returns pending only to let other tasks run: wakes the task
/// again once the executor has run the tasks that are ready and has looked at its
/// sockets and timers. A task that merely wakes itself keeps the executor's queue from
/// being empty, and an executor of busy tasks looks at its sockets once in some sixty
/// polls. In a simulated world the task is woken at once.
#[expect(clippy::disallowed_methods, reason = "this is the environment")]
pub fn wake_after_others(context: &mut Context<'_>) {
    match current() {
        World::Real => {
            // Its first poll leaves the waker with the executor.
            let mut yielding = std::pin::pin!(tokio::task::yield_now());
            let _ = yielding.as_mut().poll(context);
        }
        #[cfg(feature = "sim")]
        World::Sim(_) => context.waker().wake_by_ref(),
    }
}
