//! Response dependencies: the conditions that must hold before a response may leave the
//! process.

use coeval_types::Timestamp;

/// Identifies a request to the engine to confirm that no other engine has replaced it as
/// leader (a read index). Confirmations of one engine are ordered by the time of the
/// request, and one that is granted grants all earlier ones. They have no meaning for
/// another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Confirmation(pub u64);

/// Identifies a question for the newest commit of the cluster, as an engine that follows
/// asks it before it takes a snapshot. It is never asked twice: a retry is a new question
/// with a new number, for an answer that has been delayed may be older than the retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question(pub u64);

/// How an engine has learned what answers a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answered {
    /// The leader was asked for this reader first.
    Asked,
    /// The leader was asked, for an earlier reader as well.
    Shared,
    /// By a commit that the leader has reported in its answer to another message.
    Spared,
}

/// The conditions that a response depends on. See rule 3 of the [crate].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseDependencies {
    /// The newest commit that the response depends on, which must be durable.
    pub newest_seen: Timestamp,
    /// The confirmation that must have been granted, if the response needs one.
    pub confirmation: Option<Confirmation>,
}

impl From<Timestamp> for ResponseDependencies {
    /// A response that depends only on a commit.
    fn from(newest_seen: Timestamp) -> Self {
        Self {
            newest_seen,
            confirmation: None,
        }
    }
}
