//! Workloads on `occ` at every level of isolation, and over the wire; `coeval bench`.
//!
//! Each run judges itself at its end. That the judges object to what is wrong is shown in
//! the tests of `coeval-workload`.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use coeval_check::history::{self, Format, Outcome as Ended, Transaction};
use coeval_check::recency;
use coeval_check::transactions::{self, Level};
use coeval_occ::{Engine, Settings};
use coeval_testkit::server::with_server;
use coeval_txn::Isolation;
use coeval_types::planted::{self, Bug};
use coeval_workload::driver::{self, Length, Options, Outcome, Stop};
use coeval_workload::faults::proxy::{Policy, Proxy};
use coeval_workload::loads::bank::Bank;
use coeval_workload::loads::hybrid::{self, Hybrid};
use coeval_workload::loads::list_append::ListAppend;
use coeval_workload::loads::rw_register::RwRegister;
use coeval_workload::loads::smallbank::SmallBank;
use coeval_workload::loads::tpcc::{Scale, Tpcc};
use coeval_workload::loads::ycsb::{Letter, Settings as YcsbSettings, Ycsb};
use coeval_workload::server::{Launch, Server, free_port};
use coeval_workload::store::Database;
use coeval_workload::workload::Workload;
use rustix::process::{Pid, Signal, kill_process};

use crate::postgres::Postgres;

const LEVELS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::SnapshotIsolation,
    Isolation::Serializable,
];

fn options(isolation: Isolation, transactions: u64) -> Options {
    Options {
        threads: 2,
        clients: 4,
        isolation,
        length: Length::Transactions(transactions),
        record: true,
        ..Options::default()
    }
}

async fn drive<W: Workload>(workload: W, place: Place, options: &Options) -> Outcome {
    let workload = Arc::new(workload);
    let tables = workload.tables();
    let database = match place {
        Place::Occ => {
            let engine = Engine::ephemeral(Settings::default()).unwrap();
            Database::in_process(Arc::new(engine), tables)
        }
        Place::Wire(address) => {
            let mut config = tokio_postgres::Config::new();
            config.host(address.ip().to_string());
            config.port(address.port()).user("postgres");
            Database::over_wire(config, tables)
        }
    };
    let outcome = driver::run(&workload, &database, options, &mut |_| {}).await;
    let outcome = outcome.unwrap_or_else(|failure| panic!("{}: {failure}", workload.name()));
    let report = &outcome.report;
    assert!(report.is_sound(), "{report:?}");
    assert!(report.checked);
    let Length::Transactions(wanted) = options.length else {
        return outcome;
    };
    assert_eq!(
        (report.completed, report.unknown),
        (wanted, 0),
        "{report:?}"
    );
    // What was tried again is in the history as well.
    let history = outcome.history.as_ref().expect("it was recorded");
    let committed = |ended: Ended| {
        let transactions = history.transactions.iter();
        transactions.filter(|one| one.outcome == ended).count() as u64
    };
    // And so is the look at everything in the end.
    assert_eq!(committed(Ended::Committed), wanted - report.rolled_back + 1);
    assert_eq!(
        committed(Ended::Aborted),
        report.aborted + report.rolled_back
    );
    outcome
}

#[derive(Clone, Copy)]
enum Place {
    Occ,
    Wire(SocketAddr),
}

fn ycsb(letter: Letter, operations: u64) -> Ycsb {
    Ycsb::new(YcsbSettings {
        letter,
        records: 300,
        fields: 3,
        field_bytes: 20,
        operations,
        ..YcsbSettings::default()
    })
}

fn hybrid() -> Hybrid {
    Hybrid::new(hybrid::Settings {
        records: 300,
        field_bytes: 20,
        scan: 30,
        ..hybrid::Settings::default()
    })
}

fn tpcc() -> Tpcc {
    let scale = Scale {
        warehouses: 2,
        items: 100,
        customers: 10,
    };
    Tpcc::new(scale, 7)
}

