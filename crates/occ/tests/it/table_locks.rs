//! Table locks: the order of requests, deadlocks, abandoned requests, savepoints.

use std::task::{Context, Poll, Waker};

use coeval_txn::{
    ConflictLocation, Engine as _, Error, Isolation, LockWait, TableLock, Transaction,
};

use crate::locking::poll_lock;
use crate::support::{STORAGE, begin, commit, engine, load, locked, ready};

const READ_COMMITTED: Isolation = Isolation::ReadCommitted;

fn poll_table(transaction: &mut dyn Transaction, mode: TableLock) -> Poll<Result<(), Error>> {
    let mut context = Context::from_waker(Waker::noop());
    transaction.poll_lock_table(STORAGE, mode, LockWait::Wait, 1, &mut context)
}

/// A transaction waits for requests before its own, too, and passes them where that would
/// close a circle. It does not pass holders.
#[test]
fn a_wish_for_a_table_that_closes_a_circle_is_noticed() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut reader = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *reader, TableLock::AccessShare).is_ready());
    let mut holder = ready(begin(&engine, READ_COMMITTED));
    let (rid, _) = ready(locked(&mut *holder, 1))
        .expect("free")
        .expect("loaded");
    let mut second = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *second, TableLock::AccessExclusive).is_pending());
    assert!(poll_lock(&mut *reader, rid, Waker::noop()).is_pending());
    assert!(
        poll_table(&mut *holder, TableLock::AccessShare).is_ready(),
        "the second waits for the reader, who waits for the holder"
    );
    let Poll::Ready(Err(Error::Deadlock { circle, .. })) =
        poll_table(&mut *holder, TableLock::AccessExclusive)
    else {
        panic!("it waits for the reader, who waits for it");
    };
    assert_eq!(circle, [holder.id(), reader.id()]);
    holder.abort();
    assert!(poll_lock(&mut *reader, rid, Waker::noop()).is_ready());
    drop(reader);
    assert!(poll_table(&mut *second, TableLock::AccessExclusive).is_ready());
}

/// What a transaction holds lets it go before a request that waits for it.
#[test]
fn a_reader_becomes_a_writer_before_a_change_of_schema_that_waits_for_it() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut reader = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *reader, TableLock::AccessShare).is_ready());
    let mut alone = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *alone, TableLock::AccessExclusive).is_pending());
    let mut late = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *late, TableLock::AccessShare).is_pending());
    assert!(poll_table(&mut *reader, TableLock::RowExclusive).is_ready());
    ready(commit(&mut *reader)).expect("nothing against it");
    assert!(poll_table(&mut *late, TableLock::AccessShare).is_pending());
    assert!(poll_table(&mut *alone, TableLock::AccessExclusive).is_ready());
    alone.abort();
    assert!(poll_table(&mut *late, TableLock::AccessShare).is_ready());
}

#[test]
fn an_abandoned_request_for_a_table_keeps_no_other_waiting() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut reader = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *reader, TableLock::AccessShare).is_ready());
    let mut alone = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *alone, TableLock::AccessExclusive).is_pending());
    let mut late = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *late, TableLock::AccessShare).is_pending());
    // It asks for less now.
    assert!(poll_table(&mut *alone, TableLock::Exclusive).is_ready());
    assert!(poll_table(&mut *late, TableLock::AccessShare).is_ready());
    assert!(poll_table(&mut *late, TableLock::RowShare).is_pending());
    late.begin_statement().expect("it runs");
    assert!(poll_table(&mut *alone, TableLock::AccessExclusive).is_pending());
    alone.begin_statement().expect("it runs");
    assert!(engine.blocked().is_empty());
    alone.abort();
    assert!(poll_table(&mut *late, TableLock::RowShare).is_ready());
}

#[test]
fn table_locks_go_with_the_savepoint_they_came_after() {
    let engine = engine();
    ready(load(&engine, [(1, 0)]));
    let mut a = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *a, TableLock::AccessShare).is_ready());
    let savepoint = a.savepoint();
    assert!(poll_table(&mut *a, TableLock::Exclusive).is_ready());
    let inner = a.savepoint();
    assert!(poll_table(&mut *a, TableLock::AccessExclusive).is_ready());
    a.release(inner);
    let mut b = ready(begin(&engine, READ_COMMITTED));
    assert!(poll_table(&mut *b, TableLock::AccessShare).is_pending());
    a.rollback_to(savepoint).expect("it stands");
    assert!(poll_table(&mut *b, TableLock::AccessShare).is_ready());
    assert!(poll_table(&mut *b, TableLock::Exclusive).is_ready());
    let not_now = Error::LockNotAvailable(ConflictLocation::Table { storage: STORAGE });
    let mut context = Context::from_waker(Waker::noop());
    let mode = TableLock::AccessExclusive;
    let refused = b.poll_lock_table(STORAGE, mode, LockWait::NoWait, 1, &mut context);
    assert_eq!(refused, Poll::Ready(Err(not_now)), "the first one is kept");
    ready(commit(&mut *a)).expect("nothing against it");
    assert!(poll_table(&mut *b, mode).is_ready());
}
