//! raft-rs, as a player.

use std::collections::BTreeMap;

use raft::prelude::{ConfState, Message, MessageType};
use raft::storage::MemStorage;
use raft::{Config, RawNode, StateRole};

use super::{ELECTION_TICKS, Groups, Node, Player, reaches};

pub struct Theirs {
    nodes: BTreeMap<u64, RawNode<MemStorage>>,
    packets: Vec<Message>,
    groups: Groups,
}

fn start(id: u64, storage: MemStorage) -> RawNode<MemStorage> {
    let ticks = ELECTION_TICKS as usize;
    let config = Config {
        id,
        election_tick: ticks,
        heartbeat_tick: 1,
        min_election_tick: 2 * ticks - 1,
        max_election_tick: 2 * ticks,
        check_quorum: true,
        pre_vote: true,
        max_size_per_msg: u64::MAX,
        max_inflight_msgs: 256,
        ..Config::default()
    };
    let quiet = slog::Logger::root(slog::Discard, slog::o!());
    RawNode::new(&config, storage, &quiet).expect("a sound configuration")
}

impl Theirs {
    pub fn new(nodes: u64) -> Self {
        let voters: Vec<u64> = (1..=nodes).collect();
        let begun = voters.iter().map(|id| {
            let members = ConfState::from((voters.clone(), Vec::new()));
            (*id, start(*id, MemStorage::new_with_conf_state(members)))
        });
        Self {
            nodes: begun.collect(),
            packets: Vec::new(),
            groups: vec![voters.iter().copied().collect()],
        }
    }

    fn node(&mut self, id: u64) -> &mut RawNode<MemStorage> {
        self.nodes.get_mut(&id).expect("a node of this cluster")
    }

    /// Carries out what a node hands out; a write is done at once.
    fn take(&mut self, id: u64) {
        let mut packets = Vec::new();
        let node = self.node(id);
        while node.has_ready() {
            let mut ready = node.ready();
            packets.extend(ready.take_messages());
            let storage = node.raft.raft_log.store.clone();
            storage
                .wl()
                .append(ready.entries())
                .expect("entries that follow");
            if let Some(state) = ready.hs() {
                storage.wl().set_hardstate(state.clone());
            }
            packets.extend(ready.take_persisted_messages());
            let mut rest = node.advance(ready);
            if let Some(commit) = rest.commit_index() {
                storage.wl().mut_hard_state().commit = commit;
            }
            packets.extend(rest.take_messages());
            node.advance_apply();
        }
        self.packets.extend(packets);
    }

    fn tick(&mut self, id: u64) {
        self.node(id).tick();
        self.take(id);
    }
}

impl Player for Theirs {
    fn part(&mut self, groups: &Groups) {
        self.groups.clone_from(groups);
    }

    fn forget_leader(&mut self, node: u64) {
        for _ in 0..ELECTION_TICKS {
            self.tick(node);
        }
        self.packets.clear();
    }

    fn stand(&mut self, node: u64) {
        if self.look(node).leads {
            return;
        }
        loop {
            self.tick(node);
            let asks = self.packets.iter().any(|message| {
                matches!(
                    message.get_msg_type(),
                    MessageType::MsgRequestPreVote | MessageType::MsgRequestVote
                )
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
        let raft = &self.nodes[&node].raft;
        raft.state == StateRole::Leader && raft.commit_to_current_term()
    }

    fn propose(&mut self, node: u64, payload: &[u8]) {
        let result = self.node(node).propose(Vec::new(), payload.to_vec());
        result.expect("a leader takes it");
        self.take(node);
    }

    fn restart(&mut self, node: u64) {
        self.packets
            .retain(|message| message.from != node && message.to != node);
        let storage = self.nodes[&node].raft.raft_log.store.clone();
        self.nodes.insert(node, start(node, storage));
        self.take(node);
    }

    fn settle(&mut self) {
        while !self.packets.is_empty() {
            for message in std::mem::take(&mut self.packets) {
                let to = message.to;
                if reaches(&self.groups, message.from, to) {
                    // Steps that are refused are proposals only.
                    let _ = self.node(to).step(message);
                    self.take(to);
                }
            }
        }
    }

    fn look(&self, node: u64) -> Node {
        let raft = &self.nodes[&node].raft;
        let log = raft.raft_log.all_entries();
        Node {
            term: raft.term,
            leads: raft.state == StateRole::Leader,
            log: log
                .iter()
                .map(|entry| (entry.term, entry.data.to_vec()))
                .collect(),
            commit: raft.raft_log.committed,
        }
    }
}
