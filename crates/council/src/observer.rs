//! A hook for tests that observes every step of consensus on a node, to check its properties.

use std::fmt;

use coeval_consensus::{Entry, NodeId, Ready, Restored};

/// Observes the steps of nodes, in the order in which they happen.
pub trait Observer: fmt::Debug + Send + Sync {
    /// The node has started, with this state and these entries on its disk.
    fn started(&self, node: NodeId, restored: &Restored, entries: &[Entry]);

    /// Consensus has returned these actions; the driver has carried out none of them yet.
    fn handed_out(&self, node: NodeId, ready: &Ready);

    /// A write is durable; the driver has not reported it to consensus yet.
    fn persisted(&self, node: NodeId, write: u64);
}
