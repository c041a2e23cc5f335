//! Creation and removal of indexes: they enforce uniqueness as the changing transaction
//! demands, and a rollback undoes the change. Properties of a single transaction are
//! tested on the serial engine too.

use coeval_occ::Engine;
use coeval_txn::serial::Serial;
use coeval_txn::{
    Direction, Engine as _, Error, IndexBuild, Insert, Isolation, Outcome, ScanSource, TableLock,
    Transaction, Update,
};
use coeval_types::{IndexId, IndexKind, RowRef, StorageDefinition, StorageId};

use crate::support::{
    PRIMARY, Row, STORAGE, all, begin, change, commit, definition, delete, index, insert, load,
    lock_table, move_row, ready, row_bytes, scan, settings,
};

const UNIQUE: IndexId = IndexId(3);
const OTHER: StorageId = StorageId(2);

/// A table whose values are unique, on every engine.
fn engines() -> Vec<(&'static str, Box<dyn coeval_txn::Engine>)> {
    vec![
        ("serial", Box::new(with_table(Serial::default()))),
        ("occ", Box::new(with_table(occ()))),
    ]
}

fn occ() -> Engine {
    Engine::ephemeral(settings()).expect("sound settings")
}

fn with_table<E: coeval_txn::Engine>(engine: E) -> E {
    let indexes = vec![
        index(PRIMARY, IndexKind::Primary, 0),
        index(UNIQUE, IndexKind::Unique, 1),
    ];
    engine.attach_storage(definition(indexes)).expect("new");
    ready(load(&engine, [(1, 10), (2, 20)]));
    engine
}

fn alone(engine: &dyn coeval_txn::Engine, isolation: Isolation) -> Box<dyn Transaction> {
    let mut t = ready(begin(engine, isolation));
    let lock = coeval_txn::lock_table(&mut *t, STORAGE, TableLock::AccessExclusive, 1);
    ready(lock).expect("nobody else");
    t
}

fn writer(engine: &dyn coeval_txn::Engine) -> Box<dyn Transaction> {
    let mut t = ready(begin(engine, Isolation::ReadCommitted));
    ready(lock_table(&mut *t)).expect("nobody has it alone");
    t
}

fn build(
    t: &mut dyn Transaction,
    id: IndexId,
    kind: IndexKind,
    cell: usize,
) -> Result<IndexBuild, Error> {
    ready(coeval_txn::build_index(t, STORAGE, &index(id, kind, cell)))
}

/// The index that refuses the row, or `None` if the row was inserted.
fn refused(t: &mut dyn Transaction, row: Row) -> Option<IndexId> {
    match ready(insert(t, row)).expect("nobody else") {
        Insert::Inserted(_) => None,
        Insert::Duplicate { index, .. } => Some(index),
    }
}

fn by_index(t: &mut dyn Transaction, id: IndexId) -> Result<Vec<Row>, Error> {
    let source = ScanSource::Index(id);
    scan(t, source, 0, u64::MAX, Direction::Forward, 10)
}

#[test]
fn a_dropped_index_refuses_nothing_until_a_rollback() {
    for (name, engine) in engines() {
        let mut t = alone(&*engine, Isolation::ReadCommitted);
        assert_eq!(refused(&mut *t, (3, 10)), Some(UNIQUE), "{name}");
        t.drop_index(STORAGE, UNIQUE).expect("it is there");
        assert_eq!(refused(&mut *t, (3, 10)), None, "{name}");
        let changed = ready(change(&mut *t, 2, |_| 10));
        assert!(matches!(changed, Ok(Some(Update::Updated(_)))), "{name}");
        let moved = ready(move_row(&mut *t, 1, 9));
        assert!(
            matches!(moved, Ok(Some((Update::Updated(_), 10)))),
            "{name}"
        );
        assert_eq!(all(&mut *t), [(2, 10), (3, 10), (9, 10)], "{name}");
        t.abort();

        let mut t = writer(&*engine);
        assert_eq!(
            by_index(&mut *t, UNIQUE),
            Ok(vec![(1, 10), (2, 20)]),
            "{name}"
        );
        assert_eq!(refused(&mut *t, (3, 10)), Some(UNIQUE), "{name}");
        assert_eq!(refused(&mut *t, (3, 20)), Some(UNIQUE), "{name}");
        assert_eq!(refused(&mut *t, (3, 30)), None, "{name}");
    }
}

