//! Validation: checks at commit that nothing a transaction scanned has changed since its
//! snapshot.
//!
//! Point reads are checked one by one. Scans are checked by predicates over logical ranges,
//! against the writers that registered there (RV):
//!
//! ```text
//!   a scan has read [lower, upper)       note_scan    a predicate for each range
//!   a commit has locked all its writes   register     its keys, in their ranges
//!   it was assigned its timestamp        assigned
//!     SERIALIZABLE                       validate     has anything noted changed
//!                                                     between snapshot and own?
//!     if something has                   withdraw     later validators ignore its writes
//! ```
//!
//! With the feature `comparators` an engine may be created with a rival validator, which
//! answers the same questions in another way, on the same records, locks, snapshots and
//! log: `comparators`. Builds without it have range validation only.
//!
//! # Invariants
//!
//! - A transaction between `register` and `assigned` waits for nothing but slots, and
//!   `validate` waits only for transactions between these two.
//! - All transactions of an engine use one validator from start to end, including writers
//!   at lower isolation levels: it is chosen when the engine starts.
//! - A validator may report a false conflict, but never misses a real one.
//!
//! The validator is dispatched once for a scan, a written index or a commit, and never
//! for a record. Its work is counted in [`counts`].
//!
//! Sources: ROCC §3.2.2 and §3.3.

mod by_ranges;
#[cfg(feature = "comparators")]
pub mod comparators;
mod counts;
mod notes;

use coeval_storage::Snapshots;
use coeval_txn::{Cause, ConflictLocation, Error};
use coeval_types::{Timestamp, TransactionId};

use crate::ranges::committer::Committer;
use crate::ranges::interval::Interval;
use crate::ranges::map::{RangeMap, Space};
use crate::ranges::ring::Failure;
pub use counts::Validations;
pub(crate) use counts::{Counters, sum};
pub use notes::Notes;
pub(crate) use notes::clear;

/// The validator for scans of serializable transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Validator {
    /// Predicates over logical ranges, checked against the writers that registered there
    /// (RV).
    #[default]
    Ranges,
    /// A rival validator.
    #[cfg(feature = "comparators")]
    Rival(comparators::Plan),
}

impl Validator {
    /// The validator's name in the literature.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ranges => "rv",
            #[cfg(feature = "comparators")]
            Self::Rival(plan) => plan.name,
        }
    }
}

/// The validator of an engine, with its state for all transactions.
#[derive(Debug)]
pub(crate) enum Validation {
    Ranges,
    #[cfg(feature = "comparators")]
    Rival(Box<dyn comparators::Rival>),
}

/// Counts the transactions that a commit has checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    latest: Option<TransactionId>,
    count: u64,
}

impl Others {
    /// Counts a registration's owner, unless the previous registration was of the same
    /// one.
    #[inline]
    pub fn meet(&mut self, other: TransactionId) {
        if self.latest != Some(other) {
            self.latest = Some(other);
            self.count += 1;
        }
    }

    /// Adds transactions that were checked earlier.
    #[cfg(feature = "comparators")]
    pub fn add(&mut self, before: &Self) {
        self.count += before.count;
    }
}

/// A scanning transaction, as a validator needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct Scanner<'a> {
    /// The scanner's snapshot.
    pub snapshot: Timestamp,
    /// All registered snapshots, including the scanner's.
    #[cfg_attr(
        not(feature = "comparators"),
        expect(dead_code, reason = "a predicate starts at the scanner's own snapshot")
    )]
    pub snapshots: &'a Snapshots,
}

/// A visitor of the ranges of a space.
pub type VisitRanges<'visit> = dyn FnMut(&RangeMap) -> Result<(), Error> + 'visit;

/// Calls a visitor with the ranges of a space, and returns its result.
pub type WithRanges<'state> = dyn Fn(Space, &mut VisitRanges<'_>) -> Result<(), Error> + 'state;

