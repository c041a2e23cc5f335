//! The transcripts in README.md, played: what a visitor sees there is what servers say.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use coeval_workload::server::{Launch, Server, free_port};

const README: &str = include_str!("../../../../README.md");

/// One command of the transcript with what it printed.
#[derive(Debug, PartialEq, Eq)]
struct TranscriptCommand {
    command: String,
    printed: String,
}

/// The steps of one of the `console` blocks.
fn transcript(document: &str, block: usize) -> Vec<TranscriptCommand> {
    let block = document
        .split("```console\n")
        .nth(block + 1)
        .and_then(|rest| rest.split_once("```"))
        .map(|(block, _)| block)
        .expect("a console block");
    let mut steps: Vec<TranscriptCommand> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(TranscriptCommand {
                command: command.to_owned(),
                printed: String::new(),
            });
        } else {
            let step = steps.last_mut().expect("a command before any output");
            step.printed.push_str(line);
            step.printed.push('\n');
        }
    }
    steps
}

fn has_psql() -> bool {
    let found = Command::new("psql")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    // CI installs it; elsewhere its absence is told and no failure.
    assert!(found || std::env::var_os("CI").is_none(), "psql is missing");
    if !found {
        eprintln!("psql is missing: not tried");
    }
    found
}

#[tokio::test]
async fn the_transcript_is_true() {
    if !has_psql() {
        return;
    }
    let steps = transcript(README, 0);
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().await.unwrap();
    let launch = Launch::coeval(env!("CARGO_BIN_EXE_coeval").into(), folder.path(), port).unwrap();
    let mut server: Option<Server> = None;
    let mut asked = 0;
    for TranscriptCommand { command, printed } in steps {
        if command == "cargo run --release -- start &" {
            let mut started = launch.start().unwrap();
            started.ready().await.unwrap();
            assert!(server.replace(started).is_none(), "started twice");
        } else if command == "kill -9 $(pidof coeval)" {
            server.take().expect("a server to kill").kill().unwrap();
        } else {
            assert!(
                command.starts_with("psql -h 127.0.0.1 -p 5433 "),
                "{command}"
            );
            says(&command.replace("5433", &port.to_string()), &printed);
            asked += 1;
        }
    }
    assert!(asked >= 4, "the transcript asks nothing");
}

/// Runs a command, which is to print this and succeed.
fn says(command: &str, printed: &str) {
    let output = Command::new("sh")
        .args(["-c", command])
        .env("PSQLRC", "/dev/null")
        .env("PAGER", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        printed,
        "{command}\n{said}"
    );
    assert!(output.status.success(), "{command}\n{said}");
}

/// A node in what a demonstration prints: its port, its process, and whether it leads.
fn node(line: &str) -> Option<[&str; 2]> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [
            "node",
            _,
            "psql",
            "-h",
            _,
            "-p",
            port,
            "coeval",
            "process",
            process,
            ..,
        ] => Some([port, process]),
        _ => None,
    }
}

/// The nodes in what a demonstration prints, who leads first.
fn nodes(printed: &str) -> Vec<[&str; 2]> {
    let leads = |line: &&str| line.ends_with("leads");
    let (leader, others): (Vec<_>, Vec<_>) = printed.lines().partition(leads);
    let lines = leader.into_iter().chain(others);
    lines.filter_map(node).collect()
}

/// What is the same each time: everything but numbers, which node leads, and how a pipe is
/// told to end it.
fn shape(printed: &str) -> Vec<String> {
    let mut lines: Vec<String> = printed
        .lines()
        .map(|line| {
            let line = line.trim_end_matches("  leads").replace("SIGINT", "Ctrl-C");
            let digit = |character: char| character.is_ascii_digit();
            let parts: Vec<&str> = line.split(digit).filter(|part| !part.is_empty()).collect();
            parts.join("#")
        })
        .collect();
    lines.sort();
    lines
}

/// Ended with the test, its nodes with it.
struct Demonstration(std::process::Child);

impl Drop for Demonstration {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_transcript_of_a_cluster_is_true() {
    if !has_psql() {
        return;
    }
    let mut steps = transcript(README, 1).into_iter();
    let first = steps.next().expect("a first step");
    assert_eq!(first.command, "cargo run --release -- demo &");
    let folder = tempfile::tempdir().unwrap();
    let demonstration = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .arg("demo")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut demonstration = Demonstration(demonstration);
    let out = demonstration.0.stdout.take().unwrap();
    let mut printed = String::new();
    for line in BufReader::new(out).lines() {
        let line = line.unwrap();
        printed.push_str(&line.replace(&*folder.path().to_string_lossy(), "/tmp"));
        printed.push('\n');
        if line.ends_with("ends the cluster.") {
            break;
        }
    }
    assert_eq!(shape(&printed), shape(&first.printed));
    let (shown, are) = (nodes(&first.printed), nodes(&printed));
    assert_eq!((shown.len(), are.len()), (3, 3), "{printed}");
    let mut asked = 0;
    for TranscriptCommand {
        mut command,
        printed,
    } in steps
    {
        for (shown, are) in shown.iter().zip(&are) {
            for (shown, is) in shown.iter().zip(are) {
                command = command.replace(shown, is);
            }
        }
        says(&command, &printed);
        asked += 1;
    }
    assert!(asked >= 5, "the transcript asks nothing");
}
