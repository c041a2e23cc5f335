//! When the transactions of an open loop should begin.
//!
//! ```text
//!   rate 1000/s    0 ms   1 ms   2 ms   3 ms   4 ms …
//!   taken by       c1     c2     c1     (all busy until 5 ms)
//!                                       c1 begins the fourth at 5 ms, 2 ms late
//! ```
//!
//! Evenly, not at random: a latency that grows then shows that something was slow, not
//! that many came at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coeval_env::{self as env, Instant};

/// Below this a sleep may end too late.
const GRAIN: Duration = Duration::from_millis(2);
/// A client looks so often whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// A rate, and how many transactions have been taken.
#[derive(Debug)]
pub(super) struct Arrivals {
    rate: f64,
    exact: bool,
    began: OnceLock<Instant>,
    taken: AtomicU64,
}

impl Arrivals {
    /// So many a second, above 0.
    pub(super) fn new(rate: f64, exact: bool) -> Self {
        Self {
            rate: rate.max(f64::MIN_POSITIVE),
            exact,
            began: OnceLock::new(),
            taken: AtomicU64::new(0),
        }
    }

    /// The first arrives now.
    pub(super) fn begin(&self) {
        self.began.get_or_init(env::now);
    }

    /// Waits for the next one that nobody has taken. When it should begin; `None`
    /// when `over` before that.
    pub(super) async fn next(&self, over: impl Fn() -> bool) -> Option<Instant> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        let after = Duration::try_from_secs_f64(number as f64 / self.rate);
        let began = *self.began.get_or_init(env::now);
        let at = began + after.unwrap_or(Duration::from_secs(1 << 31));
        loop {
            let now = env::now();
            if over() {
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

    /// How many should have begun within a time and have not.
    pub(super) fn unserved(&self, elapsed: Duration) -> u64 {
        let due = (elapsed.as_secs_f64() * self.rate) as u64;
        due.saturating_sub(self.taken.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn they_come_at_their_rate_and_are_counted() {
        let arrivals = Arrivals::new(10_000.0, true);
        arrivals.begin();
        let first = arrivals.next(|| false).await.unwrap();
        for _ in 0..9 {
            arrivals.next(|| false).await.unwrap();
        }
        let eleventh = arrivals.next(|| false).await.unwrap();
        assert_eq!(eleventh.duration_since(first), Duration::from_millis(1));
        assert_eq!(arrivals.unserved(Duration::from_millis(2)), 9);
        assert_eq!(arrivals.next(|| true).await, None);
    }
}
