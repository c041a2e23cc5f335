//! What clients were told, and what consensus did: held against what must be.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_consensus::properties::{Properties, Violation};
use coeval_consensus::{Entry, NodeId, Ready, Restored};
use coeval_leader::node::Observer;

/// Everything that is known of a run.
#[derive(Debug, Default)]
pub struct Court {
    properties: Properties,
    /// Of every transfer that a client was told of: by its own commit, or by a read.
    told: BTreeSet<u64>,
    next: u64,
    is_quiet: bool,
    objections: Vec<String>,
    pub elections: u64,
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

    /// No transfer begins any more.
    pub fn be_quiet(&mut self) {
        self.is_quiet = true;
    }

    /// Clients were told of these.
    pub fn tell(&mut self, transfers: impl IntoIterator<Item = u64>) {
        self.told.extend(transfers);
    }

    pub fn told(&self) -> &BTreeSet<u64> {
        &self.told
    }

    pub fn object(&mut self, what: String) {
        self.objections.push(what);
    }

    pub fn objections(&self) -> &[String] {
        &self.objections
    }

    fn held(&mut self, held: Result<(), Violation>) {
        if let Err(violation) = held {
            self.object(violation.to_string());
        }
    }
}

impl Observer for Shared {
    fn started(&self, node: NodeId, restored: &Restored, entries: &[Entry]) {
        let mut court = self.lock();
        let held = court.properties.started(node, restored, entries);
        court.held(held);
    }

    fn handed_out(&self, node: NodeId, ready: &Ready) {
        let mut court = self.lock();
        let held = court.properties.handed_out(node, ready);
        court.held(held);
        let leads = |change: coeval_consensus::RoleChange| {
            change.role == coeval_consensus::Role::Leader { serving: true }
        };
        court.elections += u64::from(ready.role.is_some_and(leads));
    }

    fn persisted(&self, node: NodeId, write: u64) {
        let mut court = self.lock();
        let held = court.properties.persisted(node, write);
        court.held(held);
    }
}
