//! Where a log's files are, and whose.

use std::path::PathBuf;

use crate::checkpoint::CHECKPOINTS;

/// A data directory as those who work beside the flusher see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The data directory.
    pub(crate) directory: PathBuf,
    /// The database's number.
    pub(crate) database: u128,
}

impl Files {
    /// The directory of segments.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// The directory of checkpoints.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.directory.join(CHECKPOINTS)
    }
}
