//! What transactions came to: across restarts, beside each other, and until they are
//! forgotten.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coeval_sql::Database;
use coeval_sql::expression::EvaluationContext;
use coeval_sql::session::Session;
use coeval_txn::Engine;

use crate::client::{must, query, session};
use crate::engines::{database, occ, serial};

const HOUR: i64 = 3_600_000_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The single value that a statement returns.
async fn value(session: &mut Session, text: &str) -> String {
    let said = must(session, text).await;
    assert_eq!(said.len(), 3, "{text}: {said:?}");
    said[1].trim().to_owned()
}

/// Asks for a number in a transaction that does this and ends like that.
async fn numbered(session: &mut Session, work: &str, end: &str) -> i64 {
    must(session, "begin").await;
    let number = value(session, "select txid_current()").await;
    if !work.is_empty() {
        must(session, work).await;
    }
    if !end.is_empty() {
        must(session, end).await;
    }
    number.parse().expect("a number")
}

async fn status(session: &mut Session, number: i64) -> String {
    value(session, &format!("select txid_status({number})")).await
}

async fn open(directory: &Path) -> (Arc<coeval_occ::Engine>, Arc<Database>) {
    let (engine, _) = coeval_occ::Engine::open(directory, coeval_occ::Settings::default())
        .await
        .expect("a sound directory");
    let engine = Arc::new(engine);
    let database = database(Arc::clone(&engine) as Arc<dyn Engine>).await;
    (engine, database)
}

#[tokio::test]
async fn a_restart_knows_what_committed_and_gives_no_number_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut given: Vec<(i64, &str)> = Vec::new();
    for round in 0..4 {
        let (engine, database) = open(directory.path()).await;
        let mut first = session(&database);
        if round == 0 {
            must(&mut first, "create table t (a int primary key)").await;
        }
        for &(number, became) in &given {
            assert_eq!(status(&mut first, number).await, became, "round {round}");
        }
        let insert = format!("insert into t values ({round})");
        given.push((numbered(&mut first, &insert, "commit").await, "committed"));
        given.push((numbered(&mut first, "", "commit").await, "committed"));
        given.push((numbered(&mut first, "", "rollback").await, "aborted"));
        let next = given[given.len() - 1].0 + 1;
        let future = query(&mut first, &format!("select txid_status({next})"), "").await;
        let message = format!("  ERROR 22023: transaction ID {next} is in the future");
        assert!(future.contains(&message), "{future:?}");
        // Under way when the process ends.
        let mut second = session(&database);
        given.push((
            numbered(&mut second, "insert into t values (-1)", "").await,
            "aborted",
        ));
        let last = given[given.len() - 1].0;
        assert_eq!(status(&mut first, last).await, "in progress");
        drop((first, second));
        if round % 2 == 0 {
            engine.checkpoint().await.expect("a sound disk");
        }
        engine.close().await.expect("a sound disk");
    }
    let mut numbers: Vec<i64> = given.iter().map(|&(number, _)| number).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    numbers.dedup();
    assert_eq!(numbers.len(), given.len());
}

#[tokio::test]
async fn who_is_told_of_a_commit_waits_for_it() {
    let database = database(occ()).await;
    let mut writer = session(&database);
    must(&mut writer, "create table t (a int primary key)").await;
    let number = numbered(&mut writer, "insert into t values (1)", "commit").await;
    let committed = writer.newest_seen();
    must(&mut writer, "insert into t values (2)").await;
    for ask in [
        format!("select txid_status({number})"),
        format!("copy (select txid_status({number})) to stdout"),
        format!("select a from (values (1)) as v (a) where txid_status({number}) = 'aborted'"),
        format!("select 1 / (length(txid_status({number})) - 9)"),
        format!("begin; select txid_status({number})"),
        format!("begin read only; select txid_status({number}); rollback"),
        format!("prepare p as select txid_status({number}); execute p"),
    ] {
        let mut reader = session(&database);
        assert!(reader.newest_seen() < committed);
        query(&mut reader, &ask, "").await;
        assert_eq!(reader.newest_seen(), committed, "{ask}");
    }
}

/// An outcome and what it is the outcome of are one commit: no crash comes between.
#[tokio::test]
async fn an_outcome_is_part_of_its_commit() {
    let database = database(occ()).await;
    let mut writer = session(&database);
    must(&mut writer, "create table t (a int primary key)").await;
    for (row, level) in ["read committed", "repeatable read", "serializable"]
        .into_iter()
        .enumerate()
    {
        must(&mut writer, &format!("begin isolation level {level}")).await;
        let number = value(&mut writer, "select txid_current()").await;
        let insert = format!("insert into t values ({row})");
        must(&mut writer, &format!("{insert}; commit")).await;
        let mut of_outcome = session(&database);
        let ask = format!("select txid_status({number})");
        assert_eq!(value(&mut of_outcome, &ask).await, "committed");
        let mut of_row = session(&database);
        must(&mut of_row, &format!("select * from t where a = {row}")).await;
        assert_eq!(of_outcome.newest_seen(), of_row.newest_seen(), "{level}");
    }
}

