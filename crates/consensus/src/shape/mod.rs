//! The log as consensus knows it: where terms begin, who takes part, where it ends.
//!
//! Entries themselves are the caller's. What consensus remembers of a log of any length
//! is a line for each term, because by the mark rule a term is one unbroken stretch that
//! begins with its mark:
//!
//! ```text
//!  base 2/100
//!     |  S₃ a  b  c | S₄ | S₆ d
//!     100  132      300  332   396 = end
//!
//!  marks       (3, 100..132) (4, 300..332) (6, 332..364)
//!  term_before 132 → 3, 250 → 3, 300 → 3, 332 → 4, 396 → 6
//! ```
//!
//! Why a term and an end name a prefix although nobody remembers where entries end: a
//! term has one leader, which made one sequence of entries. Whoever has places of that
//! term up to `end` has the beginning of that sequence, so the same entries.
//!
//! Marks outlive the removal of old log (`retained` moves, `base` does not). A checkpoint
//! that replaces the log brings those before its end, from its own `base` on.
//!
//! Invariants: `base.end ≤ retained` or the log was never shortened; marks ascend in
//! term and place, and lie in `base.end..end`; `commit ≤ end`; nothing below `commit` is
//! ever truncated.

mod recent;

use std::collections::{BTreeSet, VecDeque};

use coeval_types::planted::{Bug, is_planted};
use coeval_types::{Lsn, Term};

use crate::entry::{Entry, Mark};
use crate::membership::Membership;
use crate::position::{NodeId, Position};
use crate::ready::Checkpoint;
use crate::restored::Restored;
use crate::settings::{Recovery, Settings};

pub(crate) use recent::{Limit, Recent};

/// What is remembered of the log.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Everything before it is a checkpoint's; marks are known from here on.
    base: Position,
    /// The log can be read from here on.
    retained: Lsn,
    /// Where terms begin.
    marks: Vec<Mark>,
    end: Lsn,
    /// Everything before it is committed.
    commit: Lsn,
    /// Who takes part from each end on. Never empty; all but the first can be rolled back.
    memberships: VecDeque<(Lsn, Membership)>,
    /// How often they have changed.
    membership_changes: u64,
    /// Ends of the entries behind the commit point, for a follower that walks back.
    ends: Option<VecDeque<Lsn>>,
    /// The newest entries themselves.
    pub(crate) recent: Recent,
}

impl Shape {
    pub(crate) fn new(restored: &Restored, settings: &Settings) -> Self {
        let commit = restored.hard_state.commit.max(restored.base.end);
        let mut shape = Self {
            base: restored.base,
            retained: restored.retained,
            marks: restored.marks.clone(),
            end: restored.end,
            commit,
            memberships: std::iter::once((restored.base.end, restored.membership.clone()))
                .chain(restored.memberships.iter().cloned())
                .collect(),
            membership_changes: 0,
            ends: (settings.recovery == Recovery::Checking)
                .then(|| restored.ends.iter().copied().collect()),
            recent: Recent::new(restored.end, settings.recent_space),
        };
        shape.committed(commit);
        shape
    }

    pub(crate) const fn base(&self) -> Position {
        self.base
    }

    pub(crate) const fn retained(&self) -> Lsn {
        self.retained
    }

    pub(crate) const fn end(&self) -> Lsn {
        self.end
    }

    pub(crate) const fn commit(&self) -> Lsn {
        self.commit
    }

    pub(crate) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The whole log, as votes compare it.
    pub(crate) fn last(&self) -> Position {
        Position {
            term: self.marks.last().map_or(self.base.term, |mark| mark.term),
            end: self.end,
        }
    }

    /// The mark of the term whose entries lie before `end`, if it is known.
    fn mark_before(&self, end: Lsn) -> Option<&Mark> {
        let after = self.marks.partition_point(|mark| mark.start < end);
        self.marks[..after].last()
    }

    /// The term of the entry that ends at `end`; `None` below the base or past the end.
    pub(crate) fn term_before(&self, end: Lsn) -> Option<Term> {
        if end < self.base.end || end > self.end {
            return None;
        }
        Some(
            self.mark_before(end)
                .map_or(self.base.term, |mark| mark.term),
        )
    }

    /// The prefix that ends there, as [`Self::term_before`].
    pub(crate) fn position_at(&self, end: Lsn) -> Option<Position> {
        self.term_before(end).map(|term| Position { term, end })
    }

    /// Whether this log has the prefix that `position` names.
    pub(crate) fn has(&self, position: Position) -> bool {
        self.term_before(position.end) == Some(position.term)
    }

    /// Who takes part.
    pub(crate) fn membership(&self) -> &Membership {
        &self.memberships.back().expect("it is never empty").1
    }

    /// Whether a node votes, or did before changes that are not committed.
    pub(crate) fn is_voter_so_far(&self, node: NodeId) -> bool {
        let mut memberships = self.memberships.iter();
        memberships.any(|(_, membership)| membership.is_voter(node))
    }

