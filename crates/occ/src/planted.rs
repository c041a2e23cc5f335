//! Planted bugs of the engine that take more than a line where they stand.

use std::time::Duration;

use coeval_types::{Timestamp, planted};

use crate::shared::Shared;
use crate::statistics;

/// A snapshot that is a second old is ended, and its reader is not told.
pub(crate) fn end_old_snapshots(shared: &Shared, before: Timestamp) {
    if planted!(EndOldSnapshots)
        && statistics::read(shared).oldest_snapshot_age >= Duration::from_secs(1)
    {
        shared.snapshots.end_oldest(before);
    }
}
