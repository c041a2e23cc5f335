//! Log entries as consensus sees them.
//!
//! To consensus an entry is a range of the log, a term, and bytes that it does not
//! interpret. The owner of the log decides what an entry is: one frame, or all the frames
//! of a group commit. Entries have three kinds:
//!
//! | content | made by | meaning |
//! | --- | --- | --- |
//! | mark | a new leader, as the first entry of its term | the term begins here, with these members |
//! | membership | the leader, on request | the members from here on |
//! | payload | a proposal's caller | opaque to consensus |
//!
//! A mark repeats the membership in force, which costs a few bytes per term, so that a
//! node with an empty log receives its members together with the log.
//!
//! Invariant (the mark rule, FRS §6.4): the first entry of every term is its mark, and
//! no other entry of a term exists before its mark is committed.

use bytes::Bytes;
use coeval_types::{Lsn, Term};

use crate::membership::Membership;
use crate::position::Position;

/// A range of the log that is appended and removed as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Log offset at which the entry starts.
    pub start: Lsn,
    /// Log offset after its last byte. Always above `start`.
    pub end: Lsn,
    /// The term of the leader that made it.
    pub term: Term,
    /// The entry's content: mark, membership or payload.
    pub content: Content,
}

/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// A mark: the term begins here, with this membership.
    Mark(Membership),
    /// A membership change: the members from here on.
    Membership(Membership),
    /// A proposed payload.
    Payload(Bytes),
}

impl Entry {
    /// Length of the entry, in log offsets.
    #[must_use]
    pub const fn space(&self) -> u64 {
        self.end.0 - self.start.0
    }

    /// The prefix of the log that ends with this entry.
    #[must_use]
    pub const fn position(&self) -> Position {
        Position {
            term: self.term,
            end: self.end,
        }
    }

    /// Whether a term begins with it.
    #[must_use]
    pub const fn is_mark(&self) -> bool {
        matches!(self.content, Content::Mark(_))
    }

    /// The membership from its end on, if the entry carries one.
    #[must_use]
    pub const fn membership(&self) -> Option<&Membership> {
        match &self.content {
            Content::Mark(membership) | Content::Membership(membership) => Some(membership),
            Content::Payload(_) => None,
        }
    }
}

/// A mark without its membership: which term begins where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The term that begins.
    pub term: Term,
    /// Log offset at which the mark, and so the term, starts.
    pub start: Lsn,
    /// Log offset after the mark.
    pub end: Lsn,
}
