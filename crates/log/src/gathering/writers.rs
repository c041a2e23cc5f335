//! Transactions that have written something and are about to commit.
//!
//! ```text
//!   began 12, ended 9: three are about to. The log's thread awaits two of them:
//!   a commit      awaited 2 → 1
//!   a commit      awaited 1 → 0, and wakes it
//! ```
//!
//! Nothing relies on these numbers but how long a group gathers: they may be wrong for a
//! moment, and somebody who is counted may never commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coeval_memory::counters::{Counter, Sharded};
use tokio::sync::Notify;

/// How many there are, and the log's thread, which may wait for some of them.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    counts: Sharded<OfThread>,
    /// For how many commits it waits; 0 when it does not.
    awaited: AtomicU64,
    came: Notify,
}

#[derive(Debug, Default)]
struct OfThread {
    began: Counter,
    ended: Counter,
}

impl Writers {
    /// A transaction has written something, or locked what it may write.
    #[inline]
    pub(crate) fn begins(&self) {
        self.counts.mine().began.add(1);
    }

    /// It commits, or does not.
    #[inline]
    pub(crate) fn ends(&self) {
        self.counts.mine().ended.add(1);
    }

    /// How many have begun and not ended.
    pub(crate) fn count(&self) -> u64 {
        // In this order nobody is counted as ended who was not yet as begun.
        let ended = self.counts.sum(|thread| &thread.ended);
        let began = self.counts.sum(|thread| &thread.began);
        began.saturating_sub(ended)
    }

    /// There is a commit more.
    #[inline]
    pub(crate) fn committed(&self) {
        if self.awaited.load(Ordering::Relaxed) > 0 {
            self.one_came();
        }
    }

    #[cold]
    fn one_came(&self) {
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        let one_less = |awaited: u64| awaited.checked_sub(1);
        if self.awaited.fetch_update(new, old, one_less) == Ok(1) {
            self.came.notify_one();
        }
    }

    /// Waits for so many commits, but not longer than that. How many of them did not come.
    /// `meanwhile` says how many have since it was known that they are waited for. For the
    /// log's thread alone.
    pub(crate) async fn wait_for(
        &self,
        commits: u64,
        longest: Duration,
        meanwhile: impl Fn() -> u64,
    ) -> u64 {
        self.awaited.store(commits, Ordering::Release);
        (0..meanwhile().min(commits)).for_each(|_| self.one_came());
        let came = self.came.notified();
        if coeval_env::timeout(longest, came).await.is_ok() {
            return 0;
        }
        let missing = self.awaited.swap(0, Ordering::AcqRel);
        if missing == 0 {
            // The last of them came just now, and is telling it.
            self.came.notified().await;
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_of_those_awaited_ends_the_wait() {
        let writers = Writers::default();
        writers.committed();
        let long = Duration::from_secs(1);
        let (missing, ()) = tokio::join!(writers.wait_for(2, long, || 0), async {
            writers.committed();
            writers.committed();
            writers.committed();
        });
        assert_eq!(missing, 0);
        let missing = writers.wait_for(1, long, || 0).await;
        assert_eq!(missing, 1, "what came before does not count");
        writers.committed();
        assert_eq!(writers.wait_for(1, long, || 0).await, 1);
        let missing = writers.wait_for(2, long, || 5).await;
        assert_eq!(missing, 0, "before it was known");
        assert_eq!(writers.wait_for(2, long, || 1).await, 1);
    }

    #[test]
    fn those_are_counted_who_have_begun_and_not_ended() {
        let writers = Writers::default();
        (0..3).for_each(|_| writers.begins());
        // On another thread than it began.
        std::thread::scope(|scope| scope.spawn(|| writers.ends()).join().unwrap());
        assert_eq!(writers.count(), 2);
    }
}
