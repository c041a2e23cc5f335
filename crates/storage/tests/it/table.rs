//! Tests of tables: RIDs, dead records, the sweep, memory accounting.

use coeval_memory::epoch::Domain;
use coeval_storage::{
    Aborted, Collector, Expiry, Horizon, NoIndexes, Snapshots, Table, TryLock, Value,
};
use coeval_types::{Rid, TransactionId};

use crate::entries::Entries;
use crate::support::{at, number, numbered};

const T1: TransactionId = TransactionId(1);
const T2: TransactionId = TransactionId(2);

fn settled(bits: u64) -> Horizon {
    Horizon {
        installed: at(bits),
        committed: at(bits),
    }
}

#[test]
fn an_aborted_insert_dies_and_its_rid_comes_back_later() {
    let (domain, table) = (Domain::new(), Table::new());
    let reader = domain.pin();
    {
        let guard = domain.pin();
        let record = table.allocate(T1, &guard);
        assert_eq!(record.rid(), Rid(0));
        assert_eq!(record.try_lock(T1), TryLock::AlreadyLocked);
        assert_eq!(record.try_lock(T2), TryLock::HeldBy(T1));
        assert_eq!(record.abort(T1, &guard), Aborted::Dead);
        assert_eq!(record.try_lock(T2), TryLock::Dead);
        assert!(record.read(at(100), T1, &guard).is_none());
        table.retire(record.rid(), &guard);
    }
    domain.collect();
    domain.collect();
    let second = table.allocate(T1, &domain.pin()).rid();
    assert_eq!(second, Rid(1), "a reader may still be on its way to 0");
    drop(reader);
    while domain.collect() {}
    domain.collect();
    domain.collect();
    let third = table.allocate(T1, &domain.pin());
    assert_eq!(third.rid(), Rid(0));
    assert!(!third.is_dead());
    assert_eq!(table.high_water(), Rid(2));
}

#[test]
fn a_deleted_row_stays_for_old_snapshots_and_then_dies() {
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let entries = Entries::default();
    let guard = domain.pin();
    let nothing_expires = Expiry::new(settled(0), &snapshots);
    let writing = Collector {
        guard: &guard,
        expiry: &nothing_expires,
        indexes: &entries,
    };
    let record = table.allocate(T1, &guard);
    let rid = record.rid();
    // Key 7, then key 8, then key 7 again, then deleted.
    for (cts, key) in [(10, 7), (20, 8), (30, 7)] {
        assert!(!matches!(record.try_lock(T1), TryLock::Dead));
        record.write(T1, numbered(key), &writing);
        entries.add(key, rid);
        record.commit(T1, at(cts));
    }
    assert_eq!(table.estimated_rows(), 1);
    assert_eq!(record.try_lock(T1), TryLock::Locked);
    record.write(T1, Value::tombstone(), &writing);
    record.commit(T1, at(40));
    assert_eq!(table.estimated_rows(), 0);
    assert!(record.newest_committed(&guard).unwrap().is_tombstone());

    let old = snapshots.register(|| at(25));
    let sweep = |horizon| {
        let expiry = Expiry::cached(horizon, &snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &entries,
        };
        let progress = table.sweep(Rid(0), 100, &collector);
        assert_eq!(progress.next, None);
        progress.removed
    };
    assert_eq!(sweep(settled(50)), 2, "10 and 30");
    assert_eq!(
        entries.keys(rid),
        [8],
        "the entry of the version that is left"
    );
    let version = record.read(at(25), T2, &guard).unwrap();
    assert_eq!((version.cts(), number(version.row().unwrap())), (at(20), 8));
    drop(old);
    let not_durable = Horizon {
        installed: at(50),
        committed: at(39),
    };
    assert_eq!(sweep(not_durable), 0, "the delete may still be rolled back");
    assert_eq!(sweep(settled(50)), 2, "20 and the tombstone");
    assert_eq!(entries.keys(rid), [0; 0]);
    assert!(record.is_dead());
    assert_eq!(table.memory().values + table.memory().version_lists, 0);
}

#[test]
fn rows_deleted_by_their_inserter_die_too() {
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let guard = domain.pin();
    let expiry = Expiry::new(settled(20), &snapshots);
    let collector = Collector {
        guard: &guard,
        expiry: &expiry,
        indexes: &NoIndexes,
    };
    let record = table.allocate(T1, &guard);
    record.write(T1, numbered(1), &collector);
    record.write(T1, Value::tombstone(), &collector);
    record.commit(T1, at(10));
    assert_eq!(table.estimated_rows(), 0);
    assert_eq!(record.collect(&collector), 1);
    assert!(record.is_dead());
}

#[test]
fn an_expired_secondary_is_overwritten_in_place() {
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let entries = Entries::default();
    let guard = domain.pin();
    let record = table.allocate(T1, &guard);
    for cts in 1..100 {
        let expiry = Expiry::new(settled(cts), &snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &entries,
        };
        record.try_lock(T1);
        record.write(T1, numbered(cts), &collector);
        entries.add(cts, record.rid());
        record.commit(T1, at(cts));
        assert_eq!(table.memory().version_lists, 0);
    }
    assert_eq!(entries.keys(record.rid()), [98, 99]);
}

#[test]
fn a_hot_rows_list_shrinks_as_it_grows() {
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let guard = domain.pin();
    let record = table.allocate(T1, &guard);
    let mut longest = 0;
    for cts in 1..200 {
        // The durable prefix lags by ten commits.
        let horizon = Horizon {
            installed: at(cts - 1),
            committed: at(u64::saturating_sub(cts, 10)),
        };
        let expiry = Expiry::new(horizon, &snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &NoIndexes,
        };
        record.try_lock(T1);
        record.write(T1, numbered(cts), &collector);
        record.commit(T1, at(cts));
        longest = longest.max(table.memory().version_lists);
    }
    assert!(longest <= 12 * 24, "{longest} bytes of list nodes");
}

#[test]
fn a_sweep_goes_in_steps() {
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let guard = domain.pin();
    let expiry = Expiry::new(settled(100), &snapshots);
    let collector = Collector {
        guard: &guard,
        expiry: &expiry,
        indexes: &NoIndexes,
    };
    for _ in 0..250 {
        let record = table.allocate(T1, &guard);
        record.write(T1, numbered(1), &collector);
        record.commit(T1, at(1));
        record.try_lock(T1);
        record.write(T1, numbered(2), &collector);
        record.commit(T1, at(2));
    }
    let held = table.record(Rid(17)).unwrap();
    held.try_lock(T2);
    let (mut from, mut removed, mut steps) = (Some(Rid(0)), 0, 0);
    while let Some(rid) = from {
        let progress = table.sweep(rid, 100, &collector);
        (from, removed, steps) = (progress.next, removed + progress.removed, steps + 1);
    }
    assert_eq!((removed, steps), (249, 3), "all but the one that is held");
    assert_eq!(held.abort(T2, &guard), Aborted::Restored);
    let row = numbered(2).as_row().unwrap().bytes().len() + 4;
    let row = coeval_memory::heap::size_class(row) as u64;
    assert_eq!(table.memory().values, 251 * row);
    assert_eq!(table.memory().records, 250 * 64);
}

#[test]
#[should_panic(expected = "does not hold")]
fn writing_without_the_lock_is_refused() {
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let guard = domain.pin();
    let expiry = Expiry::new(settled(0), &snapshots);
    let collector = Collector {
        guard: &guard,
        expiry: &expiry,
        indexes: &NoIndexes,
    };
    table
        .allocate(T1, &guard)
        .write(T2, numbered(1), &collector);
}
