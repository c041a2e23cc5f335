//! This crate, as a player.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coeval_consensus::{Body, Change, Content, Membership, NodeId, Ready, Role, Settings, Spacing};

use super::weather::{Way, Weather};
use super::{ELECTION_TICKS, Groups, Node, Player, SPARE, What, reaches};
use crate::message_cluster::{Cluster, Failure, Packet};

pub struct Ours {
    cluster: Cluster,
    groups: Groups,
    lost: BTreeSet<Way>,
    answers: BTreeMap<u64, u64>,
    /// Ticks for which each node has led, since it was elected.
    led: BTreeMap<u64, u32>,
    checkpoints: usize,
}

impl Ours {
    pub fn new(voters: u64, seed: u64) -> Self {
        let members = Membership::new((1..=voters).map(NodeId), []);
        let spare: Vec<NodeId> = (voters + 1..=voters + SPARE).map(NodeId).collect();
        let settings = Settings {
            election_ticks: ELECTION_TICKS,
            heartbeat_ticks: 1,
            spacing: Spacing::Entries,
            ..Settings::default()
        };
        Self {
            cluster: Cluster::new(&members, &spare, settings, seed),
            groups: vec![(1..=voters + SPARE).collect()],
            lost: BTreeSet::new(),
            answers: BTreeMap::new(),
            led: BTreeMap::new(),
            checkpoints: 0,
        }
    }

    /// Number of checkpoints installed.
    pub fn checkpoints(&self) -> usize {
        self.checkpoints
    }

    fn note(&mut self, ready: Result<Ready, Failure>) {
        let ready = ready.unwrap_or_else(|failure| panic!("{failure}"));
        for answer in ready.reads {
            if let Ok(at) = answer.outcome {
                self.answers.insert(answer.context, at.0);
            }
        }
        let installed = ready.write.is_some_and(|write| write.install.is_some());
        self.checkpoints += usize::from(installed);
    }

    fn take(&mut self, node: u64) {
        let ready = self.cluster.take(NodeId(node));
        self.note(ready);
    }

    fn passes(&self, packet: &Packet) -> bool {
        let way = (packet.from().0, packet.to().0);
        let is_lost = way_of(packet).is_some_and(|way| self.lost.contains(&way));
        reaches(&self.groups, way.0, way.1) && !is_lost
    }
}

/// The link of a packet; `None` for checkpoints, whose transport is not lossy.
fn way_of(packet: &Packet) -> Option<Way> {
    match packet {
        Packet::Message(_) => Some((packet.from().0, packet.to().0)),
        Packet::Checkpoint { .. } => None,
    }
}

fn names(nodes: impl Iterator<Item = NodeId>) -> BTreeSet<u64> {
    nodes.map(|node| node.0).collect()
}

impl Player for Ours {
    fn part(&mut self, groups: &Groups) {
        self.groups.clone_from(groups);
    }

    fn lose(&mut self, ways: &BTreeSet<Way>) {
        self.lost.clone_from(ways);
    }

    fn forget_leader(&mut self, node: u64) {
        for _ in 0..ELECTION_TICKS {
            self.tick(node);
        }
        // If its election timeout has expired as well, its requests are dropped.
        self.cluster.packets.clear();
    }

    fn stand(&mut self, node: u64) {
        loop {
            self.tick(node);
            let asks = self.cluster.packets.iter().any(|packet| {
                matches!(packet, Packet::Message(message)
                    if matches!(message.body, Body::VoteRequest { .. }))
            });
            if asks {
                return;
            }
        }
    }

    fn tick(&mut self, node: u64) {
        let leads = self.role(node).leads;
        let led = self.led.entry(node).or_default();
        *led = if leads { *led + 1 } else { 0 };
        let ready = self.cluster.tick(NodeId(node));
        self.note(ready);
    }

    fn propose(&mut self, node: u64, payload: &[u8]) -> bool {
        let Some(consensus) = self.cluster.node(NodeId(node)) else {
            return false;
        };
        let result = consensus.propose(Bytes::copy_from_slice(payload));
        self.take(node);
        result.is_ok()
    }

    fn read(&mut self, node: u64, context: u64) {
        if let Some(consensus) = self.cluster.node(NodeId(node)) {
            let result = consensus.read(context);
            result.unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        self.take(node);
    }

    fn change(&mut self, node: u64, change: Change) {
        if let Some(consensus) = self.cluster.node(NodeId(node)) {
            let result = consensus.change_membership(change);
            result.unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        self.take(node);
    }

    fn transfer(&mut self, node: u64, to: u64) {
        if let Some(consensus) = self.cluster.node(NodeId(node)) {
            // Refused if the transfer makes no sense.
            let _ = consensus.transfer(NodeId(to));
        }
        self.take(node);
    }

    fn ticks_of_transfer(&self, node: u64) -> u32 {
        let led = self.led.get(&node).copied().unwrap_or(0);
        (led + ELECTION_TICKS).next_multiple_of(ELECTION_TICKS) - led
    }

    fn compact(&mut self, node: u64) {
        self.cluster.compact(NodeId(node));
    }

    fn restart(&mut self, node: u64) {
        let node = NodeId(node);
        self.cluster.packets.retain(|packet| {
            way_of(packet).is_none() || (packet.from() != node && packet.to() != node)
        });
        let result = self.cluster.crash(node, usize::MAX, 0);
        let result = result.and_then(|()| self.cluster.start(node, false));
        result.unwrap_or_else(|failure| panic!("{failure}"));
        self.take(node.0);
    }

    fn deliver(&mut self, weather: &mut Weather, rounds: usize) -> bool {
        for _ in 0..rounds {
            let mut packets = std::mem::take(&mut self.cluster.packets);
            packets.retain(|packet| self.passes(packet));
            let mut idle = packets.is_empty();
            let (now, later) = weather.sort(packets, way_of);
            for packet in now {
                let ready = self.cluster.deliver(packet);
                self.note(ready);
            }
            for node in self.cluster.names() {
                idle &= self.cluster.machine(node).writes.is_empty();
                let ready = self.cluster.persist(node, usize::MAX);
                self.note(ready);
            }
            if idle {
                return true;
            }
            self.cluster.packets.extend(later);
        }
        false
    }

    fn hears(&self, node: u64, other: u64) -> bool {
        reaches(&self.groups, other, node)
    }

    fn role(&self, node: u64) -> super::Role {
        let machine = &self.cluster.machines[&NodeId(node)];
        let role = machine.node.as_ref().expect("it was restarted").role();
        super::Role {
            term: role.term.0.into(),
            leads: matches!(role.role, Role::Leader { .. }),
            serves: role.role == Role::Leader { serving: true },
        }
    }

    fn look(&self, node: u64) -> Node {
        let machine = &self.cluster.machines[&NodeId(node)];
        let status = machine.node.as_ref().expect("it was restarted").status();
        let log = machine.disk.entries.iter().map(|entry| {
            let what = match &entry.content {
                Content::Payload(payload) => What::Payload(payload.to_vec()),
                Content::Mark(_) => What::Begins,
                Content::Membership(_) => What::Members,
            };
            (u64::from(entry.term.0), what)
        });
        Node {
            role: self.role(node),
            base: machine.disk.base.end.0,
            log: log.collect(),
            commit: status.commit.0,
            voters: names(status.membership.voters()),
            learners: names(status.membership.learners()),
        }
    }

    fn answers(&self) -> &BTreeMap<u64, u64> {
        &self.answers
    }
}
