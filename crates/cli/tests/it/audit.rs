//! The contents of the audit log, and texts that it must not contain.

use std::process::Stdio;

use coeval_testkit::scram::log_in;
use coeval_testkit::wire::{Wire, bind, error, execute, parse, start, sync};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

/// Everything that a server says on its standard error, as JSON lines, while a test
/// talks to it. It logs all there is to log.
pub fn logged<F: Future<Output = ()>>(test: impl FnOnce(std::net::SocketAddr) -> F) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut child = Command::new(COEVAL)
            .args(["start", "--ephemeral", "--log-format", "json"])
            .args(["--log-level", "trace"])
            .kill_on_drop(true)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = child.stderr.take().unwrap();
        let reading = coeval_env::spawn("log", async move {
            let mut text = String::new();
            errors.read_to_string(&mut text).await.unwrap();
            text
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().unwrap();
        let (_, rest) = url.split_once('@').unwrap();
        let (address, _) = rest.split_once('/').unwrap();
        test(address.parse().unwrap()).await;
        child.kill().await.unwrap();
        let text = reading.await.unwrap();
        text.lines().map(str::to_owned).collect()
    })
}

#[test]
fn logins_and_definitions_are_noted_and_passwords_are_not() {
    let lines = logged(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table account (a int)").await;
        wire.rows("create role app login superuser password 'geheim'")
            .await;
        wire.query("select 'no definition'").await;
        wire.query("drop table \"not\nthere\"").await;
        let text = "alter role app password 'geheim' connection limit 7";
        let extended = [
            parse("", text, &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        wire.ask(&extended).await;
        // A mistake behind the password.
        wire.query("alter role app password 'geheim' nonsense")
            .await;
        wire.query("alter role app password geheim").await;
        wire.rows("set role app").await;
        wire.rows("create table apps (a int)").await;
        let answers = log_in(&mut Wire::open(address).await, "app", "geheim").await;
        assert_eq!(answers.last().unwrap().kind, 'Z');
        for (user, password) in [("app", "geheim!"), ("no\nbody", "geheim")] {
            let answers = log_in(&mut Wire::open(address).await, user, password).await;
            assert_eq!(error(&answers).sqlstate(), "28P01");
        }
    });
    let audit: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("\"target\":\"audit\""))
        .collect();
    let all = lines.join("\n");
    assert!(!all.contains("geheim"), "a password in the log:\n{all}");
    assert!(!all.contains("SCRAM-SHA-256$"), "a verifier in the log");
    let has = |parts: &[&str]| {
        let found = audit
            .iter()
            .any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?} in none of {audit:#?}");
    };
    has(&["login", "ada", "trust", "127.0.0.1", "\"outcome\":\"ok\""]);
    has(&["CREATE TABLE", "create table account", "\"outcome\":\"ok\""]);
    has(&["CREATE ROLE", "create role app login superuser password …"]);
    has(&[
        "ALTER ROLE",
        "alter role app password …",
        "\"outcome\":\"ok\"",
    ]);
    has(&["DROP TABLE", "42P01"]);
    has(&["SET ROLE"]);
    has(&["create table apps", "\\\"app\\\"", "\\\"ada\\\""]);
    has(&["login", "app", "scram-sha-256", "\"outcome\":\"ok\""]);
    has(&["login", "app", "28P01", "the password does not match"]);
    has(&["login", "28P01", "there is no such role"]);
    assert!(!audit.iter().any(|line| line.contains("no definition")));
    // A name with a line break is one line still.
    assert_eq!(audit.iter().filter(|line| line.contains("body")).count(), 1);
}

#[test]
fn a_flood_of_failed_logins_is_counted_rather_than_written() {
    const FLOOD: usize = 400;
    let lines = logged(|address| async move {
        for _ in 0..FLOOD {
            let mut wire = Wire::open(address).await;
            wire.send(&start(&[("database", "none")])).await;
            assert_eq!(error(&wire.until_closed().await).sqlstate(), "28000");
        }
        // The next login brings the count of those that have no line.
        Wire::connect(address).await;
    });
    let audit = lines
        .iter()
        .filter(|line| line.contains("\"target\":\"audit\""));
    let failed = audit.clone().filter(|line| line.contains("28000")).count();
    assert!(failed < FLOOD, "{failed}");
    let counts = audit.filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = line.get("fields").unwrap_or(&line);
        fields.get("count").and_then(serde_json::Value::as_u64)
    });
    assert_eq!(failed as u64 + counts.sum::<u64>(), FLOOD as u64);
}
