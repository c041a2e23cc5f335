//! Tests of what readers of a follower find, and of what their ends free.

mod indexes;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use coeval_log::Entry;
use coeval_txn::{
    Answered, BeginOptions, Bounds, Direction, Engine as _, Error, Isolation, LockWait, Outcome,
    Question, ScanRequest, ScanSource, TableLock, Transaction,
};
use coeval_types::planted::{Bug, plant};
use coeval_types::{IndexId, Lsn, Rid, RowLock, RowRef, StorageId, Term, Timestamp};

use crate::{AbortCause, Budget};

use super::super::tests::{Numbers, Unasked, begin, bytes, definitions, followed_tables, numbers};
use super::super::{FollowedTables, FollowerEngine, Questions};

const TABLE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(10);

const SECONDARY: IndexId = IndexId(12);

/// A change of a record of the table: its row from then on.
type Change = (u64, Option<Numbers>);

/// Tables that follow a log of commits, 64 bytes each.
struct World {
    tables: FollowedTables,
    engine: Arc<FollowerEngine>,
    end: u64,
}

impl World {
    fn new() -> Self {
        let tables = followed_tables(1);
        tables.define(definitions());
        Self {
            engine: FollowerEngine::new(tables.clone(), Arc::new(Unasked)),
            tables,
            end: 4096,
        }
    }

    /// Replays a commit, ahead of the commit point.
    fn replay(&mut self, changes: &[Change]) {
        let at = Timestamp::new(Term(1), Lsn(self.end));
        self.end += 64;
        for (rid, row) in changes {
            let (storage, rid) = (TABLE, Rid(*rid));
            let row = row.map(bytes);
            let entry = match &row {
                Some(row) => Entry::Image {
                    storage,
                    rid,
                    row: RowRef::trusted(row),
                },
                None => Entry::Delete { storage, rid },
            };
            self.tables.replay().apply(&[(at, entry)]).unwrap();
        }
        self.tables.settle();
    }

    /// Everything replayed is committed.
    fn commit(&self) {
        self.tables.commit(Lsn(self.end));
    }

    fn did(&mut self, changes: &[Change]) {
        self.replay(changes);
        self.commit();
    }

    fn begin(&self) -> Box<dyn Transaction> {
        begin(&self.engine, Isolation::SnapshotIsolation)
    }

    /// Records with versions that snapshots hold.
    fn held(&self) -> usize {
        self.tables.followed().unwrap().held()
    }

    /// Bytes of versions that no reader needs once all have ended.
    fn old_versions(&self) -> u64 {
        let storage = self.tables.followed().unwrap().storage(TABLE).unwrap();
        storage.records.memory().old_values
    }
}

fn get(reader: &mut dyn Transaction, key: u8) -> Result<Option<u64>, Error> {
    let key = vec![key; 1 + usize::from(key % 3)];
    let mut found = None;
    reader.get(TABLE, PRIMARY, &key, &mut |rid, _| found = Some(rid.0))?;
    Ok(found)
}

