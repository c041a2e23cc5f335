//! A cluster in memory: nodes with disks, and packets between them, which the test
//! delivers in any order. The properties are checked after every step.

mod disk;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coeval_consensus::properties::{Properties, Violation};
use coeval_consensus::{
    Checkpoint, Consensus, Fetch, Membership, Message, NodeId, Ready, Refusal, Role, RoleChange,
    Settings, Write,
};
use coeval_types::Lsn;

pub use disk::Disk;

/// A message or a checkpoint in flight between two nodes.
#[derive(Clone, Debug)]
pub enum Packet {
    Message(Message),
    Checkpoint {
        from: NodeId,
        to: NodeId,
        checkpoint: Checkpoint,
    },
}

impl Packet {
    pub fn from(&self) -> NodeId {
        match self {
            Self::Message(message) => message.from,
            Self::Checkpoint { from, .. } => *from,
        }
    }

    pub fn to(&self) -> NodeId {
        match self {
            Self::Message(message) => message.to,
            Self::Checkpoint { to, .. } => *to,
        }
    }
}

/// A node, its disk, and the writes in flight between them.
pub struct Machine {
    /// `None` while it is down.
    pub node: Option<Consensus>,
    pub disk: Disk,
    pub writes: VecDeque<Write>,
    pub role: RoleChange,
    pub starts: u64,
    /// The memberships last read in the node's current run.
    parts: Option<(u64, Parts)>,
}

/// The members, the voters, the membership, and whether it may be rolled back.
type Parts = (BTreeSet<NodeId>, BTreeSet<NodeId>, Membership, bool);

impl Machine {
    /// Checks the change counter: while it is unchanged, the memberships must be too.
    fn look_who_takes_part(&mut self) {
        let Some(consensus) = &self.node else {
            return;
        };
        let status = consensus.status();
        let now = (
            consensus.takes_part(),
            consensus.voters_so_far(),
            status.membership,
            status.membership_is_open,
        );
        let changes = consensus.membership_changes();
        if let Some((before, known)) = &self.parts {
            assert!(
                changes > *before || now == *known,
                "a change nobody was told of"
            );
        }
        self.parts = Some((changes, now));
    }
}

/// Why a run ends: a violated property, or a refusal that the caller did not cause.
#[derive(Clone, Debug)]
pub enum Failure {
    Violated(Violation),
    Refused(NodeId, Refusal),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Violated(violation) => violation.fmt(formatter),
            Self::Refused(node, refusal) => write!(formatter, "node {node} refuses: {refusal}"),
        }
    }
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::Violated(violation)
    }
}

/// Machines, and the packets in flight between them.
pub struct Cluster {
    pub machines: BTreeMap<NodeId, Machine>,
    pub packets: Vec<Packet>,
    pub properties: Properties,
    pub settings: Settings,
    /// Whether leaders send every new commit index at once.
    pub tells_commit: bool,
    /// `send_to_all` is called before one in this many takes of output; never, if 0.
    pub sends_to_all_every: u64,
    taken: u64,
    /// Number of times that entries waited for `send_to_all`.
    pub waited: usize,
    seed: u64,
}

impl Cluster {
    /// `members` starts with this membership; the `spare` nodes have an empty log and know
    /// no members.
    pub fn new(members: &Membership, spare: &[NodeId], settings: Settings, seed: u64) -> Self {
        let mut cluster = Self {
            machines: BTreeMap::new(),
            packets: Vec::new(),
            properties: Properties::default(),
            settings,
            tells_commit: true,
            sends_to_all_every: 0,
            taken: 0,
            waited: 0,
            seed,
        };
        let nobody = Membership::default();
        let all = members.members().map(|node| (node, members));
        for (node, membership) in all.chain(spare.iter().map(|node| (*node, &nobody))) {
            let machine = Machine {
                node: None,
                disk: Disk::new(membership.clone()),
                writes: VecDeque::new(),
                role: RoleChange::default(),
                starts: 0,
                parts: None,
            };
            cluster.machines.insert(node, machine);
            cluster.start(node, false).expect("an empty log");
        }
        cluster
    }

    pub fn machine(&mut self, node: NodeId) -> &mut Machine {
        self.machines
            .get_mut(&node)
            .expect("a node of this cluster")
    }

    pub fn node(&mut self, node: NodeId) -> Option<&mut Consensus> {
        self.machine(node).node.as_mut()
    }

    /// Starts a node with the state on its disk; `forgetful` drops the commit index.
    pub fn start(&mut self, node: NodeId, forgetful: bool) -> Result<(), Failure> {
        let (settings, seed) = (self.settings.clone(), self.seed);
        let machine = self.machine(node);
        machine.starts += 1;
        machine.parts = None;
        if forgetful {
            machine.disk.hard_state.commit = Lsn(0);
        }
        let restored = machine.disk.restored();
        let seed = seed ^ (node.0 << 32) ^ (machine.starts << 48);
        let consensus = Consensus::new(node, settings, &restored, seed).expect("what a disk has");
        machine.node = Some(consensus);
        machine.role = RoleChange::default();
        let entries = machine.disk.entries.clone();
        self.properties.started(node, &restored, &entries)?;
        Ok(())
    }

