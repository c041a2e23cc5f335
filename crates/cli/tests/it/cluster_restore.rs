//! Clusters that are founded from backups, of clusters and of servers alone, and back.
//!
//! ```text
//!   server alone ──▶ backup ──▶ three restored directories ──▶ cluster
//!   server alone ◀── restored directory ◀── backup ◀──────────── ┘
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "makes and removes data directories as an administrator does"
)]

use std::path::Path;

use coeval_testkit::wire::Wire;
use rustix::process::Signal;
use tokio::process::Command;

use crate::cluster::{Cluster, ID, others};
use crate::cluster_unavailable::until_serving;
use crate::process::{COEVAL, PATIENCE, Running, in_runtime};

/// Runs a command; what it said, and whether it succeeded.
async fn coeval(arguments: &[&str]) -> (String, bool) {
    let mut command = Command::new(COEVAL);
    let ended = command.args(arguments).kill_on_drop(true).output();
    let ended = coeval_env::timeout(PATIENCE, ended).await.unwrap().unwrap();
    let said = [&ended.stdout[..], &ended.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (said, ended.status.success())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Kills a server, and waits until it has left its directory.
async fn kill(server: Running) {
    server.signal(Signal::KILL);
    server.ended().await;
}

async fn backup(address: impl std::fmt::Display, to: &Path) {
    let url = format!("postgres://ada@{address}/bank");
    let (said, done) = coeval(&["backup", "--url", &url, "--to", text(to)]).await;
    assert!(done, "{said}");
}

/// Restores a backup; what the command said.
async fn restore(from: &Path, to: &Path, further: &[&str]) -> String {
    let arguments = ["restore", "--from", text(from), "--data-dir", text(to)];
    let (said, done) = coeval(&[&arguments[..], further].concat()).await;
    assert!(done, "{said}");
    said
}

/// What a server says that does not start alone in this directory.
async fn alone(data: &Path) -> String {
    let arguments = ["start", "--listen", "127.0.0.1:0", "--data-dir", text(data)];
    let (said, done) = coeval(&arguments).await;
    assert!(!done, "{said}");
    said
}

async fn count(wire: &mut Wire) -> Option<String> {
    wire.value("select count(*) from t").await
}

async fn fill(wire: &mut Wire) {
    wire.rows("create table t (id int primary key, text text)")
        .await;
    wire.rows("insert into t select g, 'row' from generate_series(1, 1000) g")
        .await;
}

/// Founds a cluster of this backup, in three directories.
async fn founded(id: &str, from: &Path, further: &[&str]) -> Cluster {
    let mut cluster = Cluster::prepare(id);
    for node in 0..3 {
        restore(from, &cluster.data(node), further).await;
    }
    for node in 0..3 {
        cluster.start_node(node).await;
    }
    cluster
}

/// Every node shows this many rows, and the cluster commits.
async fn shows(cluster: &Cluster, rows: u64) {
    for node in 0..3 {
        let mut wire = cluster.connect(node).await;
        assert_eq!(count(&mut wire).await, Some(rows.to_string()), "{node}");
    }
    let mut wire = cluster.connect(0).await;
    wire.rows("insert into t values (0, 'later'); delete from t where id = 0")
        .await;
}

/// Likewise, and the cluster survives a failover and a start of all its nodes.
async fn is_whole(cluster: &mut Cluster, rows: u64) {
    shows(cluster, rows).await;
    let leader = cluster.leader().await;
    let (next, other) = others(leader);
    let mut wire = cluster.connect(next).await;
    wire.rows("insert into t values (-1, 'later')").await;
    cluster.kill(leader).await;
    assert_eq!(count(&mut wire).await, Some((rows + 1).to_string()));
    wire.rows("insert into t values (-2, 'later')").await;
    cluster.start_node(leader).await;
    cluster.kill(other).await;
    wire.rows("insert into t values (-3, 'later')").await;
    cluster.kill(next).await;
    cluster.kill(leader).await;
    for node in 0..3 {
        cluster.start_node(node).await;
    }
    let mut wire = cluster.connect(next).await;
    assert_eq!(count(&mut wire).await, Some((rows + 3).to_string()));
}

#[test]
fn a_cluster_is_founded_from_the_backup_of_one() {
    in_runtime(async {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster::start().await;
        let (follower, _) = others(cluster.leader().await);
        let mut wire = cluster.connect(follower).await;
        fill(&mut wire).await;
        let without = folder.path().join("without");
        backup(cluster.address(follower), &without).await;
        wire.rows("checkpoint").await;
        wire.rows("insert into t values (1001, 'early')").await;
        let early = wire.value("select now()").await.unwrap();
        let early = format!("{}:00", early.replacen(' ', "T", 1));
        // The clock of the next commit is a later one.
        coeval_env::sleep(std::time::Duration::from_millis(20)).await;
        wire.rows("insert into t values (1002, 'late')").await;
        let with = folder.path().join("with");
        backup(cluster.address(follower), &with).await;
        drop((wire, cluster));
        let is_there = |name: &Path| std::fs::read_dir(name.join("checkpoints")).unwrap().count();
        assert_eq!((is_there(&without), is_there(&with)), (0, 1));

        is_whole(&mut founded(ID, &without, &[]).await, 1000).await;
        shows(&founded(ID, &with, &[]).await, 1002).await;
        let to_time = ["--to-time", &early];
        is_whole(&mut founded(ID, &with, &to_time).await, 1001).await;
    });
}

#[test]
fn a_server_alone_becomes_a_cluster_and_a_cluster_one_server() {
    in_runtime(async {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let server = Running::start_with(&at("alone"), &[]).await;
        let mut wire = Wire::connect(server.address).await;
        fill(&mut wire).await;
        backup(server.address, &at("backup")).await;
        drop(wire);
        kill(server).await;
        // The cluster's id is that of the database, which the restore names.
        let said = restore(&at("backup"), &at("look"), &[]).await;
        let (_, rest) = said.split_once("founds the cluster ").expect("its id");
        let id = rest.split(' ').next().unwrap();

        let mut cluster = founded(id, &at("backup"), &[]).await;
        let leader = cluster.leader().await;
        let mut wire = cluster.connect(leader).await;
        assert_eq!(count(&mut wire).await, Some("1000".to_owned()));
        // A node that joins is sent a checkpoint: the restored log is not.
        let (_, address) = cluster.start_another().await;
        let url = format!("postgres://ada@{}/bank", cluster.address(leader));
        let address = address.to_string();
        let add = ["cluster", "add", "4", &address, "--url", &url];
        let (said, done) = coeval(&add).await;
        assert!(done, "{said}");
        cluster.kill(others(leader).0).await;
        wire.rows("insert into t values (-1, 'later')").await;
        backup(cluster.address(leader), &at("back")).await;
        // A node's directory is not opened alone; the text names the way that follows.
        cluster.kill(leader).await;
        let said = alone(&cluster.data(leader)).await;
        assert!(said.contains("belongs to a node of a cluster"), "{said}");
        assert!(
            said.contains("restore it into an empty directory"),
            "{said}"
        );
        drop((wire, cluster));

        restore(&at("back"), &at("new"), &[]).await;
        for rows in [1001, 1002] {
            let server = Running::start_with(&at("new"), &[]).await;
            let mut wire = Wire::connect(server.address).await;
            assert_eq!(count(&mut wire).await, Some(rows.to_string()));
            let insert = format!("insert into t values (-{rows}, 'alone')");
            wire.rows(&insert).await;
            // Its own backup is one of what the cluster wrote, and still opens.
            let own = at(&format!("own-{rows}"));
            backup(server.address, &own).await;
            drop(wire);
            kill(server).await;
            let control = std::fs::read(own.join("CONTROL")).unwrap();
            assert_eq!(control[8], 4, "its format version");
            let (said, done) = coeval(&["verify", text(&own)]).await;
            assert!(done, "{said}");
            let again = at(&format!("again-{rows}"));
            restore(&own, &again, &[]).await;
            let server = Running::start_with(&again, &[]).await;
            let mut wire = Wire::connect(server.address).await;
            assert_eq!(count(&mut wire).await, Some((rows + 1).to_string()));
            drop(wire);
            kill(server).await;
        }
        // Since a server has used it alone, no other directory holds the same.
        let cluster = Cluster::prepare(id);
        std::fs::rename(at("new"), cluster.data(0)).unwrap();
        let said = cluster.refused(0).await;
        assert!(
            said.contains("holds the database of a server alone"),
            "{said}"
        );
    });
}

#[test]
fn directories_that_differ_found_no_cluster_and_each_error_names_a_way() {
    in_runtime(async {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let server = Running::start_with(&at("alone"), &[]).await;
        let mut wire = Wire::connect(server.address).await;
        fill(&mut wire).await;
        backup(server.address, &at("first")).await;
        wire.rows("insert into t values (1001, 'later')").await;
        backup(server.address, &at("second")).await;
        drop(wire);
        kill(server).await;
        let said = restore(&at("first"), &at("look"), &[]).await;
        let (_, rest) = said.split_once("founds the cluster ").expect("its id");
        let id = rest.split(' ').next().unwrap().to_owned();

        // A server's own directory is none that all nodes have.
        let cluster = Cluster::prepare(&id);
        std::fs::rename(at("alone"), cluster.data(0)).unwrap();
        let said = cluster.refused(0).await;
        assert!(
            said.contains("holds the database of a server alone"),
            "{said}"
        );
        // As it says: the server still starts, and a backup of it founds a cluster.
        let server = Running::start_with(&cluster.data(0), &[]).await;
        backup(server.address, &at("third")).await;
        kill(server).await;
        let said = Cluster::prepare(ID);
        std::fs::rename(at("look"), said.data(0)).unwrap();
        let said = said.refused(0).await;
        let expected = format!("give all its nodes the cluster id {id}");
        assert!(said.contains(&expected), "{said}");
        shows(&founded(&id, &at("third"), &[]).await, 1001).await;

        // Two backups, and a directory that is empty, hold different data.
        for other in [Some(at("second")), None] {
            let mut cluster = Cluster::prepare(&id);
            restore(&at("first"), &cluster.data(0), &[]).await;
            if let Some(other) = &other {
                restore(other, &cluster.data(1), &[]).await;
            }
            cluster.start_node(1).await;
            let said = cluster.refused(0).await;
            assert!(said.contains("they hold different data"), "{said}");
            // It has been a node's since, so the backup is restored once more.
            let said = alone(&cluster.data(0)).await;
            let expected = "the one that this directory was restored from";
            assert!(said.contains(expected), "{said}");
        }
        // The directory that was refused is as it was, and founds a cluster with its like.
        let mut cluster = Cluster::prepare(&id);
        restore(&at("first"), &cluster.data(0), &[]).await;
        restore(&at("second"), &cluster.data(1), &[]).await;
        cluster.start_node(1).await;
        cluster.refused(0).await;
        cluster.kill(1).await;
        std::fs::remove_dir_all(cluster.data(1)).unwrap();
        for node in 1..3 {
            restore(&at("first"), &cluster.data(node), &[]).await;
        }
        for node in 0..3 {
            cluster.start_node(node).await;
        }
        shows(&cluster, 1000).await;
    });
}

/// A backup is restored in the place of a member's directory, under a cluster that runs: what
/// the member has acknowledged since the backup is lost, so it is not let in, and never votes.
#[test]
fn a_restored_directory_is_not_let_into_a_cluster_that_runs() {
    in_runtime(async {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (replaced, other) = others(leader);
        let mut wire = cluster.connect(leader).await;
        fill(&mut wire).await;
        // From cluster version 2 on the members know each other's directories.
        let raised = "select cluster_version >= 2 from coeval.cluster_status";
        while wire.value(raised).await.as_deref() != Some("t") {
            coeval_env::sleep(std::time::Duration::from_millis(20)).await;
        }
        let from = folder.path().join("backup");
        backup(cluster.address(leader), &from).await;
        wire.rows("insert into t values (1001, 'later')").await;
        cluster.kill(replaced).await;
        std::fs::remove_dir_all(cluster.data(replaced)).unwrap();
        restore(&from, &cluster.data(replaced), &[]).await;
        // To join it must be empty.
        let said = cluster.refused_with(replaced, "--cluster-join").await;
        assert!(said.contains("was restored from a backup"), "{said}");
        assert!(said.contains("begin with an empty directory"), "{said}");
        // To found it would need the others, which have a log. They name its directory, to it
        // only if it has not learned of their log first.
        cluster.start_node(replaced).await;
        let expected = format!("node {} has another directory", replaced + 1);
        let is_shut_out = async {
            loop {
                let health = cluster.health(replaced).await;
                let of_log = format!("node {} holds a log of the cluster", leader + 1);
                if health.contains(&expected) || health.contains(&of_log) {
                    break;
                }
                coeval_env::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let in_time = coeval_env::timeout(PATIENCE, is_shut_out).await;
        let health = cluster.health(replaced).await;
        assert!(in_time.is_ok(), "{health}");
        assert!(health.contains("\"status\":\"shut_out\""), "{health}");
        let is_named = async {
            while !cluster_status(&cluster, leader).await.contains(&expected) {
                coeval_env::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        let in_time = coeval_env::timeout(PATIENCE, is_named).await;
        assert!(
            in_time.is_ok(),
            "{}",
            cluster_status(&cluster, leader).await
        );
        wire.rows("insert into t values (1002, 'later')").await;
        // It neither votes nor acknowledges: with it alone no node leads.
        cluster.kill(other).await;
        coeval_env::sleep(std::time::Duration::from_secs(4)).await;
        for node in [leader, replaced] {
            until_serving(cluster.admin(node), |serves, _| !serves).await;
        }
        drop(wire);
        cluster.start_node(other).await;
        cluster.leader().await;
        let mut wire = cluster.connect(other).await;
        assert_eq!(count(&mut wire).await, Some("1002".to_owned()));
    });
}

/// What a node says of the cluster, for people.
async fn cluster_status(cluster: &Cluster, node: usize) -> String {
    let admin = cluster.admin(node).to_string();
    coeval(&["cluster", "status", "--admin", &admin]).await.0
}
