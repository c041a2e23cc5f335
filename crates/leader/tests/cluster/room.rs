//! A leader whose disk is full: when it hands over, and when it does not.

use std::rc::Rc;
use std::time::Duration;

use coeval_leader::node::Cause;
use coeval_peers::NodeId;

use crate::changes::{leader, status, until, work};
use crate::nodes::Cluster;
use crate::runs::{compare, converge};

const UNLIMITED: u64 = u64::MAX;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A leader whose disk has just become full, as its log has noticed.
async fn filled(cluster: &Cluster) -> usize {
    work(cluster).await;
    let full = leader(cluster).await;
    cluster.judge.lock().may_end(full as u64 + 1);
    cluster.world.set_capacity(cluster.machines[full], 0);
    let notices = |cluster: &Cluster| {
        let engine = cluster.node_status(full)?.engine?;
        engine.log().full_reason().map(|_| ())
    };
    until(cluster, "its log is full", notices).await;
    full
}

/// Waits until a node other than this one leads, and clients have worked with it.
async fn hands_over(cluster: &Cluster, full: usize) {
    let another = |cluster: &Cluster| {
        let leads = cluster.leader().filter(|leads| *leads != full)?;
        cluster.node_status(leads)?.engine.map(|_| leads)
    };
    let leads = until(cluster, "another node leads", another).await;
    work(cluster).await;
    let elections = status(cluster, leads).await.elections;
    let last = elections.last().expect("it was elected");
    assert_eq!(last.leader, NodeId(leads as u64 + 1));
    assert_eq!(last.cause, Cause::DiskFull(NodeId(full as u64 + 1)));
}

/// Gives all disks room, and starts the one that may have ended anew.
async fn end(cluster: &mut Cluster, full: usize) {
    for machine in &cluster.machines {
        cluster.world.set_capacity(*machine, UNLIMITED);
    }
    cluster.world.kill(cluster.machines[full]);
    cluster.restart(full);
    work(cluster).await;
    converge(cluster).await;
    cluster.stop().await;
}

fn judge(cluster: &Cluster) {
    compare(cluster, &[0, 1, 2]);
    assert_eq!(cluster.judge.lock().objections(), [""; 0]);
}

#[test]
fn a_leader_whose_disk_is_full_hands_over_to_a_node_with_room() {
    for seed in 0..3 {
        let mut cluster = Cluster::new(seed);
        let world = Rc::clone(&cluster.world);
        world.block_on(async {
            let full = filled(&cluster).await;
            hands_over(&cluster, full).await;
            end(&mut cluster, full).await;
        });
        judge(&cluster);
    }
}

/// Of three disks two are full: whichever node leads, no majority could write.
async fn stays(cluster: &Cluster) -> (usize, usize) {
    let full = filled(cluster).await;
    // What was on its way is written by then, and the leader has not asked yet.
    cluster.world.wait(milliseconds(100)).await;
    let other = (full + 1) % 3;
    cluster.world.set_capacity(cluster.machines[other], 0);
    let before = cluster.node_status(full).expect("it runs").term;
    cluster.world.wait(milliseconds(5000)).await;
    let shown = cluster.node_status(full).expect("it runs");
    assert_eq!((leader(cluster).await, shown.term), (full, before));
    let engine = shown.engine.expect("it leads");
    assert!(engine.log().full_reason().is_some());
    (full, other)
}

#[test]
fn a_leader_whose_disk_is_full_stays_until_a_majority_has_room() {
    let mut cluster = Cluster::new(3);
    let world = Rc::clone(&cluster.world);
    world.block_on(async {
        let (full, other) = stays(&cluster).await;
        world.set_capacity(cluster.machines[other], UNLIMITED);
        hands_over(&cluster, full).await;
        end(&mut cluster, full).await;
    });
    judge(&cluster);
}

#[test]
fn a_leader_that_has_room_again_goes_on() {
    let mut cluster = Cluster::new(4);
    let world = Rc::clone(&cluster.world);
    world.block_on(async {
        let (full, _) = stays(&cluster).await;
        let before = cluster.node_status(full).expect("it runs").term;
        world.set_capacity(cluster.machines[full], UNLIMITED);
        work(&cluster).await;
        let shown = cluster.node_status(full).expect("it runs");
        assert_eq!((leader(&cluster).await, shown.term), (full, before));
        end(&mut cluster, full).await;
    });
    judge(&cluster);
}