fn scan(reader: &mut dyn Transaction, index: IndexId, direction: Direction) -> Vec<Numbers> {
    let request = ScanRequest {
        storage: TABLE,
        source: ScanSource::Index(index),
        bounds: Bounds::ALL,
        direction,
        limit: 1000,
    };
    let mut rows = Vec::new();
    let scanned = reader.scan(&request, &mut |_, row| {
        rows.push(numbers(row));
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    rows
}

fn lock(reader: &mut dyn Transaction, version: u64) -> Result<(), Error> {
    let mut context = Context::from_waker(Waker::noop());
    let mode = TableLock::AccessShare;
    match reader.poll_lock_table(TABLE, mode, LockWait::Wait, version, &mut context) {
        Poll::Ready(locked) => locked,
        Poll::Pending => panic!("a reader waits for no lock"),
    }
}

#[test]
fn a_key_is_found_in_every_snapshot() {
    let mut world = World::new();
    world.did(&[(5, Some([7, 7, 7]))]);
    let mut old = world.begin();
    assert_eq!(get(&mut *old, 7), Ok(Some(5)));
    // The key's record is deleted, and another one gets the key.
    world.replay(&[(5, None)]);
    world.replay(&[(9, Some([7, 7, 8]))]);
    let mut visible = world.begin();
    for reader in [&mut old, &mut visible] {
        assert_eq!(get(&mut **reader, 7), Ok(Some(5)));
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(scan(&mut **reader, PRIMARY, direction), [[7, 7, 7]]);
        }
    }
    world.commit();
    assert_eq!(get(&mut *world.begin(), 7), Ok(Some(9)));
    assert_eq!(get(&mut *old, 7), Ok(Some(5)));
    // The first record gets the key again, while a snapshot shows the second one.
    let mut middle = world.begin();
    world.did(&[(9, None)]);
    world.did(&[(5, Some([7, 7, 9]))]);
    assert_eq!(get(&mut *old, 7), Ok(Some(5)));
    assert_eq!(get(&mut *middle, 7), Ok(Some(9)));
    assert_eq!(get(&mut *world.begin(), 7), Ok(Some(5)));
    assert_eq!(scan(&mut *old, PRIMARY, Direction::Forward), [[7, 7, 7]]);
    assert_eq!(scan(&mut *middle, PRIMARY, Direction::Forward), [[7, 7, 8]]);
    drop((old, visible, middle));
    while world.tables.work() {}
    assert_eq!((world.held(), world.old_versions()), (0, 0));
    world.tables.finish().unwrap();
}

/// Readers follow one another so that there always is one. Returns the most records that
/// they held at once.
fn steady_readers() -> usize {
    let mut world = World::new();
    for rid in 0..100 {
        world.did(&[(rid, Some([rid as u8, rid as u8, 0]))]);
    }
    let (mut reader, mut most) = (world.begin(), 0);
    for round in 0..1000_u64 {
        let rid = round % 100;
        let row = [rid as u8, rid as u8, (round % 7) as u8];
        world.did(&[(rid, Some(row))]);
        reader = world.begin();
        while world.tables.work() {}
        most = most.max(world.held());
    }
    drop(reader);
    let mut steps = 0;
    while world.tables.work() {
        steps += 1;
        assert!(steps < 3, "collecting a few records takes a step or two");
    }
    assert_eq!((world.held(), world.old_versions()), (0, 0));
    most
}

#[test]
fn versions_are_collected_beside_steady_readers() {
    assert!(steady_readers() <= 2);
}

#[test]
fn versions_that_are_collected_without_readers_only_are_found() {
    let planted = plant(Bug::CollectWithoutReaders).expect("tests have bugs to plant");
    let most = steady_readers();
    drop(planted);
    assert!(most > 50, "{most}");
}

#[test]
fn a_long_reader_holds_only_what_it_sees() {
    let mut world = World::new();
    world.did(&[(0, Some([1, 1, 0])), (1, Some([2, 2, 0]))]);
    let mut long = world.begin();
    for round in 0..100_u8 {
        let short = world.begin();
        world.did(&[(0, Some([1, 1, round])), (2, Some([3, 3, round]))]);
        drop(short);
        while world.tables.work() {}
        assert!(
            world.held() <= 1,
            "the version of record 0 that the long reader sees"
        );
    }
    assert_eq!(
        scan(&mut *long, PRIMARY, Direction::Backward),
        [[2, 2, 0], [1, 1, 0]]
    );
    drop(long);
    while world.tables.work() {}
    assert_eq!((world.held(), world.old_versions()), (0, 0));
}

#[test]
fn the_oldest_reader_ends_at_the_budget_and_replay_goes_on() {
    let mut world = World::new();
    let budget = Budget {
        old_versions: 512,
        ..Budget::UNLIMITED
    };
    let questions = Arc::new(Unasked);
    let engine = FollowerEngine::with_budget(world.tables.clone(), questions, budget);
    for rid in 0..100 {
        world.did(&[(rid, Some([rid as u8, rid as u8, 0]))]);
    }
    let mut oldest = begin(&engine, Isolation::ReadCommitted);
    world.did(&[(0, Some([0, 0, 9]))]);
    let mut younger = begin(&engine, Isolation::SnapshotIsolation);
    // They hold a few hundred bytes together, and then more than their share.
    assert_eq!(get(&mut *oldest, 1), Ok(Some(1)));
    let mut commits = 0;
    while get(&mut *oldest, 1).is_ok() {
        let rid = commits % 100;
        world.did(&[(rid, Some([rid as u8, rid as u8, 1]))]);
        commits += 1;
        assert!(commits < 1000, "{:?}", engine.memory());
    }
    assert_eq!(get(&mut *oldest, 1), Err(Error::SnapshotTooOld));
    assert_eq!(get(&mut *younger, 1), Ok(Some(1)));
    let ended = |engine: &FollowerEngine| engine.memory().map(|its| its.ended_snapshots);
    assert_eq!(ended(&engine), Some(1));
    // A new statement has a snapshot of its own.
    assert_eq!(oldest.begin_statement(), Ok(()));
    assert_eq!(get(&mut *oldest, 1), Ok(Some(1)));
    for rid in (0..100).chain(0..100) {
        world.did(&[(rid, Some([rid as u8, rid as u8, 2]))]);
    }
    assert_eq!(get(&mut *younger, 1), Err(Error::SnapshotTooOld));
    drop((oldest, younger));
    while world.tables.work() {}
    assert_eq!((world.held(), world.old_versions()), (0, 0));
    // A view is whole, whatever it holds. Younger readers end beside it.
    let view = world.tables.view().unwrap();
    let mut beside = begin(&engine, Isolation::SnapshotIsolation);
    world.did(&[(0, Some([0, 0, 9]))]);
    let mut younger = begin(&engine, Isolation::SnapshotIsolation);
    for rid in (0..100).chain(0..100) {
        world.did(&[(rid, Some([rid as u8, rid as u8, 3]))]);
    }
    assert_eq!(get(&mut *younger, 1), Err(Error::SnapshotTooOld));
    // One at the commit of the view holds no more than the view does.
    assert_eq!(get(&mut *beside, 1), Ok(Some(1)));
    let mut rows = Vec::new();
    view.rows(TABLE, Rid(0), 1000, &mut |saved| {
        rows.push(numbers(saved.row)[2])
    });
    assert_eq!(rows, [2; 100]);
}

#[test]
fn the_oldest_reader_ends_when_it_keeps_the_process_above_its_limit() {
    let mut world = World::new();
    let budget = Budget {
        limit: 8000,
        ..Budget::UNLIMITED
    };
    let engine = FollowerEngine::with_budget(world.tables.clone(), Arc::new(Unasked), budget);
    for rid in 0..100 {
        world.did(&[(rid, Some([rid as u8, rid as u8, 0]))]);
    }
    let mut oldest = begin(&engine, Isolation::SnapshotIsolation);
    let update = |world: &mut World, rid: u64| {
        (0..200).for_each(|round| {
            world.did(&[(rid, Some([rid as u8, rid as u8, round as u8 % 7]))]);
        });
    };
    // The process is above its limit whether the reader stays or not.
    update(&mut world, 0);
    let memory = engine.memory().unwrap();
    assert!(memory.used > memory.limit, "{memory:?}");
    assert_eq!(get(&mut *oldest, 1), Ok(Some(1)), "{memory:?}");
    (1..20).for_each(|rid| update(&mut world, rid));
    assert_eq!(get(&mut *oldest, 1), Err(Error::SnapshotTooOld));
    assert_eq!(engine.statistics().memory.ended_snapshots, 1);
    drop(oldest);
    let aborted = engine.statistics().aborted;
    let of = |cause| {
        AbortCause::ALL
            .iter()
            .position(|its| *its == cause)
            .unwrap()
    };
    assert_eq!(aborted[of(AbortCause::SnapshotTooOld)], 1);
}

#[test]
fn the_collecting_thread_is_woken_when_a_holder_ends() {
    struct Woken(AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let mut world = World::new();
    world.did(&[(0, Some([1, 1, 0]))]);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let (holds, reader) = (world.begin(), world.begin());
    world.did(&[(0, Some([1, 1, 1]))]);
    let later = world.begin();
    assert!(world.tables.poll_work(&mut context).is_pending());
    drop(later);
    assert!(!woken.0.load(Ordering::Relaxed), "it held nothing");
    drop(holds);
    // The other reader has the same snapshot.
    assert!(world.tables.poll_work(&mut context).is_pending());
    drop(reader);
    assert!(woken.0.load(Ordering::Relaxed));
    assert!(world.tables.poll_work(&mut context).is_ready());
    assert!(world.tables.work());
    assert!(world.tables.poll_work(&mut context).is_pending());
    assert_eq!(world.old_versions(), 0);
}

#[test]
fn a_dropped_table_stays_for_the_snapshots_that_know_it() {
    let mut world = World::new();
    world.did(&[(0, Some([1, 1, 3]))]);
    let mut old = world.begin();
    world.did(&[(0, Some([1, 1, 4]))]);
    let mut others = definitions();
    others.remove(0);
    world.tables.define(others);
    assert_eq!(get(&mut *old, 1), Ok(Some(0)));
    assert_eq!(lock(&mut *old, 1), Ok(()));
    let view = world.tables.view().unwrap();
    assert!(view.storages().all(|storage| storage != TABLE));
    assert!(!world.engine.storages().contains(&TABLE));
    drop(view);
    drop(old);
    while world.tables.work() {}
    assert!(world.tables.followed().unwrap().storage(TABLE).is_none());
    let mut reader = world.begin();
    assert_eq!(lock(&mut *reader, 1), Err(Error::SchemaChanged(TABLE)));
    assert_eq!(world.held(), 0);
}

#[test]
fn each_level_has_its_snapshots() {
    let mut world = World::new();
    world.did(&[(0, Some([1, 1, 0]))]);
    let levels = [
        Isolation::ReadCommitted,
        Isolation::SnapshotIsolation,
        Isolation::Serializable,
    ];
    let mut readers = levels.map(|level| begin(&world.engine, level));
    let first = world.tables.visible();
    world.did(&[(0, None), (3, Some([1, 1, 1]))]);
    for (reader, level) in readers.iter_mut().zip(levels) {
        assert_eq!((reader.isolation(), reader.snapshot()), (level, first));
        assert_eq!(get(&mut **reader, 1), Ok(Some(0)));
        assert_eq!(reader.newest_seen(), first);
        reader.begin_statement().unwrap();
        let moves = level == Isolation::ReadCommitted;
        assert_eq!(get(&mut **reader, 1), Ok(Some(if moves { 3 } else { 0 })));
        let kept = reader.keep_snapshot();
        world.did(&[(3, None), (4, Some([1, 1, 2]))]);
        reader.begin_statement().unwrap();
        assert_eq!(get(&mut **reader, 1), Ok(Some(if moves { 4 } else { 0 })));
        reader.resume_snapshot(kept).unwrap();
        assert_eq!(get(&mut **reader, 1), Ok(Some(if moves { 3 } else { 0 })));
        reader.renew_snapshot().unwrap();
        assert_eq!(get(&mut **reader, 1), Ok(Some(4)));
        world.did(&[(4, None), (3, Some([1, 1, 2]))]);
        let snapshot = reader.snapshot();
        let mut context = Context::from_waker(Waker::noop());
        let committed = reader.poll_commit(&mut context);
        let at = |outcome| match outcome {
            Poll::Ready(Outcome::Committed(at)) => Some(at),
            _ => None,
        };
        assert_eq!(at(committed), Some(snapshot));
        assert!(matches!(get(&mut **reader, 1), Err(Error::Unknown(_))));
        world.did(&[(3, None), (0, Some([1, 1, 0]))]);
        if moves {
            // The others read what the first snapshot shows: record 0, again and again.
            world.did(&[(0, Some([1, 1, 5]))]);
        }
        world.did(&[(0, None), (3, Some([1, 1, 1]))]);
    }
}

#[test]
fn a_reader_writes_and_locks_nothing() {
    let mut world = World::new();
    world.did(&[(0, Some([1, 1, 0]))]);
    let mut reader = world.begin();
    let mut context = Context::from_waker(Waker::noop());
    let row = bytes([2, 2, 2]);
    let row = RowRef::trusted(&row);
    let refused = |poll: Poll<Result<(), Error>>| poll == Poll::Ready(Err(Error::ReadOnly));
    assert!(world.engine.is_read_only());
    assert!(refused(
        reader.poll_insert(TABLE, row, &mut context).map_ok(drop)
    ));
    assert!(refused(
        reader
            .poll_update(TABLE, Rid(0), row, &mut context)
            .map_ok(drop)
    ));
    assert_eq!(reader.delete(TABLE, Rid(0)), Err(Error::ReadOnly));
    let mode = RowLock::KeyShare;
    let (wait, mut visit) = (LockWait::Wait, |_, _: RowRef<'_>| {});
    let locked = reader.poll_lock_row(TABLE, Rid(0), mode, wait, &mut visit, &mut context);
    assert!(refused(locked.map_ok(drop)));
    let mode = TableLock::RowShare;
    assert!(refused(reader.poll_lock_table(
        TABLE,
        mode,
        wait,
        1,
        &mut context
    )));
    assert_eq!(reader.drop_index(TABLE, PRIMARY), Err(Error::ReadOnly));
    assert_eq!(reader.set_schema_version(TABLE, 2), Err(Error::ReadOnly));
    // It goes on after that.
    let savepoint = reader.savepoint();
    assert_eq!(get(&mut *reader, 1), Ok(Some(0)));
    assert_eq!(reader.rollback_to(savepoint), Ok(()));
    reader.release(savepoint);
    assert_eq!(
        reader.rollback_to(savepoint),
        Err(Error::Unknown("savepoint"))
    );
}

#[test]
fn a_reader_ends_when_it_is_canceled() {
    let mut world = World::new();
    world.did(&[(0, Some([1, 1, 0]))]);
    let cancel = Arc::new(AtomicBool::new(false));
    let options = BeginOptions {
        cancel: Some(Arc::clone(&cancel)),
        ..BeginOptions::default()
    };
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(mut reader)) = world.engine.poll_begin(&options, &mut context) else {
        panic!("it does not wait");
    };
    assert_eq!(get(&mut *reader, 1), Ok(Some(0)));
    cancel.store(true, Ordering::Release);
    assert_eq!(get(&mut *reader, 1), Err(Error::Canceled));
    assert_eq!(reader.begin_statement(), Err(Error::Canceled));
}

/// A leader that answers with the offset that the test sets; 0 for a lost question.
#[derive(Debug, Default)]
struct Answers(AtomicU64);

impl Questions for Answers {
    fn ask(&self) -> Question {
        Question(7)
    }

    fn poll(&self, question: Question, _: &mut Context<'_>) -> Poll<Result<Lsn, Error>> {
        assert_eq!(question, Question(7));
        match self.0.load(Ordering::Relaxed) {
            0 => Poll::Ready(Err(Error::Stopped("lost".to_owned()))),
            at => Poll::Ready(Ok(Lsn(at))),
        }
    }

    fn answered(&self, _: Question) -> Option<Answered> {
        None
    }

    fn asked(&self) -> u64 {
        0
    }

    fn awaits(&self) -> bool {
        false
    }

    fn learn(&self, _: u64, _: Lsn) {}
}

#[test]
fn a_question_is_answered_when_the_tables_are_there() {
    let mut world = World::new();
    let answers = Arc::new(Answers::default());
    let questions: Arc<dyn Questions> = answers.clone();
    let engine = FollowerEngine::new(world.tables.clone(), questions);
    let mut context = Context::from_waker(Waker::noop());
    let asked = engine.ask_newest().unwrap();
    let lost = Poll::Ready(Err(Error::Stopped("lost".to_owned())));
    assert_eq!(engine.poll_newest(asked, &mut context), lost);
    world.replay(&[(0, Some([1, 1, 0]))]);
    answers.0.store(world.end, Ordering::Relaxed);
    assert!(engine.poll_newest(asked, &mut context).is_pending());
    world.tables.commit(Lsn(world.end - 1));
    assert!(engine.poll_newest(asked, &mut context).is_pending());
    world.commit();
    assert_eq!(engine.poll_newest(asked, &mut context), Poll::Ready(Ok(())));
    // Log without a commit counts: the mark of a term.
    answers.0.store(world.end + 64, Ordering::Relaxed);
    assert!(engine.poll_newest(asked, &mut context).is_pending());
    world.end += 64;
    world.commit();
    assert_eq!(engine.poll_newest(asked, &mut context), Poll::Ready(Ok(())));
    assert_eq!(
        get(&mut *begin(&engine, Isolation::ReadCommitted), 1),
        Ok(Some(0))
    );
}

#[test]
fn readers_wait_for_the_commit_that_they_need() {
    let mut world = World::new();
    let minimum = Timestamp::new(Term(1), Lsn(world.end));
    let options = BeginOptions {
        minimum: Some(minimum),
        ..BeginOptions::default()
    };
    let mut context = Context::from_waker(Waker::noop());
    world.replay(&[(0, Some([1, 1, 0]))]);
    assert!(world.engine.poll_begin(&options, &mut context).is_pending());
    world.commit();
    let Poll::Ready(Ok(mut reader)) = world.engine.poll_begin(&options, &mut context) else {
        panic!("the commit is visible");
    };
    assert_eq!(
        (reader.snapshot(), get(&mut *reader, 1)),
        (minimum, Ok(Some(0)))
    );
}

#[test]
fn a_retired_engine_stops_its_readers_and_frees_its_tables() {
    let mut world = World::new();
    world.did(&[(0, Some([1, 1, 0]))]);
    let mut reader = world.begin();
    let past = Lsn(world.end + 1);
    let mut context = Context::from_waker(Waker::noop());
    assert!(world.tables.poll_visible(past, &mut context).is_pending());
    world.engine.retire();
    assert!(matches!(get(&mut *reader, 1), Err(Error::Stopped(_))));
    assert!(matches!(reader.renew_snapshot(), Err(Error::Stopped(_))));
    let begun = world
        .engine
        .poll_begin(&BeginOptions::default(), &mut context);
    assert!(matches!(begun, Poll::Ready(Err(Error::Stopped(_)))));
    let waited = world.tables.poll_visible(past, &mut context);
    assert!(matches!(waited, Poll::Ready(Err(Error::Stopped(_)))));
    // Replay goes on, until the node has decided what becomes of the tables.
    world.did(&[(1, Some([2, 2, 0]))]);
    let World { tables, engine, .. } = world;
    let followed = Arc::clone(tables.followed().unwrap());
    drop(tables);
    assert!(
        followed.storage(TABLE).is_none(),
        "the session keeps no memory"
    );
    drop((reader, engine));
}

/// One key moves from record to record, while readers look for it. Each of them must find
/// it, in every order, whatever replay is doing.
#[test]
fn a_key_that_moves_is_found_by_concurrent_readers() {
    let mut world = World::new();
    world.did(&[(0, Some([7, 7, 7])), (9, Some([5, 5, 5]))]);
    let ended = AtomicBool::new(false);
    let moves = if cfg!(miri) { 20 } else { 3000 };
    std::thread::scope(|scope| {
        for reads_backward in [false, true] {
            let (engine, ended) = (Arc::clone(&world.engine), &ended);
            scope.spawn(move || {
                let direction = match reads_backward {
                    true => Direction::Backward,
                    false => Direction::Forward,
                };
                let mut old = begin(&engine, Isolation::ReadCommitted);
                let mut reads = 0_u64;
                while !ended.load(Ordering::Relaxed) || reads == 0 {
                    reads += 1;
                    if reads.is_multiple_of(7) {
                        old.begin_statement().unwrap();
                    }
                    let mut new = begin(&engine, Isolation::SnapshotIsolation);
                    for reader in [&mut old, &mut new] {
                        let at = reader.snapshot();
                        assert!(get(&mut **reader, 7).unwrap().is_some(), "at {at}");
                        let keys = scan(&mut **reader, PRIMARY, direction);
                        let keys: Vec<_> = keys.into_iter().map(|row| row[0]).collect();
                        let expected = if reads_backward { [7, 5] } else { [5, 7] };
                        assert_eq!(keys, expected, "at {at}");
                    }
                }
            });
        }
        for at in 0..moves {
            let (from, to) = (at % 3, (at + 1) % 3);
            world.replay(&[(from, None), (to, Some([7, 7, (at % 5) as u8]))]);
            if at % 4 == 3 {
                world.commit();
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    world.commit();
    while world.tables.work() {}
    assert_eq!((world.held(), world.old_versions()), (0, 0));
    world.tables.finish().unwrap();
}
