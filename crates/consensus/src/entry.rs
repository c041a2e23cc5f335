//! What the log is made of.
//!
//! To consensus an entry is a place, a term, and bytes that it does not look into.
//! Whoever owns the log decides what an entry is: one frame, or all the frames of a
//! group commit. Three kinds there are:
//!
//! | content | who makes it | meaning |
//! | --- | --- | --- |
//! | mark | a new leader, as the first entry of its term | where the term begins, and who takes part |
//! | membership | the leader, when asked | who takes part from here on |
//! | payload | whoever proposes | not ours |
//!
//! That a mark repeats the membership in force costs a few bytes a term, and gives a
//! node that starts with nothing its members together with the log.
//!
//! Invariant (the mark rule, FRS §6.4): the first entry of every term is its mark, and
//! no other entry of a term exists before its mark is committed.

use bytes::Bytes;
use coeval_types::{Lsn, Term};

use crate::membership::Membership;
use crate::position::Position;

/// A piece of the log that comes and goes as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its first place.
    pub start: Lsn,
    /// The place behind its last. Always above `start`.
    pub end: Lsn,
    /// The term of the leader that made it.
    pub term: Term,
    /// What it holds.
    pub content: Content,
}

/// What an entry holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// A term begins; who takes part in it.
    Mark(Membership),
    /// Who takes part from here on.
    Membership(Membership),
    /// What was proposed.
    Payload(Bytes),
}

impl Entry {
    /// How many places it takes.
    #[must_use]
    pub const fn space(&self) -> u64 {
        self.end.0 - self.start.0
    }

    /// The prefix of the log that ends with it.
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

    /// Who takes part from its end on, if it says so.
    #[must_use]
    pub const fn membership(&self) -> Option<&Membership> {
        match &self.content {
            Content::Mark(membership) | Content::Membership(membership) => Some(membership),
            Content::Payload(_) => None,
        }
    }
}

/// A mark as it is remembered: which term begins where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The term that begins.
    pub term: Term,
    /// The mark's first place, and the term's.
    pub start: Lsn,
    /// The place behind the mark.
    pub end: Lsn,
}
