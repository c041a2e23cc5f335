//! The comparators, and epochs, behind one interface in one simulated network: each keeps what it
//! promises, and the judges see what it does not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use coeval_epoch::comparator::{BackedFrontEnd, ComparatorNode, Control, Lookup};
use coeval_epoch::{
    Answer, Configuration, Decision, Directory, Engine, EpochNode, EpochTimestamp, Found,
    FrontEndId, Key, LogWrite, Malformed, NodeId, Recovered, Rhythm, Start, Term, Turn, Write,
};

use crate::judge::value_of;
use crate::order::{Seen, cycle, torn};
use crate::world::{Chance, key_of};

/// Few keys, so that transactions meet.
const KEYS: u64 = 5;
const NODES: u64 = 3;

/// A node of epochs, with a council that decides at once.
struct Epochs(EpochNode, Directory);

impl Engine for Epochs {
    fn put_all(&mut self, handle: u64, writes: Vec<Write>) {
        Engine::put_all(&mut self.0, handle, writes);
    }

    fn get_latest(&mut self, handle: u64, keys: Vec<Key>) {
        Engine::get_latest(&mut self.0, handle, keys);
    }

    fn receive(&mut self, from: NodeId, payload: Bytes) -> Result<(), Malformed> {
        Engine::receive(&mut self.0, from, payload)
    }

    fn tick(&mut self) {
        Engine::tick(&mut self.0);
    }

    fn persisted(&mut self, number: u64) {
        Engine::persisted(&mut self.0, number);
    }

    fn take(&mut self) -> Turn {
        let mut turn = Engine::take(&mut self.0);
        for decision in std::mem::take(&mut turn.proposals) {
            self.1.decide(&decision);
            self.0.configure(&self.1.configuration());
            self.0.proposal_ended();
        }
        turn
    }
}

fn configuration(copies: u64) -> Configuration {
    let copies =
        |partition: u64| (0..copies).map(move |copy| NodeId((partition + copy) % NODES + 1));
    Configuration {
        partitions: (0..NODES)
            .map(|partition| copies(partition).collect())
            .collect(),
        back_ends: (1..=NODES).map(|node| (NodeId(node), 1)).collect(),
        ..Configuration::default()
    }
}

fn comparator(control: Control, copies: u64) -> Vec<Box<dyn Engine>> {
    let configuration = Arc::new(configuration(copies));
    let node = |node: u64| {
        let id = FrontEndId(node as u8);
        let node = ComparatorNode::new(NodeId(node), id, control, &configuration);
        Box::new(node) as Box<dyn Engine>
    };
    (1..=NODES).map(node).collect()
}

fn epochs(copies: u64) -> Vec<Box<dyn Engine>> {
    let boxed = |(_, node)| Box::new(node) as Box<dyn Engine>;
    epoch_nodes(copies).into_iter().map(boxed).collect()
}

/// The same, and each node's front end is backed up by the next node.
fn backed(copies: u64) -> Vec<Box<dyn Engine>> {
    let backed = |(node, started)| {
        let backup = NodeId(node % NODES + 1);
        Box::new(BackedFrontEnd::new(started, backup)) as Box<dyn Engine>
    };
    epoch_nodes(copies).into_iter().map(backed).collect()
}

fn epoch_nodes(copies: u64) -> Vec<(u64, Epochs)> {
    let directory = Directory::default();
    directory.decide(&Decision::Found(configuration(copies)));
    let node = |node: u64| {
        let mut started = EpochNode::start(Start {
            node: NodeId(node),
            incarnation: 1,
            front_end: Some(FrontEndId(node as u8)),
            back_end: Some(Recovered::default()),
        });
        started.configure(&directory.configuration());
        match node {
            1 => started.lead(Term(1), Rhythm::Unified { minimum_ticks: 1 }),
            _ => started.leader_is(Term(1), NodeId(1)),
        }
        (node, Epochs(started, directory.clone()))
    };
    (1..=NODES).map(node).collect()
}

/// A network in which frames stay in order on each link.
struct Net {
    nodes: Vec<Box<dyn Engine>>,
    links: BTreeMap<(NodeId, NodeId), VecDeque<Bytes>>,
    disks: BTreeMap<NodeId, VecDeque<LogWrite>>,
    step: u64,
    /// Each request: when it began, what it writes or reads, and its answer.
    asked: BTreeMap<u64, (u64, Vec<u64>, bool)>,
    answers: BTreeMap<u64, (u64, Answer)>,
}

impl Net {
    fn node(&mut self, id: NodeId) -> &mut dyn Engine {
        self.nodes[id.0 as usize - 1].as_mut()
    }

    fn take(&mut self, id: NodeId) {
        let turn = self.node(id).take();
        for (to, payload) in turn.payloads {
            self.links.entry((id, to)).or_default().push_back(payload);
        }
        self.disks.entry(id).or_default().extend(turn.writes);
        for (handle, answer) in turn.answers {
            self.answers.insert(handle, (self.step, answer));
        }
    }

