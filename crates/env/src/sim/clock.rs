//! True time, and what a node's clocks make of it.
//!
//! The runtime's timers are no finer than a millisecond, which is a long time for a
//! database in memory. So a millisecond of the runtime is a microsecond of the world.
//!
//! A node's monotonic clock runs at a rate of its own and never jumps; its wall clock
//! is that, beside an offset that may change at any moment. Timers of a node go by its
//! monotonic clock.

use std::time::Duration;

/// When simulated wall clocks start: 2026-01-01, in UTC.
const WALL_CLOCK_START: Duration = Duration::from_secs(1_767_225_600);
/// Of the runtime's time for each of the world's.
const SCALE: u32 = 1000;
/// Of the runtime's time: its timers are only reckoned on for two years.
const NAP: Duration = Duration::from_secs(365 * 24 * 3600);
/// Longer than any world lasts.
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

/// Waits for `duration` of true time, or less: the caller looks again.
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
    /// What the monotonic clock showed then.
    shown: u64,
    /// How much too fast it is, in millionths.
    drift: i64,
    /// How far the wall clock is ahead, in nanoseconds.
    ahead: i128,
}

impl Clock {
    /// What the monotonic clock shows at a true time, in nanoseconds.
    pub(crate) fn monotonic(&self, truth: u64) -> u64 {
        let passed = i128::from(truth.saturating_sub(self.changed));
        let passed = passed * (MILLION + i128::from(self.drift)) / MILLION;
        self.shown + u64::try_from(passed).unwrap_or(u64::MAX / 2)
    }

    /// What the wall clock shows at a true time, since the Unix epoch.
    pub(crate) fn wall(&self, truth: u64) -> Duration {
        let start = WALL_CLOCK_START.as_nanos() as i128;
        let nanos = start + i128::from(self.monotonic(truth)) + self.ahead;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// How long this node's `duration` truly is, and no less: whoever has slept so long finds
    /// that it has passed, or else would sleep for the rest, which is nothing, for ever.
    pub(crate) fn truly(&self, duration: Duration) -> Duration {
        if self.drift == 0 {
            return duration;
        }
        let nanos = i128::try_from(duration.min(LONGEST).as_nanos()).unwrap_or(i128::MAX);
        let rate = MILLION + i128::from(self.drift);
        let nanos = (nanos * MILLION + rate - 1) / rate;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Changes the rate at a true time, without a jump.
    pub(crate) fn set_drift(&mut self, truth: u64, millionths: i64) {
        self.shown = self.monotonic(truth);
        self.changed = truth;
        self.drift = millionths;
    }

    /// Sets the wall clock forward, or back.
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
