//! The cluster version: when it rises, what it lets in, and what keeps it.

use std::rc::Rc;

use coeval_leader::node::{NEWEST_VERSION, Status};
use coeval_types::planted::{Bug, plant};

use crate::changes::{add, leader, status, work};
use crate::nodes::Cluster;
use crate::runs::{compare, converge};

/// A cluster as earlier builds have founded it, whose nodes read these versions.
fn founded(seed: u64, reads: [u32; 3]) -> Cluster {
    let mut cluster = Cluster::prepared(seed);
    cluster.reads = reads.into();
    cluster.start_all();
    cluster
}

async fn now(cluster: &Cluster) -> Status {
    status(cluster, leader(cluster).await).await
}

/// Waits until the cluster is at its newest version, and knows every member's directory.
pub async fn is_raised(cluster: &Cluster) -> Status {
    for _ in 0..600 {
        let now = now(cluster).await;
        let is_named = now.members.iter().all(|member| member.directory.is_some());
        if now.cluster_version == NEWEST_VERSION && is_named {
            return now;
        }
        cluster
            .world
            .wait(std::time::Duration::from_millis(50))
            .await;
    }
    panic!("the version does not rise: {:?}", now(cluster).await);
}

#[test]
fn the_version_rises_once_the_last_member_reads_it() {
    for seed in 0..2 {
        let mut cluster = founded(seed, [2, 1, 2]);
        let world = Rc::clone(&cluster.world);
        world.block_on(async {
            work(&cluster).await;
            work(&cluster).await;
            let before = now(&cluster).await;
            assert_eq!(before.cluster_version, 1);
            let reads = before.members.iter().map(|member| member.reads);
            let held = reads.enumerate().filter(|(_, reads)| *reads == Some(1));
            assert_eq!(held.map(|(index, _)| index).collect::<Vec<_>>(), [1]);
            world.kill(cluster.machines[1]);
            cluster.reads[1] = 2;
            cluster.restart(1);
            let raised = is_raised(&cluster).await;
            // It outlives a leader, and every node's restart.
            for index in 0..3 {
                world.kill(cluster.machines[index]);
                cluster.restart(index);
                work(&cluster).await;
            }
            let again = is_raised(&cluster).await;
            for (before, again) in raised.members.iter().zip(&again.members) {
                assert_eq!(before.directory, again.directory);
            }
            let id = cluster.join();
            add(&cluster, id).await;
            let grown = is_raised(&cluster).await;
            assert_eq!(grown.members.len(), 4);
            converge(&cluster).await;
            cluster.stop().await;
        });
        compare(&cluster, &[0, 1, 2, 3]);
        assert_eq!(cluster.judge.lock().objections(), [""; 0], "seed {seed}");
    }
}

/// Two nodes read version 2, the third does not, and keeps the log that the others lack when
/// one of them is gone.
fn third_reads_less(seed: u64) -> Vec<String> {
    let cluster = founded(seed, [2, 2, 1]);
    let world = Rc::clone(&cluster.world);
    world.block_on(async {
        for _ in 0..60 {
            world.wait(std::time::Duration::from_millis(100)).await;
        }
        let Some(leads) = cluster.leader() else {
            return;
        };
        let gone = (leads + 1) % 3;
        let gone = if gone == 2 { (leads + 2) % 3 } else { gone };
        if leads != 2 {
            world.kill(cluster.machines[gone]);
        }
        // What was on its way is told by then.
        world.wait(std::time::Duration::from_secs(1)).await;
        converge(&cluster).await;
    });
    cluster.judge.lock().objections()
}

#[test]
fn a_member_that_does_not_read_the_next_version_holds_it_back() {
    for seed in 0..3 {
        assert_eq!(third_reads_less(seed), [""; 0], "seed {seed}");
    }
    let planted = plant(Bug::RaiseUnasked);
    let found = (0..3).any(|seed| !third_reads_less(seed).is_empty());
    drop(planted);
    assert!(
        found,
        "nothing is wrong with a version that one of the members does not read"
    );
}
