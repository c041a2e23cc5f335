//! Model tests with random schedules of writers and validators while ranges are split and
//! merged.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p coeval-occ --lib shuttled`.

use std::sync::Arc;

use coeval_memory::sync::atomic::{AtomicU64, Ordering, fence};
use coeval_memory::sync::{Fault, Mutex, thread};
use coeval_types::{IndexId, StorageId, Timestamp, TransactionId};

use super::committer::Committer;
use super::faults;
use super::footprint::Footprint;
use super::map::{Limits, RangeMap, Space};
use super::replace::Change;

const SPACE: Space = Space {
    storage: StorageId(1),
    index: Some(IndexId(1)),
};
/// The snapshot of all transactions.
const SNAPSHOT: Timestamp = Timestamp::from_bits(1);

struct World {
    map: RangeMap,
    clock: AtomicU64,
    /// Writes as (key, timestamp). `cleared` has the validated scans as (lower, upper, timestamp).
    written: Mutex<Vec<(u8, u64)>>,
    cleared: Mutex<Vec<(u8, u8, u64)>>,
}

impl World {
    fn new() -> Self {
        let limits = Limits {
            slots: 8,
            in_vain: 1,
            records: 1,
            ranges: 4,
        };
        Self {
            map: RangeMap::new(SPACE, limits),
            clock: AtomicU64::new(2),
            written: Mutex::new(Vec::new()),
            cleared: Mutex::new(Vec::new()),
        }
    }

    fn draw(&self) -> u64 {
        fence(Ordering::SeqCst);
        let assigned = self.clock.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        assigned
    }

    fn write(&self, owner: u64, keys: &[u8]) {
        let slices: Vec<&[u8]> = keys.iter().map(std::slice::from_ref).collect();
        let mut registrations = Vec::new();
        self.map
            .register(TransactionId(owner), &slices, &mut registrations);
        let assigned = self.draw();
        for registration in &registrations {
            registration.assigned(Timestamp::from_bits(assigned));
        }
        let mut written = self.written.lock().expect("no panic");
        written.extend(keys.iter().map(|key| (*key, assigned)));
    }

    fn scan(&self, owner: u64, lower: u8, upper: u8) {
        let mut predicates = Vec::new();
        self.map
            .predicates(&[lower], Some(&[upper]), &mut predicates, |ring| {
                ring.first_unsettled(SNAPSHOT)
            });
        let own = self.draw();
        let committer = Committer {
            id: TransactionId(owner),
            snapshot: SNAPSHOT,
            own: Timestamp::from_bits(own),
        };
        let holds = predicates.iter().all(|predicate| {
            let meets =
                |_, footprint: &Footprint, covers| covers || predicate.may_be_met(footprint);
            predicate.validate(&self.map, committer, meets).is_ok()
        });
        if holds {
            let mut cleared = self.cleared.lock().expect("no panic");
            cleared.push((lower, upper, own));
        }
    }

    fn replace(&self, first: usize, count: usize, boundaries: &[u8]) {
        let boundaries = boundaries.iter().map(|key| [*key].into()).collect();
        let change = Change {
            first,
            count,
            boundaries,
            slots: 8,
        };
        let mut replacement = self.map.link(&[change], |_, _, _| {});
        while !self.map.settle(&mut replacement, SNAPSHOT) {
            thread::yield_now();
        }
    }
}

/// Runs these functions concurrently. No validated scan may have a writer of its keys
/// before it.
fn race(work: &[fn(&World)]) {
    let world = Arc::new(World::new());
    let spawn = |work: &fn(&World)| {
        let (work, world) = (*work, Arc::clone(&world));
        thread::spawn(move || work(&world))
    };
    let threads: Vec<_> = work.iter().map(spawn).collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let written = world.written.lock().expect("no panic");
    for (lower, upper, own) in &*world.cleared.lock().expect("no panic") {
        let missed = |(key, assigned): &(u8, u64)| (lower..upper).contains(&key) && assigned < own;
        assert!(
            !written.iter().any(missed),
            "cleared at {own} with writers at {written:?}"
        );
    }
}

/// A writer followed by a scan, a concurrent scan, and a thread that splits.
fn few() {
    race(&[
        |world| {
            world.write(1, b"c");
            world.scan(2, b'a', b'z');
        },
        |world| world.scan(3, b'a', b'z'),
        |world| world.replace(0, 1, b"g"),
    ]);
}

/// Several writers and scans, and a thread that splits, merges and splits again.
fn many() {
    race(&[
        |world| {
            world.write(1, b"cp");
            world.write(2, b"c");
        },
        |world| world.write(3, b"hp"),
        |world| world.scan(4, b'a', b'z'),
        |world| world.scan(5, b'g', b'q'),
        |world| {
            world.replace(0, 1, b"gm");
            world.replace(0, 2, b"");
            world.replace(1, 1, b"t");
        },
    ]);
}

#[test]
fn nobody_is_missed_while_a_range_is_split() {
    Fault::none(few);
}

#[test]
fn nobody_is_missed_while_ranges_are_replaced_again_and_again() {
    Fault::none_in(200, many);
}

#[test]
#[should_panic(expected = "cleared at")]
fn a_writer_that_does_not_look_again_is() {
    faults::NO_SECOND_LOOK.put_back(few);
}

#[test]
#[should_panic(expected = "cleared at")]
fn a_writer_is_missed_by_who_does_not_follow_links() {
    faults::NO_LINKS.put_back(few);
}

#[test]
#[should_panic(expected = "cleared at")]
fn a_writer_that_had_not_drawn_is_missed_when_it_is_not_awaited() {
    faults::COPY_UNASSIGNED.put_back(few);
}
