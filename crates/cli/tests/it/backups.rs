//! `coeval backup` of a server under load, `coeval restore` elsewhere.
#![expect(
    clippy::disallowed_methods,
    reason = "runs the binary as its users do, beside a server that is another process"
)]

use std::path::Path;
use std::process::{Command, Output};

use coeval_workload::server::{Launch, free_port};

fn coeval(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coeval"))
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_restored_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let port = free_port().await.unwrap();
    let binary = || Path::new(env!("CARGO_BIN_EXE_coeval")).to_owned();
    let launch = Launch::coeval(binary(), folder.path(), port)
        .unwrap()
        .with(&[("log-segment-bytes", 65_536)]);
    let mut server = launch.start().unwrap();
    let connection = server.ready().await.unwrap();
    connection
        .batch_execute(
            "create table account (id int primary key, balance int not null);
             create table moved (id int primary key);
             insert into account values (1, 100), (2, 100), (3, 100);
             checkpoint",
        )
        .await
        .unwrap();
    let moving = tokio::spawn(async move {
        for id in 0.. {
            let (from, to) = (id % 3 + 1, (id + 1) % 3 + 1);
            let transfer = format!(
                "begin; update account set balance = balance - 1 where id = {from};
                 update account set balance = balance + 1 where id = {to};
                 insert into moved values ({id}); commit"
            );
            if connection.batch_execute(&transfer).await.is_err() {
                return;
            }
        }
    });
    let url = format!("postgres://127.0.0.1:{port}");
    let taken = tokio::task::spawn_blocking({
        let to = at("backup");
        move || coeval(&["backup", "--url", &url, "--to", &to])
    });
    let taken = taken.await.unwrap();
    assert!(taken.status.success(), "{}", said(&taken));
    assert!(
        said(&taken).contains("every commit up to"),
        "{}",
        said(&taken)
    );
    // While the server runs, its log is not taken: it is being written.
    let (backup, old, taken) = (at("backup"), at("data"), at("taken/data"));
    let running = ["--log-from", &old, "--data-dir", &taken];
    let refused = coeval(&[&["restore", "--from", &backup][..], &running].concat());
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(said(&refused).contains(&old), "{}", said(&refused));
    assert!(
        said(&refused).contains("another process uses this data directory"),
        "{}",
        said(&refused)
    );
    server.kill().unwrap();
    moving.await.unwrap();

    let (backup, new) = (at("backup"), at("restored/data"));
    let restored = coeval(&["restore", "--from", &backup, "--data-dir", &new]);
    assert!(restored.status.success(), "{}", said(&restored));
    let again = coeval(&["restore", "--from", &backup, "--data-dir", &new]);
    assert!(!again.status.success() && said(&again).contains("not empty"));
    // Nothing is written into what is read.
    for (to, how) in [
        ("backup", "is the backup"),
        ("backup/new", "lies inside of the backup"),
        ("backup/log/../new", "lies inside of the backup"),
        ("", "lies around the backup"),
    ] {
        let refused = coeval(&["restore", "--from", &backup, "--data-dir", &at(to)]);
        assert!(!refused.status.success(), "{to}");
        assert!(said(&refused).contains(how), "{to}: {}", said(&refused));
    }
    let inside = ["--log-from", &at("data"), "--data-dir", &at("data/new")];
    let refused = coeval(&[&["restore", "--from", &backup][..], &inside].concat());
    let how = "lies inside of the directory to take log from";
    assert!(said(&refused).contains(how), "{}", said(&refused));
    // The old directory's log goes on behind the backup.
    let (old, later) = (at("data"), at("later/data"));
    let arguments = [
        "restore",
        "--from",
        &backup,
        "--log-from",
        &old,
        "--data-dir",
        &later,
    ];
    let caught_up = coeval(&arguments);
    assert!(caught_up.status.success(), "{}", said(&caught_up));

    let mut counts = Vec::new();
    for name in ["restored", "later"] {
        let port = free_port().await.unwrap();
        let launch = Launch::coeval(binary(), &folder.path().join(name), port).unwrap();
        let mut server = launch.start().unwrap();
        let connection = server.ready().await.unwrap();
        let row = connection
            .query_one(
                "select (select sum(balance) from account), (select count(*) from moved),
                        (select max(id) from moved)",
                &[],
            )
            .await
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), 300);
        let (moved, last) = (row.get::<_, i64>(1), row.get::<_, Option<i32>>(2));
        assert_eq!(
            i64::from(last.unwrap_or(-1)) + 1,
            moved,
            "none is missing in between"
        );
        counts.push(moved);
        drop(connection);
        server.stop().await.unwrap();
    }
    assert!(counts[0] <= counts[1], "{counts:?}");
}

#[test]
fn what_cannot_be_restored_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let none = coeval(&["restore", "--from", path, "--data-dir", "unused"]);
    assert!(!none.status.success() && said(&none).contains("is no backup"));
    let time = ["--to-time", "yesterday"];
    let wrong = [
        &["restore", "--from", path, "--data-dir", "unused"][..],
        &time,
    ]
    .concat();
    let wrong = coeval(&wrong);
    assert!(said(&wrong).contains("is no time"), "{}", said(&wrong));
}
