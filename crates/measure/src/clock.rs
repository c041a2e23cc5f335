//! Clocks: a stopwatch for real time, and CPU time of threads and of the process.
#![expect(
    clippy::disallowed_methods,
    reason = "measurements of the real machine, not of a simulated one"
)]

use std::time::{Duration, Instant};

/// CPU time of the calling thread so far.
#[must_use]
pub fn processor_time() -> Duration {
    time_of(rustix::time::ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process so far.
#[must_use]
pub fn process_time() -> Duration {
    time_of(rustix::time::ClockId::ProcessCPUTime)
}

fn time_of(clock: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// A stopwatch that runs from its creation.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts a new stopwatch.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
