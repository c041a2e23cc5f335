//! Nodes that have lost their data, or have other data in its place.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use coeval_consensus::encoding::encode_membership;
use coeval_consensus::{Membership, NodeId as Member};
use coeval_leader::node::Link;
use coeval_log::{HardState, ReplicaLog};
use coeval_occ::FollowedTables;
use coeval_types::Term;
use coeval_types::planted::{Bug, plant};

use crate::changes::{add, leader, remove, status, until, voters, work};
use crate::nodes::{CLUSTER, Cluster, DIRECTORY, engine_settings};
use crate::runs::{compare, converge};

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Waits until clients have made this many more transfers. Returns whether they have.
async fn goes_on(cluster: &Cluster, more: usize) -> bool {
    let before = cluster.judge.lock().told().len();
    for _ in 0..500 {
        cluster.world.wait(milliseconds(10)).await;
        if cluster.judge.lock().told().len() >= before + more {
            return true;
        }
    }
    false
}

/// Makes a directory of this cluster with a foreign log of this term: its entries end at other
/// offsets than the cluster's, and all or none of them are recorded as committed.
pub async fn another_log(term: Term, is_committed: bool) {
    let settings = engine_settings().log;
    let replay = FollowedTables::new().replay();
    let opened = ReplicaLog::open(Path::new(DIRECTORY), Some(CLUSTER.0), settings, replay);
    let (mut log, _) = opened.await.expect("the directory is empty");
    let begun = HardState {
        term,
        ..log.hard_state()
    };
    log.set_hard_state(begun).await.expect("the first term");
    let members = |learners: u64| {
        let voters = (1..=3).map(Member);
        encode_membership(&Membership::new(voters, (4..4 + learners).map(Member)))
    };
    log.append_mark(term, &members(0)).await.expect("sound");
    for learners in [20, 40] {
        let members = members(learners);
        log.append_membership(term, &members).await.expect("sound");
    }
    log.flush().await.expect("nothing fails now");
    if is_committed {
        let committed = HardState {
            commit: log.end(),
            ..log.hard_state()
        };
        log.set_hard_state(committed).await.expect("it is there");
    }
    log.close().await.expect("nothing fails now");
}

#[test]
fn a_follower_with_another_log_stops_and_never_its_leader() {
    for seed in 0..3 {
        let mut cluster = Cluster::new(seed);
        let world = Rc::clone(&cluster.world);
        world.block_on(async {
            assert!(goes_on(&cluster, 30).await);
            let leads = cluster.leader().expect("somebody has worked");
            let other = (leads + 1) % 3;
            world.crash(cluster.machines[other]);
            world.replace_disk(cluster.machines[other]);
            cluster.judge.lock().lose_disk(other as u64 + 1);
            let made = world.spawn(cluster.machines[other], another_log(Term(1), true));
            made.await.expect("nothing crashes now");
            let term = cluster.node_status(leads).expect("it runs").term;
            cluster.restart(other);
            for _ in 0..500 {
                world.wait(milliseconds(10)).await;
                if cluster.has_objections() {
                    break;
                }
            }
            assert!(goes_on(&cluster, 30).await);
            let node_status = cluster.node_status(leads).expect("it runs");
            assert_eq!((node_status.term, node_status.failure), (term, None));
            let objections = cluster.judge.lock().objections();
            let of_it = format!("node {}", other + 1);
            let others = objections.iter().filter(|words| !words.contains(&of_it));
            assert_eq!(others.count(), 0, "{objections:?}");
            let stopped = format!("{of_it} stopped: the leader has another entry");
            let has_stopped = |words: &String| words.starts_with(&stopped);
            assert!(objections.iter().any(has_stopped), "{objections:?}");
        });
    }
}

/// A leader and one follower have entries that another follower lacks. Of the two that have
/// them, one loses its disk and joins under its old id, and the other loses its power; the
/// third keeps running. Then the lost node is replaced under another id.
fn lost(seed: u64) -> Vec<String> {
    let mut cluster = Cluster::new(seed);
    let world = Rc::clone(&cluster.world);
    let judged = world.block_on(async {
        work(&cluster).await;
        let leads = leader(&cluster).await;
        let (lost, lacks) = ((leads + 1) % 3, (leads + 2) % 3);
        cluster.cut_off(lacks, true);
        assert!(goes_on(&cluster, 20).await);
        world.crash(cluster.machines[leads]);
        world.crash(cluster.machines[lost]);
        // Messages on their way to it are lost with their senders.
        for gone in [leads, lost] {
            let (gone, lacks) = (cluster.machines[gone], cluster.machines[lacks]);
            world.break_connections(gone, lacks);
        }
        cluster.cut_off(lacks, false);
        cluster.restart_empty(lost);
        world.wait(milliseconds(3000)).await;
        if cluster.has_objections() {
            return None;
        }
        let alone = cluster.node_status(lacks).expect("it runs");
        if alone.leader.is_some() {
            let mut judge = cluster.judge.lock();
            judge.object("a node leads by a vote that it did not have".to_owned());
            return None;
        }
        cluster.restart(leads);
        work(&cluster).await;
        let now = status(&cluster, leader(&cluster).await).await;
        let Link::Absent { reason, .. } = &now.members[lost].link else {
            panic!("{now:?}");
        };
        assert!(
            reason.contains("what it had acknowledged is lost"),
            "{reason}"
        );
        remove(&cluster, lost as u64 + 1).await;
        // Long enough for so much log that a checkpoint is sent.
        world.wait(milliseconds(8000)).await;
        let id = cluster.join();
        add(&cluster, id).await;
        let now = status(&cluster, leader(&cluster).await).await;
        let all = [leads as u64 + 1, lacks as u64 + 1, id];
        assert!(all.iter().all(|id| voters(&now).contains(id)), "{now:?}");
        // The node votes, and the others count on it.
        world.kill(cluster.machines[leads]);
        work(&cluster).await;
        cluster.restart(leads);
        let meets = |cluster: &Cluster| cluster.node_status(leads)?.leader;
        until(&cluster, "it is back", meets).await;
        converge(&cluster).await;
        if !cluster.has_objections() {
            cluster.stop().await;
        }
        Some([leads, lacks, 3])
    });
    if let Some(machines) = judged {
        compare(&cluster, &machines);
    }
    cluster.judge.lock().objections()
}

#[test]
fn who_has_lost_its_disk_has_no_vote_and_comes_back_under_another_id() {
    for seed in 0..3 {
        assert_eq!(lost(seed), [""; 0], "seed {seed}");
    }
    let planted = plant(Bug::TrustNewcomers);
    let found = lost(0);
    drop(planted);
    assert!(
        found
            .iter()
            .any(|words| words.contains("leader completeness")),
        "{found:?}"
    );
}
