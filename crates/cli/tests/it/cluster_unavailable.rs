//! Nodes that serve no clients say so, and why: to balancers, to monitoring, and to the
//! operator who asks what is left of the cluster.

use std::net::SocketAddr;
use std::time::Duration;

use coeval_testkit::http::get;
use coeval_testkit::wire::{Answer, Wire, error, start};
use tokio::process::Command;

use crate::cluster::{Cluster, others};
use crate::process::{COEVAL, PATIENCE, in_runtime};

/// Nodes whose clients wait only shortly for a leader.
const SHORT_WAIT: [&str; 2] = ["--cluster-wait-milliseconds", "500"];

/// Waits until the answer of `/serving` is as it is meant to be.
pub async fn until_serving(admin: SocketAddr, is_meant: impl Fn(bool, &str) -> bool) {
    let seen = async {
        loop {
            let (head, body) = get(admin, "/serving").await;
            let serves = head.starts_with("HTTP/1.1 200 ");
            assert!(serves == (body == "yes\n"), "{head}\n{body}");
            if is_meant(serves, &body) {
                return;
            }
            coeval_env::sleep(Duration::from_millis(50)).await;
        }
    };
    let seen = coeval_env::timeout(PATIENCE, seen).await;
    if seen.is_err() {
        panic!("/serving says {:?}", get(admin, "/serving").await);
    }
}

/// Whether a client that connects now is refused, or gets no answer to a statement, because no
/// node leads.
async fn refuses(address: SocketAddr) -> bool {
    let mut wire = Wire::open(address).await;
    wire.send(&start(&[("user", "coeval"), ("database", "coeval")]))
        .await;
    let mut answers = wire.until_ready_or_closed().await;
    let is_refused = |answers: &[Answer]| answers.iter().any(|answer| answer.kind == 'E');
    if !is_refused(&answers) {
        answers = wire.query("select 1").await;
    }
    is_refused(&answers) && error(&answers).sqlstate() == "57P03"
}

/// Runs `coeval cluster status` of a node's own knowledge: its exit code and its output.
async fn own_status(admin: SocketAddr, further: &[&str]) -> (i32, String) {
    let mut command = Command::new(COEVAL);
    command.args(["cluster", "status", "--admin", &admin.to_string()]);
    let ran = coeval_env::timeout(PATIENCE, command.args(further).output()).await;
    let ran = ran.unwrap().unwrap();
    let out = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    (ran.status.code().unwrap(), out)
}

/// Waits until `coeval cluster status` of a node's own knowledge ends with this code and has
/// all these words: the node looks at itself a few times a second.
async fn until_status(admin: SocketAddr, meant: i32, words: &[String]) {
    let seen = async {
        loop {
            let (code, shown) = own_status(admin, &[]).await;
            if code == meant && words.iter().all(|word| shown.contains(word)) {
                return;
            }
            coeval_env::sleep(Duration::from_millis(50)).await;
        }
    };
    if coeval_env::timeout(PATIENCE, seen).await.is_err() {
        let (code, shown) = own_status(admin, &[]).await;
        panic!("{code} and not {meant}, or not {words:?}:\n{shown}");
    }
}

#[test]
fn a_node_without_a_leader_refuses_clients_and_says_so() {
    in_runtime(async {
        let mut cluster = Cluster::start_with(false, &SHORT_WAIT).await;
        let leader = cluster.leader().await;
        let (left, other) = others(leader);
        let admin = cluster.admin(left);
        until_serving(admin, |serves, _| serves).await;
        assert!(!refuses(cluster.address(left)).await);
        until_status(admin, 0, &[format!("node {} leads", leader + 1)]).await;

        cluster.kill(leader).await;
        cluster.kill(other).await;
        until_serving(admin, |serves, body| {
            !serves && body == "no: no node leads\n"
        })
        .await;
        assert!(refuses(cluster.address(left)).await);
        let health: serde_json::Value = serde_json::from_str(&cluster.health(left).await).unwrap();
        assert_eq!(health["status"], "leaderless");
        let words = [
            "no node leads".to_owned(),
            format!("node {} knows no leader since 20", left + 1),
            format!("node {} is not serving: no node leads", left + 1),
            "1 of 3 voters reachable; writes wait until there are 2".to_owned(),
            format!("node {} is not connected: ", leader + 1),
            format!("node {} was last heard at 20", other + 1),
        ];
        until_status(admin, 1, &words).await;
        let (_, json) = own_status(admin, &["--json"]).await;
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["serving"], false);
        assert!(report["end_lsn"].as_u64().unwrap() > 0, "{report}");
        assert_eq!(report["members"].as_array().unwrap().len(), 3);

        // A session cannot be had, and the command says what remains.
        let url = format!("postgres://coeval@{}/coeval", cluster.address(left));
        let mut command = Command::new(COEVAL);
        let asked = command.args(["cluster", "status", "--url", &url]).output();
        let asked = coeval_env::timeout(PATIENCE, asked).await.unwrap().unwrap();
        assert_eq!(asked.status.code(), Some(3));
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(said.contains("--admin ADDRESS"), "{said}");

        cluster.start_node(other).await;
        until_serving(admin, |serves, _| serves).await;
        assert!(!refuses(cluster.address(left)).await);
    });
}

#[test]
fn a_node_that_its_cluster_does_not_admit_is_not_ready() {
    in_runtime(async {
        let mut cluster = Cluster::start_with(false, &SHORT_WAIT).await;
        let leader = cluster.leader().await;
        let (lost, _) = others(leader);
        let words = "does not admit this node: ";
        let is_refused = async |cluster: &Cluster, node: usize| {
            until_serving(cluster.admin(node), |serves, body| {
                !serves && body.contains(words)
            })
            .await;
            let health = cluster.health(node).await;
            let health: serde_json::Value = serde_json::from_str(&health).unwrap();
            assert_eq!(health["status"], "shut_out");
            let reason = health["reason"].as_str().unwrap();
            assert!(reason.contains(words), "{reason}");
            assert!(refuses(cluster.address(node)).await);
        };
        // Its data is lost, and it joins under the number that it had.
        cluster.kill(lost).await;
        cluster.start_wiped(lost).await;
        is_refused(&cluster, lost).await;
        // No member has heard of the fourth.
        let (fourth, _) = cluster.start_another().await;
        is_refused(&cluster, fourth).await;
        until_serving(cluster.admin(leader), |serves, _| serves).await;
    });
}
