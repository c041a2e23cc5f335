//! Locks: deadlocks, timeouts, unique keys, hot rows, and the reported waits.

use std::future::Future as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use coeval_occ::Engine;
use coeval_txn::{
    BeginOptions, Bounds, Cause, ConflictLocation, Direction, Engine as _, Error, IndexBuild,
    Insert, Isolation, LockWait, LockedRow, RowLock, ScanRequest, ScanSource, TableLock,
    Transaction, Update,
};
use coeval_types::{IndexId, IndexKind, Rid, RowRef};

use crate::support::{
    PRIMARY, STORAGE, all, begin, change, commit, definition, delete, engine, get, index, insert,
    load, lock_table, locked, ready, row_bytes, settings,
};

const READ_COMMITTED: Isolation = Isolation::ReadCommitted;
const UNIQUE: IndexId = IndexId(3);

/// An engine whose values are unique.
fn unique_engine() -> Engine {
    let engine = Engine::ephemeral(settings()).expect("sound settings");
    let indexes = vec![
        index(PRIMARY, IndexKind::Primary, 0),
        index(UNIQUE, IndexKind::Unique, 1),
    ];
    engine.attach_storage(definition(indexes)).expect("new");
    engine
}

async fn writer(engine: &Engine) -> Box<dyn Transaction> {
    let mut transaction = begin(engine, READ_COMMITTED).await;
    lock_table(&mut *transaction)
        .await
        .expect("nobody has it alone");
    transaction
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn poll_lock(
    transaction: &mut dyn Transaction,
    rid: Rid,
    waker: &Waker,
) -> Poll<Result<LockedRow, Error>> {
    poll_lock_in(transaction, rid, RowLock::Update, waker)
}

pub(crate) fn poll_lock_in(
    transaction: &mut dyn Transaction,
    rid: Rid,
    mode: RowLock,
    waker: &Waker,
) -> Poll<Result<LockedRow, Error>> {
    let mut context = Context::from_waker(waker);
    transaction.poll_lock_row(
        STORAGE,
        rid,
        mode,
        LockWait::Wait,
        &mut |_, _| {},
        &mut context,
    )
}

#[test]
fn a_circle_of_three_is_named() {
    let engine = engine();
    ready(load(&engine, [(1, 0), (2, 0), (3, 0)]));
    let mut a = ready(writer(&engine));
    let mut b = ready(writer(&engine));
    let mut c = ready(writer(&engine));
    let rid = |t: &mut dyn Transaction, key| get(t, key).expect("a read").expect("loaded").0;
    let (one, two, three) = (rid(&mut *a, 1), rid(&mut *a, 2), rid(&mut *a, 3));
    let waker = Waker::noop();
    for (t, own) in [(&mut a, one), (&mut b, two), (&mut c, three)] {
        assert!(poll_lock(&mut **t, own, waker).is_ready());
    }
    assert!(poll_lock(&mut *a, two, waker).is_pending());
    assert!(poll_lock(&mut *b, three, waker).is_pending());
    let Poll::Ready(Err(Error::Deadlock { circle, .. })) = poll_lock(&mut *c, one, waker) else {
        panic!("it closes the circle");
    };
    assert_eq!(circle, [c.id(), a.id(), b.id()]);
    c.abort();
    assert!(poll_lock(&mut *b, three, waker).is_ready());
}

#[test]
fn a_waiter_that_gives_up_lets_the_next_one_on() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut a = ready(writer(&engine));
    let (rid, _) = ready(locked(&mut *a, 1)).expect("free").expect("loaded");
    let (mut b, mut c) = (ready(writer(&engine)), ready(writer(&engine)));
    let woken = Arc::new(Count::default());
    assert!(poll_lock(&mut *b, rid, Waker::noop()).is_pending());
    assert!(poll_lock(&mut *c, rid, &Waker::from(Arc::clone(&woken))).is_pending());
    a.abort();
    assert_eq!(woken.0.load(Ordering::Relaxed), 0, "b is first");
    drop(b);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "b never looked");
    assert!(poll_lock(&mut *c, rid, Waker::noop()).is_ready());
}

