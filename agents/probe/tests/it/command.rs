//! The probe as a process, and processes to measure.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What a run of the probe has said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub error: String,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}", self.error))
    }
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coeval-probe"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the probe to its end.
pub fn probe(arguments: &[&str]) -> Said {
    said(command(arguments).output().unwrap())
}

pub fn said(output: std::process::Output) -> Said {
    Said {
        code: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A short run that no slip makes void.
pub const SHORT: [&str; 9] = [
    "--yes",
    "--json",
    "--seconds=2",
    "--rate=500",
    "--keys=20",
    "--connections=4",
    "--slip-ms=600000",
    "--seed=7",
    "--threshold-ms=0",
];

/// Sends a signal.
pub fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill")
        .args(["-s", name, &id])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// A port that no process listens on.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits for something that another process brings about.
pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A process that ends with the test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder with a program, of the search path or of these.
pub fn folder_of(program: &str, others: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = others.iter().map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(others);
    folders.find(|folder| folder.join(program).exists())
}

/// Judges a history file as `coeval check` does.
pub fn judged(history: &Path) -> coeval_check::gamma::Analysis {
    let file = std::fs::File::open(history).unwrap();
    let mut from = std::io::BufReader::new(file);
    let options = coeval_check::gamma::Options::default();
    let format = coeval_check::history::Format::JsonLines;
    coeval_check::gamma::judge(&mut from, format, options, None).unwrap()
}