#[test]
fn a_savepoint_keeps_what_was_dropped_before_it_and_takes_back_what_was_after() {
    for (name, engine) in engines() {
        let mut t = alone(&*engine, Isolation::ReadCommitted);
        let before = t.savepoint();
        t.drop_index(STORAGE, UNIQUE).expect("it is there");
        assert_eq!(refused(&mut *t, (3, 10)), None, "{name}");
        let after = t.savepoint();
        assert_eq!(refused(&mut *t, (4, 10)), None, "{name}");
        t.rollback_to(after).expect("it stands");
        assert_eq!(refused(&mut *t, (4, 20)), None, "{name}: still dropped");
        t.rollback_to(before).expect("it stands");
        assert_eq!(refused(&mut *t, (4, 20)), Some(UNIQUE), "{name}");
        assert_eq!(refused(&mut *t, (4, 40)), None, "{name}");
        ready(commit(&mut *t)).expect("nothing against it");
        let mut t = writer(&*engine);
        assert_eq!(
            by_index(&mut *t, UNIQUE),
            Ok(vec![(1, 10), (2, 20), (4, 40)]),
            "{name}"
        );
        assert_eq!(refused(&mut *t, (5, 40)), Some(UNIQUE), "{name}");
    }
}

#[test]
fn an_index_is_dropped_and_built_again_in_one_transaction() {
    const AGAIN: IndexId = IndexId(4);
    for (name, engine) in engines() {
        let mut t = alone(&*engine, Isolation::ReadCommitted);
        t.drop_index(STORAGE, UNIQUE).expect("it is there");
        assert_eq!(refused(&mut *t, (3, 10)), None, "{name}");
        let built = build(&mut *t, AGAIN, IndexKind::Unique, 1);
        assert!(matches!(built, Ok(IndexBuild::Duplicate(..))), "{name}");
        assert_eq!(refused(&mut *t, (4, 10)), None, "{name}: there is none");
        for key in [1, 4] {
            assert_eq!(ready(delete(&mut *t, key)), Ok(true), "{name}");
        }
        let built = build(&mut *t, AGAIN, IndexKind::Unique, 1);
        assert_eq!(built, Ok(IndexBuild::Built), "{name}");
        assert_eq!(refused(&mut *t, (1, 10)), Some(AGAIN), "{name}");
        assert_eq!(refused(&mut *t, (1, 50)), None, "{name}");
        ready(commit(&mut *t)).expect("nothing against it");
        let mut t = writer(&*engine);
        let rows = vec![(3, 10), (2, 20), (1, 50)];
        assert_eq!(by_index(&mut *t, AGAIN), Ok(rows), "{name}");
        assert_eq!(refused(&mut *t, (6, 50)), Some(AGAIN), "{name}");
    }
}

#[test]
fn an_index_that_was_taken_back_is_nowhere() {
    const NEW: IndexId = IndexId(4);
    for (name, engine) in engines() {
        let mut t = alone(&*engine, Isolation::ReadCommitted);
        let before = t.savepoint();
        assert_eq!(
            build(&mut *t, NEW, IndexKind::Unique, 0),
            Ok(IndexBuild::Built)
        );
        t.rollback_to(before).expect("it stands");
        assert_eq!(by_index(&mut *t, NEW), Err(Error::Unknown("index")));
        assert_eq!(
            build(&mut *t, NEW, IndexKind::Unique, 1),
            Ok(IndexBuild::Built)
        );
        t.drop_index(STORAGE, UNIQUE).expect("it is there");
        assert_eq!(refused(&mut *t, (3, 10)), Some(NEW), "{name}");
        // Neither committed nor aborted: the client is gone.
        drop(t);
        let mut t = writer(&*engine);
        assert_eq!(by_index(&mut *t, NEW), Err(Error::Unknown("index")));
        assert_eq!(refused(&mut *t, (3, 10)), Some(UNIQUE), "{name}");
    }
}