/// Everything, so much of it, at one level.
async fn all(place: Place, isolation: Isolation, transactions: u64) {
    let options = options(isolation, transactions);
    for letter in [Letter::A, Letter::D, Letter::E, Letter::F] {
        drive(ycsb(letter, 1), place, &options).await;
    }
    drive(ycsb(Letter::A, 8), place, &options).await;
    drive(hybrid(), place, &options).await;
    // No skew in what is judged: bank and TPC-C lock what they change. SmallBank's checks
    // may skew below SERIALIZABLE, and its money adds up all the same.
    drive(Bank::new(8, 30), place, &options).await;
    drive(SmallBank::new(50, 5, 90), place, &options).await;
    drive(ListAppend::new(4, 10, 4), place, &options).await;
    drive(RwRegister::new(10, 4), place, &options).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_occ() {
    for isolation in LEVELS {
        all(Place::Occ, isolation, 300).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tpcc_on_occ() {
    for isolation in LEVELS {
        for tpcc in [tpcc(), tpcc().with_rewards(7)] {
            let outcome = drive(tpcc, Place::Occ, &options(isolation, 400)).await;
            let kinds = &outcome.report.kinds;
            assert!(kinds.iter().all(|kind| kind.completed > 0), "{kinds:?}");
        }
    }
}

#[test]
fn over_the_wire() {
    with_server(|address| async move {
        for isolation in LEVELS {
            all(Place::Wire(address), isolation, 40).await;
        }
    });
}

#[test]
fn tpcc_over_the_wire() {
    with_server(|address| async move {
        for isolation in LEVELS {
            let options = options(isolation, 60);
            drive(tpcc(), Place::Wire(address), &options).await;
            drive(tpcc().with_rewards(7), Place::Wire(address), &options).await;
        }
    });
}

/// Neither workloads nor judges are made for one server: PostgreSQL keeps what its levels
/// promise as well. Of SERIALIZABLE that is no real time for what only reads beside writes.
#[tokio::test(flavor = "multi_thread")]
async fn on_postgresql() {
    let Some(postgres) = Postgres::start().await else {
        return;
    };
    let place = Place::Wire(postgres.address());
    for (isolation, level) in [
        (Isolation::ReadCommitted, Level::ReadCommitted),
        (Isolation::SnapshotIsolation, Level::StrongSnapshotIsolation),
        (Isolation::Serializable, Level::Serializable),
    ] {
        all(place, isolation, 30).await;
        drive(tpcc(), place, &options(isolation, 20)).await;
        let options = options(isolation, 200);
        let lists = drive(ListAppend::new(4, 10, 4), place, &options).await;
        let registers = drive(RwRegister::new(10, 4), place, &options).await;
        for outcome in [lists, registers] {
            let history = outcome.history.expect("it was recorded");
            let judged = transactions::judge(&history, &[level]).expect("a history");
            let violations: Vec<_> = judged.violations(level).collect();
            assert!(violations.is_empty(), "{isolation:?}: {violations:?}");
            let missed = recency::judge(&history).expect("a history").missed;
            assert!(missed.is_empty(), "{isolation:?}: {missed:?}");
        }
    }
}

/// A server process that answers, its port, and how it is started again.
async fn served(folder: &Path) -> (u16, Launch, Server) {
    let port = free_port().await.unwrap();
    let binary = env!("CARGO_BIN_EXE_coeval").into();
    let launch = Launch::coeval(binary, folder, port).unwrap();
    let mut server = launch.start().unwrap();
    server.ready().await.unwrap();
    (port, launch, server)
}

/// Clients of a server that stops answering wait until their timeout: a transaction that
/// was committing has an unknown outcome, every other one is rolled back, and the clients
/// continue when the server answers again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_keeps_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (port, _, server) = served(folder.path()).await;
    let proxy = Arc::new(Proxy::start(port, 1).await.unwrap());
    let stop = Stop::default();
    let options = Options {
        clients: 8,
        length: Length::Time(Duration::MAX),
        operation_timeout: Some(Duration::from_millis(300)),
        // With the server silent there is nothing to look at.
        check: false,
        stop: stop.clone(),
        ..options(Isolation::ReadCommitted, 0)
    };
    // A statement of its own is its own commit.
    let workload = Arc::new(ycsb(Letter::A, 1));
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(proxy.port()).user("postgres");
    let database = Database::over_wire(config, workload.tables());
    // Silent, well and silent again, each as soon as something was done before.
    let silent = Policy {
        answers_blocked: true,
        ..Policy::default()
    };
    let (mut turn, mut before, mut since) = (0, 0, None);
    let mut look = move |tick: &driver::Tick| {
        let now = coeval_env::now();
        let began = *since.get_or_insert(now);
        let is_silent = turn % 2 == 1;
        let over = match is_silent {
            // Longer than any client's timeout.
            true => now.duration_since(began) > Duration::from_secs(1),
            false => tick.phase == "running" && tick.completed > before + 100,
        };
        if !over {
            return;
        }
        (turn, before, since) = (turn + 1, tick.completed, Some(now));
        match turn {
            1 | 3 => proxy.set(silent),
            2 => proxy.set(Policy::default()),
            // Silent to the end: it comes all the same.
            _ => stop.stop(),
        }
    };
    let run = driver::run(&workload, &database, &options, &mut look);
    let report = run.await.unwrap().report;
    assert!(report.completed > 200, "{report:?}");
    let silence = report.aborts.get("no_answer").copied().unwrap_or(0) + report.unknown;
    assert!(silence >= 8, "{report:?}");
    assert!(report.unknown > 0, "{report:?}");
    assert!(report.violations.is_empty(), "{report:?}");
    server.kill().unwrap();
}

fn bench(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_coeval"))
        .arg("bench")
        .args(arguments)
        .output()
        .expect("the binary starts")
}

/// The oracle as a process: it keeps no files and serves no clients, so of the process
/// faults only a pause can affect it.
#[test]
#[expect(clippy::disallowed_methods, reason = "drives a program")]
fn serial_in_a_process_that_is_paused() {
    for workload in [
        "bank",
        "list-append",
        "rw-register",
        "smallbank",
        "ycsb",
        "hybrid",
        "tpcc",
    ] {
        for level in ["read-committed", "snapshot", "serializable"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_coeval"));
            command.args(["bench", workload, "--protocol", "serial"]);
            command.args(["--isolation", level, "--clients", "4"]);
            command.args(["--seconds", "0.6", "--warm-up", "0"]);
            match workload {
                "tpcc" => _ = command.args(["--items", "100", "--customers", "20"]),
                "ycsb" | "hybrid" => _ = command.args(["--records", "1000"]),
                _ => {}
            }
            let process = command.stdout(Stdio::piped()).spawn().unwrap();
            let id = Pid::from_raw(process.id().cast_signed()).unwrap();
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(60));
                kill_process(id, Signal::STOP).unwrap();
                std::thread::sleep(Duration::from_millis(30));
                kill_process(id, Signal::CONT).unwrap();
            }
            let output = process.wait_with_output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{workload} at {level}: {printed}");
            assert!(
                printed.contains("everything is as it has to be"),
                "{printed}"
            );
        }
    }
}

