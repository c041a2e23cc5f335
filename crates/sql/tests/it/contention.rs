//! Conflicts and locks in words: in errors, and in `coeval.locks` and
//! `coeval.conflicts`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use coeval_sql::{Database, Session, SessionOptions};

use crate::client::{must, query};
use crate::engines::{database, occ};

/// A session with this number.
fn session(database: &Arc<Database>, process_id: i32) -> Session {
    let options = SessionOptions {
        process_id,
        ..SessionOptions::default()
    };
    Session::new(Arc::clone(database), options).expect("sound options")
}

async fn tables(session: &mut Session) {
    must(
        session,
        "create table t (a int primary key, b text, c numeric);
         create unique index t_b on t (b desc, c);
         insert into t values (1, 'one', 1), (2, 'two', 2.50), (30, 'many', 30);
         create table plain (x int); insert into plain values (1)",
    )
    .await;
}

type Query<'a> = Pin<Box<dyn Future<Output = Vec<String>> + 'a>>;

/// A query that waits.
fn waiting<'a>(session: &'a mut Session, text: &'a str) -> Query<'a> {
    let mut query: Query<'a> = Box::pin(query(session, text, ""));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        assert!(query.as_mut().poll(&mut context).is_pending(), "{text}");
    }
    query
}

/// A line without the transactions' numbers.
fn nameless(line: &str) -> String {
    let mut words = line.split(' ');
    let mut kept: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if word.eq_ignore_ascii_case("transaction")
            && let Some(next) = words.next()
        {
            kept.push(match next.parse::<u64>() {
                Ok(_) => "N",
                Err(_) => next,
            });
        }
    }
    kept.join(" ")
}

fn detail(said: &[String]) -> String {
    let detail = said.iter().find_map(|line| line.strip_prefix("  DETAIL: "));
    nameless(detail.unwrap_or_else(|| panic!("no detail in {said:?}")))
}

#[tokio::test]
async fn an_update_that_came_second_says_what_and_whose() {
    let database = database(occ()).await;
    let (mut one, mut two) = (session(&database, 11), session(&database, 12));
    tables(&mut one).await;
    must(
        &mut one,
        "begin isolation level repeatable read; select 1 from t",
    )
    .await;
    must(&mut two, "begin; update t set c = 5 where a = 2").await;
    let refused = waiting(&mut one, "update t set c = 6 where a = 2");
    must(&mut two, "commit").await;
    let said = refused.await;
    assert!(said[0].contains("40001"), "{said:?}");
    assert_eq!(
        detail(&said),
        "Reason: a concurrent transaction updated the row first: row (a)=(2) of table \"t\", \
         by transaction N of session 12."
    );
    must(&mut one, "rollback").await;

    // Without a key the row has a number only.
    must(
        &mut one,
        "begin isolation level repeatable read; select 1 from plain",
    )
    .await;
    must(&mut two, "update plain set x = 2").await;
    let said = query(&mut one, "update plain set x = 3", "").await;
    let detail = detail(&said);
    assert!(
        detail.contains("row number ") && detail.ends_with(", by transaction N of session 12."),
        "{detail}"
    );
    must(&mut one, "rollback").await;
}

#[tokio::test]
async fn what_changed_in_a_scanned_range_is_told() {
    let database = database(occ()).await;
    let (mut one, mut two) = (session(&database, 11), session(&database, 12));
    tables(&mut one).await;
    for (scan, change, range) in [
        (
            "select count(*) from t where a between 5 and 20",
            "insert into t values (7, 'seven', 7)",
            "keys from (a)=(5) to below (a)=(21) of index \"t_pkey\" of table \"t\"",
        ),
        (
            "select count(*) from t where a = 8",
            "insert into t values (8, 'eight', 8)",
            "keys (a)=(8) of index \"t_pkey\" of table \"t\"",
        ),
        (
            "select count(*) from t where a > 40",
            "insert into t values (50, 'fifty', 50)",
            "keys from (a)=(41) on of index \"t_pkey\" of table \"t\"",
        ),
        (
            "select count(*) from t where b = 'none' and c = 7.50",
            "insert into t values (60, 'none', 7.5)",
            "keys (b, c)=(none, 7.5) of index \"t_b\" of table \"t\"",
        ),
        (
            "select count(*) from plain",
            "insert into plain values (2)",
            "table \"plain\"",
        ),
    ] {
        must(&mut one, "begin isolation level serializable").await;
        must(&mut one, scan).await;
        must(&mut one, "update t set c = c + 1 where a = 1").await;
        must(&mut two, change).await;
        let said = query(&mut one, "commit", "").await;
        assert!(said[0].contains("40001"), "{said:?}");
        let (reason, place) = ("a range that was scanned has been changed since", range);
        assert_eq!(
            detail(&said),
            format!("Reason: {reason}: {place}, by transaction N of session 12.")
        );
    }
}

