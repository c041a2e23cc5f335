//! Clients that lose their connection on the way to a commit, and ask what became of it.
#![expect(
    clippy::disallowed_methods,
    reason = "runs the binary as its users do, beside a server that is another process"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use coeval_testkit::wire::{Wire, query};
use coeval_workload::Connection;
use coeval_workload::chance::Chance;
use coeval_workload::faults::controls::{self, Controls};
use coeval_workload::faults::proxy::{Policy, Proxy};
use coeval_workload::server::{Launch, Server, free_port};

/// How a client loses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// COMMIT does not get to the server.
    Request,
    /// The answer does not get to the client; the server goes on.
    Answer,
    /// The connection is cut at any moment.
    Cut,
    /// The server is killed at any moment.
    Kill,
}

async fn status(connection: &Connection, number: i64) -> Option<String> {
    let sql = "select txid_status($1)";
    let row = connection.query_one(sql, &[&number]).await.unwrap();
    row.get(0)
}

/// The outcome of the numbered transaction: polls until it has ended, as a client would.
async fn outcome(connection: &Connection, number: i64) -> String {
    loop {
        match status(connection, number).await.as_deref() {
            Some("in progress") => coeval_env::sleep(Duration::from_millis(1)).await,
            Some(ended) => return ended.to_owned(),
            None => panic!("{number} is not known"),
        }
    }
}

async fn is_there(connection: &Connection, round: i32) -> bool {
    let sql = "select count(*) from ledger where round = $1";
    let row = connection.query_one(sql, &[&round]).await.unwrap();
    row.get::<_, i64>(0) == 1
}

/// Other clients' commits, so that this one's share their syncs and wait for them.
fn load(port: u16) -> coeval_env::JoinHandle<()> {
    coeval_env::spawn("load", async move {
        let Ok(connection) = coeval_workload::connect(port).await else {
            return;
        };
        let bump = "update busy set n = n + 1 where id = 1";
        while connection.batch_execute(bump).await.is_ok() {}
    })
}

