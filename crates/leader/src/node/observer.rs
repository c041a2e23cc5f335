//! Who sees every step of consensus on a node: tests, with its properties at hand.

use std::fmt;

use coeval_consensus::{Entry, NodeId, Ready, Restored};

/// Sees what happens on a node, in the order in which it does.
pub trait Observer: fmt::Debug + Send + Sync {
    /// It has started, with this on its disk.
    fn started(&self, node: NodeId, restored: &Restored, entries: &[Entry]);

    /// Consensus has handed this out; nothing of it has been carried out.
    fn handed_out(&self, node: NodeId, ready: &Ready);

    /// A write is on the disk; consensus has not been told.
    fn persisted(&self, node: NodeId, write: u64);
}
