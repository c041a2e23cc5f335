//! Who replaces a node whose disk was lost, as `docs/operations/cluster.md` says.
//!
//! ```text
//!   the disk of node 3 is lost     3 is removed    4 is added
//!   ────────┬──────────────────────────┬───────────────┬─────────▶
//!       {1,2,3}                      {1,2}   {1,2} + 4     {1,2,4}
//!           └─ 4 begins on an empty disk, told to join
//! ```
//!
//! Both are asked of whoever leads, again and again: while another node is down, too, nobody
//! does, and all wait. The next disk may be lost when this node is replaced. Until then only
//! one node may be left that has what was acknowledged, and two lost disks of three are no
//! minority.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_env::JoinHandle;
use coeval_env::sim::World;
use coeval_leader::node::{Node, OperationError};
use coeval_leader::peers::NodeId;

use crate::cluster::address;
use crate::server::Server;

/// A replacement that is under way.
struct Replacement {
    old: u64,
    new: u64,
    /// What a leader was asked for.
    asked: Option<JoinHandle<()>>,
    done: Arc<AtomicBool>,
}

/// Watches over the nodes of a cluster.
pub(crate) struct Operator {
    replacement: Option<Replacement>,
    /// The highest number that a node ever had.
    last: u64,
}

impl Operator {
    /// Of a cluster of so many founders.
    pub(crate) fn new(founders: u64) -> Self {
        Self {
            replacement: None,
            last: founders,
        }
    }

    /// Whether a node is being replaced.
    pub(crate) fn is_busy(&self) -> bool {
        self.replacement.is_some()
    }

    /// A node is to be replaced. The number of the one that comes.
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

    /// Asks whoever leads for what is still to be done.
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
            // Whatever else comes of it is asked for again.
            if let Ok(()) = exchange(&node, NodeId(old), NodeId(new), address(new)).await {
                done.store(true, Ordering::Relaxed);
            }
        });
        replacement.asked = Some(asked);
    }
}

/// Removes one node and adds another, as far as that is not done.
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
