//! Exponential backoff with jitter between attempts to connect: the wait doubles each time,
//! up to a limit, and a random part of at most its half is left out, so that nodes which
//! lost each other at the same time do not reconnect at the same time.

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            next: least,
        }
    }

    /// Resets the wait, after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.least;
    }

    /// Returns the wait before the next attempt, and doubles the limit of the wait after
    /// it.
    pub(crate) fn wait(&mut self, random: u64) -> Duration {
        let longest = self.next;
        self.next = longest.saturating_mul(2).min(self.most);
        let half = longest / 2;
        half + half.mul_f64(random as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_start_anew() {
        let milliseconds = Duration::from_millis;
        let mut backoff = Backoff::new(milliseconds(100), milliseconds(450));
        for longest in [100, 200, 400, 450, 450] {
            assert_eq!(backoff.wait(u64::MAX), milliseconds(longest));
        }
        assert_eq!(backoff.wait(0), milliseconds(225));
        backoff.reset();
        let wait = backoff.wait(u64::MAX / 2);
        assert!(
            wait > milliseconds(70) && wait < milliseconds(80),
            "{wait:?}"
        );
    }
}
