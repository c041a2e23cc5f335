//! Marks of messages: how a leader says which message of a client's node a commit is of.
//!
//! A node that follows may take a commit that the leader makes for one of its messages for an
//! answer to readers that had asked before it sent the message. Then it has to know that the
//! commit was made after the message had come. The order of the answers does not say it: one
//! that was withdrawn leaves its commit to be told with the answer to a later message, and a
//! session's newest commit may be of any age. So the node puts marks, numbers that only it
//! understands, between its messages, and the leader returns the mark with the commit.
//!
//! ```text
//!   node      7 COMMIT           8 SELECT          9 COMMIT
//!   leader      80, withdrawn      ─                 96
//!   told                           (7, 80)           (9, 96)     never (8, 80)
//! ```
//!
//! Invariant: a commit is told with a mark that had come before its place in the log was
//! reserved. A session handles one message after the other, and notes its commit before it takes
//! the next, so a commit that is newer than the newest one at the time of the mark was reserved
//! after the mark.

use coeval_types::{Timestamp, planted};

/// The last mark that a session has taken, for the next commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkedMessages {
    open: Option<Open>,
}

/// A mark that no commit has been told with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    mark: u64,
    /// The session's newest commit when the mark came.
    before: Timestamp,
}

impl MarkedMessages {
    /// A mark has come; `newest` is the session's newest commit, zero if it has made none.
    pub const fn mark(&mut self, mark: u64, newest: Timestamp) {
        let before = newest;
        self.open = Some(Open { mark, before });
    }

    /// The mark to tell with the session's newest commit, once, if that commit was made after
    /// the mark had come.
    pub fn take(&mut self, newest: Timestamp) -> Option<u64> {
        let is_told = |open: &mut Open| {
            newest > open.before || newest > Timestamp::ZERO && planted!(StampByOldCommit)
        };
        self.open.take_if(is_told).map(|open| open.mark)
    }

    /// Whether [`MarkedMessages::take`] would return a mark.
    #[must_use]
    pub fn has_news(mut self, newest: Timestamp) -> bool {
        self.take(newest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use coeval_types::{Lsn, Term};

    use super::*;

    fn at(lsn: u64) -> Timestamp {
        Timestamp::new(Term(3), Lsn(lsn))
    }

    #[test]
    fn a_commit_is_told_once_with_the_mark_before_it() {
        let mut marked = MarkedMessages::default();
        assert_eq!(marked.take(at(64)), None, "no mark has come");
        marked.mark(7, at(64));
        assert_eq!(
            marked.take(at(64)),
            None,
            "it was made before the mark came"
        );
        assert!(marked.has_news(at(80)));
        assert_eq!(marked.take(at(80)), Some(7));
        assert_eq!(marked.take(at(96)), None);
        // Two messages under one mark.
        marked.mark(8, at(96));
        assert_eq!(marked.take(at(96)), None);
        assert_eq!(marked.take(at(112)), Some(8));
    }

    #[test]
    fn a_commit_that_was_not_told_is_not_told_with_a_later_mark() {
        let mut marked = MarkedMessages::default();
        marked.mark(7, Timestamp::ZERO);
        // It commits at 80, and its answer is withdrawn.
        marked.mark(8, at(80));
        assert_eq!(marked.take(at(80)), None);
        assert_eq!(marked.take(at(96)), Some(8));
    }
}