/// Long scans beside short transactions, in the process and over the wire.
#[test]
fn scans_and_rewards_are_as_many_as_was_said() {
    let hybrid = ["hybrid", "--records", "1000", "--scan-length", "200"];
    let tpcc = ["tpcc", "--items", "100", "--customers", "20"];
    let cases: [(Vec<&str>, _, _); 2] = [
        (
            [&hybrid[..], &["--scan-percent", "30"]].concat(),
            "bulk",
            ("scan", 200),
        ),
        (
            [
                &tpcc[..],
                &["--reward-percent", "30", "--reward-customers", "15"],
            ]
            .concat(),
            "reward",
            ("rewarded_of", 15),
        ),
    ];
    with_server(|address| async move {
        let url = format!("postgres://postgres@{address}");
        for (arguments, kind, (parameter, length)) in &cases {
            for place in [&[][..], &["--url", &url]] {
                let mut arguments = [arguments, place].concat();
                arguments.extend(["--clients", "4", "--threads", "2", "--warm-up", "0"]);
                arguments.extend(["--transactions", "200", "--json", "-"]);
                let output = bench(&arguments);
                assert!(output.status.success(), "{arguments:?}: {output:?}");
                let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(report["checked"], true, "{report}");
                assert_eq!(
                    report["violations"].as_array().unwrap().len(),
                    0,
                    "{report}"
                );
                assert_eq!(report["parameters"][parameter], *length, "{report}");
                let commits = &report["commit_latency"];
                assert_eq!(commits.is_null(), place.is_empty(), "{report}");
                if let Some(longest) = commits["max"].as_f64() {
                    let all = report["latency"]["max"].as_f64().unwrap();
                    assert!(longest > 0.0 && longest <= all, "{report}");
                }
                let kinds = report["kinds"].as_array().unwrap();
                let scans = kinds.iter().find(|one| one["name"] == *kind).unwrap();
                // About 60 by chance.
                let completed = scans["completed"].as_u64().unwrap();
                assert!((25..=95).contains(&completed), "{report}");
            }
        }
    });
}

