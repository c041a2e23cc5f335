//! Global write-set validation (GWV), as in HyPer: the validator checks all writers since
//! the snapshot, from one list.
//!
//! ```text
//!   list      … │ t: k 12 │ u: a 17 │ t: x 12 │ v: m 21 │ …      keys of every index
//!                                       ▲ start                   and table, as they
//!   scan of [d, p) in t at snapshot 15                            are registered
//!   commit at 30     x of t and m of v are checked: neither is in [d, p) of t
//! ```
//!
//! The list is one [`Ring`] for the whole engine. A scan notes the interval it has
//! scanned; a commit goes through the list once, from the first position that was not
//! settled when its transaction first scanned, and compares each registration with all
//! intervals of its scans. So validation costs in proportion to the number of writers,
//! wherever they write.
//!
//! Registrations carry a tag of 31 bits that distinguishes spaces. Two spaces with the
//! same tag can only cause a false conflict.
//!
//! A transaction takes at most a 64th of the list's slots; further writes are registered
//! as intervals. A slot cannot be overwritten before its writer's timestamp is assigned,
//! so the slots of all threads that commit at once have to fit with plenty left over.

use std::cell::Cell;

use coeval_occ::comparators::{
    Committer, Footprint, Interval, Notes, Others, RangeMap, Ring, Rival, RivalNotes, Scanner,
    Space, WithRanges, clear, is_met, refusal,
};
use coeval_txn::Error;
use coeval_types::{Timestamp, TransactionId};

/// Length of the list as a multiple of a range's ring.
const TIMES_A_RING: usize = 16;

/// Divisor of the list's length: the part of it that one transaction takes at most.
const PART: usize = 64;

/// The list of the writers in all spaces.
#[derive(Debug)]
pub(super) struct WriteList {
    ring: Ring,
    slots: usize,
}

/// Intervals that one transaction has scanned, and positions it has registered.
#[derive(Debug, Default)]
struct WriteListNotes {
    /// Scanned keys, which no other transaction may write.
    intervals: Vec<(Space, Interval)>,
    /// The first position that was not settled when the first interval was noted.
    start: u64,
    positions: Vec<u64>,
}

impl RivalNotes for WriteListNotes {
    fn has_scans(&self) -> bool {
        !self.intervals.is_empty()
    }

    fn registered(&self) -> usize {
        self.positions.len()
    }

    fn clear(&mut self, kept: usize) {
        clear(&mut self.intervals, kept);
        clear(&mut self.positions, kept);
    }
}

/// The tag of registrations in this space.
fn tag(space: Space) -> u64 {
    let index = space.index.map_or(0, |index| u64::from(index.0) + 1);
    let word = (u64::from(space.storage.0) << 32 ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word >> 32
}

impl WriteList {
    pub(super) fn new(range_slots: usize) -> Self {
        let slots = range_slots.saturating_mul(TIMES_A_RING).max(PART);
        Self {
            ring: Ring::of_all_spaces(slots),
            slots,
        }
    }

    fn note(
        &self,
        noted: &mut WriteListNotes,
        space: Space,
        scanner: Scanner<'_>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        if let Some((of, last)) = noted.intervals.last_mut() {
            if *of == space && last.extend(lower, upper) {
                return;
            }
        } else {
            noted.start = self.ring.first_unsettled(scanner.snapshot);
        }
        let interval = Interval::new(lower, upper);
        noted.intervals.push((space, interval));
    }

    fn list(&self, noted: &mut WriteListNotes, owner: TransactionId, space: Space, keys: &[&[u8]]) {
        let room = (self.slots / PART).saturating_sub(noted.positions.len());
        for part in keys.chunks(keys.len().div_ceil(room.max(1))) {
            let footprint = match part {
                [key] => Footprint::of_key(key),
                [first, .., last] => Footprint::of_interval(first, last),
                [] => unreachable!("chunks are not empty"),
            };
            let position = self.ring.register(owner, &footprint.tagged(tag(space)));
            noted.positions.push(position);
        }
    }

    fn listed(&self, noted: &WriteListNotes, timestamp: Timestamp) {
        for position in &noted.positions {
            self.ring.assigned(*position, timestamp);
        }
    }

    fn strike(&self, noted: &WriteListNotes, timestamp: Timestamp) {
        for position in &noted.positions {
            self.ring.aborted(*position, timestamp);
        }
    }

    fn look_through(
        &self,
        noted: &WriteListNotes,
        committer: Committer,
        look: impl FnMut(TransactionId),
    ) -> Result<(), Error> {
        self.check(noted, committer, look, Footprint::may_meet)
    }

    fn is_certainly_met(&self, noted: &WriteListNotes, committer: Committer) -> bool {
        self.check(noted, committer, |_| {}, Footprint::surely_meets)
            .is_err_and(|error| is_met(&error))
    }

    fn check(
        &self,
        noted: &WriteListNotes,
        committer: Committer,
        mut look: impl FnMut(TransactionId),
        meets: impl Fn(&Footprint, &[u8], Option<&[u8]>) -> bool,
    ) -> Result<(), Error> {
        let met = Cell::new(0);
        self.ring
            .validate(noted.start, committer, |owner, footprint| {
                look(owner);
                let hit = noted.intervals.iter().position(|(space, interval)| {
                    footprint.has_tag(tag(*space))
                        && meets(footprint, interval.lower(), interval.upper())
                });
                met.set(hit.unwrap_or(0));
                hit.is_some()
            })
            .map_err(|failure| {
                let (space, interval) = &noted.intervals[met.get()];
                refusal(*space, interval, failure)
            })
            .map(drop)
    }
}

