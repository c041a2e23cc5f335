//! A node's status: its role, term and log positions, published to watchers.

use std::collections::BTreeSet;
use std::sync::Arc;

use coeval_consensus::{Consensus, Role as Part};
use coeval_occ::{Engine, FollowerEngine};
use coeval_peers::NodeId;
use coeval_types::{Lsn, Term};

use super::Transfer;

/// A node's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node follows, or waits for a leader.
    Follower,
    /// The node campaigns in an election.
    Candidate,
    /// The node leads.
    Leader,
}

/// A node's status at one moment.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The node's current term.
    pub term: Term,
    /// The node's role.
    pub role: Role,
    /// The leader, as far as the node knows.
    pub leader: Option<NodeId>,
    /// Log offset before which everything is known to be committed.
    pub committed: Lsn,
    /// End of the node's log.
    pub end: Lsn,
    /// The engine, while the node leads and serves. Every term has another engine.
    pub engine: Option<Arc<Engine>>,
    /// The engine that reads this node's tables while it follows: `None` while it leads, is no
    /// member yet, or has no tables to read. Other tables have another engine, and the one
    /// before is retired.
    pub reader: Option<Arc<FollowerEngine>>,
    /// Checkpoints being transferred to or from the node.
    pub transfers: Vec<Transfer>,
    /// Why the node takes no part in its cluster: it founds it and waits for other founders,
    /// or is not let in. `None` otherwise.
    pub shut_out: Option<Arc<str>>,
    /// The founders without whose word this node, since its start, has gone on with the
    /// founding of its cluster: an administrator has vouched for them.
    pub founded_without: BTreeSet<NodeId>,
    /// Why the node has stopped; `None` while it runs.
    pub failure: Option<Arc<str>>,
}

impl NodeStatus {
    /// Whether both statuses are equal, ignoring `failure`.
    pub(super) fn is(&self, other: &Self) -> bool {
        let engine = |node_status: &Self| node_status.engine.as_ref().map(Arc::as_ptr);
        let reader = |node_status: &Self| node_status.reader.as_ref().map(Arc::as_ptr);
        let numbers = |node_status: &Self| {
            let Self {
                term,
                role,
                leader,
                committed,
                end,
                ..
            } = node_status;
            (*term, *role, *leader, *committed, *end)
        };
        numbers(self) == numbers(other)
            && engine(self) == engine(other)
            && reader(self) == reader(other)
            && self.transfers == other.transfers
            && self.shut_out == other.shut_out
            && self.founded_without == other.founded_without
    }

    pub(super) fn of(consensus: &Consensus) -> Self {
        let now = consensus.role();
        Self {
            term: now.term,
            role: match now.role {
                Part::Follower => Role::Follower,
                Part::PreCandidate | Part::Candidate => Role::Candidate,
                Part::Leader { .. } => Role::Leader,
            },
            leader: now.leader.map(|node| NodeId(node.0)),
            committed: consensus.commit(),
            end: consensus.end(),
            engine: None,
            reader: None,
            transfers: Vec::new(),
            shut_out: None,
            founded_without: BTreeSet::new(),
            failure: None,
        }
    }
}