/// The fields that the page describes: the first column of its tables.
fn described() -> std::collections::BTreeSet<String> {
    let page = include_str!("../../../../docs/operations/bench.md");
    let field = |line: &str| {
        let name = line.strip_prefix("| `")?.split('`').next()?;
        (!name.starts_with("--")).then(|| name.to_owned())
    };
    page.lines().filter_map(field).collect()
}

fn names(prefix: &str, value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
    for (name, value) in value.as_object().expect("an object") {
        let name = format!("{prefix}{name}");
        match value {
            // What is in them depends on the workload.
            serde_json::Value::Object(_) if name != "parameters" && name != "aborts" => {
                names(&format!("{name}."), value, into);
            }
            serde_json::Value::Array(of) if of.first().is_some_and(|one| one.is_object()) => {
                names(&format!("{name}[]."), &of[0], into);
            }
            _ => {
                into.insert(name);
            }
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "looks at the program's files")]
fn a_bench_writes_the_fields_that_its_page_describes() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let csv = folder.path().join("result.csv");
    let data = folder.path().join("data");
    let mut arguments = vec!["tpcc", "--items", "100", "--customers", "20"];
    arguments.extend(["--threads", "2", "--clients", "4", "--seconds", "1.5"]);
    arguments.extend(["--warm-up", "0", "--json", json.to_str().unwrap()]);
    arguments.extend(["--csv", csv.to_str().unwrap()]);
    arguments.extend(["--data-dir", data.to_str().unwrap()]);
    let picture = folder.path().join("result.png");
    arguments.extend(["--plot", picture.to_str().unwrap()]);
    let output = bench(&arguments);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        printed.contains("everything is as it has to be"),
        "{printed}"
    );
    let text = std::fs::read_to_string(&json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["workload"], "tpcc");
    assert_eq!(report["backend"], "occ");
    assert_eq!(report["durability"], "durable before it is acknowledged");
    assert!(report["transactions_per_second"].as_f64().unwrap() > 0.0);
    assert!(report["cpu_microseconds_per_transaction"].as_f64().unwrap() > 0.0);
    let mut written = std::collections::BTreeSet::new();
    names("", &report, &mut written);
    assert_eq!(written, described());
    let lines = std::fs::read_to_string(&csv).unwrap().lines().count();
    assert_eq!(lines, 7);
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    // The directory is a database now, and is not overwritten.
    let again = bench(&arguments);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("not empty"));
}

