//! Tracking of durability: which prefix of the log, and which term, are on the disk while
//! writes are under way.
//!
//! Writes are numbered, carried out in order, and reported by number. A number, not a log
//! end, because the log can reach the same end twice:
//!
//! ```text
//!  write 1   S₂ a b        the log ends at 3
//!  write 2   cut to 1, S₃  ends at 2
//!  write 3   c             ends at 3 again
//!  write 1 done: of the current log only S₂ is known to be durable, not all up to 3
//! ```
//!
//! Invariant: the log *as it is now* is on the disk up to `end`, and stays there whatever
//! prefix of the writes under way is carried out.

use std::collections::VecDeque;

use coeval_types::{Lsn, Term};

/// A write under way, with the durable end and term once it is done.
#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u64,
    end: Lsn,
    term: Term,
}

/// The durable end and term, and the writes under way.
#[derive(Clone, Debug)]
pub(crate) struct Durability {
    issued: u64,
    done: u64,
    pending: VecDeque<Pending>,
    end: Lsn,
    term: Term,
}

impl Durability {
    pub(crate) const fn new(end: Lsn, term: Term) -> Self {
        Self {
            issued: 0,
            done: 0,
            pending: VecDeque::new(),
            end,
            term,
        }
    }

    /// The end of the current log's durable prefix.
    pub(crate) const fn end(&self) -> Lsn {
        self.end
    }

    /// The newest term on the disk.
    pub(crate) const fn term(&self) -> Term {
        self.term
    }

    /// The number of the newest write.
    pub(crate) const fn issued(&self) -> u64 {
        self.issued
    }

    /// Whether this write, and all before it, are on the disk.
    pub(crate) const fn is_done(&self, number: u64) -> bool {
        number <= self.done
    }

    /// Called when the log is truncated at `to`: entries after it do not count any more.
    pub(crate) fn truncated(&mut self, to: Lsn) {
        self.end = self.end.min(to);
        for pending in &mut self.pending {
            pending.end = pending.end.min(to);
        }
    }

    /// Called when a checkpoint replaces the log: its prefix is durable with the
    /// checkpoint's write, and not before.
    pub(crate) fn replaced(&mut self) {
        self.truncated(Lsn(0));
    }

    /// Issues a write after which the log is durable up to `end`, and returns its number.
    pub(crate) fn issue(&mut self, end: Lsn, term: Term) -> u64 {
        self.issued += 1;
        self.pending.push_back(Pending {
            number: self.issued,
            end,
            term,
        });
        self.issued
    }

    /// Records that this write and all before it are done. `false` when there is no such
    /// write.
    pub(crate) fn done(&mut self, number: u64) -> bool {
        if number > self.issued {
            return false;
        }
        while let Some(pending) = self.pending.front()
            && pending.number <= number
        {
            self.end = pending.end;
            self.term = pending.term;
            self.done = pending.number;
            self.pending.pop_front();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_written_again_counts_when_it_is_written() {
        let mut durability = Durability::new(Lsn(0), Term(1));
        let first = durability.issue(Lsn(3), Term(2));
        durability.truncated(Lsn(1));
        let second = durability.issue(Lsn(2), Term(3));
        let third = durability.issue(Lsn(3), Term(3));
        assert!(durability.done(first));
        assert_eq!((durability.end(), durability.term()), (Lsn(1), Term(2)));
        assert!(durability.done(second));
        assert_eq!((durability.end(), durability.term()), (Lsn(2), Term(3)));
        durability.truncated(Lsn(1));
        assert!(durability.done(third));
        assert_eq!(durability.end(), Lsn(1));
        assert!(!durability.done(third + 1));
    }
}