#[tokio::test]
async fn a_deadlock_is_told_step_by_step() {
    let database = database(occ()).await;
    let (mut one, mut two) = (session(&database, 11), session(&database, 12));
    tables(&mut one).await;
    must(&mut one, "begin; update t set c = 0 where a = 1").await;
    must(&mut two, "begin; update t set c = 0 where a = 2").await;
    let goes_on = waiting(&mut one, "update t set c = 0 where a = 2");
    let error = {
        let statement = two.parse("update t set c = 0 where a = 1").unwrap();
        let prepared = two.prepare(statement[0].clone(), &[]).await.unwrap();
        let mut portal = two.bind(&prepared, &[], &[], &[]).unwrap();
        let mut lines = crate::client::Lines::default();
        let failed = two.execute(&mut portal, None, &mut lines).await;
        failed.unwrap_err()
    };
    let report = error.report();
    assert_eq!(report.state.0, "40P01");
    assert_eq!(report.table.as_deref(), Some("t"));
    let detail = report.detail.as_deref().unwrap();
    let lines: Vec<String> = detail.lines().map(nameless).collect();
    assert_eq!(
        lines,
        [
            "Transaction N of session 12 waits for row (a)=(1) of table \"t\"; blocked by \
             transaction N of session 11.",
            "Transaction N of session 11 waits for row (a)=(2) of table \"t\"; blocked by \
             transaction N of session 12.",
        ]
    );
    assert_eq!(goes_on.await, ["  UPDATE 1"]);
}

#[tokio::test]
async fn locks_that_are_waited_for_are_listed() {
    const LOCKS: &str = "select waiting_pid, holding_pid, mode, relation, index, key, \
                         waited_ms >= 0 and waiting_transaction <> holding_transaction as sound \
                         from coeval.locks order by waiting_pid";
    let database = database(occ()).await;
    let mut sessions: Vec<Session> = (1..6).map(|number| session(&database, number)).collect();
    let [holder, row, key, table, viewer] = &mut sessions[..] else {
        unreachable!("five of them")
    };
    tables(holder).await;
    assert_eq!(must(viewer, LOCKS).await.len(), 2, "none");
    must(holder, "begin; update t set c = 0 where a = 1").await;
    must(holder, "insert into t values (3, 'three', 3.0)").await;
    let row = waiting(row, "delete from t where a = 1");
    let key = waiting(key, "insert into t values (4, 'three', 3)");
    let table = waiting(table, "alter table t add column d int");
    let said = must(viewer, LOCKS).await;
    let sound = |line: &&String| line.ends_with("| t");
    assert_eq!(
        said.iter().filter(sound).count(),
        said.len() - 2,
        "{said:?}"
    );
    for expected in [
        "  2 | 1 | row | t | ∅ | (a)=(1) | t",
        "  3 | 1 | key | t | t_b | (b, c)=(three, 3) | t",
        "  4 | 1 | access exclusive | t | ∅ | ∅ | t",
    ] {
        assert!(said.iter().any(|line| line == expected), "{said:#?}");
    }
    must(holder, "rollback").await;
    assert_eq!(row.await, ["  DELETE 1"]);
    assert_eq!(key.await, ["  INSERT 0 1"]);
    assert_eq!(table.await, ["  ALTER TABLE"]);
    assert_eq!(must(viewer, LOCKS).await.len(), 2, "none again");
}

#[tokio::test]
async fn conflicts_are_summed_up() {
    const CONFLICTS: &str = "select relation, index, cause, count, last_key, last_pid, \
                             last_other_pid, last_at > timestamptz '2020-01-01' as sound \
                             from coeval.conflicts order by cause";
    let database = database(occ()).await;
    let (mut one, mut two) = (session(&database, 11), session(&database, 12));
    tables(&mut one).await;
    for _ in 0..2 {
        must(
            &mut one,
            "begin isolation level repeatable read; select 1 from t",
        )
        .await;
        must(&mut two, "update t set c = c + 1 where a = 1").await;
        let said = query(&mut one, "update t set c = 0 where a = 1", "").await;
        assert!(said[0].contains("40001"), "{said:?}");
        must(&mut one, "rollback").await;
    }
    must(
        &mut one,
        "begin isolation level serializable; select count(*) from t where a > 90",
    )
    .await;
    must(&mut two, "insert into t values (91, 'x', 1)").await;
    must(&mut one, "update t set c = 0 where a = 1").await;
    query(&mut one, "commit", "").await;
    let said = must(&mut one, CONFLICTS).await;
    assert_eq!(
        said[1..],
        [
            "  t | t_pkey | changed range | 1 | keys from (a)=(91) on | 11 | 12 | t",
            "  t | ∅ | concurrent update | 2 | (a)=(1) | 11 | 12 | t",
            "  SELECT 2",
        ]
    );
    must(&mut one, "drop table t").await;
    let said = must(&mut one, CONFLICTS).await;
    assert!(said[1].starts_with("  ∅ | ∅ | changed range"), "{said:?}");
    let denied = query(&mut one, "delete from coeval.locks", "").await;
    assert!(denied[0].contains("42501"), "{denied:?}");
}
