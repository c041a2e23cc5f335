//! Node ids, and positions in the log.
//!
//! An [`Lsn`] counts from the beginning of the log; an entry covers the offsets from its
//! `start` up to and not including its `end`. A *position* is an end together with the
//! term of the entry that ends there. Two logs that share a position share everything
//! before it (log matching), so a position names a whole prefix.
//!
//! ```text
//!  start 0    32        64        96
//!        | S₁ | a       | b       |
//!        Position { term: 1, end: 64 } names S₁ and a
//! ```

use std::fmt;

use coeval_types::{Lsn, Term};

pub use coeval_types::NodeId;

/// The end of a prefix of the log, and the term of the prefix's last entry.
///
/// The order is Raft's "at least as up to date": by term, then by length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The term of the last entry; 0 of an empty log.
    pub term: Term,
    /// Log offset at which the next entry starts.
    pub end: Lsn,
}

impl Position {
    /// The position of an empty log.
    pub const EMPTY: Self = Self::new(0, 0);

    /// Makes a position from its numbers.
    #[must_use]
    pub const fn new(term: u32, end: u64) -> Self {
        Self {
            term: Term(term),
            end: Lsn(end),
        }
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.term.0, self.end.0)
    }
}
