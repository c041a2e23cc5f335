//! The state with which a node starts: the hard state and the outline of the log on its
//! disk.
//!
//! The caller reads its log and provides this outline. [`Restored::from_entries`] makes
//! it from entries in memory; a log with files of its own stores marks and memberships
//! where it can read them without the whole log.

use std::fmt;

use coeval_types::{Lsn, Term};

use crate::entry::{Entry, Mark};
use crate::membership::Membership;
use crate::position::{NodeId, Position};

/// Raft's hard state: it must be on the disk before other nodes see its effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HardState {
    /// The newest term seen. If a crash preserved an entry of a newer term, that term
    /// counts, without a vote.
    pub term: Term,
    /// The node that has this node's vote in that term.
    pub vote: Option<NodeId>,
    /// The commit index. It may be older than the cluster's, or lost (0): recovery by
    /// marks does not depend on it.
    pub commit: Lsn,
}

/// The state with which a node starts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Restored {
    /// The node's term, vote and commit index.
    pub hard_state: HardState,
    /// The end of the checkpoint that replaces the beginning of the log; marks are known
    /// from here on.
    pub base: Position,
    /// The membership at the base.
    pub membership: Membership,
    /// Log offset from which the log can be read; at least the base's end.
    pub retained: Lsn,
    /// Marks of terms, from the base on.
    pub marks: Vec<Mark>,
    /// Each membership change after the base, with the end from which it holds.
    pub memberships: Vec<(Lsn, Membership)>,
    /// End of the log.
    pub end: Lsn,
    /// Log offset from which committed entries are handed out; at least the base's end.
    pub applied: Lsn,
    /// Ends of the entries after the commit index. Needed to walk back one by one
    /// ([`Recovery::Checking`](crate::Recovery::Checking)), else empty.
    pub ends: Vec<Lsn>,
    /// Whether the node joins with an empty log, perhaps under an id that has made
    /// promises: it neither votes nor campaigns until it is
    /// [admitted](crate::Consensus::admit).
    pub newcomer: bool,
}

/// Error: the restored state contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreError(String);

impl fmt::Display for RestoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "what this node kept contradicts itself: {}. If the other nodes are well, remove this \
             one (coeval cluster remove), and add its machine with an empty directory under a \
             number that was never used; else restore a backup into an empty directory on every \
             node (coeval restore)",
            self.0
        )
    }
}

impl std::error::Error for RestoreError {}

impl Restored {
    /// A node with an empty log, in a new cluster of these members. A node that joins a
    /// cluster starts with an empty membership, and receives the members with the log.
    #[must_use]
    pub fn empty(membership: Membership) -> Self {
        Self {
            membership,
            ..Self::default()
        }
    }

    /// The outline of a log whose entries, which follow `base`, are in memory.
    #[must_use]
    pub fn from_entries<'entry>(
        hard_state: HardState,
        base: Position,
        membership: Membership,
        entries: impl IntoIterator<Item = &'entry Entry>,
    ) -> Self {
        let mut restored = Self {
            hard_state,
            base,
            membership,
            retained: base.end,
            end: base.end,
            applied: base.end,
            ..Self::default()
        };
        for entry in entries {
            if entry.is_mark() {
                restored.marks.push(Mark {
                    term: entry.term,
                    start: entry.start,
                    end: entry.end,
                });
            }
            if let Some(membership) = entry.membership() {
                restored.memberships.push((entry.end, membership.clone()));
            }
            restored.end = entry.end;
            if entry.end > hard_state.commit {
                restored.ends.push(entry.end);
            }
        }
        restored.forget_repeated_memberships();
        restored
    }

    /// The term and vote in force: the hard state's, or the newer term of the last entry.
    pub(crate) fn promised(&self) -> (Term, Option<NodeId>) {
        let last = self.term_before(self.end);
        if last > self.hard_state.term {
            (last, None)
        } else {
            (self.hard_state.term, self.hard_state.vote)
        }
    }

    /// The term of the entry that ends at `end`, or of the base.
    pub(crate) fn term_before(&self, end: Lsn) -> Term {
        let marks = self.marks.iter().rev();
        marks
            .filter(|mark| mark.start < end)
            .map(|mark| mark.term)
            .next()
            .unwrap_or(self.base.term)
    }

    /// Drops memberships equal to the one before: a mark repeats it, and only changes
    /// count.
    pub(crate) fn forget_repeated_memberships(&mut self) {
        let mut last = &self.membership;
        let changes = self.memberships.iter().filter(|(_, membership)| {
            let changed = membership != last;
            last = membership;
            changed
        });
        self.memberships = changes.cloned().collect();
    }

    /// Checks that the state is consistent.
    ///
    /// # Errors
    /// When it is not; the text names the contradiction.
    pub fn check(&self) -> Result<(), RestoreError> {
        let mut before = self.base;
        for mark in &self.marks {
            if mark.term <= before.term || mark.start < before.end || mark.end <= mark.start {
                return Err(RestoreError(format!(
                    "the mark of term {} at {} does not follow on {before}",
                    mark.term, mark.start
                )));
            }
            before = Position {
                term: mark.term,
                end: mark.end,
            };
        }
        let limits = [
            ("its end", before.end, self.end),
            ("the beginning of its log", self.base.end, self.retained),
            ("the end of its log", self.retained, self.end),
            ("the end of its log", self.hard_state.commit, self.end),
            ("what was applied", self.base.end, self.applied),
            (
                "the commit point",
                self.applied,
                self.hard_state.commit.max(self.base.end),
            ),
        ];
        for (what, least, found) in limits {
            if found < least {
                return Err(RestoreError(format!(
                    "{what} is {found}, which is below {least}"
                )));
            }
        }
        let mut before = self.base.end;
        for (end, _) in &self.memberships {
            if *end <= before || *end > self.end {
                return Err(RestoreError(format!(
                    "a change of members ends at {end}, which is not between {before} and {}",
                    self.end
                )));
            }
            before = *end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Restored {
        Restored {
            hard_state: HardState {
                term: Term(3),
                vote: None,
                commit: Lsn(110),
            },
            base: Position::new(1, 100),
            retained: Lsn(100),
            marks: vec![Mark {
                term: Term(2),
                start: Lsn(104),
                end: Lsn(108),
            }],
            end: Lsn(120),
            applied: Lsn(100),
            ..Restored::default()
        }
    }

    #[test]
    fn contradictions_are_refused() {
        assert_eq!(sound().check(), Ok(()));
        let lies: [fn(&mut Restored); 6] = [
            |restored| restored.hard_state.commit = Lsn(121),
            |restored| restored.marks[0].term = Term(1),
            |restored| restored.marks[0].start = Lsn(90),
            |restored| restored.end = Lsn(107),
            |restored| restored.applied = Lsn(111),
            |restored| restored.memberships = vec![(Lsn(130), Membership::default())],
        ];
        for (index, lie) in lies.into_iter().enumerate() {
            let mut restored = sound();
            lie(&mut restored);
            assert!(restored.check().is_err(), "lie {index} was believed");
        }
    }
}
