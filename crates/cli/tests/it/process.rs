//! The binary as a process: how it starts, stops, dies and comes back.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use coeval_testkit::wire::{Wire, error};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

/// No process takes longer than this for what it has to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn in_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

/// The binary, in an environment that says nothing about it.
fn coeval(arguments: &[&str]) -> Command {
    let mut command = Command::new(COEVAL);
    command
        .args(arguments)
        .kill_on_drop(true)
        .stdin(Stdio::null());
    command
}

async fn output(mut command: Command) -> Output {
    let output = coeval_env::timeout(PATIENCE, command.output()).await;
    output.expect("it ends in time").unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server with a data directory, ready for connections.
pub struct Running {
    child: Child,
    pub address: SocketAddr,
    /// The address of metrics and health, if the test asked for one.
    pub admin: Option<SocketAddr>,
    /// The server's log lines until it was ready.
    pub early: String,
    /// The server's log lines from the moment it is ready to its end.
    log: coeval_env::JoinHandle<String>,
}

impl Running {
    async fn start(data: &Path) -> Self {
        Self::start_with(data, &[]).await
    }

    pub async fn start_with(data: &Path, arguments: &[&str]) -> Self {
        Self::start_in(data, arguments, &[]).await
    }

    /// With more in its environment.
    pub async fn start_in(data: &Path, arguments: &[&str], environment: &[(&str, &Path)]) -> Self {
        let data = data.to_str().unwrap();
        let mut command = coeval(&[
            "start",
            "--data-dir",
            data,
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
        ]);
        let command = command.args(arguments).envs(environment.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address_in = |line: &str| -> SocketAddr {
            let (_, rest) = line.split_once("\"address\":\"").expect("its address");
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let (mut admin, mut early) = (None, String::new());
        let address = loop {
            let line = coeval_env::timeout(PATIENCE, lines.next_line()).await;
            let line = line.expect("a line in time").unwrap().expect("it starts");
            early += &line;
            early.push('\n');
            if line.contains("metrics and health over HTTP") {
                admin = Some(address_in(&line));
            } else if line.contains("ready for connections") {
                break address_in(&line);
            }
        };
        // The test must read on, or the server would block on its log.
        let log = coeval_env::spawn("log", async move {
            let mut log = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                println!("{line}");
                log += &line;
                log.push('\n');
            }
            log
        });
        Self {
            child,
            address,
            admin,
            early,
            log,
        }
    }

    /// The most this process has ever occupied, in bytes.
    #[expect(
        clippy::disallowed_methods,
        reason = "asks the kernel about another process"
    )]
    pub fn most_resident(&self) -> f64 {
        let path = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
        kilobytes.parse::<f64>().unwrap() * 1024.0
    }

    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        kill_process(process, signal).unwrap();
    }

    pub async fn ended(self) -> std::process::ExitStatus {
        self.last_words().await.0
    }

    /// How it ended, and what it had logged since it was ready.
    pub async fn last_words(mut self) -> (std::process::ExitStatus, String) {
        let ended = coeval_env::timeout(PATIENCE, self.child.wait()).await;
        let ended = ended.expect("it ends in time").unwrap();
        let log = coeval_env::timeout(PATIENCE, self.log).await;
        (ended, log.expect("its log ends with it").unwrap())
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = Running::start(data.path()).await;
        let mut wire = Wire::connect(server.address).await;
        wire.rows("create table t (id int primary key, n int)")
            .await;
        for number in 0..20 {
            wire.rows(&format!("insert into t values ({number}, 0)"))
                .await;
        }
        wire.rows("update t set n = 7 where id < 10").await;
        wire.rows("delete from t where id = 19").await;
        // Not acknowledged, so it must not be there.
        wire.rows("begin").await;
        wire.rows("insert into t values (100, 0)").await;
        server.signal(Signal::KILL);
        server.ended().await;

        let server = Running::start(data.path()).await;
        let mut wire = Wire::connect(server.address).await;
        let counted = wire.rows("select count(*), sum(n), max(id) from t").await;
        let expected = ["19", "70", "18"].map(|value| Some(value.to_owned()));
        assert_eq!(counted, [expected]);
        // And it goes on from there, through a graceful stop as well.
        wire.rows("insert into t values (19, 1)").await;
        server.signal(Signal::TERM);
        assert!(server.ended().await.success());
        let server = Running::start(data.path()).await;
        let mut wire = Wire::connect(server.address).await;
        assert_eq!(
            wire.value("select sum(n) from t").await.as_deref(),
            Some("71")
        );
        server.signal(Signal::INT);
        assert!(server.ended().await.success());
    });
}

