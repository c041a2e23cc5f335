//! `coeval cluster`: of three nodes as processes, and where there is none.

use std::process::Output;
use std::time::Duration;

use coeval_testkit::server::with_server;
use serde_json::Value;
use tokio::process::Command;

use crate::cluster::{Cluster, others};
use crate::process::{PATIENCE, in_runtime};

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

async fn cluster(arguments: &[&str]) -> Output {
    let mut command = Command::new(COEVAL);
    command.arg("cluster").args(arguments).kill_on_drop(true);
    command.output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_server_alone_has_none_to_show_or_change() {
    with_server(|address| async move {
        let url = format!("postgres://ada@{address}/bank");
        let commands: [&[&str]; 4] = [
            &["status"],
            &["add", "4", "127.0.0.1:7004"],
            &["remove", "4"],
            &["transfer", "4"],
        ];
        for command in commands {
            let mut arguments = command.to_vec();
            arguments.extend(["--url", &url]);
            let ended = cluster(&arguments).await;
            assert_eq!(ended.status.code(), Some(3), "{ended:?}");
            assert_eq!(
                text(&ended.stderr),
                format!(
                    "coeval cluster {}: this server is no node of a cluster\n",
                    command[0]
                )
            );
            assert!(ended.stdout.is_empty());
        }
    });
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
    let nowhere = "postgres://127.0.0.1:1";
    let senseless: [&[&str]; 6] = [
        &["add", "4", "here and there:7004", "--url", nowhere],
        &["add", "4", "there", "--url", nowhere],
        &["add", "4", "--url", nowhere],
        &["remove", "0", "--url", nowhere],
        &["transfer", "--url", nowhere],
        &["transfer", "2", "--wait", "long", "--url", nowhere],
    ];
    for arguments in senseless {
        let ended = cluster(arguments).await;
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    }
    let ended = cluster(&["status", "--url", nowhere]).await;
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
}

/// How the cluster is, by the node that listens here, and whether it is sound.
async fn status(url: &str) -> (Value, bool) {
    loop {
        let ended = cluster(&["status", "--json", "--url", url]).await;
        match ended.status.code() {
            Some(code @ (0 | 1)) => {
                let shown: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
                let members = shown["members"].as_array().expect("a list");
                let voters = members.iter().filter(|member| member["role"] != "learner");
                assert_eq!(shown["voters"], voters.count(), "of one moment: {shown}");
                return (shown, code == 0);
            }
            // While no node leads, no node can answer.
            _ => coeval_env::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[test]
fn a_cluster_is_shown_and_changed_through_any_node() {
    in_runtime(async {
        let mut nodes = Cluster::start().await;
        let leader = nodes.leader().await;
        let (next, last) = others(leader);
        let url = format!("postgres://ada@{}/bank", nodes.address(next));
        let (shown, _) = loop {
            let shown = status(&url).await;
            if shown.1 {
                break shown;
            }
        };
        assert_eq!(shown["voters"], 3);
        assert_eq!(shown["reachable_voters"], 3);
        let members = shown["members"].as_array().unwrap();
        assert_eq!(members.len(), 3);
        for stage in ["sent", "flushed", "committed", "replayed"] {
            // No client writes, so that every node catches up.
            let caught_up = async {
                while !(status(&url).await.0["members"].as_array().unwrap().iter())
                    .all(|member| member["lag_bytes"][stage] == 0)
                {}
            };
            let in_time = coeval_env::timeout(PATIENCE, caught_up).await;
            assert!(in_time.is_ok(), "{stage}");
        }
        let table = cluster(&["status", "--url", &url]).await;
        assert!(table.status.success(), "{table:?}");
        assert!(text(&table.stdout).contains("3 of 3 voters reachable; one may fail"));

        // The statement is that of a session at the leader that goes.
        let to = (next + 1).to_string();
        let moved = cluster(&["transfer", &to, "--wait", "30", "--json", "--url", &url]).await;
        assert!(moved.status.success(), "{moved:?}");
        let moved: Value = serde_json::from_slice(&moved.stdout).unwrap();
        assert_eq!(moved["leader"], next + 1);
        assert!(moved["term"].as_u64() > shown["term"].as_u64());
        let refused = cluster(&["transfer", "9", "--wait", "30", "--url", &url]).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(text(&refused.stderr).contains("42704"), "{refused:?}");

        nodes.kill(last).await;
        let (shown, _) = loop {
            let shown = status(&url).await;
            if !shown.1 && shown.0["reachable_voters"] == 2 {
                break shown;
            }
        };
        let words = "2 of 3 voters reachable; one more failure stops writes";
        assert_eq!(shown["condition"][0], words);
        let gone = (last + 1).to_string();
        let removed = cluster(&["remove", &gone, "--wait", "30", "--url", &url]).await;
        assert!(removed.status.success(), "{removed:?}");
        let (shown, sound) = status(&url).await;
        assert_eq!(shown["members"].as_array().unwrap().len(), 2);
        assert!(sound, "{shown}");

        let screen = Command::new(COEVAL)
            .args(["status", "--url", &url])
            .output();
        let screen = text(&screen.await.unwrap().stdout);
        // Either of the two may lead by now.
        let expected = " leads, 2 of 2 voters reachable\n";
        assert!(screen.contains(expected), "{screen}");
    });
}

#[test]
fn a_fourth_node_takes_part_and_the_one_that_led_no_more() {
    in_runtime(async {
        let mut nodes = Cluster::start().await;
        let leader = nodes.leader().await;
        let (follower, _) = others(leader);
        let mut wire = nodes.connect(follower).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t select g from generate_series(1, 1000) g")
            .await;
        let (fourth, address) = nodes.start_another().await;
        let url = |nodes: &Cluster, node| format!("postgres://ada@{}/bank", nodes.address(node));
        let through = url(&nodes, follower);
        let address = address.to_string();
        let added = [
            "add", "4", &address, "--wait", "60", "--json", "--url", &through,
        ];
        let added = cluster(&added).await;
        assert!(added.status.success(), "{added:?}");
        let shown: Value = serde_json::from_slice(&added.stdout).unwrap();
        assert_eq!(shown["voters"], 4);
        // A node at a wrong address never catches up; the right address, or a removal,
        // replaces the pending change.
        let asked = through.clone();
        let waiting = coeval_env::spawn("add", async move {
            cluster(&["add", "5", "127.0.0.1:1", "--wait", "60", "--url", &asked]).await
        });
        while status(&through).await.0["members"]
            .as_array()
            .unwrap()
            .len()
            < 5
        {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        let removed = cluster(&["remove", "5", "--wait", "60", "--url", &through]).await;
        assert!(removed.status.success(), "{removed:?}");
        let waited = waiting.await.unwrap();
        assert_eq!(waited.status.code(), Some(1), "{waited:?}");
        let far = cluster(&[
            "add",
            "1001",
            "127.0.0.1:1",
            "--wait",
            "60",
            "--url",
            &through,
        ])
        .await;
        assert_eq!(far.status.code(), Some(1), "{far:?}");
        assert!(text(&far.stderr).contains("22023"), "{far:?}");
        // It serves clients.
        let mut wire = nodes.connect(fourth).await;
        let counted = wire.value("select count(*) from t").await;
        assert_eq!(counted.as_deref(), Some("1000"));

        // The leader, which is asked itself.
        let old = (leader + 1).to_string();
        let itself = url(&nodes, leader);
        let removed = cluster(&["remove", &old, "--wait", "60", "--url", &itself]).await;
        assert!(removed.status.success(), "{removed:?}");
        while !nodes.health(leader).await.contains("has been removed") {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        let asked = cluster(&["status", "--url", &itself]).await;
        assert_eq!(asked.status.code(), Some(3), "{asked:?}");
        let said = format!("node {old} has been removed from its cluster");
        assert!(text(&asked.stderr).contains(&said), "{asked:?}");
        let through = url(&nodes, fourth);
        assert_eq!(status(&through).await.0["voters"], 3);
        nodes.kill(leader).await;
        wire.rows("insert into t values (1001)").await;
        // Of three any one may go.
        nodes.kill(follower).await;
        wire.rows("delete from t where id = 1").await;
        let counted = wire.value("select count(*) from t").await;
        assert_eq!(counted.as_deref(), Some("1000"));
        // A node that was removed does not rejoin.
        let again = [
            "add",
            &old,
            "127.0.0.1:1",
            "--wait",
            "60",
            "--url",
            &through,
        ];
        let again = cluster(&again).await;
        assert_eq!(again.status.code(), Some(1), "{again:?}");
        assert!(text(&again.stderr).contains("takes a new id"), "{again:?}");
    });
}
