//! Range validation (RV): a scan leaves a predicate for each logical range, a writer
//! registers its keys in their ranges, and a commit checks the registrations in those
//! ranges since its snapshot.

use coeval_txn::Error;
use coeval_types::{Timestamp, TransactionId};

use super::{Notes, Others, Scanner, WithRanges, is_met, refusal};
use crate::ranges::committer::Committer;
use crate::ranges::footprint::Footprint;
use crate::ranges::map::RangeMap;
use crate::ranges::predicate::Predicate;

#[inline]
pub(super) fn note_scan(
    notes: &mut Notes,
    ranges: &RangeMap,
    scanner: Scanner<'_>,
    lower: &[u8],
    upper: Option<&[u8]>,
) {
    ranges.predicates(lower, upper, &mut notes.predicates, |ring| {
        ring.first_unsettled(scanner.snapshot)
    });
}

#[inline]
pub(super) fn register(notes: &mut Notes, owner: TransactionId, ranges: &RangeMap, keys: &[&[u8]]) {
    ranges.register(owner, keys, &mut notes.registrations);
}

#[inline]
pub(super) fn assigned(notes: &Notes, timestamp: Timestamp) {
    for registration in &notes.registrations {
        registration.assigned(timestamp);
    }
}

pub(super) fn withdraw(notes: &Notes, timestamp: Timestamp) {
    for registration in &notes.registrations {
        registration.aborted(timestamp);
    }
}

#[inline]
pub(super) fn validate(
    notes: &Notes,
    committer: Committer,
    with_ranges: &WithRanges<'_>,
    others: &mut Others,
) -> Result<(), Error> {
    check(
        notes,
        committer,
        with_ranges,
        |predicate, other, footprint, covers| {
            others.meet(other);
            covers || predicate.may_be_met(footprint)
        },
    )
}

pub(super) fn is_certain(
    notes: &Notes,
    committer: Committer,
    with_ranges: &WithRanges<'_>,
) -> bool {
    check(
        notes,
        committer,
        with_ranges,
        |predicate, _, footprint, covers| covers || predicate.is_surely_met(footprint),
    )
    .is_err_and(|error| is_met(&error))
}

/// Checks each predicate in the ranges of its space, and turns a failure into the
/// client's error. `meets` returns whether a registration is a conflict; its argument
/// says whether the predicate covers the range.
#[inline]
pub(super) fn check(
    notes: &Notes,
    committer: Committer,
    with_ranges: &WithRanges<'_>,
    mut meets: impl FnMut(&Predicate, TransactionId, &Footprint, bool) -> bool,
) -> Result<(), Error> {
    let of_space = |one: &Predicate, other: &Predicate| one.space() == other.space();
    let mut spaces = notes.predicates.chunk_by(of_space);
    spaces.try_for_each(|predicates| {
        with_ranges(predicates[0].space(), &mut |ranges| {
            predicates.iter().try_for_each(|predicate| {
                predicate
                    .validate(ranges, committer, |other, footprint, covers| {
                        meets(predicate, other, footprint, covers)
                    })
                    .map_err(|failure| refusal(predicate.space(), predicate.interval(), failure))
            })
        })
    })
}
