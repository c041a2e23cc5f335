//! The verdict on a run: checks clients' results and the steps of consensus.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_consensus::NodeId;
use coeval_leader::node::PropertyChecker;

/// Results of a run, collected for its checks.
#[derive(Debug, Default)]
pub struct Judge {
    /// Checks the properties of consensus.
    pub property_checker: PropertyChecker,
    /// Transfers that a client knows to be done: from its own commit, or from a read.
    told: BTreeSet<u64>,
    next: u64,
    is_quiet: bool,
    is_paused: bool,
    /// The node through which clients start no transfers for now.
    idle: Option<u64>,
    /// Nodes whose disks are full, which may stop.
    may_end: BTreeSet<u64>,
    objections: Vec<String>,
    pub confirmed_reads: u64,
    /// Reads on followers after a question to the leader.
    pub follower_reads: u64,
}

/// A handle that tasks share.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Judge>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Judge> {
        self.0.lock().expect("no panic under this lock")
    }
}

impl Judge {
    /// A number for the next transfer, or `None` when no more are to begin.
    pub fn number(&mut self) -> Option<u64> {
        self.next += 1;
        (!self.is_quiet).then_some(self.next)
    }

    /// Pauses or resumes new transfers.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Whether clients may start no transfer through this node now.
    pub fn pauses(&self, node: u64) -> bool {
        self.is_paused || self.idle == Some(node)
    }

    /// Ends all new transfers.
    pub fn be_quiet(&mut self) {
        self.is_quiet = true;
    }

    /// Pauses transfers through this node, if it leads.
    pub fn set_idle(&mut self, node: Option<u64>) {
        self.idle = node;
    }

    /// Records transfers that clients know to be done.
    pub fn tell(&mut self, transfers: impl IntoIterator<Item = u64>) {
        self.told.extend(transfers);
    }

    pub fn told(&self) -> &BTreeSet<u64> {
        &self.told
    }

    /// A node has lost its disk.
    pub fn lose_disk(&mut self, node: u64) {
        self.property_checker.lost_its_disk(NodeId(node));
    }

    /// A node's disk is full, so it may stop.
    pub fn may_end(&mut self, node: u64) {
        self.may_end.insert(node);
    }

    /// A node has stopped by itself.
    pub fn stopped(&mut self, node: u64, why: &str) {
        if !self.may_end.contains(&node) {
            self.object(format!("node {node} stopped: {why}"));
        }
    }

    pub fn object(&mut self, what: String) {
        self.objections.push(what);
    }

    pub fn objections(&self) -> Vec<String> {
        let violations = self.property_checker.violations();
        let violations = violations.iter().map(ToString::to_string);
        violations.chain(self.objections.iter().cloned()).collect()
    }
}