#[tokio::test]
async fn a_lock_is_waited_for_so_long_and_no_longer() {
    let engine = engine();
    load(&engine, [(1, 0)]).await;
    let mut a = writer(&engine).await;
    change(&mut *a, 1, |_| 1).await.expect("free");
    let mut b = writer(&engine).await;
    b.set_lock_timeout(Some(Duration::from_millis(5)));
    let error = change(&mut *b, 1, |_| 2).await.expect_err("a keeps it");
    assert!(matches!(error, Error::LockTimeout(_)), "{error:?}");
    b.abort();
    commit(&mut *a).await.expect("nothing against it");
}

#[test]
fn who_waited_in_vain_is_told_for_whom() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut a = ready(writer(&engine));
    let (rid, _) = ready(locked(&mut *a, 1)).expect("free").expect("loaded");
    let mut b = ready(begin(&engine, Isolation::SnapshotIsolation));
    assert!(poll_lock(&mut *b, rid, Waker::noop()).is_pending());
    ready(change(&mut *a, 1, |_| 1)).expect("its own");
    ready(commit(&mut *a)).expect("nothing against it");
    let Poll::Ready(Err(Error::Conflict(conflict))) = poll_lock(&mut *b, rid, Waker::noop()) else {
        panic!("a was first");
    };
    assert_eq!(conflict.cause, Cause::WriteWrite);
    assert_eq!(conflict.other, Some(a.id()));
    let storage = STORAGE;
    assert_eq!(conflict.place, ConflictLocation::Row { storage, rid });
}

#[test]
fn a_cancel_ends_a_wait() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut a = ready(writer(&engine));
    let (rid, _) = ready(locked(&mut *a, 1)).expect("free").expect("loaded");
    let cancel = Arc::new(AtomicBool::new(false));
    let options = BeginOptions {
        cancel: Some(Arc::clone(&cancel)),
        ..BeginOptions::default()
    };
    let mut b = ready(coeval_txn::begin(&engine, &options)).expect("not canceled");
    assert!(poll_lock(&mut *b, rid, Waker::noop()).is_pending());
    cancel.store(true, Ordering::Release);
    let answer = poll_lock(&mut *b, rid, Waker::noop());
    assert_eq!(answer, Poll::Ready(Err(Error::Canceled)));
}

#[test]
fn one_unique_key_has_one_row() {
    let engine = unique_engine();
    ready(load(&engine, [(1, 10)]));
    let mut a = ready(writer(&engine));
    assert!(matches!(
        ready(insert(&mut *a, (2, 10))),
        Ok(Insert::Duplicate { index: UNIQUE, .. })
    ));
    assert!(matches!(
        ready(insert(&mut *a, (2, 20))),
        Ok(Insert::Inserted(_))
    ));
    let mut b = ready(writer(&engine));
    let row = row_bytes((3, 20));
    let mut context = Context::from_waker(Waker::noop());
    let mut poll =
        |b: &mut dyn Transaction| b.poll_insert(STORAGE, RowRef::trusted(&row), &mut context);
    assert!(poll(&mut *b).is_pending(), "what becomes of a's row?");
    a.abort();
    assert!(matches!(
        poll(&mut *b),
        Poll::Ready(Ok(Insert::Inserted(_)))
    ));
    ready(commit(&mut *b)).expect("nothing against it");

    // A row is deleted and inserted again, in one transaction and in two.
    let mut c = ready(writer(&engine));
    assert_eq!(ready(delete(&mut *c, 1)), Ok(true));
    assert!(matches!(
        ready(insert(&mut *c, (4, 10))),
        Ok(Insert::Inserted(_))
    ));
    ready(commit(&mut *c)).expect("nothing against it");
    let mut d = ready(writer(&engine));
    assert_eq!(all(&mut *d), [(3, 20), (4, 10)]);
    assert!(matches!(
        ready(insert(&mut *d, (1, 10))),
        Ok(Insert::Duplicate { .. })
    ));
}

