//! Row locks in four modes: who waits for whom, upgrades, savepoints, deadlocks, fairness.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};

use coeval_occ::Engine;
use coeval_txn::{Engine as _, Error, Isolation, LockWait, LockedRow, RowLock, Transaction};
use coeval_types::{IndexId, IndexKind, Rid};

use crate::locking::poll_lock_in;
use crate::support::{
    PRIMARY, STORAGE, all, begin, change, commit, definition, delete, get, index, load, lock_table,
    ready, settings,
};

const READ_COMMITTED: Isolation = Isolation::ReadCommitted;
const UNIQUE: IndexId = IndexId(3);

/// An engine with rows (1, 10) and (2, 20), whose values are unique or not.
fn loaded(values: IndexKind) -> Engine {
    let engine = Engine::ephemeral(settings()).expect("sound settings");
    let indexes = vec![
        index(PRIMARY, IndexKind::Primary, 0),
        index(UNIQUE, values, 1),
    ];
    engine.attach_storage(definition(indexes)).expect("new");
    ready(load(&engine, [(1, 10), (2, 20)]));
    engine
}

fn writer(engine: &Engine, isolation: Isolation) -> Box<dyn Transaction> {
    let mut transaction = ready(begin(engine, isolation));
    ready(lock_table(&mut *transaction)).expect("nobody has it alone");
    transaction
}

fn rid(transaction: &mut dyn Transaction, key: u64) -> Rid {
    get(transaction, key).expect("a read").expect("loaded").0
}

