//! What a transaction has seen, and so must be durable before its results leave:
//! the versions it came across, and no more than those.

use coeval_txn::{Direction, Isolation, ScanSource};

use crate::support::{PRIMARY, begin, change, commit, delete, engine, get, load, lock_table, scan};

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
