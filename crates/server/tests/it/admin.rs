//! Metrics and health over HTTP.

use std::net::SocketAddr;
use std::task::Poll;

use coeval_server::{RunningServer, Server, Settings, Storage};
use coeval_testkit::http::{exchange, get, metrics};
use coeval_testkit::server::{settings, with_settings};
use coeval_testkit::wire::{Wire, error, query};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn with_admin<F: Future<Output = ()>>(test: impl FnOnce(SocketAddr, SocketAddr) -> F) {
    with_admin_and(settings(), test);
}

fn with_admin_and<F: Future<Output = ()>>(
    settings: Settings,
    test: impl FnOnce(SocketAddr, SocketAddr) -> F,
) {
    let settings = Settings {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        ..settings
    };
    with_settings(settings, |server: &RunningServer| {
        test(
            server.address(),
            server.admin_address().expect("it was asked for"),
        )
    });
}

#[test]
fn what_sessions_do_is_counted() {
    with_admin(|address, admin| async move {
        let before = metrics(admin).await;
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key, n int)")
            .await;
        wire.rows("insert into t values (1, 0), (2, 0), (3, 0)")
            .await;
        wire.rows("update t set n = 1 where id < 3").await;
        wire.rows("delete from t where id = 3").await;
        wire.rows("select * from t; select * from t").await;
        error(&wire.query("insert into t values (1, 0)").await);
        error(&wire.query("select 1 / 0").await);
        error(&wire.query("selec").await);
        let after = metrics(admin).await;
        let grown = |series: &str| after[series] - before.get(series).unwrap_or(&0.0);
        for (kind, statements, failures, rows) in [
            ("definition", 1.0, 0.0, None),
            ("insert", 2.0, 1.0, Some(3.0)),
            ("update", 1.0, 0.0, Some(2.0)),
            ("delete", 1.0, 0.0, Some(1.0)),
            ("select", 3.0, 1.0, Some(4.0)),
            ("copy", 0.0, 0.0, Some(0.0)),
        ] {
            let of = |name: &str| format!("coeval_{name}{{kind=\"{kind}\"}}");
            assert_eq!(
                grown(&of("statement_duration_seconds_count")),
                statements,
                "{kind}"
            );
            assert_eq!(grown(&of("statement_failures_total")), failures, "{kind}");
            if let Some(rows) = rows {
                assert_eq!(grown(&of("rows_total")), rows, "{kind}");
            }
        }
        for state in ["23505", "22012", "42601"] {
            let series = format!("coeval_errors_total{{sqlstate=\"{state}\"}}");
            assert_eq!(grown(&series), 1.0, "{state}");
        }
        assert_eq!(grown("coeval_sessions_opened_total"), 1.0);
        assert!(grown("coeval_received_bytes_total") > 100.0);
        assert!(grown("coeval_sent_bytes_total") > 100.0);
        assert!(grown("coeval_answer_duration_seconds_count") >= 7.0);
        // Four statements that changed something, the catalog's among them.
        assert_eq!(grown("coeval_log_commits_total"), 4.0);
        assert!(grown("coeval_transactions_committed_total") >= 5.0);
        assert_eq!(
            grown("coeval_transactions_aborted_total{cause=\"deadlock\"}"),
            0.0
        );
        // A session rests a moment after its client has the answer.
        while metrics(admin).await["coeval_sessions{state=\"idle\"}"] != 1.0 {}
        assert_eq!(after["coeval_build_info{version=\"0.1.0\"}"], 1.0);
        assert!(after["coeval_memory_bytes{class=\"rows\"}"] > 0.0);
        if cfg!(target_os = "linux") {
            assert!(after["process_resident_memory_bytes"] > 1e6);
            assert!(after["process_threads"] > 1.0);
        }
    });
}

