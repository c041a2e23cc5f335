//! The output of a step: the messages, writes and commits that the caller carries out.
//!
//! ```text
//!  message, tick, persisted, proposal …          messages, write, committed, role …
//!        │                                                  ▲
//!        ▼                                                  │
//!   Consensus::receive, tick, persisted, propose …  ──▶  Consensus::ready
//! ```
//!
//! A caller may carry out the parts of a [`Ready`] in any order and in parallel, with two
//! restrictions: writes in the order of their numbers, and committed entries in log order.
//! A message never has to wait for the write beside it: messages that promise something
//! about the disk are held inside until that write is reported done.

use coeval_types::{Lsn, Term};

use crate::entry::{Entry, Mark};
use crate::membership::Membership;
use crate::message::Message;
use crate::position::{NodeId, Position};
use crate::refusal::Refusal;
use crate::restored::HardState;

/// The actions that the caller must carry out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Messages to send, in order if the transport keeps order.
    pub messages: Vec<Message>,
    /// Write to carry out, and to report by [`persisted`](crate::Consensus::persisted).
    pub write: Option<Write>,
    /// Newly committed entries, to apply.
    pub committed: Option<Committed>,
    /// The new role, term or leader of this node, if any of them changed.
    pub role: Option<RoleChange>,
    /// Reads that can be answered, or are refused.
    pub reads: Vec<ReadAnswer>,
    /// Questions to the leader that are answered, or lost because leader or term have changed.
    pub asked: Vec<ReadAnswer>,
    /// Entries that followers need and that are no longer in memory.
    pub fetches: Vec<Fetch>,
    /// Followers that need a checkpoint, because the log they need has been removed. The
    /// caller sends one, and reports it by
    /// [`checkpoint_sent`](crate::Consensus::checkpoint_sent).
    pub checkpoints: Vec<NodeId>,
}

impl Ready {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A change of the disk, made in this order: term and vote, then the truncation, then the
/// entries, from the first on. A crash may come between any two of them. The term comes
/// first, so that a log never holds entries of a term that its node does not know; promises
/// to other nodes wait until all of it is durable. A commit index is not written before the
/// entries that it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Number of the write, one more than the previous one's.
    pub number: u64,
    /// A received checkpoint that replaces the whole log, and the state applied so far.
    pub install: Option<Checkpoint>,
    /// Log offset from which the log is removed; the caller undoes what it applied of it.
    pub truncate: Option<Lsn>,
    /// Entries to append after the truncation.
    pub entries: Vec<Entry>,
    /// Hard state that replaces the previous one.
    pub hard_state: HardState,
}

/// The state after a committed prefix of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The prefix of the log whose state it holds.
    pub position: Position,
    /// The membership at the prefix's end.
    pub membership: Membership,
    /// Position from which on all marks are known: its end at the latest.
    pub base: Position,
    /// The marks of terms from the base to its end. They outlive the log that contained
    /// them, so that a recovering follower need not be sent a checkpoint only for lack of
    /// marks.
    pub marks: Vec<Mark>,
}

impl Checkpoint {
    /// A checkpoint whose earlier marks are not known.
    #[must_use]
    pub fn new(position: Position, membership: Membership) -> Self {
        Self {
            position,
            membership,
            base: position,
            marks: Vec::new(),
        }
    }

    /// Whether its marks lead from its base to its end.
    pub(crate) fn is_sound(&self) -> bool {
        let mut before = self.base;
        for mark in &self.marks {
            if mark.term <= before.term || mark.start < before.end || mark.end <= mark.start {
                return false;
            }
            before = Position {
                term: mark.term,
                end: mark.end,
            };
        }
        before.term == self.position.term && before.end <= self.position.end
    }
}

/// A newly committed range of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Log offset at which the range begins: the end of the previous one.
    pub from: Lsn,
    /// The range's end, and the term of its last entry.
    pub to: Position,
}

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// The node follows a leader, or waits for one.
    #[default]
    Follower,
    /// The node runs a pre-vote.
    PreCandidate,
    /// The node campaigns in its term.
    Candidate,
    /// The node leads its term.
    Leader {
        /// Whether its mark is committed: only then does it accept proposals and reads.
        serving: bool,
    },
}

/// A node's role in its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RoleChange {
    /// The node's term.
    pub term: Term,
    /// The node's role.
    pub role: Role,
    /// The leader, as far as the node knows.
    pub leader: Option<NodeId>,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAnswer {
    /// The context that the caller gave the read.
    pub context: u64,
    /// The log offset before which the state must be applied for the read; or the refusal.
    pub outcome: Result<Lsn, Refusal>,
}

/// A request for entries that a follower needs and that are no longer in memory. The caller
/// reads them from the log and delivers them by [`fetched`](crate::Consensus::fetched).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The follower that needs them.
    pub to: NodeId,
    /// Log offset within or at the start of the first entry.
    pub from: Lsn,
    /// Log offset at which the entries must end at the latest.
    pub end: Lsn,
    /// Most space of the entries; one entry is always allowed.
    pub space: u64,
    /// Most entries.
    pub entries: usize,
}
