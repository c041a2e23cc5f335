//! Time limits, set by the session and by the server.

use std::net::SocketAddr;
use std::time::Duration;

use coeval_server::settings::Timeout;
use coeval_testkit::server::{settings, with_server, with_settings};
use coeval_testkit::wire::{Wire, error, parse, query, sync};

/// Short enough not to be waited for, long enough not to hit what it does not mean.
const SHORT: &str = "250ms";

/// A number of rows that no server counts in the available time.
const ENDLESS: &str = "select count(*) from generate_series(1, 1000000000000)";

/// A session that holds the lock of row 1 of a new table.
async fn holder(address: SocketAddr) -> Wire {
    let mut holder = Wire::connect(address).await;
    holder
        .rows("create table t (id int primary key, n int)")
        .await;
    holder.rows("insert into t values (1, 0), (2, 0)").await;
    holder.rows("begin").await;
    holder.rows("update t set n = 1 where id = 1").await;
    holder
}

#[test]
fn a_statement_that_takes_too_long_ends() {
    with_server(|address| async move {
        let mut holder = holder(address).await;
        let mut wire = Wire::connect(address).await;
        wire.rows(&format!("set statement_timeout = '{SHORT}'"))
            .await;
        for statement in [
            // One waits for a lock; the others compute, the last where nothing can
            // be stopped halfway.
            "update t set n = 2 where id = 1",
            ENDLESS,
            &format!("select ({ENDLESS}) + 1"),
        ] {
            let answers = wire.query(statement).await;
            let error = error(&answers);
            assert_eq!(error.sqlstate(), "57014", "{statement}");
            let message = "canceling statement due to statement timeout";
            assert_eq!(error.field(b'M'), Some(message), "{statement}");
            assert_eq!(error.field(b'S'), Some("ERROR"));
            assert!(error.field(b'H').unwrap().contains("statement_timeout"));
        }
        // The session goes on; statements that are quick enough are not disturbed.
        assert_eq!(wire.value("select 6 * 7").await.as_deref(), Some("42"));
        wire.rows("set statement_timeout = 0").await;
        holder.rows("commit").await;
        wire.rows("update t set n = 2 where id = 1").await;
    });
}

#[test]
fn a_copy_waits_for_its_data_no_longer_than_a_statement() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows(&format!("set statement_timeout = '{SHORT}'"))
            .await;
        wire.send(&query("copy t from stdin")).await;
        wire.until('G').await;
        let answers = wire.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "57014");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
    });
}

#[test]
fn a_lock_is_waited_for_no_longer_than_that() {
    with_server(|address| async move {
        let mut holder = holder(address).await;
        let mut wire = Wire::connect(address).await;
        wire.rows(&format!("set lock_timeout = '{SHORT}'")).await;
        let answers = wire.query("update t set n = 2 where id = 1").await;
        assert_eq!(error(&answers).sqlstate(), "55P03");
        // A limit of the statement that comes first says so.
        wire.rows("set lock_timeout = '1min'; set statement_timeout = '250'")
            .await;
        let answers = wire.query("update t set n = 2 where id = 1").await;
        assert_eq!(error(&answers).sqlstate(), "57014");
        holder.rows("rollback").await;
    });
}

/// The session's last words: a fatal error, and the end.
async fn ends_with(wire: &mut Wire, sqlstate: &str) {
    let answers = wire.until_closed().await;
    assert_eq!(error(&answers).sqlstate(), sqlstate);
    assert_eq!(error(&answers).field(b'S'), Some("FATAL"));
}

#[test]
fn a_silent_client_with_an_open_transaction_is_let_go() {
    with_server(|address| async move {
        let mut holder = holder(address).await;
        holder
            .rows(&format!(
                "set idle_in_transaction_session_timeout = '{SHORT}'"
            ))
            .await;
        let mut waiter = Wire::connect(address).await;
        waiter.send(&query("update t set n = 2 where id = 1")).await;
        ends_with(&mut holder, "25P03").await;
        // Its locks are free, and what it did is undone.
        assert_eq!(waiter.until('Z').await[0].tag(), "UPDATE 1");
        assert_eq!(
            waiter
                .value("select n from t where id = 1")
                .await
                .as_deref(),
            Some("2")
        );
    });
}

