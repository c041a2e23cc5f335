//! A process whose disk is full, or reports EIO, or fails to sync: what clients are told,
//! what `/health` says, what stops, and what is there after a kill and a start.
//!
//! The faults are made at the process's own door to its disk (docs/decisions/0015), which
//! only a debug build has; the tests of a release build say so and pass.
//!
//! ```text
//!   three clients insert 0, 3, 6 … · 1, 4, 7 … · 2, 5, 8 …
//!   the fault begins      ──▶ each row: acknowledged, refused, or in doubt
//!   SIGKILL, a start      ──▶ acknowledged: there. refused: not there
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coeval_testkit::http::{get, metrics};
use coeval_testkit::wire::{Wire, error, query};
use rustix::process::Signal;

use crate::process::{Running, in_runtime};

/// A process under a file of faults.
struct ServerUnderFaults {
    data: tempfile::TempDir,
    faults: tempfile::NamedTempFile,
    server: Running,
}

/// Segments so small that a few rows fill them.
const SMALL: [&str; 4] = [
    "--log-segment-bytes",
    "65536",
    "--admin-listen",
    "127.0.0.1:0",
];

async fn start(data: &Path, faults: &Path) -> Running {
    Running::start_in(data, &SMALL, &[("DOCK_FAULTS", faults)]).await
}

