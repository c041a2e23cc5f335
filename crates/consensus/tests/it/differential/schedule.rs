//! Schedules, generated from a seed.

use std::collections::BTreeSet;

use coeval_consensus::{Change, NodeId};

use super::weather::{Chance, Way};
use super::{ELECTION_TICKS, Groups, Player, reaches};

/// One step of a schedule.
#[derive(Clone, Debug)]
pub enum ScheduleStep {
    /// Partitions the nodes into groups. Serving nodes without a new connection may be asked at
    /// that moment how far a read must see. Leaders among the others get the time to notice
    /// that a checkpoint was lost.
    Part {
        groups: Groups,
        hear_more: BTreeSet<u64>,
        reads: bool,
    },
    /// All other nodes forget their leader, then this node campaigns. Meanwhile some links drop
    /// packets, and the others deliver them at various speeds.
    Elect {
        node: u64,
        lost: BTreeSet<Way>,
        mixed: u64,
    },
    /// This node campaigns, whatever the other nodes have heard.
    Stand(u64),
    /// Proposes a payload to this node, if it serves.
    Propose(u64, Vec<u8>),
    /// If this node serves and reaches a majority, proposes these payloads while packets are
    /// lost, delayed, repeated and out of order, and while this follower crashes and restarts.
    Storm {
        node: u64,
        payloads: Vec<Vec<u8>>,
        restarts: Option<u64>,
        seed: u64,
    },
    /// If this node serves, it changes the membership.
    Change(u64, Change),
    /// If this node serves and reaches a majority, proposes these payloads, which do not reach
    /// another node, and then asks it to transfer leadership to that one.
    Transfer {
        node: u64,
        to: u64,
        behind: Vec<Vec<u8>>,
    },
    /// If this node serves, it is asked how far a read must see.
    Read(u64),
    /// Ticks all leaders this many times.
    Tick(u32),
    /// A node crashes and restarts.
    Restart(u64),
    /// A node replaces its committed log by a checkpoint.
    Compact(u64),
}

/// The nodes, and their connections.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Nodes that are members, or may become members.
    pub nodes: Vec<u64>,
    /// Nodes that were removed. They still answer requests.
    pub removed: Vec<u64>,
    pub groups: Groups,
}

/// Chooses the next step: mostly proposals to leaders, while there are any.
pub fn next(chance: &mut Chance, scene: &Scene, player: &dyn Player) -> ScheduleStep {
    let views: Vec<_> = scene
        .nodes
        .iter()
        .map(|node| (*node, player.look(*node)))
        .collect();
    let having = |what: &dyn Fn(u64, &super::Node) -> bool| -> Vec<u64> {
        let views = views.iter().filter(|(node, view)| what(*node, view));
        views.map(|(node, _)| *node).collect()
    };
    let voters = having(&|node, view| view.voters.contains(&node));
    let leaders = having(&|_, view| view.role.leads);
    let serving = having(&|_, view| view.role.serves);
    let any = chance.pick(&scene.nodes).expect("nodes");
    let voter = chance.pick(&voters).expect("voters");
    let elect = |chance: &mut Chance| ScheduleStep::Elect {
        node: voter,
        lost: lost_ways(chance, &scene.nodes),
        mixed: chance.below(u64::MAX),
    };
    let Some(leader) = chance.pick(&leaders) else {
        return match chance.below(4) {
            0 => part(chance, scene),
            _ => elect(chance),
        };
    };
    let serving = chance.pick(&serving).unwrap_or(leader);
    match chance.below(28) {
        0..3 => part(chance, scene),
        3..6 => elect(chance),
        6 => ScheduleStep::Stand(voter),
        7..9 => ScheduleStep::Restart(any),
        9 => ScheduleStep::Tick(ELECTION_TICKS),
        10 => ScheduleStep::Tick(1 + chance.below(4) as u32),
        11 => ScheduleStep::Compact(any),
        12 => ScheduleStep::Compact(leader),
        13..16 => ScheduleStep::Read(leader),
        16..18 if decides(scene, serving, &player.look(serving).voters) => ScheduleStep::Transfer {
            node: serving,
            to: any,
            behind: payloads(chance, 3),
        },
        18..22 => match change(chance, scene, player, serving) {
            Some(change) => ScheduleStep::Change(serving, change),
            None => ScheduleStep::Read(leader),
        },
        22..25 if decides(scene, serving, &player.look(serving).voters) => {
            let followers = having(&|_, view| !view.role.leads);
            let restarts = chance.pick(&followers).filter(|_| chance.one_in(3));
            ScheduleStep::Storm {
                node: serving,
                payloads: payloads(chance, 6),
                restarts,
                seed: chance.below(u64::MAX),
            }
        }
        _ => ScheduleStep::Propose(leader, payload(chance)),
    }
}

