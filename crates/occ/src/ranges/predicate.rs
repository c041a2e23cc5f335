//! Predicates: the scanned interval that a transaction leaves in each range, and its
//! validation at commit.
//!
//! A predicate names its range by number. When the scan's transaction commits, that range
//! may have been replaced; then the validator checks the ranges that now cover the same
//! keys. They know every registration that the replaced ranges knew and that any running
//! transaction has to check, or report that they do not (overflow). So a predicate keeps
//! no range alive, and a scan changes no shared reference count.

use coeval_types::TransactionId;

use super::committer::Committer;
use super::footprint::Footprint;
use super::interval::Interval;
use super::map::{RangeMap, Space};
use super::range::Range;
use super::ring::Failure;

/// Number of recent predicates that are searched for one that the next chunk of a scan
/// continues. More than one, because a chunk that is scanned backwards leaves its last
/// range first.
const CONTINUED: usize = 4;

/// States that no key of an interval in one range changes after the scan's snapshot.
#[derive(Debug)]
pub(crate) struct Predicate {
    space: Space,
    /// The range's number, and its position in the map at the time of the scan.
    range: u64,
    at: usize,
    /// First unsettled position of the range's ring at the time of the scan.
    start: u64,
    /// Whether a scan of the whole space left the predicate.
    whole: bool,
    interval: Interval,
}

/// Extends one of the latest predicates, if it is on this range and adjacent to these
/// keys.
pub(super) fn continue_one(
    predicates: &mut [Predicate],
    space: Space,
    range: &Range,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> bool {
    let latest = predicates.iter_mut().rev().take(CONTINUED);
    let mut its =
        latest.filter(|predicate| predicate.range == range.id && predicate.space == space);
    its.any(|predicate| predicate.interval.extend(lower, upper))
}

impl Predicate {
    /// The key space that the predicate is about.
    pub(crate) fn space(&self) -> Space {
        self.space
    }

    pub(crate) fn interval(&self) -> &Interval {
        &self.interval
    }

    pub(super) fn is_of_whole(&self, space: Space) -> bool {
        self.whole && self.space == space
    }

    /// A predicate on a part of `range`, which is at this position in the map.
    pub(super) fn new(
        (space, at, whole): (Space, usize, bool),
        range: &Range,
        start: u64,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Self {
        Self {
            space,
            range: range.id,
            at,
            start,
            whole,
            interval: Interval::new(lower, upper),
        }
    }

    pub(super) fn covers(&self, range: &Range) -> bool {
        self.interval.covers(&range.lower, range.upper.as_deref())
    }

    fn is_above(&self, range: &Range) -> bool {
        self.interval.is_above(range.upper.as_deref())
    }

    fn is_below(&self, range: &Range) -> bool {
        self.interval.is_below(&range.lower)
    }

    /// Checks the predicate against every transaction that was assigned a timestamp
    /// between the committer's snapshot and its own. For each registration of such a
    /// transaction in the predicate's ranges, `meets` returns whether it is a conflict;
    /// its argument says whether the predicate covers the range, and then no key need be
    /// compared.
    pub(crate) fn validate(
        &self,
        ranges: &RangeMap,
        committer: Committer,
        mut meets: impl FnMut(TransactionId, &Footprint, bool) -> bool,
    ) -> Result<(), Failure> {
        let map = ranges.map();
        let its = map.ranges().get(self.at);
        let checked = match its.filter(|range| range.id == self.range) {
            Some(range) => self.check(range, committer, &mut meets),
            None => map.ranges()[map.position(self.interval.lower())..]
                .iter()
                .take_while(|range| !self.is_below(range))
                .try_fold(0, |in_vain, range| {
                    Ok(in_vain + self.check(range, committer, &mut meets)?)
                }),
        };
        // A failure may be due to the coarseness of a range.
        ranges.demand.note(checked.unwrap_or(1));
        checked.map(drop)
    }

    /// Whether a registration may be of a key of the predicate.
    pub(crate) fn may_be_met(&self, footprint: &Footprint) -> bool {
        footprint.may_meet(self.interval.lower(), self.interval.upper())
    }

    /// Whether a registration is certainly of a key of the predicate.
    pub(crate) fn is_surely_met(&self, footprint: &Footprint) -> bool {
        footprint.surely_meets(self.interval.lower(), self.interval.upper())
    }

    /// Checks the registrations of a range, and those of its successors. Returns how many
    /// were checked in vain.
    fn check(
        &self,
        range: &Range,
        committer: Committer,
        meets: &mut impl FnMut(TransactionId, &Footprint, bool) -> bool,
    ) -> Result<u64, Failure> {
        let start = if range.id == self.range {
            self.start
        } else {
            range.ring.first_unsettled(committer.snapshot)
        };
        let covers = self.covers(range);
        let checked = range.ring.validate(start, committer, |owner, footprint| {
            meets(owner, footprint, covers)
        });
        if checked == Err(Failure::Overflow) {
            range.note_overflow();
        }
        let mut in_vain = checked?;
        #[cfg(shuttle)]
        if super::faults::NO_LINKS.is_there() {
            return Ok(in_vain);
        }
        for successor in range.successors().unwrap_or_default() {
            if !self.is_above(successor) && !self.is_below(successor) {
                in_vain += self.check(successor, committer, meets)?;
            }
        }
        Ok(in_vain)
    }
}
