//! Time: an instant for durations, a wall clock for people.

use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use crate::real;
use crate::world::{World, current};

/// A point on the running task's monotonic clock. Means nothing on another
/// machine or after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Since the clock's origin.
    since_origin: Duration,
}

impl Instant {
    pub(crate) const fn since_origin(since_origin: Duration) -> Self {
        Self { since_origin }
    }

    /// How long ago this was; zero for an instant to come.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        now().duration_since(*self)
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.since_origin.saturating_sub(earlier.since_origin)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates, so that an endless timeout may be added.
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

/// The monotonic clock.
#[must_use]
pub fn now() -> Instant {
    match current() {
        World::Real => real::clock::now(),
        #[cfg(feature = "sim")]
        World::Sim(context) => context.now(),
    }
}

/// The time of day, since the Unix epoch. May jump, backwards too: for people and
/// for SQL's `now()`, never for ordering.
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

/// Says that what the running step does takes `cost` of a processor's time: for
/// simulations in which work takes time. Elsewhere it takes what it takes, and
/// this does nothing.
#[inline]
pub fn spend(cost: Duration) {
    #[cfg(feature = "sim")]
    if let World::Sim(context) = current() {
        context.spend(cost);
    }
    #[cfg(not(feature = "sim"))]
    let _ = cost;
}

/// What is done on a processor, as far as it has a price in simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A client of ours asks a server for something, and looks at the answer.
    Ask,
    /// A statement's text is read, bound and planned.
    Plan,
    /// A statement is run, beside what the engine does for it, and its rows are encoded.
    Execute,
    /// A transaction is begun, and ended.
    Transaction,
    /// A row is looked for by its key, or locked; a range is begun.
    Read,
    /// A range comes to its next entry.
    Row,
    /// A row is inserted, changed or deleted.
    Write,
}

/// Says that the running step does this so many times, like [`spend`] with whatever it
/// costs on this machine.
#[inline]
pub fn work(work: Work, times: usize) {
    #[cfg(feature = "sim")]
    if let World::Sim(context) = current() {
        context.work(work, times);
    }
    #[cfg(not(feature = "sim"))]
    let _ = (work, times);
}

/// Waits until `deadline`; not at all when it has passed.
pub async fn sleep_until(deadline: Instant) {
    sleep(deadline.duration_since(now())).await;
}

/// The time given to a future ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the time allowed has run out")
    }
}

impl std::error::Error for Elapsed {}

/// Waits for `future`, at most for `duration`; the future is polled first, and
/// dropped when the time runs out.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        () = sleep(duration) => Err(Elapsed),
    }
}

/// Milliseconds of the monotonic clock as it was at its last tick, a few milliseconds ago
/// at most; reading it costs a fraction of [`now`]. For work that looks often whether it
/// has taken long. In a simulated world time stands still between two awaits.
#[must_use]
pub fn coarse_milliseconds() -> u64 {
    match current() {
        World::Real => real::clock::coarse_milliseconds(),
        #[cfg(feature = "sim")]
        World::Sim(context) => context.now().since_origin.as_millis() as u64,
    }
}