    /// One thing happens.
    fn act(&mut self, chance: &mut Chance, asks: bool) {
        self.step += 1;
        let id = NodeId(1 + chance.below(NODES));
        match chance.below(20) {
            0..2 => self.node(id).tick(),
            2..6 => {
                if let Some(write) = self.disks.entry(id).or_default().pop_front() {
                    self.node(id).persisted(write.number);
                }
            }
            6..9 if asks => {
                let handle = self.asked.len() as u64 + 1;
                let count = 1 + chance.below(3);
                let mut keys: Vec<u64> = (0..count).map(|_| chance.below(KEYS)).collect();
                keys.sort_unstable();
                keys.dedup();
                let writes = chance.one_in(2);
                self.asked.insert(handle, (self.step, keys.clone(), writes));
                let node = self.node(id);
                if writes {
                    let writes = keys.iter().map(|key| Write {
                        key: key_of(*key),
                        operation: value_of(handle),
                    });
                    node.put_all(handle, writes.collect());
                } else {
                    node.get_latest(handle, keys.iter().map(|key| key_of(*key)).collect());
                }
            }
            _ => {
                let busy: Vec<(NodeId, NodeId)> = self
                    .links
                    .iter()
                    .filter(|(_, frames)| !frames.is_empty())
                    .map(|(link, _)| *link)
                    .collect();
                if !busy.is_empty() {
                    let (from, to) = busy[chance.below(busy.len() as u64) as usize];
                    let frame = self
                        .links
                        .get_mut(&(from, to))
                        .and_then(VecDeque::pop_front);
                    let frame = frame.expect("a link with a frame");
                    self.node(to).receive(from, frame).expect("our own words");
                    self.take(to);
                }
            }
        }
        self.take(id);
    }

    /// What clients saw. Every request has an answer.
    fn seen(&self) -> Vec<Seen> {
        let index = |handle: u64| handle as usize - 1;
        let writer = |found: &Found| match found {
            Found::Value(bytes) => Some(index(u64::from_le_bytes(bytes[..].try_into().unwrap()))),
            _ => None,
        };
        let seen = self.asked.iter().map(|(handle, (begun, keys, writes))| {
            let (ended, answer) = &self.answers[handle];
            let mut seen = Seen {
                begun: *begun,
                ended: *ended,
                at: None,
                writes: Vec::new(),
                reads: Vec::new(),
            };
            match answer {
                Answer::Committed(at) if *writes => {
                    (seen.at, seen.writes) = (Some(*at), keys.clone());
                }
                Answer::Values(_, values) if !writes => {
                    let read = keys.iter().map(|key| {
                        let found = values.iter().find(|(other, _)| *other == key_of(*key));
                        (*key, writer(&found.expect("each key has an answer").1))
                    });
                    seen.reads = read.collect();
                }
                other => panic!("{handle}: {other:?}"),
            }
            seen
        });
        seen.collect()
    }
}

fn run(seed: u64, nodes: Vec<Box<dyn Engine>>) -> Vec<Seen> {
    let mut chance = Chance::new(seed);
    let mut net = Net {
        nodes,
        links: BTreeMap::new(),
        disks: BTreeMap::new(),
        step: 0,
        asked: BTreeMap::new(),
        answers: BTreeMap::new(),
    };
    for _ in 0..900 {
        net.act(&mut chance, true);
    }
    for _ in 0..200 {
        if net.answers.len() == net.asked.len() {
            break;
        }
        (0..100).for_each(|_| net.act(&mut chance, false));
    }
    let unanswered = net.asked.len() - net.answers.len();
    assert_eq!(unanswered, 0, "seed {seed}");
    net.seen()
}

const SEEDS: u64 = 40;

/// In how many runs readers see half of a transaction; and there is no order, or no strict one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Objections {
    torn: u64,
    unordered: u64,
    late: u64,
}

fn judge(nodes: impl Fn(u64) -> Vec<Box<dyn Engine>>) -> Objections {
    let mut found = Objections::default();
    for seed in 0..SEEDS {
        let seen = run(seed, nodes(1 + seed % 2));
        found.torn += u64::from(torn(&seen).is_some());
        found.unordered += u64::from(cycle(&seen, false).is_some());
        found.late += u64::from(cycle(&seen, true).is_some());
    }
    found
}

#[test]
fn without_control_transactions_are_torn() {
    let found = judge(|copies| comparator(Control::None, copies));
    assert!(found.torn > SEEDS / 2, "{found:?}");
}

/// RAMP passes one judge and fails the other, which therefore has teeth.
#[test]
fn ramp_is_atomic_and_not_serializable() {
    let controls = [
        Control::RampFast,
        Control::RampSmall(Lookup::Set),
        Control::RampSmall(Lookup::List),
    ];
    for control in controls {
        let found = judge(|copies| comparator(control, copies));
        assert_eq!(found.torn, 0, "{control:?}: {found:?}");
        assert!(found.unordered > 3, "{control:?}: {found:?}");
    }
}