#[test]
fn a_unique_key_that_a_deleter_may_give_back_is_waited_for() {
    let engine = unique_engine();
    ready(load(&engine, [(1, 10)]));
    for commits in [false, true] {
        let mut a = ready(writer(&engine));
        assert_eq!(ready(delete(&mut *a, 1)), Ok(true));
        let mut b = ready(writer(&engine));
        let row = row_bytes((2, 10));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll =
            |b: &mut dyn Transaction| b.poll_insert(STORAGE, RowRef::trusted(&row), &mut context);
        assert!(poll(&mut *b).is_pending());
        if commits {
            ready(commit(&mut *a)).expect("nothing against it");
            assert!(matches!(
                poll(&mut *b),
                Poll::Ready(Ok(Insert::Inserted(_)))
            ));
        } else {
            a.abort();
            assert!(matches!(
                poll(&mut *b),
                Poll::Ready(Ok(Insert::Duplicate { .. }))
            ));
        }
    }
}

#[test]
fn what_a_rollback_took_back_leaves_nothing_in_an_index() {
    let engine = unique_engine();
    let mut a = ready(writer(&engine));
    let savepoint = a.savepoint();
    assert!(matches!(
        ready(insert(&mut *a, (1, 10))),
        Ok(Insert::Inserted(_))
    ));
    ready(change(&mut *a, 1, |_| 11)).expect("its own");
    assert_eq!(ready(delete(&mut *a, 1)), Ok(true));
    assert!(matches!(
        ready(insert(&mut *a, (1, 12))),
        Ok(Insert::Inserted(_))
    ));
    a.rollback_to(savepoint).expect("it stands");
    assert!(all(&mut *a).is_empty());
    assert!(matches!(
        ready(insert(&mut *a, (2, 10))),
        Ok(Insert::Inserted(_))
    ));
    ready(change(&mut *a, 2, |_| 20)).expect("its own");
    ready(commit(&mut *a)).expect("nothing against it");
    let mut b = ready(writer(&engine));
    for (row, free) in [((1, 20), false), ((1, 10), true), ((3, 12), true)] {
        let inserted = ready(insert(&mut *b, row)).expect("nobody else");
        assert_eq!(matches!(inserted, Insert::Inserted(_)), free, "{row:?}");
    }
    drop(b);
    engine.sweep();
    let mut c = ready(writer(&engine));
    assert_eq!(all(&mut *c), [(2, 20)]);
}

/// PostgreSQL's aborted-keyrevoke: locks taken since a savepoint go with it, locks from before
/// stay.
#[test]
fn a_rollback_to_a_savepoint_frees_the_locks_taken_since() {
    let engine = unique_engine();
    ready(load(&engine, [(1, 10), (2, 20), (3, 30)]));
    let mut a = ready(writer(&engine));
    ready(change(&mut *a, 1, |_| 11)).expect("free");
    let savepoint = a.savepoint();
    ready(change(&mut *a, 1, |_| 12)).expect("its own");
    ready(change(&mut *a, 2, |_| 21)).expect("free");
    let (three, _) = ready(locked(&mut *a, 3)).expect("free").expect("loaded");
    assert!(matches!(
        ready(insert(&mut *a, (4, 40))),
        Ok(Insert::Inserted(_))
    ));
    let woken = Arc::new(Count::default());
    let (mut b, mut c) = (ready(writer(&engine)), ready(writer(&engine)));
    assert!(poll_lock(&mut *b, three, &Waker::from(Arc::clone(&woken))).is_pending());
    assert_eq!(inserts(&mut *c, (5, 40)), None, "a may keep the key");
    a.rollback_to(savepoint).expect("it stands");
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(poll_lock(&mut *b, three, Waker::noop()).is_ready());
    ready(change(&mut *b, 2, |value| value + 2)).expect("freed");
    assert_eq!(inserts(&mut *c, (5, 40)), Some(true));
    assert_eq!(inserts(&mut *c, (4, 41)), Some(true));
    let (one, _) = get(&mut *c, 1).expect("a read").expect("loaded");
    assert!(poll_lock(&mut *c, one, Waker::noop()).is_pending());
    ready(commit(&mut *a)).expect("nothing against it");
    assert!(poll_lock(&mut *c, one, Waker::noop()).is_ready());
    ready(commit(&mut *b)).expect("nothing against it");
    ready(commit(&mut *c)).expect("nothing against it");
    let mut d = ready(writer(&engine));
    assert_eq!(all(&mut *d), [(1, 11), (2, 22), (3, 30), (4, 41), (5, 40)]);
}