fn payload(chance: &mut Chance) -> Vec<u8> {
    chance.below(1000).to_string().into_bytes()
}

fn payloads(chance: &mut Chance, limit: u64) -> Vec<Vec<u8>> {
    let count = chance.below(limit + 1);
    (0..count).map(|_| payload(chance)).collect()
}

fn part(chance: &mut Chance, scene: &Scene) -> ScheduleStep {
    let mut groups: Groups = vec![BTreeSet::new(), BTreeSet::new()];
    let together = chance.one_in(2);
    for node in scene.nodes.iter().chain(&scene.removed) {
        let group = if together {
            0
        } else {
            chance.below(2) as usize
        };
        groups[group].insert(*node);
    }
    parting(scene, groups, chance.one_in(2))
}

/// The step that partitions the nodes into these groups.
pub fn parting(scene: &Scene, groups: Groups, reads: bool) -> ScheduleStep {
    let hears_more = |node: &u64| {
        let hears =
            |other: &u64| reaches(&groups, *other, *node) && !reaches(&scene.groups, *other, *node);
        scene.nodes.iter().any(hears)
    };
    let nodes = scene.nodes.iter().copied();
    let hear_more = nodes.filter(hears_more).collect();
    ScheduleStep::Part {
        groups,
        hear_more,
        reads,
    }
}

/// Links on which packets are lost in a step; mostly none.
fn lost_ways(chance: &mut Chance, nodes: &[u64]) -> BTreeSet<Way> {
    if !chance.one_in(3) {
        return BTreeSet::new();
    }
    let ways = nodes
        .iter()
        .flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
    ways.filter(|_| chance.one_in(4)).collect()
}

/// A valid change that leaves the leader its vote and at least two voters, and that the leader
/// can commit at once.
fn change(chance: &mut Chance, scene: &Scene, player: &dyn Player, leader: u64) -> Option<Change> {
    let view = player.look(leader);
    let node = chance.pick(&scene.nodes)?;
    let (is_voter, is_learner) = (view.voters.contains(&node), view.learners.contains(&node));
    let mut voters = view.voters.clone();
    let change = match chance.below(3) {
        0 if !is_learner => Change::Learner(NodeId(node)),
        1 if is_voter || is_learner => Change::Remove(NodeId(node)),
        2 if !is_voter => Change::Voter(NodeId(node)),
        _ => return None,
    };
    match change {
        Change::Voter(_) => voters.insert(node),
        _ => voters.remove(&node),
    };
    let is_decided = decides(scene, leader, &view.voters) && decides(scene, leader, &voters);
    (node != leader && voters.len() >= 2 && is_decided).then_some(change)
}

/// Whether a leader reaches a majority of these voters.
fn decides(scene: &Scene, leader: u64, voters: &BTreeSet<u64>) -> bool {
    let heard = voters
        .iter()
        .filter(|voter| reaches(&scene.groups, leader, **voter));
    heard.count() > voters.len() / 2
}
