//! The lag of followers in `coeval.replicas` and `pg_stat_replication`: zero while no client
//! writes, and growing while one is cut off.

use std::time::Duration;

use coeval_leader::node::NEWEST_VERSION;
use coeval_testkit::wire::Wire;
use coeval_workload::server::READS_VERSION;
use rustix::process::Signal;

use crate::cluster::{Cluster, others};
use crate::process::{PATIENCE, in_runtime};

/// The first row of a query's answer; none when it was refused, because the leader changes.
async fn row(wire: &mut Wire, query: &str) -> Option<Vec<Option<String>>> {
    coeval_env::sleep(Duration::from_millis(20)).await;
    let answers = wire.query(query).await;
    let row = answers.iter().find(|answer| answer.kind == 'D');
    row.map(|row| row.values().to_vec())
}

/// Waits until a query answers with this row.
async fn becomes(wire: &mut Wire, query: &str, expected: &[Option<&str>]) {
    let mut last = None;
    let waiting = async {
        loop {
            last = row(wire, query).await;
            let shown = last.as_ref().map(|row| row.iter().map(Option::as_deref));
            if shown.is_some_and(|shown| shown.eq(expected.iter().copied())) {
                return;
            }
        }
    };
    let in_time = coeval_env::timeout(PATIENCE, waiting).await;
    assert!(in_time.is_ok(), "{query}: {last:?}");
}

/// Writes, and sees the lag of a node that is cut off grow, twice. False if the leader has no
/// report of the node: it was elected since.
async fn grows(wire: &mut Wire, node: usize) -> bool {
    let lag = format!(
        "select lag_milliseconds from coeval.replicas where node = {} and lag_bytes > 0",
        node + 1
    );
    let unknown = format!(
        "select 1 from coeval.replicas where node = {} and lag_bytes is null",
        node + 1
    );
    let mut seen = Vec::new();
    while seen.len() < 3 {
        wire.query("update t set n = n + 1").await;
        if row(wire, &unknown).await.is_some() {
            return false;
        }
        if let Some(shown) = row(wire, &lag).await {
            let shown: f64 = shown[0].as_deref().unwrap().parse().unwrap();
            if seen.last().is_none_or(|last| shown > *last) {
                seen.push(shown);
            }
        }
    }
    true
}

#[test]
fn the_lag_of_a_follower_grows_while_it_is_cut_off_only() {
    const IDLE: &str = "select count(*), max(lag_bytes), max(lag_milliseconds), \
                        max(committed - visible) from coeval.replicas \
                        where received = flushed and replayed >= visible";
    let idle = [Some("3"), Some("0"), Some("0"), Some("0")];
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (through, cut_off) = others(leader);
        let mut wire = cluster.connect(through).await;
        // What a rolling restart waits for.
        let newest = NEWEST_VERSION.to_string();
        becomes(&mut wire, READS_VERSION, &[Some(&newest)]).await;
        wire.rows("create table t (n int)").await;
        wire.rows("insert into t values (0)").await;

        let cutting = async {
            loop {
                becomes(&mut wire, IDLE, &idle).await;
                cluster.signal(cut_off, Signal::STOP);
                let done = grows(&mut wire, cut_off).await;
                cluster.signal(cut_off, Signal::CONT);
                if done {
                    return;
                }
            }
        };
        let in_time = coeval_env::timeout(2 * PATIENCE, cutting).await;
        assert!(in_time.is_ok(), "the lag does not grow");
        becomes(&mut wire, IDLE, &idle).await;

        // The same as PostgreSQL shows it, without the leader, and without who is gone.
        let standbys = "select count(*), min(state), min(sync_state), min(replay_lag), \
                        max(replay_lag), count(backend_start), count(reply_time) \
                        from pg_stat_replication where sent_lsn = flush_lsn \
                        and flush_lsn = write_lsn and flush_lsn = replay_lsn";
        let shown = |count| {
            let zero = Some("00:00:00");
            let (state, sync) = (Some("streaming"), Some("quorum"));
            [count, state, sync, zero, zero, count, count]
        };
        becomes(&mut wire, standbys, &shown(Some("2"))).await;
        cluster.kill(cut_off).await;
        becomes(&mut wire, standbys, &shown(Some("1"))).await;
        let members = "select count(*) from coeval.replicas";
        becomes(&mut wire, members, &[Some("3")]).await;
    });
}