/// Transactions that ask for their numbers write no common row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_ask_do_not_conflict() {
    const CLIENTS: usize = 6;
    const ROUNDS: usize = 150;
    let database = database(occ()).await;
    let mut first = session(&database);
    for client in 0..CLIENTS {
        must(
            &mut first,
            &format!("create table t{client} (a int primary key)"),
        )
        .await;
    }
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let database = Arc::clone(&database);
            coeval_env::spawn("client", async move {
                let mut session = session(&database);
                let level = ["read committed", "repeatable read", "serializable"][client % 3];
                let mut before = None;
                for round in 0..ROUNDS {
                    must(&mut session, &format!("begin isolation level {level}")).await;
                    let number = value(&mut session, "select txid_current()").await;
                    if let Some(before) = &before {
                        let ask = format!("select txid_status({before})");
                        assert_eq!(value(&mut session, &ask).await, "committed");
                    }
                    if round % 3 > 0 {
                        let insert = format!("insert into t{client} values ({round})");
                        must(&mut session, &insert).await;
                    }
                    must(&mut session, "commit").await;
                    before = Some(number);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no panic");
    }
    assert!(database.engine().conflicts().is_empty());
}

async fn forget(database: &Database, now: i64) {
    let forgotten = database.forget_outcomes_at(DAY, now).await;
    forgotten.expect("an engine that takes writes");
}

/// The same on every engine: in steps of half an hour, every outcome is known for a day
/// from its end on, and not for much longer.
async fn is_kept_for_a_day(database: Arc<Database>, long: bool) {
    let mut client = session(&database);
    must(&mut client, "create table t (a int primary key)").await;
    let start = EvaluationContext::clock();
    // Runs for ten hours, and only then commits.
    let mut slow = session(&database);
    let slow_number = match long {
        true => numbered(&mut slow, "insert into t values (-1)", "").await,
        false => 0,
    };
    let mut ended: Vec<(i64, i64, &str)> = Vec::new();
    let mut known = 0;
    let mut forgotten = 0;
    for step in 0..120 {
        let now = start + step * HOUR / 2;
        if long && step == 20 {
            must(&mut slow, "commit").await;
            ended.push((now, slow_number, "committed"));
        }
        if step < 40 {
            let insert = format!("insert into t values ({step})");
            let committed = numbered(&mut client, &insert, "commit").await;
            ended.push((now, committed, "committed"));
            let aborted = numbered(&mut client, &insert.replace("(", "(1000"), "rollback").await;
            ended.push((now, aborted, "aborted"));
        }
        forget(&database, now).await;
        for &(at, number, became) in &ended {
            match (now - at, status(&mut client, number).await.as_str()) {
                (age, "∅") => {
                    assert!(age >= 24 * HOUR, "{number} forgotten after {age}");
                    forgotten += 1;
                }
                (age, still) => {
                    assert_eq!(still, became, "{number}");
                    // What ran beside the slow one goes with it.
                    let most = if long { 36 * HOUR } else { 26 * HOUR };
                    assert!(age <= most, "{number} known after {age}");
                    known += 1;
                }
            }
        }
    }
    assert!(known > 0 && forgotten > 0, "{known}, {forgotten}");
    assert_eq!(ended.len(), if long { 81 } else { 80 });
    let (_, last, _) = ended[ended.len() - 1];
    assert_eq!(status(&mut client, last).await, "∅");
    // Nothing is left but the horizon.
    let rows = database.engine().estimated_rows(coeval_types::StorageId(4));
    assert!(rows <= 1, "{rows} rows");
}

#[tokio::test]
async fn an_outcome_is_kept_for_a_day() {
    is_kept_for_a_day(database(serial()).await, false).await;
    is_kept_for_a_day(database(occ()).await, false).await;
    is_kept_for_a_day(database(occ()).await, true).await;
}

#[tokio::test]
async fn a_restart_goes_on_forgetting() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = EvaluationContext::clock();
    let mut numbers = Vec::new();
    for day in 0..4 {
        let now = start + day * 24 * HOUR;
        let (engine, database) = open(directory.path()).await;
        forget(&database, now).await;
        let mut client = session(&database);
        if day == 0 {
            must(&mut client, "create table t (a int primary key)").await;
        }
        for (given, &number) in numbers.iter().enumerate() {
            // Only the next start of the database observes that the transaction has ended.
            let age = day - given as i64;
            let expected = if age < 2 { "committed" } else { "∅" };
            assert_eq!(status(&mut client, number).await, expected, "{age} days");
        }
        let insert = format!("insert into t values ({day})");
        numbers.push(numbered(&mut client, &insert, "commit").await);
        drop(client);
        engine.close().await.expect("a sound disk");
    }
}

/// A transaction writes no outcome unless it asks for its number, and never a second one.
#[tokio::test]
async fn without_numbers_nothing_is_written() {
    let database = database(occ()).await;
    let mut client = session(&database);
    must(&mut client, "create table t (a int primary key)").await;
    let start = EvaluationContext::clock();
    let storage = coeval_types::StorageId(4);
    let rows = || database.engine().estimated_rows(storage);
    for hour in 0..48 {
        must(&mut client, &format!("insert into t values ({hour})")).await;
        forget(&database, start + hour * HOUR).await;
    }
    assert_eq!(rows(), 0);
    numbered(&mut client, "", "commit").await;
    for hour in 48..60 {
        forget(&database, start + hour * HOUR).await;
    }
    assert_eq!(rows(), 2, "the outcome, and one mark");
}

/// Many of them go in steps.
#[tokio::test]
async fn many_are_forgotten_at_once() {
    let database = database(occ()).await;
    let mut client = session(&database);
    let mut last = 0;
    for _ in 0..700 {
        last = value(&mut client, "select txid_current()")
            .await
            .parse()
            .expect("a number");
    }
    let start = EvaluationContext::clock();
    forget(&database, start).await;
    assert_eq!(status(&mut client, last).await, "committed");
    forget(&database, start + 24 * HOUR).await;
    assert_eq!(status(&mut client, last).await, "∅");
    let rows = database.engine().estimated_rows(coeval_types::StorageId(4));
    assert_eq!(rows, 1, "the horizon");
}
