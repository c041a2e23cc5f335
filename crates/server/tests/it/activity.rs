//! Views and functions by which sessions observe and interrupt each other, and observe
//! the server.

use std::time::Duration;

use coeval_server::settings::LogDuration;
use coeval_testkit::server::{settings, with_server, with_settings};
use coeval_testkit::wire::{Wire, error, kinds, query};

/// The one row of a query.
async fn row(wire: &mut Wire, text: &str) -> Vec<Option<String>> {
    let rows = wire.rows(text).await;
    assert_eq!(rows.len(), 1, "{text}");
    rows.into_iter().next().unwrap()
}

fn texts(row: &[Option<String>]) -> Vec<&str> {
    row.iter()
        .map(|value| value.as_deref().unwrap_or("∅"))
        .collect()
}

/// Paths on the server's machine are for superusers, as in PostgreSQL.
#[test]
fn settings_with_paths_are_for_superusers() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create role app login").await;
        let asked = [
            "show data_dir",
            "show hba_file",
            "select current_setting('tls_key_file')",
            "select current_setting('data_dir', true)",
        ];
        for text in asked {
            assert_eq!(wire.rows(text).await.len(), 1, "{text}");
        }
        wire.rows("set role app").await;
        for text in asked {
            let answers = wire.query(text).await;
            let refused = error(&answers);
            assert_eq!(refused.sqlstate(), "42501", "{text}");
            let message = refused.field(b'M').unwrap();
            assert!(message.contains("pg_read_all_settings"), "{message}");
        }
        let listed = "select count(*) from coeval.settings where name = 'data_dir'";
        assert_eq!(wire.value(listed).await.as_deref(), Some("0"));
        assert_eq!(
            wire.value("show listen").await.as_deref(),
            Some("127.0.0.1:0")
        );
    });
}

#[test]
fn everybody_sees_what_everybody_does() {
    with_server(|address| async move {
        let mut holder = Wire::connect(address).await;
        let mut waiter = Wire::connect(address).await;
        let mut watcher = Wire::connect(address).await;
        let waiting = waiter.value("select pg_backend_pid()").await.unwrap();
        waiter.rows("set application_name = 'the waiter'").await;
        holder
            .rows("create table t (id int primary key, n int)")
            .await;
        holder.rows("insert into t values (1, 0)").await;
        holder.rows("begin; update t set n = 1 where id = 1").await;
        waiter.send(&query("update t set n = 2 where id = 1")).await;
        let asked = format!(
            "select state, wait_event_type, wait_event, query, application_name,
                 xact_start <= query_start or xact_start > backend_start, client_port > 0
             from pg_stat_activity where pid = {waiting}"
        );
        let seen = loop {
            let seen = row(&mut watcher, &asked).await;
            if seen[1].as_deref() == Some("Lock") {
                break seen;
            }
        };
        assert_eq!(
            texts(&seen),
            [
                "active",
                "Lock",
                "tuple",
                "update t set n = 2 where id = 1",
                "the waiter",
                "t",
                "t"
            ]
        );
        let others = "select count(*), count(distinct pid), min(datname), max(usename)
             from pg_stat_activity where state = 'idle in transaction' and xact_start is not null";
        let seen = row(&mut watcher, others).await;
        assert_eq!(seen[0].as_deref(), Some("1"));
        let own = "select state, wait_event_type, query from pg_stat_activity
             where pid = pg_backend_pid()";
        assert_eq!(texts(&row(&mut watcher, own).await), ["active", "∅", own]);

        // One that waits can be told to stop waiting, and one can be sent away.
        let cancel = format!("select pg_cancel_backend({waiting})");
        assert_eq!(watcher.value(&cancel).await.as_deref(), Some("t"));
        assert_eq!(error(&waiter.until('Z').await).sqlstate(), "57014");
        waiter.send(&query("update t set n = 2 where id = 1")).await;
        while row(&mut watcher, &asked).await[1].as_deref() != Some("Lock") {}
        let terminate = format!("select pg_terminate_backend({waiting})");
        assert_eq!(watcher.value(&terminate).await.as_deref(), Some("t"));
        let last = waiter.until_closed().await;
        assert_eq!(error(&last).sqlstate(), "57P01");
        while watcher.value(&terminate).await.as_deref() == Some("t") {}
        holder.rows("commit").await;
        assert_eq!(watcher.value("select n from t").await.as_deref(), Some("1"));
    });
}

#[test]
fn a_session_that_is_idle_can_be_sent_away() {
    with_server(|address| async move {
        let mut idle = Wire::connect(address).await;
        let number = idle.value("select pg_backend_pid()").await.unwrap();
        let mut other = Wire::connect(address).await;
        let terminate = format!("select pg_terminate_backend({number})");
        assert_eq!(other.value(&terminate).await.as_deref(), Some("t"));
        assert_eq!(kinds(&idle.until_closed().await), "E");
        let nobody = "select pg_cancel_backend(0), pg_terminate_backend(2000000000)";
        assert_eq!(texts(&row(&mut other, nobody).await), ["f", "f"]);
    });
}

