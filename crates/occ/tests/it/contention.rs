//! Diagnostics of locks and conflicts for users.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coeval_occ::Engine;
use coeval_txn::{
    BeginOptions, Cause, ConflictCount, ConflictLocation, Engine as _, Error, GaveWay, Isolation,
    LockKind, LockWait, Party, RowLock, TableLock, Transaction,
};
use coeval_types::RowRef;

use crate::support::{
    STORAGE, change, commit, delete, engine, insert, load, lock_table, locked, numbers, ready,
    row_bytes,
};

/// A writing transaction of this session.
fn writer(engine: &Engine, isolation: Isolation, session: i32) -> Box<dyn Transaction> {
    let options = BeginOptions {
        isolation,
        session,
        ..BeginOptions::default()
    };
    let mut t = ready(coeval_txn::begin(engine, &options)).expect("nothing in the way");
    ready(lock_table(&mut *t)).expect("nobody has it alone");
    t
}

fn party(t: &dyn Transaction, session: i32) -> Party {
    Party {
        transaction: t.id(),
        session: Some(session),
    }
}

/// The counter of conflicts of this kind.
fn counted(engine: &Engine, why: GaveWay) -> Option<ConflictCount> {
    let mut found = engine.conflicts();
    found.retain(|conflict| conflict.why == why);
    assert!(found.len() < 2, "one entry for one place: {found:?}");
    found.pop()
}

#[test]
fn who_waits_for_whom() {
    let engine = engine();
    ready(load(&engine, [(1, 10)]));
    let mut a = writer(&engine, Isolation::ReadCommitted, 1);
    let mut b = writer(&engine, Isolation::ReadCommitted, 2);
    let mut c = writer(&engine, Isolation::ReadCommitted, 3);
    let (rid, _) = ready(locked(&mut *a, 1)).expect("free").expect("loaded");
    let mut context = Context::from_waker(Waker::noop());
    assert!(engine.blocked().is_empty());
    let waits = b.poll_lock_row(
        STORAGE,
        rid,
        RowLock::Update,
        LockWait::Wait,
        &mut |_, _| {},
        &mut context,
    );
    assert!(waits.is_pending());
    assert!(
        c.poll_lock_table(
            STORAGE,
            TableLock::AccessExclusive,
            LockWait::Wait,
            1,
            &mut context
        )
        .is_pending()
    );
    let blocked = engine.blocked();
    assert_eq!(blocked.len(), 2, "{blocked:?}");
    let row = blocked.iter().find(|one| one.kind == LockKind::Row);
    let row = row.expect("b waits");
    assert_eq!(row.waiter, party(&*b, 2));
    assert_eq!(row.holders, [party(&*a, 1)]);
    let place = ConflictLocation::Row {
        storage: STORAGE,
        rid,
    };
    assert_eq!(row.place, place);
    let table = blocked
        .iter()
        .find(|one| one.kind == LockKind::Table(TableLock::AccessExclusive));
    let table = table.expect("c waits");
    assert_eq!(table.waiter, party(&*c, 3));
    for holder in [party(&*a, 1), party(&*b, 2)] {
        assert!(table.holders.contains(&holder), "{table:?}");
    }
    c.abort();
    a.abort();
    let got = b.poll_lock_row(
        STORAGE,
        rid,
        RowLock::Update,
        LockWait::Wait,
        &mut |_, _| {},
        &mut context,
    );
    assert!(got.is_ready());
    assert!(engine.blocked().is_empty());
    let mut shown = None;
    let cts = engine.show_row(STORAGE, rid, &mut |_, row| shown = Some(numbers(row)));
    assert_eq!(shown, Some((1, 10)));
    assert!(cts.is_some());
}

