//! How a transaction finds out at its commit that nothing it scanned has changed.
//!
//! Point reads are checked one by one, whatever is chosen here. For
//! scans there are several ways, and all of them are asked the same questions:
//!
//! ```text
//!   a scan has looked at [lower, upper)   note_scan    what is remembered of it
//!   a commit has locked all it writes     register     what others can find
//!   it has drawn its timestamp            drawn
//!     SERIALIZABLE                        validate     has anything noted changed
//!                                                      between snapshot and own?
//!     if something has                    withdraw     nobody is to find it any more
//! ```
//!
//! | | a scan leaves | a writer leaves | a commit looks at |
//! | --- | --- | --- | --- |
//! | [`Validator::Ranges`] | a predicate for each logical range | its keys, in their ranges | registrations in those ranges since the snapshot |
//! | [`Validator::ReadSet`] | each row shown, and such predicates | keys that come, in their ranges | each of those rows once more, and keys that came |
//! | [`Validator::WriteList`] | what it looked at, once | its keys, in one list for all | everything in the list since the snapshot |
//! | [`Validator::WholeRanges`] | the ranges it touched | its keys, in their ranges | first all that a range keeps, then as with `Ranges`, but no key |
//!
//! The first is the engine's own, and the default. The others are there to be compared
//! with it, on the same records, locks, snapshots and log: [`read_set`], [`write_list`],
//! [`whole_ranges`].
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
//! Sources: ROCC §3.2.2 and §3.3 for predicates over logical ranges and for the first
//! two rivals, §3.6 for the third.

mod counts;
mod read_set;
mod whole_ranges;
mod write_list;

use coeval_storage::Snapshots;
use coeval_txn::{Cause, Error, Place};
use coeval_types::{Timestamp, TransactionId};

use crate::ranges::committer::Committer;
use crate::ranges::footprint::Footprint;
use crate::ranges::interval::Interval;
use crate::ranges::map::{RangeMap, Registration, Space};
use crate::ranges::predicate::Predicate;
use crate::ranges::ring::Failure;
use crate::settings::Settings;
pub use counts::Validations;
pub(crate) use counts::{Counters, sum};
use write_list::{Noted, WriteList};

/// How scans of serializable transactions are validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Validator {
    /// By predicates over logical ranges, against the writers that registered there
    /// (RV).
    #[default]
    Ranges,
    /// By reading every row again that was shown (LRV, as in Silo).
    ReadSet,
    /// Against all writers since the snapshot, from one list (GWV, as in HyPer).
    WriteList,
    /// By logical ranges without keys, whose writers are all looked at (MVRCC, after
    /// Deuteronomy).
    WholeRanges,
}

impl Validator {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Ranges,
        Self::ReadSet,
        Self::WriteList,
        Self::WholeRanges,
    ];

    /// Its name in the literature.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ranges => "rv",
            Self::ReadSet => "lrv",
            Self::WriteList => "gwv",
            Self::WholeRanges => "mvrcc",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|validator| validator.name() == name)
    }
}

/// The validator of an engine, with what it keeps for all transactions.
#[derive(Debug)]
pub(crate) enum Validation {
    Ranges,
    ReadSet,
    WriteList(Box<WriteList>),
    WholeRanges,
}

/// What one transaction has noted of its scans, and registered of its writes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Under all validators but one.
    predicates: Vec<Predicate>,
    registrations: Vec<Registration>,
    /// Under that one.
    noted: Noted,
    /// Others that were looked at when scans began.
    others: Others,
}

impl Notes {
    /// Whether any scan has left a note, or a key that was not there.
    pub(crate) fn has_scans(&self) -> bool {
        !self.predicates.is_empty() || self.noted.has_scans()
    }

    /// How many slots its writes have taken.
    pub(crate) fn registered(&self) -> usize {
        self.registrations.len() + self.noted.registered()
    }

    /// For the next transaction; buffers of more than `kept` bytes go.
    pub(crate) fn clear(&mut self, kept: usize) {
        clear(&mut self.predicates, kept);
        clear(&mut self.registrations, kept);
        self.noted.clear(kept);
        self.others = Others::default();
    }
}

/// Empties a list, and gives its memory back if that is more than `kept` bytes.
pub(crate) fn clear<T>(list: &mut Vec<T>, kept: usize) {
    list.clear();
    if list.capacity() * size_of::<T>() > kept {
        *list = Vec::new();
    }
}

/// The transactions that one has looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Others {
    latest: Option<TransactionId>,
    count: u64,
}

impl Others {
    /// A registration of this one was looked at; the next one may be its too.
    #[inline]
    fn meet(&mut self, other: TransactionId) {
        if self.latest != Some(other) {
            self.latest = Some(other);
            self.count += 1;
        }
    }
}

/// Who scans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    pub(crate) snapshot: Timestamp,
    /// All that are registered, the scanner's among them.
    pub(crate) snapshots: &'a Snapshots,
}

impl Validation {
    pub(crate) fn new(settings: &Settings) -> Self {
        match settings.validator {
            Validator::Ranges => Self::Ranges,
            Validator::ReadSet => Self::ReadSet,
            Validator::WriteList => Self::WriteList(Box::new(WriteList::new(settings.range_slots))),
            Validator::WholeRanges => Self::WholeRanges,
        }
    }

    /// Whether rows that a scan shows are point reads too.
    pub(crate) fn reads_rows_again(&self) -> bool {
        matches!(self, Self::ReadSet)
    }

