//! What is to go wrong with a disk.

use std::ops::Range;
use std::time::Duration;

/// What a crash leaves of what was not made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// Each piece of it by chance.
    #[default]
    Random,
    /// Nothing: as if the disk had a large cache and had been idle.
    Everything,
    /// All of it: as if only the process had been killed.
    Nothing,
}

/// What is to go wrong.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) crash_at: Option<u64>,
    pub(crate) fail_sync_at: Option<u64>,
    /// Every sync fails.
    pub(crate) fail_syncs: bool,
    /// Every write fails.
    pub(crate) fail_writes: bool,
    /// This write, counted as changes are, lands elsewhere.
    pub(crate) misdirect_at: Option<u64>,
    pub(crate) capacity: u64,
    pub(crate) loss: Loss,
    /// A sector that a crash finds between two versions may be part of each.
    pub(crate) torn_sectors: bool,
    /// How long a sync takes.
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
