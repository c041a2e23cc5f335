//! Temporary tables: what their session is charged for them, and what is not written.

use std::sync::Arc;

use coeval_sql::instance::Limits;
use coeval_sql::session::{Session, SessionOptions};
use coeval_types::Timestamp;

use crate::client::{must, query};
use crate::engines::{database, occ};

/// How far the charge may be from what the tables take.
const SLACK: u64 = 64 << 10;

#[tokio::test]
async fn rows_are_charged_to_their_session() {
    let database = database(occ()).await;
    let options = SessionOptions {
        limits: Limits {
            session_memory: 2 << 20,
            ..Limits::default()
        },
        ..SessionOptions::default()
    };
    let mut session = Session::new(Arc::clone(&database), options).unwrap();
    must(
        &mut session,
        "create temp table t (a int primary key, b text)",
    )
    .await;
    let free = session.memory().used();
    let fill = |rows: u32| {
        format!("insert into t select x, repeat('x', 100) from generate_series(1, {rows}) x")
    };
    let said = query(&mut session, &fill(50_000), "").await;
    assert_eq!(said[0], "  ERROR 53200: out of memory");
    assert!(said[1].contains("Temporary tables takes"), "{said:?}");
    assert!(session.memory().used() <= free + SLACK);
    must(&mut session, &fill(2_000)).await;
    let full = session.memory().used();
    assert!(full > free + 200_000, "{full} of {free}");
    // What a rollback would need is charged as well.
    must(&mut session, "begin").await;
    must(&mut session, "update t set b = b || 'y'").await;
    assert!(session.memory().used() > full + 200_000);
    must(&mut session, "rollback").await;
    assert!(session.memory().used() <= full + SLACK);
    must(&mut session, "truncate t").await;
    assert!(session.memory().used() <= free + SLACK);
    must(&mut session, &fill(2_000)).await;
    drop(session);
    assert_eq!(database.instance().sessions_memory().used(), 0);
}

#[tokio::test]
async fn a_transaction_that_changes_nothing_else_commits_nothing() {
    let database = database(occ()).await;
    let mut session = crate::client::session(&database);
    for text in [
        "create temp table t (a int primary key)",
        "insert into t values (1), (2)",
        "update t set a = a + 10",
        "create index on t (a)",
        "alter table t add column b int default 1",
        "truncate t",
        "analyze t",
        "analyze",
        "drop table t",
    ] {
        must(&mut session, text).await;
        assert_eq!(session.newest_commit(), Timestamp::ZERO, "{text}");
    }
    must(&mut session, "create table t (a int)").await;
    assert!(session.newest_commit() > Timestamp::ZERO);
}