/// Whether the row can be inserted at once; `None` when other transactions must end
/// first.
fn inserts(t: &mut dyn Transaction, row: (u64, u64)) -> Option<bool> {
    let bytes = row_bytes(row);
    let mut context = Context::from_waker(Waker::noop());
    match t.poll_insert(STORAGE, RowRef::trusted(&bytes), &mut context) {
        Poll::Ready(inserted) => Some(matches!(inserted, Ok(Insert::Inserted(_)))),
        Poll::Pending => None,
    }
}

#[test]
fn a_row_that_is_refused_leaves_its_keys_to_others() {
    let engine = Engine::ephemeral(settings()).expect("sound settings");
    let indexes = vec![
        index(PRIMARY, IndexKind::Unique, 0),
        index(UNIQUE, IndexKind::Unique, 1),
    ];
    engine.attach_storage(definition(indexes)).expect("new");
    ready(load(&engine, [(1, 10), (2, 20)]));
    let mut a = ready(writer(&engine));
    assert_eq!(inserts(&mut *a, (3, 30)), Some(true));
    // Key 4 is checked, and free, before key 10 is found taken.
    assert_eq!(inserts(&mut *a, (4, 10)), Some(false));
    assert_eq!(inserts(&mut *a, (3, 40)), Some(false));
    let refused = ready(change(&mut *a, 2, |_| 10));
    assert!(matches!(
        refused,
        Ok(Some(Update::Duplicate { index: UNIQUE, .. }))
    ));
    let mut b = ready(writer(&engine));
    assert_eq!(ready(delete(&mut *b, 1)), Ok(true));
    for row in [(4, 40), (1, 10)] {
        assert_eq!(inserts(&mut *b, row), Some(true), "{row:?}");
    }
    // But the keys of the existing row stay locked.
    for row in [(3, 50), (5, 30)] {
        assert_eq!(inserts(&mut *b, row), None, "{row:?}");
    }
    a.abort();
    assert_eq!(inserts(&mut *b, (3, 30)), Some(true));
}

/// A transaction that waits for a key of a refused row continues at once.
#[test]
fn a_refused_row_wakes_those_who_wait_for_its_key() {
    let engine = unique_engine();
    ready(load(&engine, [(1, 10)]));
    let mut a = ready(writer(&engine));
    let (rid, _) = ready(locked(&mut *a, 1)).expect("free").expect("loaded");
    let mut b = ready(writer(&engine));
    assert_eq!(inserts(&mut *b, (2, 10)), Some(false), "the row is there");
    assert_eq!(ready(delete(&mut *a, 1)), Ok(true));
    assert_eq!(inserts(&mut *b, (2, 10)), None, "the row's fate is open");
    let count = Arc::new(Count::default());
    let mut c = ready(writer(&engine));
    let bytes = row_bytes((3, 10));
    let poll_c = |c: &mut dyn Transaction| {
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        c.poll_insert(STORAGE, RowRef::trusted(&bytes), &mut context)
    };
    assert!(poll_c(&mut *c).is_pending(), "b has the key");
    a.abort();
    assert_eq!(inserts(&mut *b, (2, 10)), Some(false));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    let refused = poll_c(&mut *c);
    let duplicate = Ok(Insert::Duplicate { index: UNIQUE, rid });
    assert_eq!(refused, Poll::Ready(duplicate));
}

/// At SERIALIZABLE the answer that a row is refused, and by which index, must hold until
/// the end of the transaction.
#[test]
fn a_refused_row_keeps_its_keys_at_serializable() {
    let engine = unique_engine();
    ready(load(&engine, [(1, 10)]));
    let mut a = ready(begin(&engine, Isolation::Serializable));
    ready(lock_table(&mut *a)).expect("nobody has it alone");
    assert_eq!(inserts(&mut *a, (2, 10)), Some(false));
    let mut b = ready(writer(&engine));
    assert_eq!(ready(delete(&mut *b, 1)), Ok(true));
    assert_eq!(inserts(&mut *b, (3, 10)), None);
    a.abort();
    assert_eq!(inserts(&mut *b, (3, 10)), Some(true));
}

