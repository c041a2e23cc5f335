//! The observer of a simulated cluster's nodes: checks the properties of consensus after
//! every step, and counts the questions that followers ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coeval_consensus::{Entry, NodeId, Ready, Restored};
use coeval_leader::node::{Observer, PropertyChecker};

/// An observer that all nodes of a cluster share.
#[derive(Clone, Debug, Default)]
pub struct ClusterObserver {
    /// Checks the consensus properties.
    pub property_checker: PropertyChecker,
    questions: Arc<AtomicU64>,
}

impl ClusterObserver {
    /// Number of questions for the newest commit that followers have sent.
    #[must_use]
    pub fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }
}

impl Observer for ClusterObserver {
    fn started(&self, node: NodeId, restored: &Restored, entries: &[Entry]) {
        self.property_checker.started(node, restored, entries);
    }

    fn handed_out(&self, node: NodeId, ready: &Ready) {
        self.property_checker.handed_out(node, ready);
    }

    fn asked(&self, node: NodeId, question: u64) {
        self.questions.fetch_add(1, Ordering::Relaxed);
        self.property_checker.asked(node, question);
    }

    fn persisted(&self, node: NodeId, write: u64) {
        self.property_checker.persisted(node, write);
    }
}
