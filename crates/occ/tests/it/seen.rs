//! The versions that a transaction has seen, which must be durable before its results
//! leave: those that its reads visited, and no others.

use coeval_txn::{Direction, Isolation, ScanSource};
use coeval_types::Timestamp;

use crate::support::{
    PRIMARY, begin, change, commit, delete, engine, get, insert, load, lock_table, scan,
};

#[tokio::test]
async fn a_transaction_has_seen_the_versions_it_came_across() {
    let engine = engine();
    load(&engine, (0..10).map(|key| (key, key))).await;
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    delete(&mut *t, 8).await.expect("nobody else");
    let deleted = commit(&mut *t).await.expect("nobody else");
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    change(&mut *t, 9, |value| value + 1)
        .await
        .expect("nobody else");
    let changed = commit(&mut *t).await.expect("nobody else");
    assert!(deleted < changed);

    let mut t = begin(&engine, Isolation::SnapshotIsolation).await;
    let rested = get(&mut *t, 7).expect("a read");
    assert_eq!(rested.map(|(_, value)| value), Some(7));
    assert!(
        t.newest_seen() < deleted,
        "a row that rested waits for no later commit"
    );
    assert_eq!(get(&mut *t, 8).expect("a read"), None);
    assert_eq!(
        t.newest_seen(),
        deleted,
        "that a row is gone was seen in its tombstone"
    );
    let source = ScanSource::Index(PRIMARY);
    let rows = scan(&mut *t, source, 9, 9, Direction::Forward, 10).expect("a scan");
    assert_eq!(rows, [(9, 10)]);
    assert_eq!(t.newest_seen(), changed);
}

/// Changes a row in a transaction of its own.
async fn changed(engine: &coeval_occ::Engine, key: u64) -> Timestamp {
    let mut t = begin(engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    change(&mut *t, key, |value| value + 1)
        .await
        .expect("nobody else");
    commit(&mut *t).await.expect("nobody else")
}

#[tokio::test]
async fn whose_presence_alone_is_disclosed_is_seen_as_it_was_before() {
    let engine = engine();
    load(&engine, [(1, 10)]).await;
    let before = changed(&engine, 1).await;
    let newest = changed(&engine, 1).await;

    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    t.begin_statement().expect("it runs");
    t.disclose_presence_only();
    change(&mut *t, 1, |value| value + 1)
        .await
        .expect("nobody else");
    assert_eq!(t.newest_seen(), before, "the row was there at {before}");
    // The new version was made from the newest one.
    t.begin_statement().expect("it runs");
    assert_eq!(
        get(&mut *t, 1).expect("a read").map(|(_, value)| value),
        Some(13)
    );
    assert_eq!(t.newest_seen(), newest);

    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    t.begin_statement().expect("it runs");
    t.disclose_presence_only();
    assert_eq!(
        get(&mut *t, 1).expect("a read").map(|(_, value)| value),
        Some(12)
    );
    assert!(t.newest_seen() < newest);
    t.disclose_all();
    assert_eq!(t.newest_seen(), newest, "an error may tell everything");
}

#[tokio::test]
async fn a_row_that_was_gone_is_seen_when_it_came_back() {
    let engine = engine();
    load(&engine, [(1, 10)]).await;
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    delete(&mut *t, 1).await.expect("nobody else");
    let deleted = commit(&mut *t).await.expect("nobody else");

    // While the tombstone is the newest version, an absent row was seen in it.
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    t.begin_statement().expect("it runs");
    t.disclose_presence_only();
    assert_eq!(get(&mut *t, 1).expect("a read"), None);
    assert_eq!(t.newest_seen(), deleted);

    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    insert(&mut *t, (1, 20)).await.expect("nobody else");
    let back = commit(&mut *t).await.expect("nobody else");
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    t.begin_statement().expect("it runs");
    t.disclose_presence_only();
    change(&mut *t, 1, |value| value + 1)
        .await
        .expect("nobody else");
    assert_eq!(
        t.newest_seen(),
        back,
        "the version before it is a tombstone"
    );
}

#[tokio::test]
async fn the_next_statement_discloses_what_it_shows() {
    let engine = engine();
    load(&engine, [(1, 10), (2, 20)]).await;
    changed(&engine, 1).await;
    let first = changed(&engine, 1).await;
    let second = changed(&engine, 2).await;
    let mut t = begin(&engine, Isolation::SnapshotIsolation).await;
    t.begin_statement().expect("it runs");
    t.disclose_presence_only();
    get(&mut *t, 1).expect("a read");
    assert!(t.newest_seen() < first);
    t.begin_statement().expect("it runs");
    get(&mut *t, 2).expect("a read");
    assert_eq!(t.newest_seen(), second);
}
