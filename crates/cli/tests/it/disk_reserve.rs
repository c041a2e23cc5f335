//! A server whose disk is really full, and which is relieved from inside: rows are deleted,
//! tables go, and a checkpoint is taken out of the reserve, until there is room again.
#![expect(
    clippy::disallowed_methods,
    reason = "makes a small disk and fills it, beside a server that is another process"
)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use coeval_workload::Connection;
use coeval_workload::server::{Launch, Server, free_port};
use tokio_postgres::error::SqlState;

const MEGABYTES: u64 = 96;
/// A sixteenth of the disk, which is less than the setting.
const RESERVE: u64 = (MEGABYTES << 20) / 16;

/// A file system of its own in memory, gone with this.
struct SmallDisk {
    folder: tempfile::TempDir,
    /// For the log of the process, which would take space too.
    elsewhere: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where nothing can be mounted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={MEGABYTES}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            let elsewhere = tempfile::tempdir().unwrap();
            return Some(Self { folder, elsewhere });
        }
        println!("NOT RUN: no file system can be mounted here");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .status();
    }
}

async fn start(disk: &SmallDisk) -> (Server, Connection) {
    let port = free_port().await.unwrap();
    let launch = Launch::coeval(env!("CARGO_BIN_EXE_coeval").into(), &disk.path(""), port);
    let mut launch = launch.unwrap().with(&[("log-segment-bytes", 1 << 20)]);
    launch.log = disk.elsewhere.path().join("server.log");
    let mut server = launch.start().unwrap();
    let client = server.ready().await.unwrap();
    (server, client)
}

/// Runs a statement; the error must be that the disk is full.
async fn is_refused(client: &Connection, statement: &str) -> bool {
    match client.batch_execute(statement).await {
        Ok(()) => false,
        Err(error) => {
            let reported = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
            assert_eq!(*reported.code(), SqlState::DISK_FULL, "{reported}");
            let hint = reported.hint().unwrap();
            assert!(hint.contains("DELETE, TRUNCATE, DROP"), "{hint}");
            true
        }
    }
}

/// Repeats a statement until it succeeds: there is room, or the reserve has been given up.
async fn until_accepted(client: &Connection, statement: &str) {
    while is_refused(client, statement).await {
        coeval_env::sleep(Duration::from_millis(20)).await;
    }
}

async fn count(client: &Connection, table: &str) -> i64 {
    let counted = client
        .query_one(&format!("select count(*) from {table}"), &[])
        .await;
    counted.unwrap().get(0)
}

/// Waits until the reserve has all its space.
async fn until_whole(reserve: &Path) {
    while fs::metadata(reserve).map_or(0, |file| file.len()) != RESERVE {
        coeval_env::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_relieved_by_delete_truncate_drop_and_a_checkpoint() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let reserve = disk.path("data/RESERVE");
    let (server, client) = start(&disk).await;
    until_whole(&reserve).await;
    client
        .batch_execute(
            "create table t (id int primary key, a text);
             create table small (id int primary key);
             create table more (id int primary key);
             insert into small values (1);
             insert into more values (1)",
        )
        .await
        .unwrap();
    let mut rows = 0;
    loop {
        let insert = format!("insert into t values ({rows}, repeat('x', 500000))");
        if is_refused(&client, &insert).await {
            break;
        }
        rows += 1;
    }
    assert!(rows > 100, "{rows}");

    // What frees goes on, once the reserve is given up; nothing else does.
    until_accepted(&client, "delete from t where id % 2 = 1").await;
    for statement in [
        "insert into small values (2)",
        "update small set id = 3",
        "create table another (id int)",
        "create index on small (id)",
        "begin; delete from small; insert into small values (1); commit",
    ] {
        let refused = is_refused(&client, statement).await;
        assert!(refused, "{statement}");
        client.batch_execute("rollback").await.unwrap();
    }
    assert_eq!(count(&client, "small").await, 1);
    until_accepted(
        &client,
        "begin; delete from t where id > 10; truncate small; commit",
    )
    .await;
    until_accepted(&client, "drop table more").await;
    assert_eq!(count(&client, "t").await, 6);
    until_accepted(&client, "checkpoint").await;

    // The log is gone, so there is room, also for a reserve.
    until_accepted(&client, "insert into small values (2)").await;
    until_whole(&reserve).await;
    drop(client);
    server.kill().unwrap();

    // A server that finds its disk full takes the reserve to start.
    let filler = disk.path("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
    drop(file);
    let (server, client) = start(&disk).await;
    assert_eq!(count(&client, "t").await, 6);
    assert_eq!(count(&client, "small").await, 1);
    assert!(is_refused(&client, "insert into small values (3)").await);
    until_accepted(&client, "delete from t where id = 0").await;
    fs::remove_file(&filler).unwrap();
    until_accepted(&client, "insert into small values (3)").await;
    until_whole(&reserve).await;
    assert_eq!(count(&client, "t").await, 5);
    drop(client);
    server.stop().await.unwrap();
}
