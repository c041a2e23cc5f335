//! The live estimate of Γ: what a cluster tells of its own followers, and what is left of that.

use std::time::Duration;

use coeval_testkit::wire::Wire;
use rustix::process::Signal;

use crate::cluster::{Cluster, others};
use crate::process::in_runtime;

const PROBE: [&str; 3] = [
    "--gamma-probe",
    "--gamma-probe-interval-milliseconds=20",
    "--any-read-away-milliseconds=0",
];

/// What the node with this number has counted, as the leader shows it.
async fn shown(wire: &mut Wire, node: usize, column: &str) -> Option<f64> {
    let number = node + 1;
    let query = format!("select {column} from coeval.gamma where node = {number}");
    let rows = wire.rows(&query).await;
    rows.first()?.first()?.as_deref()?.parse().ok()
}

/// Waits until the leader shows more than `least` of that node.
async fn wait(wire: &mut Wire, node: usize, column: &str, least: f64) {
    for _ in 0..600 {
        if shown(wire, node, column)
            .await
            .is_some_and(|now| now > least)
        {
            return;
        }
        coeval_env::sleep(Duration::from_millis(100)).await;
    }
    panic!("node {node} never has more {column} than {least}");
}

/// What of the probe there is in the listing of users' objects, and in fact.
async fn left(wire: &mut Wire) -> (Option<String>, bool) {
    let listed = "select (select count(*) from pg_class where relname = 'coeval_probe') + \
                  (select count(*) from pg_roles where rolname = 'coeval_probe') + \
                  (select count(*) from pg_stats where tablename = 'coeval_probe')";
    let listed = wire.value(listed).await;
    let answers = wire.query("select count(*) from coeval_probe").await;
    (listed, coeval_testkit::wire::kinds(&answers).contains('D'))
}

#[test]
fn a_cluster_shows_by_how_much_its_followers_are_behind() {
    in_runtime(async {
        let mut cluster = Cluster::start_with(false, &PROBE).await;
        let leader = cluster.leader().await;
        let (stopped, other) = others(leader);
        let mut wire = cluster.connect(leader).await;
        for node in [stopped, other] {
            wait(&mut wire, node, "reads", 50.0).await;
            wait(&mut wire, node, "writes", 20.0).await;
        }
        // Spikes are sampled: not each stop shows one.
        let before = shown(&mut wire, stopped, "violations").await.unwrap();
        for _ in 0..5 {
            cluster.signal(stopped, Signal::STOP);
            coeval_env::sleep(Duration::from_millis(400)).await;
            cluster.signal(stopped, Signal::CONT);
            coeval_env::sleep(Duration::from_millis(600)).await;
        }
        wait(&mut wire, stopped, "violations", before).await;
        wait(&mut wire, stopped, "greatest_milliseconds", 50.0).await;
        let metrics = coeval_testkit::http::metrics(cluster.admin(stopped)).await;
        let gamma = metrics.get("coeval_gamma_seconds");
        assert!(gamma.is_some_and(|gamma| *gamma > 0.05), "{gamma:?}");
        // It is there, and no list of users' objects has it.
        wire.rows("analyze coeval_probe").await;
        assert_eq!(left(&mut wire).await, (Some("0".to_owned()), true));

        // Without the setting nothing is left.
        cluster.set_further(&[]);
        for node in 0..3 {
            cluster.kill(node).await;
        }
        for node in 0..3 {
            cluster.start_node(node).await;
        }
        let leader = cluster.leader().await;
        let mut wire = cluster.connect(leader).await;
        let mut tries = 0..600;
        while left(&mut wire).await.1 {
            assert!(tries.next().is_some(), "the probe's table stays");
            coeval_env::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(
            wire.value("select count(*) from coeval.gamma")
                .await
                .as_deref(),
            Some("0")
        );
        // The name is free again.
        wire.rows("create table coeval_probe (id int primary key)")
            .await;
    });
}
