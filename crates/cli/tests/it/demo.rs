//! `coeval demo`: a cluster to play with.

use std::net::SocketAddr;
use std::process::Stdio;

use coeval_testkit::wire::Wire;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::process::{COEVAL, PATIENCE, in_runtime};

/// `coeval demo`, and what it prints.
struct Demo {
    child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    /// Where each node serves clients, its process, and whether it leads.
    nodes: Vec<(SocketAddr, i32, bool)>,
    directory: String,
    /// All that it has printed at its start.
    said: String,
}

impl Demo {
    async fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(COEVAL)
            .arg("demo")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut demo = Self {
            child,
            lines,
            nodes: Vec::new(),
            directory: String::new(),
            said: String::new(),
        };
        loop {
            let line = demo.line().await;
            demo.said.push_str(&line);
            let words: Vec<&str> = line.split_whitespace().collect();
            match &words[..] {
                ["A", "cluster", "of", _, "nodes,", "in", directory, ..] => {
                    demo.directory = (*directory).to_owned();
                }
                [
                    "node",
                    _,
                    "psql",
                    "-h",
                    host,
                    "-p",
                    port,
                    "coeval",
                    "process",
                    process,
                    rest @ ..,
                ] => {
                    let address = format!("{host}:{port}").parse().unwrap();
                    let process = process.parse().unwrap();
                    demo.nodes.push((address, process, *rest == ["leads"]));
                }
                [.., "ends", "the", "cluster."] => return demo,
                _ => {}
            }
        }
    }

    async fn line(&mut self) -> String {
        let line = coeval_env::timeout(PATIENCE, self.lines.next_line()).await;
        line.expect("a line in time").unwrap().expect("it goes on")
    }

    async fn stop(self) {
        self.stop_by(Signal::INT).await;
    }

    async fn stop_by(mut self, signal: Signal) {
        let process = Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        kill_process(process, signal).unwrap();
        let ended = coeval_env::timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("it ends in time").unwrap().success());
    }
}

#[test]
fn a_demonstration_goes_on_without_the_node_that_led() {
    in_runtime(async {
        let mut demo = Demo::start(&[]).await;
        assert_eq!(demo.nodes.len(), 3);
        let &(_, leader, _) = demo.nodes.iter().find(|node| node.2).unwrap();
        let &(follower, ..) = demo.nodes.iter().find(|node| !node.2).unwrap();
        let mut wire = Wire::connect(follower).await;
        wire.rows("create table t (id int primary key)").await;
        kill_process(Pid::from_raw(leader).unwrap(), Signal::KILL).unwrap();
        let (mut ended, mut leads) = (false, false);
        while !(ended && leads) {
            let line = demo.line().await;
            ended |= line.contains("was ended by signal 9");
            leads |= line.contains("leads now");
        }
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
        let directory = demo.directory.clone();
        demo.stop().await;
        assert!(!coeval_env::fs::exists(&directory).await.unwrap());
    });
}

#[test]
fn a_demonstration_finds_its_data_again() {
    in_runtime(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("demo");
        let path = path.to_str().unwrap();
        let demo = Demo::start(&["--data-dir", path]).await;
        let mut wire = Wire::connect(demo.nodes[0].0).await;
        wire.rows("create table t (id int primary key)").await;
        drop(wire);
        demo.stop().await;
        let demo = Demo::start(&["--data-dir", path]).await;
        let mut wire = Wire::connect(demo.nodes[2].0).await;
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
        demo.stop().await;
        // The number of nodes is part of the cluster.
        let mut command = Command::new(COEVAL);
        let refused = command
            .args(["demo", "--nodes", "5", "--data-dir", path])
            .output();
        let refused = coeval_env::timeout(PATIENCE, refused)
            .await
            .unwrap()
            .unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && said.contains("say --nodes 3"),
            "{said}"
        );
    });
}

#[test]
fn a_node_of_a_demonstration_that_was_killed_is_started_again() {
    in_runtime(async {
        let mut demo = Demo::start(&[]).await;
        let &(address, process, _) = demo.nodes.iter().find(|node| !node.2).unwrap();
        let mut wire = Wire::connect(demo.nodes[0].0).await;
        wire.rows("create table t (id int primary key)").await;
        kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
        let again = loop {
            let line = demo.line().await;
            if let Some((_, process)) = line.split_once("runs again as process ") {
                break process.parse::<i32>().unwrap();
            }
        };
        assert_ne!(again, process);
        // At the same address, with what it had.
        let mut wire = loop {
            match coeval_env::connect(address).await {
                Ok(_) => break Wire::connect(address).await,
                Err(_) => coeval_env::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        let counted = wire.value("select count(*) from t").await;
        assert_eq!(counted.as_deref(), Some("0"));
        // All at once, and they come back, too.
        let processes = demo.nodes.iter().map(|node| node.1);
        let alive = processes.filter(|&node| node != process).chain([again]);
        for process in alive {
            kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
        }
        // Two of them may have a leader before the third runs.
        let (mut runs, mut leads) = (0, false);
        while runs < 3 || !leads {
            let line = demo.line().await;
            runs += usize::from(line.contains("runs again"));
            leads |= runs > 0 && line.contains("leads now");
        }
        // Who closes a terminal ends what runs there, and leaves nothing behind.
        let directory = demo.directory.clone();
        demo.stop_by(Signal::HUP).await;
        assert!(!coeval_env::fs::exists(&directory).await.unwrap());
    });
}

#[test]
fn a_demonstration_says_to_kill_a_leader_only_where_others_can_go_on() {
    in_runtime(async {
        for nodes in ["1", "2"] {
            let demo = Demo::start(&["--nodes", nodes]).await;
            assert!(!demo.said.contains("kill"), "{}", demo.said);
            demo.stop().await;
        }
    });
}
