//! What was committed is there after a restart, indexes included.

use coeval_occ::Engine;
use coeval_txn::{Direction, Engine as _, Isolation, ScanSource};

use crate::support::{
    SECONDARY, STORAGE, all, begin, change, commit, definition, delete, insert, load, lock_table,
    scan, settings, usual_indexes,
};

async fn open(directory: &std::path::Path) -> Engine {
    let (engine, _) = Engine::open(directory, settings()).await.expect("it opens");
    engine
}

#[tokio::test]
async fn rows_and_indexes_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path()).await;
    engine
        .attach_storage(definition(usual_indexes()))
        .expect("new");
    load(&engine, (0..100).map(|key| (key, key * 2))).await;
    // More updates of one row than patches between two images.
    for _ in 0..50 {
        let mut t = begin(&engine, Isolation::ReadCommitted).await;
        lock_table(&mut *t).await.expect("nobody else");
        change(&mut *t, 7, |value| value + 1)
            .await
            .expect("nobody else");
        commit(&mut *t).await.expect("nobody else");
    }
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    delete(&mut *t, 8).await.expect("nobody else");
    delete(&mut *t, 9).await.expect("nobody else");
    commit(&mut *t).await.expect("nobody else");
    engine.sweep();
    load(&engine, [(9, 900), (1000, 1)]).await;
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    insert(&mut *t, (2000, 2)).await.expect("nobody else");
    t.abort();
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    let before = all(&mut *t);
    drop(t);
    engine.close().await.expect("it closes");
    drop(engine);

    let engine = open(directory.path()).await;
    assert_eq!(engine.storages(), [STORAGE]);
    engine
        .attach_storage(definition(usual_indexes()))
        .expect("once");
    assert_eq!(engine.estimated_rows(STORAGE), before.len() as u64);
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    assert_eq!(all(&mut *t), before);
    assert!(before.contains(&(7, 64)) && before.contains(&(9, 900)));
    assert_eq!(before.len(), 100);
    let source = ScanSource::Index(SECONDARY);
    let found = scan(&mut *t, source, 900, 900, Direction::Forward, 10).expect("a scan");
    assert_eq!(found, [(9, 900)]);
    drop(t);
    // And it goes on from there.
    load(&engine, [(3000, 3)]).await;
    engine.close().await.expect("it closes");
}