impl ServerUnderFaults {
    /// A server with a table; `None` where faults cannot be made.
    async fn start() -> Option<Self> {
        if !cfg!(debug_assertions) {
            println!("skipped: a release build has no door for faults");
            return None;
        }
        let data = tempfile::tempdir().unwrap();
        let faults = tempfile::NamedTempFile::new().unwrap();
        let server = start(data.path(), faults.path()).await;
        let mut wire = Wire::connect(server.address).await;
        wire.rows("create table t (id int primary key, filler text)")
            .await;
        Some(Self {
            data,
            faults,
            server,
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the test plays the failing disk")]
    fn set(&self, faults: &str) {
        std::fs::write(self.faults.path(), faults).unwrap();
    }

    fn admin(&self) -> std::net::SocketAddr {
        self.server.admin.expect("it was asked for")
    }

    /// Kills it, starts it again on a sound disk, and holds what is there against what
    /// clients were told.
    async fn comes_back_with(self, told: &Told) -> Running {
        self.server.signal(Signal::KILL);
        self.server.ended().await;
        no_faults(self.faults.path());
        let server = start(self.data.path(), self.faults.path()).await;
        let mut wire = Wire::connect(server.address).await;
        let rows = wire.rows("select id from t").await;
        let there: BTreeSet<u32> = rows
            .iter()
            .map(|row| row[0].as_deref().unwrap().parse().unwrap())
            .collect();
        let lost: Vec<_> = told.acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let known = &told.acknowledged | &told.in_doubt;
        let invented: Vec<_> = there.difference(&known).collect();
        assert!(invented.is_empty(), "refused and there: {invented:?}");
        server
    }
}

#[expect(clippy::disallowed_methods, reason = "the test plays the failing disk")]
fn no_faults(file: &Path) {
    std::fs::write(file, "").unwrap();
}

/// The outcomes that clients observed for their rows.
#[derive(Debug, Default)]
struct Told {
    acknowledged: BTreeSet<u32>,
    in_doubt: BTreeSet<u32>,
    /// Of the errors.
    states: BTreeSet<String>,
}

impl Told {
    fn add(&mut self, other: Self) {
        self.acknowledged.extend(other.acknowledged);
        self.in_doubt.extend(other.in_doubt);
        self.states.extend(other.states);
    }
}

/// Inserts `first`, and every third row after it, until one is not acknowledged.
async fn write(address: std::net::SocketAddr, first: u32) -> Told {
    let mut wire = Wire::connect(address).await;
    let filler = "x".repeat(3000);
    let mut told = Told::default();
    for id in (first..).step_by(3) {
        assert!(id < 100_000, "it goes on without a disk");
        wire.send(&query(&format!("insert into t values ({id}, '{filler}')")))
            .await;
        let answers = wire.until_ready_or_closed().await;
        let failed = answers.iter().find(|answer| answer.kind == 'E');
        let state = failed.map(|answer| answer.sqlstate().to_owned());
        let ready = answers.last().is_some_and(|last| last.kind == 'Z');
        match (&state, ready) {
            (None, true) => {
                told.acknowledged.insert(id);
                continue;
            }
            (Some(state), true) if state == "53100" => {}
            // The connection ended, or the engine has stopped: the outcome is unknown.
            _ => {
                told.in_doubt.insert(id);
            }
        }
        told.states.extend(state);
        break;
    }
    told
}

/// Three clients write; the fault begins when all have been answered some times.
async fn write_until(server_under_faults: &ServerUnderFaults, faults: &str) -> Told {
    let address = server_under_faults.server.address;
    let mut told = Told::default();
    let mut wire = Wire::connect(address).await;
    let writers: Vec<_> = (0..3)
        .map(|first| coeval_env::spawn("writer", write(address, first)))
        .collect();
    while wire.value("select count(*) > 30 from t").await.as_deref() != Some("t") {
        coeval_env::sleep(Duration::from_millis(5)).await;
    }
    server_under_faults.set(faults);
    for writer in writers {
        told.add(writer.await.unwrap());
    }
    assert!(told.acknowledged.len() >= 30, "{told:?}");
    told
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    in_runtime(async {
        let Some(server_under_faults) = ServerUnderFaults::start().await else {
            return;
        };
        let (head, body) = get(server_under_faults.admin(), "/health").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(body.contains("\"ready\""), "{body}");
        let told = write_until(&server_under_faults, "disk full").await;
        assert_eq!(told.states, BTreeSet::from(["53100".to_owned()]));
        assert_eq!(told.in_doubt, BTreeSet::new());

        // Reads go on, and it says how it is.
        let mut wire = Wire::connect(server_under_faults.server.address).await;
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count, Some(told.acknowledged.len().to_string()));
        let (head, body) = get(server_under_faults.admin(), "/health").await;
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        let (head, _) = get(server_under_faults.admin(), "/serving").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let health: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(health["status"], "degraded");
        assert_eq!(health["writes"], "refused");
        let reason = health["reason"].as_str().unwrap();
        assert!(reason.contains("log"), "{reason}");
        let problem = "coeval_problems{problem=\"disk_full\"}";
        assert_eq!(metrics(server_under_faults.admin()).await[problem], 1.0);
        let refused = wire.query("checkpoint").await;
        assert_eq!(error(&refused).sqlstate(), "53100");

        // Room comes: by itself it goes on, and is well once a checkpoint was taken.
        server_under_faults.set("");
        let late = "insert into t values (1000000, 'late')";
        while wire.query(late).await[0].kind == 'E' {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        wire.rows("checkpoint").await;
        let (head, body) = get(server_under_faults.admin(), "/health").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head} {body}");
        assert_eq!(metrics(server_under_faults.admin()).await[problem], 0.0);
        let mut told = told;
        told.acknowledged.insert(1_000_000);

        // Killed while it is full again, it comes back with everything.
        server_under_faults.set("disk full");
        server_under_faults.comes_back_with(&told).await;
    });
}

#[test]
fn a_failed_sync_stops_the_server_and_loses_nothing() {
    stops_and_loses_nothing("sync fails");
}

#[test]
fn a_write_that_reports_eio_stops_the_server_and_loses_nothing() {
    stops_and_loses_nothing("write fails");
}

fn stops_and_loses_nothing(fault: &str) {
    in_runtime(async {
        let Some(server_under_faults) = ServerUnderFaults::start().await else {
            return;
        };
        let told = write_until(&server_under_faults, fault).await;
        // They are told so, who waits for the disk included; who asks after that may be told
        // that the server ends.
        assert!(told.states.contains("58030"), "{told:?}");
        let ends = |state: &String| matches!(state.as_str(), "58030" | "57P01");
        assert!(told.states.iter().all(ends), "{told:?}");
        assert_eq!(told.in_doubt.len(), 3, "{told:?}");
        // It ends by itself, and says that something was wrong.
        let ServerUnderFaults {
            data,
            faults,
            server,
        } = server_under_faults;
        let ended = server.ended().await;
        assert_eq!(ended.code(), Some(1));
        no_faults(faults.path());
        let server = start(data.path(), faults.path()).await;
        let server_under_faults = ServerUnderFaults {
            data,
            faults,
            server,
        };
        server_under_faults.comes_back_with(&told).await;
    });
}

/// The directory of checkpoints, which the server does not look at otherwise.
fn checkpoints(server_under_faults: &ServerUnderFaults) -> PathBuf {
    server_under_faults.data.path().join("checkpoints")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test plays the failing disk")]
fn a_checkpoint_that_fails_is_told_and_the_log_stays() {
    in_runtime(async {
        let Some(server_under_faults) = ServerUnderFaults::start().await else {
            return;
        };
        let mut wire = Wire::connect(server_under_faults.server.address).await;
        wire.rows("insert into t values (1, 'one')").await;
        // Where its files would be made there is a file.
        let aside = server_under_faults.data.path().join("aside");
        std::fs::rename(checkpoints(&server_under_faults), &aside).unwrap();
        std::fs::write(checkpoints(&server_under_faults), "").unwrap();
        let refused = wire.query("checkpoint").await;
        assert_eq!(error(&refused).sqlstate(), "58030");
        let (head, body) = get(server_under_faults.admin(), "/health").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let health: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(health["status"], "degraded");
        assert_eq!(health["writes"], "taken");
        let reason = health["reason"].as_str().unwrap();
        assert!(reason.contains("checkpoints"), "{reason}");
        let problem = "coeval_problems{problem=\"checkpoints_fail\"}";
        assert_eq!(metrics(server_under_faults.admin()).await[problem], 1.0);

        // Writes go on, and what was acknowledged is in the log.
        wire.rows("insert into t values (2, 'two')").await;
        std::fs::remove_file(checkpoints(&server_under_faults)).unwrap();
        std::fs::rename(&aside, checkpoints(&server_under_faults)).unwrap();
        let told = Told {
            acknowledged: BTreeSet::from([1, 2]),
            ..Told::default()
        };
        // The administrator requests no further checkpoint.
        loop {
            let (_, body) = get(server_under_faults.admin(), "/health").await;
            if body.contains("\"ready\"") {
                break;
            }
            assert!(body.contains("\"degraded\""), "{body}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server_under_faults.comes_back_with(&told).await;
    });
}
