//! What clients were told, and what consensus did: held against what must be.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_consensus::NodeId;
use coeval_leader::node::Witness;

/// Everything that is known of a run.
#[derive(Debug, Default)]
pub struct Court {
    /// Of consensus.
    pub witness: Witness,
    /// Of every transfer that a client was told of: by its own commit, or by a read.
    told: BTreeSet<u64>,
    next: u64,
    is_quiet: bool,
    is_paused: bool,
    /// Through this node nothing is transferred for now.
    idle: Option<u64>,
    objections: Vec<String>,
    pub confirmed_reads: u64,
}

/// As tasks share it.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Court>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Court> {
        self.0.lock().expect("no panic under this lock")
    }
}

impl Court {
    /// A number that no other transfer has; none when there are to be no more.
    pub fn number(&mut self) -> Option<u64> {
        self.next += 1;
        (!self.is_quiet).then_some(self.next)
    }

    /// No transfer begins for now, or they do again.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Whether no transfer begins now through this node.
    pub fn pauses(&self, node: u64) -> bool {
        self.is_paused || self.idle == Some(node)
    }

    /// No transfer begins any more.
    pub fn be_quiet(&mut self) {
        self.is_quiet = true;
    }

    /// Nothing is transferred through this node for now, if it leads.
    pub fn set_idle(&mut self, node: Option<u64>) {
        self.idle = node;
    }

    /// Clients were told of these.
    pub fn tell(&mut self, transfers: impl IntoIterator<Item = u64>) {
        self.told.extend(transfers);
    }

    pub fn told(&self) -> &BTreeSet<u64> {
        &self.told
    }

    /// A node's disk is gone.
    pub fn lose_disk(&mut self, node: u64) {
        self.witness.lost_its_disk(NodeId(node));
    }

    pub fn object(&mut self, what: String) {
        self.objections.push(what);
    }

    pub fn objections(&self) -> Vec<String> {
        let violations = self.witness.violations();
        let violations = violations.iter().map(ToString::to_string);
        violations.chain(self.objections.iter().cloned()).collect()
    }
}
