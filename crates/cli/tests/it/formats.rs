//! What earlier builds wrote, each format once: directories and backups that this build must
//! open, verify and restore with every row.
//!
//! ```text
//!   crates/cli/tests/formats/fill.sql, rows.sql   what was written, and how it is read
//!   crates/cli/tests/formats/807602d/             one folder for each format:
//!       data  backup  cluster  cluster-backup     (.tar.gz) as that build left them
//!       rows.txt                                  what it read then
//! ```
//!
//! `crates/cli/tests/formats/make.sh` makes a folder, with the last build that writes the
//! format before the first that writes another one.
#![expect(
    clippy::disallowed_methods,
    reason = "opens as a user does what another build wrote"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coeval_workload::Connection;
use coeval_workload::server::{Launch, Server, free_port};
use tokio_postgres::{Client, SimpleQueryMessage};

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

/// The folders of all formats.
fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(formats()).unwrap();
    let mut folders: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&said)
    );
    output
}

/// Unpacks a file of a format into `to`, and returns what it held.
fn unpack(format: &Path, name: &str, to: &Path) -> PathBuf {
    let packed = format.join(format!("{name}.tar.gz"));
    let (packed, to_text) = (packed.to_str().unwrap(), to.to_str().unwrap());
    run("tar", &["-xzf", packed, "-C", to_text, "--no-same-owner"]);
    to.join(name)
}

/// The answers to `rows.sql`, as `psql -At` prints them.
async fn rows(client: &Client) -> String {
    let queries = fs::read_to_string(formats().join("rows.sql")).unwrap();
    let mut text = String::new();
    for message in client.simple_query(&queries).await.unwrap() {
        if let SimpleQueryMessage::Row(row) = message {
            let values = (0..row.len()).map(|column| row.get(column).unwrap_or_default());
            text += &values.collect::<Vec<_>>().join("|");
            text.push('\n');
        }
    }
    text
}

/// Compares line by line: the whole is long.
fn assert_rows(found: &str, format: &Path) {
    let wanted = fs::read_to_string(format.join("rows.txt")).unwrap();
    let mut found = found.lines();
    for (number, wanted) in wanted.lines().enumerate() {
        assert_eq!(
            found.next(),
            Some(wanted),
            "line {} of rows.txt",
            number + 1
        );
    }
    assert_eq!(found.next(), None);
}

/// Opens a directory twice, and compares all rows; writes to it in between.
async fn opens_twice(directory: &Path, format: &Path) {
    for round in 0..2 {
        run(COEVAL, &["verify", directory.to_str().unwrap()]);
        let port = free_port().await.unwrap();
        let mut launch = Launch::coeval(COEVAL.into(), directory.parent().unwrap(), port).unwrap();
        launch.arguments[2] = directory.to_str().unwrap().to_owned();
        let mut server = launch.start().unwrap();
        let client = server.ready().await.unwrap();
        assert_rows(&rows(&client).await, format);
        let written = "create table if not exists written (n int);
                       insert into written values (1)";
        client.batch_execute(written).await.unwrap();
        let count = client.query_one("select count(*) from written", &[]).await;
        assert_eq!(count.unwrap().get::<_, i64>(0), round + 1);
        server.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_directory_opens_with_every_row() {
    for format in folders() {
        let folder = tempfile::tempdir().unwrap();
        let data = unpack(&format, "data", folder.path());
        opens_twice(&data, &format).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_restored_with_every_row() {
    for format in folders() {
        for name in ["backup", "cluster-backup"] {
            let folder = tempfile::tempdir().unwrap();
            let backup = unpack(&format, name, folder.path());
            let restored = folder.path().join("restored");
            let (from, to) = (backup.to_str().unwrap(), restored.to_str().unwrap());
            run(COEVAL, &["restore", "--from", from, "--data-dir", to]);
            opens_twice(&restored, &format).await;
        }
    }
}

/// The three nodes of the cluster in `folder`, each with a client.
async fn nodes(folder: &Path) -> Vec<(Server, Connection)> {
    let mut members = Vec::new();
    for node in 1..=3 {
        members.push(format!("{node}=127.0.0.1:{}", free_port().await.unwrap()));
    }
    let mut servers = Vec::new();
    for node in 1..=3 {
        let port = free_port().await.unwrap();
        let place = folder.join(format!("node-{node}.run"));
        let mut launch = Launch::coeval(COEVAL.into(), &place, port).unwrap();
        let data = folder.join(format!("node-{node}"));
        run(COEVAL, &["verify", data.to_str().unwrap()]);
        launch.arguments[2] = data.to_str().unwrap().to_owned();
        let settings = [
            ("--cluster-node", node.to_string()),
            // Which cluster make.sh says it is.
            (
                "--cluster-id",
                "0123456789abcdef0123456789abcdef".to_owned(),
            ),
            ("--cluster-members", members.join(",")),
        ];
        let settings = settings.into_iter();
        launch
            .arguments
            .extend(settings.flat_map(|(flag, value)| [flag.to_owned(), value]));
        servers.push(launch.start().unwrap());
    }
    let mut nodes = Vec::new();
    for mut server in servers {
        let client = server.ready().await.unwrap();
        nodes.push((server, client));
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_cluster_go_on_with_every_row() {
    for format in folders() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = unpack(&format, "cluster", folder.path());
        for round in 0..2 {
            let nodes = nodes(&cluster).await;
            for (_, client) in &nodes {
                assert_rows(&rows(client).await, &format);
            }
            let (_, client) = &nodes[round];
            let written = "create table if not exists written (n int);
                           insert into written values (1)";
            client.batch_execute(written).await.unwrap();
            let (_, client) = &nodes[2];
            let count = client.query_one("select count(*) from written", &[]).await;
            assert_eq!(count.unwrap().get::<_, i64>(0), round as i64 + 1);
            for (server, client) in nodes {
                drop(client);
                server.stop().await.unwrap();
            }
        }
    }
}