#[test]
fn locking_and_epochs_are_strictly_serializable() {
    let locking = judge(|copies| comparator(Control::Locking, copies));
    assert_eq!(locking, Objections::default());
    assert_eq!(judge(epochs), Objections::default());
    assert_eq!(judge(backed), Objections::default());
}

/// What a transaction writes is at the backup before anything of it leaves, and its client waits until
/// the outcome is there.
#[test]
fn a_backup_knows_of_a_transaction_before_anyone_else() {
    let configuration = Arc::new(configuration(1));
    let node = |node: u64| {
        let id = FrontEndId(node as u8);
        let started = ComparatorNode::new(NodeId(node), id, Control::None, &configuration);
        BackedFrontEnd::new(started, NodeId(2))
    };
    let (mut one, mut two) = (node(1), node(2));
    // A key of the front end's own node: nothing else travels.
    let mut keys = (0..100).map(key_of);
    let key = keys.find(|key| configuration.copies_of(key) == [NodeId(1)]);
    let key = key.expect("a key in each partition");
    let write = Write {
        key: key.clone(),
        operation: value_of(1),
    };
    one.put_all(7, vec![write]);
    let mut said = Vec::new();
    for step in 0..3 {
        let turn = one.take();
        assert!(turn.answers.is_empty(), "{step}");
        for write in &turn.writes {
            assert!(step > 0, "nothing is written before the intent is kept");
            one.persisted(write.number);
        }
        let more = one.take();
        assert!(more.answers.is_empty(), "{step}");
        for (to, payload) in turn.payloads.into_iter().chain(more.payloads) {
            assert_eq!(to, NodeId(2));
            said.push(step);
            two.receive(NodeId(1), payload).unwrap();
        }
        let kept = two.kept_for(NodeId(1));
        assert_eq!(kept.contains(&key), step == 0, "{step}");
        for (_, payload) in two.take().payloads {
            one.receive(NodeId(2), payload).unwrap();
        }
        if said.len() == 2 {
            break;
        }
    }
    assert_eq!(said, [0, 1], "an intent, and an outcome");
    let answers = one.take().answers;
    assert!(
        matches!(answers[..], [(7, Answer::Committed(_))]),
        "{answers:?}"
    );
}

/// Transactions that meet under locks are aborted, and begin anew.
#[test]
fn a_held_lock_aborts() {
    let configuration = Arc::new(configuration(1));
    let node = |node: u64| {
        let id = FrontEndId(node as u8);
        ComparatorNode::new(NodeId(node), id, Control::Locking, &configuration)
    };
    let (mut one, mut other) = (node(1), node(2));
    // A key of node 2.
    let mut keys = (0..KEYS).map(key_of);
    let here = keys.find(|key| configuration.copies_of(key) == [NodeId(2)]);
    let write = |handle| Write {
        key: here.clone().expect("a key in each partition"),
        operation: value_of(handle),
    };
    other.put_all(1, vec![write(1)]);
    let written = other.take();
    one.put_all(2, vec![write(2)]);
    for (_, payload) in one.take().payloads {
        other.receive(NodeId(1), payload).unwrap();
    }
    let mut answers = Vec::new();
    for _ in 0..20 {
        let turn = other.take();
        answers.extend(turn.answers);
        for (to, payload) in turn.payloads {
            assert_eq!(to, NodeId(1));
            one.receive(NodeId(2), payload).unwrap();
        }
        let turn = one.take();
        turn.writes
            .iter()
            .for_each(|write| one.persisted(write.number));
        answers.extend(turn.answers);
        let next = one.take();
        answers.extend(next.answers);
        for (_, payload) in turn.payloads.into_iter().chain(next.payloads) {
            other.receive(NodeId(1), payload).unwrap();
        }
        if one.restarts() > 0 {
            // Only now does the first one go on.
            let newest = written.writes.iter().map(|write| write.number).max();
            other.persisted(newest.unwrap_or_default());
        }
        let turn = other.take();
        turn.writes
            .iter()
            .for_each(|write| other.persisted(write.number));
        answers.extend(turn.answers);
        for (_, payload) in turn.payloads {
            one.receive(NodeId(2), payload).unwrap();
        }
        one.tick();
    }
    let committed: Vec<u64> = answers.iter().map(|(handle, _)| *handle).collect();
    assert_eq!(committed, [1, 2], "{answers:?}");
    let at = |index: usize| match &answers[index].1 {
        Answer::Committed(at) => *at,
        other => panic!("{other:?}"),
    };
    assert!(at(0) < at(1) && at(0) > EpochTimestamp::default());
    assert!(one.restarts() > 0);
}
