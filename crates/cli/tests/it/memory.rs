//! The server's memory accounts against the kernel's figures; and the memory limit.
//!
//! The binary, because its allocator counts and that of the tests does not.

use std::path::Path;
use std::time::Duration;

use coeval_testkit::wire::{Wire, bind, error, parse, sync};
use rustix::process::Signal;

use crate::process::{Running, in_runtime};

/// The server's own metrics, by name and labels.
async fn metric(wire: &mut Wire, filter: &str) -> f64 {
    let text = format!("select sum(value) from coeval.metrics where {filter}");
    wire.value(&text).await.expect("a number").parse().unwrap()
}

/// Sees that the accounts together come to what the process occupies, to within a tenth. The
/// two are read one after the other, and what was freed is given back meanwhile: so several
/// times, if need be.
async fn assert_agrees(wire: &mut Wire, when: &str) {
    let mut tries = 0..30;
    loop {
        let (off, what) = compare(wire).await;
        println!("{when}: {off:+.3} of {what}");
        if off.abs() < 0.1 {
            return;
        }
        assert!(tries.next().is_some(), "{when}: {off:+.3} of {what}");
        coeval_env::sleep(Duration::from_millis(100)).await;
    }
}

/// By which part the accounts together are more than what the process occupies; for people,
/// that and the accounts.
async fn compare(wire: &mut Wire) -> (f64, String) {
    let text = "select labels, value from coeval.metrics \
                where name in ('coeval_memory_bytes', 'process_resident_memory_bytes')";
    let rows = wire.rows(text).await;
    let value = |row: &Vec<Option<String>>| row[1].as_deref().unwrap().parse::<f64>().unwrap();
    let (classes, resident): (Vec<_>, Vec<_>) = rows
        .iter()
        .partition(|row| row[0].as_deref().unwrap().starts_with("class="));
    let accounts: f64 = classes.iter().map(|row| value(row)).sum();
    let resident = value(resident[0]);
    (
        accounts / resident - 1.0,
        format!("{resident}: {classes:?}"),
    )
}

/// Makes a table of so many rows, numbered from 1.
async fn make(wire: &mut Wire, rows: u32) {
    wire.rows("create table t (id int primary key, n int not null, wide text)")
        .await;
    wire.rows(&format!(
        "insert into t select n, 0, repeat('x', 300) from generate_series(1, {rows}) as g (n)"
    ))
    .await;
}

#[test]
fn the_accounts_come_to_what_the_process_occupies() {
    const ROWS: u32 = 100_000;
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = Running::start_with(data.path(), &[]).await;
        let mut wire = Wire::connect(server.address).await;
        assert_agrees(&mut wire, "at the start").await;
        make(&mut wire, ROWS).await;
        assert_agrees(&mut wire, "filled").await;

        // Whole rows, with others' sizes, so that their places are not theirs again.
        for round in 0..3 {
            let width = 200 + 100 * round;
            wire.rows(&format!(
                "update t set n = n + 1, wide = repeat('y', {width}) where id % 2 = {}",
                round % 2
            ))
            .await;
        }
        assert_agrees(&mut wire, "after updates").await;

        let mut reader = Wire::connect(server.address).await;
        reader.rows("begin isolation level repeatable read").await;
        let sum = reader.value("select sum(n) from t").await;
        for _ in 0..3 {
            wire.rows("update t set n = n + 1").await;
        }
        assert_agrees(&mut wire, "while a snapshot is read").await;
        assert_eq!(reader.value("select sum(n) from t").await, sum);
        reader.rows("commit").await;

        let mut others = Vec::new();
        for _ in 0..200 {
            let mut other = Wire::connect(server.address).await;
            let prepare = parse("s", "select wide from t where id = $1", &[23]);
            other
                .ask(&[prepare, bind("", "s", &[Some(b"7")]), sync()])
                .await;
            others.push(other);
        }
        assert_agrees(&mut wire, "with many sessions").await;
        drop(others);

        // One row of eight stays, all over the place.
        wire.rows("delete from t where id % 8 <> 0").await;
        assert_agrees(&mut wire, "after a delete").await;
        let left = || "name = 'coeval_memory_bytes' and labels in ('class=\"rows\"', 'class=\"old_versions\"')";
        while metric(&mut wire, left()).await > f64::from(ROWS) * 100.0 {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        assert_agrees(&mut wire, "once they are gone").await;

        wire.rows("drop table t").await;
        while metric(&mut wire, "name = 'coeval_retired'").await > 0.0 {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        assert_agrees(&mut wire, "when everything is gone").await;
        server.signal(Signal::TERM);
        assert!(server.ended().await.success());
    });
}