/// This includes a primary index, which every writer would conflict with.
#[test]
fn a_primary_index_that_was_taken_back_refuses_nothing() {
    for engine in [
        Box::new(Serial::default()) as Box<dyn coeval_txn::Engine>,
        Box::new(occ()),
    ] {
        let engine = &*engine;
        engine.attach_storage(definition(vec![])).expect("new");
        ready(load(engine, [(1, 1)]));
        let mut t = alone(engine, Isolation::ReadCommitted);
        let built = build(&mut *t, PRIMARY, IndexKind::Primary, 0);
        assert_eq!(built, Ok(IndexBuild::Built));
        assert_eq!(refused(&mut *t, (1, 2)), Some(PRIMARY));
        t.abort();
        let mut t = writer(engine);
        assert_eq!(refused(&mut *t, (1, 2)), None);
        ready(commit(&mut *t)).expect("nothing against it");
        let mut t = alone(engine, Isolation::ReadCommitted);
        let built = build(&mut *t, PRIMARY, IndexKind::Primary, 0);
        assert!(matches!(built, Ok(IndexBuild::Duplicate(..))));
        let built = build(&mut *t, PRIMARY, IndexKind::Primary, 1);
        assert_eq!(built, Ok(IndexBuild::Built));
        assert_eq!(
            t.drop_index(STORAGE, PRIMARY),
            Err(Error::Unknown("unique or secondary index"))
        );
    }
}

/// A commit that fails frees its locks itself. The next holder of the locks sees the
/// indexes that the catalog names, at once.
#[test]
fn a_commit_that_fails_leaves_the_indexes_as_they_were() {
    const NEW: IndexId = IndexId(4);
    let engine = with_table(occ());
    engine
        .attach_storage(StorageDefinition {
            id: OTHER,
            ..definition(vec![])
        })
        .expect("new");
    let add_to_other = |t: &mut dyn Transaction| {
        let lock = coeval_txn::lock_table(t, OTHER, TableLock::RowExclusive, 1);
        ready(lock).expect("nobody has it alone");
        let row = row_bytes((1, 1));
        let inserted = coeval_txn::insert(t, OTHER, RowRef::trusted(&row));
        ready(inserted).expect("nobody else");
    };
    let mut t = alone(&engine, Isolation::Serializable);
    let request = coeval_txn::ScanRequest {
        storage: OTHER,
        source: ScanSource::Table,
        bounds: coeval_txn::Bounds::ALL,
        direction: Direction::Forward,
        limit: 10,
    };
    t.scan(&request, &mut |_, _| std::ops::ControlFlow::Continue(()))
        .expect("a scan");
    let mut rival = ready(begin(&engine, Isolation::ReadCommitted));
    add_to_other(&mut *rival);
    ready(commit(&mut *rival)).expect("nothing against it");
    t.drop_index(STORAGE, UNIQUE).expect("it is there");
    assert_eq!(
        build(&mut *t, NEW, IndexKind::Unique, 0),
        Ok(IndexBuild::Built)
    );
    assert_eq!(refused(&mut *t, (3, 10)), None);
    let outcome = ready(coeval_txn::commit(&mut *t));
    assert!(matches!(outcome, Outcome::Aborted(Error::Conflict(_))));
    let mut t = writer(&engine);
    assert_eq!(by_index(&mut *t, NEW), Err(Error::Unknown("index")));
    assert_eq!(by_index(&mut *t, UNIQUE), Ok(vec![(1, 10), (2, 20)]));
    assert_eq!(refused(&mut *t, (3, 10)), Some(UNIQUE));
}

