//! Yields of the core before a group is written: the flusher lets threads run that may be
//! about to commit.
//!
//! As long as each turn adds a commit to the group, the flusher yields again. Where the core
//! is idle, the yield returns at once and the flusher does not wait.
//!
//! The kernel gives the core to any process, though, not only to this one's threads: next to
//! a compute-bound program a turn lasts as long as the kernel lets that one run, a few
//! milliseconds in which no group is written. The flusher recognises such a turn by its
//! length. After one it writes the group at once, and also the next [`ABSTENTIONS`] groups:
//! other processes cost the log one turn in that many groups.

use std::time::Duration;

/// Most turns that one group takes.
const MOST: usize = 8;

/// A turn in which only transactions ran is shorter than this.
const LONGEST: Duration = Duration::from_micros(250);

/// Number of groups that are written without a turn after a longer one.
const ABSTENTIONS: u32 = 64;

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Groups that are still to be written at once.
    abstentions: u32,
}

impl Turns {
    /// The group's end after its turns. `completed` returns the end of the installed prefix;
    /// `turn` yields the core once and returns how long it was away.
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

    /// The end of a group when each turn adds one commit of ten bytes and takes what `away`
    /// returns, and the number of turns taken.
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
        // Commits made meanwhile belong to the group.
        assert_eq!(group(&mut turns, long, 100), (10, 1));
        for _ in 0..ABSTENTIONS {
            assert_eq!(group(&mut turns, long, 100), (0, 0));
        }
        assert_eq!(group(&mut turns, long, 100), (10, 1));
    }
}