/// Tables that a run has filled serve the next: whatever is unique goes on from there.
#[test]
fn a_bench_goes_on_from_the_tables_of_the_one_before() {
    with_server(|address| async move {
        let url = format!("postgres://postgres@{address}");
        let run = |workload: &[&str], further: &[&str]| {
            let common = ["--url", &url, "--clients", "4", "--transactions", "60"];
            bench(&[workload, &common, &["--warm-up", "0"], further].concat())
        };
        let output = run(&["bank"], &["--skip-load"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("\"bank_account\" does not exist"), "{said}");
        for workload in [
            &["list-append"][..],
            &["ycsb", "--workload", "D", "--records", "500"],
            &["tpcc", "--items", "100", "--customers", "20"],
        ] {
            for further in [&[][..], &["--skip-load"], &["--skip-load"]] {
                let output = run(workload, further);
                assert!(output.status.success(), "{workload:?}: {output:?}");
            }
        }
        let other = ["tpcc", "--items", "100", "--customers", "30"];
        let output = run(&other, &["--skip-load"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("has 20 customers"), "{said}");
        assert!(said.contains("told of 30"), "{said}");
    });
}

/// `coeval bench` that is to take an hour. Nothing of it outlives the test.
struct LongRun(Child);

impl LongRun {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coeval"));
        command.args(["bench", "bank", "--seconds", "3600", "--warm-up", "0"]);
        command.args(arguments).stdout(Stdio::piped());
        Self(command.spawn().expect("the binary starts"))
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// How it ended, and what it has printed.
    fn end(mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        let mut output = self.0.stdout.take().expect("nobody else has it");
        output.read_to_string(&mut printed).unwrap();
        (self.0.wait().unwrap().code(), printed)
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// When a file of a folder was last written.
#[expect(clippy::disallowed_methods, reason = "looks at the program's files")]
fn last_written(folder: &Path) -> Option<SystemTime> {
    let files = std::fs::read_dir(folder).ok()?.flatten();
    files
        .filter_map(|file| file.metadata().ok()?.modified().ok())
        .max()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "looks at the program's files")]
fn a_bench_that_is_told_to_end_checks_and_writes_what_it_has() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (json, history, data) = (file("result.json"), file("history.jsonl"), file("data"));
        let places = ["--record", &history, "--json", &json, "--data-dir", &data];
        let accounts = ["--accounts", "10", "--clients", "2"];
        let mut run = LongRun::start(&[&places[..], &accounts].concat());
        // It is at work as soon as its log is written again and again.
        let log = folder.path().join("data/log");
        let (mut changes, mut last) = (0, None);
        while changes < 20 {
            assert!(!run.is_over());
            std::thread::sleep(Duration::from_millis(10));
            let now = last_written(&log);
            changes += u32::from(now != last);
            last = now;
        }
        run.signal(signal);
        let (ended, printed) = run.end();
        assert_eq!(ended, Some(code), "{printed}");
        assert!(printed.contains("interrupted"), "{printed}");
        assert!(
            printed.contains("everything is as it has to be"),
            "{printed}"
        );
        let report = std::fs::read_to_string(json).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["interrupted"], true);
        assert_eq!(report["checked"], true);
        judge(&history, &["bank"]);
    }
}

#[test]
fn a_second_signal_ends_a_bench_at_once() {
    with_server(|address| async move {
        let proxy = Proxy::start(address.port(), 1).await.unwrap();
        let url = format!("postgres://postgres@127.0.0.1:{}", proxy.port());
        let mut run = LongRun::start(&["--url", &url, "--operation-timeout", "0"]);
        let url = format!("postgres://postgres@{address}");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        coeval_env::spawn("connection", async move {
            let _ = connection.await;
        });
        // Clients are at work.
        let moved = "SELECT id FROM bank_account WHERE balance <> 1000";
        while !client
            .query(moved, &[])
            .await
            .is_ok_and(|rows| !rows.is_empty())
        {
            assert!(!run.is_over());
            coeval_env::sleep(Duration::from_millis(10)).await;
        }
        // No client gets an answer any more, so the run does not end.
        proxy.set(Policy {
            answers_blocked: true,
            ..Policy::default()
        });
        run.signal(Signal::INT);
        coeval_env::sleep(Duration::from_millis(300)).await;
        assert!(!run.is_over(), "it waits for an answer");
        run.signal(Signal::INT);
        assert_eq!(run.end().0, Some(130));
    });
}

