//! Clocks: a monotonic clock for durations, a wall clock for timestamps that users see,
//! and timers.

use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use crate::real;
use crate::world::{World, current};

/// A point on the running task's monotonic clock. An instant has no meaning on another
/// machine or after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Time since the clock's origin.
    since_origin: Duration,
}

impl Instant {
    pub(crate) const fn since_origin(since_origin: Duration) -> Self {
        Self { since_origin }
    }

    /// Time that has passed since this instant; zero for an instant in the future.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        now().duration_since(*self)
    }

    /// Time from `earlier` to this instant; zero when this is not later.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.since_origin.saturating_sub(earlier.since_origin)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates, so that the caller may add an endless timeout.
    fn add(self, duration: Duration) -> Self {
        Self::since_origin(self.since_origin.saturating_add(duration))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at the clock's origin.
    fn sub(self, duration: Duration) -> Self {
        Self::since_origin(self.since_origin.saturating_sub(duration))
    }
}

/// Reads the monotonic clock.
#[must_use]
pub fn now() -> Instant {
    match current() {
        World::Real => real::clock::now(),
        #[cfg(feature = "sim")]
        World::Sim(context) => context.now(),
    }
}

/// The time of day, since the Unix epoch. It may jump, backwards too: callers use it for
/// display and for SQL's `now()`, never for ordering.
#[must_use]
pub fn wall_clock() -> Duration {
    match current() {
        World::Real => real::clock::wall_clock(),
        #[cfg(feature = "sim")]
        World::Sim(context) => context.wall_clock(),
    }
}

/// Waits for `duration`.
pub async fn sleep(duration: Duration) {
    match current() {
        World::Real => real::clock::sleep(duration).await,
        #[cfg(feature = "sim")]
        World::Sim(context) => context.sleep(duration).await,
    }
}

/// Charges `cost` of processor time to the running step, in simulations where work takes
/// time. In the real environment it does nothing.
#[inline]
pub fn spend(cost: Duration) {
    #[cfg(feature = "sim")]
    if let World::Sim(context) = current() {
        context.spend(cost);
    }
    #[cfg(not(feature = "sim"))]
    let _ = cost;
}

/// Kinds of work to which a simulation assigns a processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A simulated client sends a request, and processes the answer.
    Ask,
    /// The server parses, binds and plans a statement.
    Plan,
    /// The server executes a statement, apart from the storage engine's work, and encodes
    /// its rows.
    Execute,
    /// The engine begins and ends a transaction.
    Transaction,
    /// The engine looks a row up by its key, or locks it, or begins a range scan.
    Read,
    /// A range scan advances to its next entry.
    Row,
    /// The engine inserts, changes or deletes a row.
    Write,
}

/// Charges the processor time of `times` units of this work to the running step, like
/// [`spend`], at the machine's simulated prices.
#[inline]
pub fn work(work: Work, times: usize) {
    #[cfg(feature = "sim")]
    if let World::Sim(context) = current() {
        context.work(work, times);
    }
    #[cfg(not(feature = "sim"))]
    let _ = (work, times);
}

/// Waits until `deadline`; returns at once when it has passed.
pub async fn sleep_until(deadline: Instant) {
    sleep(deadline.duration_since(now())).await;
}

/// Error: the time limit of a future was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the time allowed has run out")
    }
}

impl std::error::Error for Elapsed {}

/// Waits for `future`, at most for `duration`; polls the future before the timer, and
/// drops it when the time runs out.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        () = sleep(duration) => Err(Elapsed),
    }
}

/// Time slice in milliseconds that a task computes before it lets others run. A task
/// that has just become ready waits for one slice of each busy one of its executor, so a
/// slice is short: no longer than a tick of the clock that measures it, four
/// milliseconds on most machines.
const SLICE: u64 = 2;

/// The same in a simulated world, where no time passes while a task computes: only a
/// task that has waited is over it.
#[cfg(feature = "sim")]
const SIMULATED_SLICE: u64 = 8;

/// Whether a task that began to compute at this time of [`coarse_milliseconds`] has used
/// up its time slice.
#[inline]
#[must_use]
pub fn slice_is_over(began: u64) -> bool {
    match current() {
        World::Real => real::clock::coarse_milliseconds().saturating_sub(began) > SLICE,
        #[cfg(feature = "sim")]
        World::Sim(_) => coarse_milliseconds().saturating_sub(began) > SIMULATED_SLICE,
    }
}

/// Milliseconds of the monotonic clock at its last tick, at most a few milliseconds ago;
/// reading it costs a fraction of [`now`]. For work that often checks whether it has
/// taken long. In a simulated world the time does not change between two awaits.
#[must_use]
pub fn coarse_milliseconds() -> u64 {
    match current() {
        World::Real => real::clock::coarse_milliseconds(),
        #[cfg(feature = "sim")]
        World::Sim(context) => context.now().since_origin.as_millis() as u64,
    }
}
