//! Runs of whole clusters, and the checks that follow them.

use std::rc::Rc;
use std::time::Duration;

use coeval_types::planted::{Bug, plant};

use crate::bank;
use crate::faults::Plan;
use crate::nodes::Cluster;

const FAULTS: usize = 5;

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub trace: u64,
    pub told: usize,
    pub elections: u64,
    pub reads: u64,
    pub follower_reads: u64,
    pub installed: u64,
    pub objections: Vec<String>,
}

fn run(seed: u64) -> Outcome {
    let mut plan = Plan::new(seed);
    lived(seed, async |cluster| {
        plan.begin(cluster);
        for _ in 0..FAULTS {
            plan.one(cluster).await;
            if cluster.has_objections() {
                return;
            }
        }
    })
}

/// Runs a story on a cluster; at its end all nodes must agree.
pub fn lived(seed: u64, story: impl AsyncFnOnce(&mut Cluster)) -> Outcome {
    lived_by(Cluster::new(seed), story)
}

/// Runs a story on this cluster; at its end all nodes must agree.
pub fn lived_by(mut cluster: Cluster, story: impl AsyncFnOnce(&mut Cluster)) -> Outcome {
    let world = Rc::clone(&cluster.world);
    world.block_on(async {
        story(&mut cluster).await;
        if cluster.has_objections() {
            return;
        }
        converge(&cluster).await;
        if !cluster.has_objections() {
            cluster.stop().await;
        }
    });
    let all: Vec<usize> = (0..cluster.machines.len()).collect();
    compare(&cluster, &all);
    let judge = cluster.judge.lock();
    Outcome {
        trace: cluster.world.trace_hash(),
        told: judge.told().len(),
        elections: judge.property_checker.elections(),
        reads: judge.confirmed_reads,
        follower_reads: judge.follower_reads,
        installed: judge.property_checker.installed(),
        objections: judge.objections(),
    }
}

/// Compares the tables of these stopped machines with each other and with the transfers
/// that clients know to be done.
pub fn compare(cluster: &Cluster, machines: &[usize]) {
    if cluster.has_objections() {
        return;
    }
    let tables: Vec<_> = machines.iter().map(|index| cluster.rows(*index)).collect();
    let mut judge = cluster.judge.lock();
    for (index, rows) in machines.iter().zip(&tables) {
        let judged = bank::check_transfers(rows);
        match judged {
            Ok(transfers) => {
                let lost = judge.told().difference(&transfers).count();
                if lost > 0 {
                    judge.object(format!("node {} has lost {lost} transfers", index + 1));
                }
            }
            Err(objection) => judge.object(format!("node {}: {objection}", index + 1)),
        }
    }
    if tables.windows(2).any(|pair| pair[0] != pair[1]) {
        judge.object("nodes differ".to_owned());
    }
}

/// Waits until all nodes have caught up, and clients have worked after the last fault.
pub async fn converge(cluster: &Cluster) {
    let before = cluster.judge.lock().told().len();
    for _ in 0..600 {
        cluster.world.wait(Duration::from_millis(50)).await;
        if cluster.has_objections() {
            return;
        }
        if cluster.judge.lock().told().len() > before {
            // Followers that lag have time to catch up.
            cluster.judge.lock().be_quiet();
            cluster.world.wait(Duration::from_secs(3)).await;
            return;
        }
    }
    cluster
        .judge
        .lock()
        .object("no transfer in 30 s without a fault".to_owned());
}

fn seeds(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let outcome = run(seed);
        println!("seed {seed}: {outcome:?}");
        assert_eq!(outcome.objections, [""; 0], "seed {seed}");
        assert!(
            outcome.told > 0 && outcome.reads > 0,
            "seed {seed} did nothing: {outcome:?}"
        );
    }
}

#[test]
fn no_acknowledged_transfer_is_lost_whatever_happens_to_nodes() {
    seeds(0..6);
}

#[test]
#[ignore = "a search of some minutes; the test above runs six such seeds in every suite"]
fn many_seeds() {
    seeds(1000..1200);
}

#[test]
fn one_seed_is_one_run() {
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first.trace, run(8).trace);
}

/// The number of seeds it takes until a run detects the planted bug.
fn found(bug: Bug, limit: u64) -> u64 {
    let planted = plant(bug);
    let found = (0..limit).find(|seed| !run(*seed).objections.is_empty());
    drop(planted);
    1 + found.unwrap_or_else(|| panic!("{bug} is not found by {limit} seeds"))
}

#[test]
fn a_commit_without_a_majority_is_found() {
    found(Bug::CommitWithoutMajority, 4);
}

#[test]
fn a_vote_that_is_not_kept_is_found() {
    found(Bug::ForgetVote, 4);
}

#[test]
fn log_before_the_mark_is_committed_is_found() {
    found(Bug::ForgetMarkRule, 8);
}

#[test]
fn a_rollback_that_forgets_the_index_is_found() {
    found(Bug::ForgetIndex, 24);
}

#[test]
fn a_reused_offset_taken_for_the_same_timestamp_is_found() {
    found(Bug::ReusedOffset, 24);
}
