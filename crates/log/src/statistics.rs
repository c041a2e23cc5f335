//! What the log has done, in numbers.
//!
//! Commits are counted where they are copied, by whatever thread that is; groups
//! by the one thread that writes them, when it has fixed where they end. A commit
//! that is being copied then may be counted to this group or to the next: sizes are
//! exact in sum, and right to a few commits each.

use std::time::Duration;

use coeval_memory::counters::{Counter, Distribution, Durations, Histogram, Sharded};
use coeval_types::Lsn;

/// Classes for numbers of commits: up to 2²⁰.
const GROUP_CLASSES: usize = 41;

/// What the log counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commits: Sharded<OfThread>,
    written_bytes: Counter,
    syncs: Durations,
    groups: Histogram<GROUP_CLASSES>,
    waits: Durations,
    /// Commits in groups.
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

    /// Called by the thread that writes: how many commits have been copied.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.sum(|thread| &thread.commits)
    }

    /// Of so many commits, how many are in no group yet.
    pub(crate) fn gathered(&self, commits: u64) -> u64 {
        commits.wrapping_sub(self.grouped.get())
    }

    /// Called by the thread that writes: a group of so many bytes is durable, after
    /// a sync of so long; when its end was fixed there were so many commits.
    pub(crate) fn flushed(&self, bytes: u64, sync: Duration, commits: u64) {
        self.written_bytes.add_alone(bytes);
        self.syncs.record_time_alone(sync);
        let group = self.gathered(commits);
        self.grouped.add_alone(group);
        self.groups.record_alone(group);
    }

    /// Called by the thread that writes: a group has waited for commits.
    pub(crate) fn waited(&self, time: Duration) {
        self.waits.record_time_alone(time);
    }

    /// Of these ends, and so many who are about to commit.
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

/// What a log has done since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Commits that were copied into it.
    pub commits: u64,
    /// Places that were drawn and given up: commits that failed their validation.
    pub skips: u64,
    /// Bytes that reached the disk.
    pub written_bytes: u64,
    /// How long each sync took, in microseconds. There is one for each group.
    pub syncs: Distribution,
    /// How many commits each group has. A group of none is chunks or skips.
    pub groups: Distribution,
    /// How long groups waited for those who were about to commit, in microseconds. Of those
    /// that did.
    pub waits: Distribution,
    /// Transactions that have written something, or locked what they may write, and have not
    /// committed yet.
    pub writers: u64,
    /// End of what was reserved.
    pub reserved: Lsn,
    /// End of what is installed without a gap.
    pub installed: Lsn,
    /// End of what is durable.
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
            // It comes while the group is on its way, and belongs to the next.
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
