//! The outline of the log that consensus keeps in memory: where terms begin, the
//! memberships, the commit index and the end.
//!
//! The caller stores the entries themselves. Consensus keeps one line for each term of a
//! log of any length, because by the mark rule a term is one contiguous range that begins
//! with its mark:
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
//! A term and an end name a prefix without any record of where entries end: a term has one
//! leader, which made one sequence of entries. A log with offsets of that term up to `end`
//! has the beginning of that sequence, so the same entries.
//!
//! Marks outlive the removal of old log (`retained` advances, `base` does not). A
//! checkpoint that replaces the log carries the marks before its end, from its own `base`
//! on.
//!
//! Invariants: `base.end ≤ retained` or the log was never shortened; marks ascend in term
//! and offset, and are within `base.end..end`; `commit ≤ end`; nothing below `commit` is
//! ever truncated.

mod entry_cache;

use std::collections::{BTreeSet, VecDeque};

use coeval_types::{Lsn, Term, planted};

use crate::entry::{Entry, Mark};
use crate::membership::Membership;
use crate::position::{NodeId, Position};
use crate::ready::Checkpoint;
use crate::restored::Restored;
use crate::settings::{Recovery, Settings};

pub(crate) use entry_cache::{EntryCache, Limit};

/// The outline of a log. See the module.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// End of the part that a checkpoint replaces; marks are known from here on.
    base: Position,
    /// Log offset from which the log can be read.
    retained: Lsn,
    /// Marks of all terms from the base on, in ascending order.
    marks: Vec<Mark>,
    end: Lsn,
    /// The commit index: everything before it is committed.
    commit: Lsn,
    /// Memberships, each with the end from which it holds. Never empty; all but the first
    /// can be rolled back.
    memberships: VecDeque<(Lsn, Membership)>,
    /// Counter of changes of the memberships.
    membership_changes: u64,
    /// Ends of the entries after the commit index, for a follower that walks back.
    ends: Option<VecDeque<Lsn>>,
    /// The newest entries.
    pub(crate) entry_cache: EntryCache,
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
            entry_cache: EntryCache::new(restored.end, settings.entry_cache_bytes),
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

    /// The position of the whole log, which votes compare.
    pub(crate) fn last(&self) -> Position {
        Position {
            term: self.marks.last().map_or(self.base.term, |mark| mark.term),
            end: self.end,
        }
    }

    /// The mark of the term of the entries before `end`, if it is known.
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

    /// The position at `end`; `None` in the cases of [`Self::term_before`].
    pub(crate) fn position_at(&self, end: Lsn) -> Option<Position> {
        self.term_before(end).map(|term| Position { term, end })
    }

    /// Whether this log has the prefix that `position` names.
    pub(crate) fn has(&self, position: Position) -> bool {
        self.term_before(position.end) == Some(position.term)
    }

    /// The current membership.
    pub(crate) fn membership(&self) -> &Membership {
        &self.memberships.back().expect("it is never empty").1
    }

    /// Whether a node is a voter, or was one before changes that are not committed.
    pub(crate) fn is_voter_so_far(&self, node: NodeId) -> bool {
        let mut memberships = self.memberships.iter();
        memberships.any(|(_, membership)| membership.is_voter(node))
    }

    /// The members, including those before changes that are not committed.
    pub(crate) fn members_so_far(&self) -> BTreeSet<NodeId> {
        let memberships = self.memberships.iter();
        memberships
            .flat_map(|(_, membership)| membership.members())
            .collect()
    }

    /// The voters, including those before changes that are not committed.
    pub(crate) fn voters_so_far(&self) -> BTreeSet<NodeId> {
        let memberships = self.memberships.iter();
        memberships
            .flat_map(|(_, membership)| membership.voters())
            .collect()
    }

    /// A counter that grows with every change of the memberships.
    pub(crate) const fn membership_changes(&self) -> u64 {
        self.membership_changes
    }

    /// Whether the current membership is uncommitted, and could be rolled back.
    pub(crate) fn membership_is_open(&self) -> bool {
        self.memberships.back().expect("it is never empty").0 > self.commit
    }

    /// Appends an entry.
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
        self.entry_cache.push(entry);
    }

    /// Removes everything from `to` on.
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
        self.entry_cache.truncate(to);
    }

    /// Advances the commit index to `end`.
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

    /// Records that the caller has removed the log before `retained`.
    pub(crate) fn removed_before(&mut self, retained: Lsn) {
        assert!(retained <= self.commit, "only what is committed is removed");
        self.retained = self.retained.max(retained);
    }

    /// Replaces the whole log by a checkpoint.
    pub(crate) fn install(&mut self, checkpoint: &Checkpoint) {
        let position = checkpoint.position;
        self.base = checkpoint.base;
        self.marks.clone_from(&checkpoint.marks);
        if planted!(ForgetCheckpointTerm) {
            (self.base, self.marks) = (Position::new(0, position.end.0), Default::default());
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
        self.entry_cache.clear(position.end);
    }

    /// End of the entry before the one that ends at `end`, as far as it is recorded; never
    /// below the commit index.
    pub(crate) fn end_before(&self, end: Lsn) -> Lsn {
        let before = self.ends.as_ref().and_then(|ends| {
            let after = ends.partition_point(|other| *other < end);
            after.checked_sub(1).map(|index| ends[index])
        });
        before.unwrap_or(self.commit)
    }

    /// End of the log without its trailing uncommitted marks.
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

    /// The end of the mark of the term of the entries before `end`.
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
