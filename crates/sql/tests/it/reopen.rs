//! A database is opened again: the catalog and its tables come back.

use std::path::Path;
use std::sync::Arc;

use coeval_sql::Database;
use coeval_sql::access::LoginSetting;
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
    let of_our_own = "three of the catalog, those of outcomes, statistics and sequences, and t's";
    assert_eq!(engine.storages().len(), 7, "{of_our_own}");
    must(&mut session, "create table gone (a int primary key)").await;
    must(&mut session, "insert into gone values (1), (2)").await;
    must(&mut session, "delete from gone").await;
    engine.close().await.expect("a sound disk");
}

#[tokio::test]
async fn settings_of_roles_come_back_and_go_with_their_role() {
    let directory = tempfile::tempdir().expect("a directory");
    let kept = async |database: &Database| {
        let account = database.login("app").await.expect("a catalog");
        let settings = account.settings.iter();
        let text = |setting: &LoginSetting| {
            let source = setting.source.name();
            format!("{source}: {}={}", setting.name, setting.value)
        };
        settings.map(text).collect::<Vec<_>>()
    };
    let expected = [
        "global: statement_timeout=1min",
        "user: search_path=\"$user\", \"B c\"",
        "user: lock_timeout=3s",
        "database user: work_mem=8MB",
    ];
    for checkpoint in [false, true] {
        let (engine, database) = open(directory.path()).await;
        let mut session = session(&database);
        for statement in [
            "drop role if exists app",
            "create role app login",
            "alter role app set search_path = '$user', \"B c\"",
            "alter role app set work_mem = '1MB'",
            "alter role app set lock_timeout = '3s'",
            "alter role app reset work_mem",
            "alter role app in database test set work_mem = '8MB'",
            "alter role all set statement_timeout = '1min'",
            "alter database test set lock_timeout = '9s'",
            "alter database test reset all",
        ] {
            must(&mut session, statement).await;
        }
        assert_eq!(kept(&database).await, expected);
        if checkpoint {
            must(&mut session, "checkpoint").await;
        }
        drop(session);
        drop(database);
        engine.close().await.expect("a sound disk");
        let (engine, database) = open(directory.path()).await;
        assert_eq!(kept(&database).await, expected);
        engine.close().await.expect("a sound disk");
    }
    let (engine, database) = open(directory.path()).await;
    let mut session = session(&database);
    must(&mut session, "drop role app").await;
    let rows = must(&mut session, "select setconfig from pg_db_role_setting").await;
    assert_eq!(
        rows,
        ["  setconfig", "  {statement_timeout=1min}", "  SELECT 1"]
    );
    engine.close().await.expect("a sound disk");
}

#[tokio::test]
async fn views_and_comments_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let (engine, database) = open(directory.path()).await;
        let mut session = session(&database);
        for statement in [
            "create table t (a int primary key, b int)",
            "insert into t values (1, 10), (2, 20)",
            "create view v with (security_barrier) as select b, a from t where a > 1",
            "create view w as select * from v",
            "alter table t rename column b to c",
            "alter view w alter column a set default 5",
            "comment on column v.a is 'a of v'",
            "comment on table t is 'gone'",
            "comment on table t is null",
        ] {
            must(&mut session, statement).await;
        }
        drop(session);
        engine.close().await.expect("a sound disk");
    }
    let (engine, database) = open(directory.path()).await;
    let mut session = session(&database);
    let rows = must(&mut session, "select * from w").await;
    assert_eq!(rows, ["  b | a", "  20 | 2", "  SELECT 1"]);
    let rows = must(&mut session, "insert into w (b) values (50) returning a, b").await;
    assert_eq!(rows, ["  a | b", "  5 | 50", "  INSERT 0 1"]);
    let rows = must(
        &mut session,
        "select objoid::regclass, description from pg_description where classoid = 1259",
    )
    .await;
    assert_eq!(
        rows,
        ["  objoid | description", "  v | a of v", "  SELECT 1"]
    );
    drop(session);
    engine.close().await.expect("a sound disk");
}
