//! How a step is carried out, by either player.

use std::collections::BTreeSet;

use super::schedule::ScheduleStep;
use super::weather::{Chance, Weather};
use super::{ELECTION_TICKS, Player};

/// Rounds of messages after which a cluster must have settled.
const ROUNDS: usize = 1000;

/// Carries out a step among these nodes. Reads are numbered from `read` on. Returns which
/// proposals were accepted.
pub fn carry_out(
    player: &mut dyn Player,
    step: &ScheduleStep,
    nodes: &[u64],
    read: u64,
) -> Vec<bool> {
    let mut taken = Vec::new();
    match step {
        ScheduleStep::Part {
            groups,
            hear_more,
            reads,
        } => {
            player.part(groups);
            for node in nodes {
                if *reads && !hear_more.contains(node) && player.role(*node).serves {
                    player.read(*node, read + node);
                }
            }
            settle(player, &mut Weather::Fair);
            for node in hear_more {
                if player.role(*node).leads {
                    tick_leader(player, *node, ELECTION_TICKS);
                }
            }
        }
        ScheduleStep::Elect { node, lost, mixed } => {
            for other in nodes {
                if other != node && !player.role(*other).leads {
                    player.forget_leader(*other);
                }
            }
            player.lose(lost);
            stand(player, *node);
            settle(player, &mut Weather::Mixed(*mixed));
            player.lose(&BTreeSet::new());
            miss_answers(player, nodes);
        }
        ScheduleStep::Stand(node) => stand(player, *node),
        ScheduleStep::Propose(node, payload) => taken.push(propose(player, *node, payload)),
        ScheduleStep::Storm {
            node,
            payloads,
            restarts,
            seed,
        } => {
            let mut weather = Weather::Storm(Chance(*seed));
            for (at, payload) in payloads.iter().enumerate() {
                taken.push(propose(player, *node, payload));
                player.deliver(&mut weather, 3);
                if at == 2
                    && let Some(follower) = restarts
                {
                    player.restart(*follower);
                }
                if at % 2 == 0 && player.role(*node).leads {
                    player.tick(*node);
                }
            }
            settle(player, &mut Weather::Fair);
            miss_answers(player, nodes);
        }
        ScheduleStep::Change(node, change) => {
            if player.role(*node).serves {
                player.change(*node, *change);
            }
        }
        ScheduleStep::Transfer { node, to, behind } => {
            player.lose(&BTreeSet::from([(*node, *to)]));
            for payload in behind {
                taken.push(propose(player, *node, payload));
                settle(player, &mut Weather::Fair);
            }
            player.lose(&BTreeSet::new());
            transfer(player, *node, *to, &mut taken);
        }
        ScheduleStep::Read(node) => {
            if player.role(*node).serves {
                player.read(*node, read);
            }
        }
        ScheduleStep::Tick(ticks) => {
            for node in nodes {
                if player.role(*node).leads {
                    tick_leader(player, *node, *ticks);
                }
            }
        }
        ScheduleStep::Restart(node) => player.restart(*node),
        ScheduleStep::Compact(node) => player.compact(*node),
    }
    settle(player, &mut Weather::Fair);
    // A heartbeat carries the commit index, and detects lost entries.
    for node in nodes {
        if player.role(*node).leads {
            player.tick(*node);
        }
    }
    settle(player, &mut Weather::Fair);
    taken
}

/// Lets followers notice that the answers to their requests were lost.
fn miss_answers(player: &mut dyn Player, nodes: &[u64]) {
    let leaders = nodes.iter().filter(|node| player.role(**node).leads);
    let leaders: Vec<u64> = leaders.copied().collect();
    for leader in leaders {
        tick_leader(player, leader, 1);
        let term = player.role(leader).term;
        if !player.role(leader).leads {
            continue;
        }
        for node in nodes {
            let role = player.role(*node);
            if player.hears(*node, leader) && role.term == term && !role.leads {
                (0..ELECTION_TICKS - 1).for_each(|_| player.tick(*node));
            }
        }
    }
}

fn settle(player: &mut dyn Player, weather: &mut Weather) {
    assert!(player.deliver(weather, ROUNDS), "nodes talk for ever");
}

fn stand(player: &mut dyn Player, node: u64) {
    let view = player.look(node);
    if !view.role.leads && view.voters.contains(&node) {
        player.stand(node);
    }
}

/// Proposes to a node, and returns whether it serves and accepted the payload.
fn propose(player: &mut dyn Player, node: u64, payload: &[u8]) -> bool {
    player.role(node).serves && player.propose(node, payload)
}

fn tick_leader(player: &mut dyn Player, node: u64, ticks: u32) {
    for _ in 0..ticks {
        if !player.role(node).leads {
            return;
        }
        player.tick(node);
        settle(player, &mut Weather::Fair);
    }
}

/// Transfers leadership. For a successor that cannot be reached the leader waits in vain,
/// and accepts no proposals meanwhile.
fn transfer(player: &mut dyn Player, node: u64, to: u64, taken: &mut Vec<bool>) {
    if !player.role(node).serves {
        return;
    }
    let ticks = player.ticks_of_transfer(node);
    player.transfer(node, to);
    settle(player, &mut Weather::Fair);
    player.tick(node);
    settle(player, &mut Weather::Fair);
    let view = player.look(node);
    if view.role.leads && view.voters.contains(&to) && to != node {
        taken.push(propose(player, node, b"meanwhile"));
        tick_leader(player, node, ticks - 1);
    }
    taken.push(propose(player, node, b"afterwards"));
}
