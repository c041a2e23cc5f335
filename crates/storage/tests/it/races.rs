//! Model checks of a record's races, under loom and shuttle. Each scenario runs twice: with
//! the correct code, and with the injected fault that it must find.

use std::sync::Arc;

use coeval_memory::epoch::Domain;
use coeval_memory::sync::atomic::{AtomicU64, Ordering};
use coeval_memory::sync::{Fault, thread};
use coeval_storage::{Collector, Expiry, Horizon, NoIndexes, Snapshots, Table, TryLock, faults};
use coeval_types::{Rid, Timestamp, TransactionId};

use crate::support::{at, number, numbered};

const WRITER: TransactionId = TransactionId(1);
const READER: TransactionId = TransactionId(2);

/// One record whose versions are numbered by their cts, and a log of which only its
/// progress exists.
struct World {
    domain: Domain,
    snapshots: Snapshots,
    table: Table,
    installed: AtomicU64,
}

impl World {
    /// Creates a record with the versions `history`, none of which may expire.
    fn new(history: &[u64]) -> Arc<Self> {
        let world = Self {
            domain: Domain::new(),
            snapshots: Snapshots::new(),
            table: Table::new(),
            installed: AtomicU64::new(0),
        };
        let guard = world.domain.pin();
        world.table.allocate(WRITER, &guard);
        drop(guard);
        for &cts in history {
            world.update(cts, 0);
        }
        Arc::new(world)
    }

    /// Writes and commits the version `cts`, while everything up to `committed` can no
    /// longer be rolled back.
    fn update(&self, cts: u64, committed: u64) {
        let guard = self.domain.pin();
        let record = self.table.record(Rid(0)).unwrap();
        while !matches!(
            record.try_lock(WRITER),
            TryLock::Locked | TryLock::AlreadyLocked
        ) {
            thread::yield_now();
        }
        let expiry = Expiry::new(self.horizon(committed), &self.snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &NoIndexes,
        };
        record.write(WRITER, numbered(cts), &collector);
        record.commit(WRITER, at(cts));
        self.installed.store(cts, Ordering::Release);
    }

    fn horizon(&self, committed: u64) -> Horizon {
        Horizon {
            installed: self.installed(),
            committed: at(committed),
        }
    }

    fn installed(&self) -> Timestamp {
        at(self.installed.load(Ordering::Acquire))
    }

    fn collect(&self) {
        let guard = self.domain.pin();
        let expiry = Expiry::new(self.horizon(u64::MAX - 1), &self.snapshots);
        let record = self.table.record(Rid(0)).unwrap();
        record.collect(&Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &NoIndexes,
        });
    }

    /// Reads at `snapshot`, and checks that the version `expected` is found, whole.
    fn read(&self, snapshot: u64, expected: u64) {
        let guard = self.domain.pin();
        let record = self.table.record(Rid(0)).unwrap();
        let version = record
            .read(at(snapshot), READER, &guard)
            .expect("a version that a snapshot shows is gone");
        let number = number(version.row().unwrap());
        assert_eq!(
            version.cts().to_bits(),
            number,
            "the value of one version under the timestamp of another"
        );
        assert_eq!(number, expected, "not the version that the snapshot shows");
    }
}

/// The drawing in the essay of `record`: a writer commits over the region that the reader
/// is reading, and reuses it.
fn a_region_is_used_again() {
    let world = World::new(&[5, 10]);
    let reader = {
        let world = world.clone();
        thread::spawn(move || world.read(15, 10))
    };
    world.update(20, 0);
    world.update(30, 0);
    reader.join().unwrap();
}

#[test]
fn a_value_is_read_with_its_own_timestamp() {
    Fault::none(a_region_is_used_again);
}

#[test]
#[should_panic(expected = "the value of one version under the timestamp of another")]
fn a_torn_read_is_found_out() {
    faults::TORN_READS.put_back(a_region_is_used_again);
}

/// The version that the reader needs moves from its region to the list.
fn a_version_moves_to_the_list() {
    let world = World::new(&[5, 10]);
    let reader = {
        let world = world.clone();
        thread::spawn(move || world.read(7, 5))
    };
    world.update(20, 0);
    reader.join().unwrap();
}

#[test]
fn a_version_is_found_while_it_moves() {
    Fault::none(a_version_moves_to_the_list);
}

