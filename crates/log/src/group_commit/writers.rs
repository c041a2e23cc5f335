//! Counts of the transactions that have written something and are about to commit, for
//! which group commit may wait.
//!
//! ```text
//!   began 12, ended 9: three are about to commit. The flusher awaits two:
//!   a commit      awaited 2 → 1
//!   a commit      awaited 1 → 0, and wakes the flusher
//! ```
//!
//! Only the length of a group's wait depends on these numbers: they may be wrong for a
//! moment, and a counted transaction may never commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coeval_memory::counters::{Counter, Sharded};
use tokio::sync::Notify;

/// The counts, and the flusher's wait for some of the transactions.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    counts: Sharded<OfThread>,
    /// Number of further commits that the flusher waits for; 0 when it does not wait.
    awaited: AtomicU64,
    came: Notify,
}

#[derive(Debug, Default)]
struct OfThread {
    began: Counter,
    ended: Counter,
}

impl Writers {
    /// Counts a transaction as a writer. The engine calls this when the transaction first
    /// writes a row, or locks one that it may write.
    #[inline]
    pub(crate) fn begins(&self) {
        self.counts.mine().began.add(1);
    }

    /// Called when the transaction commits or aborts.
    #[inline]
    pub(crate) fn ends(&self) {
        self.counts.mine().ended.add(1);
    }

    /// Number of transactions that have begun and not ended.
    pub(crate) fn count(&self) -> u64 {
        // Read in this order, so that no transaction is counted as ended that is not yet
        // counted as begun.
        let ended = self.counts.sum(|thread| &thread.ended);
        let began = self.counts.sum(|thread| &thread.began);
        began.saturating_sub(ended)
    }

    /// Called after each commit; wakes the flusher when it was the last awaited one.
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

    /// Waits for `commits` commits, at most for `longest`, and returns how many of them
    /// did not arrive. `meanwhile` returns how many commits have been made since the
    /// caller counted. Called only by the flusher.
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
            // The last of them arrived just now, and its notification is on its way.
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
        // On another thread than the one it began on.
        std::thread::scope(|scope| scope.spawn(|| writers.ends()).join().unwrap());
        assert_eq!(writers.count(), 2);
    }
}
