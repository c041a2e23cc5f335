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
        "  tables      1, with 2 indexes and 499 rows\nsound\n",
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