#[test]
fn settings_say_where_they_come_from() {
    let mut settings = settings();
    settings.max_connections = 77;
    settings.log_min_duration_statement = LogDuration(Some(Duration::from_millis(250)));
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wire = Wire::connect(address).await;
            wire.rows("set lock_timeout = '5s'").await;
            for (name, expected) in [
                ("max_connections", ["77", "∅", "program", "restart"]),
                (
                    "startup_timeout_milliseconds",
                    ["60000", "ms", "default", "restart"],
                ),
                ("lock_timeout", ["5", "s", "session", "session"]),
                (
                    "log_min_duration_statement",
                    ["250", "ms", "server", "session"],
                ),
                ("server_encoding", ["UTF8", "∅", "default", "never"]),
            ] {
                let asked = format!(
                    "select value, unit, source, changeable from coeval.settings
                     where name = '{name}' and length(description) > 10"
                );
                assert_eq!(texts(&row(&mut wire, &asked).await), expected, "{name}");
            }
            assert_eq!(
                wire.value("show max_connections").await.as_deref(),
                Some("77")
            );
            // Paths on the machine are visible to superusers only.
            let places = "select count(*) from coeval.settings
                          where name in ('data_dir', 'hba_file', 'tls_key_file')";
            assert_eq!(wire.value(places).await.as_deref(), Some("3"));
            wire.rows("create role app; set role app").await;
            assert_eq!(wire.value(places).await.as_deref(), Some("0"));
            let asked = "select current_setting('max_connections') = setting
                 from pg_settings where name = 'max_connections'";
            assert_eq!(wire.value(asked).await.as_deref(), Some("t"));
            error(&wire.query("set max_connections = 5").await);
        }
    });
}

#[test]
fn what_is_counted_can_be_asked_for_in_sql() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t values (1), (2), (3)").await;
        wire.rows("delete from t where id = 3").await;
        error(&wire.query("insert into t values (1)").await);
        let asked = "select numbackends, tup_inserted, tup_deleted, xact_commit >= 3,
                 xact_rollback >= 1, deadlocks, datname = current_database(),
                 stats_reset = pg_postmaster_start_time()
             from pg_stat_database";
        let seen = row(&mut wire, asked).await;
        assert_eq!(texts(&seen), ["1", "3", "1", "t", "t", "0", "t", "t"]);
        let asked = "select value, unit from coeval.metrics
             where name = 'coeval_rows_total' and labels = 'kind=\"insert\"'";
        assert_eq!(texts(&row(&mut wire, asked).await), ["3", "rows"]);
        let asked = "select count(*) from coeval.metrics where description is null";
        assert_eq!(wire.value(asked).await.as_deref(), Some("0"));
    });
}

#[test]
fn only_those_who_may_cancel_and_terminate() {
    with_server(|address| async move {
        let mut root = Wire::connect(address).await;
        for statement in [
            "create role app login",
            "create role other login",
            "create role operator login",
            "create role boss login superuser",
            "grant app to operator",
            // A member of a superuser's role is not a superuser itself.
            "grant boss to operator",
        ] {
            root.rows(statement).await;
        }
        let number = async |wire: &mut Wire| wire.value("select pg_backend_pid()").await.unwrap();
        let mut app = Wire::connect_as(address, "app").await;
        let mut boss = Wire::connect_as(address, "boss").await;
        let (of_app, of_boss) = (number(&mut app).await, number(&mut boss).await);
        let mut own = Wire::connect_as(address, "app").await;
        let mut other = Wire::connect_as(address, "other").await;
        let mut operator = Wire::connect_as(address, "operator").await;
        for function in ["pg_cancel_backend", "pg_terminate_backend"] {
            for (who, target) in [
                ("other", &of_app),
                ("other", &of_boss),
                ("own", &of_boss),
                ("operator", &of_boss),
            ] {
                let wire = match who {
                    "other" => &mut other,
                    "own" => &mut own,
                    _ => &mut operator,
                };
                let refused = wire.query(&format!("select {function}({target})")).await;
                assert_eq!(error(&refused).sqlstate(), "42501", "{function} by {who}");
            }
        }
        for wire in [&mut own, &mut operator, &mut root, &mut boss] {
            let cancel = format!("select pg_cancel_backend({of_app})");
            assert_eq!(wire.value(&cancel).await.as_deref(), Some("t"));
        }
        // The server has refused no client so far.
        for wire in [&mut app, &mut boss] {
            assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
        }
        let terminate = format!("select pg_terminate_backend({of_app})");
        assert_eq!(operator.value(&terminate).await.as_deref(), Some("t"));
        assert_eq!(error(&app.until_closed().await).sqlstate(), "57P01");
        let terminate = format!("select pg_terminate_backend({of_boss})");
        assert_eq!(root.value(&terminate).await.as_deref(), Some("t"));
        assert_eq!(error(&boss.until_closed().await).sqlstate(), "57P01");
    });
}
