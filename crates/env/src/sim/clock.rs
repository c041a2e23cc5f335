//! Simulated clocks: true time of a world, and each node's drifting monotonic and wall
//! clocks.
//!
//! The runtime's timers have a resolution of a millisecond, too coarse for a main-memory
//! database. So a millisecond of the runtime is a microsecond of the world.
//!
//! A node's monotonic clock runs at its own rate and never jumps; its wall clock is the
//! monotonic clock plus an offset that a test may change at any moment. A node's timers
//! follow its monotonic clock.

use std::time::Duration;

/// When simulated wall clocks start: 2026-01-01, in UTC.
const WALL_CLOCK_START: Duration = Duration::from_secs(1_767_225_600);
/// Units of the runtime's time per unit of the world's time.
const SCALE: u32 = 1000;
/// Longest single sleep, in the runtime's time: its timers support only about two years.
const NAP: Duration = Duration::from_secs(365 * 24 * 3600);
/// A duration longer than any world lasts.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
const MILLION: i128 = 1_000_000;

/// Waits for `duration` of true time.
pub(crate) async fn sleep(duration: Duration) {
    let until = tokio::time::Instant::now() + duration.min(LONGEST) * SCALE;
    loop {
        let left = until - tokio::time::Instant::now();
        tokio::time::sleep(left.min(NAP)).await;
        if left <= NAP {
            return;
        }
    }
}

/// A timer of at most `duration` of true time; the caller checks the time again when it ends.
pub(crate) fn nap(duration: Duration) -> tokio::time::Sleep {
    tokio::time::sleep((duration.min(LONGEST) * SCALE).min(NAP))
}

/// True time since `started`, in nanoseconds.
pub(super) fn since(started: tokio::time::Instant) -> u64 {
    let elapsed = tokio::time::Instant::now() - started;
    let nanos = elapsed.as_nanos() / u128::from(SCALE);
    u64::try_from(nanos).expect("a world lasts less than centuries")
}

/// The clocks of one node.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// True time when the rate was last changed, in nanoseconds.
    changed: u64,
    /// Reading of the monotonic clock at that time, in nanoseconds.
    shown: u64,
    /// Rate error of the clock, in millionths; positive when it is too fast.
    drift: i64,
    /// Offset of the wall clock, in nanoseconds; positive when it is ahead.
    ahead: i128,
}

impl Clock {
    /// Reading of the monotonic clock at a true time, in nanoseconds.
    pub(crate) fn monotonic(&self, truth: u64) -> u64 {
        let passed = i128::from(truth.saturating_sub(self.changed));
        let passed = passed * (MILLION + i128::from(self.drift)) / MILLION;
        self.shown + u64::try_from(passed).unwrap_or(u64::MAX / 2)
    }

    /// Reading of the wall clock at a true time, since the Unix epoch.
    pub(crate) fn wall(&self, truth: u64) -> Duration {
        let start = WALL_CLOCK_START.as_nanos() as i128;
        let nanos = start + i128::from(self.monotonic(truth)) + self.ahead;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// The true duration of this node's `duration`, rounded up: a task that has slept this
    /// long must find that the time has passed, or it would sleep for the rest, which is
    /// zero, for ever.
    pub(crate) fn truly(&self, duration: Duration) -> Duration {
        if self.drift == 0 {
            return duration;
        }
        let nanos = i128::try_from(duration.min(LONGEST).as_nanos()).unwrap_or(i128::MAX);
        let rate = MILLION + i128::from(self.drift);
        let nanos = (nanos * MILLION + rate - 1) / rate;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Changes the rate at a true time, without a jump of the reading.
    pub(crate) fn set_drift(&mut self, truth: u64, millionths: i64) {
        self.shown = self.monotonic(truth);
        self.changed = truth;
        self.drift = millionths;
    }

    /// Moves the wall clock forward, or back if negative.
    pub(crate) fn jump(&mut self, nanos: i128) {
        self.ahead += nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_slept_long_enough_sees_that() {
        for drift in [-100_000, -7, -1, 1, 3, 3895, 100_000] {
            let mut clock = Clock::default();
            clock.set_drift(12_345, drift);
            for began in [12_345, 12_346, 99_999, 1_000_000_007] {
                for nanos in [1, 2, 255, 256, 257, 20_000_000, 3_600_000_000_001] {
                    let truly = clock.truly(Duration::from_nanos(nanos));
                    let ended = began + u64::try_from(truly.as_nanos()).unwrap();
                    let passed = clock.monotonic(ended) - clock.monotonic(began);
                    assert!(passed >= nanos, "{drift} {began} {nanos}: {passed}");
                }
            }
        }
    }
}
