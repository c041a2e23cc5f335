//! Sequences and what survives: no number comes twice after a kill, and few are lost.

use std::path::Path;
use std::sync::Arc;

use coeval_sql::Database;
use coeval_sql::session::Session;
use coeval_txn::Engine;
use coeval_types::planted::{Bug, plant};

use crate::client::{must, session};
use crate::engines::database;

/// Numbers that a kill may lose: those that are reserved ahead.
const AHEAD: i64 = 32;

async fn open(directory: &Path) -> (Arc<coeval_occ::Engine>, Arc<Database>) {
    let (engine, _) = coeval_occ::Engine::open(directory, coeval_occ::Settings::default())
        .await
        .expect("a sound directory");
    let engine = Arc::new(engine);
    let database = database(Arc::clone(&engine) as Arc<dyn Engine>).await;
    (engine, database)
}

/// The directory as a kill at this moment leaves it.
#[expect(clippy::disallowed_methods, reason = "a test copies a directory")]
fn killed(directory: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).expect("a directory") {
            let entry = entry.expect("an entry");
            let target = to.join(entry.file_name());
            if entry.file_type().expect("a type").is_dir() {
                std::fs::create_dir(&target).expect("a free name");
                copy(&entry.path(), &target);
            } else {
                std::fs::copy(entry.path(), &target).expect("a copy");
            }
        }
    }
    let copied = tempfile::tempdir().expect("a directory");
    copy(directory, copied.path());
    copied
}

/// A number that a client is told: its answer has waited for all that it depends on.
async fn told(session: &mut Session, engine: &dyn Engine, query: &str) -> i64 {
    let said = must(session, query).await;
    let depends = session.dependencies();
    coeval_txn::durable(engine, depends.newest_seen)
        .await
        .expect("a sound disk");
    said[1].trim().parse().expect("a number")
}

#[tokio::test]
async fn a_kill_loses_few_numbers_and_repeats_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let (engine, database) = open(directory.path()).await;
    let (mut one, mut other) = (session(&database), session(&database));
    must(&mut one, "create sequence s").await;
    must(&mut one, "create table t (id serial primary key)").await;
    let mut last = 0;
    for round in 0..40 {
        // Both sessions are given numbers that one of them has reserved.
        let by = if round % 3 == 0 { &mut one } else { &mut other };
        let number = told(by, &*engine, "select nextval('s')").await;
        assert_eq!(number, last + 1);
        last = number;
        let id = told(by, &*engine, "insert into t default values returning id").await;
        if round % 7 != 0 {
            continue;
        }
        let copy = killed(directory.path());
        let (again, database) = open(copy.path()).await;
        let mut session = session(&database);
        let next = told(&mut session, &*again, "select nextval('s')").await;
        assert!(
            next > last && next <= last + 1 + AHEAD,
            "{next} after {last}"
        );
        let next = "insert into t default values returning id";
        let next = told(&mut session, &*again, next).await;
        assert!(next > id && next <= id + 1 + AHEAD, "{next} after {id}");
    }
    engine.close().await.expect("a sound disk");
}

#[tokio::test]
async fn numbers_that_no_row_covers_come_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let (engine, database) = open(directory.path()).await;
    let mut one = session(&database);
    must(&mut one, "create sequence s").await;
    let bug = plant(Bug::SequenceWithoutRow).expect("tests can plant");
    let number = told(&mut one, &*engine, "select nextval('s')").await;
    drop(bug);
    let copy = killed(directory.path());
    let (again, database) = open(copy.path()).await;
    let mut session = session(&database);
    let next = told(&mut session, &*again, "select nextval('s')").await;
    assert_eq!(next, number, "the bug shows here");
    engine.close().await.expect("a sound disk");
}

#[tokio::test]
async fn numbers_of_a_transaction_that_is_lost_are_not_given_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (engine, database) = open(directory.path()).await;
    let (mut one, mut other) = (session(&database), session(&database));
    must(&mut one, "create sequence s; create sequence u").await;
    must(&mut one, "begin; create table t (id serial)").await;
    must(&mut one, "insert into t default values").await;
    let number = told(&mut one, &*engine, "select nextval('s')").await;
    must(
        &mut one,
        "alter sequence u restart 500; select nextval('u')",
    )
    .await;
    let later = told(&mut other, &*engine, "select nextval('s')").await;
    assert!(later > number);
    let copy = killed(directory.path());
    let (again, database) = open(copy.path()).await;
    let mut session = session(&database);
    assert!(told(&mut session, &*again, "select nextval('s')").await > later);
    // The change of `u` was never committed, so its numbers begin at the start.
    assert_eq!(told(&mut session, &*again, "select nextval('u')").await, 1);
    let sequences = "select relname from pg_class where relkind = 'S' order by 1";
    let sequences = must(&mut session, sequences).await;
    assert_eq!(sequences[1..], ["  s", "  u", "  SELECT 2"]);
    engine.close().await.expect("a sound disk");
}

#[tokio::test]
async fn numbers_go_on_behind_what_was_reserved_after_a_clean_end() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let (engine, database) = open(directory.path()).await;
        let mut session = session(&database);
        must(
            &mut session,
            "create sequence s cache 3; select nextval('s')",
        )
        .await;
        must(
            &mut session,
            "create table t (id int generated always as identity)",
        )
        .await;
        must(&mut session, "insert into t default values; drop table t").await;
        must(&mut session, "create sequence v; select setval('v', 70)").await;
        drop(session);
        engine.close().await.expect("a sound disk");
    }
    let (engine, database) = open(directory.path()).await;
    let mut session = session(&database);
    let next = told(&mut session, &*engine, "select nextval('s')").await;
    assert!(next > 3 && next <= 4 + 3 + AHEAD, "{next}");
    assert_eq!(
        told(&mut session, &*engine, "select nextval('v')").await,
        71
    );
    engine.close().await.expect("a sound disk");
}
