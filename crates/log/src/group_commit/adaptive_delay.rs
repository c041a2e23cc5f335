//! The adaptive delay's experiment: measures whether waiting or not waiting commits more per
//! second, by trying both.
//!
//! ```text
//!   windows   1        2           3        4        5        6        1 …
//!             chosen   the other   chosen   chosen   chosen   chosen
//!             └──── compared ────┘
//! ```
//!
//! In one window of six the flusher tries the other way. The commits per second of that
//! window are compared with the windows before and after it, so that a growing load favours
//! neither; the differences are smoothed, and the choice changes once the other way is
//! clearly better. Waiting is chosen only if it yields more commits. Under a load that
//! arrives at a fixed rate both ways commit the same: then waiting is not chosen, and groups
//! wait in one window of six.
//!
//! With few commits there is nothing to compare, and the flusher does not wait.

use std::time::Duration;

use coeval_env::Instant;

/// A window ends when it has lasted this long and has had this many commits.
const WINDOW: Duration = Duration::from_millis(50);
const WINDOW_COMMITS: u64 = 16;

/// A window that has not ended after this long means that there is next to no load.
const SILENCE: Duration = Duration::from_millis(500);

/// Windows in a round, and the index of the window that tries the other way.
const ROUND: usize = 6;
const OTHER: usize = 1;

/// Waiting is chosen when it gains more than the first, and given up when it gains less than
/// the second, in thousandths of the commits per second.
const BEGIN_AT: i64 = 30;
const END_AT: i64 = 10;

/// Limit of a single comparison, in thousandths, so that a pause in the load does not count
/// as an advantage of either way.
const MAX_GAIN: i64 = 300;

/// Divisor of the smoothing: each new comparison changes the smoothed gain by this fraction
/// of the difference.
const SMOOTHING: i64 = 8;

#[derive(Debug, Default)]
pub(super) struct AdaptiveDelay {
    /// Whether waiting is the chosen way.
    waits: bool,
    /// The current window: its index in the round, when it began, and after how many commits.
    window: usize,
    began: Option<(Instant, u64)>,
    /// Commits per second in the finished windows of this round.
    rates: [u64; ROUND],
    /// Smoothed gain of waiting, in thousandths.
    gain: i64,
    /// Mean time between two commits in the last finished window.
    interval: Option<Duration>,
}

impl AdaptiveDelay {
    /// Whether the group that is about to be written may wait. `commits` have been made in
    /// all.
    pub(super) fn turn(&mut self, now: Instant, commits: u64) -> bool {
        let (began, before) = *self.began.get_or_insert((now, commits));
        let (length, made) = (now - began, commits.saturating_sub(before));
        if length >= WINDOW && made >= WINDOW_COMMITS && length < SILENCE {
            self.window_is_over(length, made);
            self.began = Some((now, commits));
        } else if length >= SILENCE {
            *self = Self {
                began: Some((now, commits)),
                ..Self::default()
            };
        }
        self.waits != (self.window == OTHER)
    }

    fn window_is_over(&mut self, length: Duration, made: u64) {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX).max(1);
        self.rates[self.window] = made.saturating_mul(1_000_000) / micros;
        self.interval = Some(Duration::from_micros(micros / made.max(1)));
        if self.window == OTHER + 1 {
            self.compare();
        }
        self.window = (self.window + 1) % ROUND;
    }

    fn compare(&mut self) {
        let rate = |window: usize| i64::try_from(self.rates[window]).unwrap_or(i64::MAX / 4000);
        let (other, chosen) = (rate(OTHER), (rate(OTHER - 1) + rate(OTHER + 1)) / 2);
        let (waiting, at_once) = match self.waits {
            true => (chosen, other),
            false => (other, chosen),
        };
        let gain = (waiting - at_once) * 1000 / at_once.max(1);
        self.gain += (gain.clamp(-MAX_GAIN, MAX_GAIN) - self.gain) / SMOOTHING;
        self.waits = match self.waits {
            true => self.gain >= END_AT,
            false => self.gain > BEGIN_AT,
        };
    }

    /// Number of commits expected within `time`.
    pub(super) fn expected_within(&self, time: Duration) -> u64 {
        let expected = |interval: Duration| time.as_nanos() / interval.as_nanos().max(1);
        let expected = self.interval.map_or(0, expected);
        u64::try_from(expected).unwrap_or(u64::MAX)
    }

    #[cfg(test)]
    pub(super) fn waits(&self) -> bool {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated load with these numbers of commits per ten milliseconds, without and with
    /// waiting.
    struct Load {
        now: Instant,
        commits: u64,
        adaptive_delay: AdaptiveDelay,
    }

    impl Load {
        fn new() -> Self {
            Self {
                now: coeval_env::now(),
                commits: 0,
                adaptive_delay: AdaptiveDelay::default(),
            }
        }

        /// Number of groups, of a thousand, that waited.
        fn run(&mut self, at_once: u64, waiting: u64) -> usize {
            let group = |load: &mut Self| {
                let waits = load.adaptive_delay.turn(load.now, load.commits);
                load.now += Duration::from_millis(10);
                load.commits += match waits {
                    true => waiting,
                    false => at_once,
                };
                waits
            };
            (0..1000).filter(|_| group(self)).count()
        }
    }

    #[test]
    fn what_gets_more_done_is_chosen() {
        let mut load = Load::new();
        let waited = load.run(40, 50);
        assert!(
            (700..850).contains(&waited),
            "{waited}: five windows of six, soon"
        );
        // The same program on another machine: its cores are idle, and waiting only delays.
        load.run(50, 40);
        let waited = load.run(50, 40);
        assert!((150..180).contains(&waited), "{waited}: one window of six");
        load.run(40, 50);
        assert!(load.adaptive_delay.waits());
    }

    #[test]
    fn nobody_waits_for_nothing() {
        let mut load = Load::new();
        load.run(40, 40);
        assert!(!load.adaptive_delay.waits(), "a load that has its own pace");
        load.run(40, 41);
        assert!(!load.adaptive_delay.waits(), "a gain that is none");
    }

    #[test]
    fn a_load_that_grows_favours_neither() {
        let mut load = Load::new();
        for rate in 10..40 {
            load.run(10 * rate, 10 * rate);
            assert!(!load.adaptive_delay.waits());
        }
    }

    #[test]
    fn without_load_nobody_waits() {
        let mut load = Load::new();
        load.run(40, 50);
        assert!(load.adaptive_delay.waits());
        load.now += Duration::from_secs(1);
        load.run(0, 0);
        assert!(!load.adaptive_delay.waits());
        let expected = load.adaptive_delay.expected_within(Duration::from_secs(1));
        assert_eq!(expected, 0, "it is not known");
    }
}
