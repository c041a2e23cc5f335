//! Who is let in before a group goes to the disk.
//!
//! A sync takes a core several times as long as a commit, in a cluster on every node, so
//! where cores are short a larger group gets more done. Two ways, of which the second comes
//! first when it is worth it:
//!
//! - *Turns* (`turns`): the log's thread offers its core to whoever is ready to run there.
//! - *Waiting* (`trial`, `writers`): transactions that have written something and have not
//!   committed are about to. The group waits until it holds as many commits as are still to
//!   come, and never longer than [`LONGEST_WAIT`].
//!
//! ```text
//!  eight clients, of whom one waits for its commit and seven have written something:
//!    after three more commits the group has four, and four are left
//!    it goes; while it is under way those four gather
//! ```
//!
//! Halves, because all would leave nobody to gather during the sync, and one alone pays a
//! sync for itself. Of many clients it is as many as are to be expected within the longest
//! wait. A client alone has nobody to wait for.
//!
//! Some of those who are counted cannot commit before the group does: they have shown
//! something of it, or wait for a row behind somebody who has, or compute for long. When not
//! even half of those came who were waited for, the wait was in vain, and is not repeated for
//! a while.
//!
//! Whether waiting gets more done depends on what cores there are, what else runs on them
//! and how long transactions take between two statements, none of which a log can know. So
//! it is tried: see `trial`. A wait in vain is followed by groups that do not wait, after each
//! such twice as many.

mod trial;
mod turns;
mod writers;

use std::time::Duration;

use coeval_env::Instant;

use self::trial::Trial;
use self::turns::Turns;
pub(crate) use self::writers::Writers;

/// The longest that a group waits, and that it is expected to. The clock of timers may add
/// a millisecond, when those who were waited for do not commit.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(1);

/// How many groups go at once after a wait in vain: the fewest and the most.
const ABSTENTIONS: (u32, u32) = (16, 1024);

/// What the log's thread knows of its groups.
#[derive(Debug)]
pub(crate) struct Gathering {
    turns: Turns,
    trial: Trial,
    /// Groups that are still to go without waiting.
    abstentions: u32,
    /// How many there will be after the next wait in vain.
    next_abstentions: u32,
}

impl Default for Gathering {
    fn default() -> Self {
        Self {
            turns: Turns::default(),
            trial: Trial::default(),
            abstentions: 0,
            next_abstentions: ABSTENTIONS.0,
        }
    }
}

impl Gathering {
    /// How many commits a group waits for; 0 when it does not wait. `commits` have been
    /// made altogether, `gathered` of them are in this group, and `writers` are to come.
    pub(crate) fn worth_waiting_for(
        &mut self,
        now: Instant,
        commits: u64,
        gathered: u64,
        writers: u64,
    ) -> u64 {
        let waits = self.trial.turn(now, commits);
        let half = writers.saturating_sub(gathered).div_ceil(2);
        let more = half.min(self.trial.expected_within(LONGEST_WAIT));
        // Without a commit it is part of a transaction that may wait for this very group.
        if !waits || gathered == 0 || more == 0 {
            return 0;
        }
        if self.abstentions > 0 {
            self.abstentions -= 1;
            return 0;
        }
        more
    }

    /// A group has waited for so many commits, of which `missing` had not come when time was
    /// up.
    pub(crate) fn waited(&mut self, awaited: u64, missing: u64) {
        if missing <= awaited / 2 {
            self.next_abstentions = ABSTENTIONS.0;
        } else {
            self.abstentions = self.next_abstentions;
            self.next_abstentions = (2 * self.next_abstentions).min(ABSTENTIONS.1);
        }
    }

    /// How far a group reaches that does not wait. `completed` is how far it could, and
    /// `turn` offers the core once and says for how long it was away.
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

    /// One in whose trial waiting has won, at 4,000 commits in a second.
    fn waiting(now: &mut Instant, commits: &mut u64) -> Gathering {
        let mut gathering = Gathering::default();
        while !gathering.trial.waits() {
            let rate = match gathering.trial.turn(*now, *commits) {
                true => 5,
                false => 4,
            };
            *now += Duration::from_millis(1);
            *commits += rate;
        }
        gathering
    }

    #[test]
    fn half_of_those_who_are_about_to_commit_are_waited_for() {
        let (mut now, mut commits) = (coeval_env::now(), 0);
        let mut gathering = waiting(&mut now, &mut commits);
        let mut wait =
            |gathered, writers| gathering.worth_waiting_for(now, commits, gathered, writers);
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
        let mut gathering = waiting(&mut now, &mut commits);
        let going = |gathering: &mut Gathering| {
            (0..).find(|_| gathering.worth_waiting_for(now, commits, 1, 5) > 0)
        };
        assert_eq!(going(&mut gathering), Some(0));
        for most in [16, 32, 64, 128, 256, 512, 1024, 1024] {
            gathering.waited(2, 2);
            assert_eq!(going(&mut gathering), Some(most));
        }
        gathering.waited(4, 2);
        assert_eq!(going(&mut gathering), Some(0), "half of them came");
        gathering.waited(4, 3);
        assert_eq!(going(&mut gathering), Some(16));
    }
}
