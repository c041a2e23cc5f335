//! A property checker: an observer that checks a whole cluster against the safety
//! properties of consensus.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_consensus::properties::{DURABILITY, Properties, Violation};
use coeval_consensus::{Body, Content, Entry, Message, NodeId, Ready, Restored, Role};

use super::Observer;

/// Observes the steps of all nodes of one cluster. The steps need one order: the nodes
/// run in one simulated world, or under one lock.
#[derive(Clone, Debug, Default)]
pub struct PropertyChecker(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    properties: Properties,
    violations: Vec<Violation>,
    elections: u64,
    installed: u64,
    appends: u64,
    /// Nodes whose disks may have lost data.
    damaged: BTreeSet<NodeId>,
}

impl Seen {
    fn note(&mut self, held: Result<(), Violation>) {
        let violation = held.err().filter(|violation| {
            violation.property != DURABILITY || !self.damaged.contains(&violation.node)
        });
        self.violations.extend(violation);
    }
}

impl PropertyChecker {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no panic while it was held")
    }

    /// A node's files were damaged, so its disk may have lost data: the checker excuses
    /// violations of durability by this node, and no others.
    pub fn damaged(&self, node: NodeId) {
        self.seen().damaged.insert(node);
    }

    /// A node has been given a new, empty disk.
    pub fn lost_its_disk(&self, node: NodeId) {
        self.seen().properties.lost_its_disk(node);
    }

    /// Number of checkpoints that nodes were to install in place of their log.
    #[must_use]
    pub fn installed(&self) -> u64 {
        self.seen().installed
    }

    /// Number of messages that carried entries.
    #[must_use]
    pub fn appends(&self) -> u64 {
        self.seen().appends
    }

    /// The violations, in the order in which they were seen. Those after the first may be
    /// consequences: the checker's model differs from its cluster from then on.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.seen().violations.clone()
    }

    /// Number of terms whose leader came to serve.
    #[must_use]
    pub fn elections(&self) -> u64 {
        self.seen().elections
    }
}

/// Entries reduced to the part of each frame that has meaning, in which matching logs
/// agree.
fn meanings(entries: &[Entry]) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        if let Content::Payload(frame) = &mut entry.content {
            frame.truncate(coeval_log::meaning(frame).len());
        }
    }
    entries
}

impl Observer for PropertyChecker {
    fn started(&self, node: NodeId, restored: &Restored, entries: &[Entry]) {
        let mut seen = self.seen();
        let held = seen.properties.started(node, restored, &meanings(entries));
        seen.note(held);
    }

    fn handed_out(&self, node: NodeId, ready: &Ready) {
        let mut seen = self.seen();
        let mut meant = ready.clone();
        if let Some(write) = &mut meant.write {
            write.entries = meanings(&write.entries);
        }
        let held = seen.properties.handed_out(node, &meant);
        seen.note(held);
        let write = ready.write.as_ref();
        seen.installed += u64::from(write.is_some_and(|write| write.install.is_some()));
        let has_entries = |message: &&Message| match &message.body {
            Body::Append { entries, .. } => !entries.is_empty(),
            _ => false,
        };
        seen.appends += ready.messages.iter().filter(has_entries).count() as u64;
        let serves = |role| role == Role::Leader { serving: true };
        seen.elections += u64::from(ready.role.is_some_and(|change| serves(change.role)));
    }

    fn asked(&self, node: NodeId, question: u64) {
        self.seen().properties.asked(node, question);
    }

    fn persisted(&self, node: NodeId, write: u64) {
        let mut seen = self.seen();
        let held = seen.properties.persisted(node, write);
        seen.note(held);
    }
}
