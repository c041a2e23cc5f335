//! Modes and owners of what the binary writes: whatever the umask, a database, its backups
//! and its dumps are for their owner, and for a group where the settings say so.
#![expect(
    clippy::disallowed_methods,
    reason = "runs the binary as its users do, and looks at the files it leaves"
)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use coeval_workload::server::{Launch, free_port};

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

/// Runs the binary under a umask.
fn coeval(umask: &str, arguments: &[&str]) -> Output {
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script, COEVAL]).args(arguments);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A server of `folder` with more flags, under a umask.
fn launch(umask: &str, folder: &Path, port: u16, flags: &str) -> Launch {
    let script = format!(
        "umask {umask}; exec {COEVAL} start --data-dir {{folder}}/made/data \
         --listen 127.0.0.1:{{port}} {flags}"
    );
    Launch::shell(&script, folder, port).unwrap()
}

/// The modes of all below a path, itself included, by path.
fn modes(path: &Path) -> BTreeMap<String, u32> {
    let mode = fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    let mut modes = BTreeMap::from([(path.display().to_string(), mode)]);
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            modes.append(&mut self::modes(&entry.unwrap().path()));
        }
    }
    modes
}

fn assert_modes(path: &Path, directory: u32, file: u32) {
    for (path, mode) in modes(path) {
        let wanted = if Path::new(&path).is_dir() {
            directory
        } else {
            file
        };
        assert_eq!(mode, wanted, "{path}: {mode:o} instead of {wanted:o}");
    }
}

/// Writes a database with a checkpoint and several segments.
async fn fill(launch: &Launch) -> coeval_workload::server::Server {
    let mut server = launch.start().unwrap();
    let connection = server.ready().await.unwrap();
    connection
        .batch_execute(
            "create table if not exists t (id int primary key, a text);
             insert into t select n, repeat('x', 100) from generate_series(1, 2000) as g (n)
                 on conflict do nothing;
             checkpoint;
             delete from t where id = 1",
        )
        .await
        .unwrap();
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_written_is_its_owners_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let at = |name: &str| made.join(name).to_str().unwrap().to_owned();
        let port = free_port().await.unwrap();
        let url = format!("postgres://127.0.0.1:{port}");
        let server = fill(&launch(
            umask,
            folder.path(),
            port,
            "--log-segment-bytes 65536",
        ))
        .await;
        let (backup, dump, restored) = (at("backup"), at("dump.sql"), at("restored"));
        // A directory that is there, empty and too wide, is made narrow.
        fs::create_dir(&backup).unwrap();
        fs::set_permissions(&backup, Permissions::from_mode(0o755)).unwrap();
        for arguments in [
            &["backup", "--url", &url, "--to", &backup][..],
            &["dump", "--url", &url, "--output", &dump],
            &["restore", "--from", &backup, "--data-dir", &restored],
        ] {
            let done = coeval(umask, arguments);
            assert!(done.status.success(), "{}", said(&done));
        }
        assert!(modes(&made).len() > 12, "{:?}", modes(&made));
        // Between renames, too: nothing is made wide and narrowed later.
        assert_modes(&made, 0o700, 0o600);
        server.stop().await.unwrap();
        assert_modes(&made, 0o700, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_reads_where_the_settings_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("made/data");
    let port = free_port().await.unwrap();
    // It was private at first.
    let private = launch("022", folder.path(), port, "");
    fill(&private).await.stop().await.unwrap();
    assert_modes(&data, 0o700, 0o600);
    for umask in ["000", "077"] {
        let shared = launch(umask, folder.path(), port, "--allow-group-access");
        fill(&shared).await.stop().await.unwrap();
        assert_modes(&data, 0o750, 0o640);
    }
    // Without the setting it is private again.
    fill(&private).await.stop().await.unwrap();
    assert_modes(&data, 0o700, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_directory_is_narrowed_once_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("made/data");
    let port = free_port().await.unwrap();
    let launch = launch("022", folder.path(), port, "");
    fill(&launch).await.stop().await.unwrap();
    // As builds before this one left it; and files of the administrator's own.
    for (path, _) in modes(&data) {
        let mode = if Path::new(&path).is_dir() {
            0o755
        } else {
            0o644
        };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    let own = data.join("hba.conf");
    fs::write(&own, "").unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o444)).unwrap();
    let said = |lines: &str| lines.matches("had other permissions").count();
    let log = || fs::read_to_string(folder.path().join("server.log")).unwrap();
    let before = said(&log());
    fill(&launch).await.stop().await.unwrap();
    assert_eq!(said(&log()), before + 1, "{}", log());
    assert_eq!(modes(&own).into_values().next(), Some(0o400));
    fs::remove_file(&own).unwrap();
    assert_modes(&data, 0o700, 0o600);
    fill(&launch).await.stop().await.unwrap();
    assert_eq!(said(&log()), before + 1, "{}", log());
}

#[test]
fn a_directory_of_another_user_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    if chown(&data, Some(65_534), None).is_err() {
        println!("NOT RUN: only root can give a directory to another user");
        return;
    }
    let data = data.to_str().unwrap();
    let refused = coeval("022", &["start", "--data-dir", data]);
    assert!(!refused.status.success(), "{}", said(&refused));
    let text = said(&refused);
    assert!(text.contains("has wrong ownership"), "{text}");
    assert!(text.contains("belongs to user 65534"), "{text}");
    assert_eq!(
        modes(Path::new(data)),
        BTreeMap::from([(data.to_owned(), 0o755)])
    );
}
