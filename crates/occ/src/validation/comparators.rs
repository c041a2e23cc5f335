//! Comparators: the interface for rival validators, which are plugged into an engine for
//! measurements.
//!
//! The engine calls a rival where it would call [`super::Validation`], at the same
//! moments; the default methods validate by ranges. A rival keeps the state of one
//! transaction in that transaction's [`Notes`], next to predicates and registrations, and
//! the state of the engine in itself.
//!
//! ```text
//!   Settings::validator = Validator::Rival(Plan { name, make })
//!     start of the engine      make(slots)                  one rival for all
//!     scans, commits           note_scan, register, …       Notes::of_rival
//!     end of a transaction     RivalNotes::clear
//! ```
//!
//! The invariants are those of [the parent module](super).

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};

use coeval_txn::Error;
use coeval_types::{Timestamp, TransactionId};

use super::by_ranges;
pub use super::{Notes, Others, Scanner, WithRanges, is_met, notes::clear, refusal};
pub use crate::ranges::committer::Committer;
pub use crate::ranges::footprint::Footprint;
pub use crate::ranges::interval::Interval;
pub use crate::ranges::map::{RangeMap, Space};
pub use crate::ranges::ring::{Failure, Ring};

/// A named constructor of rivals.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The rival's name in the literature.
    pub name: &'static str,
    /// Creates a rival for an engine whose ranges have rings of this many slots.
    pub make: fn(usize) -> Box<dyn Rival>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Plan {}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.name.hash(hasher);
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// An alternative way to validate scans.
pub trait Rival: fmt::Debug + Send + Sync {
    /// Whether rows that a scan returns enter the read set like point reads.
    fn reads_rows_again(&self) -> bool {
        false
    }

    /// Whether writers register only keys that had no row before.
    fn registers_arrivals_only(&self) -> bool {
        false
    }

    /// Called when the scanner has read every key at or above `lower` and below `upper`,
    /// or has found that there is none.
    fn note_scan(
        &self,
        notes: &mut Notes,
        ranges: &RangeMap,
        scanner: Scanner<'_>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        by_ranges::note_scan(notes, ranges, scanner, lower, upper);
    }

    /// Registers that `owner` writes these keys, which increase. The owner is assigned
    /// its timestamp next, without waiting for any other transaction.
    fn register(&self, notes: &mut Notes, owner: TransactionId, ranges: &RangeMap, keys: &[&[u8]]) {
        by_ranges::register(notes, owner, ranges, keys);
    }

    /// Called when the owner of these registrations was assigned this timestamp.
    fn assigned(&self, notes: &Notes, timestamp: Timestamp) {
        by_ranges::assigned(notes, timestamp);
    }

    /// Called when the owner of these registrations failed after it was assigned this
    /// timestamp.
    fn withdraw(&self, notes: &Notes, timestamp: Timestamp) {
        by_ranges::withdraw(notes, timestamp);
    }

    /// Checks that nothing noted has changed between the snapshot and the committer's own
    /// timestamp. `with_ranges` finds the ranges of a space. Adds each transaction that
    /// was checked to `others`.
    ///
    /// # Errors
    /// When a noted key has changed, or may have.
    fn validate(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
        others: &mut Others,
    ) -> Result<(), Error> {
        by_ranges::validate(notes, committer, with_ranges, others)
    }

    /// Called after a refusal because a range has changed: whether a written key was
    /// certainly scanned.
    fn is_certain(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
    ) -> bool {
        by_ranges::is_certain(notes, committer, with_ranges)
    }
}

/// A rival's state for one transaction, reused by later transactions with the same notes.
pub trait RivalNotes: Any + fmt::Debug + Send {
    /// Whether any scan has left a note.
    fn has_scans(&self) -> bool;

    /// Number of slots that the transaction's writes have taken.
    fn registered(&self) -> usize;

    /// Clears the notes for the next transaction, and frees buffers of more than `kept`
    /// bytes.
    fn clear(&mut self, kept: usize);
}

impl Notes {
    /// The rival's state, which the first call creates.
    ///
    /// # Panics
    /// When the state is of another type than `T`.
    pub fn of_rival<T: RivalNotes + Default>(&mut self) -> &mut T {
        let notes = self.of_rival.get_or_insert_with(|| Box::<T>::default());
        let notes: &mut dyn Any = &mut **notes;
        notes.downcast_mut().expect("an engine has one rival")
    }

    /// As [`Self::of_rival`], if the state was created.
    #[must_use]
    pub fn left_by_rival<T: RivalNotes>(&self) -> Option<&T> {
        let notes: &dyn Any = &**self.of_rival.as_ref()?;
        notes.downcast_ref()
    }

    /// Leaves a predicate for each range that a scan has touched, as range validation
    /// does; `start` returns the first position to check in a range's ring.
    pub fn leave_predicates(
        &mut self,
        ranges: &RangeMap,
        lower: &[u8],
        upper: Option<&[u8]>,
        start: impl FnMut(&Ring) -> u64,
    ) {
        ranges.predicates(lower, upper, &mut self.predicates, start);
    }

    /// Checks that no other transaction has written any key in the ranges of these
    /// predicates; calls `look` with each that has.
    ///
    /// # Errors
    /// When another transaction has written there, or may have.
    pub fn validate_whole_ranges(
        &self,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
        mut look: impl FnMut(TransactionId),
    ) -> Result<(), Error> {
        by_ranges::check(self, committer, with_ranges, |_, other, _, _| {
            look(other);
            true
        })
    }
}
