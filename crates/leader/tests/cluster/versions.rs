//! The cluster version: when it rises, what it lets in, and what keeps it.

use std::rc::Rc;

use coeval_leader::node::{NEWEST_VERSION, Status};
use coeval_types::planted::{Bug, plant};

use crate::changes::{add, leader, status, until, work};
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
        let mut cluster = founded(seed, [NEWEST_VERSION, 1, NEWEST_VERSION]);
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
            cluster.reads[1] = NEWEST_VERSION;
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

/// Byte 8 of CONTROL is the format version.
fn format(cluster: &Cluster, index: usize) -> u8 {
    let files = cluster.world.files(cluster.machines[index]);
    let control = files.iter().find(|(path, _)| path.ends_with("CONTROL"));
    control.expect("it has one").1[8]
}

/// Older programs are kept away by CONTROL before the log has what they do not read: a leader
/// that cannot write CONTROL does not raise the version, and goes on.
#[test]
fn the_version_stays_while_control_cannot_be_written() {
    let mut cluster = founded(7, [NEWEST_VERSION, 1, NEWEST_VERSION]);
    let world = Rc::clone(&cluster.world);
    world.block_on(async {
        work(&cluster).await;
        if cluster.leader() == Some(1) {
            world.kill(cluster.machines[1]);
            work(&cluster).await;
            cluster.restart(1);
        }
        work(&cluster).await;
        assert_eq!(now(&cluster).await.cluster_version, 1);
        let leads = leader(&cluster).await;
        let term = cluster.node_status(leads).expect("it runs").term;
        assert_ne!(leads, 1);
        // CONTROL is replaced by a new file: there is no room for one.
        world.kill(cluster.machines[1]);
        world.set_capacity(cluster.machines[leads], 0);
        cluster.reads[1] = NEWEST_VERSION;
        cluster.restart(1);
        let reads = |cluster: &Cluster| {
            let shown = cluster.node_status(1)?;
            (shown.leader == Some(coeval_peers::NodeId(leads as u64 + 1))).then_some(())
        };
        until(&cluster, "node 2 is back", reads).await;
        for _ in 0..100 {
            let members = status(&cluster, leads).await.members;
            if members
                .iter()
                .all(|member| member.reads == Some(NEWEST_VERSION))
            {
                break;
            }
            world.wait(std::time::Duration::from_millis(10)).await;
        }
        for _ in 0..10 {
            world.wait(std::time::Duration::from_millis(20)).await;
            let status = status(&cluster, leads).await;
            assert!(
                status
                    .members
                    .iter()
                    .all(|member| member.reads == Some(NEWEST_VERSION))
            );
            assert_eq!((status.term, status.cluster_version), (term, 1));
            assert_eq!(format(&cluster, leads), 3);
        }
        for index in 0..3 {
            world.set_capacity(cluster.machines[index], u64::MAX);
        }
        is_raised(&cluster).await;
        assert_eq!(format(&cluster, leader(&cluster).await), 4);
        converge(&cluster).await;
        cluster.stop().await;
    });
    compare(&cluster, &[0, 1, 2]);
    assert_eq!(cluster.judge.lock().objections(), [""; 0]);
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