#[test]
#[should_panic(expected = "a version that a snapshot shows is gone")]
fn an_append_that_comes_late_is_found_out() {
    faults::LATE_APPEND.put_back(a_version_moves_to_the_list);
}

/// A snapshot is ended while it is read, and the versions that only it could see are
/// collected.
fn a_snapshot_is_ended_during_a_read() {
    let world = World::new(&[10]);
    let snapshot = world.snapshots.register(|| world.installed());
    let reader = {
        let world = world.clone();
        thread::spawn(move || {
            let early = snapshot.is_ended();
            let found = {
                let guard = world.domain.pin();
                let record = world.table.record(Rid(0)).unwrap();
                let version = record.read(at(10), READER, &guard);
                version.map(|version| version.cts().to_bits())
            };
            let ended = if faults::ENDED_LOOKED_AT_EARLY.is_there() {
                early
            } else {
                snapshot.is_ended()
            };
            assert!(
                ended || found == Some(10),
                "a version that a snapshot shows is gone"
            );
        })
    };
    world.update(20, 0);
    world.snapshots.end_oldest(at(20));
    world.collect();
    reader.join().unwrap();
}

#[test]
fn a_reader_learns_that_its_snapshot_was_ended() {
    Fault::none(a_snapshot_is_ended_during_a_read);
}

#[test]
#[should_panic(expected = "a version that a snapshot shows is gone")]
fn looking_before_the_read_is_found_out() {
    faults::ENDED_LOOKED_AT_EARLY.put_back(a_snapshot_is_ended_during_a_read);
}

/// A snapshot is registered while the version that it sees is replaced, and a collector
/// removes expired versions.
fn a_snapshot_is_registered_during_a_collection() {
    let world = World::new(&[10]);
    let reader = {
        let world = world.clone();
        thread::spawn(move || {
            let snapshot = world.snapshots.register(|| world.installed());
            let shown = snapshot.timestamp().to_bits();
            world.read(shown, shown);
        })
    };
    world.update(20, 0);
    world.collect();
    reader.join().unwrap();
}

#[test]
fn a_registered_snapshot_keeps_its_versions() {
    Fault::none(a_snapshot_is_registered_during_a_collection);
}

#[test]
#[should_panic(expected = "a version that a snapshot shows is gone")]
fn registering_without_a_second_look_is_found_out() {
    faults::REGISTERED_BLINDLY.put_back(a_snapshot_is_registered_during_a_collection);
}

/// At every moment a newest committed version exists, and it never goes back in time.
#[test]
fn the_newest_version_is_always_there() {
    Fault::none(|| {
        let world = World::new(&[10]);
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let guard = world.domain.pin();
                let record = world.table.record(Rid(0)).unwrap();
                let mut last = 10;
                for _ in 0..2 {
                    let version = record.newest_committed(&guard).unwrap();
                    assert_eq!(number(version.row().unwrap()), version.cts().to_bits());
                    assert!(version.cts().to_bits() >= last);
                    last = version.cts().to_bits();
                }
            })
        };
        world.update(20, 0);
        world.update(30, 0);
        reader.join().unwrap();
    });
}

/// A longer scenario: two readers at different positions of the list, a writer that
/// appends, a collector that unlinks, and memory that is freed. Too long for loom.
#[cfg(shuttle)]
#[test]
fn reading_writing_and_unlinking_at_once() {
    Fault::none(|| {
        let world = World::new(&[10, 20, 30, 40]);
        let old = world.snapshots.register(|| at(15));
        let threads = [
            {
                let world = world.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        world.read(15, 10);
                    }
                    drop(old);
                })
            },
            {
                let world = world.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let snapshot = world.snapshots.register(|| world.installed());
                        let shown = snapshot.timestamp().to_bits();
                        world.read(shown, shown);
                        world.collect();
                        world.read(shown, shown);
                    }
                })
            },
            {
                let world = world.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        world.collect();
                        world.domain.collect();
                    }
                })
            },
        ];
        for cts in [50, 60, 70] {
            world.update(cts, cts - 15);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        world.collect();
        let row = numbered(70).as_row().unwrap().bytes().len();
        let memory = world.table.memory();
        let of_one = coeval_memory::heap::size_class(row + 16) as u64;
        assert!(memory.values <= of_one, "only the newest version is left");
        assert_eq!(memory.old_values, 0);
        assert_eq!(memory.version_lists, 0);
    });
}