impl Validation {
    /// The validator of an engine whose ranges have rings of this many slots.
    #[cfg_attr(
        not(feature = "comparators"),
        expect(unused_variables, reason = "ranges bring their own rings")
    )]
    pub(crate) fn new(validator: Validator, range_slots: usize) -> Self {
        match validator {
            Validator::Ranges => Self::Ranges,
            #[cfg(feature = "comparators")]
            Validator::Rival(plan) => Self::Rival((plan.make)(range_slots)),
        }
    }

    /// Whether rows that a scan returns enter the read set like point reads.
    #[inline]
    pub(crate) fn reads_rows_again(&self) -> bool {
        match self {
            Self::Ranges => false,
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.reads_rows_again(),
        }
    }

    /// Bytes up to which the next transaction keeps a read set's buffer: where scans fill
    /// the read set, large ones are usual.
    pub(crate) fn reads_kept(&self) -> usize {
        if self.reads_rows_again() { 1 << 20 } else { 0 }
    }

    /// Whether writers register only keys that had no row before.
    #[inline]
    pub(crate) fn registers_arrivals_only(&self) -> bool {
        match self {
            Self::Ranges => false,
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.registers_arrivals_only(),
        }
    }

    /// Notes that the scanner has read every key at or above `lower` and below `upper`,
    /// or has found that there is none.
    #[inline]
    pub(crate) fn note_scan(
        &self,
        notes: &mut Notes,
        ranges: &RangeMap,
        scanner: Scanner<'_>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        match self {
            Self::Ranges => by_ranges::note_scan(notes, ranges, scanner, lower, upper),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.note_scan(notes, ranges, scanner, lower, upper),
        }
    }

    /// Registers that `owner` writes these keys, which increase. The owner must then be
    /// assigned its timestamp without waiting for any other transaction.
    #[inline]
    pub(crate) fn register(
        &self,
        notes: &mut Notes,
        owner: TransactionId,
        ranges: &RangeMap,
        keys: &[&[u8]],
    ) {
        match self {
            Self::Ranges => by_ranges::register(notes, owner, ranges, keys),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.register(notes, owner, ranges, keys),
        }
    }

    /// Publishes the timestamp assigned to the owner of these registrations.
    #[inline]
    pub(crate) fn assigned(&self, notes: &Notes, timestamp: Timestamp) {
        match self {
            Self::Ranges => by_ranges::assigned(notes, timestamp),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.assigned(notes, timestamp),
        }
    }

    /// Withdraws the registrations of a transaction that failed after it was assigned
    /// this timestamp.
    pub(crate) fn withdraw(&self, notes: &Notes, timestamp: Timestamp) {
        match self {
            Self::Ranges => by_ranges::withdraw(notes, timestamp),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.withdraw(notes, timestamp),
        }
    }

    /// Checks that nothing noted has changed between the snapshot and the committer's own
    /// timestamp. `with_ranges` finds the ranges of a space. Adds each transaction that
    /// was checked to `others`.
    #[inline]
    pub(crate) fn validate(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
        others: &mut Others,
    ) -> Result<(), Error> {
        match self {
            Self::Ranges => by_ranges::validate(notes, committer, with_ranges, others),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.validate(notes, committer, with_ranges, others),
        }
    }

    /// After a refusal because a range has changed: whether a written key was certainly
    /// scanned. If not, a finer validator might have let the commit pass.
    pub(crate) fn is_certain(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
    ) -> bool {
        match self {
            Self::Ranges => by_ranges::is_certain(notes, committer, with_ranges),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.is_certain(notes, committer, with_ranges),
        }
    }
}

/// Whether the error is a conflict with a registration, and not an overflow: the ring may
/// have wrapped around since the validator first read it.
pub fn is_met(error: &Error) -> bool {
    matches!(error, Error::Conflict(conflict) if conflict.cause == Cause::RangeChanged)
}

/// The client's error for a scan that failed validation.
#[cold]
pub fn refusal(space: Space, interval: &Interval, failure: Failure) -> Error {
    let (cause, other) = match failure {
        Failure::Conflict(other) => (Cause::RangeChanged, Some(other)),
        Failure::Overflow => (Cause::RingOverflow, None),
    };
    let storage = space.storage;
    let place = match space.index {
        None => ConflictLocation::Table { storage },
        Some(index) => ConflictLocation::Range {
            storage,
            index,
            lower: interval.lower().to_vec(),
            upper: interval.upper().map(<[u8]>::to_vec),
        },
    };
    Error::conflict(cause, place, other)
}
