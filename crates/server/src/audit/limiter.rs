//! A limit on the audit log's lines about failed logins: a token bucket each for those that
//! named a role and those that did not, so that garbage does not hide guessed passwords.
//!
//! ```text
//!   failures in a second   1 … 100   101 … 159,000         1 s later: 159,001
//!   lines                  100       none, counted         "158,900 failed logins without
//!                                                           a line", and its own
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coeval_env::Instant;

/// Lines that may be logged at once.
const BURST: u32 = 100;
/// Time after which one more line may be logged.
const INTERVAL: Duration = Duration::from_millis(100);

/// What may be logged of the failures of one kind.
#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// When the last token was added; `None` before the first failure.
    filled: Option<Instant>,
    suppressed: u64,
}

impl Bucket {
    fn new() -> Mutex<Self> {
        Mutex::new(Self {
            tokens: BURST,
            filled: None,
            suppressed: 0,
        })
    }

    fn fill(&mut self, now: Instant) {
        let filled = *self.filled.get_or_insert(now);
        let passed = now.duration_since(filled);
        let tokens = passed.as_millis() / INTERVAL.as_millis();
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(tokens).min(BURST);
        if tokens > 0 {
            self.filled = Some(now);
        }
    }

    /// How many failures before this one had no line; `None` if this one has none either.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        self.fill(now);
        if self.tokens == 0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Decides which failed logins the audit log has lines about.
#[derive(Debug)]
pub(super) struct Limiter {
    nameless: Mutex<Bucket>,
    named: Mutex<Bucket>,
}

impl Limiter {
    pub(super) fn new() -> Self {
        Self {
            nameless: Bucket::new(),
            named: Bucket::new(),
        }
    }

    /// How many failures of its kind had no line since the last one that had; `None` if this
    /// one has none either.
    pub(super) fn admit(&self, names_a_role: bool, now: Instant) -> Option<u64> {
        let bucket = if names_a_role {
            &self.named
        } else {
            &self.nameless
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.admit(now)
    }

    /// How many failures of both kinds have had no line so far. They count as reported then.
    pub(super) fn take_suppressed(&self) -> u64 {
        let taken = [&self.nameless, &self.named].map(|bucket| {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut bucket.suppressed)
        });
        taken.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_few_lines_and_none_is_uncounted() {
        let limiter = Limiter::new();
        let start = coeval_env::now();
        let mut lines = 0;
        let mut counted = 0;
        for number in 0..10_000_u64 {
            // A thousand in a second, for ten seconds.
            let now = start + Duration::from_millis(number);
            if let Some(before) = limiter.admit(false, now) {
                lines += 1;
                counted += before;
            }
        }
        assert!((190..=200).contains(&lines), "{lines}");
        counted += limiter.take_suppressed();
        assert_eq!(lines + counted, 10_000);
        assert_eq!(limiter.take_suppressed(), 0);
        // A failed password is seen beside the flood.
        assert_eq!(limiter.admit(true, start), Some(0));
    }

    #[test]
    fn an_idle_limiter_admits_a_burst_and_no_more() {
        let limiter = Limiter::new();
        let start = coeval_env::now();
        assert_eq!(limiter.admit(true, start), Some(0));
        let later = start + Duration::from_secs(3600);
        let admitted = (0..1000).filter(|_| limiter.admit(true, later).is_some());
        assert_eq!(admitted.count(), BURST as usize);
    }
}
