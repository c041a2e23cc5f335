//! A cluster of step functions: nodes with disks, frames in flight, and a council that is one
//! directory with a leader.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use coeval_epoch::{
    Checkpoint, Configuration, Decision, Directory, Epoch, EpochNode, Frame, FrontEndId, Key,
    Limits, NodeId, Rhythm, Start, Term, Write, wire,
};
use coeval_types::planted;

use crate::disk::Disk;
use crate::judge::{GetSeen, Judge, PutSeen, value_of};

/// A generator for the plan of a run.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A machine, and the node that runs on it if it is up.
#[derive(Debug, Default)]
pub struct Machine {
    pub node: Option<EpochNode>,
    pub disk: Disk,
    pub incarnation: u64,
    /// The newest epoch of which the judge has seen this start's copies.
    shown: Epoch,
    /// A checkpoint that is being written, of copies that have just been made.
    checkpoint: Option<Checkpoint>,
}

/// How a cluster is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub nodes: u64,
    pub copies: u64,
    pub degree: u8,
    pub history: u64,
    pub rhythm: Rhythm,
    pub limits: Limits,
}

impl Layout {
    pub fn of(nodes: u64) -> Self {
        Self {
            nodes,
            copies: if nodes < 4 { 2 } else { 3 },
            degree: 0,
            history: 8,
            rhythm: Rhythm::Unified { minimum_ticks: 2 },
            limits: Limits::default(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Cluster {
    pub layout: Layout,
    pub machines: BTreeMap<NodeId, Machine>,
    pub in_flight: Vec<Frame>,
    pub cut: BTreeSet<(NodeId, NodeId)>,
    pub directory: Directory,
    pub leader: (Term, NodeId),
    /// Proposals on their way through the council.
    proposals: VecDeque<(Term, NodeId, Decision)>,
    pub judge: Judge,
    pub step: u64,
    next_handle: u64,
    /// Copies that were made.
    pub promoted: u64,
    /// Log writes.
    pub written: u64,
    /// Frames said, to see what a quiet cluster says.
    pub said: u64,
    traces: bool,
}

impl Cluster {
    pub fn new(layout: Layout) -> Self {
        let all: Vec<NodeId> = (1..=layout.nodes).map(NodeId).collect();
        let copies = |partition: u64| {
            let copies = (0..layout.copies).map(|copy| (partition + copy) % layout.nodes + 1);
            copies.map(NodeId).collect()
        };
        let configuration = Configuration {
            partitions: (0..layout.nodes).map(copies).collect(),
            back_ends: all.iter().map(|node| (*node, 1)).collect(),
            degree: layout.degree,
            history_epochs: layout.history,
            copies: layout.copies as u8,
            // A few keys at a time.
            limits: Limits {
                copy_bytes: 100,
                ..layout.limits
            },
            ..Configuration::default()
        };
        let directory = Directory::default();
        directory.decide(&Decision::Found(configuration));
        let mut cluster = Self {
            layout,
            machines: all.iter().map(|node| (*node, Machine::default())).collect(),
            in_flight: Vec::new(),
            cut: BTreeSet::new(),
            directory,
            leader: (Term(0), NodeId(1)),
            proposals: VecDeque::new(),
            judge: Judge::default(),
            step: 0,
            next_handle: 1,
            promoted: 0,
            written: 0,
            said: 0,
            traces: std::env::var_os("EPOCH_TRACE").is_some(),
        };
        for node in all {
            cluster.start(node);
        }
        cluster.elect(NodeId(1), false);
        cluster
    }

    pub fn node(&mut self, node: NodeId) -> Option<&mut EpochNode> {
        self.machines.get_mut(&node)?.node.as_mut()
    }

    pub fn up(&self) -> Vec<NodeId> {
        let up = self
            .machines
            .iter()
            .filter(|(_, machine)| machine.node.is_some());
        up.map(|(node, _)| *node).collect()
    }

    /// Starts a node from its disk.
    pub fn start(&mut self, id: NodeId) {
        self.trace(&|| format!("node {id} starts"));
        let machine = self.machines.get_mut(&id).expect("a machine");
        let reuses = planted!(ReuseIncarnation) && machine.incarnation > 0;
        machine.incarnation += u64::from(!reuses);
        let recovered = machine.disk.recover();
        machine.shown = recovered
            .checkpoint
            .as_ref()
            .map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        let mut node = EpochNode::start(Start {
            node: id,
            incarnation: machine.incarnation,
            front_end: Some(FrontEndId(id.0 as u8)),
            back_end: Some(recovered),
        });
        node.configure(&self.directory.configuration());
        if self.leader.0 > Term(0) && self.leader.1 != id {
            node.leader_is(self.leader.0, self.leader.1);
        }
        machine.node = Some(node);
        self.show(id);
    }

    /// Ends a node's program: writes under way are done in part.
    pub fn crash(&mut self, id: NodeId, completed: usize, bytes: usize) {
        self.trace(&|| format!("node {id} ends, {completed} {bytes}"));
        let machine = self.machines.get_mut(&id).expect("a machine");
        machine.node = None;
        machine.checkpoint = None;
        machine.disk.crash(completed, bytes);
    }

    /// A node becomes leader of the council, with all that was decided before. What an earlier
    /// leader has proposed may be among that.
    pub fn elect(&mut self, id: NodeId, keeps_proposals: bool) {
        for (_, from, decision) in std::mem::take(&mut self.proposals) {
            if keeps_proposals {
                self.carry_out(&decision);
            }
            let configuration = self.directory.configuration();
            if let Some(node) = self.node(from) {
                node.configure(&configuration);
                node.proposal_ended();
            }
            self.take(from);
        }
        self.trace(&|| format!("node {id} is elected"));
        let configuration = self.directory.configuration();
        let (term, rhythm) = (Term(self.leader.0.0 + 1), self.layout.rhythm);
        self.leader = (term, id);
        if let Some(node) = self.node(id) {
            node.configure(&configuration);
            node.lead(term, rhythm);
        }
        self.take(id);
    }

    /// The council on a node catches up: it learns of decisions and of the leader.
    pub fn catch_up(&mut self, id: NodeId) {
        let configuration = self.directory.configuration();
        let (term, leader) = self.leader;
        if let Some(node) = self.node(id) {
            node.configure(&configuration);
            if leader != id {
                node.leader_is(term, leader);
            }
        }
        self.take(id);
    }

    /// The council decides the oldest proposal, or finds its proposer deposed.
    pub fn decide(&mut self) {
        let Some((term, from, decision)) = self.proposals.pop_front() else {
            return;
        };
        let is_current = term == self.leader.0;
        if is_current {
            self.carry_out(&decision);
        }
        let configuration = self.directory.configuration();
        if let Some(node) = self.node(from) {
            if is_current {
                node.configure(&configuration);
            }
            node.proposal_ended();
        }
        self.take(from);
    }

    fn carry_out(&mut self, decision: &Decision) {
        self.trace(&|| format!("decided {decision:?}"));
        let is_new = self.directory.decide(decision);
        self.promoted += u64::from(is_new && matches!(decision, Decision::Promote(..)));
    }

    /// Carries out what a node asks for.
    pub fn take(&mut self, id: NodeId) {
        let step = self.step;
        let Some(machine) = self.machines.get_mut(&id) else {
            return;
        };
        let Some(node) = &mut machine.node else {
            return;
        };
        let output = node.take();
        let term = node.manager().map(|manager| manager.term());
        self.written += output.writes.len() as u64;
        machine.disk.write(output.writes);
        if output.checkpoint.is_some() {
            machine.checkpoint = output.checkpoint;
        }
        for (handle, answer) in output.answers {
            self.judge.answered(handle, answer, step);
        }
        for decision in output.proposals {
            let term = term.expect("only a manager proposes");
            self.proposals.push_back((term, id, decision));
        }
        self.said += output.frames.len() as u64;
        self.in_flight.extend(output.frames);
        self.show(id);
    }

    /// Has the judge see the copies of epochs that are newly closed on a node.
    fn show(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).expect("a machine");
        let Some(node) = &machine.node else {
            return;
        };
        let hosted = node.configuration().partitions.len();
        let partitions: Vec<usize> = (0..hosted).collect();
        for partition in partitions {
            let closed = node.closed();
            for epoch in machine.shown.0 + 1..=closed.0 {
                let epochs = (Epoch(epoch - 1), Epoch(epoch));
                if let Some(history) = node.history(partition, epochs) {
                    self.judge.shown(id.0, partition, epoch, history);
                }
            }
        }
        machine.shown = node.closed();
    }

    /// Delivers one frame of those in flight.
    pub fn deliver(&mut self, frame: &Frame) {
        if self.cut.contains(&(frame.from, frame.to)) {
            return;
        }
        self.trace(&|| format!("{frame:?}"));
        // What arrives is what has been through the wire format.
        let payloads = wire::encode(frame);
        assert_eq!(payloads.len(), 1, "a short frame");
        for payload in payloads {
            let arrived = wire::decode(frame.from, frame.to, payload);
            assert_eq!(arrived.as_ref(), Ok(frame));
        }
        if let Some(node) = self.node(frame.to) {
            node.receive(frame);
        }
        self.take(frame.to);
    }

    /// Prints what happens, if the environment asks for it.
    fn trace(&self, what: &dyn Fn() -> String) {
        if self.traces {
            eprintln!("step {}: {}", self.step, what());
        }
    }

    pub fn tick(&mut self, id: NodeId) {
        if let Some(node) = self.node(id) {
            node.tick();
        }
        self.take(id);
    }

    /// Completes the oldest write on a node's disk.
    pub fn complete(&mut self, id: NodeId) {
        let Some(machine) = self.machines.get_mut(&id) else {
            return;
        };
        let written = machine.disk.complete();
        match (written, &mut machine.node) {
            (Some(number), Some(node)) => node.persisted(number),
            (None, Some(node)) => {
                if let Some(checkpoint) = machine.checkpoint.take() {
                    machine.disk.keep(&checkpoint);
                    node.checkpoint_kept();
                }
            }
            _ => {}
        }
        self.take(id);
    }

    pub fn put(&mut self, id: NodeId, keys: &BTreeSet<u64>) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        let writes = keys.iter().map(|key| Write {
            key: key_of(*key),
            operation: value_of(handle),
        });
        let writes: Vec<Write> = writes.collect();
        let seen = PutSeen {
            writes: writes.clone(),
            begun: self.step,
            answer: None,
        };
        self.judge.puts.insert(handle, seen);
        if let Some(node) = self.node(id) {
            node.put_all(handle, writes);
        }
        self.take(id);
        handle
    }

    /// Reads keys at a timestamp of now, or that many epochs ago.
    pub fn get(&mut self, id: NodeId, keys: &BTreeSet<u64>, ago: Option<u64>) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        let seen = GetSeen {
            begun: self.step,
            answer: None,
            is_latest: ago.is_none(),
        };
        self.judge.gets.insert(handle, seen);
        let keys = keys.iter().map(|key| key_of(*key)).collect();
        if let Some(node) = self.node(id) {
            match ago {
                None => node.get_latest(handle, keys),
                Some(ago) => {
                    // The open epoch is one after the newest closed one, or two.
                    let epoch = Epoch((node.closed().0 + 2).saturating_sub(ago));
                    let at = coeval_epoch::EpochTimestamp::new(epoch, 3, FrontEndId(9));
                    node.get_at(handle, keys, at);
                }
            }
        }
        self.take(id);
        handle
    }

    pub fn give_up(&mut self, id: NodeId, handle: u64) {
        if let Some(node) = self.node(id) {
            node.give_up(handle);
        }
        self.take(id);
    }

    /// Takes a checkpoint on a node.
    pub fn checkpoint(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).expect("a machine");
        let taken = machine.node.as_ref().and_then(EpochNode::checkpoint);
        if let Some(checkpoint) = taken.filter(|taken| taken.epoch > Epoch(0)) {
            machine.disk.keep(&checkpoint);
        }
    }

