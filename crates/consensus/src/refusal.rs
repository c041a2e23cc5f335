//! Refusals: why consensus rejects a request or a message.

use std::fmt;

use coeval_types::{Lsn, Remedy, Term};

use crate::membership::ChangeError;
use crate::position::NodeId;

/// Why consensus rejects a request or a message. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Retry, elsewhere: this node does not lead.
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<NodeId>,
    },
    /// Retry: this node follows no leader, or another one than it has asked.
    NoLeader,
    /// Retry: the term's mark is not committed yet, and the log accepts nothing before.
    TermBegins {
        /// The term that has begun.
        term: Term,
    },
    /// Retry: a leadership transfer is under way.
    HandingOver {
        /// The node that leadership is being transferred to.
        to: NodeId,
    },
    /// Retry: the previous membership change is not committed yet.
    ChangeUnderWay,
    /// Fix: the membership change makes no sense.
    Change(ChangeError),
    /// Fix: leadership can only be transferred to another voter.
    NotAVoter(NodeId),
    /// Fix: the log's offsets are used up by an entry of this size.
    OutOfPlaces,
    /// Fix: no node would send this message. It was dropped.
    Malformed(&'static str),
    /// Fix: the message is for another node. It was dropped.
    Misdirected {
        /// The node that the message is for.
        to: NodeId,
    },
    /// Fatal: a leader's log contradicts this node's committed log. One of the two nodes
    /// has lost state that it had promised to keep.
    Contradiction {
        /// Log offset at which the leader's entry differs.
        at: Lsn,
        /// This node's commit index.
        commit: Lsn,
    },
    /// Fix, in the caller: no write has this number.
    NoSuchWrite(u64),
}

impl Refusal {
    /// How the caller can react.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::NotLeader { .. }
            | Self::NoLeader
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
                formatter.write_str("this node does not lead, and knows no leader; try again")
            }
            Self::NoLeader => formatter.write_str(
                "this node follows no leader, or its leader has changed meanwhile; try again",
            ),
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