#[test]
fn waits_and_conflicts_are_counted_by_what_they_are() {
    with_admin(|address, admin| async move {
        let mut one = Wire::connect(address).await;
        let mut two = Wire::connect(address).await;
        one.rows("create table t (id int primary key, n int)").await;
        one.rows("insert into t values (1, 0), (2, 0)").await;

        // Two wait for each other.
        one.rows("begin; update t set n = 1 where id = 1").await;
        two.rows("begin; update t set n = 2 where id = 2").await;
        one.send(&query("update t set n = 1 where id = 2")).await;
        let waiting = "coeval_sessions_waiting{type=\"Lock\",event=\"tuple\"}";
        while !metrics(admin).await.contains_key(waiting) {
            coeval_env::yield_now().await;
        }
        // A session rests a moment after its client has the answer.
        while metrics(admin).await["coeval_sessions{state=\"idle in transaction\"}"] != 1.0 {}
        let states = metrics(admin).await;
        assert_eq!(states["coeval_sessions{state=\"active\"}"], 1.0);
        let refused = two.query("update t set n = 2 where id = 1").await;
        assert_eq!(error(&refused).sqlstate(), "40P01");
        let failed = "coeval_sessions{state=\"idle in transaction (aborted)\"}";
        while metrics(admin).await[failed] != 1.0 {}
        two.rows("rollback").await;
        one.until('Z').await;
        one.rows("commit").await;

        // The first to commit wins.
        one.rows("begin isolation level repeatable read; select n from t")
            .await;
        two.rows("update t set n = 3 where id = 1").await;
        let refused = one.query("update t set n = 4 where id = 1").await;
        assert_eq!(error(&refused).sqlstate(), "40001");
        one.rows("rollback").await;

        let after = metrics(admin).await;
        let aborted =
            |cause: &str| after[&format!("coeval_transactions_aborted_total{{cause=\"{cause}\"}}")];
        assert_eq!(aborted("deadlock"), 1.0);
        assert_eq!(aborted("write_write"), 1.0);
        assert_eq!(after["coeval_deadlocks_total"], 1.0);
        assert_eq!(after["coeval_lock_wait_seconds_count{lock=\"row\"}"], 2.0);
        assert!(!after.contains_key(waiting));
        assert_eq!(after["coeval_transaction_oldest_age_seconds"], 0.0);
    });
}

#[test]
fn conflicts_of_scans_are_counted_by_what_they_are() {
    with_admin(|address, admin| async move {
        let mut one = Wire::connect(address).await;
        let mut two = Wire::connect(address).await;
        one.rows("create table t (id int primary key, n int)").await;
        one.rows("insert into t select i, 0 from generate_series(1, 100) i")
            .await;
        // What one reads, what two commits meanwhile, and what that is counted as, if one
        // has to give way.
        let scan = "select sum(n) from t where id between 12 and 15";
        let cases = [
            (scan, "update t set n = 1 where id = 13", Some("read")),
            (
                "select n from t where id = 5",
                "update t set n = 1 where id = 5",
                Some("read"),
            ),
            (
                "select n from t where id = 105",
                "insert into t values (105, 0)",
                Some("read"),
            ),
            // Keys that were written together are registered as all that lies between.
            (
                scan,
                "update t set n = 2 where id % 10 = 0 or id > 95",
                Some("granularity"),
            ),
            (scan, "update t set n = 3 where id = 50", None),
        ];
        let kinds = ["write", "read", "granularity", "ring_overflow", "lock"];
        let conflicts = |kind: &str| format!("coeval_conflicts_total{{kind=\"{kind}\"}}");
        for (at, (read, write, expected)) in cases.into_iter().enumerate() {
            let before = metrics(admin).await;
            one.rows(&format!("begin isolation level serializable; {read}"))
                .await;
            two.rows(write).await;
            let id = 1000 + at;
            one.rows(&format!("insert into t values ({id}, 0)")).await;
            let ended = one.query("commit").await;
            if expected.is_some() {
                assert_eq!(error(&ended).sqlstate(), "40001", "{write}");
            }
            let after = metrics(admin).await;
            let grown = |series: &str| after[series] - before[series];
            for kind in kinds {
                let count = f64::from(u8::from(expected == Some(kind)));
                assert_eq!(grown(&conflicts(kind)), count, "{kind} after {write}");
            }
            let scans = f64::from(u8::from(!read.contains("id = 5")));
            assert_eq!(grown("coeval_validation_scans_total"), scans, "{read}");
            assert_eq!(
                grown("coeval_validation_transactions_total"),
                scans,
                "{read}"
            );
            // Two's, and one's insertion.
            assert!(grown("coeval_validation_registrations_total") >= 2.0);
            assert!(after["coeval_ranges"] >= after["coeval_tables"]);
        }

        // The first to commit wins, as without scans.
        let before = metrics(admin).await;
        one.rows("begin isolation level repeatable read; select n from t")
            .await;
        two.rows("update t set n = 3 where id = 1").await;
        let refused = one.query("update t set n = 4 where id = 1").await;
        assert_eq!(error(&refused).sqlstate(), "40001");
        one.rows("rollback").await;
        // And a lock that is not waited for.
        one.rows("begin; update t set n = 5 where id = 1").await;
        two.rows("begin").await;
        let refused = two
            .query("select n from t where id = 1 for update nowait")
            .await;
        assert_eq!(error(&refused).sqlstate(), "55P03");
        two.rows("rollback").await;
        one.rows("commit").await;
        let after = metrics(admin).await;
        for kind in kinds {
            let count = f64::from(u8::from(["write", "lock"].contains(&kind)));
            let series = conflicts(kind);
            assert_eq!(after[&series] - before[&series], count, "{kind}");
        }
    });
}

