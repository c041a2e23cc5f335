//! Tasks, and threads that are small executors of their own.

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
    /// It was aborted, or its runtime ended.
    Cancelled,
    /// It panicked, with this message.
    Panicked(String),
    /// It waits for something that cannot happen any more. Only a simulated world
    /// can know.
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

/// A running task: a future of its result. Dropping it lets the task run on by
/// itself.
#[derive(Debug)]
pub struct JoinHandle<T> {
    pub(crate) inner: real::task::JoinHandle<T>,
}

impl<T> JoinHandle<T> {
    /// Ends the task at its next await. Does nothing when it has ended.
    pub fn abort(&self) {
        self.inner.abort();
    }

    /// Whether it has ended, however it ended.
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

/// Runs `future` as a task of its own on the caller's executor. `name` is for
/// people who debug.
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

/// Runs the future that `make_future` makes on a thread of its own, which is a
/// small executor: tasks it spawns run on that thread too, and end with it. The
/// future may block its thread.
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
/// [`spawn_dedicated`] they may do long work within [`block_in_place`] without keeping
/// each other waiting, for which they may have to be continued on another thread.
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

/// Does work that takes long and cannot stop halfway, a millisecond or more. On an
/// executor of [`spawn_executor`] the other tasks go on meanwhile, on another thread;
/// elsewhere, and in a simulated world, they wait. It costs some ten microseconds.
pub fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    match current() {
        World::Real => real::task::block_in_place(work),
        #[cfg(feature = "sim")]
        World::Sim(_) => work(),
    }
}

/// Calls `work` with every number below `parts`, each on a thread of its own, and
/// returns the results in order when all have ended. Blocks the calling thread: for
/// long work in memory, where nobody else needs that thread. In a simulated world
/// one part follows another on the caller's.
///
/// # Panics
/// When a part panics, or the operating system refuses another thread.
pub fn scatter<T: Send>(parts: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    match current() {
        World::Real if parts > 1 => real::task::scatter(parts, work),
        _ => (0..parts).map(work).collect(),
    }
}

/// Lets other threads that are ready to run on this core go first, if there are any:
/// on an idle core it comes back at once. For dedicated threads whose work gets
/// cheaper by the piece when more of it has gathered. In a simulated world, where
/// threads are tasks, it does nothing.
pub fn give_way() {
    match current() {
        World::Real => real::task::give_way(),
        #[cfg(feature = "sim")]
        World::Sim(_) => {}
    }
}

/// Lets the executor's other tasks run first.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub async fn yield_now() {
    tokio::task::yield_now().await;
}
