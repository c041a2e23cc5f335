//! Where a log's files are, and whose.

use std::path::PathBuf;

use crate::checkpoint::CHECKPOINTS;
use crate::recovery::Leftovers;
use crate::segment::SegmentKind;

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

    /// Segments as those see them who read what is whole, and make or remove nothing beside.
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
