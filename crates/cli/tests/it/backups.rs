//! `coeval backup` of a server under load, `coeval restore` elsewhere.
#![expect(
    clippy::disallowed_methods,
    reason = "runs the binary as its users do, beside a server that is another process"
)]

use std::path::{Path, PathBuf};
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

/// Names of the files and folders in a directory; `None` when it does not exist.
fn contents(directory: &Path) -> Option<Vec<PathBuf>> {
    let mut paths = vec![];
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()? {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            paths.push(path);
        }
    }
    Some(paths)
}

/// Copies a directory with its folders.
fn copy(from: &Path, to: &Path) {
    for path in contents(from).unwrap() {
        let into = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(into.parent().unwrap()).unwrap();
        if path.is_file() {
            std::fs::copy(path, into).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_leaves_the_directory_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let binary = || Path::new(env!("CARGO_BIN_EXE_coeval")).to_owned();
    let started = async |name: &str| {
        let port = free_port().await.unwrap();
        let launch = Launch::coeval(binary(), &at(name), port).unwrap();
        let server = launch.start().unwrap();
        (server, port)
    };
    let (mut server, port) = started("one").await;
    let connection = server.ready().await.unwrap();
    let setup = "create table t (id int primary key); create role plain login; checkpoint;
                 insert into t select g from generate_series(1, 100) g";
    connection.batch_execute(setup).await.unwrap();
    let backup = at("backup");
    let take = |user: &str| {
        let url = format!("postgres://{user}@127.0.0.1:{port}");
        coeval(&["backup", "--url", &url, "--to", &text(&backup)])
    };
    let refused = take("plain");
    assert!(!refused.status.success(), "{}", said(&refused));
    assert_eq!(contents(&backup), None, "{}", said(&refused));
    let taken = take("coeval");
    assert!(taken.status.success(), "{}", said(&taken));
    let (mut other, _) = started("other").await;
    other.ready().await.unwrap();
    other.stop().await.unwrap();

    let log = |directory: &Path| {
        let mut found = contents(directory).unwrap();
        found.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
        found.pop().unwrap()
    };
    let spoiled = |name: &str, spoil: &dyn Fn(&Path)| {
        let to = at(name);
        copy(&backup, &to);
        spoil(&to);
        text(&to)
    };
    let flip = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[4200] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let damaged = spoiled("damaged", &|to| flip(&log(to)));
    let without_log = spoiled("no-log", &|to| std::fs::remove_file(log(to)).unwrap());
    let without_control = spoiled("no-control", &|to| {
        std::fs::remove_file(to.join("CONTROL")).unwrap();
    });
    let whole = text(&backup);
    let (running, strange) = (text(&at("one/data")), text(&at("other/data")));
    let reasons: [(&str, &[&str], &str); 7] = [
        (&whole, &["--log-from", &running], "another process uses"),
        (&whole, &["--log-from", &strange], "is of another database"),
        (
            &whole,
            &["--to-time", "1971-01-01T00:00:00Z"],
            "an earlier backup",
        ),
        (&damaged, &[], "checksum differs"),
        (&without_log, &[], "the file is missing"),
        (&without_control, &[], "the file is missing"),
        (&running, &[], "is no backup"),
    ];
    let new = at("new/data");
    for exists in [false, true] {
        if exists {
            std::fs::create_dir_all(&new).unwrap();
        }
        for (from, further, reason) in reasons {
            let arguments = ["restore", "--from", from, "--data-dir", &text(&new)];
            let refused = coeval(&[&arguments[..], further].concat());
            assert!(!refused.status.success(), "{reason}");
            assert!(said(&refused).contains(reason), "{}", said(&refused));
            let left = exists.then(Vec::new);
            assert_eq!(contents(&new), left, "{reason}: {}", said(&refused));
            assert_eq!(at("new").exists(), exists, "{reason}");
        }
    }
    let restored = coeval(&["restore", "--from", &whole, "--data-dir", &text(&new)]);
    assert!(restored.status.success(), "{}", said(&restored));
    server.kill().unwrap();
}