#[test]
fn a_bench_without_a_server_says_so() {
    let output = bench(&["bank", "--url", "postgres://127.0.0.1:1", "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("coeval bench: "), "{said}");
    for nonsense in [
        ["ycsb", "--workload", "Q"],
        ["ycsb", "--records", "18446744073709551615"],
        ["ycsb", "--theta", "inf"],
        ["bank", "--rate", "1e30"],
        ["bank", "--seconds", "0"],
        ["bank", "--plot", "x.jpg"],
        ["bank", "--record", "x.csv"],
    ] {
        let output = bench(&nonsense);
        assert_eq!(output.status.code(), Some(2), "{nonsense:?}: {output:?}");
    }
}

/// Has the judges of `models` look at a history.
fn judge(history: &str, models: &[&str]) {
    let mut check = Command::new(env!("CARGO_BIN_EXE_coeval"));
    check.args(["check", history]);
    for model in models {
        check.args(["--model", model]);
    }
    let output = check.output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{history}: {said}");
    assert!(said.contains("transactions"), "{said}");
}

/// Records a run of a workload, and has it judged.
fn recorded(workload: &str, isolation: &str, models: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history.jsonl");
    let history = history.to_str().unwrap();
    let mut arguments = vec![workload, "--isolation", isolation, "--record", history];
    arguments.extend(["--transactions", "1000", "--warm-up", "0"]);
    arguments.extend(["--threads", "2", "--clients", "8"]);
    let output = bench(&arguments);
    assert!(output.status.success(), "{output:?}");
    judge(history, models);
}

#[test]
fn what_a_bench_records_stands_before_the_judges() {
    let models = ["strict-serializable", "recency", "sessions"];
    recorded("list-append", "serializable", &models);
    recorded("list-append", "snapshot", &["strong-snapshot-isolation"]);
    recorded("list-append", "read-committed", &["read-committed"]);
    recorded("rw-register", "serializable", &["strict-serializable"]);
    recorded("bank", "serializable", &["bank", "linearizable"]);
    recorded("bank", "serializable", &models);
    recorded("bank", "snapshot", &["strong-snapshot-isolation"]);
    recorded("bank", "read-committed", &["read-committed", "bank"]);
}

/// A transaction on an old snapshot reads a correct sum. Its fault is that another
/// transaction had changed the accounts before it began, as the transfers in the history
/// show.
#[test]
fn a_bank_of_old_snapshots_is_seen_in_its_history() {
    if !cfg!(debug_assertions) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history.jsonl");
    let history = history.to_str().unwrap();
    let bench = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .env(planted::VARIABLE, Bug::StaleSnapshot.name())
        .args(["bench", "bank", "--accounts", "8", "--totals", "30"])
        .args(["--isolation", "snapshot", "--record", history])
        .args(["--transactions", "1000", "--warm-up", "0"])
        .output()
        .expect("the binary starts");
    assert!(bench.status.code().is_some(), "{bench:?}");
    let check = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .args(["check", history, "--model", "strong-snapshot-isolation"])
        .output()
        .expect("the binary starts");
    assert_eq!(check.status.code(), Some(1), "{check:?}");
}

/// The test kills the server under its clients and restarts it: the clients continue,
/// unknown outcomes are recorded as unknown, and acknowledged commits are still there.
#[tokio::test(flavor = "multi_thread")]
#[expect(
    clippy::disallowed_methods,
    reason = "writes a file for a program to read"
)]
async fn a_run_outlives_a_kill_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let (port, launch, server) = served(folder.path()).await;
    let options = Options {
        clients: 8,
        length: Length::Time(Duration::from_secs(10)),
        ..options(Isolation::Serializable, 0)
    };
    let workload = Arc::new(ListAppend::new(8, 16, 4));
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user("postgres");
    let database = Database::over_wire(config, workload.tables());
    // Once there is something to lose.
    let (loaded, load) = tokio::sync::oneshot::channel();
    let mut loaded = Some(loaded);
    let mut look = move |tick: &driver::Tick| {
        if tick.phase == "running"
            && tick.done > 100
            && let Some(loaded) = loaded.take()
        {
            let _ = loaded.send(());
        }
    };
    let kill = async {
        load.await.unwrap();
        server.kill().unwrap();
        let mut server = launch.start().unwrap();
        server.ready().await.unwrap();
        server
    };
    let run = driver::run(&workload, &database, &options, &mut look);
    let (outcome, server) = tokio::join!(run, kill);
    let outcome = outcome.unwrap();
    let report = &outcome.report;
    assert!(report.is_sound(), "{report:?}");
    let lost = report.aborts.get("connection").copied().unwrap_or(0) + report.unknown;
    assert!(lost > 0, "nobody was cut off: {report:?}");
    let history = outcome.history.unwrap();
    let unknown = |one: &&Transaction| one.outcome == Ended::Unknown;
    let unknown = history.transactions.iter().filter(unknown).count() as u64;
    assert_eq!(unknown, report.unknown);
    let file = folder.path().join("history.jsonl");
    let mut bytes = Vec::new();
    history::write(&history, Format::JsonLines, &mut bytes).unwrap();
    std::fs::write(&file, bytes).unwrap();
    judge(file.to_str().unwrap(), &["strict-serializable", "recency"]);
    drop(server);
}
