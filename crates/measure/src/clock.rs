//! Time that passed, and time that threads had.
#![expect(
    clippy::disallowed_methods,
    reason = "measurements of the real machine, not of a simulated one"
)]

use std::time::{Duration, Instant};

/// Processor time of the calling thread so far.
#[must_use]
pub fn processor_time() -> Duration {
    time_of(rustix::time::ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process so far.
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

/// Runs from when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What has passed.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
