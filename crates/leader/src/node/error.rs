//! Errors that keep a node from starting, or stop it.

/// Why a node does not start, or has stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fix: a setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The write-ahead log failed.
    #[error(transparent)]
    Log(#[from] coeval_log::Error),
    /// The connections to other nodes could not be set up.
    #[error(transparent)]
    Peers(#[from] coeval_peers::StartError),
    /// Fix: the node's disk state or a setting does not fit the cluster.
    #[error(transparent)]
    Consensus(#[from] coeval_consensus::StartError),
    /// Fix: another node sent a message that this node cannot interpret.
    #[error("a message from another node makes no sense: {0}")]
    Malformed(&'static str),
    /// Fatal: a node has lost data that it had acknowledged.
    #[error("{0}")]
    Contradiction(coeval_consensus::Refusal),
    /// Retry on the leader.
    #[error("this node does not lead: {0}")]
    NotLeading(String),
    /// Fatal: the log failed while the node led.
    #[error("the log has stopped while this node led; its own error says why")]
    LogEnded,
    /// Fatal: the node has stopped.
    #[error("the node has stopped")]
    Ended,
}
