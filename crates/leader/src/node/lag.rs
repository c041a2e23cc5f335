//! Replication lag: how much less of the log a member shows to readers than is committed, in
//! bytes and in time.
//!
//! Bytes alone say little: a hundred bytes may have been missing for a millisecond or for an hour.
//! So each node remembers when it learned of which commit index, and a member's lag in time is
//! the age of the oldest commit that it does not show. It is zero when all is shown, however long
//! ago that was, and grows while commits are missing, also when the member says nothing any more.
//!
//! ```text
//!   commit index    80 ── 96 ── 112 ── 130
//!   learned at      0.1   0.3   0.7    0.9 s
//!   member shows    96: the oldest commit that is missing is as old as 112: lag 0.5 s at 1.2 s
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use coeval_env::Instant;
use coeval_types::Lsn;

/// How much less of the log a member shows than is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Bytes of committed log that the member does not show.
    pub bytes: u64,
    /// Age of the oldest commit that the member does not show; zero if it shows all. A node
    /// that knows no leader cannot know what is committed: its own lag is then at least the
    /// time for which it has known none.
    pub time: Duration,
}

/// Least time between two remembered commit indexes.
const SPACING: Duration = Duration::from_millis(1);

/// Most remembered commit indexes. Beyond it every second one is forgotten: the lag of a member
/// that is far behind is known less exactly.
const MOST: usize = 1024;

/// When this node learned of which commit index.
#[derive(Debug, Default)]
pub(super) struct CommitTimes {
    /// Commit indexes and when each was learned, in ascending order.
    times: VecDeque<(Lsn, Instant)>,
    newest: Lsn,
}

impl CommitTimes {
    /// The commit index is `committed` now.
    pub(super) fn note(&mut self, committed: Lsn, now: Instant) {
        if committed <= self.newest {
            return;
        }
        self.newest = committed;
        let last = self.times.back();
        if last.is_some_and(|(_, at)| now.duration_since(*at) < SPACING) {
            return;
        }
        if self.times.len() >= MOST {
            let mut count = 0;
            self.times.retain(|_| {
                count += 1;
                count % 2 == 0
            });
        }
        self.times.push_back((committed, now));
    }

    /// The lag of a reader that is shown everything before `visible`.
    pub(super) fn lag(&self, visible: Lsn, now: Instant) -> Lag {
        let bytes = self.newest.0.saturating_sub(visible.0);
        if bytes == 0 {
            return Lag::default();
        }
        let first = self.times.partition_point(|(end, _)| *end <= visible);
        // The newest indexes may have come too soon after the last remembered one.
        let since = self.times.get(first).or(self.times.back());
        let time = since.map(|(_, at)| now.duration_since(*at));
        Lag {
            bytes,
            time: time.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(times: &CommitTimes, visible: u64, now: Instant) -> (u64, u128) {
        let lag = times.lag(Lsn(visible), now);
        (lag.bytes, lag.time.as_millis())
    }

    #[test]
    fn the_example_is_as_it_says() {
        let start = coeval_env::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut times = CommitTimes::default();
        assert_eq!(lag(&times, 0, at(0)), (0, 0));
        for (end, when) in [(80, 100), (96, 300), (112, 700), (130, 900)] {
            times.note(Lsn(end), at(when));
        }
        assert_eq!(lag(&times, 96, at(1200)), (34, 500));
        assert_eq!(lag(&times, 130, at(9000)), (0, 0), "idle");
        assert_eq!(lag(&times, 0, at(9100)), (130, 9000), "cut off");
        assert_eq!(lag(&times, 129, at(901)), (1, 1));
    }

    #[test]
    fn many_commits_are_remembered_in_little_memory() {
        let start = coeval_env::now();
        let mut times = CommitTimes::default();
        for tenth in 1..=100_000_u64 {
            times.note(Lsn(tenth), start + Duration::from_micros(100 * tenth));
        }
        assert!(times.times.len() <= MOST);
        let now = start + Duration::from_secs(10);
        let (bytes, milliseconds) = lag(&times, 50_000, now);
        assert_eq!(bytes, 50_000);
        assert!((4800..=5000).contains(&milliseconds), "{milliseconds}");
        let (_, milliseconds) = lag(&times, 99_999, now);
        assert!(milliseconds <= 1, "{milliseconds}");
    }
}