#[test]
fn a_graceful_stop_ends_sessions_and_says_so() {
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = Running::start(data.path()).await;
        let mut idle = Wire::connect(server.address).await;
        let mut busy = Wire::connect(server.address).await;
        busy.rows("create table t (id int primary key)").await;
        busy.rows("insert into t values (1)").await;
        busy.rows("begin").await;
        busy.rows("delete from t").await;
        let mut waiting = Wire::connect(server.address).await;
        waiting
            .send(&coeval_testkit::wire::query("delete from t"))
            .await;
        server.signal(Signal::TERM);
        for wire in [&mut idle, &mut busy, &mut waiting] {
            let answers = wire.until_closed().await;
            let last = answers.iter().rfind(|answer| answer.kind == 'E');
            let last = last.unwrap_or_else(|| panic!("{answers:?}"));
            assert_eq!(last.sqlstate(), "57P01");
        }
        assert!(server.ended().await.success());
    });
}

/// Whether a server that recovers, and is asked to stop as soon as it answers for its health,
/// does so before it is ready.
async fn stops_early(data: &Path, stop: Signal) -> bool {
    let data = data.to_str().unwrap();
    let mut command = coeval(&["start", "--data-dir", data, "--listen", "127.0.0.1:0"]);
    command.args(["--admin-listen", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut is_early = false;
    loop {
        let line = coeval_env::timeout(PATIENCE, lines.next_line()).await;
        let Some(line) = line.expect("a line in time").unwrap() else {
            break;
        };
        if line.contains("metrics and health over HTTP") {
            let process = Pid::from_raw(child.id().unwrap() as i32).unwrap();
            kill_process(process, stop).unwrap();
        }
        is_early |= line.contains("asked to stop before it was ready");
    }
    let ended = coeval_env::timeout(PATIENCE, child.wait()).await;
    assert!(ended.expect("it ends in time").unwrap().success());
    is_early
}

#[test]
fn a_server_that_recovers_can_be_stopped() {
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        for stop in [Signal::TERM, Signal::INT] {
            // It may be ready sooner than it hears of it.
            let mut tries = 0..10;
            loop {
                assert!(tries.next().is_some(), "{stop:?}");
                let server = Running::start(data.path()).await;
                let mut wire = Wire::connect(server.address).await;
                wire.rows("drop table if exists t").await;
                wire.rows("create table t (id int primary key)").await;
                wire.rows("insert into t select n from generate_series(1, 200000) as g (n)")
                    .await;
                server.signal(Signal::KILL);
                server.ended().await;
                if stops_early(data.path(), stop).await {
                    break;
                }
            }
        }
        let server = Running::start(data.path()).await;
        let mut wire = Wire::connect(server.address).await;
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count.as_deref(), Some("200000"));
    });
}

#[test]
fn a_data_directory_has_one_server() {
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = Running::start(data.path()).await;
        let path = data.path().to_str().unwrap();
        let second = output(coeval(&["start", "--data-dir", path, "--listen", "0"])).await;
        assert!(!second.status.success());
        let complaint = text(&second.stderr);
        assert!(complaint.contains(path), "{complaint}");
        let mut wire = Wire::connect(server.address).await;
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn a_log_that_cannot_be_written_stops_the_server() {
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let small = ["--log-segment-bytes", "65536"];
        let server = Running::start_with(data.path(), &small).await;
        let mut wire = Wire::connect(server.address).await;
        wire.rows("create table t (id int primary key, filler text)")
            .await;
        // The disk loses the log's directory: the next file cannot be made.
        remove(&data.path().join("log"));
        let filler = "x".repeat(10_000);
        let mut acknowledged = 0;
        let refused = loop {
            let insert = format!("insert into t values ({acknowledged}, '{filler}')");
            wire.send(&coeval_testkit::wire::query(&insert)).await;
            let answers = wire.until_ready_or_closed().await;
            match answers.last() {
                Some(last) if last.kind == 'Z' => acknowledged += 1,
                _ => break answers,
            }
            assert!(acknowledged < 10_000, "it goes on without a disk");
        };
        // No acknowledgement; an explanation, or nothing at all.
        assert!(
            refused.iter().all(|answer| answer.kind == 'E'),
            "{refused:?}"
        );
        let ended = server.ended().await;
        assert_eq!(ended.code(), Some(1));
    });
}

