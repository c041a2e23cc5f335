//! Paths of the log's files, with the database they belong to.

use std::path::PathBuf;

use crate::checkpoint::CHECKPOINTS;
use crate::recovery::Leftovers;
use crate::segment::SegmentKind;

/// A data directory, for the parts of the log that read or remove files beside the flusher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The data directory.
    pub(crate) directory: PathBuf,
    /// The database id.
    pub(crate) database: u128,
    /// Whether the log held memberships with a cluster version when it was opened, also that of
    /// a server alone whose data came from a cluster.
    pub(crate) versioned: bool,
}

impl Files {
    /// The directory of segments.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Segment kind for readers of complete segments, which create and remove no files.
    pub(crate) fn whole_segments(&self) -> SegmentKind {
        SegmentKind {
            directory: self.log(),
            database: self.database,
            segment_bytes: 0,
            leftovers: Leftovers::Keep,
        }
    }

    /// The directory of checkpoints.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.directory.join(CHECKPOINTS)
    }
}