#[test]
fn so_is_one_that_does_not_end_its_implicit_transaction() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows(&format!(
            "set idle_in_transaction_session_timeout = '{SHORT}'"
        ))
        .await;
        wire.send(&parse("", "select id from t", &[])).await;
        let answers = wire.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "25P03");
    });
}

#[test]
fn a_failed_transaction_counts_as_open() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows(&format!(
            "set idle_in_transaction_session_timeout = '{SHORT}'"
        ))
        .await;
        wire.rows("begin").await;
        wire.query("select 1 / 0").await;
        ends_with(&mut wire, "25P03").await;
    });
}

#[test]
fn a_silent_client_is_let_go() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        // Which of the two runs depends on whether there is a transaction.
        wire.rows("set idle_in_transaction_session_timeout = '10min'")
            .await;
        wire.rows(&format!("set idle_session_timeout = '{SHORT}'"))
            .await;
        ends_with(&mut wire, "57P05").await;
    });
}

#[test]
fn a_transaction_that_is_open_for_too_long_ends() {
    with_server(|address| async move {
        let mut holder = holder(address).await;
        // Between two statements, in one that waits, in one that computes.
        for statement in [None, Some("update t set n = 2 where id = 1"), Some(ENDLESS)] {
            let mut wire = Wire::connect(address).await;
            wire.rows(&format!("set transaction_timeout = '{SHORT}'"))
                .await;
            wire.rows("begin").await;
            if let Some(statement) = statement {
                wire.send(&query(statement)).await;
            }
            ends_with(&mut wire, "25P04").await;
        }
        // A single statement is a transaction, too.
        let mut wire = Wire::connect(address).await;
        wire.rows(&format!("set transaction_timeout = '{SHORT}'"))
            .await;
        wire.send(&query("update t set n = 2 where id = 1")).await;
        ends_with(&mut wire, "25P04").await;
        // One that is quick is left alone, however long its session.
        let mut wire = Wire::connect(address).await;
        wire.rows("set transaction_timeout = '10s'").await;
        wire.rows("begin").await;
        wire.rows("update t set n = 2 where id = 2").await;
        wire.rows("commit").await;
        holder.rows("rollback").await;
    });
}

#[test]
fn values_have_units() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        for (value, shown) in [
            ("1500", "1500ms"),
            ("'5s'", "5s"),
            ("'1.5 min'", "90s"),
            ("'100ms'", "100ms"),
            ("'2500us'", "2ms"),
            ("'2h'", "2h"),
            ("0", "0"),
        ] {
            wire.rows(&format!("set statement_timeout = {value}")).await;
            let is = wire.value("show statement_timeout").await;
            assert_eq!(is.as_deref(), Some(shown), "{value}");
        }
        for value in ["'5 parsecs'", "-1", "'30d'", "'s'"] {
            let answers = wire
                .query(&format!("set idle_session_timeout = {value}"))
                .await;
            assert_eq!(error(&answers).sqlstate(), "22023", "{value}");
        }
    });
}

#[test]
fn the_server_has_limits_for_all_its_sessions() {
    let settings = coeval_server::Settings {
        statement_timeout: Timeout(Duration::from_millis(250)),
        lock_timeout: Timeout(Duration::from_secs(90)),
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wire = Wire::connect(address).await;
            let shown = wire.value("show lock_timeout").await;
            assert_eq!(shown.as_deref(), Some("90s"));
            let answers = wire.query(ENDLESS).await;
            assert_eq!(error(&answers).sqlstate(), "57014");
            wire.rows("set statement_timeout = 0").await;
            wire.rows("reset statement_timeout").await;
            let shown = wire.value("show statement_timeout").await;
            assert_eq!(shown.as_deref(), Some("250ms"));
            // Parse, too, is limited, and goes on afterwards.
            let answers = wire.ask(&[parse("", "select 1", &[]), sync()]).await;
            assert!(answers.iter().all(|answer| answer.kind != 'E'));
        }
    });
}
