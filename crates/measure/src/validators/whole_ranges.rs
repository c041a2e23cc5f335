//! Validation by logical ranges without keys (MVRCC): after Deuteronomy, as ROCC §3.6
//! compares it.
//!
//! In Deuteronomy transactions are ordered by their start, a range has a list of its
//! writers, and a scan reads the whole list of each range that it touches, including the
//! ranges at its ends. Here transactions are ordered by the log, in which a transaction's
//! offset is reserved at commit; read timestamps, which make later writers abort, have no
//! meaning in that order. Two properties remain, which the comparison measures:
//!
//! ```text
//!   keys    a ········ g ········ n ········ z
//!           [ range 1 )[ range 2 )[ range 3  )
//!   scan           d ─────────── p              touches ranges 1, 2 and 3
//!   list of 1   b 12 │ e 31 │ a 17 │ c 44       not in the order of timestamps: the scan
//!                                               reads all of it before it ends
//!   commit      a writer in 1, 2 or 3 with a timestamp between the snapshot and the
//!               commit is a conflict, c 44 as well
//! ```
//!
//! - *The whole list.* A list keeps every writer that some running transaction may still
//!   have to check. That is longer than the part that this transaction has to check, by
//!   as much as the oldest snapshot is older than its own.
//! - *The whole range.* No key is compared, so writes outside the scan's ends are
//!   conflicts.

use coeval_occ::comparators::{
    Committer, Notes, Others, RangeMap, Rival, RivalNotes, Scanner, WithRanges,
};
use coeval_txn::Error;
use coeval_types::Timestamp;

/// The validator by logical ranges without keys (MVRCC).
#[derive(Debug)]
pub(super) struct WholeRanges;

/// Writers that were checked when scans began.
#[derive(Clone, Copy, Debug, Default)]
struct Met(Others);

impl RivalNotes for Met {
    fn has_scans(&self) -> bool {
        false
    }

    fn registered(&self) -> usize {
        0
    }

    fn clear(&mut self, _: usize) {
        *self = Self::default();
    }
}

impl Rival for WholeRanges {
    fn note_scan(
        &self,
        notes: &mut Notes,
        ranges: &RangeMap,
        scanner: Scanner<'_>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        let Met(mut others) = *notes.of_rival();
        let mut oldest: Option<Timestamp> = None;
        notes.leave_predicates(ranges, lower, upper, |ring| {
            let oldest = *oldest.get_or_insert_with(|| {
                let oldest = scanner.snapshots.oldest();
                oldest.map_or(scanner.snapshot, |oldest| oldest.min(scanner.snapshot))
            });
            ring.first_unsettled_of_all(oldest, scanner.snapshot, |other| others.meet(other))
        });
        *notes.of_rival() = Met(others);
    }

    fn validate(
        &self,
        notes: &Notes,
        committer: Committer,
        with_ranges: &WithRanges<'_>,
        others: &mut Others,
    ) -> Result<(), Error> {
        if let Some(Met(before)) = notes.left_by_rival() {
            others.add(before);
        }
        notes.validate_whole_ranges(committer, with_ranges, |other| others.meet(other))
    }
}
