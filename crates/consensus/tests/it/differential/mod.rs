//! The same schedules, played by this crate and by raft-rs: the same node leads in the
//! same term, and all nodes have the same logs and commit points.
//!
//! The common part: elections with preliminary votes and leaders that step down without
//! a majority, replication, tails that are replaced, nodes that are cut off, parted,
//! crash and come back. What is on its way is delivered until nothing is left, between
//! those that reach each other, before anything is compared: how a follower finds out
//! what it lacks takes other messages here than there (FRS; a hint and a walk back).
//!
//! A mark is compared with the empty entry that a leader of raft-rs begins its term with.
//! Its followers' patience is fixed; here it is drawn, so a schedule says who stands.

mod ours;
mod schedule;
mod theirs;

use std::collections::BTreeSet;

use schedule::{Chance, Step, next};

/// How long a voter holds its vote back after it has heard of a leader.
const ELECTION_TICKS: u32 = 10;

/// Nodes that reach each other: groups, each node in one.
type Groups = Vec<BTreeSet<u64>>;

/// What can be seen of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    term: u64,
    leads: bool,
    /// Term and payload of each entry.
    log: Vec<(u64, Vec<u8>)>,
    commit: u64,
}

/// A cluster that can be told what to do.
trait Player {
    /// Only nodes of one group hear each other from now on.
    fn part(&mut self, groups: &Groups);
    /// A node hears nothing for so long that it would vote for somebody.
    fn forget_leader(&mut self, node: u64);
    /// A node's patience ends.
    fn stand(&mut self, node: u64);
    /// Ticks of a node that leads.
    fn tick_leader(&mut self, node: u64, ticks: u32);
    /// Whether it leads and has committed something of its term.
    fn serves(&self, node: u64) -> bool;
    fn propose(&mut self, node: u64, payload: &[u8]);
    fn restart(&mut self, node: u64);
    /// Everything that is on its way arrives, if it can.
    fn settle(&mut self);
    fn look(&self, node: u64) -> Node;
}

fn reaches(groups: &Groups, from: u64, to: u64) -> bool {
    groups
        .iter()
        .any(|group| group.contains(&from) && group.contains(&to))
}

fn carry_out(player: &mut dyn Player, step: &Step, nodes: u64) {
    match step {
        Step::Part(groups) => player.part(groups),
        Step::Elect(node) => {
            for other in 1..=nodes {
                if other != *node && !player.look(other).leads {
                    player.forget_leader(other);
                }
            }
            player.stand(*node);
        }
        Step::Stand(node) => player.stand(*node),
        Step::Propose(node, payload) => {
            if player.serves(*node) {
                player.propose(*node, payload);
            }
        }
        Step::Tick(ticks) => {
            for node in 1..=nodes {
                if player.look(node).leads {
                    player.tick_leader(node, *ticks);
                }
            }
        }
        Step::Restart(node) => player.restart(*node),
    }
    player.settle();
    // A heartbeat says what is committed, and finds what was lost.
    for node in 1..=nodes {
        if player.look(node).leads {
            player.tick_leader(node, 1);
        }
    }
    player.settle();
}

/// Plays one schedule on both. How many entries were committed, and how many terms begun.
fn compare(nodes: u64, seed: u64, steps: u32) -> (u64, u64) {
    let mut chance = Chance(seed);
    let mut ours = ours::Ours::new(nodes, seed);
    let mut theirs = theirs::Theirs::new(nodes);
    let mut groups: Groups = vec![(1..=nodes).collect()];
    let mut told: Vec<Step> = Vec::new();
    for _ in 0..steps {
        let step = next(&mut chance, nodes, &ours);
        if let Step::Part(new) = &step {
            groups.clone_from(new);
        }
        told.push(step.clone());
        carry_out(&mut ours, &step, nodes);
        carry_out(&mut theirs, &step, nodes);
        for node in 1..=nodes {
            let (mut here, mut there) = (ours.look(node), theirs.look(node));
            let is_led = (1..=nodes).any(|leader| {
                let leads = ours.look(leader);
                leads.leads && leads.term == here.term && reaches(&groups, leader, node)
            });
            if !is_led {
                // Here a commit point is kept when something else is; there always.
                here.commit = 0;
                there.commit = 0;
            }
            assert_eq!(
                here, there,
                "node {node} of {nodes}, seed {seed}: left this crate, right raft-rs, after {told:#?}"
            );
        }
    }
    let last: Vec<Node> = (1..=nodes).map(|node| ours.look(node)).collect();
    let committed = last.iter().map(|node| node.commit).max();
    let terms = last.iter().map(|node| node.term).max();
    (committed.unwrap_or(0), terms.unwrap_or(0))
}

#[test]
fn schedules_end_alike() {
    let (mut committed, mut terms) = (0, 0);
    for (nodes, seeds) in [(3, 0..60), (5, 100..140)] {
        for seed in seeds {
            let (more, higher) = compare(nodes, seed, 60);
            committed += more;
            terms += higher;
        }
    }
    assert!(
        committed > 1000 && terms > 300,
        "{committed} entries in {terms} terms are too few to say anything"
    );
}
