//! Planted bugs of the engine: code of injected known bugs that takes more than one line.

use std::time::Duration;

use coeval_types::{Timestamp, planted};

use crate::shared::Shared;
use crate::statistics;

/// Bug: ends a snapshot that is a second old, without notifying its reader.
pub(crate) fn end_old_snapshots(shared: &Shared, before: Timestamp) {
    if planted!(EndOldSnapshots)
        && statistics::read(shared).oldest_snapshot_age >= Duration::from_secs(1)
    {
        shared.snapshots.end_oldest(before);
    }
}
