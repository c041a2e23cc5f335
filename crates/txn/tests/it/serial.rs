//! Tests of the serial engine alone: rows, indexes, undo, and the gate that serialises it.

use std::future::Future;
use std::ops::{Bound, ControlFlow};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Error, IndexBuild, Insert, LockWait, LockedRow,
    Outcome, ScanProgress, ScanRequest, ScanSource, Serial, TableLock, Transaction, Update,
};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowBuilder, RowRef,
    StorageDefinition, StorageId,
};

const STORAGE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(1);
const SECONDARY: IndexId = IndexId(2);

/// The key is one cell, which the tests keep one byte long.
#[derive(Debug)]
struct Cell(usize);

impl KeyExtractor for Cell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        match row.cell(self.0) {
            Some(bytes) => {
                key.extend_from_slice(bytes);
                ExtractedKey::Comparable
            }
            None => {
                key.push(0xFF);
                ExtractedKey::HoldsNull
            }
        }
    }
}

fn index(id: IndexId, kind: IndexKind, cell: usize) -> IndexDefinition {
    IndexDefinition {
        id,
        kind,
        extractor: Arc::new(Cell(cell)),
    }
}

fn engine() -> Serial {
    let engine = Serial::new();
    engine
        .attach_storage(StorageDefinition {
            id: STORAGE,
            schema_version: 1,
            indexes: vec![
                index(PRIMARY, IndexKind::Primary, 0),
                index(SECONDARY, IndexKind::Secondary, 1),
            ],
        })
        .unwrap();
    engine
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing waits when one transaction runs"),
    }
}

fn begin(engine: &Serial) -> Box<dyn Transaction> {
    ready(coeval_txn::begin(engine, &BeginOptions::default())).unwrap()
}

fn row(cells: &[&str]) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    for cell in cells {
        builder.push(Some(cell.as_bytes()));
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes
}

fn insert(transaction: &mut dyn Transaction, cells: &[&str]) -> Insert {
    let row = row(cells);
    ready(coeval_txn::insert(
        transaction,
        STORAGE,
        RowRef::trusted(&row),
    ))
    .unwrap()
}

fn inserted(transaction: &mut dyn Transaction, cells: &[&str]) -> Rid {
    match insert(transaction, cells) {
        Insert::Inserted(rid) => rid,
        Insert::Duplicate { .. } => panic!("duplicate"),
    }
}

fn text(row: RowRef<'_>) -> String {
    let cells: Vec<_> = row
        .cells()
        .map(|cell| String::from_utf8_lossy(cell.unwrap_or(b"-")).into_owned())
        .collect();
    cells.join(" ")
}

fn scan(
    transaction: &mut dyn Transaction,
    source: ScanSource,
    bounds: Bounds<'_>,
    direction: Direction,
    limit: usize,
) -> (Vec<String>, ScanProgress) {
    let mut rows = Vec::new();
    let request = ScanRequest {
        storage: STORAGE,
        source,
        bounds,
        direction,
        limit,
    };
    let progress = transaction
        .scan(&request, &mut |_, row| {
            rows.push(text(row));
            ControlFlow::Continue(())
        })
        .unwrap();
    (rows, progress)
}

fn all(transaction: &mut dyn Transaction, source: ScanSource) -> Vec<String> {
    scan(transaction, source, Bounds::ALL, Direction::Forward, 1000).0
}

fn lock(transaction: &mut dyn Transaction, rid: Rid) -> LockedRow {
    ready(coeval_txn::lock_row(
        transaction,
        STORAGE,
        rid,
        LockWait::Wait,
        &mut |_, _| {},
    ))
    .unwrap()
}

fn update(transaction: &mut dyn Transaction, rid: Rid, cells: &[&str]) -> Update {
    let row = row(cells);
    ready(coeval_txn::update(
        transaction,
        STORAGE,
        rid,
        RowRef::trusted(&row),
    ))
    .unwrap()
}

#[test]
fn rows_come_back_in_the_order_of_each_index() {
    let engine = engine();
    let mut t = begin(&engine);
    for cells in [["b", "1"], ["a", "2"], ["c", "1"]] {
        inserted(&mut *t, &cells);
    }
    assert_eq!(all(&mut *t, ScanSource::Table), ["b 1", "a 2", "c 1"]);
    let primary = ScanSource::Index(PRIMARY);
    assert_eq!(all(&mut *t, primary), ["a 2", "b 1", "c 1"]);
    let secondary = ScanSource::Index(SECONDARY);
    assert_eq!(all(&mut *t, secondary), ["b 1", "c 1", "a 2"]);
    let backward = scan(&mut *t, secondary, Bounds::ALL, Direction::Backward, 1000);
    assert_eq!(backward.0, ["a 2", "c 1", "b 1"]);
}

