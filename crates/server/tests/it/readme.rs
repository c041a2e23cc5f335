//! The transcript in README.md, played: what a visitor sees there is what a server says.

use std::process::{Command, Stdio};

use coeval_workload::server::{Launch, Server, free_port};

/// One command of the transcript with what it printed.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    printed: String,
}

/// The steps of the first `console` block.
fn transcript(document: &str) -> Vec<Step> {
    let block = document
        .split_once("```console\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(block, _)| block)
        .expect("a console block");
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
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
    let steps = transcript(include_str!("../../../../README.md"));
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().await.unwrap();
    let launch = Launch::coeval(env!("CARGO_BIN_EXE_coeval").into(), folder.path(), port).unwrap();
    let mut server: Option<Server> = None;
    let mut asked = 0;
    for Step { command, printed } in steps {
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
            let output = Command::new("sh")
                .args(["-c", &command.replace("5433", &port.to_string())])
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
            asked += 1;
        }
    }
    assert!(asked >= 4, "the transcript asks nothing");
}
