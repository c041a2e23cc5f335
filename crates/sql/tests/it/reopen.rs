//! A database is opened again: the catalog and its tables come back.

use std::path::Path;
use std::sync::Arc;

use coeval_sql::Database;
use coeval_txn::Engine;

use crate::client::{must, session};
use crate::engines::database;

async fn open(directory: &Path) -> (Arc<coeval_occ::Engine>, Arc<Database>) {
    let (engine, _) = coeval_occ::Engine::open(directory, coeval_occ::Settings::default())
        .await
        .expect("a sound directory");
    let engine = Arc::new(engine);
    let database = database(Arc::clone(&engine) as Arc<dyn Engine>).await;
    (engine, database)
}

#[tokio::test]
async fn tables_come_back_and_leftovers_go() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let (engine, database) = open(directory.path()).await;
        let mut session = session(&database);
        must(
            &mut session,
            "create table t (a int primary key, b int default 4)",
        )
        .await;
        must(&mut session, "create index tb on t (b desc)").await;
        must(&mut session, "insert into t values (1), (2)").await;
        must(&mut session, "create table gone (a int)").await;
        must(&mut session, "insert into gone values (1)").await;
        must(&mut session, "drop table gone").await;
        must(&mut session, "begin; truncate t; insert into t values (3)").await;
        drop(session);
        engine.close().await.expect("a sound disk");
    }
    let (engine, database) = open(directory.path()).await;
    let mut session = session(&database);
    let rows = must(
        &mut session,
        "update t set b = b + 1 where b = 4 and a > 1 returning *",
    )
    .await;
    assert_eq!(rows, ["  a | b", "  2 | 5", "  UPDATE 1"]);
    let of_our_own = "three of the catalog, one of outcomes, and t's";
    assert_eq!(engine.storages().len(), 5, "{of_our_own}");
    must(&mut session, "create table gone (a int primary key)").await;
    must(&mut session, "insert into gone values (1), (2)").await;
    must(&mut session, "delete from gone").await;
    engine.close().await.expect("a sound disk");
}
