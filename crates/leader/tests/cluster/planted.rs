//! Planted bugs: known bugs injected into nodes, each in a run that must detect it.

use std::rc::Rc;
use std::time::Duration;

use coeval_leader::node::Role;
use coeval_peers::NodeId;
use coeval_types::Term;
use coeval_types::planted::{Bug, plant};

use crate::faults::Plan;
use crate::nodes::{Cluster, address};
use crate::runs::{compare, converge};

/// A run, and the violations that it reports.
type PlantedRun = fn(u64) -> Vec<String>;

/// The number of seeds it takes until a run detects the planted bug, while the same runs
/// without the bug report no violation.
fn found(bug: Bug, run: PlantedRun, limit: u64) -> u64 {
    for seed in 0..limit {
        let planted = plant(bug);
        let objections = run(seed);
        drop(planted);
        println!("{bug}, seed {seed}: {objections:?}");
        assert_eq!(run(seed), [""; 0], "seed {seed} without {bug}");
        if !objections.is_empty() {
            return 1 + seed;
        }
    }
    panic!("{bug} is not found by {limit} seeds");
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A cluster that has worked for a while, and its leader.
async fn at_work(cluster: &Cluster) -> Option<usize> {
    for _ in 0..500 {
        cluster.world.wait(milliseconds(10)).await;
        let leader = cluster.leader();
        if leader.is_some() && cluster.judge.lock().told().len() > 20 {
            return leader;
        }
    }
    None
}

fn term(cluster: &Cluster, index: usize) -> Term {
    let node_status = cluster.node_status(index);
    node_status.map_or(Term(0), |node_status| node_status.term)
}

fn leads(cluster: &Cluster, index: usize, after: Term) -> bool {
    let node_status = cluster.node_status(index);
    node_status.is_some_and(|now| now.role == Role::Leader && now.term > after)
}

fn cut_off(cluster: &Cluster, index: usize) {
    for other in (0..3).filter(|other| *other != index) {
        block(cluster, index, other);
        block(cluster, other, index);
    }
}

fn block(cluster: &Cluster, from: usize, to: usize) {
    cluster
        .world
        .block(cluster.machines[from], cluster.machines[to]);
}

fn unblock(cluster: &Cluster, from: usize, to: usize) {
    cluster
        .world
        .unblock(cluster.machines[from], cluster.machines[to]);
}

fn unblock_all(cluster: &Cluster) {
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            unblock(cluster, from, to);
        }
    }
}

/// A run of three nodes on links and disks that the seed decides.
fn run(seed: u64, story: impl AsyncFnOnce(&mut Cluster, usize)) -> Vec<String> {
    let mut cluster = Cluster::new(seed);
    Plan::new(seed).begin(&cluster);
    let world = Rc::clone(&cluster.world);
    world.block_on(async {
        let leader = at_work(&cluster).await.expect("nothing is wrong yet");
        story(&mut cluster, leader).await;
        unblock_all(&cluster);
        if !cluster.has_objections() {
            converge(&cluster).await;
        }
        if !cluster.has_objections() {
            cluster.stop().await;
        }
    });
    compare(&cluster, &[0, 1, 2]);
    let judge = cluster.judge.lock();
    judge.objections().to_vec()
}

/// A leader is cut off while it works; when the others have elected another, messages that
/// it had sent to one of them arrive.
fn late_words_of_a_leader(seed: u64) -> Vec<String> {
    run(seed, async |cluster, old| {
        let before = term(cluster, old);
        cut_off(cluster, old);
        let others = [(old + 1) % 3, (old + 2) % 3];
        for _ in 0..6000 {
            cluster.world.wait(Duration::from_micros(100)).await;
            let new = others.into_iter().find(|new| leads(cluster, *new, before));
            if let Some(new) = new {
                let follower = 3 - old - new;
                unblock(cluster, old, follower);
                break;
            }
        }
        cluster.world.wait(milliseconds(400)).await;
    })
}

/// The example in `recovery` of consensus: the leader of a term between two others leaves
/// nothing but its mark, where the leader before it, which leads once more, has another
/// entry of the same length: a change of members, after which it continues.
fn a_mark_that_nobody_knows(seed: u64) -> Vec<String> {
    run(seed, async |cluster, old| {
        let before = term(cluster, old);
        cluster.judge.lock().pause(true);
        cluster.world.wait(milliseconds(200)).await;
        cut_off(cluster, old);
        let end = cluster.node_status(old).map(|node_status| node_status.end);
        let Some(node) = cluster.node(old) else {
            return;
        };
        drop(cluster.world.spawn(cluster.machines[old], async move {
            // In doubt, for the node does not lead that long.
            let _ = node.add(NodeId(4), address(4)).await;
        }));
        for _ in 0..100 {
            cluster.world.wait(milliseconds(1)).await;
            if cluster.node_status(old).map(|node_status| node_status.end) != end {
                break;
            }
        }
        cluster.judge.lock().pause(false);
        let others = [(old + 1) % 3, (old + 2) % 3];
        // A node that is asked for a vote receives nothing more from the candidate.
        let mut short = None;
        for _ in 0..60_000 {
            cluster.world.wait(Duration::from_micros(20)).await;
            let asking = others
                .into_iter()
                .find(|node| term(cluster, *node) > before);
            if let Some(asking) = asking
                && short.is_none()
            {
                let asked = 3 - old - asking;
                if term(cluster, asked) > before {
                    break;
                }
                // Its vote request has been sent; its mark has not.
                short = Some(asking);
            }
            if let Some(asking) = short {
                let asked = 3 - old - asking;
                if term(cluster, asked) > before {
                    block(cluster, asking, asked);
                    break;
                }
            }
        }
        let Some(short) = short else {
            return;
        };
        cluster.world.wait(milliseconds(60)).await;
        cluster.world.kill(cluster.machines[short]);
        let asked = 3 - old - short;
        unblock(cluster, old, asked);
        unblock(cluster, asked, old);
        for _ in 0..500 {
            cluster.world.wait(milliseconds(10)).await;
            if leads(cluster, old, before) || leads(cluster, asked, before) {
                break;
            }
        }
        cluster.world.wait(milliseconds(300)).await;
        unblock_all(cluster);
        cluster.restart(short);
        cluster.world.wait(milliseconds(500)).await;
    })
}

/// A leader is cut off while clients only read there, from committed log, until the others
/// have had another leader for a while.
fn a_leader_that_is_cut_off(seed: u64) -> Vec<String> {
    run(seed, async |cluster, old| {
        let before = term(cluster, old);
        cluster.judge.lock().set_idle(Some(old as u64 + 1));
        cluster.world.wait(milliseconds(300)).await;
        cut_off(cluster, old);
        for _ in 0..100 {
            cluster.world.wait(milliseconds(10)).await;
            if (0..3).any(|new| leads(cluster, new, before)) {
                break;
            }
        }
        cluster.world.wait(milliseconds(400)).await;
        cluster.judge.lock().set_idle(None);
    })
}

#[test]
fn answers_of_a_leader_that_is_none_any_more_are_found() {
    found(Bug::AnswerUnconfirmed, a_leader_that_is_cut_off, 16);
}

#[test]
fn words_of_a_term_that_is_over_are_found_to_be_taken() {
    found(Bug::AcknowledgeStaleTerm, late_words_of_a_leader, 8);
}

#[test]
fn marks_at_the_end_are_found_to_be_believed() {
    found(Bug::BelieveTrailingMarks, a_mark_that_nobody_knows, 8);
}
