//! Validation: how a transaction finds out at its commit that nothing it scanned has
//! changed.
//!
//! Point reads are checked one by one. Scans are checked by predicates over logical ranges,
//! against the writers that registered there (RV):
//!
//! ```text
//!   a scan has looked at [lower, upper)   note_scan    a predicate for each range
//!   a commit has locked all it writes     register     its keys, in their ranges
//!   it has drawn its timestamp            drawn
//!     SERIALIZABLE                        validate     has anything noted changed
//!                                                      between snapshot and own?
//!     if something has                    withdraw     nobody is to find it any more
//! ```
//!
//! With the feature `comparators` an engine may be made with a rival that answers the same
//! questions in another way, on the same records, locks, snapshots and log: `comparators`.
//! Builds without it have ranges and no choice.
//!
//! # Invariants
//!
//! - Nothing waits between `register` and `drawn` but for room, and `validate` waits
//!   only for those who stand between these two.
//! - All transactions of an engine are under one validator from start to end, writers
//!   at lower levels too: it is chosen when the engine starts.
//! - An answer may err by a conflict where there is none, never by missing one.
//!
//! The way is chosen once for a scan, an index written or a commit, and never for a
//! record. What it costs is counted in [`counts`].
//!
//! Sources: ROCC §3.2.2 and §3.3.

mod by_ranges;
#[cfg(feature = "comparators")]
pub mod comparators;
mod counts;
mod notes;

use coeval_storage::Snapshots;
use coeval_txn::{Cause, Error, Place};
use coeval_types::{Timestamp, TransactionId};

use crate::ranges::committer::Committer;
use crate::ranges::interval::Interval;
use crate::ranges::map::{RangeMap, Space};
use crate::ranges::ring::Failure;
pub use counts::Validations;
pub(crate) use counts::{Counters, sum};
pub use notes::Notes;
pub(crate) use notes::clear;

/// How scans of serializable transactions are validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Validator {
    /// By predicates over logical ranges, against the writers that registered there
    /// (RV).
    #[default]
    Ranges,
    /// As a rival does it.
    #[cfg(feature = "comparators")]
    Rival(comparators::Plan),
}

impl Validator {
    /// Its name in the literature.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ranges => "rv",
            #[cfg(feature = "comparators")]
            Self::Rival(plan) => plan.name,
        }
    }
}

/// The validator of an engine, with what it keeps for all transactions.
#[derive(Debug)]
pub(crate) enum Validation {
    Ranges,
    #[cfg(feature = "comparators")]
    Rival(Box<dyn comparators::Rival>),
}

/// The transactions that one has looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    latest: Option<TransactionId>,
    count: u64,
}

impl Others {
    /// A registration of this one was looked at; the next one may be its too.
    #[inline]
    pub fn meet(&mut self, other: TransactionId) {
        if self.latest != Some(other) {
            self.latest = Some(other);
            self.count += 1;
        }
    }

    /// So many others were looked at before.
    #[cfg(feature = "comparators")]
    pub fn add(&mut self, before: &Self) {
        self.count += before.count;
    }
}

/// Who scans.
#[derive(Clone, Copy, Debug)]
pub struct Scanner<'a> {
    /// What it sees.
    pub snapshot: Timestamp,
    /// All that are registered, the scanner's among them.
    #[cfg_attr(
        not(feature = "comparators"),
        expect(dead_code, reason = "a predicate starts at the scanner's own snapshot")
    )]
    pub snapshots: &'a Snapshots,
}

/// Says something of the ranges of a space.
pub type VisitRanges<'visit> = dyn FnMut(&RangeMap) -> Result<(), Error> + 'visit;

/// Calls with the ranges of a space, and hands on what is said of them.
pub type WithRanges<'state> = dyn Fn(Space, &mut VisitRanges<'_>) -> Result<(), Error> + 'state;

impl Validation {
    /// An engine's, whose ranges have rings of so many slots.
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

    /// Whether rows that a scan shows are point reads too.
    #[inline]
    pub(crate) fn reads_rows_again(&self) -> bool {
        match self {
            Self::Ranges => false,
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.reads_rows_again(),
        }
    }

    /// How many bytes of a read set the next transaction inherits at least: where scans
    /// fill it, large ones are usual.
    pub(crate) fn reads_kept(&self) -> usize {
        if self.reads_rows_again() { 1 << 20 } else { 0 }
    }

    /// Whether keys are registered only where there was no row with them before.
    #[inline]
    pub(crate) fn registers_arrivals_only(&self) -> bool {
        match self {
            Self::Ranges => false,
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.registers_arrivals_only(),
        }
    }

    /// The scanner has looked at every key at or above `lower` and below `upper`, or has
    /// found that there is none.
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

    /// `owner` writes these keys, which increase. It must then draw, waiting for
    /// nobody.
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

    /// The owner of these registrations has drawn this timestamp.
    #[inline]
    pub(crate) fn drawn(&self, notes: &Notes, timestamp: Timestamp) {
        match self {
            Self::Ranges => by_ranges::drawn(notes, timestamp),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.drawn(notes, timestamp),
        }
    }

    /// The owner of these registrations has drawn this timestamp in vain.
    pub(crate) fn withdraw(&self, notes: &Notes, timestamp: Timestamp) {
        match self {
            Self::Ranges => by_ranges::withdraw(notes, timestamp),
            #[cfg(feature = "comparators")]
            Self::Rival(rival) => rival.withdraw(notes, timestamp),
        }
    }

    /// Whether nothing noted has changed between the snapshot and the committer's own
    /// timestamp. `with_ranges` finds the ranges of a space. Adds to `others` who was
    /// looked at.
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

    /// After a refusal because a range has changed: whether a key that was written
    /// lies in what was scanned, beyond doubt. If not, a finer validator might have
    /// let the committer pass.
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

/// Whether somebody was met. A ring may have gone round since it was looked at first.
pub fn is_met(error: &Error) -> bool {
    matches!(error, Error::Conflict(conflict) if conflict.cause == Cause::RangeChanged)
}

/// What the caller is told of a scan that does not hold.
#[cold]
pub fn refusal(space: Space, interval: &Interval, failure: Failure) -> Error {
    let (cause, other) = match failure {
        Failure::Conflict(other) => (Cause::RangeChanged, Some(other)),
        Failure::Overflow => (Cause::RingOverflow, None),
    };
    let storage = space.storage;
    let place = match space.index {
        None => Place::Table { storage },
        Some(index) => Place::Range {
            storage,
            index,
            lower: interval.lower().to_vec(),
            upper: interval.upper().map(<[u8]>::to_vec),
        },
    };
    Error::conflict(cause, place, other)
}