/// A snapshot from before the drop reads by the index correctly until it ends; then the
/// index is removed.
#[test]
fn a_dropped_index_serves_the_snapshots_that_know_it() {
    let engine = with_table(occ());
    let mut old = ready(begin(&engine, Isolation::SnapshotIsolation));
    let mut t = alone(&engine, Isolation::ReadCommitted);
    t.drop_index(STORAGE, UNIQUE).expect("it is there");
    assert_eq!(refused(&mut *t, (3, 10)), None);
    assert_eq!(ready(delete(&mut *t, 1)), Ok(true));
    ready(commit(&mut *t)).expect("nothing against it");
    for key in 4..7 {
        engine.sweep();
        let mut t = writer(&engine);
        assert_eq!(refused(&mut *t, (key, 10)), None);
        ready(commit(&mut *t)).expect("nothing against it");
    }
    assert_eq!(by_index(&mut *old, UNIQUE), Ok(vec![(1, 10), (2, 20)]));
    let mut found = None;
    let key = 10_u64.to_be_bytes();
    let there = old.get(STORAGE, UNIQUE, &key, &mut |_, row| {
        found = Some(crate::support::numbers(row));
    });
    assert_eq!((there, found), (Ok(true), Some((1, 10))));
    drop(old);
    engine.sweep();
    engine.sweep();
    let mut t = writer(&engine);
    assert_eq!(by_index(&mut *t, UNIQUE), Err(Error::Unknown("index")));
}

/// Many rows, in random order; the transaction that builds has deleted, changed, moved
/// and inserted some. Returns it, and the rows by value.
fn many_rows(engine: &dyn coeval_txn::Engine) -> (Box<dyn Transaction>, Vec<Row>) {
    const ROWS: u64 = 3_000;
    engine
        .attach_storage(definition(vec![index(PRIMARY, IndexKind::Primary, 0)]))
        .expect("new");
    let scattered = |number: u64| number * 7919 % ROWS;
    ready(load(
        engine,
        (0..ROWS).map(|key| (key, scattered(key) * 10)),
    ));
    let mut t = alone(engine, Isolation::ReadCommitted);
    for key in (0..ROWS).step_by(7) {
        assert_eq!(ready(delete(&mut *t, key)), Ok(true));
    }
    for key in (1..ROWS).step_by(7) {
        ready(change(&mut *t, key, |value| value + 3)).expect("alone");
        ready(move_row(&mut *t, key + 1, key + 2 * ROWS)).expect("alone");
        ready(insert(&mut *t, (key + ROWS, key * 10 + 5))).expect("alone");
    }
    let mut rows = all(&mut *t);
    rows.sort_unstable_by_key(|&(_, value)| value);
    (t, rows)
}

#[test]
fn an_index_built_at_once_has_every_row_as_its_builder_sees_it() {
    for engine in [
        Box::new(Serial::default()) as Box<dyn coeval_txn::Engine>,
        Box::new(occ()),
    ] {
        let (mut t, rows) = many_rows(&*engine);
        let built = build(&mut *t, UNIQUE, IndexKind::Unique, 1);
        assert_eq!(built, Ok(IndexBuild::Built));
        assert_eq!(by_index(&mut *t, UNIQUE).as_ref(), Ok(&rows));
        // The index is maintained from then on, also by other transactions.
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        assert_eq!(refused(&mut *t, (1 << 40, last.1)), Some(UNIQUE));
        assert_eq!(ready(delete(&mut *t, first.0)), Ok(true));
        ready(commit(&mut *t)).expect("nothing against it");
        let mut t = writer(&*engine);
        assert_eq!(refused(&mut *t, (1 << 40, last.1)), Some(UNIQUE));
        assert_eq!(refused(&mut *t, (1 << 40, first.1)), None);
        assert_eq!(refused(&mut *t, (1 << 41, last.1 + 1)), None);
        let mut expected = rows;
        expected[0] = (1 << 40, first.1);
        expected.push((1 << 41, last.1 + 1));
        assert_eq!(by_index(&mut *t, UNIQUE), Ok(expected));
    }
}