    /// Who takes part, or did before changes that are not committed.
    pub(crate) fn members_so_far(&self) -> BTreeSet<NodeId> {
        let memberships = self.memberships.iter();
        memberships
            .flat_map(|(_, membership)| membership.members())
            .collect()
    }

    /// Who votes, or did before changes that are not committed.
    pub(crate) fn voters_so_far(&self) -> BTreeSet<NodeId> {
        let memberships = self.memberships.iter();
        memberships
            .flat_map(|(_, membership)| membership.voters())
            .collect()
    }

    /// Grows with everything that changes what is said of who takes part.
    pub(crate) const fn membership_changes(&self) -> u64 {
        self.membership_changes
    }

    /// Whether who takes part could still be rolled back.
    pub(crate) fn membership_is_open(&self) -> bool {
        self.memberships.back().expect("it is never empty").0 > self.commit
    }

    /// Puts an entry behind the last.
    pub(crate) fn append(&mut self, entry: Entry) {
        assert!(
            entry.start == self.end && entry.end > entry.start,
            "an entry starts where the log ends"
        );
        if entry.is_mark() {
            self.marks.push(Mark {
                term: entry.term,
                start: entry.start,
                end: entry.end,
            });
        }
        if let Some(membership) = entry.membership()
            && membership != self.membership()
        {
            self.memberships.push_back((entry.end, membership.clone()));
            self.membership_changes += 1;
        }
        if let Some(ends) = &mut self.ends {
            ends.push_back(entry.end);
        }
        self.end = entry.end;
        self.recent.push(entry);
    }

    /// Takes everything from `to` on away.
    pub(crate) fn truncate(&mut self, to: Lsn) {
        assert!(
            self.commit <= to && to <= self.end,
            "what is committed stays"
        );
        self.marks.retain(|mark| mark.start < to);
        while self.memberships.len() > 1
            && self.memberships.back().is_some_and(|(end, _)| *end > to)
        {
            self.memberships.pop_back();
            self.membership_changes += 1;
        }
        if let Some(ends) = &mut self.ends {
            while ends.back().is_some_and(|end| *end > to) {
                ends.pop_back();
            }
        }
        self.end = to;
        self.recent.truncate(to);
    }

    /// Everything before `end` is committed.
    pub(crate) fn committed(&mut self, end: Lsn) {
        assert!(end <= self.end, "what is committed is in the log");
        self.commit = self.commit.max(end);
        while self
            .memberships
            .get(1)
            .is_some_and(|(end, _)| *end <= self.commit)
        {
            self.memberships.pop_front();
            self.membership_changes += 1;
        }
        if let Some(ends) = &mut self.ends {
            while ends.front().is_some_and(|end| *end <= self.commit) {
                ends.pop_front();
            }
        }
    }

    /// The caller has removed what was before `retained` from its log.
    pub(crate) fn removed_before(&mut self, retained: Lsn) {
        assert!(retained <= self.commit, "only what is committed is removed");
        self.retained = self.retained.max(retained);
    }

    /// A checkpoint takes the place of the whole log.
    pub(crate) fn install(&mut self, checkpoint: &Checkpoint) {
        let position = checkpoint.position;
        self.base = checkpoint.base;
        self.marks.clone_from(&checkpoint.marks);
        if is_planted(Bug::ForgetCheckpointTerm) {
            self.base = Position {
                term: Term(0),
                end: position.end,
            };
            self.marks.clear();
        }
        self.memberships.clear();
        self.memberships
            .push_back((position.end, checkpoint.membership.clone()));
        self.membership_changes += 1;
        if let Some(ends) = &mut self.ends {
            ends.clear();
        }
        self.end = position.end;
        self.commit = position.end;
        self.retained = position.end;
        self.recent.clear(position.end);
    }

    /// The end of the entry before the one that ends at `end`, as far as it is
    /// remembered; never below the commit point.
    pub(crate) fn end_before(&self, end: Lsn) -> Lsn {
        let before = self.ends.as_ref().and_then(|ends| {
            let after = ends.partition_point(|other| *other < end);
            after.checked_sub(1).map(|index| ends[index])
        });
        before.unwrap_or(self.commit)
    }

    /// Where the marks at the log's very end begin, if they are behind the commit point.
    pub(crate) fn end_without_trailing_marks(&self) -> Lsn {
        let mut end = self.end;
        for mark in self.marks.iter().rev() {
            if mark.end != end || end <= self.commit {
                break;
            }
            end = mark.start;
        }
        end
    }

    /// The end of the mark of the term whose entries lie before `end`.
    pub(crate) fn mark_end_before(&self, end: Lsn) -> Option<Lsn> {
        self.mark_before(end).map(|mark| mark.end)
    }

    /// The first mark that starts in `start..end`.
    pub(crate) fn first_mark_in(&self, start: Lsn, end: Lsn) -> Option<Lsn> {
        let first = self.marks.partition_point(|mark| mark.start < start);
        self.marks
            .get(first)
            .map(|mark| mark.start)
            .filter(|mark| *mark < end)
    }
}

#[cfg(test)]
mod tests;
