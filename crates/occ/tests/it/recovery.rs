//! Committed rows are recovered by a restart, and so are the indexes.

use coeval_occ::{Engine, Settings};
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
    // The database continues from there.
    load(&engine, [(3000, 3)]).await;
    engine.close().await.expect("it closes");
}

/// Many frames' worth of entries in one transaction.
#[tokio::test]
async fn a_large_transaction_comes_back_whole() {
    const ROWS: u64 = 10_000;
    let directory = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        log: coeval_log::Settings {
            frame_payload_bytes: 16 << 10,
            ring_bytes: 256 << 10,
            ..coeval_log::Settings::default()
        },
        ..settings()
    };
    let (engine, _) = Engine::open(directory.path(), settings.clone())
        .await
        .expect("it opens");
    engine
        .attach_storage(definition(usual_indexes()))
        .expect("new");
    load(&engine, (0..ROWS).map(|key| (key, key % 10))).await;
    // Once aborted, once committed.
    for keep in [false, true] {
        let mut t = begin(&engine, Isolation::Serializable).await;
        lock_table(&mut *t).await.expect("nobody else");
        for key in 0..ROWS {
            let changed = change(&mut *t, key, |value| value + 10).await;
            changed.expect("nobody else");
        }
        if keep {
            commit(&mut *t).await.expect("nobody else");
        }
    }
    engine.close().await.expect("it closes");
    drop(engine);
    let (engine, summary) = Engine::open(directory.path(), settings)
        .await
        .expect("it opens");
    assert_eq!(summary.commits, 2);
    engine
        .attach_storage(definition(usual_indexes()))
        .expect("once");
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    let rows = all(&mut *t);
    assert_eq!(rows.len() as u64, ROWS);
    assert!(rows.iter().all(|&(key, value)| value == key % 10 + 10));
    let source = ScanSource::Index(SECONDARY);
    let found = scan(&mut *t, source, 0, 9, Direction::Forward, 100).expect("a scan");
    assert!(found.is_empty(), "old values have no entries");
}
