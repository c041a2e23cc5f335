//! Whether a transaction has committed, for whoever did not hear its answer.
//!
//! A transaction that asks for its number (`txid_current()`) gets one, and can be asked
//! about by it from any session (`txid_status()`), for a day. Who does not ask pays
//! nothing.
//!
//! ```text
//!   begin … txid_current() ─▶ 41 ……… commit
//!                              │         │ a row "41", written by 41 itself:
//!             running: {41} ◀──┘         ▼ it is there exactly if 41 committed
//!             (in memory)        storage 4: … 38  40  41
//!
//!   txid_status(n)   n was not given out yet    22023
//!                    n is below the horizon     null
//!                    n is running               in progress
//!                    the row n is there         committed
//!                    otherwise                  aborted
//! ```
//!
//! The row is part of the commit, in one frame of the log with whatever else the
//! transaction has written. So recovery, a restored backup and every node that replays
//! the log have the answer when they have the commit, and only then.
//!
//! A number is the term of the log's writer above a counter that begins anew in each
//! term. A term is raised by every start and every change of the writer, so numbers
//! grow and none comes twice, although nobody writes down which have been given out;
//! and a transaction of an earlier term is known not to run.
//!
//! # How rows go
//!
//! The numbers in use do not end in the order in which they were given, so the age of
//! a number says little about how long ago its transaction ended. A *mark* does: a row
//! that says that at this time everything below this number had ended. A mark that is
//! as old as outcomes are kept becomes the *horizon*, below which nothing is known any
//! more, and only then the rows below it are removed.
//!
//! ```text
//!    horizon 20          mark 35, 3 h ago           mark 52, 1 h ago      next 60
//!   ────┼───────────────────┼──────────────────────────┼────────────────────┤
//!   null    answered; goes when the mark at 35 is a day old
//! ```
//!
//! Invariants:
//! - A number is among the running ones from the moment it is given until its
//!   transaction has ended, its row included: who does not find it there finds the
//!   final state of its row.
//! - The horizon is raised before any row below it goes.
//! - An outcome that the process has lost sight of stays *in progress* until the next
//!   start, which knows.

mod numbered;
mod outcomes;
mod store;
mod tend;
#[cfg(test)]
mod tests;

use coeval_types::Term;

pub(crate) use numbered::{Numbered, Open};
pub(crate) use outcomes::Outcomes;
pub use store::{OUTCOME_STORAGE, is_mark};
pub(crate) use store::{definition, insert, load, record_alone};
pub(crate) use tend::forget;

/// A transaction's number, as clients know it. Not the engine's
/// [`coeval_types::TransactionId`], which begins anew with every start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionNumber(pub(crate) u64);

impl TransactionNumber {
    /// Together with a term's 20 bits these fit a bigint.
    const COUNTER_BITS: u32 = 43;

    /// The first number of a term is one more than this.
    pub(crate) const fn before(term: Term) -> Self {
        Self((term.0 as u64) << Self::COUNTER_BITS)
    }

    /// The one after it, unless the term has no more.
    pub(crate) const fn next(self) -> Option<Self> {
        let next = self.0 + 1;
        if next.trailing_zeros() >= Self::COUNTER_BITS {
            None
        } else {
            Some(Self(next))
        }
    }
}
