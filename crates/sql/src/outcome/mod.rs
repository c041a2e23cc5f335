//! Transaction outcomes: lets a client that lost the answer to its COMMIT find out
//! whether the transaction committed.
//!
//! A transaction that asks for its number (`txid_current()`) is assigned one, and any
//! session can query its outcome (`txid_status()`) for a day. Other transactions pay no
//! cost.
//!
//! ```text
//!   begin … txid_current() ─▶ 41 ……… commit
//!                              │         │ a row "41", written by 41 itself:
//!             running: {41} ◀──┘         ▼ it exists exactly if 41 committed
//!             (in memory)        storage 4: … 38  40  41
//!
//!   txid_status(n)   n is not assigned yet      22023
//!                    n is below the horizon     null
//!                    n is running               in progress
//!                    row n exists               committed
//!                    otherwise                  aborted
//! ```
//!
//! The row is part of the commit, in the same log frame as the transaction's other
//! writes. So recovery, a restored backup and every node that replays the log have the
//! outcome exactly when they have the commit.
//!
//! A number consists of the term of the log's writer and a counter that restarts in
//! each term. Every start and every change of the writer raises the term, so numbers
//! grow and are unique without a record of the assigned ones; and a transaction of an
//! earlier term is known not to run.
//!
//! # Garbage collection of outcomes
//!
//! Transactions do not end in the order of their numbers, so the age of a number says
//! little about when its transaction ended. A *mark* does: a row which records that at
//! a given time every transaction below a given number had ended. When a mark is as old
//! as the retention time, it becomes the *horizon*, below which outcomes are unknown;
//! only then does the garbage collector remove the rows below it.
//!
//! ```text
//!    horizon 20          mark 35, 3 h ago           mark 52, 1 h ago      next 60
//!   ────┼───────────────────┼──────────────────────────┼────────────────────┤
//!   null    answered; removed when the mark at 35 is a day old
//! ```
//!
//! Invariants:
//! - A number is in the running set from its assignment until its transaction has
//!   ended, including its row: a reader that does not find it there finds the row's
//!   final state.
//! - The horizon is raised before any row below it is removed.
//! - A transaction whose outcome the process does not know stays *in progress* until
//!   the next start, when recovery decides it.

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

/// A transaction's number as clients see it. It differs from the engine's
/// [`coeval_types::TransactionId`], which restarts with every start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionNumber(pub(crate) u64);

impl TransactionNumber {
    /// Bits of the counter; with a term's 20 bits they fit a bigint.
    const COUNTER_BITS: u32 = 43;

    /// The number before the first one of a term.
    pub(crate) const fn before(term: Term) -> Self {
        Self((term.0 as u64) << Self::COUNTER_BITS)
    }

    /// The next number; `None` if the term's counter is exhausted.
    pub(crate) const fn next(self) -> Option<Self> {
        let next = self.0 + 1;
        if next.trailing_zeros() >= Self::COUNTER_BITS {
            None
        } else {
            Some(Self(next))
        }
    }
}
