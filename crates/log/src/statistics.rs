//! Counters of the log: commits, bytes, syncs and groups, for metrics.
//!
//! Each committing thread counts its commits when it has copied them; the flusher counts
//! groups when it has fixed where they end. A commit that is being copied at that moment may
//! be counted to this group or to the next: sizes are exact in sum, and right to a few
//! commits each.

use std::time::Duration;

use coeval_memory::counters::{Counter, Distribution, Durations, Histogram, Sharded};
use coeval_types::Lsn;

/// Histogram classes for numbers of commits: up to 2²⁰.
const GROUP_CLASSES: usize = 41;

/// The log's counters, shared by all its threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commits: Sharded<OfThread>,
    written_bytes: Counter,
    syncs: Durations,
    groups: Histogram<GROUP_CLASSES>,
    waits: Durations,
    /// Commits that belong to a group already.
    grouped: Counter,
}

#[derive(Debug, Default)]
struct OfThread {
    commits: Counter,
    skips: Counter,
}

impl Counters {
    #[inline]
    pub(crate) fn committed(&self) {
        self.commits.mine().commits.add(1);
    }

    #[inline]
    pub(crate) fn skipped(&self) {
        self.commits.mine().skips.add(1);
    }

    /// Commits copied into the log so far. Called by the flusher.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.sum(|thread| &thread.commits)
    }

    /// Number of commits, of `commits` in all, that belong to no group yet.
    pub(crate) fn gathered(&self, commits: u64) -> u64 {
        commits.wrapping_sub(self.grouped.get())
    }

    /// Called by the flusher: a group of `bytes` bytes is durable after a sync that took
    /// `sync`; `commits` had been copied when its end was fixed.
    pub(crate) fn flushed(&self, bytes: u64, sync: Duration, commits: u64) {
        self.written_bytes.add_alone(bytes);
        self.syncs.record_time_alone(sync);
        let group = self.gathered(commits);
        self.grouped.add_alone(group);
        self.groups.record_alone(group);
    }

    /// Called by the flusher: a group has waited `time` for more commits.
    pub(crate) fn waited(&self, time: Duration) {
        self.waits.record_time_alone(time);
    }

    /// Reads all counters, together with these ends and the number of transactions about to
    /// commit.
    pub(crate) fn read(
        &self,
        (reserved, installed, durable): (Lsn, Lsn, Lsn),
        writers: u64,
    ) -> Statistics {
        Statistics {
            commits: self.commits(),
            skips: self.commits.sum(|thread| &thread.skips),
            written_bytes: self.written_bytes.get(),
            syncs: self.syncs.read(),
            groups: self.groups.read(),
            waits: self.waits.read(),
            writers,
            reserved,
            installed,
            durable,
        }
    }
}

/// Counters of a log since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Commits that were copied into the log.
    pub commits: u64,
    /// Frames that were reserved and skipped: commits that failed their validation.
    pub skips: u64,
    /// Bytes that reached the disk.
    pub written_bytes: u64,
    /// Duration of each sync, in microseconds. There is one for each group.
    pub syncs: Distribution,
    /// Commits in each group. A group without commits consists of chunks or skip frames.
    pub groups: Distribution,
    /// Duration of each wait of a group for transactions about to commit, in microseconds.
    pub waits: Distribution,
    /// Transactions that have written something, or locked what they may write, and have not
    /// committed yet.
    pub writers: u64,
    /// End of the reserved log.
    pub reserved: Lsn,
    /// End of the prefix that is installed without a gap.
    pub installed: Lsn,
    /// End of the durable log.
    pub durable: Lsn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_sum_up_to_the_commits() {
        let counters = Counters::default();
        for group in [3, 1, 40] {
            let before = counters.gathered(counters.commits());
            (before..group).for_each(|_| counters.committed());
            let commits = counters.commits();
            assert_eq!(counters.gathered(commits), group);
            // It is copied while the group is being written, and belongs to the next.
            counters.committed();
            counters.flushed(100, Duration::from_micros(7), commits);
        }
        counters.skipped();
        let read = counters.read((Lsn(0), Lsn(0), Lsn(0)), 2);
        assert_eq!((read.commits, read.skips), (45, 1));
        assert_eq!((read.groups.count(), read.groups.sum), (3, 44));
        assert_eq!((read.syncs.count(), read.syncs.sum), (3, 21));
        assert_eq!(read.written_bytes, 300);
    }
}
