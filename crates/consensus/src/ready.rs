//! What a node wants done, and what is done for it: the caller's side of each step.
//!
//! ```text
//!  message, tick, persisted, proposal …          messages, write, committed, role …
//!        │                                                  ▲
//!        ▼                                                  │
//!   Consensus::receive, tick, persisted, propose …  ──▶  Consensus::ready
//! ```
//!
//! A [`Ready`] may be carried out in any order and in parallel, but for two rules: writes
//! are carried out in the order of their numbers, and what is committed is applied in
//! order. A message never has to wait for the write beside it: those that promise
//! something about the disk are held inside until that write is reported done.

use coeval_types::{Lsn, Term};

use crate::entry::{Entry, Mark};
use crate::membership::Membership;
use crate::message::Message;
use crate::position::{NodeId, Position};
use crate::refusal::Refusal;
use crate::restored::HardState;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// To be sent, in order where the way keeps order.
    pub messages: Vec<Message>,
    /// To be put on the disk, and reported by
    /// [`persisted`](crate::Consensus::persisted).
    pub write: Option<Write>,
    /// Newly committed, and to be applied.
    pub committed: Option<Committed>,
    /// This node has another role, term or leader than before.
    pub role: Option<RoleChange>,
    /// Reads that may be answered, or not.
    pub reads: Vec<ReadAnswer>,
    /// Entries that followers need and that are no longer in memory.
    pub fetches: Vec<Fetch>,
    /// Followers that need a checkpoint: the log they would need is gone. To be sent by
    /// the caller, and reported by
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

/// A change of what is on the disk, made in this order: term and vote, then what is taken
/// away, then the entries, from the first on. A crash may come between any two of them. The
/// term comes first, so that a log never holds entries of a term that its node does not
/// know; what is promised to others waits until all of it is there. A commit point does not
/// get there before the entries that it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Rises by one from write to write.
    pub number: u64,
    /// All log goes, and the checkpoint that was received takes its place, and that of
    /// the state that was applied so far.
    pub install: Option<Checkpoint>,
    /// Everything in the log from here on goes, and what was applied of it is taken
    /// back.
    pub truncate: Option<Lsn>,
    /// To be put behind what is left.
    pub entries: Vec<Entry>,
    /// To be kept in place of the one before.
    pub hard_state: HardState,
}

/// The state after a committed prefix of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which prefix.
    pub position: Position,
    /// Who took part at its end.
    pub membership: Membership,
    /// From where on it is known where terms began: at the latest from its end.
    pub base: Position,
    /// Where they began, from the base on to its end. They outlive the log in which they
    /// stood, so that who recovers is not sent a checkpoint for want of them.
    pub marks: Vec<Mark>,
}

impl Checkpoint {
    /// One of which no more is known.
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

/// A stretch of the log that is committed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Where it begins: where the one before ended.
    pub from: Lsn,
    /// Its end, and the term of its last entry.
    pub to: Position,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// It follows a leader, or waits for one.
    #[default]
    Follower,
    /// It asks whether it would be elected.
    PreCandidate,
    /// It stands for election.
    Candidate,
    /// It leads.
    Leader {
        /// Whether its mark is committed: only then does it take proposals and reads.
        serving: bool,
    },
}

/// What a node has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RoleChange {
    /// In this term.
    pub term: Term,
    /// What it is.
    pub role: Role,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
}

/// What has become of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAnswer {
    /// What the caller named it.
    pub context: u64,
    /// It may be answered from a state that has everything before this; or not here.
    pub outcome: Result<Lsn, Refusal>,
}

/// A follower needs entries that are no longer in memory. To be read from the log and
/// handed to [`fetched`](crate::Consensus::fetched).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Who needs them.
    pub to: NodeId,
    /// From the entry that holds this place on.
    pub from: Lsn,
    /// No further than this.
    pub end: Lsn,
    /// Not more space than this, but at least one entry.
    pub space: u64,
    /// Not more entries than this.
    pub entries: usize,
}