    /// Stops a node. Of its writes in flight the first `done` are carried out, and of the
    /// next one this many `parts`.
    pub fn crash(&mut self, node: NodeId, done: usize, parts: usize) -> Result<(), Failure> {
        let machine = self.machine(node);
        machine.node = None;
        let mut writes = std::mem::take(&mut machine.writes);
        for _ in 0..done.min(writes.len()) {
            let write = writes.pop_front().expect("counted");
            self.machine(node).disk.write(&write);
            self.properties.persisted(node, write.number)?;
        }
        let machine = self.machine(node);
        if let Some(torn) = writes.pop_front() {
            machine.disk.tear(&torn, parts);
        }
        Ok(())
    }

    /// Carries out and reports the oldest `count` writes of a node.
    pub fn persist(&mut self, node: NodeId, count: usize) -> Result<Ready, Failure> {
        let machine = self.machine(node);
        let count = count.min(machine.writes.len());
        let done: Vec<Write> = machine.writes.drain(..count).collect();
        let mut last = None;
        for write in &done {
            machine.disk.write(write);
            last = Some(write.number);
        }
        if let Some(number) = last {
            self.properties.persisted(node, number)?;
            if let Some(consensus) = self.node(node) {
                let result = consensus.persisted(number);
                result.map_err(|refusal| Failure::Refused(node, refusal))?;
            }
        }
        self.take(node)
    }

    /// Delivers a packet.
    pub fn deliver(&mut self, packet: Packet) -> Result<Ready, Failure> {
        let to = packet.to();
        let Some(consensus) = self.node(to) else {
            return Ok(Ready::default());
        };
        let result = match packet {
            Packet::Message(message) => consensus.receive(message),
            Packet::Checkpoint { checkpoint, .. } => {
                consensus.install_checkpoint(checkpoint).map(|_| ())
            }
        };
        result.map_err(|refusal| Failure::Refused(to, refusal))?;
        self.take(to)
    }

    /// Has a node ask its leader for a read. Returns whether it could.
    pub fn ask(&mut self, node: NodeId, context: u64) -> bool {
        self.properties.asked(node, context);
        let consensus = self.node(node);
        consensus.is_some_and(|consensus| consensus.ask(context).is_ok())
    }

    pub fn tick(&mut self, node: NodeId) -> Result<Ready, Failure> {
        if let Some(consensus) = self.node(node) {
            consensus.tick();
        }
        self.take(node)
    }

    /// Takes a node's output, and puts its packets in flight.
    pub fn take(&mut self, node: NodeId) -> Result<Ready, Failure> {
        let tells_commit = self.tells_commit;
        self.taken += 1;
        let every = self.sends_to_all_every;
        let sends_to_all = every > 0 && self.taken.is_multiple_of(every);
        let Some(consensus) = self.node(node) else {
            return Ok(Ready::default());
        };
        if tells_commit {
            consensus.tell_commit();
        }
        if sends_to_all {
            consensus.send_to_all();
        }
        let ready = consensus.ready();
        let waits = consensus.has_non_quorum_entries();
        self.waited += usize::from(waits);
        self.properties.handed_out(node, &ready)?;
        let machine = self.machine(node);
        machine.look_who_takes_part();
        if let Some(role) = ready.role {
            machine.role = role;
        }
        machine.writes.extend(ready.write.clone());
        let messages = ready.messages.iter().cloned();
        self.packets.extend(messages.map(Packet::Message));
        for to in &ready.checkpoints {
            self.send_checkpoint(node, *to);
        }
        for fetch in &ready.fetches {
            self.fetch(node, *fetch)?;
        }
        Ok(ready)
    }

    fn send_checkpoint(&mut self, from: NodeId, to: NodeId) {
        let machine = self.machine(from);
        let checkpoint = machine.disk.checkpoint();
        if let Some(consensus) = &mut machine.node {
            consensus.checkpoint_sent(to);
        }
        self.packets.push(Packet::Checkpoint {
            from,
            to,
            checkpoint,
        });
    }

    fn fetch(&mut self, node: NodeId, fetch: Fetch) -> Result<(), Failure> {
        let machine = self.machine(node);
        let entries = machine.disk.fetch(fetch);
        if let Some(consensus) = &mut machine.node {
            let result = consensus.fetched(fetch, entries);
            result.map_err(|refusal| Failure::Refused(node, refusal))?;
        }
        self.take(node).map(|_| ())
    }

    /// Replaces the committed part of the log on a node's disk by a checkpoint.
    pub fn compact(&mut self, node: NodeId) {
        let machine = self.machine(node);
        if !machine.writes.is_empty() {
            return;
        }
        let retained = machine.disk.compact();
        if let Some(consensus) = &mut machine.node {
            consensus.removed_before(retained);
        }
    }

    pub fn names(&self) -> Vec<NodeId> {
        self.machines.keys().copied().collect()
    }

    /// The serving leader of the newest term that has one.
    pub fn serving(&self) -> Option<NodeId> {
        let running = self
            .machines
            .iter()
            .filter(|(_, machine)| machine.node.is_some());
        running
            .filter(|(_, machine)| machine.role.role == Role::Leader { serving: true })
            .max_by_key(|(_, machine)| machine.role.term)
            .map(|(node, _)| *node)
    }
}