    /// Everything works from now on, and everything is said until no client waits.
    pub fn heal(&mut self) {
        self.cut.clear();
        for id in self.machines.keys().copied().collect::<Vec<_>>() {
            let configuration = self.directory.configuration();
            let place = configuration.front_ends.get(&FrontEndId(id.0 as u8));
            let machine = &self.machines[&id];
            let is_current = place.is_some_and(|place| place.incarnation == machine.incarnation);
            let is_fenced = machine.node.as_ref().is_some_and(EpochNode::is_fenced);
            // A front end that was fenced starts again, and a back end that was removed.
            if machine.node.is_some() && (!is_current || is_fenced) {
                self.crash(id, 0, 0);
            }
            if self.machines[&id].node.is_none() {
                self.start(id);
            }
        }
        let manages = self.leader.1;
        let is_led = self
            .node(manages)
            .is_some_and(|node| node.manager().is_some());
        if !is_led {
            self.elect(NodeId(1), true);
        }
    }

    /// Delivers everything in order, with a tick of each node after, this many times.
    pub fn settle(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.step += 1;
            while !self.in_flight.is_empty() {
                for frame in std::mem::take(&mut self.in_flight) {
                    self.deliver(&frame);
                }
                for id in self.up() {
                    self.complete(id);
                }
                self.decide();
            }
            for id in self.up() {
                self.catch_up(id);
                self.complete(id);
                self.tick(id);
            }
            self.decide();
        }
    }

    /// Settles until every node has closed the same epochs, and every request of a client whose
    /// node still runs is answered.
    pub fn finish(&mut self) {
        // A front end may be fenced now that was asked to be before.
        for _ in 0..2 {
            self.heal();
            self.settle(40);
        }
        let asked = self.step;
        let (all, keys) = (self.up(), (0..KEYS).collect());
        let last: Vec<u64> = all.iter().map(|id| self.get(*id, &keys, None)).collect();
        self.settle(30);
        for handle in last {
            if self.judge.gets[&handle].answer.is_none() {
                let leader = self.leader.1;
                let manager = self.node(leader).and_then(|node| node.manager());
                let waits = manager.map(|manager| (manager.closed(), manager.waits_for()));
                let configuration = self.configuration();
                let what = format!(
                    "liveness: {handle}, asked at step {asked}, has no answer; {leader} waits for \
                     {waits:?}, {configuration:?}"
                );
                self.judge.objections.push(what);
            }
        }
        self.judge.settle();
        self.judge_copies();
    }

    /// Has the judge see the whole content of every copy.
    fn judge_copies(&mut self) {
        let configuration = self.configuration();
        for id in self.up() {
            let Some(checkpoint) = self.node(id).and_then(|node| node.checkpoint()) else {
                continue;
            };
            for partition in 0..configuration.partitions.len() {
                if configuration.hosts(id, partition) {
                    let is_in = |key: &Key| configuration.partition_of(key) == partition;
                    self.judge.image(id.0, &checkpoint, is_in);
                }
            }
        }
    }

    pub fn configuration(&self) -> Arc<Configuration> {
        self.directory.configuration()
    }
}

/// Keys of the runs.
pub const KEYS: u64 = 12;

pub fn key_of(number: u64) -> Key {
    format!("key {number}").into_bytes().into()
}
