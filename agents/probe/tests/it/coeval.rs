//! Our own server, in memory.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::command::{Process, SHORT, probe};

/// The program of the main workspace: that of the environment, or built.
fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("COEVAL") {
        return named.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            "coeval-cli",
            "--target-dir",
            "target",
        ])
        .current_dir(&root)
        .status();
    assert!(built.unwrap().success());
    root.join("target/debug/coeval")
}

#[test]
fn one_copy_has_no_gamma() {
    let child = Command::new(program())
        .args(["start", "--ephemeral"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = Process(child);
    let out = BufReader::new(server.0.stdout.take().unwrap());
    let url = out.lines().find_map(|line| {
        let line = line.unwrap();
        let at = line.find("postgres")?;
        line[at..].split_whitespace().next().map(str::to_owned)
    });
    let url = url.expect("it prints its URL");
    let said = probe(&[&[url.as_str()], &SHORT[..]].concat());
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.error);
    let json = said.json();
    assert_eq!(
        (&json["gamma_ns"], &json["operations"]),
        (&0.into(), &1_020.into())
    );
    // The name is free again.
    let said = probe(&[&[url.as_str(), "--name=again"], &SHORT[..]].concat());
    let second = probe(&[&[url.as_str(), "--name=again"], &SHORT[..]].concat());
    assert_eq!((said.code, second.code), (0, 0), "{}", second.error);
}
