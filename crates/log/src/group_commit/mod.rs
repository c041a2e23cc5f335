//! Adaptive group commit: decides whether the flusher waits for more commits before it writes
//! a group.
//!
//! A sync takes a core several times as long as a commit does, and in a cluster it does so on
//! every node; so where cores are scarce, larger groups increase throughput. There are two
//! ways, and the second takes precedence while it pays off:
//!
//! - *Turns* (`turns`): the flusher yields its core to threads that are ready to run there.
//! - *Waiting* (`adaptive_delay`, `writers`): transactions that have written something and have not
//!   committed are about to. The flusher waits until the group has as many commits as are
//!   still outstanding, and never longer than [`LONGEST_WAIT`].
//!
//! ```text
//!  eight clients, of whom one waits for its commit and seven have written something:
//!    after three more commits the group has four, and four are left
//!    it is written; meanwhile those four form the next group
//! ```
//!
//! It waits for half of them, because with all of them in one group none would be left to form
//! the next group during the sync, and a group of one pays a sync for itself. With many
//! clients it waits for as many commits as are expected within the longest wait. A single
//! client has no other transaction to wait for.
//!
//! Some of the counted transactions cannot commit before the group is written: their client
//! waits for one of its results, or they wait for a row lock of such a transaction, or they
//! compute for long. When fewer than half of the awaited commits arrived, the wait was in
//! vain, and the flusher does not repeat it for a while.
//!
//! Whether waiting increases throughput depends on the cores available, on what else runs on
//! them and on how long transactions take between two statements, none of which a log can
//! know. So it measures: see `adaptive_delay`. After a wait in vain a number of groups do not wait; the
//! number doubles with each wait in vain that follows.

mod adaptive_delay;
mod turns;
mod writers;

use std::time::Duration;

use coeval_env::Instant;

use self::adaptive_delay::AdaptiveDelay;
use self::turns::Turns;
pub(crate) use self::writers::Writers;

/// The longest time that a group waits. Timer granularity may add a millisecond, when the
/// awaited transactions do not commit.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(1);

/// Fewest and most groups that do not wait after a wait in vain.
const ABSTENTIONS: (u32, u32) = (16, 1024);

/// The flusher's state of adaptive group commit.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    turns: Turns,
    adaptive_delay: AdaptiveDelay,
    /// Groups that are still to be written without waiting.
    abstentions: u32,
    /// Number of groups that will not wait after the next wait in vain.
    next_abstentions: u32,
}

impl Default for GroupCommit {
    fn default() -> Self {
        Self {
            turns: Turns::default(),
            adaptive_delay: AdaptiveDelay::default(),
            abstentions: 0,
            next_abstentions: ABSTENTIONS.0,
        }
    }
}

impl GroupCommit {
    /// How many more commits the group waits for; 0 when it does not wait. `commits` have been
    /// made in all, `gathered` of them are in this group, and `writers` transactions are about
    /// to commit.
    pub(crate) fn worth_waiting_for(
        &mut self,
        now: Instant,
        commits: u64,
        gathered: u64,
        writers: u64,
    ) -> u64 {
        let waits = self.adaptive_delay.turn(now, commits);
        let half = writers.saturating_sub(gathered).div_ceil(2);
        let more = half.min(self.adaptive_delay.expected_within(LONGEST_WAIT));
        // A group without a commit is part of a transaction that may wait for this very group.
        if !waits || gathered == 0 || more == 0 {
            return 0;
        }
        if self.abstentions > 0 {
            self.abstentions -= 1;
            return 0;
        }
        more
    }

    /// Records that a group has waited for `awaited` commits, of which `missing` had not
    /// arrived when the time was up.
    pub(crate) fn waited(&mut self, awaited: u64, missing: u64) {
        if missing <= awaited / 2 {
            self.next_abstentions = ABSTENTIONS.0;
        } else {
            self.abstentions = self.next_abstentions;
            self.next_abstentions = (2 * self.next_abstentions).min(ABSTENTIONS.1);
        }
    }

    /// The end of a group that does not wait. `completed` returns the end of the installed
    /// prefix; `turn` yields the core once and returns how long it was away.
    pub(crate) fn take_turns(
        &mut self,
        completed: impl Fn() -> u64,
        turn: impl Fn() -> Duration,
    ) -> u64 {
        self.turns.take(completed, turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state in which the trial has found waiting to be better, at 4,000 commits per second.
    fn waiting(now: &mut Instant, commits: &mut u64) -> GroupCommit {
        let mut group_commit = GroupCommit::default();
        while !group_commit.adaptive_delay.waits() {
            let rate = match group_commit.adaptive_delay.turn(*now, *commits) {
                true => 5,
                false => 4,
            };
            *now += Duration::from_millis(1);
            *commits += rate;
        }
        group_commit
    }

    #[test]
    fn half_of_those_who_are_about_to_commit_are_waited_for() {
        let (mut now, mut commits) = (coeval_env::now(), 0);
        let mut group_commit = waiting(&mut now, &mut commits);
        let mut wait =
            |gathered, writers| group_commit.worth_waiting_for(now, commits, gathered, writers);
        assert_eq!(wait(1, 7), 3, "four, and four are left");
        assert_eq!(wait(2, 5), 2);
        assert_eq!(wait(4, 4), 0);
        assert_eq!(wait(1, 0), 0, "alone");
        assert_eq!(wait(1, 1), 0);
        assert_eq!(wait(0, 7), 0, "no commit");
        assert_eq!(wait(1, 30), 4, "at four in a millisecond no more come");
    }

    #[test]
    fn after_a_wait_in_vain_groups_go_at_once_for_twice_as_long_each_time() {
        let (mut now, mut commits) = (coeval_env::now(), 0);
        let mut group_commit = waiting(&mut now, &mut commits);
        let going = |group_commit: &mut GroupCommit| {
            (0..).find(|_| group_commit.worth_waiting_for(now, commits, 1, 5) > 0)
        };
        assert_eq!(going(&mut group_commit), Some(0));
        for most in [16, 32, 64, 128, 256, 512, 1024, 1024] {
            group_commit.waited(2, 2);
            assert_eq!(going(&mut group_commit), Some(most));
        }
        group_commit.waited(4, 2);
        assert_eq!(going(&mut group_commit), Some(0), "half of them came");
        group_commit.waited(4, 3);
        assert_eq!(going(&mut group_commit), Some(16));
    }
}