#[test]
fn bounds_stand_for_every_entry_that_begins_with_them() {
    let engine = engine();
    let mut t = begin(&engine);
    for cells in [["a", "1"], ["b", "1"], ["c", "2"], ["d", "3"]] {
        inserted(&mut *t, &cells);
    }
    let mut between = |lower, upper| {
        scan(
            &mut *t,
            ScanSource::Index(SECONDARY),
            Bounds { lower, upper },
            Direction::Forward,
            1000,
        )
        .0
    };
    let (one, two) = (&b"1"[..], &b"2"[..]);
    assert_eq!(
        between(Bound::Included(one), Bound::Included(one)),
        ["a 1", "b 1"]
    );
    assert_eq!(between(Bound::Excluded(one), Bound::Included(two)), ["c 2"]);
    assert_eq!(
        between(Bound::Unbounded, Bound::Excluded(two)),
        ["a 1", "b 1"]
    );
    assert!(between(Bound::Excluded(two), Bound::Excluded(one)).is_empty());
}

#[test]
fn a_scan_in_chunks_skips_and_repeats_nothing() {
    let engine = engine();
    let mut t = begin(&engine);
    for cells in [["a", "1"], ["b", "1"], ["c", "1"], ["d", "2"], ["e", "2"]] {
        inserted(&mut *t, &cells);
    }
    for source in [ScanSource::Table, ScanSource::Index(SECONDARY)] {
        for direction in [Direction::Forward, Direction::Backward] {
            let whole = scan(&mut *t, source, Bounds::ALL, direction, 1000).0;
            let mut rows = Vec::new();
            let mut position: Option<Vec<u8>> = None;
            loop {
                let behind = position
                    .as_deref()
                    .map_or(Bound::Unbounded, Bound::Excluded);
                let bounds = match direction {
                    Direction::Forward => Bounds {
                        lower: behind,
                        upper: Bound::Unbounded,
                    },
                    Direction::Backward => Bounds {
                        lower: Bound::Unbounded,
                        upper: behind,
                    },
                };
                let (chunk, progress) = scan(&mut *t, source, bounds, direction, 2);
                rows.extend(chunk);
                match progress {
                    ScanProgress::More(next) => position = Some(next),
                    ScanProgress::Complete => break,
                }
            }
            assert_eq!(rows, whole, "{source:?} {direction:?}");
        }
    }
}

#[test]
fn an_abort_undoes_and_a_commit_keeps() {
    let engine = engine();
    let mut t = begin(&engine);
    let rid = inserted(&mut *t, &["a", "1"]);
    assert!(matches!(
        ready(coeval_txn::commit(&mut *t)),
        Outcome::Committed(_)
    ));

    let mut t = begin(&engine);
    lock(&mut *t, rid);
    assert_eq!(update(&mut *t, rid, &["a", "2"]), Update::Updated(rid));
    inserted(&mut *t, &["b", "2"]);
    drop(t);

    let mut t = begin(&engine);
    assert_eq!(all(&mut *t, ScanSource::Index(SECONDARY)), ["a 1"]);
    lock(&mut *t, rid);
    t.delete(STORAGE, rid).unwrap();
    assert_eq!(lock(&mut *t, rid), LockedRow::Gone);
    assert!(all(&mut *t, ScanSource::Index(PRIMARY)).is_empty());
}

#[test]
fn savepoints_undo_what_came_after_them() {
    let engine = engine();
    let mut t = begin(&engine);
    inserted(&mut *t, &["a", "1"]);
    let first = t.savepoint();
    inserted(&mut *t, &["b", "1"]);
    let second = t.savepoint();
    inserted(&mut *t, &["c", "1"]);
    t.rollback_to(second).unwrap();
    assert_eq!(all(&mut *t, ScanSource::Table), ["a 1", "b 1"]);
    t.rollback_to(first).unwrap();
    t.rollback_to(first).unwrap();
    assert_eq!(all(&mut *t, ScanSource::Table), ["a 1"]);
    assert_eq!(t.rollback_to(second), Err(Error::Unknown("savepoint")));
    t.release(first);
    assert_eq!(t.rollback_to(first), Err(Error::Unknown("savepoint")));
}