/// A row is inserted and deleted again: nothing is left to commit, but the transaction
/// saw the key absent, and holds it until its commit is assigned its timestamp.
#[test]
fn a_key_that_came_and_went_is_kept_until_the_commit() {
    let mut settings = settings();
    settings.log.ring_bytes = 4096;
    settings.log.frame_payload_bytes = 512;
    let engine = Engine::ephemeral(settings).expect("sound settings");
    crate::support::attach(&engine);
    ready(load(&engine, [(1, 10)]));
    let mut a = ready(begin(&engine, Isolation::SnapshotIsolation));
    ready(lock_table(&mut *a)).expect("nobody has it alone");
    assert_eq!(inserts(&mut *a, (4, 3)), Some(true));
    assert_eq!(ready(delete(&mut *a, 4)), Ok(true));
    ready(change(&mut *a, 1, |value| value + 1)).expect("free");
    // The commit begins, and waits for room in the log.
    let mut context = Context::from_waker(Waker::noop());
    let mut credits = Vec::new();
    loop {
        let mut entries = engine.log().entry_builder();
        entries.delete(STORAGE, Rid(0));
        let mut prepare = std::pin::pin!(engine.log().prepare(&mut entries));
        match prepare.as_mut().poll(&mut context) {
            Poll::Ready(credit) => credits.push(credit.expect("it goes on")),
            Poll::Pending => break,
        }
    }
    assert!(a.poll_commit(&mut context).is_pending());
    let mut b = ready(writer(&engine));
    assert_eq!(inserts(&mut *b, (4, 5)), None, "a is before it");
    drop(credits);
    assert!(ready(commit(&mut *a)).is_ok());
    assert_eq!(inserts(&mut *b, (4, 5)), Some(true));
    let second = ready(commit(&mut *b)).expect("nothing against it");
    let mut t = ready(writer(&engine));
    assert_eq!(all(&mut *t), [(1, 11), (4, 5)]);
    assert!(t.snapshot() >= second);
    engine.sweep();
    assert_eq!(all(&mut *t), [(1, 11), (4, 5)]);
}

/// The answer of an insert that is undone later must hold too.
#[test]
fn at_serializable_an_undone_insert_has_seen_the_key_absent() {
    let engine = engine();
    ready(load(&engine, [(1, 10)]));
    for (key, level, conflict) in [
        (4, Isolation::Serializable, true),
        (5, Isolation::SnapshotIsolation, false),
    ] {
        let mut a = ready(begin(&engine, level));
        ready(lock_table(&mut *a)).expect("nobody has it alone");
        let savepoint = a.savepoint();
        assert_eq!(inserts(&mut *a, (key, 3)), Some(true));
        a.rollback_to(savepoint).expect("it stands");
        ready(change(&mut *a, 1, |value| value + 1)).expect("free");
        let mut b = ready(writer(&engine));
        assert_eq!(inserts(&mut *b, (key, 5)), Some(true));
        ready(commit(&mut *b)).expect("nothing against it");
        let outcome = ready(commit(&mut *a));
        assert_eq!(
            matches!(outcome, Err(Error::Conflict(_))),
            conflict,
            "{outcome:?}"
        );
    }
}

/// A snapshot that includes a commit which has its timestamp and is not yet installed.
#[test]
fn who_begins_behind_a_commit_waits_for_it_without_spinning() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut nothing = engine.log().entry_builder();
    let credit = ready(engine.log().prepare(&mut nothing)).expect("there is room");
    let reservation = engine.log().reserve(credit);
    let options = BeginOptions {
        minimum: Some(reservation.timestamp()),
        ..BeginOptions::default()
    };
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    assert!(engine.poll_begin(&options, &mut context).is_pending());
    assert!(engine.poll_begin(&options, &mut context).is_pending());
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    reservation.skip();
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    let Poll::Ready(Ok(t)) = engine.poll_begin(&options, &mut context) else {
        panic!("it is installed");
    };
    assert!(t.snapshot() >= options.minimum.expect("given"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_row_loses_no_update_and_starves_nobody() {
    const SESSIONS: u64 = 16;
    const UPDATES: u64 = 100;
    let engine = Arc::new(engine());
    load(&*engine, [(1, 0)]).await;
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let engine = Arc::clone(&engine);
            coeval_env::spawn("session", async move {
                for _ in 0..UPDATES {
                    let mut t = writer(&engine).await;
                    let changed = change(&mut *t, 1, |value| value + 1).await;
                    changed.expect("its turn");
                    commit(&mut *t).await.expect("nothing against it");
                }
            })
        })
        .collect();
    for session in sessions {
        session.await.expect("no panic");
    }
    let mut t = writer(&engine).await;
    assert_eq!(all(&mut *t), [(1, SESSIONS * UPDATES)]);
}

