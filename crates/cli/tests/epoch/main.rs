//! `coeval epoch` as people use it: three nodes founded, started, used, killed and started again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use coeval_workload::server::free_port;
use tempfile::TempDir;

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

/// Exit code, standard output and standard error.
fn epoch(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(COEVAL)
        .arg("epoch")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("it ends by itself");
    (code, text(output.stdout), text(output.stderr))
}

fn done(arguments: &[&str]) -> String {
    let (code, said, complaint) = epoch(arguments);
    assert_eq!((code, complaint.as_str()), (0, ""), "{arguments:?}");
    said
}

/// A node's process, and where its clients connect.
struct Node {
    child: Child,
    clients: String,
    admin: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(directory: &Path, more: &[&str]) -> Node {
    let mut child = Command::new(COEVAL)
        .args([
            "epoch",
            "start",
            "--stop-with-parent",
            "--admin",
            "127.0.0.1:0",
        ])
        .args(["--lost-milliseconds", "600000", "--data-dir"])
        .arg(directory)
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["node", _, "nodes", _, "clients", clients, "admin", admin] = words[..] else {
        panic!("{line:?}");
    };
    let (clients, admin) = (clients.to_owned(), admin.to_owned());
    Node {
        child,
        clients,
        admin,
    }
}

/// So many nodes, and where they listen for each other.
fn members(count: u64) -> String {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let members = (1..=count).map(|id| {
        let port = runtime.block_on(free_port()).unwrap();
        format!("{id}=127.0.0.1:{port}")
    });
    let members: Vec<String> = members.collect();
    members.join(",")
}

/// Founds three nodes: their directories.
fn found() -> BTreeMap<u64, TempDir> {
    let members = members(3);
    let mut cluster: Option<String> = None;
    let mut directories = BTreeMap::new();
    for id in 1..=3_u64 {
        let directory = tempfile::tempdir().unwrap();
        let number = id.to_string();
        let path = directory.path().to_str().unwrap().to_owned();
        let before = cluster.clone();
        let mut arguments = vec!["found", "--node", &number, "--members", &members];
        arguments.extend(["--data-dir", &path]);
        if let Some(before) = &before {
            arguments.extend(["--cluster", before]);
        }
        let said = done(&arguments);
        let drawn = said.strip_prefix("cluster ").unwrap().trim().to_owned();
        assert_eq!(*before.as_ref().unwrap_or(&drawn), drawn);
        cluster = Some(drawn);
        let (code, _, complaint) = epoch(&arguments);
        assert_eq!(code, 1);
        assert!(complaint.contains("holds a node already"), "{complaint}");
        directories.insert(id, directory);
    }
    directories
}

fn nodes(running: &BTreeMap<u64, Node>) -> String {
    let nodes = running
        .iter()
        .map(|(id, node)| format!("{id}={}", node.clients));
    nodes.collect::<Vec<_>>().join(",")
}

#[test]
fn three_nodes_are_founded_used_killed_and_used_again() {
    let directories = found();
    let secret = tempfile::NamedTempFile::new().unwrap();
    {
        use std::io::Write;
        writeln!(secret.as_file(), "a secret of some length").unwrap();
    }
    let secret = ["--secret-file", secret.path().to_str().unwrap()];
    let start_all = || -> BTreeMap<u64, Node> {
        let each = directories.iter();
        each.map(|(id, directory)| (*id, start(directory.path(), &secret)))
            .collect()
    };
    let running = start_all();
    let all = nodes(&running);
    let ask = |command: &'static str, all: &str, rest: &[&str]| {
        let mut arguments = vec![command, "--nodes", all];
        arguments.extend(secret);
        arguments.extend(rest);
        epoch(&arguments)
    };
    let said = |outcome: (i32, String, String)| {
        assert_eq!((outcome.0, outcome.2.as_str()), (0, ""));
        outcome.1
    };
    let first = said(ask("put", &all, &["alice=70", "bob=30"]));
    let first = first
        .strip_prefix("committed at ")
        .unwrap()
        .trim()
        .to_owned();
    said(ask("put", &all, &["alice=60", "bob=40", "carol=1"]));
    said(ask("put", &all, &["carol="]));
    let shown = said(ask("get", &all, &["alice", "bob", "carol"]));
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    assert_eq!(lines, ["alice=60", "bob=40", "carol has no value"]);
    let then = said(ask("get", &all, &["--at", &first, "alice", "bob"]));
    assert_eq!(then, format!("at {first}\nalice=70\nbob=30\n"));
    let status = said(ask("status", &all, &[]));
    assert_eq!(status.matches("serves yes").count(), 3, "{status}");
    assert_eq!(status.matches("manages 1").count(), 1, "{status}");
    let watched = said(ask("watch", &all, &["--count", "2"]));
    assert_eq!(watched.lines().count(), 6, "{watched}");
    assert!(watched.contains("closed_epoch"), "{watched}");
    assert!(
        running
            .values()
            .all(|node| node.admin.starts_with("127.0.0.1:"))
    );

