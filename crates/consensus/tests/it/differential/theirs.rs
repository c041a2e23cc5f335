//! raft-rs, as a player.

use std::collections::{BTreeMap, BTreeSet};

use coeval_consensus::{Change, NodeId};
use raft::prelude::{
    ConfChange, ConfChangeType, ConfState, Entry, EntryType, Message, MessageType,
};
use raft::storage::{MemStorage, Storage};
use raft::{Config, RawNode, SnapshotStatus, StateRole};

use super::weather::{Way, Weather};
use super::{ELECTION_TICKS, Groups, Node, Player, Role, SPARE, What, reaches};

pub struct Theirs {
    nodes: BTreeMap<u64, RawNode<MemStorage>>,
    packets: Vec<Message>,
    groups: Groups,
    lost: BTreeSet<Way>,
    answers: BTreeMap<u64, u64>,
}

fn start(id: u64, storage: MemStorage) -> RawNode<MemStorage> {
    let ticks = ELECTION_TICKS as usize;
    let applied = storage.rl().hard_state().commit;
    let config = Config {
        id,
        applied,
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

/// A membership change in raft-rs's types.
fn conf_change(change: Change) -> ConfChange {
    let (kind, node) = match change {
        Change::Learner(node) => (ConfChangeType::AddLearnerNode, node),
        Change::Voter(node) => (ConfChangeType::AddNode, node),
        Change::Remove(node) => (ConfChangeType::RemoveNode, node),
        Change::Raise(_) | Change::Identify(..) => unreachable!("raft-rs has none"),
    };
    let mut conf_change = ConfChange::default();
    conf_change.set_change_type(kind);
    conf_change.node_id = node.0;
    conf_change
}

/// The change once more beside its entry, for the code that applies it.
fn context(change: Change) -> Vec<u8> {
    let (kind, node) = match change {
        Change::Learner(node) => (0, node),
        Change::Voter(node) => (1, node),
        Change::Remove(node) => (2, node),
        Change::Raise(_) | Change::Identify(..) => unreachable!("raft-rs has none"),
    };
    vec![kind, node.0 as u8]
}

fn change_of(context: &[u8]) -> Change {
    let node = NodeId(u64::from(context[1]));
    match context[0] {
        0 => Change::Learner(node),
        1 => Change::Voter(node),
        _ => Change::Remove(node),
    }
}

/// The link of a message; `None` for checkpoints, whose transport is not lossy.
fn way_of(message: &Message) -> Option<Way> {
    let is_checkpoint = message.get_msg_type() == MessageType::MsgSnapshot;
    (!is_checkpoint).then_some((message.from, message.to))
}

impl Theirs {
    pub fn new(voters: u64) -> Self {
        let members: Vec<u64> = (1..=voters).collect();
        let begun = (1..=voters + SPARE).map(|id| {
            let members = ConfState::from((members.clone(), Vec::new()));
            (id, start(id, MemStorage::new_with_conf_state(members)))
        });
        Self {
            nodes: begun.collect(),
            packets: Vec::new(),
            groups: vec![(1..=voters + SPARE).collect()],
            lost: BTreeSet::new(),
            answers: BTreeMap::new(),
        }
    }

    fn node(&mut self, id: u64) -> &mut RawNode<MemStorage> {
        self.nodes.get_mut(&id).expect("a node of this cluster")
    }

    /// Carries out a node's output; writes and commits are done at once.
    fn take(&mut self, id: u64) {
        let mut packets = Vec::new();
        let mut answers = Vec::new();
        let node = self.node(id);
        while node.has_ready() {
            let mut ready = node.ready();
            packets.extend(ready.take_messages());
            answers.extend(ready.take_read_states());
            let storage = node.raft.raft_log.store.clone();
            if !ready.snapshot().is_empty() {
                let snapshot = ready.snapshot().clone();
                let result = storage.wl().apply_snapshot(snapshot);
                result.expect("a checkpoint of newer entries");
            }
            storage
                .wl()
                .append(ready.entries())
                .expect("entries that follow");
            if let Some(state) = ready.hs() {
                storage.wl().set_hardstate(state.clone());
            }
            apply(node, &storage, ready.take_committed_entries());
            packets.extend(ready.take_persisted_messages());
            let mut rest = node.advance(ready);
            if let Some(commit) = rest.commit_index() {
                storage.wl().mut_hard_state().commit = commit;
            }
            packets.extend(rest.take_messages());
            apply(node, &storage, rest.take_committed_entries());
            node.advance_apply();
        }
        self.packets.extend(packets);
        for answer in answers {
            let context = answer.request_ctx.try_into().map(u64::from_le_bytes);
            self.answers
                .insert(context.expect("a context of ours"), answer.index);
        }
    }

    fn passes(&self, message: &Message) -> bool {
        let is_lost = way_of(message).is_some_and(|way| self.lost.contains(&way));
        reaches(&self.groups, message.from, message.to) && !is_lost
    }

    fn arrive(&mut self, message: Message) {
        let (from, to) = (message.from, message.to);
        let is_checkpoint = message.get_msg_type() == MessageType::MsgSnapshot;
        // Proposals may be refused, and answers of removed members.
        let _ = self.node(to).step(message);
        self.take(to);
        if is_checkpoint {
            self.node(from).report_snapshot(to, SnapshotStatus::Finish);
            self.take(from);
        }
    }
}

/// Applies committed entries: membership changes.
fn apply(node: &mut RawNode<MemStorage>, storage: &MemStorage, entries: Vec<Entry>) {
    for entry in entries {
        if entry.get_entry_type() == EntryType::EntryConfChange {
            let change = conf_change(change_of(&entry.context));
            let members = node.apply_conf_change(&change).expect("a sound change");
            storage.wl().set_conf_state(members);
        }
    }
}

impl Player for Theirs {
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
        self.packets.clear();
    }

    fn stand(&mut self, node: u64) {
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

    fn tick(&mut self, node: u64) {
        self.node(node).tick();
        self.take(node);
    }

    fn propose(&mut self, node: u64, payload: &[u8]) -> bool {
        let result = self.node(node).propose(Vec::new(), payload.to_vec());
        self.take(node);
        result.is_ok()
    }

    fn read(&mut self, node: u64, context: u64) {
        self.node(node).read_index(context.to_le_bytes().to_vec());
        self.take(node);
    }

    fn change(&mut self, node: u64, change: Change) {
        let result = self
            .node(node)
            .propose_conf_change(context(change), conf_change(change));
        result.expect("a leader takes it");
        self.take(node);
    }

    fn transfer(&mut self, node: u64, to: u64) {
        self.node(node).transfer_leader(to);
        self.take(node);
    }

    fn ticks_of_transfer(&self, _: u64) -> u32 {
        ELECTION_TICKS
    }

    fn compact(&mut self, node: u64) {
        let log = &self.nodes[&node].raft.raft_log;
        let (storage, commit) = (log.store.clone(), log.committed);
        let rest = log.all_entries();
        let snapshot = storage.snapshot(0, node).expect("entries in memory");
        // A snapshot does not replace uncommitted entries.
        if storage.wl().apply_snapshot(snapshot).is_ok() {
            let rest: Vec<Entry> = rest
                .into_iter()
                .filter(|entry| entry.index > commit)
                .collect();
            let result = storage.wl().append(&rest);
            result.expect("entries behind the checkpoint");
        }
    }

    fn restart(&mut self, node: u64) {
        self.packets.retain(|message| {
            way_of(message).is_none() || (message.from != node && message.to != node)
        });
        let storage = self.nodes[&node].raft.raft_log.store.clone();
        self.nodes.insert(node, start(node, storage));
        self.take(node);
    }

    fn deliver(&mut self, weather: &mut Weather, rounds: usize) -> bool {
        for _ in 0..rounds {
            let mut packets = std::mem::take(&mut self.packets);
            packets.retain(|message| self.passes(message));
            if packets.is_empty() {
                return true;
            }
            let (now, later) = weather.sort(packets, way_of);
            for message in now {
                self.arrive(message);
            }
            self.packets.extend(later);
        }
        false
    }

    fn hears(&self, node: u64, other: u64) -> bool {
        reaches(&self.groups, other, node)
    }

    fn role(&self, node: u64) -> Role {
        let raft = &self.nodes[&node].raft;
        let leads = raft.state == StateRole::Leader;
        Role {
            term: raft.term,
            leads,
            serves: leads && raft.commit_to_current_term(),
        }
    }

    fn look(&self, node: u64) -> Node {
        let raft = &self.nodes[&node].raft;
        let log = raft.raft_log.all_entries();
        let members = raft.prs().conf().to_conf_state();
        let entry = |entry: &Entry| {
            let what = match entry.get_entry_type() {
                EntryType::EntryNormal if entry.data.is_empty() => What::Begins,
                EntryType::EntryNormal => What::Payload(entry.data.to_vec()),
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => What::Members,
            };
            (entry.term, what)
        };
        Node {
            role: self.role(node),
            base: raft.raft_log.first_index() - 1,
            log: log.iter().map(entry).collect(),
            commit: raft.raft_log.committed,
            voters: members.voters.into_iter().collect(),
            learners: members.learners.into_iter().collect(),
        }
    }

    fn answers(&self) -> &BTreeMap<u64, u64> {
        &self.answers
    }
}