#[test]
fn a_change_of_schema_waits_for_writers_and_stops_their_plans() {
    let engine = engine();
    ready(load(&engine, [(1, 5), (2, 5), (3, 6)]));
    let mut old = ready(begin(&engine, Isolation::SnapshotIsolation));
    let mut a = ready(writer(&engine));
    ready(change(&mut *a, 3, |_| 7)).expect("free");
    let mut b = ready(begin(&engine, READ_COMMITTED));
    let mut context = Context::from_waker(Waker::noop());
    let mut alone = |t: &mut dyn Transaction| {
        t.poll_lock_table(
            STORAGE,
            TableLock::AccessExclusive,
            LockWait::Wait,
            1,
            &mut context,
        )
    };
    assert!(alone(&mut *b).is_pending());
    let mut c = ready(begin(&engine, READ_COMMITTED));
    let mut context = Context::from_waker(Waker::noop());
    let mut share = |t: &mut dyn Transaction| {
        t.poll_lock_table(
            STORAGE,
            TableLock::RowExclusive,
            LockWait::Wait,
            1,
            &mut context,
        )
    };
    assert!(share(&mut *c).is_pending(), "b is before it");
    ready(commit(&mut *a)).expect("nothing against it");
    assert_eq!(alone(&mut *b), Poll::Ready(Ok(())));
    let unique = index(IndexId(9), IndexKind::Unique, 1);
    let built = ready(coeval_txn::build_index(&mut *b, STORAGE, &unique)).expect("alone");
    assert!(
        matches!(built, IndexBuild::Duplicate(..)),
        "5 is there twice"
    );
    let plain = index(IndexId(10), IndexKind::Secondary, 1);
    let built = ready(coeval_txn::build_index(&mut *b, STORAGE, &plain)).expect("alone");
    assert_eq!(built, IndexBuild::Built);
    b.set_schema_version(STORAGE, 2).expect("alone");
    assert!(share(&mut *c).is_pending());
    ready(commit(&mut *b)).expect("nothing against it");
    let refused = Poll::Ready(Err(Error::SchemaChanged(STORAGE)));
    assert_eq!(share(&mut *c), refused);

    let look = |t: &mut dyn Transaction| {
        crate::support::scan(
            t,
            coeval_txn::ScanSource::Index(IndexId(10)),
            5,
            7,
            coeval_txn::Direction::Forward,
            10,
        )
    };
    assert_eq!(
        look(&mut *old),
        Err(Error::SchemaChanged(STORAGE)),
        "it would miss (3, 6)"
    );
    let mut new = ready(begin(&engine, READ_COMMITTED));
    assert_eq!(look(&mut *new), Ok(vec![(1, 5), (2, 5), (3, 7)]));
}

/// Two transactions may use one row's lock to guard changes of others. So the next holder
/// of the lock must see the changes made under it.
#[test]
fn a_lock_on_what_was_not_written_is_free_when_the_commit_is_seen() {
    let engine = engine();
    ready(load(&engine, [(1, 0), (2, 0)]));
    let mut a = ready(writer(&engine));
    let (guard, _) = ready(locked(&mut *a, 1)).expect("free").expect("loaded");
    let (written, _) = ready(locked(&mut *a, 2)).expect("free").expect("loaded");
    ready(change(&mut *a, 2, |_| 7)).expect("its own");
    let (mut b, mut c) = (ready(writer(&engine)), ready(writer(&engine)));
    assert!(poll_lock(&mut *b, guard, Waker::noop()).is_pending());
    // A commit that has its log offset and is not installed yet.
    let mut nothing = engine.log().entry_builder();
    let credit = ready(engine.log().prepare(&mut nothing)).expect("there is room");
    let earlier = engine.log().reserve(credit);
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| ready(commit(&mut *a)).expect("nothing against it"));
        // When the written row is free, the commit is installed.
        while poll_lock(&mut *c, written, Waker::noop()).is_pending() {
            std::thread::yield_now();
        }
        (0..1000).for_each(|_| std::thread::yield_now());
        let waits = poll_lock(&mut *b, guard, Waker::noop()).is_pending();
        earlier.skip();
        committing.join().expect("no panic");
        assert!(waits, "no snapshot includes the commit");
    });
    assert!(poll_lock(&mut *b, guard, Waker::noop()).is_ready());
    b.begin_statement().expect("not canceled");
    assert_eq!(get(&mut *b, 2).expect("a read").expect("loaded").1, 7);
}

