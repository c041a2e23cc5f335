//! Why something that was asked for is not done.

use std::fmt;

use coeval_types::{Lsn, Remedy, Term};

use crate::membership::ChangeError;
use crate::position::NodeId;

/// Why something that was asked for is not done. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Retry, elsewhere: this node does not lead.
    NotLeader {
        /// Who does, as far as it knows.
        leader: Option<NodeId>,
    },
    /// Retry: the term's mark is not committed yet, and nothing enters the log before.
    TermBegins {
        /// Which term.
        term: Term,
    },
    /// Retry: leadership is being handed over.
    HandingOver {
        /// To whom.
        to: NodeId,
    },
    /// Retry: the change of members before this one is not committed yet.
    ChangeUnderWay,
    /// Fix: the change makes no sense.
    Change(ChangeError),
    /// Fix: leadership can only be handed to another voter.
    NotAVoter(NodeId),
    /// Fix: a log of so much space cannot be numbered.
    OutOfPlaces,
    /// Fix: a message that no node sends. It was dropped.
    Malformed(&'static str),
    /// Fix: a message for somebody else. It was dropped.
    Misdirected {
        /// For whom.
        to: NodeId,
    },
    /// Fatal: a leader's log contradicts what is committed here. One of the two nodes
    /// has lost what it had promised to keep.
    Contradiction {
        /// Where the leader's entry is another.
        at: Lsn,
        /// What is committed here.
        commit: Lsn,
    },
    /// Fix, in the caller: no write has this number.
    NoSuchWrite(u64),
}

impl Refusal {
    /// What the caller can do.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::NotLeader { .. }
            | Self::TermBegins { .. }
            | Self::HandingOver { .. }
            | Self::ChangeUnderWay => Remedy::Retry,
            Self::Change(_)
            | Self::NotAVoter(_)
            | Self::OutOfPlaces
            | Self::Malformed(_)
            | Self::Misdirected { .. }
            | Self::NoSuchWrite(_) => Remedy::Fix,
            Self::Contradiction { .. } => Remedy::Fatal,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeader {
                leader: Some(leader),
            } => write!(formatter, "this node does not lead; node {leader} does"),
            Self::NotLeader { leader: None } => {
                formatter.write_str("this node does not lead, and knows nobody who does; try again")
            }
            Self::TermBegins { term } => write!(
                formatter,
                "term {term} has begun and its mark is not committed yet; try again"
            ),
            Self::HandingOver { to } => {
                write!(
                    formatter,
                    "leadership is being handed to node {to}; try again"
                )
            }
            Self::ChangeUnderWay => formatter
                .write_str("the change of members before this one is not committed; try again"),
            Self::Change(error) => error.fmt(formatter),
            Self::NotAVoter(node) => write!(
                formatter,
                "leadership can only be handed to another voter, which node {node} is not"
            ),
            Self::OutOfPlaces => {
                formatter.write_str("the log has no more places: dump and restore the database")
            }
            Self::Malformed(what) => write!(formatter, "a message was dropped: {what}"),
            Self::Misdirected { to } => {
                write!(
                    formatter,
                    "a message for node {to} came here and was dropped"
                )
            }
            Self::Contradiction { at, commit } => write!(
                formatter,
                "the leader has another entry at {at}, and here everything before {commit} is \
                 committed: one of the two nodes has lost data; stop this node, and remove the \
                 one that has lost its disk"
            ),
            Self::NoSuchWrite(number) => write!(formatter, "there is no write {number}"),
        }
    }
}

impl std::error::Error for Refusal {}
