//! The judge: consensus's properties after every step, the same state at the same offset on
//! every node, and what became of each proposal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use coeval_consensus::properties::{Properties, Violation};
use coeval_consensus::{Entry, Ready, Restored};
use coeval_council::{Lsn, Machine, NodeId, Observer, Position, RestoreFailed};

/// What was seen of one cluster.
#[derive(Debug, Default)]
pub struct Seen {
    properties: Properties,
    /// The state after each offset, as the first node to get there had it.
    states: BTreeMap<Lsn, Vec<u64>>,
    pub objections: Vec<String>,
    /// Proposals that were answered, with the offset of their entry.
    pub kept: BTreeMap<u64, Lsn>,
    /// Proposals that were said to have no effect.
    pub lost: BTreeSet<u64>,
    /// The newest state of each node.
    pub newest: BTreeMap<NodeId, (Lsn, Vec<u64>)>,
    pub restored: u64,
}

/// Shared by all nodes of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Judge(Arc<Mutex<Seen>>);

impl Judge {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    fn check(&self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.seen().objections.push(violation.to_string());
        }
    }

    /// Objects unless every answered proposal is in this state once, and no lost one is.
    pub fn settle(&self, state: &[u64]) {
        let mut seen = self.seen();
        let mut wrong = Vec::new();
        for number in seen.kept.keys() {
            let times = state.iter().filter(|entry| *entry == number).count();
            if times != 1 {
                wrong.push(format!("proposal {number} is there {times} times"));
            }
        }
        for number in &seen.lost {
            if state.contains(number) {
                wrong.push(format!("proposal {number} was lost, and is there"));
            }
        }
        seen.objections.extend(wrong);
    }
}

impl Observer for Judge {
    fn started(&self, node: NodeId, restored: &Restored, entries: &[Entry]) {
        let result = self.seen().properties.started(node, restored, entries);
        self.check(result);
    }

    fn handed_out(&self, node: NodeId, ready: &Ready) {
        let result = self.seen().properties.handed_out(node, ready);
        self.check(result);
    }

    fn persisted(&self, node: NodeId, write: u64) {
        let result = self.seen().properties.persisted(node, write);
        self.check(result);
    }
}

/// The replicated state: the numbers proposed, in order.
pub struct Numbers {
    node: NodeId,
    judge: Judge,
    numbers: Vec<u64>,
}

impl Numbers {
    pub fn new(node: NodeId, judge: &Judge) -> Box<Self> {
        Box::new(Self {
            node,
            judge: judge.clone(),
            numbers: Vec::new(),
        })
    }
}

impl Machine for Numbers {
    fn apply(&mut self, at: Position, entry: &[u8]) -> Bytes {
        let number = u64::from_le_bytes(entry[..8].try_into().unwrap());
        self.numbers.push(number);
        let mut seen = self.judge.seen();
        let known = seen.states.entry(at.end);
        let known = known.or_insert_with(|| self.numbers.clone());
        if *known != self.numbers {
            let node = self.node;
            let what = format!("node {node} has another state at {at} than an earlier node");
            seen.objections.push(what);
        }
        let now = (at.end, self.numbers.clone());
        seen.newest.insert(self.node, now);
        Bytes::copy_from_slice(&(self.numbers.len() as u64).to_le_bytes())
    }

    fn snapshot(&self) -> Bytes {
        let numbers = self.numbers.iter();
        numbers.flat_map(|number| number.to_le_bytes()).collect()
    }

    fn restore(&mut self, snapshot: Option<&[u8]>) -> Result<(), RestoreFailed> {
        let bytes = snapshot.unwrap_or_default();
        self.judge.seen().restored += u64::from(snapshot.is_some());
        if !bytes.len().is_multiple_of(8) {
            return Err(RestoreFailed("it is no list of numbers"));
        }
        let numbers = bytes.chunks(8);
        let numbers = numbers.map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        self.numbers = numbers.collect();
        Ok(())
    }
}