#[expect(clippy::disallowed_methods, reason = "the test plays the failing disk")]
fn remove(directory: &Path) {
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn an_ephemeral_server_says_where_it_is_and_goes_with_its_parent() {
    in_runtime(async {
        // A shell between us and the server is its parent, and is killed.
        let script = "\"$0\" start --ephemeral --log-level error & wait";
        let mut shell = Command::new("sh")
            .args(["-c", script, COEVAL])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let line = coeval_env::timeout(PATIENCE, lines.next_line()).await;
        let url = line.expect("a line in time").unwrap().expect("its address");
        let address = url
            .strip_prefix("postgres://coeval@")
            .and_then(|rest| rest.strip_suffix("/coeval"))
            .unwrap_or_else(|| panic!("{url}"));
        let mut wire = Wire::connect(address.parse().unwrap()).await;
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
        shell.kill().await.unwrap();
        let answers = wire.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "57P01");
        // Nothing else was printed, and the last holder of the pipe is gone.
        let end = coeval_env::timeout(PATIENCE, lines.next_line()).await;
        assert_eq!(end.expect("it ends in time").unwrap(), None);
    });
}

#[test]
fn the_binary_and_its_log_say_how_it_was_built() {
    in_runtime(async {
        let version = env!("CARGO_PKG_VERSION");
        let profile = coeval_env::BUILD_PROFILE;
        let said = format!("coeval {version} ({profile})\n");
        for asked in ["--version", "version"] {
            assert_eq!(text(&output(coeval(&[asked])).await.stdout), said);
        }
        let mut command = coeval(&["start", "--ephemeral", "--log-format", "json"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = coeval_env::timeout(PATIENCE, lines.next_line()).await;
        let first = first.expect("a line in time").unwrap().unwrap();
        let first: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert_eq!(first["version"], version);
        assert_eq!(first["profile"], profile);
        child.kill().await.unwrap();
    });
}

#[test]
fn wrong_settings_are_refused_with_advice() {
    in_runtime(async {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"max_conections = 3\n").unwrap();
        let path = file.path().to_str().unwrap();
        for (arguments, advice) in [
            (&["start", "--listen", "0.0.0.0:5433"][..], "say --insecure"),
            (
                &["start", "--config", path],
                "did you mean max_connections?",
            ),
            (
                &["start", "--config", "/nowhere/coeval.toml"],
                "/nowhere/coeval.toml",
            ),
            (
                &["start", "--max-connections", "many"],
                "flag --max-connections",
            ),
            (&["start", "--log-level", "loud=very"], "log_level"),
            (
                &[
                    "start",
                    "--ephemeral",
                    "--memory-limit-megabytes",
                    "100",
                    "--memory-preallocated-megabytes",
                    "76",
                ],
                "76 is more than 75, which is three quarters",
            ),
            (&["strat"], "start"),
        ] {
            let refused = output(coeval(arguments)).await;
            assert!(!refused.status.success(), "{arguments:?}");
            let complaint = text(&refused.stderr);
            assert!(complaint.contains(advice), "{arguments:?}: {complaint}");
        }
        let mut command = coeval(&["config"]);
        command.env("COEVAL_LISTEN", "127.0.0.1:7000");
        let shown = text(&output(command).await.stdout);
        let line = "listen = \"127.0.0.1:7000\"  # environment variable COEVAL_LISTEN";
        assert!(shown.contains(line), "{shown}");
    });
}

#[test]
fn the_shell_talks_sql() {
    in_runtime(async {
        let data = tempfile::tempdir().unwrap();
        let server = Running::start(data.path()).await;
        let url = format!("postgres://{}", server.address);
        let create = "create table t (id int, name text); insert into t values (1, 'one')";
        let shown = output(coeval(&[
            "sql",
            &url,
            "-c",
            create,
            "-c",
            "select * from t",
        ]))
        .await;
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let lines = text(&shown.stdout);
        assert!(lines.contains("  1  one"), "{lines}");
        assert!(lines.contains("(1 row)"), "{lines}");
        let script = "select 1 as\n  one;\n\\d\n\\d t\nselect name from t";
        let mut command = Command::new("sh");
        let piped = format!("printf '%s' \"$1\" | \"$0\" sql {url}");
        command
            .args(["-c", &piped, COEVAL, script])
            .kill_on_drop(true);
        let shown = text(&output(command).await.stdout);
        for part in [" one ", " table ", "integer", " name "] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        let failed = output(coeval(&["sql", &url, "-c", "select nothing"])).await;
        assert_eq!(failed.status.code(), Some(1));
        assert!(
            text(&failed.stderr).contains("42703"),
            "{}",
            text(&failed.stderr)
        );
        let nobody = output(coeval(&["sql", "postgres://127.0.0.1:1", "-c", "select 1"])).await;
        assert_eq!(nobody.status.code(), Some(2));
    });
}
