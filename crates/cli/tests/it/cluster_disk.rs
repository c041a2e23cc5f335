//! A cluster of which one disk is full: who ends, who goes on, and what is there when there
//! is room again.
//!
//! The fault is made at the process's own door to its disk (docs/decisions/0015), which only
//! a debug build has; the test of a release build says so and passes.
//!
//! ```text
//!   leader     commits ────────────────────────────────────────────▶
//!   full       commits ── full, ends ──      ── room, starts, commits ──▶
//!   other      commits ────────────────────────── killed
//!
//!   leader     commits ── full, hands over, ends ── room, starts, commits ──▶
//!   others     commits ── one leads, commits ──────────────────────────────▶
//! ```

use std::time::Duration;

use coeval_testkit::wire::{Wire, error, kinds, query};

use crate::cluster::{Cluster, others};
use crate::process::{PATIENCE, in_runtime};

/// Log of several segments, of a row each statement.
const ROWS: u32 = 100;

/// Each row is acknowledged, or found in the table, or the test fails. Another node may
/// become the leader meanwhile; the session stays, because its node does.
async fn insert(wire: &mut Wire, from: u32) {
    let filler = "x".repeat(3000);
    for id in from..from + ROWS {
        let statement = format!("insert into t values ({id}, '{filler}')");
        let mut is_unconfirmed = false;
        let inserting = async {
            loop {
                let answers = wire.query(&statement).await;
                if !kinds(&answers).contains('E') {
                    return;
                }
                match error(&answers).sqlstate() {
                    "40001" | "08006" | "53100" => {}
                    "40003" => is_unconfirmed = true,
                    "23505" if is_unconfirmed => return,
                    _ => panic!("{id}: {answers:?}"),
                }
                coeval_env::sleep(Duration::from_millis(50)).await;
            }
        };
        let in_time = coeval_env::timeout(PATIENCE, inserting).await;
        assert!(in_time.is_ok(), "{id} is refused for too long");
    }
}

/// Waits until every node shows all of the log. No client writes meanwhile.
async fn everybody_has_everything(wire: &mut Wire) {
    const BEHIND: &str = "select count(*) from coeval.cluster_members \
                          where replayed_lag_bytes is null or replayed_lag_bytes <> 0";
    let caught_up = async {
        loop {
            let answers = wire.query(BEHIND).await;
            let mut rows = answers.iter().filter(|answer| answer.kind == 'D');
            let nobody = [Some("0".to_owned())];
            // While no node leads, no node can answer.
            if rows.any(|row| row.values() == nobody) {
                return;
            }
            coeval_env::sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = coeval_env::timeout(PATIENCE, caught_up).await;
    assert!(in_time.is_ok(), "a node does not catch up");
}

#[test]
fn a_full_disk_of_a_follower_ends_the_follower_and_not_the_cluster() {
    in_runtime(async {
        if !cfg!(debug_assertions) {
            println!("skipped: a release build has no door for faults");
            return;
        }
        let segments = ["--log-segment-bytes", "65536"];
        let mut cluster = Cluster::start_under_faults(&segments).await;
        let leader = cluster.leader().await;
        let (full, other) = others(leader);
        let mut wire = cluster.connect(leader).await;
        wire.rows("create table t (id int primary key, filler text)")
            .await;

        // A client of the follower waits for a lock while the follower ends.
        wire.rows("insert into t values (-1, '')").await;
        let mut holder = cluster.connect(leader).await;
        holder.rows("begin").await;
        holder.rows("update t set filler = 'x' where id = -1").await;
        let mut waiting = cluster.connect(full).await;
        waiting
            .send(&query("update t set filler = 'y' where id = -1"))
            .await;

        // It has to make a file of log, cannot, and says so.
        cluster.set_faults(full, "disk full");
        insert(&mut wire, 0).await;
        let (ended, said) = cluster.last_words(full).await;
        assert_eq!(ended.code(), Some(1), "{said}");
        let is_full = |line: &str| line.contains("\"ERROR\"") && line.contains("no storage space");
        assert!(said.lines().any(is_full), "{said}");
        let told = waiting.until_closed().await;
        let told = error(&told);
        assert_eq!(told.sqlstate(), "57P01");
        let why = told.field(b'M').unwrap();
        assert!(why.contains("no storage space"), "{why}");
        holder.rows("rollback").await;
        wire.rows("delete from t where id = -1").await;

        // The others are a majority.
        insert(&mut wire, ROWS).await;

        // With room it starts from what it has, and is sent the rest: without the other one
        // nothing is committed that it lacks anything before of.
        cluster.set_faults(full, "");
        cluster.start_node(full).await;
        // A node is ready for connections before it follows.
        everybody_has_everything(&mut wire).await;
        cluster.kill(other).await;
        insert(&mut wire, 2 * ROWS).await;
        let mut wire = cluster.connect(full).await;
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count, Some((3 * ROWS).to_string()));
    });
}

#[test]
fn a_leader_with_a_full_disk_hands_over_to_another_node_with_room() {
    in_runtime(async {
        if !cfg!(debug_assertions) {
            println!("skipped: a release build has no door for faults");
            return;
        }
        let segments = ["--log-segment-bytes", "65536"];
        let mut cluster = Cluster::start_under_faults(&segments).await;
        let full = cluster.leader().await;
        let (one, other) = others(full);
        let mut wire = cluster.connect(one).await;
        wire.rows("create table t (id int primary key, filler text)")
            .await;

        // Rows that it refuses are taken by the next leader; deposed, it has to write and ends.
        cluster.set_faults(full, "disk full");
        insert(&mut wire, 0).await;
        let cause = "select cause from coeval.cluster_elections order by term desc limit 1";
        let cause = wire.value(cause).await.expect("it is not the first");
        assert!(cause.contains("handed over: its disk was full"), "{cause}");
        let (ended, said) = cluster.last_words(full).await;
        assert_eq!(ended.code(), Some(1), "{said}");
        assert!(said.contains("hands over: the disk is full"), "{said}");

        cluster.set_faults(full, "");
        cluster.start_node(full).await;
        everybody_has_everything(&mut wire).await;
        cluster.kill(other).await;
        insert(&mut wire, ROWS).await;
        let mut wire = cluster.connect(full).await;
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count, Some((2 * ROWS).to_string()));
    });
}
