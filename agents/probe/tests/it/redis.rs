//! A real Redis: one copy has no Γ, and nothing of the probe remains.

use std::process::{Command, Stdio};

use super::command::{Process, SHORT, folder_of, free_port, probe, wait_for};

#[test]
fn one_copy_has_no_gamma() {
    let Some(programs) = folder_of("redis-server", &["/usr/bin", "/usr/local/bin"]) else {
        println!("skipped: Redis is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().to_string();
    let child = Command::new(programs.join("redis-server"))
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", ""])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Process(child);
    let asked = |command: &[&str]| {
        let client = programs.join("redis-cli");
        let output = Command::new(client)
            .args(["-p", &port])
            .args(command)
            .output();
        String::from_utf8(output.unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    };
    wait_for("Redis", || asked(&["ping"]) == "PONG");
    let url = format!("redis://127.0.0.1:{port}");
    let said = probe(&[&[url.as_str()], &SHORT[..]].concat());
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.error);
    let json = said.json();
    assert_eq!(
        (&json["gamma_ns"], &json["operations"]),
        (&0.into(), &1_020.into())
    );
    assert_eq!(asked(&["dbsize"]), "0");

    // Keys that were there are left alone.
    asked(&["set", "mine:3", "x"]);
    let said = probe(&[&[url.as_str(), "--name=mine"], &SHORT[..]].concat());
    assert_eq!(said.code, 2);
    assert!(
        said.error.contains("1 keys of the name mine are there"),
        "{}",
        said.error
    );
    assert_eq!(asked(&["get", "mine:3"]), "x");
}