    // What people get wrong.
    let (code, _, complaint) = epoch(&["get", "--nodes", &all, "alice"]);
    assert_eq!(code, 3);
    assert!(
        complaint.contains("wants the cluster's secret"),
        "{complaint}"
    );
    let (code, _, complaint) = ask("get", &all, &["--at", "soon", "alice"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("as 7.0.1"), "{complaint}");
    let (code, _, complaint) = ask("put", &all, &["alice"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("has no ="), "{complaint}");
    let path = directories[&1].path().to_str().unwrap();
    let (code, _, complaint) = epoch(&["start", "--data-dir", path]);
    assert_eq!(code, 1);
    assert!(
        complaint.contains("in use by another process"),
        "{complaint}"
    );
    let (code, _, _) = epoch(&["start", "--data-dir", path, "--node", "2"]);
    assert_eq!(code, 1);

    // The end of a node is SIGKILL.
    drop(running);
    let running = start_all();
    let all = nodes(&running);
    let shown = said(ask("get", &all, &["alice", "bob"]));
    assert!(shown.ends_with("alice=60\nbob=40\n"), "{shown}");
}

#[test]
fn a_cluster_is_backed_up_verified_and_restored() {
    let directories = found();
    let running: BTreeMap<u64, Node> = directories
        .iter()
        .map(|(id, directory)| (*id, start(directory.path(), &[])))
        .collect();
    let all = nodes(&running);
    done(&["put", "--nodes", &all, "alice=60", "bob=40"]);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("monday");
    let to = to.to_str().unwrap();
    let said = done(&["backup", "--nodes", &all, "--to", to]);
    assert!(
        said.starts_with("backed up 2 keys of 6 partitions"),
        "{said}"
    );
    let said = done(&["verify", to]);
    assert!(said.ends_with("sound\n"), "{said}");
    let (code, _, complaint) = epoch(&["backup", "--nodes", &all, "--to", to]);
    assert_eq!(code, 1);
    assert!(complaint.contains("is not empty"), "{complaint}");
    let first = directories[&1].path().to_str().unwrap();
    let (code, _, complaint) = epoch(&["verify", first]);
    assert_eq!(code, 3);
    assert!(
        complaint.contains("in use by another process"),
        "{complaint}"
    );
    drop(running);
    for directory in directories.values() {
        let said = done(&["verify", directory.path().to_str().unwrap()]);
        assert!(said.contains("sealed through epoch"), "{said}");
        assert!(said.ends_with("sound\n"), "{said}");
    }
    let nowhere = folder.path().join("nowhere");
    let (code, _, _) = epoch(&["verify", nowhere.to_str().unwrap()]);
    assert_eq!(code, 3);

    let members = members(2);
    let mut cluster: Option<String> = None;
    let mut running = BTreeMap::new();
    for id in 1..=2_u64 {
        let number = id.to_string();
        let data = folder.path().join(&number);
        let data = data.to_str().unwrap();
        let mut arguments = vec!["restore", "--from", to, "--data-dir", data];
        arguments.extend(["--node", &number, "--members", &members]);
        let before = cluster.clone();
        if let Some(before) = &before {
            arguments.extend(["--cluster", before]);
        }
        let said = done(&arguments);
        let (drawn, rest) = said.split_once('\n').unwrap();
        assert!(rest.starts_with("restored 2 of 2 keys"), "{said}");
        cluster = drawn.strip_prefix("cluster ").map(str::to_owned);
        let said = done(&["verify", data]);
        assert!(said.contains("never started"), "{said}");
        running.insert(id, data.to_owned());
    }
    let running: BTreeMap<u64, Node> = running
        .into_iter()
        .map(|(id, directory)| (id, start(Path::new(&directory), &[])))
        .collect();
    let all = nodes(&running);
    let shown = done(&["get", "--nodes", &all, "alice", "bob"]);
    assert!(shown.ends_with("alice=60\nbob=40\n"), "{shown}");
    drop(running);

    // A server of SQL leaves such a directory alone, and says who runs it.
    let said = Command::new(COEVAL)
        .args(["start", "--data-dir", first])
        .output()
        .unwrap();
    let complaint = String::from_utf8(said.stderr).unwrap();
    assert!(
        complaint.contains("`coeval epoch start` runs"),
        "{complaint}"
    );
    let said = Command::new(COEVAL)
        .args(["start", "--cluster-protocol", "epoch"])
        .output()
        .unwrap();
    let complaint = String::from_utf8(said.stderr).unwrap();
    assert!(complaint.contains("coeval epoch found"), "{complaint}");
}
