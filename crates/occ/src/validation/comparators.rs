//! Comparators: rival validators, plugged into an engine for measurements.
//!
//! A rival is asked what [`super::Validation`] is asked, at the same moments, and what it
//! does not say otherwise is done by ranges. What it keeps of one transaction it puts into
//! that transaction's [`Notes`], next to predicates and registrations; what it keeps for all
//! of them it is itself.
//!
//! ```text
//!   Settings::validator = Validator::Rival(Plan { name, make })
//!     start of the engine      make(slots)                  one rival for all
//!     scans, commits           note_scan, register, …       Notes::of_rival
//!     end of a transaction     RivalNotes::clear
//! ```
//!
//! The invariants are those of [the module above](super).

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

/// A rival, to be made for an engine.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Its name in the literature.
    pub name: &'static str,
    /// Makes one for an engine whose ranges have rings of so many slots.
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

/// Another way to validate scans.
pub trait Rival: fmt::Debug + Send + Sync {
    /// Whether rows that a scan shows are point reads too.
    fn reads_rows_again(&self) -> bool {
        false
    }

    /// Whether keys are registered only where there was no row with them before.
    fn registers_arrivals_only(&self) -> bool {
        false
    }

    /// The scanner has looked at every key at or above `lower` and below `upper`, or has
    /// found that there is none.
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

    /// `owner` writes these keys, which increase. It draws next, waiting for nobody.
    fn register(&self, notes: &mut Notes, owner: TransactionId, ranges: &RangeMap, keys: &[&[u8]]) {
        by_ranges::register(notes, owner, ranges, keys);
    }

    /// The owner of these registrations has drawn this timestamp.
    fn drawn(&self, notes: &Notes, timestamp: Timestamp) {
        by_ranges::drawn(notes, timestamp);
    }

    /// The owner of these registrations has drawn this timestamp in vain.
    fn withdraw(&self, notes: &Notes, timestamp: Timestamp) {
        by_ranges::withdraw(notes, timestamp);
    }

    /// Whether nothing noted has changed between the snapshot and the committer's own
    /// timestamp. `with_ranges` finds the ranges of a space. Adds to `others` who was
    /// looked at.
    ///
    /// # Errors
    /// When something has, or may have.
    fn validate(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
        others: &mut Others,
    ) -> Result<(), Error> {
        by_ranges::validate(notes, committer, with_ranges, others)
    }

    /// After a refusal because a range has changed: whether a key that was written lies in
    /// what was scanned, beyond doubt.
    fn is_certain(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
    ) -> bool {
        by_ranges::is_certain(notes, committer, with_ranges)
    }
}

/// What a rival keeps of one transaction, and of the next ones that have the same notes.
pub trait RivalNotes: Any + fmt::Debug + Send {
    /// Whether any scan has left something here.
    fn has_scans(&self) -> bool;

    /// How many slots its writes have taken.
    fn registered(&self) -> usize;

    /// For the next transaction; buffers of more than `kept` bytes go.
    fn clear(&mut self, kept: usize);
}

impl Notes {
    /// What the rival of the engine keeps here; made when it is first asked for.
    ///
    /// # Panics
    /// When it is of another type than before.
    pub fn of_rival<T: RivalNotes + Default>(&mut self) -> &mut T {
        let notes = self.of_rival.get_or_insert_with(|| Box::<T>::default());
        let notes: &mut dyn Any = &mut **notes;
        notes.downcast_mut().expect("an engine has one rival")
    }

    /// The same, if it was ever asked for.
    #[must_use]
    pub fn left_by_rival<T: RivalNotes>(&self) -> Option<&T> {
        let notes: &dyn Any = &**self.of_rival.as_ref()?;
        notes.downcast_ref()
    }

    /// Leaves a predicate for each range that a scan has touched, as ranges do; `start` says
    /// from where on in a range's ring its commit looks.
    pub fn leave_predicates(
        &mut self,
        ranges: &RangeMap,
        lower: &[u8],
        upper: Option<&[u8]>,
        start: impl FnMut(&Ring) -> u64,
    ) {
        ranges.predicates(lower, upper, &mut self.predicates, start);
    }

    /// Whether nobody has written anything in the ranges of these predicates; `look` is
    /// called with who has.
    ///
    /// # Errors
    /// When somebody has, or may have.
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
