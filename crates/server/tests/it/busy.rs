//! Statements that block a thread for long block no other session, and no client that
//! logs in.

use std::net::SocketAddr;
use std::time::Duration;

use coeval_server::Settings;
use coeval_testkit::server::{assert_serves, settings, with_settings};
use coeval_testkit::wire::{Wire, error, packet, query};

/// A number of rows that no server counts in the available time.
const ENDLESS: &str = "select count(*) from generate_series(1, 1000000000000) g";

/// All sessions share a thread.
fn with_one_worker<F: Future<Output = ()>>(test: impl FnOnce(SocketAddr) -> F) {
    let settings = Settings {
        worker_threads: 1,
        ..settings()
    };
    with_settings(settings, |server| test(server.address()));
}

/// Whether others are served while a statement runs, and whether it can be cancelled:
/// its session, after that.
async fn runs_beside(address: SocketAddr, other: &mut Wire, statement: &str) -> Wire {
    let mut busy = Wire::connect(address).await;
    busy.send(&query(statement)).await;
    // By now it has had its time, and others have theirs.
    coeval_env::sleep(Duration::from_millis(20)).await;
    assert_serves(other, address).await;
    let mut cancel = Wire::open(address).await;
    cancel.send(&packet(80_877_102, &busy.key)).await;
    let answers = busy.until('Z').await;
    assert_eq!(error(&answers).sqlstate(), "57014", "{statement}");
    busy
}

#[test]
fn what_cannot_stop_halfway_keeps_nobody_waiting() {
    with_one_worker(|address| async move {
        let mut other = Wire::connect(address).await;
        other.rows("create table t (n int)").await;
        other.rows("insert into t values (1), (2)").await;
        for statement in [
            format!("select ({ENDLESS}) + 1"),
            format!("select n from t where n = ({ENDLESS} where g <> t.n)"),
            format!("select exists ({ENDLESS} having count(*) < 0)"),
            format!("select 0 in ({ENDLESS} group by g)"),
            format!("select 0 >= all (select ({ENDLESS}) from t)"),
            format!("select array({ENDLESS})"),
            format!("select array_agg(n) filter (where n = ({ENDLESS})) from t"),
            format!("insert into t values (({ENDLESS}))"),
            format!("update t set n = ({ENDLESS})"),
            format!("select * from generate_series(1, ({ENDLESS}))"),
        ] {
            let mut busy = runs_beside(address, &mut other, &statement).await;
            assert_eq!(busy.value("select 6 * 7").await.as_deref(), Some("42"));
        }
        assert_eq!(
            other.value("select count(*) from t").await.as_deref(),
            Some("2")
        );
    });
}

#[test]
fn nor_do_rows_that_take_long_each() {
    with_one_worker(|address| async move {
        let mut other = Wire::connect(address).await;
        other.rows("create table t (n int, b text)").await;
        let rows = "insert into t select g, repeat('ab', 10000) from generate_series(1, 2000) g";
        other.rows(rows).await;
        for statement in [
            "select sum(length(repeat('x', 20000000 + g::int))) from generate_series(1, 100000) g",
            "select sum(sqrt(power(1.23456789::numeric + g, 3000))) from generate_series(1, 100000) g",
            "select count(*) from t x, t y where upper(x.b) = initcap(y.b)",
            "select length(concat(x.b, y.b, x.b)), x.b || y.b from t x, t y order by 2 limit 1",
            "copy (select length(repeat('x', 20000000 + g::int)) from generate_series(1, 100000) g) to stdout",
            "update t set n = length(reverse(repeat(b, 500 + n)))",
            "delete from t where length(reverse(repeat(b, 500 + n))) < 0",
            "insert into t select length(reverse(repeat(x.b, 500 + x.n))), y.b from t x, t y",
        ] {
            runs_beside(address, &mut other, statement).await;
        }
    });
}

#[test]
fn many_of_them_at_once_do_neither() {
    with_one_worker(|address| async move {
        let mut other = Wire::connect(address).await;
        let mut all = Vec::new();
        for _ in 0..8 {
            let mut busy = Wire::connect(address).await;
            busy.send(&query(&format!("select ({ENDLESS}) + 1"))).await;
            all.push(busy);
        }
        assert_serves(&mut other, address).await;
        let ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                     where pid <> pg_backend_pid() and state = 'active'";
        assert_eq!(other.value(ended).await.as_deref(), Some("8"));
        for busy in &mut all {
            assert_eq!(error(&busy.until_closed().await).sqlstate(), "57P01");
        }
    });
}

/// Makes views of which each reads the one before twice, and the first has a long list: the last
/// of them is planned for long.
async fn make_chained(wire: &mut Wire, depth: usize) -> String {
    let list: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let first = format!(
        "create view v0 as select 1 as a where 1 in ({})",
        list.join(",")
    );
    wire.rows(&first).await;
    for view in 1..=depth {
        let before = view - 1;
        let made = format!("create view v{view} as select x.a from v{before} x, v{before} y");
        wire.rows(&made).await;
    }
    format!("select a from v{depth}")
}

#[test]
fn planning_ends_with_its_time() {
    with_one_worker(|address| async move {
        let mut other = Wire::connect(address).await;
        let long = make_chained(&mut other, 7).await;
        let mut busy = Wire::connect(address).await;
        busy.rows("set statement_timeout = '50ms'").await;
        busy.send(&query(&long)).await;
        assert_serves(&mut other, address).await;
        let answers = busy.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "57014");
    });
}
