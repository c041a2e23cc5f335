//! This crate, as a player.

use bytes::Bytes;
use coeval_consensus::{Body, Content, Membership, NodeId, Role, Settings, Spacing};

use super::{ELECTION_TICKS, Groups, Node, Player, reaches};
use crate::cluster::{Cluster, Packet};

pub struct Ours {
    cluster: Cluster,
    groups: Groups,
}

impl Ours {
    pub fn new(nodes: u64, seed: u64) -> Self {
        let members = Membership::new((1..=nodes).map(NodeId), []);
        let settings = Settings {
            election_ticks: ELECTION_TICKS,
            heartbeat_ticks: 1,
            spacing: Spacing::Entries,
            ..Settings::default()
        };
        Self {
            cluster: Cluster::new(&members, &[], settings, seed),
            groups: vec![(1..=nodes).collect()],
        }
    }

    fn tick(&mut self, node: u64) {
        let ready = self.cluster.tick(NodeId(node));
        ready.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

impl Player for Ours {
    fn part(&mut self, groups: &Groups) {
        self.groups.clone_from(groups);
    }

    fn forget_leader(&mut self, node: u64) {
        for _ in 0..ELECTION_TICKS {
            self.tick(node);
        }
        // Should its patience have ended already, nobody hears of it.
        self.cluster.packets.clear();
    }

    fn stand(&mut self, node: u64) {
        if self.look(node).leads {
            return;
        }
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

    fn tick_leader(&mut self, node: u64, ticks: u32) {
        for _ in 0..ticks {
            self.tick(node);
            self.settle();
            if !self.look(node).leads {
                return;
            }
        }
    }

    fn serves(&self, node: u64) -> bool {
        self.cluster.machines[&NodeId(node)].role.role == Role::Leader { serving: true }
    }

    fn propose(&mut self, node: u64, payload: &[u8]) {
        if let Some(consensus) = self.cluster.node(NodeId(node)) {
            let result = consensus.propose(Bytes::copy_from_slice(payload));
            result.unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        let ready = self.cluster.take(NodeId(node));
        ready.unwrap_or_else(|failure| panic!("{failure}"));
    }

    fn restart(&mut self, node: u64) {
        let node = NodeId(node);
        self.cluster
            .packets
            .retain(|packet| packet.from() != node && packet.to() != node);
        let result = self.cluster.crash(node, usize::MAX, 0);
        let result = result.and_then(|()| self.cluster.start(node, false));
        let result = result.and_then(|()| self.cluster.take(node));
        result.unwrap_or_else(|failure| panic!("{failure}"));
    }

    fn settle(&mut self) {
        loop {
            let packets = std::mem::take(&mut self.cluster.packets);
            let mut idle = packets.is_empty();
            for packet in packets {
                if reaches(&self.groups, packet.from().0, packet.to().0) {
                    let ready = self.cluster.deliver(packet);
                    ready.unwrap_or_else(|failure| panic!("{failure}"));
                }
            }
            for node in self.cluster.names() {
                idle &= self.cluster.machine(node).writes.is_empty();
                let ready = self.cluster.persist(node, usize::MAX);
                ready.unwrap_or_else(|failure| panic!("{failure}"));
            }
            if idle {
                return;
            }
        }
    }

    fn look(&self, node: u64) -> Node {
        let machine = &self.cluster.machines[&NodeId(node)];
        let status = machine.node.as_ref().expect("it was restarted").status();
        let log = machine.disk.entries.iter().map(|entry| {
            let payload = match &entry.content {
                Content::Payload(payload) => payload.to_vec(),
                Content::Mark(_) | Content::Membership(_) => Vec::new(),
            };
            (u64::from(entry.term.0), payload)
        });
        Node {
            term: status.role.term.0.into(),
            leads: matches!(status.role.role, Role::Leader { .. }),
            log: log.collect(),
            commit: status.commit.0,
        }
    }
}