/// The reported pair of duplicates does not depend on the order in which keys sort.
#[test]
fn duplicates_are_those_that_a_row_by_row_build_would_meet_first() {
    let named = |engine: &dyn coeval_txn::Engine| {
        let (mut t, rows) = many_rows(engine);
        for (number, row) in [(1, 2_000), (2, 10), (3, 1_000), (4, 10)] {
            let copy = ((1 << 40) + number, rows[row].1);
            ready(insert(&mut *t, copy)).expect("nothing promises that there is none");
        }
        let built = build(&mut *t, UNIQUE, IndexKind::Unique, 1);
        let Ok(IndexBuild::Duplicate(one, other)) = built else {
            panic!("{built:?}");
        };
        let key_of = |rid| {
            let mut key = 0;
            let shown = t.get_record(STORAGE, rid, &mut |_, row| {
                key = crate::support::numbers(row).0;
            });
            assert_eq!(shown, Ok(true));
            key
        };
        let keys = [one, other].map(key_of);
        assert_eq!(keys, [rows[2_000].0, (1 << 40) + 1]);
        assert_eq!(by_index(&mut *t, UNIQUE), Err(Error::Unknown("index")));
        let built = build(&mut *t, UNIQUE, IndexKind::Secondary, 1);
        assert_eq!(built, Ok(IndexBuild::Built));
        assert_eq!(
            by_index(&mut *t, UNIQUE).expect("it is there").len(),
            rows.len() + 4
        );
    };
    named(&Serial::default());
    named(&occ());
}

/// A snapshot from before may show versions that have no entry.
#[test]
fn an_older_snapshot_does_not_read_by_a_new_index_and_reads_on() {
    const NEW: IndexId = IndexId(4);
    let engine = with_table(occ());
    let mut old = ready(begin(&engine, Isolation::SnapshotIsolation));
    assert_eq!(all(&mut *old).len(), 2);
    let mut t = writer(&engine);
    ready(change(&mut *t, 1, |_| 30)).expect("nobody else");
    ready(commit(&mut *t)).expect("nothing against it");
    let mut t = alone(&engine, Isolation::ReadCommitted);
    let built = build(&mut *t, NEW, IndexKind::Secondary, 1);
    assert_eq!(built, Ok(IndexBuild::Built));
    assert_eq!(by_index(&mut *t, NEW), Ok(vec![(2, 20), (1, 30)]));
    ready(commit(&mut *t)).expect("nothing against it");
    let read = by_index(&mut *old, NEW);
    assert!(read.is_err(), "{read:?}");
    assert_eq!(all(&mut *old), [(1, 10), (2, 20)]);
    let mut new = writer(&engine);
    assert_eq!(by_index(&mut *new, NEW), Ok(vec![(2, 20), (1, 30)]));
}

/// One transaction builds an index of a table that another reads, while a third writes
/// another table.
#[test]
fn an_index_is_built_while_others_read_its_table_and_write_another() {
    use std::sync::atomic::{AtomicBool, Ordering};
    const ROWS: u64 = 5_000;
    let engine = occ();
    for id in [STORAGE, OTHER] {
        let definition = StorageDefinition {
            id,
            ..definition(vec![index(PRIMARY, IndexKind::Primary, 0)])
        };
        engine.attach_storage(definition).expect("new");
    }
    ready(load(&engine, (0..ROWS).map(|key| (key, ROWS - key))));
    let (engine, done) = (&engine, &AtomicBool::new(false));
    let rows: Vec<Row> = (0..ROWS).map(|key| (key, ROWS - key)).collect();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut scans = 0;
            while !done.load(Ordering::Relaxed) || scans == 0 {
                let mut t = ready(begin(engine, Isolation::SnapshotIsolation));
                assert_eq!(all(&mut *t), rows);
                scans += 1;
            }
        });
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !done.load(Ordering::Relaxed) || written == 0 {
                let mut t = ready(begin(engine, Isolation::ReadCommitted));
                let lock = coeval_txn::lock_table(&mut *t, OTHER, TableLock::RowExclusive, 1);
                ready(lock).expect("nobody has it alone");
                let row = row_bytes((written, written));
                let inserted = coeval_txn::insert(&mut *t, OTHER, RowRef::trusted(&row));
                ready(inserted).expect("nobody else");
                ready(commit(&mut *t)).expect("nothing against it");
                written += 1;
            }
        });
        for id in 3..8 {
            let mut t = alone(engine, Isolation::ReadCommitted);
            let built = build(&mut *t, IndexId(id), IndexKind::Unique, 1);
            assert_eq!(built, Ok(IndexBuild::Built));
            let mut expected = rows.clone();
            expected.reverse();
            assert_eq!(by_index(&mut *t, IndexId(id)), Ok(expected));
            ready(commit(&mut *t)).expect("nothing against it");
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("what is read stays right");
        writer.join().expect("writes go on");
    });
}