#[test]
fn keys_are_unique_where_promised() {
    let engine = engine();
    let mut t = begin(&engine);
    let a = inserted(&mut *t, &["a", "1"]);
    let b = inserted(&mut *t, &["b", "1"]);
    assert_eq!(
        insert(&mut *t, &["a", "9"]),
        Insert::Duplicate {
            index: PRIMARY,
            rid: a
        }
    );
    assert_eq!(
        update(&mut *t, b, &["a", "1"]),
        Update::Duplicate {
            index: PRIMARY,
            rid: a
        }
    );
    let Update::Updated(c) = update(&mut *t, b, &["c", "1"]) else {
        panic!("the key is free");
    };
    assert_ne!(b, c, "a new primary key is a new record");

    ready(coeval_txn::lock_table(
        &mut *t,
        STORAGE,
        TableLock::AccessExclusive,
        1,
    ))
    .unwrap();
    let unique = index(IndexId(3), IndexKind::Unique, 1);
    assert_eq!(
        ready(coeval_txn::build_index(&mut *t, STORAGE, &unique)).unwrap(),
        IndexBuild::Duplicate(a, c)
    );
    assert_eq!(update(&mut *t, c, &["c", "2"]), Update::Updated(c));
    assert_eq!(
        ready(coeval_txn::build_index(&mut *t, STORAGE, &unique)).unwrap(),
        IndexBuild::Built
    );
    let mut found = None;
    assert!(
        t.get(STORAGE, IndexId(3), b"2", &mut |rid, _| found = Some(rid))
            .unwrap()
    );
    assert_eq!(found, Some(c));
}

#[test]
fn a_plan_for_another_schema_is_refused() {
    let engine = engine();
    let mut t = begin(&engine);
    let lock = |t: &mut dyn Transaction, mode, version| {
        ready(coeval_txn::lock_table(t, STORAGE, mode, version))
    };
    assert_eq!(
        t.set_schema_version(STORAGE, 2),
        Err(Error::Unknown(
            "exclusive table lock held by this transaction"
        ))
    );
    let savepoint = t.savepoint();
    lock(&mut *t, TableLock::AccessExclusive, 1).unwrap();
    t.set_schema_version(STORAGE, 2).unwrap();
    assert_eq!(
        lock(&mut *t, TableLock::RowExclusive, 1),
        Err(Error::SchemaChanged(STORAGE))
    );
    t.rollback_to(savepoint).unwrap();
    lock(&mut *t, TableLock::RowExclusive, 1).unwrap();
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_next_transaction_waits_for_the_last_to_end() {
    let engine = engine();
    let first = begin(&engine);
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let cancel = Arc::new(AtomicBool::new(false));
    let options = BeginOptions {
        cancel: Some(Arc::clone(&cancel)),
        ..BeginOptions::default()
    };
    assert!(engine.poll_begin(&options, &mut context).is_pending());
    assert!(engine.poll_begin(&options, &mut context).is_pending());
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    drop(first);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let Poll::Ready(Ok(second)) = engine.poll_begin(&options, &mut context) else {
        panic!("the way is free");
    };
    cancel.store(true, Ordering::Release);
    let Poll::Ready(Err(error)) = engine.poll_begin(&options, &mut context) else {
        panic!("a canceled begin does not wait");
    };
    assert_eq!(error, Error::Canceled);
    drop(second);
}

#[test]
fn memory_is_counted_and_given_back() {
    let engine = engine();
    assert_eq!(engine.bytes(), 0);
    let mut first = begin(&engine);
    let rid = inserted(&mut *first, &["a", "x"]);
    inserted(&mut *first, &["b", "y"]);
    let running = engine.bytes();
    ready(coeval_txn::commit(&mut *first));
    // Two rows of as many bytes, each with two entries; the undo log has ended.
    let two = engine.bytes();
    assert!(0 < two && two < running, "{two} of {running}");
    let mut second = begin(&engine);
    lock(&mut *second, rid);
    second.delete(STORAGE, rid).unwrap();
    second.abort();
    assert_eq!(engine.bytes(), two);
    let mut third = begin(&engine);
    lock(&mut *third, rid);
    third.delete(STORAGE, rid).unwrap();
    ready(coeval_txn::commit(&mut *third));
    assert_eq!(engine.bytes(), two / 2);
    let mut fourth = begin(&engine);
    let definition = index(IndexId(3), IndexKind::Unique, 1);
    ready(coeval_txn::lock_table(
        &mut *fourth,
        STORAGE,
        TableLock::AccessExclusive,
        1,
    ))
    .unwrap();
    ready(coeval_txn::build_index(&mut *fourth, STORAGE, &definition)).unwrap();
    assert!(engine.bytes() > two / 2);
    fourth.abort();
    assert_eq!(engine.bytes(), two / 2);
    engine.clear(STORAGE);
    assert_eq!(engine.bytes(), 0);
    let mut last = begin(&engine);
    assert!(all(&mut *last, ScanSource::Table).is_empty());
    assert!(all(&mut *last, ScanSource::Index(SECONDARY)).is_empty());
}

#[test]
fn scripts() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    crate::script::run_scripts(&folder, "serial", || Box::new(Serial::new()));
}