/// Sends a COMMIT, and loses its answer.
async fn lose(
    loss: Loss,
    mut wire: Wire,
    proxy: &Proxy,
    server: Server,
    chance: &mut Chance,
) -> Option<Server> {
    let moment = Duration::from_micros(chance.within(0..4_000));
    let policy = Policy {
        requests_blocked: loss == Loss::Request,
        answers_blocked: true,
        ..Policy::default()
    };
    proxy.set(policy);
    wire.send(&query("commit")).await;
    let mut left = Some(server);
    match loss {
        Loss::Request | Loss::Cut => coeval_env::sleep(moment).await,
        // The commit is done when other sessions see it; only a test can observe that.
        Loss::Answer => coeval_env::sleep(Duration::from_millis(200)).await,
        Loss::Kill => {
            coeval_env::sleep(moment).await;
            left.take().expect("it runs").kill().unwrap();
        }
    }
    proxy.cut();
    drop(wire);
    proxy.set(Policy::default());
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_lost_the_answer_can_ask() {
    const ROUNDS: i32 = 40;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().await.unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_coeval")).to_owned();
    let launch = Launch::coeval(binary, folder.path(), port).unwrap();
    let launch = launch.with(&[
        ("checkpoint-log-bytes", 20_000),
        ("log-segment-bytes", 16_384),
    ]);
    let mut server = launch.start().unwrap();
    let mut connection = server.ready().await.unwrap();
    connection
        .batch_execute(
            "create table ledger (round int primary key);
             create table busy (id int primary key, n bigint); insert into busy values (1, 0)",
        )
        .await
        .unwrap();
    let proxy = Proxy::start(port, 7).await.unwrap();
    let through = SocketAddr::from(([127, 0, 0, 1], proxy.port()));
    let mut chance = Chance::new(11);
    let mut told: Vec<(i32, i64, String)> = Vec::new();
    let mut busy = load(port);
    for round in 0..ROUNDS {
        let loss = [Loss::Cut, Loss::Answer, Loss::Kill, Loss::Request][round as usize % 4];
        let mut wire = Wire::connect(through).await;
        wire.rows("begin").await;
        let insert = format!("insert into ledger values ({round})");
        // Asked for before the first change, or after it.
        let late = round / 4 % 2 == 1;
        if late {
            wire.rows(&insert).await;
        }
        let number = wire.value("select txid_current()").await.unwrap();
        let number: i64 = number.parse().unwrap();
        if !late {
            wire.rows(&insert).await;
        }
        match lose(loss, wire, &proxy, server, &mut chance).await {
            Some(same) => server = same,
            None => {
                server = launch.start().unwrap();
                connection = server.ready().await.unwrap();
                busy.abort();
                busy = load(port);
            }
        }
        let became = outcome(&connection, number).await;
        let there = is_there(&connection, round).await;
        let expected = if there { "committed" } else { "aborted" };
        assert_eq!(became, expected, "round {round}, {loss:?}");
        match loss {
            Loss::Request => assert_eq!(became, "aborted", "round {round}"),
            Loss::Answer => assert_eq!(became, "committed", "round {round}"),
            Loss::Cut | Loss::Kill => {}
        }
        told.push((round, number, became));
    }
    // An outcome that a client was given must hold from then on.
    for last in [false, true] {
        for (round, number, became) in &told {
            assert_eq!(
                outcome(&connection, *number).await,
                *became,
                "round {round}"
            );
            assert_eq!(is_there(&connection, *round).await, became == "committed");
        }
        if !last {
            server.kill().unwrap();
            server = launch.start().unwrap();
            connection = server.ready().await.unwrap();
        }
    }
    busy.abort();
    let committed = told.iter().filter(|(.., became)| became == "committed");
    eprintln!("{} of {ROUNDS} committed", committed.count());
}

/// Asks in a transaction of its own that inserts this and ends like that.
async fn numbered(connection: &Connection, id: i32, end: &str) -> i64 {
    connection.batch_execute("begin").await.unwrap();
    let row = connection.query_one("select pg_current_xact_id()", &[]);
    let number = row.await.unwrap().get(0);
    let insert = format!("insert into t values ({id})");
    connection.batch_execute(&insert).await.unwrap();
    connection.batch_execute(end).await.unwrap();
    number
}

fn coeval(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_knows_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let binary = || Path::new(env!("CARGO_BIN_EXE_coeval")).to_owned();
    let port = free_port().await.unwrap();
    let launch = Launch::coeval(binary(), folder.path(), port).unwrap();
    let mut server = launch.start().unwrap();
    let connection = server.ready().await.unwrap();
    let table = "create table t (id int primary key)";
    connection.batch_execute(table).await.unwrap();
    let before = numbered(&connection, 1, "commit").await;
    connection.batch_execute("checkpoint").await.unwrap();
    let behind = numbered(&connection, 2, "commit").await;
    let undone = numbered(&connection, 3, "rollback").await;
    let url = format!("postgres://127.0.0.1:{port}");
    let backup = at("backup");
    tokio::task::spawn_blocking({
        let backup = backup.clone();
        move || coeval(&["backup", "--url", &url, "--to", &backup])
    })
    .await
    .unwrap();
    let later = numbered(&connection, 4, "commit").await;
    drop(connection);
    server.stop().await.unwrap();
    let (data, old) = (at("restored/data"), at("data"));
    coeval(&["restore", "--from", &backup, "--data-dir", &data]);
    let caught_up = at("later/data");
    let further = ["--log-from", &old, "--data-dir", &caught_up];
    coeval(&[&["restore", "--from", &backup][..], &further].concat());

    for (name, of_later) in [("restored", "aborted"), ("later", "committed")] {
        let port = free_port().await.unwrap();
        let launch = Launch::coeval(binary(), &folder.path().join(name), port).unwrap();
        let mut server = launch.start().unwrap();
        let connection = server.ready().await.unwrap();
        for (number, expected) in [
            (before, "committed"),
            (behind, "committed"),
            (undone, "aborted"),
            (later, of_later),
        ] {
            let became = status(&connection, number).await;
            assert_eq!(became.as_deref(), Some(expected), "{name}: {number}");
        }
        let new = numbered(&connection, 5, "commit").await;
        assert!(new > later, "{new} and {later}");
        drop(connection);
        server.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_forgets_by_its_clock() {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: a clock that is moved needs a debug build");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = Controls::new(folder.path(), &[]).unwrap();
    let port = free_port().await.unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_coeval")).to_owned();
    let launch = Launch::coeval(binary, folder.path(), port).unwrap();
    let mut launch = launch.with(&[("transaction-outcome-retention-hours", 3)]);
    let file = clock.path().as_os_str().to_owned();
    launch
        .environment
        .push((controls::VARIABLE.to_owned(), file));
    let mut server = launch.start().unwrap();
    let connection = server.ready().await.unwrap();
    let table = "create table t (id int primary key)";
    connection.batch_execute(table).await.unwrap();
    let number = numbered(&connection, 1, "commit").await;
    let undone = numbered(&connection, 2, "rollback").await;
    drop(connection);
    server.stop().await.unwrap();
    // The start that finds it at hour one remembers it for three more.
    for (hour, known) in [(1, true), (3, true), (5, false)] {
        let ahead: i64 = hour * 3_600_000;
        clock.set(&[&format!("clock ahead {ahead}")]).unwrap();
        let mut server = launch.start().unwrap();
        let connection = server.ready().await.unwrap();
        let looked = coeval_env::now();
        let expected = |ended: &str| known.then(|| ended.to_owned());
        // A start does not wait for what is to be forgotten.
        while status(&connection, number).await != expected("committed") {
            assert!(looked.elapsed() < Duration::from_secs(30), "at hour {hour}");
            coeval_env::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(status(&connection, undone).await, expected("aborted"));
        drop(connection);
        server.stop().await.unwrap();
    }
}