/// A server with so many megabytes.
async fn limited(data: &Path, megabytes: &str) -> Running {
    Running::start_with(data, &["--memory-limit-megabytes", megabytes]).await
}

/// Inserts rows of four kilobytes, two hundred at a time, until that is refused.
/// Returns the first number that is not there.
async fn fill(wire: &mut Wire, first: i32) -> i32 {
    let mut next = first;
    loop {
        let last = next + 199;
        let answers = wire
            .query(&format!(
                "insert into t select n, repeat('x', 4000) from generate_series({next}, {last}) as g (n)"
            ))
            .await;
        if answers.iter().any(|answer| answer.kind == 'E') {
            let refused = error(&answers);
            assert_eq!(refused.sqlstate(), "53200");
            let hint = refused.field(b'H').unwrap();
            assert!(hint.contains("memory_limit_megabytes"), "{hint}");
            return next;
        }
        next = last + 1;
        assert!(next < 1_000_000, "there is no end to it");
    }
}

#[test]
fn at_the_limit_growth_ends_and_the_rest_goes_on() {
    const LIMIT: f64 = 192.0 * 1_048_576.0;
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = limited(data.path(), "192").await;
        let mut wire = Wire::connect(server.address).await;
        wire.rows("create table t (id int primary key, wide text)")
            .await;
        let end = fill(&mut wire, 1).await;
        assert_agrees(&mut wire, "at the limit").await;
        // Growth ends by accounts, not by who looks when: beyond the limit there is what
        // the accounts do not see (a sixty-fourth), a megabyte that any statement may have,
        // and what this question takes itself; and for a moment what was refused.
        let until = coeval_env::now() + Duration::from_secs(30);
        let (used, resident) = loop {
            let used = metric(&mut wire, "name = 'coeval_memory_bytes'").await;
            let resident = metric(&mut wire, "name = 'process_resident_memory_bytes'").await;
            if used.max(resident) < 1.03 * LIMIT || coeval_env::now() > until {
                break (used, resident);
            }
            coeval_env::sleep(Duration::from_millis(20)).await;
        };
        assert!((0.9 * LIMIT..1.03 * LIMIT).contains(&used), "{used}");
        assert!(resident < 1.03 * LIMIT, "{resident}");

        // Everything but growth goes on.
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count, Some((end - 1).to_string()));
        wire.rows("update t set wide = repeat('y', 4000) where id = 1")
            .await;
        wire.rows("delete from t where id > 2000").await;
        // And growth, too, once what was deleted is gone.
        let again = loop {
            let again = fill(&mut wire, end).await;
            if again > end {
                break again;
            }
            coeval_env::sleep(Duration::from_millis(20)).await;
        };
        assert!(again > end);
        wire.rows("drop table t").await;
        while wire
            .query("create table t (id int primary key, wide text)")
            .await[0]
            .kind
            == 'E'
        {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        fill(&mut wire, 1).await;
        server.signal(Signal::TERM);
        assert!(server.ended().await.success());
    });
}

