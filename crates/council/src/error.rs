//! Why the council refuses or fails, sorted by what its caller can do.

use coeval_consensus::{NodeId, Refusal};
use coeval_types::{Remedy, Term};

use crate::machine::RestoreFailed;
use crate::{Fenced, MAX_ENTRY_BYTES};

/// Why the council refuses a request, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Retry, elsewhere: this node does not lead the council, or not yet.
    #[error("this node does not lead the council{}", known(.leader.as_ref()))]
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<NodeId>,
    },
    /// Retry, if still wanted: the proposer's term is over.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// Retry: another leader's entry took the proposal's place, so it has no effect.
    #[error("another leader's entry took the place of this proposal, which has no effect")]
    Lost,
    /// Look before a retry: whether the proposal has an effect is not known here.
    #[error("whether the proposal was committed is not known on this node")]
    Unknown,
    /// Retry later: as many proposals wait as may.
    #[error("{0} proposals wait already, which is the most")]
    Busy(usize),
    /// Fix: an entry is too large.
    #[error("an entry of {0} bytes, and the most is {most}", most = MAX_ENTRY_BYTES)]
    TooLarge(usize),
    /// The request's or the message's own fault; see the refusal.
    #[error("{0}")]
    Refused(Refusal),
    /// Fix: a message that no council sends.
    #[error("a message of the council is malformed: {0}")]
    Malformed(&'static str),
    /// Fatal: the log on this node's disk.
    #[error(transparent)]
    Log(#[from] coeval_log::Error),
    /// Fatal: a snapshot that the machine does not read.
    #[error("a snapshot of the council's state: {0}")]
    Restore(#[from] RestoreFailed),
    /// Fatal: the council on this node has ended.
    #[error("the council on this node has ended")]
    Ended,
}

fn known(leader: Option<&NodeId>) -> String {
    leader.map_or_else(
        || "; no leader is known".to_owned(),
        |leader| format!("; node {leader} does"),
    )
}

impl Error {
    /// How the caller can react.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NotLeader { .. }
            | Self::Fenced(_)
            | Self::Lost
            | Self::Unknown
            | Self::Busy(_) => Remedy::Retry,
            Self::TooLarge(_) | Self::Malformed(_) => Remedy::Fix,
            Self::Refused(refusal) => refusal.remedy(),
            Self::Log(_) | Self::Restore(_) | Self::Ended => Remedy::Fatal,
        }
    }

    /// A refusal of consensus, in this crate's words.
    pub(crate) fn of(refusal: Refusal, term: Term) -> Self {
        match refusal {
            Refusal::NotLeader { leader } => Self::NotLeader { leader },
            Refusal::TermBegins { .. } | Refusal::HandingOver { .. } => {
                tracing::debug!(%term, %refusal, "the council's leader takes no proposals");
                Self::NotLeader { leader: None }
            }
            other => Self::Refused(other),
        }
    }
}
