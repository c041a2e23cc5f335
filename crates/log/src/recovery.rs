//! Recovery: from what the disk holds back to what was committed.

use std::fmt;

use coeval_types::{Lsn, Timestamp};

use crate::Entry;

/// Why an entry cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError(pub String);

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}

/// Takes the entries of the log back while it is opened.
pub trait Replay: Send + Sync + 'static {
    /// The transaction committed at `timestamp` did this. Called from several
    /// threads at once; for one record always from the same thread and in commit
    /// order. An error ends the opening.
    fn apply(&self, timestamp: Timestamp, entry: Entry<'_>) -> Result<(), ReplayError>;
}

/// What recovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Whether the log had been closed in order.
    pub clean: bool,
    /// Committed transactions.
    pub commits: u64,
    /// Their entries.
    pub entries: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// The last commit, [`Timestamp::ZERO`] when there is none.
    pub last_commit: Timestamp,
    /// Where the log goes on.
    pub end: Lsn,
    /// Bytes behind the end that had been written, but were never durable, and so
    /// never acknowledged. Cut off.
    pub cut_bytes: u64,
}