#[test]
fn conflicts_are_counted_by_where_and_why() {
    let engine = engine();
    ready(load(&engine, [(1, 10), (2, 20)]));
    let update = GaveWay::Conflict(Cause::WriteWrite);
    let read = GaveWay::Conflict(Cause::ReadChanged);
    for round in 1..3 {
        let mut late = writer(&engine, Isolation::SnapshotIsolation, 4);
        let mut first = writer(&engine, Isolation::ReadCommitted, 5);
        ready(change(&mut *first, 1, |value| value + 1)).expect("free");
        ready(commit(&mut *first)).expect("nothing against it");
        let refused = ready(change(&mut *late, 1, |value| value + 1));
        assert!(matches!(refused, Err(Error::Conflict(_))));
        let count = counted(&engine, update).expect("it was just refused");
        assert_eq!(count.count, round);
        assert_eq!((count.storage, count.index), (STORAGE, None));
        assert_eq!(count.last_loser, party(&*late, 4));
        assert!(matches!(count.last_place, ConflictLocation::Row { .. }));
        assert!(count.last > Duration::ZERO);
    }
    assert!(counted(&engine, read).is_none());
    let mut reader = writer(&engine, Isolation::Serializable, 6);
    ready(change(&mut *reader, 2, |value| value + 1)).expect("free");
    let value = crate::support::get(&mut *reader, 1).expect("a read");
    assert_eq!(value.map(|(_, value)| value), Some(12));
    let mut first = writer(&engine, Isolation::ReadCommitted, 7);
    ready(change(&mut *first, 1, |value| value + 1)).expect("free");
    ready(commit(&mut *first)).expect("nothing against it");
    assert!(matches!(
        ready(commit(&mut *reader)),
        Err(Error::Conflict(_))
    ));
    assert_eq!(counted(&engine, read).expect("just now").count, 1);

    // The winner is known when the loser waited for it.
    let mut late = writer(&engine, Isolation::SnapshotIsolation, 8);
    let mut first = writer(&engine, Isolation::ReadCommitted, 9);
    let (rid, _) = ready(locked(&mut *first, 1)).expect("free").expect("there");
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = |late: &mut dyn Transaction| {
        late.poll_lock_row(
            STORAGE,
            rid,
            RowLock::Update,
            LockWait::Wait,
            &mut |_, _| {},
            &mut context,
        )
    };
    assert!(poll(&mut *late).is_pending());
    let winner = party(&*first, 9);
    ready(change(&mut *first, 1, |value| value + 1)).expect("its own");
    ready(commit(&mut *first)).expect("nothing against it");
    assert!(matches!(poll(&mut *late), Poll::Ready(Err(_))));
    let count = counted(&engine, update).expect("just now");
    assert_eq!((count.count, count.last_winner), (3, Some(winner)));

    drop((late, reader, first));
    engine.drop_storage(STORAGE);
    engine.sweep();
    engine.sweep();
    assert!(engine.conflicts().is_empty(), "they go with the storage");
}

#[tokio::test]
async fn deadlocks_and_timeouts_are_counted_too() {
    let engine = engine();
    load(&engine, [(1, 10), (2, 20)]).await;
    let mut a = writer(&engine, Isolation::ReadCommitted, 1);
    let mut b = writer(&engine, Isolation::ReadCommitted, 2);
    change(&mut *a, 1, |value| value).await.expect("free");
    change(&mut *b, 2, |value| value).await.expect("free");
    b.set_lock_timeout(Some(Duration::from_millis(1)));
    let late = change(&mut *b, 1, |value| value).await;
    assert!(matches!(late, Err(Error::LockTimeout(_))));
    let count = counted(&engine, GaveWay::LockTimeout).expect("just now");
    assert_eq!(count.last_winner, Some(party(&*a, 1)));

    b.set_lock_timeout(None);
    let bytes = row_bytes((1, 0));
    let mut context = Context::from_waker(Waker::noop());
    assert!(
        b.poll_insert(STORAGE, RowRef::trusted(&bytes), &mut context)
            .is_pending()
    );
    let circle = delete(&mut *a, 2).await;
    assert!(matches!(circle, Err(Error::Deadlock { .. })));
    let count = counted(&engine, GaveWay::Deadlock).expect("just now");
    assert_eq!(count.last_loser, party(&*a, 1));
    assert_eq!(count.last_winner, Some(party(&*b, 2)));
    a.abort();
    assert!(insert(&mut *b, (1, 0)).await.is_ok());
}
