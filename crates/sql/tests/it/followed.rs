//! What the catalog says to one who has only its rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use coeval_sql::FollowedCatalog;
use coeval_txn::{
    BeginOptions, Bounds, Definitions as _, Direction, ScanProgress, ScanRequest, ScanSource,
};
use coeval_types::{IndexId, RowBuilder, RowRef, StorageId};

use crate::client::{must, session};
use crate::engines;

const SCRIPT: &[&str] = &[
    "create table t (id int primary key, n int unique, s text)",
    "create table gone (id int primary key)",
    "create index by_text on t (s)",
    "drop table gone",
    "create table emptied (id int primary key, n int)",
    "insert into emptied values (1, 1), (2, 2)",
    "truncate emptied",
    "create index soon_dropped on t (n, s)",
    "drop index soon_dropped",
];

#[tokio::test]
async fn whoever_has_the_catalogs_rows_knows_all_storages_and_indexes() {
    let engine = engines::occ();
    let database = engines::database(Arc::clone(&engine)).await;
    let mut session = session(&database);
    for statement in SCRIPT {
        must(&mut session, statement).await;
    }
    let options = BeginOptions::default();
    let mut transaction = coeval_txn::begin(&*engine, &options).await.unwrap();
    let mut rows = |storage: StorageId, visit: &mut dyn FnMut(RowRef<'_>)| {
        let mut found = Vec::new();
        let request = ScanRequest {
            storage,
            // A storage of the catalog has an index of its own number.
            source: ScanSource::Index(IndexId(storage.0)),
            bounds: Bounds::ALL,
            direction: Direction::Forward,
            limit: usize::MAX,
        };
        let scanned = transaction.scan(&request, &mut |_, row| {
            found.push(row.bytes().to_vec());
            ControlFlow::Continue(())
        });
        assert_eq!(scanned.unwrap(), ScanProgress::Complete);
        found.iter().for_each(|row| visit(RowRef::trusted(row)));
    };
    let mut storages = FollowedCatalog.read(&mut rows).unwrap();
    let sources = FollowedCatalog.sources();
    assert!(
        sources
            .iter()
            .all(|source| storages.iter().any(|storage| storage.id == *source))
    );
    // The catalog's three, those of outcomes, statistics and sequences' states, and two tables.
    let users = storages.split_off(6);
    let mut indexes: Vec<_> = users.iter().map(|storage| storage.indexes.len()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, [1, 3]);
    let known = engine.storages();
    assert!(users.iter().all(|storage| known.contains(&storage.id)));
    let mut empty = Vec::new();
    RowBuilder::new().finish(&mut empty);
    let damaged = FollowedCatalog.read(&mut |_, visit| visit(RowRef::trusted(&empty)));
    assert!(damaged.is_err());
}