impl Rival for WriteList {
    fn note_scan(
        &self,
        notes: &mut Notes,
        ranges: &RangeMap,
        scanner: Scanner<'_>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        self.note(notes.of_rival(), ranges.space(), scanner, lower, upper);
    }

    fn register(&self, notes: &mut Notes, owner: TransactionId, ranges: &RangeMap, keys: &[&[u8]]) {
        self.list(notes.of_rival(), owner, ranges.space(), keys);
    }

    fn assigned(&self, notes: &Notes, timestamp: Timestamp) {
        if let Some(noted) = notes.left_by_rival() {
            self.listed(noted, timestamp);
        }
    }

    fn withdraw(&self, notes: &Notes, timestamp: Timestamp) {
        if let Some(noted) = notes.left_by_rival() {
            self.strike(noted, timestamp);
        }
    }

    fn validate(
        &self,
        notes: &Notes,
        committer: Committer,
        _: &WithRanges<'_>,
        others: &mut Others,
    ) -> Result<(), Error> {
        match notes.left_by_rival() {
            Some(noted) => self.look_through(noted, committer, |other| others.meet(other)),
            None => Ok(()),
        }
    }

    fn is_certain(&self, notes: &Notes, committer: Committer, _: &WithRanges<'_>) -> bool {
        let noted = notes.left_by_rival();
        noted.is_some_and(|noted| self.is_certainly_met(noted, committer))
    }
}

#[cfg(test)]
mod tests {
    use coeval_storage::Snapshots;
    use coeval_types::{IndexId, StorageId};

    use super::*;

    const fn space(storage: u32) -> Space {
        Space {
            storage: StorageId(storage),
            index: Some(IndexId(1)),
        }
    }

    const fn at(bits: u64) -> Timestamp {
        Timestamp::from_bits(bits)
    }

    fn scan(
        list: &WriteList,
        noted: &mut WriteListNotes,
        storage: u32,
        lower: &[u8],
        upper: &[u8],
    ) {
        let snapshots = Snapshots::new();
        let scanner = Scanner {
            snapshot: at(10),
            snapshots: &snapshots,
        };
        list.note(noted, space(storage), scanner, lower, Some(upper));
    }

    fn write(list: &WriteList, storage: u32, keys: &[&[u8]], timestamp: u64) -> usize {
        let mut noted = WriteListNotes::default();
        list.list(&mut noted, TransactionId(2), space(storage), keys);
        list.listed(&noted, at(timestamp));
        noted.registered()
    }

    /// Whether validation succeeds, and the number of registrations it checked.
    fn validate(list: &WriteList, noted: &WriteListNotes) -> (bool, usize) {
        let committer = Committer {
            id: TransactionId(1),
            snapshot: at(10),
            own: at(100),
        };
        let mut looked_at = 0;
        let valid = list.look_through(noted, committer, |_| looked_at += 1);
        (valid.is_ok(), looked_at)
    }

    #[test]
    fn every_writer_is_looked_at_and_only_keys_in_the_scan_meet_it() {
        let list = WriteList::new(64);
        write(&list, 1, &[b"e"], 10);
        let mut noted = WriteListNotes::default();
        scan(&list, &mut noted, 1, b"d", b"g");
        scan(&list, &mut noted, 1, b"g", b"p");
        assert_eq!(noted.intervals.len(), 1, "chunks of one scan");
        scan(&list, &mut noted, 2, b"a", b"b");
        write(&list, 1, &[b"c", b"p"], 20);
        write(&list, 2, &[b"e"], 30);
        assert_eq!(validate(&list, &noted), (true, 3));
        write(&list, 1, &[b"o"], 101);
        assert_eq!(validate(&list, &noted), (true, 3), "later than the commit");
        write(&list, 2, &[b"a"], 40);
        assert!(!validate(&list, &noted).0);
    }

    #[test]
    fn a_large_write_leaves_room_for_others() {
        let list = WriteList::new(64);
        let keys: Vec<[u8; 2]> = (0..1000_u16).map(u16::to_be_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        assert_eq!(write(&list, 1, &keys, 20), list.slots / PART);
        let mut noted = WriteListNotes::default();
        scan(&list, &mut noted, 1, &[1, 0], &[1, 1]);
        assert!(!validate(&list, &noted).0);
    }
}
