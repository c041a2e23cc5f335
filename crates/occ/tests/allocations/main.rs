//! Counts a transaction's allocations, once its thread has run some: the buffers that a
//! transaction needs for itself (read set, write set, copy for the log, buffers for keys)
//! are kept from one transaction to the next.
//!
//! | operation | allocations | for |
//! | --- | --- | --- |
//! | begin, commit | 1 | the transaction, which is the caller's |
//! | a table lock of a mode that readers and writers take | 0 | |
//! | a read by key, of a present or absent key | 0 | |
//! | an update | 1 | the value |
//! | the same, while a snapshot sees the version before the last | 3 | and a list node for that version, and its removal |
//! | an insert | 1 | the value; nodes and blocks of records now and then |
//! | a scan of 100 rows | 4 | keys and fences that the index copies out of its leaves |
//!
//! Keys of more than 32 bytes in predicates are allocated in addition.
//!
//! A separate program, because its allocator counts.

use std::alloc::System;
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use coeval_memory::tally::{Tally, allocations};
use coeval_occ::Engine;
use coeval_txn::{
    Bounds, Direction, Engine as _, Isolation, LockWait, ScanRequest, ScanSource, TableLock,
    Transaction,
};
use coeval_types::{IndexKind, RowRef};

use support::{
    PRIMARY, STORAGE, begin, commit, definition, index, load, ready, row_bytes, settings,
};

#[path = "../it/support.rs"]
#[allow(dead_code, reason = "what the other tests need besides")]
mod support;

#[global_allocator]
static ALLOCATOR: Tally<System> = Tally::new(System);

const ROWS: u64 = 1000;

fn engine() -> Engine {
    let engine = Engine::ephemeral(settings()).expect("sound settings");
    engine
        .attach_storage(definition(vec![index(PRIMARY, IndexKind::Primary, 0)]))
        .expect("a new engine has no storage");
    ready(load(&engine, (0..ROWS).map(|key| (key, 0))));
    engine
}

/// Allocations of a serializable transaction that does `work`: the median of many runs,
/// and the maximum. `work` gets the number of the transaction; `before` runs ahead of it,
/// uncounted.
fn counted_behind(
    engine: &Engine,
    mut before: impl FnMut(u64),
    mut work: impl FnMut(u64, &mut dyn Transaction),
) -> (u64, u64) {
    let mut counts: Vec<u64> = (0..400)
        .map(|number| {
            before(number);
            let before = allocations();
            let mut transaction = ready(begin(engine, Isolation::Serializable));
            work(number, &mut *transaction);
            ready(commit(&mut *transaction)).expect("nobody else is here");
            drop(transaction);
            allocations() - before
        })
        .collect();
    // The first runs fill the buffers that the thread keeps.
    let mut settled = counts.split_off(100);
    settled.sort_unstable();
    (settled[settled.len() / 2], settled[settled.len() - 1])
}

fn counted(engine: &Engine, work: impl FnMut(u64, &mut dyn Transaction)) -> (u64, u64) {
    counted_behind(engine, |_| {}, work)
}

fn get(transaction: &mut dyn Transaction, key: u64) -> Option<coeval_types::Rid> {
    let mut found = None;
    let key = key.to_be_bytes();
    let got = transaction.get(STORAGE, PRIMARY, &key, &mut |rid, _| found = Some(rid));
    got.expect("the table is there");
    found
}

#[test]
fn reads_allocate_nothing() {
    let engine = engine();
    let begin_and_commit = counted(&engine, |_, _| {});
    assert_eq!(begin_and_commit, (1, 1), "the transaction");
    let one = counted(&engine, |number, transaction| {
        assert!(get(transaction, number).is_some());
    });
    assert_eq!(one, (1, 1));
    let sixteen = counted(&engine, |number, transaction| {
        for key in 0..16 {
            assert!(get(transaction, (16 * number + key) % ROWS).is_some());
        }
    });
    assert_eq!(sixteen, (1, 1));
    let nothing_there = counted(&engine, |number, transaction| {
        assert!(get(transaction, ROWS + number).is_none());
    });
    assert_eq!(
        nothing_there,
        (1, 1),
        "nor does the predicate that protects it"
    );
}

#[test]
fn table_locks_of_readers_and_writers_allocate_nothing() {
    let engine = engine();
    let mut beside = ready(begin(&engine, Isolation::ReadCommitted));
    let strong = TableLock::ShareUpdateExclusive;
    ready(coeval_txn::lock_table(&mut *beside, STORAGE, strong, 1)).expect("nobody else is here");
    for mode in TableLock::ALL.into_iter().filter(|mode| mode.is_weak()) {
        let locked = counted(&engine, |number, transaction| {
            let locked = coeval_txn::lock_table(transaction, STORAGE, mode, 1);
            ready(locked).expect("nothing excludes it");
            assert!(get(transaction, number).is_some());
        });
        assert_eq!(locked, (1, 1), "{mode:?}");
    }
}

#[test]
fn writes_allocate_what_they_leave_behind() {
    let engine = engine();
    let rows: Vec<_> = (0..400)
        .map(|number| row_bytes((number % 10, number)))
        .collect();
    let update = |number: u64, transaction: &mut dyn Transaction| {
        let rid = get(transaction, number % 10).expect("it is there");
        let mut seen = |_, _: RowRef<'_>| {};
        let wait = LockWait::Wait;
        let locked = coeval_txn::lock_row(transaction, STORAGE, rid, wait, &mut seen);
        ready(locked).expect("nobody else is here");
        let row = RowRef::trusted(&rows[number as usize]);
        ready(coeval_txn::update(transaction, STORAGE, rid, row)).expect("nobody else is here");
    };
    let alone = counted(&engine, update);
    assert_eq!(alone.0, 2, "the transaction and the value");
    assert!(
        alone.1 <= 3,
        "{alone:?}: now and then a list of what is to be freed grows"
    );
    // For every row there are always snapshots that see the version before the last.
    let mut readers = VecDeque::new();
    let read = |_| {
        if readers.len() == 25 {
            drop(readers.pop_front());
        }
        readers.push_back(ready(begin(&engine, Isolation::SnapshotIsolation)));
    };
    let beside_readers = counted_behind(&engine, read, update);
    assert_eq!(
        beside_readers.0, 4,
        "a place in the list, and what it takes out of there"
    );
    assert!(beside_readers.1 <= 6, "{beside_readers:?}");
    let rows: Vec<_> = (0..400)
        .map(|number| row_bytes((ROWS + number, number)))
        .collect();
    let insert = counted(&engine, |number, transaction| {
        let row = RowRef::trusted(&rows[number as usize]);
        ready(coeval_txn::insert(transaction, STORAGE, row)).expect("nobody else is here");
    });
    assert_eq!(insert.0, 2, "the transaction and the value: {insert:?}");
}

#[test]
fn a_scan_allocates_what_it_copies_out_of_the_index() {
    let engine = engine();
    let scan = counted(&engine, |number, transaction| {
        let (first, last) = (number.to_be_bytes(), (number + 99).to_be_bytes());
        let request = ScanRequest {
            storage: STORAGE,
            source: ScanSource::Index(PRIMARY),
            bounds: Bounds {
                lower: Bound::Included(&first),
                upper: Bound::Included(&last),
            },
            direction: Direction::Forward,
            limit: 1000,
        };
        let mut rows = 0;
        let scanned = transaction.scan(&request, &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        });
        scanned.expect("the table is there");
        assert_eq!(rows, 100);
    });
    assert!(scan.1 <= 5, "{scan:?}");
}
