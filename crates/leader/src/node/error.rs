//! How a node can fail.

/// Why a node does not start, or has stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fix: a setting.
    #[error("{0}")]
    Setting(String),
    /// Its log.
    #[error(transparent)]
    Log(#[from] coeval_log::Error),
    /// Its connections.
    #[error(transparent)]
    Peers(#[from] coeval_peers::StartError),
    /// Fix: what its disk holds, or a setting.
    #[error(transparent)]
    Consensus(#[from] coeval_consensus::StartError),
    /// Fix: another node has no use for what is said, or means something else.
    #[error("a message from another node makes no sense: {0}")]
    Malformed(&'static str),
    /// Fatal: a node has lost what it had promised to keep.
    #[error("{0}")]
    Contradiction(coeval_consensus::Refusal),
    /// Retry: elsewhere.
    #[error("this node does not lead: {0}")]
    NotLeading(String),
    /// Fatal: the log broke off while the node led.
    #[error("the log has stopped while this node led; its own error says why")]
    LogEnded,
    /// Fatal: it has stopped.
    #[error("the node has stopped")]
    Ended,
}
