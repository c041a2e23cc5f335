//! Stress test with threads of every kind at once: each version contains its own commit
//! timestamp, which readers check.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use coeval_memory::epoch::Domain;
use coeval_storage::{Collector, Expiry, Horizon, NoIndexes, Snapshots, Table, TryLock, Value};
use coeval_types::{Rid, RowRef, TransactionId};

use crate::support::{at, row_bytes};

const RECORDS: u64 = 8;
const COMMITS: u64 = if cfg!(miri) { 60 } else { 60_000 };

/// A row that repeats its timestamp, so that a torn one shows.
fn row_of(rid: u64, cts: u64) -> Vec<u8> {
    let cts = cts.to_le_bytes();
    row_bytes(&[
        &rid.to_le_bytes(),
        &cts,
        &vec![cts[0]; cts[0] as usize % 50],
        &cts,
    ])
}

fn check(row: RowRef<'_>, rid: u64, cts: u64) {
    assert_eq!(row.bytes(), row_of(rid, cts));
}

struct World {
    domain: Domain,
    snapshots: Snapshots,
    table: Table,
    installed: AtomicU64,
    stop: AtomicBool,
}

impl World {
    fn installed(&self) -> coeval_types::Timestamp {
        at(self.installed.load(Ordering::SeqCst))
    }

    fn horizon(&self) -> Horizon {
        Horizon {
            installed: self.installed(),
            // Lags behind the installed prefix, as the durable prefix does.
            committed: at(self.installed().to_bits().saturating_sub(5)),
        }
    }
}

/// One thread commits at a time, as with one log: the timestamp is the number of the
/// commit, and installed advances at once.
fn write(world: &World, order: &std::sync::Mutex<u64>, id: TransactionId) {
    for round in 0..COMMITS / 2 {
        let guard = world.domain.pin();
        let rid = (round * 7 + id.0) % RECORDS;
        let record = world.table.record(Rid(rid)).unwrap();
        match record.try_lock(id) {
            TryLock::Locked => {}
            TryLock::HeldBy(_) => continue,
            other => panic!("{other:?}"),
        }
        let expiry = Expiry::new(world.horizon(), &world.snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &NoIndexes,
        };
        if round % 11 == 0 {
            record.write(id, Value::tombstone(), &collector);
            record.abort(id, &guard);
            continue;
        }
        let mut last = order.lock().unwrap();
        let cts = *last + 1;
        let row = row_of(rid, cts);
        record.write(id, Value::row(RowRef::trusted(&row)), &collector);
        record.commit(id, at(cts));
        *last = cts;
        world.installed.store(cts, Ordering::SeqCst);
    }
}

fn read(world: &World, id: TransactionId) {
    let mut old = world.snapshots.register(|| world.installed());
    while !world.stop.load(Ordering::Relaxed) {
        let new = world.snapshots.register(|| world.installed());
        let guard = world.domain.pin();
        for rid in 0..RECORDS {
            let record = world.table.record(Rid(rid)).unwrap();
            let mut seen = [0; 2];
            for (at, snapshot) in [&old, &new].into_iter().enumerate() {
                let version = record
                    .read(snapshot.timestamp(), id, &guard)
                    .expect("the first version is never the last to go");
                assert!(version.cts() <= snapshot.timestamp());
                check(version.row().unwrap(), rid, version.cts().to_bits());
                seen[at] = version.cts().to_bits();
                let again = record.read(snapshot.timestamp(), id, &guard).unwrap();
                assert_eq!(again.cts(), version.cts(), "a snapshot stands still");
                if version.jumps() > 0 {
                    let expiry = Expiry::new(world.horizon(), &world.snapshots);
                    record.collect(&Collector {
                        guard: &guard,
                        expiry: &expiry,
                        indexes: &NoIndexes,
                    });
                }
            }
            assert!(seen[0] <= seen[1]);
            let newest = record.newest_committed(&guard).unwrap();
            assert!(newest.cts().to_bits() >= seen[1]);
            check(newest.row().unwrap(), rid, newest.cts().to_bits());
        }
        // From time to time the old snapshot moves, so that it keeps versions for a while.
        if new.timestamp().to_bits().is_multiple_of(16) {
            old.refresh(|| world.installed());
        }
    }
}

fn sweep(world: &World) {
    while !world.stop.load(Ordering::Relaxed) {
        let guard = world.domain.pin();
        let expiry = Expiry::cached(world.horizon(), &world.snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &NoIndexes,
        };
        world.table.sweep(Rid(0), RECORDS as usize, &collector);
        drop(guard);
        world.domain.collect();
        std::thread::yield_now();
    }
}

#[test]
fn readers_writers_and_sweep_at_once() {
    let world = World {
        domain: Domain::new(),
        snapshots: Snapshots::new(),
        table: Table::new(),
        installed: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let id = TransactionId(1000);
    for rid in 0..RECORDS {
        let guard = world.domain.pin();
        let expiry = Expiry::new(world.horizon(), &world.snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &NoIndexes,
        };
        let record = world.table.allocate(id, &guard);
        let row = row_of(rid, rid + 1);
        record.write(id, Value::row(RowRef::trusted(&row)), &collector);
        record.commit(id, at(rid + 1));
        world.installed.store(rid + 1, Ordering::SeqCst);
    }
    let order = std::sync::Mutex::new(RECORDS);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let world = &world;
            scope.spawn(move || {
                let _stop = Stop(&world.stop);
                read(world, TransactionId(100 + reader));
            });
        }
        scope.spawn(|| {
            let _stop = Stop(&world.stop);
            sweep(&world);
        });
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (world, order) = (&world, &order);
                scope.spawn(move || write(world, order, TransactionId(1 + writer)))
            })
            .collect();
        let _stop = Stop(&world.stop);
        for writer in writers {
            writer.join().unwrap();
        }
    });
    // At rest every expired version is removed, and the accounting matches the contents.
    let guard = world.domain.pin();
    let now = Horizon {
        installed: world.installed(),
        committed: world.installed(),
    };
    let expiry = Expiry::new(now, &world.snapshots);
    let collector = Collector {
        guard: &guard,
        expiry: &expiry,
        indexes: &NoIndexes,
    };
    world.table.sweep(Rid(0), 100, &collector);
    let memory = world.table.memory();
    let rows: usize = (0..RECORDS)
        .map(|rid| {
            let record = world.table.record(Rid(rid)).unwrap();
            let newest = record.newest_committed(&guard).unwrap();
            coeval_memory::heap::size_class(newest.row().unwrap().bytes().len() + 4)
        })
        .sum();
    assert_eq!((memory.values, memory.version_lists), (rows as u64, 0));
    assert_eq!(world.table.estimated_rows(), RECORDS);
}

/// Stops the other threads however its thread ends, even by a panic.
struct Stop<'flag>(&'flag AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
