//! A real PostgreSQL: one copy has no Γ, and nothing of the probe remains.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::command::{
    Process, SHORT, command, folder_of, free_port, judged, probe, said, signal, wait_for,
};

struct Postgres {
    _process: Process,
    port: u16,
    programs: PathBuf,
    _folder: tempfile::TempDir,
}

/// The ids of the user `postgres`, for root, as which the server does not run.
fn user() -> Option<(u32, u32)> {
    let number = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    match number(&["-u"]) {
        Some(0) => Some((number(&["-u", "postgres"])?, number(&["-g", "postgres"])?)),
        _ => None,
    }
}

impl Postgres {
    /// `None`, and a note, when PostgreSQL is not installed.
    fn start() -> Option<Self> {
        let versions = (13..=18).rev();
        let folders = versions.map(|version| format!("/usr/lib/postgresql/{version}/bin"));
        let folders: Vec<String> = folders.collect();
        let others: Vec<&str> = folders.iter().map(String::as_str).collect();
        let Some(programs) = folder_of("initdb", &others) else {
            println!("skipped: PostgreSQL is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let user = user();
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let run = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(folder.path()).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.path().join("data");
        let trust = ["-U", "postgres", "-A", "trust", "--no-locale", "--no-sync"];
        let made = run("initdb").args(trust).arg("-D").arg(&data).status();
        assert!(made.unwrap().success());
        let port = free_port();
        let mut server = run("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(folder.path());
        server.args(["-F", "-h", "127.0.0.1", "-p", &port.to_string()]);
        let server = Self {
            _process: Process(server.spawn().unwrap()),
            port,
            programs: programs.clone(),
            _folder: folder,
        };
        wait_for("PostgreSQL", || server.asked("select 1") == "1");
        Some(server)
    }

    fn url(&self) -> String {
        format!(
            "postgresql://postgres:secret@127.0.0.1:{}/postgres",
            self.port
        )
    }

    /// The answer of a statement, or nothing.
    fn asked(&self, statement: &str) -> String {
        // Debian has clients in the search path only.
        let beside = self.programs.join("psql");
        let psql = if beside.exists() {
            beside
        } else {
            "psql".into()
        };
        let output = Command::new(psql)
            .args(["-X", "-A", "-t", "-c", statement, &self.url()])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn tables(&self) -> String {
        self.asked("select count(*) from pg_tables where schemaname = 'public'")
    }
}

#[test]
fn one_copy_has_no_gamma() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (history, picture) = (
        folder.path().join("h.jsonl"),
        folder.path().join("gamma.svg"),
    );
    let files = [
        "--history",
        history.to_str().unwrap(),
        "--svg",
        picture.to_str().unwrap(),
        "--on-connect",
        "set lock_timeout = 10000",
    ];
    let url = server.url();
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let before = clock();
    let said = probe(&[&[url.as_str()], &SHORT[..], &files].concat());
    let after = clock();
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.error);
    let json = said.json();
    assert_eq!(json["gamma_ns"], 0);
    assert_eq!(
        (&json["due"], &json["void"], &json["failed"]),
        (&1_000.into(), &false.into(), &0.into())
    );
    // The workload, and the first values of the keys.
    assert_eq!(json["operations"], 1_020);
    let answered = |what: &str| json[what]["answered"].as_u64().unwrap();
    assert_eq!(answered("reads") + answered("writes"), 1_020);
    // What it would do was said before, without the password.
    assert!(
        said.error.contains("create   the table coeval_probe_"),
        "{}",
        said.error
    );
    assert!(
        said.error.contains("400 reads/s and 100 writes/s"),
        "{}",
        said.error
    );
    assert!(!said.error.contains("secret"));
    let again = judged(&history);
    assert_eq!((again.report.operations, again.report.gamma), (1_020, 0));
    let (first, last) = again.report.span.unwrap();
    assert!(
        before < first && first < last && last < after,
        "{first} to {last}"
    );
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(
        picture.contains("500 operations a second for 2 s"),
        "{picture}"
    );
    assert_eq!(server.tables(), "0");

    // A run that may not slip at all is void.
    let strict = [&[url.as_str()], &SHORT[..6], &["--slip-ms=0"]].concat();
    let said = probe(&strict);
    assert_eq!(said.code, 3, "{}", said.error);
    assert!(said.error.contains("the run is void"), "{}", said.error);
    assert_eq!(server.tables(), "0");
}

#[test]
fn nothing_that_was_there_is_touched() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.asked("create table mine (key bigint, value bigint)");
    let url = server.url();
    let said = probe(&[&[url.as_str(), "--name=mine"], &SHORT[..]].concat());
    assert_eq!(said.code, 2);
    assert!(
        said.error.contains("\"mine\" already exists"),
        "{}",
        said.error
    );
    assert_eq!(server.asked("select count(*) from mine"), "0");
    assert_eq!(server.tables(), "1");
    let said = probe(&[&["postgresql://postgres:hidden@127.0.0.1:1/x"], &SHORT[..]].concat());
    assert_eq!(said.code, 2);
    assert!(said.error.contains("127.0.0.1:1/x: "), "{}", said.error);
    assert!(!said.error.contains("hidden"));
}

#[test]
fn a_signal_ends_a_run_and_removes_its_table() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let url = server.url();
    let waits = command(&[&url, "--countdown=3600"]);
    let ended = |mut command: Command, is_there: &mut dyn FnMut() -> bool| {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_for("beginning", is_there);
        signal(&child, "INT");
        said(child.wait_with_output().unwrap())
    };
    // Before it begins, it has not even connected: its own sign is the plan.
    let mut polls = 0;
    let said = ended(waits, &mut || {
        polls += 1;
        polls > 20
    });
    assert_eq!(said.code, 2, "{}", said.error);
    assert!(said.error.contains("nothing was written"), "{}", said.error);

    let long = [
        &[url.as_str()],
        &SHORT[..2],
        &SHORT[3..],
        &["--seconds=3600", "--name=long"],
    ];
    let long = command(&long.concat());
    let said = ended(long, &mut || {
        let written = server.asked("select count(*) from long where value > 20");
        written.parse().is_ok_and(|count: u64| count > 0)
    });
    assert_eq!(said.code, 0, "{}", said.error);
    assert_eq!(said.json()["interrupted"], true);
    assert_eq!(server.tables(), "0");
}
