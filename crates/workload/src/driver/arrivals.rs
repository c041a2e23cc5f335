//! The arrival schedule of an open loop: it decides when each transaction should begin.
//!
//! ```text
//!   rate 1000/s    0 ms   1 ms   2 ms   3 ms   4 ms …
//!   taken by       c1     c2     c1     (all busy until 5 ms)
//!                                       c1 begins the fourth at 5 ms, 2 ms late
//! ```
//!
//! Arrivals are evenly spaced, not random: a growing latency then shows that the server
//! was slow, not that many requests arrived at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coeval_env::{self as env, Instant};

/// Remaining wait below which a sleep may end too late.
const GRAIN: Duration = Duration::from_millis(2);
/// Unserved arrivals are reported one by one up to this number, and in groups beyond it.
const SHOWN: u64 = 1 << 20;
/// Highest arrival rate, per second: the clock has a resolution of a nanosecond.
pub const MOST: f64 = 1e9;
/// A duration longer than any run that the clock can still represent.
const NEVER: Duration = Duration::from_secs(1 << 31);
/// Interval at which a waiting client polls whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// The arrival rate of the open loop, and the number of transactions taken so far.
#[derive(Debug)]
pub(super) struct Arrivals {
    rate: f64,
    exact: bool,
    began: OnceLock<Instant>,
    taken: AtomicU64,
}

impl Arrivals {
    /// A schedule of `rate` arrivals per second, above 0 and up to [`MOST`].
    pub(super) fn new(rate: f64, exact: bool) -> Self {
        Self {
            rate: rate.clamp(f64::MIN_POSITIVE, MOST),
            exact,
            began: OnceLock::new(),
            taken: AtomicU64::new(0),
        }
    }

    /// Starts the schedule: the first transaction arrives now.
    pub(super) fn begin(&self) {
        self.began.get_or_init(env::now);
    }

    /// The time at which transaction `number` should begin.
    fn at(&self, number: u64) -> Instant {
        let after = Duration::try_from_secs_f64(number as f64 / self.rate);
        let began = *self.began.get_or_init(env::now);
        began + after.unwrap_or(NEVER).min(NEVER)
    }

    /// Takes the next arrival and waits for it. Returns the time at which it should
    /// begin; `None` if the run ends no later than that time.
    pub(super) async fn next(&self, end: impl Fn() -> Option<Instant>) -> Option<Instant> {
        let at = self.at(self.taken.fetch_add(1, Ordering::Relaxed));
        loop {
            let now = env::now();
            // A transaction that was due before the end still begins, even if its client
            // woke up too late.
            if end().is_some_and(|end| at >= end) {
                return None;
            }
            if now >= at {
                return Some(at);
            }
            let left = at.duration_since(now);
            if !self.exact {
                env::sleep(left.min(LOOK)).await;
            } else if left > GRAIN {
                env::sleep((left - GRAIN).min(LOOK)).await;
            } else {
                env::yield_now().await;
            }
        }
    }

    /// Calls `show` for the arrivals of a period that no client took, with their number
    /// and how long they had waited at its end. Very many arrivals are grouped with their
    /// neighbours.
    pub(super) fn unserved(
        &self,
        from: Instant,
        until: Instant,
        mut show: impl FnMut(u64, Duration),
    ) {
        let began = *self.began.get_or_init(env::now);
        let due_at = |at: Instant| {
            let due = at.duration_since(began).as_secs_f64() * self.rate;
            // The first transaction is due at once.
            let mut due = due.ceil() as u64;
            while due > 0 && self.at(due - 1) >= at {
                due -= 1;
            }
            while due < u64::MAX && self.at(due) < at {
                due += 1;
            }
            due
        };
        let due = due_at(until);
        let mut number = self.taken.load(Ordering::Relaxed).max(due_at(from));
        let together = due.saturating_sub(number).div_ceil(SHOWN).max(1);
        while number < due {
            let count = together.min(due - number);
            show(count, until.duration_since(self.at(number)));
            number += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn more_than_a_clock_can_tell_are_counted() {
        for rate in [MOST, 1e30, f64::INFINITY] {
            let arrivals = Arrivals::new(rate, true);
            arrivals.begin();
            let first = arrivals.next(|| None).await.unwrap();
            let mut count = 0;
            arrivals.unserved(first, first + Duration::from_secs(1), |some, _| {
                count += some;
            });
            assert_eq!(count, 999_999_999, "{rate}");
        }
    }

    #[tokio::test]
    async fn the_second_may_never_come() {
        for rate in [1e-9, 1e-19, 1e-300, f64::MIN_POSITIVE] {
            let arrivals = Arrivals::new(rate, true);
            arrivals.begin();
            let first = arrivals.next(|| None).await.unwrap();
            let after = Duration::from_secs(60);
            assert_eq!(arrivals.next(|| Some(first + after)).await, None, "{rate}");
            let mut count = 0;
            arrivals.unserved(first, first + after, |some, _| count += some);
            assert_eq!(count, 0, "{rate}");
        }
    }

    #[tokio::test]
    async fn they_come_at_their_rate_and_are_counted() {
        let arrivals = Arrivals::new(10_000.0, true);
        arrivals.begin();
        let first = arrivals.next(|| None).await.unwrap();
        for _ in 0..9 {
            arrivals.next(|| None).await.unwrap();
        }
        let eleventh = arrivals.next(|| None).await.unwrap();
        assert_eq!(eleventh.duration_since(first), Duration::from_millis(1));
        let waits = |from, until| {
            let mut waits = Vec::new();
            arrivals.unserved(first + from, first + until, |count, wait| {
                assert_eq!(count, 1);
                waits.push(wait.as_micros());
            });
            waits
        };
        let micros = Duration::from_micros;
        assert_eq!(waits(micros(0), micros(1350)), [250, 150, 50]);
        assert_eq!(waits(micros(1250), micros(1350)), [50]);
        assert_eq!(waits(micros(0), micros(900)), []);
        // A transaction that was due before the end still begins; a later one does not.
        let end = first + micros(1150);
        assert!(arrivals.next(|| Some(end)).await.is_some());
        assert_eq!(arrivals.next(|| Some(end)).await, None);
    }
}
