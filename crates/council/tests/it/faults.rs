//! Random faults: kills, lost power, cut links, at any moment.

use std::collections::BTreeMap;
use std::time::Duration;

use coeval_council::NodeId;
use coeval_types::planted::{Bug, plant};

use crate::world::{Cluster, Shown};

/// A small generator for the plan of a run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Runs a cluster of this many nodes under faults. Returns the objections, the answered
/// proposals, and how often a snapshot was restored.
fn run(seed: u64, nodes: u64, steps: usize) -> (Vec<String>, usize, u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut cluster = Cluster::new(seed, nodes);
    cluster.snapshot_every = if seed.is_multiple_of(2) {
        4 << 10
    } else {
        64 << 10
    };
    let mut up: BTreeMap<NodeId, Shown> = BTreeMap::new();
    for node in (1..=nodes).map(NodeId) {
        up.insert(node, cluster.start(node, true));
    }
    for _ in 0..steps {
        let pause = Duration::from_millis(20 + chance.below(400));
        let world = &cluster.world;
        world.block_on(world.wait(pause));
        let node = NodeId(1 + chance.below(nodes));
        let machine = cluster.machines[&node];
        let other = cluster.machines[&NodeId(1 + chance.below(nodes))];
        match chance.below(8) {
            0 => {
                cluster.world.kill(machine);
                up.remove(&node);
            }
            1 => {
                cluster.world.crash(machine);
                up.remove(&node);
            }
            2 => cluster.world.block(machine, other),
            3 => {
                for other in cluster.machines.values() {
                    cluster.world.block(machine, *other);
                    cluster.world.block(*other, machine);
                }
            }
            4 => {
                for one in cluster.machines.values() {
                    for other in cluster.machines.values() {
                        cluster.world.unblock(*one, *other);
                    }
                }
            }
            5 => cluster.world.break_connections(machine, other),
            6 if chance.below(4) == 0 => {
                for (node, machine) in cluster.machines.clone() {
                    cluster.world.crash(machine);
                    up.remove(&node);
                }
            }
            _ => {
                let down = (1..=nodes).map(NodeId);
                let down: Vec<NodeId> = down.filter(|node| !up.contains_key(node)).collect();
                for node in down {
                    up.insert(node, cluster.start(node, true));
                }
            }
        }
        if !cluster.judge.seen().objections.is_empty() {
            break;
        }
    }
    let machines = cluster.machines.clone();
    for one in machines.values() {
        for other in machines.values() {
            cluster.world.unblock(*one, *other);
        }
    }
    // From here on no client proposes, so that the nodes can come to one state.
    for (node, machine) in &machines {
        cluster.world.kill(*machine);
        up.insert(*node, cluster.start(*node, false));
    }
    if cluster.judge.seen().objections.is_empty() {
        match cluster.agree(&up) {
            Some(state) => cluster.judge.settle(&state),
            None => {
                let what = "the nodes do not agree within a minute".to_owned();
                cluster.judge.seen().objections.push(what);
            }
        }
    }
    let seen = cluster.judge.seen();
    (seen.objections.clone(), seen.kept.len(), seen.restored)
}

#[test]
fn nothing_answered_is_lost_whatever_fails() {
    let (mut kept, mut restored) = (0, 0);
    for seed in 1..=8 {
        let nodes = if seed % 4 == 0 { 5 } else { 3 };
        let (objections, answered, snapshots) = run(seed, nodes, 25);
        assert!(objections.is_empty(), "seed {seed}: {objections:?}");
        kept += answered;
        restored += snapshots;
    }
    assert!(kept > 400, "only {kept} proposals were answered");
    assert!(restored > 8, "only {restored} snapshots were restored");
}

/// The judge has teeth: a leader that counts one node less than a majority is found.
#[test]
fn a_commit_without_a_majority_is_found() {
    let bug = plant(Bug::CommitWithoutMajority).expect("a build with bugs");
    let found = (1..20).find_map(|seed| run(seed, 3, 25).0.into_iter().next());
    drop(bug);
    let found = found.expect("no run finds it");
    assert!(found.contains("commit by a majority"), "{found}");
}