#[test]
fn a_dropped_storage_stays_for_whoever_can_reach_it() {
    let engine = engine();
    ready(load(&engine, [(1, 5)]));
    let mut old = ready(begin(&engine, Isolation::SnapshotIsolation));
    engine.drop_storage(STORAGE);
    // The transaction that dropped the storage has committed; later snapshots do not know
    // it.
    let mut other = definition(vec![]);
    other.id = coeval_types::StorageId(2);
    engine.attach_storage(other).expect("new");
    for round in 0..3 {
        let mut t = ready(begin(&engine, READ_COMMITTED));
        let lock = coeval_txn::lock_table(
            &mut *t,
            coeval_types::StorageId(2),
            TableLock::RowExclusive,
            1,
        );
        ready(lock).expect("free");
        let row = row_bytes((round, 0));
        let inserted =
            coeval_txn::insert(&mut *t, coeval_types::StorageId(2), RowRef::trusted(&row));
        ready(inserted).expect("free");
        ready(commit(&mut *t)).expect("nothing against it");
        engine.sweep();
    }
    assert_eq!(all(&mut *old), [(1, 5)]);
    assert_eq!(engine.storages().len(), 2);
    drop(old);
    engine.sweep();
    assert_eq!(engine.storages(), [coeval_types::StorageId(2)]);
}

/// Number of rows that the first two entries of the primary index show.
fn first_two(t: &mut dyn Transaction) -> usize {
    let request = ScanRequest {
        storage: STORAGE,
        source: ScanSource::Index(PRIMARY),
        bounds: Bounds::ALL,
        direction: Direction::Forward,
        limit: 2,
    };
    let mut rows = 0;
    let shown = t.scan(&request, &mut |_, _| {
        rows += 1;
        ControlFlow::Continue(())
    });
    shown.expect("a scan");
    rows
}

#[test]
fn who_takes_from_a_queue_tidies_up_behind_others() {
    let engine = engine();
    ready(load(&engine, (0..100).map(|key| (key, 0))));
    for key in 0..90 {
        let mut t = ready(writer(&engine));
        // The entries of deleted rows are still there, and the scan visits them first.
        assert!(
            first_two(&mut *t) > 0,
            "the queue begins with what was taken"
        );
        assert_eq!(ready(delete(&mut *t, key)), Ok(true));
        ready(commit(&mut *t)).expect("nothing against it");
    }
    // While a snapshot may see the rows, their entries stay.
    let mut old = ready(begin(&engine, Isolation::SnapshotIsolation));
    for key in 90..95 {
        let mut t = ready(writer(&engine));
        assert_eq!(ready(delete(&mut *t, key)), Ok(true));
        ready(commit(&mut *t)).expect("nothing against it");
    }
    let mut t = ready(writer(&engine));
    assert_eq!(first_two(&mut *t), 0);
    assert_eq!(first_two(&mut *t), 0);
    assert_eq!(all(&mut *old).len(), 10);
}

#[test]
fn a_deleted_row_leaves_nothing_behind() {
    let engine = engine();
    for round in 0..5 {
        ready(load(&engine, (0..50).map(|key| (key, round))));
        let mut t = ready(writer(&engine));
        for key in 0..50 {
            assert_eq!(ready(delete(&mut *t, key)), Ok(true));
        }
        ready(commit(&mut *t)).expect("nothing against it");
        engine.sweep();
        engine.sweep();
    }
    assert_eq!(engine.estimated_rows(STORAGE), 0);
    let mut t = ready(writer(&engine));
    assert!(all(&mut *t).is_empty());
}