/// Whether the row is locked at once.
fn locks(transaction: &mut dyn Transaction, rid: Rid, mode: RowLock) -> bool {
    match poll_lock_in(transaction, rid, mode, Waker::noop()) {
        Poll::Ready(Ok(LockedRow::Unchanged | LockedRow::Changed)) => true,
        Poll::Pending => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_pair_of_modes_conflicts_as_in_postgresql() {
    for held in RowLock::ALL {
        for wanted in RowLock::ALL {
            let engine = loaded(IndexKind::Secondary);
            let mut a = writer(&engine, READ_COMMITTED);
            let one = rid(&mut *a, 1);
            assert!(locks(&mut *a, one, held));
            let mut b = writer(&engine, READ_COMMITTED);
            let expected = !wanted.conflicts_with(held);
            assert_eq!(locks(&mut *b, one, wanted), expected, "{held}, {wanted}");
            let waiting = engine.blocked();
            assert_eq!(waiting.len(), usize::from(!expected));
            if let [blocked] = &*waiting {
                assert_eq!(blocked.holders[0].transaction, a.id());
            }
            // Both ways of refusing to wait.
            let mut c = writer(&engine, READ_COMMITTED);
            for wait in [LockWait::NoWait, LockWait::Skip] {
                let answer = ready(coeval_txn::lock_row_in(
                    &mut *c,
                    (STORAGE, one),
                    wanted,
                    wait,
                    &mut |_, _| {},
                ));
                match (&answer, wait, expected) {
                    (Ok(LockedRow::Unchanged), _, true)
                    | (Ok(LockedRow::Skipped), LockWait::Skip, false)
                    | (Err(Error::LockNotAvailable(_)), LockWait::NoWait, false) => {}
                    // Where b was first, c may have to wait for b.
                    _ if expected && wanted.conflicts_with(wanted) => {}
                    _ => panic!("{held}, {wanted}, {wait:?}: {answer:?}"),
                }
            }
            drop(c);
            a.abort();
            assert!(locks(&mut *b, one, wanted), "{held}, {wanted}");
            ready(commit(&mut *b)).expect("nothing against it");
            assert!(engine.blocked().is_empty());
        }
    }
}

#[test]
fn an_update_keeps_sharers_of_the_key_out_only_when_it_changes_one() {
    for (kind, waits) in [(IndexKind::Secondary, false), (IndexKind::Unique, true)] {
        let engine = loaded(kind);
        let mut a = writer(&engine, READ_COMMITTED);
        let one = rid(&mut *a, 1);
        assert!(locks(&mut *a, one, RowLock::KeyShare));
        let mut b = writer(&engine, READ_COMMITTED);
        assert!(locks(&mut *b, one, RowLock::NoKeyUpdate));
        let mut update = Box::pin(change_locked(&mut *b, one, (1, 11)));
        let pending = poll(&mut update).is_none();
        assert_eq!(pending, waits, "{kind:?}");
        ready(commit(&mut *a)).expect("nothing against it");
        if pending {
            assert_eq!(poll(&mut update), Some(true));
        }
        drop(update);
        ready(commit(&mut *b)).expect("nothing against it");
        let mut c = writer(&engine, READ_COMMITTED);
        assert_eq!(all(&mut *c), [(1, 11), (2, 20)]);
    }
}

async fn change_locked(t: &mut dyn Transaction, rid: Rid, row: (u64, u64)) -> bool {
    let bytes = crate::support::row_bytes(row);
    let row = coeval_types::RowRef::trusted(&bytes);
    coeval_txn::update(t, STORAGE, rid, row).await.is_ok()
}

fn poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// The row may change beside a sharer of its key, which goes on with what it has found.
#[test]
fn a_sharer_of_the_key_is_shown_its_snapshots_row() {
    for level in [READ_COMMITTED, Isolation::SnapshotIsolation] {
        for (kind, same_key) in [(IndexKind::Secondary, true), (IndexKind::Unique, false)] {
            let engine = loaded(kind);
            let mut a = writer(&engine, level);
            let one = rid(&mut *a, 1);
            let mut b = writer(&engine, READ_COMMITTED);
            ready(change(&mut *b, 1, |_| 11)).expect("free");
            ready(commit(&mut *b)).expect("nothing against it");
            let mut shown = 0;
            let answer = ready(coeval_txn::lock_row_in(
                &mut *a,
                (STORAGE, one),
                RowLock::KeyShare,
                LockWait::Wait,
                &mut |_, row| shown = crate::support::numbers(row).1,
            ));
            match (level, same_key) {
                (_, true) => {
                    assert!(matches!(answer, Ok(LockedRow::Unchanged)), "{answer:?}");
                    assert_eq!(shown, 10);
                }
                (READ_COMMITTED, false) => {
                    assert!(matches!(answer, Ok(LockedRow::Changed)), "{answer:?}");
                    assert_eq!(shown, 11);
                }
                (_, false) => assert!(matches!(answer, Err(Error::Conflict(_))), "{answer:?}"),
            }
        }
    }
}

#[test]
fn a_sharer_above_read_committed_fails_on_a_row_that_has_changed() {
    let engine = loaded(IndexKind::Secondary);
    let mut a = writer(&engine, Isolation::SnapshotIsolation);
    let (one, two) = (rid(&mut *a, 1), rid(&mut *a, 2));
    let mut b = writer(&engine, READ_COMMITTED);
    ready(change(&mut *b, 1, |_| 11)).expect("free");
    ready(commit(&mut *b)).expect("nothing against it");
    assert!(locks(&mut *a, two, RowLock::Share));
    let answer = poll_lock_in(&mut *a, one, RowLock::Share, Waker::noop());
    assert!(matches!(answer, Poll::Ready(Err(Error::Conflict(_)))));
}

#[test]
fn two_sharers_that_both_want_to_write_are_a_deadlock() {
    let engine = loaded(IndexKind::Secondary);
    let (mut a, mut b) = (
        writer(&engine, READ_COMMITTED),
        writer(&engine, READ_COMMITTED),
    );
    let one = rid(&mut *a, 1);
    assert!(locks(&mut *a, one, RowLock::Share));
    assert!(locks(&mut *b, one, RowLock::Share));
    assert!(!locks(&mut *a, one, RowLock::NoKeyUpdate));
    let answer = poll_lock_in(&mut *b, one, RowLock::NoKeyUpdate, Waker::noop());
    let Poll::Ready(Err(Error::Deadlock { circle, .. })) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(circle, [b.id(), a.id()]);
    b.abort();
    assert!(locks(&mut *a, one, RowLock::NoKeyUpdate));
    ready(change(&mut *a, 1, |_| 11)).expect("its own");
    ready(commit(&mut *a)).expect("nothing against it");
}

#[test]
fn a_lock_made_stronger_since_a_savepoint_falls_back() {
    for (before, after, beside) in [
        (RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate),
        (RowLock::KeyShare, RowLock::Update, RowLock::NoKeyUpdate),
        (RowLock::Share, RowLock::NoKeyUpdate, RowLock::Share),
        (RowLock::NoKeyUpdate, RowLock::Update, RowLock::KeyShare),
    ] {
        let engine = loaded(IndexKind::Secondary);
        let mut a = writer(&engine, READ_COMMITTED);
        let one = rid(&mut *a, 1);
        assert!(locks(&mut *a, one, before));
        let savepoint = a.savepoint();
        assert!(locks(&mut *a, one, after));
        if after == RowLock::Update {
            ready(delete(&mut *a, 1)).expect("its own");
        }
        let woken = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut b = writer(&engine, READ_COMMITTED);
        assert!(poll_lock_in(&mut *b, one, beside, &waker).is_pending());
        a.rollback_to(savepoint).expect("it stands");
        assert!(woken.0.load(Ordering::Relaxed) > 0, "{before}, {after}");
        assert!(locks(&mut *b, one, beside), "{before}, {after}");
        let mut c = writer(&engine, READ_COMMITTED);
        assert!(!locks(&mut *c, one, RowLock::Update), "both hold it");
        drop((a, b));
        assert!(locks(&mut *c, one, RowLock::Update));
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sharers that follow one another without a gap do not keep a writer out for ever.
#[test]
fn a_writer_is_not_starved_by_sharers() {
    let engine = loaded(IndexKind::Secondary);
    let mut before = writer(&engine, READ_COMMITTED);
    let one = rid(&mut *before, 1);
    assert!(locks(&mut *before, one, RowLock::Share));
    let mut w = writer(&engine, READ_COMMITTED);
    assert!(!locks(&mut *w, one, RowLock::NoKeyUpdate));
    let mut passed = 0;
    let mut late = loop {
        let mut next = writer(&engine, READ_COMMITTED);
        if !locks(&mut *next, one, RowLock::Share) {
            break next;
        }
        passed += 1;
        assert!(passed < 100, "the writer starves");
        before = next;
        assert!(!locks(&mut *w, one, RowLock::NoKeyUpdate));
    };
    assert!(passed > 0, "sharers may pass a writer that has just come");
    let waits: Vec<_> = engine.blocked();
    let of_late = waits
        .iter()
        .find(|wait| wait.waiter.transaction == late.id());
    assert_eq!(of_late.expect("it waits").holders[0].transaction, w.id());
    // A sharer of old stays one, and may share more.
    assert!(locks(&mut *before, one, RowLock::Share));
    before.abort();
    assert!(locks(&mut *w, one, RowLock::NoKeyUpdate));
    assert!(!locks(&mut *late, one, RowLock::Share));
    ready(change(&mut *w, 1, |_| 11)).expect("its own");
    ready(commit(&mut *w)).expect("nothing against it");
    assert!(locks(&mut *late, one, RowLock::Share));
}

/// A sharer that waits for a writer which others keep waiting may close a circle: it passes.
#[test]
fn a_sharer_passes_a_writer_passed_over_too_often_rather_than_close_a_circle() {
    let engine = loaded(IndexKind::Secondary);
    let mut a = writer(&engine, READ_COMMITTED);
    let (one, two) = (rid(&mut *a, 1), rid(&mut *a, 2));
    assert!(locks(&mut *a, one, RowLock::Share));
    let mut w = writer(&engine, READ_COMMITTED);
    assert!(!locks(&mut *w, one, RowLock::NoKeyUpdate));
    let mut late = loop {
        let mut next = writer(&engine, READ_COMMITTED);
        assert!(locks(&mut *next, two, RowLock::Update));
        if !locks(&mut *next, one, RowLock::Share) {
            break next;
        }
        next.abort();
        assert!(!locks(&mut *w, one, RowLock::NoKeyUpdate));
    };
    assert!(!locks(&mut *late, one, RowLock::Share));
    assert!(!locks(&mut *a, two, RowLock::Share));
    assert!(locks(&mut *late, one, RowLock::Share));
    let answer = poll_lock_in(&mut *late, one, RowLock::Update, Waker::noop());
    let Poll::Ready(Err(Error::Deadlock { circle, .. })) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        circle,
        [late.id(), a.id()],
        "each holds what the other wants"
    );
    late.abort();
    assert!(locks(&mut *a, two, RowLock::Share));
    a.abort();
    assert!(locks(&mut *w, one, RowLock::NoKeyUpdate));
}

/// A writer that was woken in vain does not keep one behind it waiting that could go on.
#[test]
fn a_waiter_that_no_holder_keeps_is_woken() {
    let engine = loaded(IndexKind::Secondary);
    let mut a = writer(&engine, READ_COMMITTED);
    let one = rid(&mut *a, 1);
    assert!(locks(&mut *a, one, RowLock::Update));
    let (mut first, mut second) = (
        writer(&engine, READ_COMMITTED),
        writer(&engine, READ_COMMITTED),
    );
    let woken = Arc::new(Count::default());
    assert!(!locks(&mut *first, one, RowLock::Update));
    let waker = Waker::from(Arc::clone(&woken));
    assert!(poll_lock_in(&mut *second, one, RowLock::NoKeyUpdate, &waker).is_pending());
    a.abort();
    // A newcomer shares the row before the first is back, and stays.
    let mut sharer = writer(&engine, READ_COMMITTED);
    assert!(locks(&mut *sharer, one, RowLock::KeyShare));
    assert!(!locks(&mut *first, one, RowLock::Update));
    assert!(
        woken.0.load(Ordering::Relaxed) > 0,
        "the sharer keeps only the first"
    );
    assert!(locks(&mut *second, one, RowLock::NoKeyUpdate));
}
