//! The configured faults of a simulated disk.

use std::ops::Range;
use std::time::Duration;

/// Which unsynced changes a crash loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// Each piece survives or is lost at random.
    #[default]
    Random,
    /// All unsynced changes are lost: as if the disk had a large cache and had been idle.
    Everything,
    /// No change is lost: as if only the process had been killed.
    Nothing,
}

/// Faults of one disk.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) crash_at: Option<u64>,
    pub(crate) fail_sync_at: Option<u64>,
    /// Whether every sync fails.
    pub(crate) fail_syncs: bool,
    /// Whether every write fails.
    pub(crate) fail_writes: bool,
    /// Number of the change, if it is a write, that lands at another sector.
    pub(crate) misdirect_at: Option<u64>,
    pub(crate) capacity: u64,
    pub(crate) loss: Loss,
    /// Whether a crash may leave a sector that is a mixture of two versions.
    pub(crate) torn_sectors: bool,
    /// Range of the duration of a sync.
    pub(crate) sync_time: Range<Duration>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            crash_at: None,
            fail_sync_at: None,
            fail_syncs: false,
            fail_writes: false,
            misdirect_at: None,
            capacity: u64::MAX,
            loss: Loss::Random,
            torn_sectors: false,
            sync_time: Duration::ZERO..Duration::from_millis(4),
        }
    }
}
