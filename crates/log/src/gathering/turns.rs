//! Offers of the core, before a group goes to the disk.
//!
//! As long as each turn brings a commit the next is offered. Where a core is idle the offer
//! comes back at once, and nobody is waited for.
//!
//! The kernel gives the core to anybody, though, not only to threads of ours: beside a
//! program that computes, a turn takes as long as the kernel lets that one run, a few
//! milliseconds in which no group is written. Such a turn is known by its length. After one
//! the group goes at once, and so do the next [`ABSTENTIONS`]: what strangers take of a
//! log's time is one turn in that many groups.

use std::time::Duration;

/// Turns that one group may take.
const MOST: usize = 8;

/// A turn in which nobody else but transactions ran is shorter.
const LONGEST: Duration = Duration::from_micros(250);

/// How many groups go at once after a turn that was longer.
const ABSTENTIONS: u32 = 64;

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Groups that are still to go at once.
    abstentions: u32,
}

impl Turns {
    /// How far the group reaches then. `completed` is how far it could, and `turn` offers the
    /// core once and says for how long it was away.
    pub(super) fn take(&mut self, completed: impl Fn() -> u64, turn: impl Fn() -> Duration) -> u64 {
        let mut end = completed();
        if self.abstentions > 0 {
            self.abstentions -= 1;
            return end;
        }
        for _ in 0..MOST {
            let away = turn();
            let now = completed();
            if away > LONGEST {
                self.abstentions = ABSTENTIONS;
                return now;
            }
            if now == end {
                break;
            }
            end = now;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What a group reaches when each turn brings one commit of ten bytes and takes what
    /// `away` says, and how many turns were taken.
    fn group(turns_of: &mut Turns, away: Duration, commits: u64) -> (u64, u64) {
        let turns = Cell::new(0);
        let end = turns_of.take(
            || turns.get().min(commits) * 10,
            || {
                turns.set(turns.get() + 1);
                away
            },
        );
        (end, turns.get())
    }

    #[test]
    fn turns_are_taken_as_long_as_they_bring_commits() {
        let mut turns = Turns::default();
        let short = Duration::from_micros(3);
        assert_eq!(group(&mut turns, short, 0), (0, 1));
        assert_eq!(group(&mut turns, short, 3), (30, 4));
        assert_eq!(group(&mut turns, short, 100), (80, 8));
    }

    #[test]
    fn after_a_long_turn_groups_go_at_once_for_a_while() {
        let mut turns = Turns::default();
        let long = Duration::from_millis(4);
        // What was committed meanwhile belongs to the group.
        assert_eq!(group(&mut turns, long, 100), (10, 1));
        for _ in 0..ABSTENTIONS {
            assert_eq!(group(&mut turns, long, 100), (0, 0));
        }
        assert_eq!(group(&mut turns, long, 100), (10, 1));
    }
}
