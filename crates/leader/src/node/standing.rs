//! How a node stands, for whoever wants to know.

use std::sync::Arc;

use coeval_consensus::{Consensus, Role as Part};
use coeval_occ::Engine;
use coeval_peers::NodeId;
use coeval_types::{Lsn, Term};

use super::Transfer;

/// What a node is, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It follows, or waits for a leader.
    Follower,
    /// It stands for election.
    Candidate,
    /// It leads.
    Leader,
}

/// How a node stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its term.
    pub term: Term,
    /// What it is.
    pub role: Role,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
    /// Everything before is known to be committed.
    pub committed: Lsn,
    /// Where its log ends.
    pub end: Lsn,
    /// While it leads and can be used: its engine. Another term has another one.
    pub engine: Option<Arc<Engine>>,
    /// Checkpoints on their way from or to it.
    pub transfers: Vec<Transfer>,
    /// Why it has stopped, if it has.
    pub failure: Option<Arc<str>>,
}

impl Standing {
    /// Whether it says the same, of a node that goes on.
    pub(super) fn is(&self, other: &Self) -> bool {
        let engine = |standing: &Self| standing.engine.as_ref().map(Arc::as_ptr);
        let numbers = |standing: &Self| {
            let Self {
                term,
                role,
                leader,
                committed,
                end,
                ..
            } = standing;
            (*term, *role, *leader, *committed, *end)
        };
        numbers(self) == numbers(other)
            && engine(self) == engine(other)
            && self.transfers == other.transfers
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
            transfers: Vec::new(),
            failure: None,
        }
    }
}