#[test]
fn statements_take_no_more_than_is_left() {
    const LIMIT: f64 = 192.0 * 1_048_576.0;
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = limited(data.path(), "192").await;
        let mut wire = Wire::connect(server.address).await;
        wire.rows("create table t (id int primary key)").await;
        let insert = |rows: u32| {
            let values: Vec<String> = (1..=rows).map(|n| format!("({n})")).collect();
            format!("insert into t values {}", values.join(","))
        };
        // Four megabytes of text, which would be a gigabyte of tokens and tree.
        let long = insert(450_000);
        let answers = wire.query(&long).await;
        let refused = error(&answers);
        assert_eq!(refused.sqlstate(), "53200");
        let detail = refused.field(b'D').unwrap();
        assert!(detail.contains("Parsing the text"), "{detail}");
        assert!(refused.field(b'H').unwrap().contains("COPY"));
        // And in a prepared statement, and where others come before it.
        let answers = wire.ask(&[parse("", &long, &[]), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "53200");
        let answers = wire.query(&format!("select 1; {long}")).await;
        assert_eq!(error(&answers).sqlstate(), "53200");
        // What fits is done.
        wire.rows(&insert(20_000)).await;
        let most = server.most_resident();
        assert!(most < LIMIT, "{most}");

        // Within its own bound, and beyond what there is.
        let sort = |rows: u32| {
            format!(
                "select n, repeat('x', 1000) as wide from generate_series(1, {rows}) as g (n) \
                 order by wide, n desc offset {}",
                rows - 1
            )
        };
        wire.rows("set work_mem = '1GB'").await;
        let answers = wire.query(&sort(300_000)).await;
        assert_eq!(error(&answers).sqlstate(), "53200");
        let hint = error(&answers).field(b'H').unwrap();
        assert!(hint.contains("memory_limit_megabytes"), "{hint}");
        let most = server.most_resident();
        assert!(most < 1.1 * LIMIT, "{most}");
        assert_eq!(wire.rows(&sort(20_000)).await.len(), 1);
        server.signal(Signal::TERM);
        assert!(server.ended().await.success());
    });
}

/// Each savepoint keeps what a row was before it.
#[test]
fn a_transaction_that_updates_everything_again_and_again_ends_at_the_limit() {
    const LIMIT: f64 = 160.0 * 1_048_576.0;
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = limited(data.path(), "160").await;
        let mut wire = Wire::connect(server.address).await;
        make(&mut wire, 20_000).await;
        wire.rows("begin").await;
        let mut rounds = 0;
        let refused = loop {
            wire.rows(&format!("savepoint s{rounds}")).await;
            let answers = wire.query("update t set n = n + 1").await;
            if answers.iter().any(|answer| answer.kind == 'E') {
                break error(&answers).sqlstate().to_owned();
            }
            rounds += 1;
            assert!(rounds < 1000, "there is no end to it");
        };
        assert_eq!(refused, "53200");
        wire.rows("rollback").await;
        let resident = metric(&mut wire, "name = 'process_resident_memory_bytes'").await;
        // What was given back is still with the allocator.
        assert!(resident < 1.5 * LIMIT, "{resident}");
        assert_eq!(
            wire.value("select sum(n) from t").await.as_deref(),
            Some("0")
        );
        wire.rows("update t set n = 1").await;
        wire.rows("delete from t").await;
        server.signal(Signal::TERM);
        assert!(server.ended().await.success());
    });
}

#[test]
fn what_is_preallocated_is_there_and_rows_are_put_into_it() {
    const MEGABYTE: f64 = 1_048_576.0;
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let arguments = ["--memory-preallocated-megabytes", "256"];
        let server = Running::start_with(data.path(), &arguments).await;
        let mut wire = Wire::connect(server.address).await;
        let resident = "name = 'process_resident_memory_bytes'";
        let before = metric(&mut wire, resident).await;
        assert!(before > 256.0 * MEGABYTE, "{before}");
        assert_agrees(&mut wire, "at the start").await;
        // They and what the statement needs are 50 MB and more.
        make(&mut wire, 50_000).await;
        let after = metric(&mut wire, resident).await;
        assert!(after < before + 10.0 * MEGABYTE, "{before} {after}");
        assert_agrees(&mut wire, "filled").await;
    });
}
