//! The simulated operator: replaces a node whose disk was lost, as
//! `docs/operations/cluster.md` says.
//!
//! ```text
//!   the disk of node 3 is lost     3 is removed    4 is added
//!   ────────┬──────────────────────────┬───────────────┬─────────▶
//!       {1,2,3}                      {1,2}   {1,2} + 4     {1,2,4}
//!           └─ 4 starts on an empty disk, to join
//! ```
//!
//! The operator sends both requests to the leader, again and again: while another node is
//! down, too, there is no leader, and the operator waits. The next disk may be lost only
//! after this node has been replaced. Until then perhaps only one node has all
//! acknowledged commits, and two lost disks of three are no minority.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_env::JoinHandle;
use coeval_env::sim::World;
use coeval_leader::node::{Node, OperationError};
use coeval_peers::NodeId;

use crate::cluster_node::address;
use crate::server::Server;

/// A replacement in progress.
struct Replacement {
    old: u64,
    new: u64,
    /// Task of the request to the leader.
    asked: Option<JoinHandle<()>>,
    done: Arc<AtomicBool>,
}

/// Replaces the nodes of a cluster.
pub(crate) struct Operator {
    replacement: Option<Replacement>,
    /// The highest node number used so far.
    last: u64,
}

impl Operator {
    /// The operator of a cluster of `founders` initial nodes.
    pub(crate) fn new(founders: u64) -> Self {
        Self {
            replacement: None,
            last: founders,
        }
    }

    /// Whether a replacement is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.replacement.is_some()
    }

    /// Starts the replacement of a node. Returns the number of the new node.
    pub(crate) fn replace(&mut self, old: u64) -> u64 {
        self.last += 1;
        self.replacement = Some(Replacement {
            old,
            new: self.last,
            asked: None,
            done: Arc::default(),
        });
        self.last
    }

    /// Sends the next request of the replacement to the leader, if there is one.
    pub(crate) fn operate(&mut self, world: &World, leader: Option<&Server>) {
        let Some(replacement) = &mut self.replacement else {
            return;
        };
        if replacement.done.load(Ordering::Relaxed) {
            self.replacement = None;
            return;
        }
        let is_asked = replacement.asked.as_ref();
        if is_asked.is_some_and(|asked| !asked.is_finished()) {
            return;
        }
        let Some((leader, node)) = leader.and_then(|leader| Some((leader, leader.leading()?)))
        else {
            return;
        };
        let (old, new) = (replacement.old, replacement.new);
        let done = Arc::clone(&replacement.done);
        let asked = world.spawn(leader.node, async move {
            // After an error the request is repeated.
            if let Ok(()) = exchange(&node, NodeId(old), NodeId(new), address(new)).await {
                done.store(true, Ordering::Relaxed);
            }
        });
        replacement.asked = Some(asked);
    }
}

/// Removes one node and adds another, skipping steps that are done.
async fn exchange(
    leader: &Node,
    old: NodeId,
    new: NodeId,
    address: SocketAddr,
) -> Result<(), OperationError> {
    match leader.remove(old).await {
        Ok(()) | Err(OperationError::Unknown(_)) => {}
        Err(error) => return Err(error),
    }
    match leader.add(new, address).await {
        Ok(()) | Err(OperationError::AlreadyMember(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