    /// How many bytes of a read set the next transaction inherits at least: where scans
    /// fill it, large ones are usual.
    pub(crate) fn reads_kept(&self) -> usize {
        if self.reads_rows_again() { 1 << 20 } else { 0 }
    }

    /// Whether keys are registered only where there was no row with them before.
    pub(crate) fn registers_arrivals_only(&self) -> bool {
        matches!(self, Self::ReadSet)
    }

    /// The scanner has looked at every key at or above `lower` and below `upper`, or has
    /// found that there is none.
    pub(crate) fn note_scan(
        &self,
        notes: &mut Notes,
        ranges: &RangeMap,
        scanner: Scanner<'_>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        match self {
            Self::Ranges | Self::ReadSet => {
                ranges.predicates(lower, upper, &mut notes.predicates, |ring| {
                    ring.first_unsettled(scanner.snapshot)
                });
            }
            Self::WriteList(list) => {
                list.note_scan(&mut notes.noted, ranges.space(), scanner, lower, upper);
            }
            Self::WholeRanges => whole_ranges::note_scan(notes, ranges, scanner, lower, upper),
        }
    }

    /// `owner` writes these keys, which increase. It must then draw, waiting for
    /// nobody.
    pub(crate) fn register(
        &self,
        notes: &mut Notes,
        owner: TransactionId,
        ranges: &RangeMap,
        keys: &[&[u8]],
    ) {
        match self {
            Self::Ranges | Self::ReadSet | Self::WholeRanges => {
                ranges.register(owner, keys, &mut notes.registrations);
            }
            Self::WriteList(list) => {
                list.register(&mut notes.noted, owner, ranges.space(), keys);
            }
        }
    }

    /// The owner of these registrations has drawn this timestamp.
    pub(crate) fn drawn(&self, notes: &Notes, timestamp: Timestamp) {
        match self {
            Self::Ranges | Self::ReadSet | Self::WholeRanges => {
                for registration in &notes.registrations {
                    registration.drawn(timestamp);
                }
            }
            Self::WriteList(list) => list.drawn(&notes.noted, timestamp),
        }
    }

    /// The owner of these registrations has drawn this timestamp in vain.
    pub(crate) fn withdraw(&self, notes: &Notes, timestamp: Timestamp) {
        match self {
            Self::Ranges | Self::ReadSet | Self::WholeRanges => {
                for registration in &notes.registrations {
                    registration.aborted(timestamp);
                }
            }
            Self::WriteList(list) => list.withdraw(&notes.noted, timestamp),
        }
    }

    /// Whether nothing noted has changed between the snapshot and the committer's own
    /// timestamp. `with_ranges` finds the ranges of a space. Adds to `others` who was
    /// looked at.
    pub(crate) fn validate(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
        others: &mut Others,
    ) -> Result<(), Error> {
        match self {
            Self::Ranges | Self::ReadSet => each(notes, with_ranges, |ranges, predicate| {
                check(ranges, predicate, committer, |other, footprint, covers| {
                    others.meet(other);
                    covers || predicate.may_be_met(footprint)
                })
            }),
            Self::WriteList(list) => {
                list.validate(&notes.noted, committer, |other| others.meet(other))
            }
            Self::WholeRanges => {
                others.count += notes.others.count;
                each(notes, with_ranges, |ranges, predicate| {
                    check(ranges, predicate, committer, |other, _, _| {
                        others.meet(other);
                        true
                    })
                })
            }
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
            Self::Ranges | Self::ReadSet | Self::WholeRanges => {
                let beyond_doubt = each(notes, with_ranges, |ranges, predicate| {
                    let surely = |_, footprint: &Footprint, covers| {
                        covers || predicate.is_surely_met(footprint)
                    };
                    check(ranges, predicate, committer, surely)
                });
                beyond_doubt.is_err_and(|error| is_met(&error))
            }
            Self::WriteList(list) => list.is_certain(&notes.noted, committer),
        }
    }
}

/// Says something of the ranges of a space.
pub(crate) type VisitRanges<'visit> = dyn FnMut(&RangeMap) -> Result<(), Error> + 'visit;

/// Calls with the ranges of a space, and hands on what is said of them.
pub(crate) type WithRanges<'state> =
    dyn Fn(Space, &mut VisitRanges<'_>) -> Result<(), Error> + 'state;

/// Calls for each predicate, with the ranges of its space.
fn each(
    notes: &Notes,
    with_ranges: &WithRanges<'_>,
    mut visit: impl FnMut(&RangeMap, &Predicate) -> Result<(), Error>,
) -> Result<(), Error> {
    let of_space = |one: &Predicate, other: &Predicate| one.space() == other.space();
    let mut spaces = notes.predicates.chunk_by(of_space);
    spaces.try_for_each(|predicates| {
        with_ranges(predicates[0].space(), &mut |ranges| {
            predicates
                .iter()
                .try_for_each(|predicate| visit(ranges, predicate))
        })
    })
}

/// Checks a predicate, and says what the caller is told.
fn check(
    ranges: &RangeMap,
    predicate: &Predicate,
    committer: Committer,
    meets: impl FnMut(TransactionId, &Footprint, bool) -> bool,
) -> Result<(), Error> {
    predicate
        .validate(ranges, committer, meets)
        .map_err(|failure| refusal(predicate.space(), predicate.interval(), failure))
}

/// Whether somebody was met. A ring may have gone round since it was looked at first.
fn is_met(error: &Error) -> bool {
    matches!(error, Error::Conflict(conflict) if conflict.cause == Cause::RangeChanged)
}

/// What the caller is told.
#[cold]
fn refusal(space: Space, interval: &Interval, failure: Failure) -> Error {
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