#[test]
fn scans_that_too_many_wrote_beside_are_counted() {
    let settings = Settings {
        range_slots: 64,
        // Each would add slots.
        worker_threads: 2,
        ..settings()
    };
    with_admin_and(settings, |address, admin| async move {
        let mut one = Wire::connect(address).await;
        let mut two = Wire::connect(address).await;
        one.rows("create table t (id int primary key, n int)").await;
        one.rows("insert into t values (1, 0), (5, 0)").await;
        one.rows("begin isolation level serializable; select n from t where id < 3")
            .await;
        for _ in 0..200 {
            two.rows("update t set n = n + 1 where id = 5").await;
        }
        one.rows("insert into t values (9, 0)").await;
        assert_eq!(error(&one.query("commit").await).sqlstate(), "40001");
        let after = metrics(admin).await;
        for kind in ["write", "read", "granularity", "ring_overflow", "lock"] {
            let count = f64::from(u8::from(kind == "ring_overflow"));
            let series = format!("coeval_conflicts_total{{kind=\"{kind}\"}}");
            assert_eq!(after[&series], count, "{kind}");
        }
        let aborted = "coeval_transactions_aborted_total{cause=\"ring_overflow\"}";
        assert_eq!(after[aborted], 1.0);
    });
}

#[test]
fn health_and_what_is_not_there() {
    with_admin(|_, admin| async move {
        let (head, body) = get(admin, "/health").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["status"], "ready");
        let (head, body) = exchange(admin, b"HEAD /metrics HTTP/1.1\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(body, "");
        let (head, _) = get(admin, "/metrics/../etc/passwd").await;
        assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
        let (head, _) = exchange(admin, b"POST /metrics HTTP/1.1\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
        let (head, _) = exchange(admin, b"\x16\x03\x01\n\n\n").await;
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        let endless = "GET / HTTP/1.1\r\n".to_owned() + &"a: b\r\n".repeat(5_000);
        let (head, _) = exchange(admin, endless.as_bytes()).await;
        assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    });
}

#[test]
fn those_who_say_nothing_keep_nobody_out_for_long() {
    with_admin(|address, admin| async move {
        let mut silent = Vec::new();
        for _ in 0..64 {
            let mut stream = coeval_env::connect(admin).await.unwrap();
            // Those beyond the limit may find the door shut already.
            let _ = stream.write_all(b"GET /met").await;
            silent.push(stream);
        }
        // The server serves clients as before, and admin requests when a slot is free.
        let mut wire = Wire::connect(address).await;
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
        drop(silent);
        loop {
            let mut stream = coeval_env::connect(admin).await.unwrap();
            let mut answer = Vec::new();
            let request = b"GET /health HTTP/1.1\r\n\r\n";
            let sent = stream.write_all(request).await;
            if sent.is_ok()
                && stream
                    .read_to_end(&mut answer)
                    .await
                    .is_ok_and(|count| count > 0)
            {
                break;
            }
        }
    });
}

#[tokio::test]
async fn checkpoints_and_the_log_on_the_disk_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        data_dir: folder.path().to_owned(),
        log_segment_bytes: 64 << 10,
        log_keep_bytes: 0,
        ..settings()
    };
    let server = Server::start(settings.clone(), Storage::Directory)
        .await
        .unwrap();
    let admin = server.admin_address().unwrap();
    let mut wire = Wire::connect(server.address()).await;
    wire.rows("create table t (id int primary key, filler text)")
        .await;
    let filler = "x".repeat(5_000);
    for id in 0..50 {
        wire.rows(&format!("insert into t values ({id}, '{filler}')"))
            .await;
    }
    let before = metrics(admin).await;
    assert!(!before.contains_key("coeval_checkpoint_age_seconds"));
    assert!(before["coeval_log_replay_bytes"] > 250_000.0);
    assert_eq!(
        before["coeval_log_kept_bytes"],
        before["coeval_log_replay_bytes"]
    );
    wire.rows("checkpoint").await;
    let after = metrics(admin).await;
    assert!(after["coeval_checkpoint_age_seconds"] < 3600.0);
    assert!(after["coeval_checkpoint_bytes"] > 250_000.0);
    assert!(after["coeval_checkpoint_rows"] >= 50.0);
    assert!(after["coeval_checkpoint_duration_seconds"] > 0.0);
    assert_eq!(after["coeval_checkpoints_total{outcome=\"taken\"}"], 1.0);
    assert_eq!(after["coeval_checkpoints_total{outcome=\"failed\"}"], 0.0);
    assert_eq!(after["coeval_checkpoint_running"], 0.0);
    assert_eq!(after["coeval_backups_running"], 0.0);
    // What the checkpoint holds need not be replayed, and is not kept.
    assert!(after["coeval_log_replay_bytes"] < 65_536.0);
    assert!(after["coeval_log_kept_bytes"] < before["coeval_log_kept_bytes"] / 2.0);
    assert!(after["coeval_log_kept_bytes"] >= after["coeval_log_replay_bytes"]);
    server.stop().await;

    // It is known again after a start.
    let server = Server::start(settings, Storage::Directory).await.unwrap();
    let again = metrics(server.admin_address().unwrap()).await;
    assert!(again["coeval_checkpoint_rows"] >= 50.0);
    assert_eq!(again["coeval_recovery_progress_ratio"], 1.0);
    assert!(again["coeval_start_seconds"] > 0.0);
    assert!(again["coeval_log_kept_bytes"] < 131_072.0);
    server.stop().await;
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test plays the failing disk")]
fn health_says_why_the_engine_has_stopped_until_the_very_end() {
    let data = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let settings = Settings {
            admin_listen: Some(([127, 0, 0, 1], 0).into()),
            data_dir: data.path().to_owned(),
            log_segment_bytes: 65_536,
            ..settings()
        };
        let server = Server::start(settings, Storage::Directory).await.unwrap();
        let admin = server.admin_address().unwrap();
        let mut wire = Wire::connect(server.address()).await;
        wire.rows("create table t (id int primary key, filler text)")
            .await;
        // The disk loses the log's directory: the next file cannot be made.
        std::fs::remove_dir_all(data.path().join("log")).unwrap();
        let filler = "x".repeat(10_000);
        for id in 0..100 {
            wire.send(&query(&format!("insert into t values ({id}, '{filler}')")))
                .await;
            if wire
                .until_ready_or_closed()
                .await
                .last()
                .map(|last| last.kind)
                != Some('Z')
            {
                break;
            }
        }
        let reason = server.failed().await;
        let assert_failed = async || {
            let (head, body) = get(admin, "/health").await;
            assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
            let health: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(health["status"], "failed");
            assert_eq!(health["reason"], reason.as_str());
            let (head, _) = get(admin, "/serving").await;
            assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        };
        assert_failed().await;
        // Nor does it say anything else while it stops.
        let mut stopping = std::pin::pin!(server.stop());
        let begun =
            std::future::poll_fn(|context| Poll::Ready(stopping.as_mut().poll(context).is_ready()));
        if !begun.await {
            assert_failed().await;
            stopping.await;
        }
    });
}
