//! `coeval verify`: what it says of a data directory, and its exit codes.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at, and damages, what another process has written"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coeval_workload::server::{Launch, free_port};

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

/// Exit code, standard output and standard error.
fn verify(directory: &Path) -> (i32, String, String) {
    let output = Command::new(COEVAL)
        .arg("verify")
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("it ends by itself");
    (code, text(output.stdout), text(output.stderr))
}

/// Every file below a folder, the oldest name first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_directory_is_sound_damaged_or_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().await.unwrap();
    let launch = Launch::coeval(COEVAL.into(), folder.path(), port).unwrap();
    let data = folder.path().join("data");
    let mut server = launch.start().unwrap();
    let client = server.ready().await.unwrap();
    client
        .batch_execute(
            "create table account (id int primary key, name text unique);
             insert into account select n, 'name ' || cast(n as text) from generate_series(1, 500) as g(n);
             checkpoint;
             update account set name = 'another' where id = 7;
             delete from account where id = 8",
        )
        .await
        .unwrap();
    let (code, said, complaint) = verify(&data);
    assert_eq!((code, said.as_str()), (3, ""), "{complaint}");
    assert!(complaint.contains("another process uses"), "{complaint}");
    drop(client);
    server.kill().unwrap();

    let (code, said, complaint) = verify(&data);
    assert_eq!(code, 0, "{complaint}");
    for part in [
        "  checkpoint  ",
        " commits in ",
        " behind it; it was not closed in order",
        "  tables      1, with 2 indexes and 499 rows\n",
        "\nsound\n",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }

    // Which file, and where in it: the first block begins behind the header.
    let checkpoint = files(&data.join("checkpoints")).pop().unwrap();
    let mut bytes = std::fs::read(&checkpoint).unwrap();
    bytes[4124] ^= 4;
    std::fs::write(&checkpoint, &bytes).unwrap();
    let (code, said, complaint) = verify(&data);
    assert_eq!((code, said.as_str()), (1, ""), "{complaint}");
    let place = format!("{}, offset 4096: ", checkpoint.display());
    assert!(
        complaint.contains("coeval verify: damaged: "),
        "{complaint}"
    );
    assert!(complaint.contains(&place), "{complaint}");
    bytes[4124] ^= 4;
    std::fs::write(&checkpoint, &bytes).unwrap();
    assert_eq!(verify(&data).0, 0, "mended");

    let (code, _, complaint) = verify(&folder.path().join("nothing"));
    assert_eq!(code, 3);
    assert!(complaint.contains("there is no directory"), "{complaint}");
    // A folder of something else is no sound database.
    let (code, _, complaint) = verify(&data.join("log"));
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("CONTROL"), "{complaint}");
}

#[tokio::test]
async fn older_log_is_looked_at_and_its_damage_keeps_nobody_from_starting() {
    use coeval_server::{Server, Settings, Storage};

    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        data_dir: folder.path().to_owned(),
        log_segment_bytes: 64 << 10,
        log_keep_bytes: 1 << 30,
        ..coeval_testkit::server::settings()
    };
    let server = Server::start(settings.clone(), Storage::Directory).await;
    let server = server.unwrap();
    let mut wire = coeval_testkit::wire::Wire::connect(server.address()).await;
    wire.rows("create table t (id int primary key, filler text)")
        .await;
    let filler = "x".repeat(5_000);
    for id in 0..60 {
        wire.rows(&format!("insert into t values ({id}, '{filler}')"))
            .await;
        if id == 40 {
            wire.rows("checkpoint").await;
        }
    }
    // A small database is checkpointed on a stop.
    server.stop().await;
    let (code, said, complaint) = verify(folder.path());
    assert_eq!(code, 0, "{complaint}");
    let older = said.lines().find(|line| line.contains("older log"));
    let older = older.unwrap_or_else(|| panic!("{said}"));
    assert!(older.contains("0.3 MB with 6"), "{older}");

    let segments = files(&folder.path().join("log"));
    assert!(segments.len() > 5, "{segments:?}");
    for (number, place) in [(0, 30_000), (2, 20_000)] {
        let path = &segments[number];
        let mut bytes = std::fs::read(path).unwrap();
        bytes[place] ^= 1;
        std::fs::write(path, &bytes).unwrap();
        let (code, said, complaint) = verify(folder.path());
        assert_eq!((code, said.as_str()), (1, ""), "{complaint}");
        assert!(
            complaint.contains("not in what a start reads, which is sound"),
            "{complaint}"
        );
        let file = path.display().to_string();
        assert!(complaint.contains(&file), "{file}: {complaint}");
        bytes[place] ^= 1;
        std::fs::write(path, &bytes).unwrap();
        assert_eq!(verify(folder.path()).0, 0, "mended");
    }
    let away = folder.path().join("away");
    std::fs::rename(&segments[1], &away).unwrap();
    let (code, _, complaint) = verify(folder.path());
    assert_eq!(code, 1, "{complaint}");
    let missing = format!("{}, offset 0: the file is missing", segments[1].display());
    assert!(complaint.contains(&missing), "{complaint}");
    let server = Server::start(settings, Storage::Directory).await.unwrap();
    let mut wire = coeval_testkit::wire::Wire::connect(server.address()).await;
    let count = wire.value("select count(*) from t").await;
    assert_eq!(count.as_deref(), Some("60"));
    server.stop().await;
}
