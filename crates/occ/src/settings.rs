//! Settings of the engine.

use std::time::Duration;

use crate::ranges::map::Limits;
use crate::{Budget, Validator};

/// The engine's settings. Every field may change from one start to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Settings of the log.
    pub log: coeval_log::Settings,
    /// The validator that checks scans of serializable transactions.
    pub validator: Validator,
    /// Slots of a logical range's ring of registrations, at least 4: the number of recent
    /// writes that a serializable scan can be checked against. It should exceed the
    /// number of threads that commit at once. A slot is a cache line; a ring takes memory
    /// as it is written. Where an index has more than 16 ranges, their rings start with
    /// fewer slots, and grow when they need more.
    pub range_slots: usize,
    /// An index is divided into logical ranges once validators have recently checked this
    /// many registrations in vain, because their keys were not scanned; 0 for at once.
    pub registrations_in_vain: u64,
    /// Target number of keys in a logical range after that, at least 1; a range gets more
    /// keys where the index would exceed `ranges_per_index`.
    pub records_per_range: u64,
    /// Most logical ranges that an index has, at least 1.
    pub ranges_per_index: usize,
    /// Patches of a record after which the log gets its whole row again, at least 1.
    pub image_every: u64,
    /// Pause of the garbage collector between rounds; `None` for no garbage collector,
    /// and then the engine needs no runtime.
    pub sweep_interval: Option<Duration>,
    /// Records that the garbage collector scans in one step, at least 1.
    pub sweep_records: usize,
    /// The memory budget.
    pub budget: Budget,
    /// Bytes of log to replay at a start from which the engine takes a checkpoint; 0 for
    /// only on request.
    pub checkpoint_log_bytes: u64,
    /// Highest rate at which an unrequested checkpoint is written, in bytes per second; 0
    /// for no limit.
    pub checkpoint_bytes_per_second: u64,
    /// Records that a checkpoint scans in one step, at least 1.
    pub checkpoint_records: usize,
    /// The engine takes a checkpoint on close when all rows together have at most this
    /// many bytes; 0 for never.
    pub checkpoint_on_close_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            log: coeval_log::Settings::default(),
            validator: Validator::default(),
            range_slots: 4096,
            registrations_in_vain: 64,
            records_per_range: 512,
            ranges_per_index: 4096,
            image_every: 16,
            sweep_interval: Some(Duration::from_millis(50)),
            sweep_records: 256,
            budget: Budget::UNLIMITED,
            checkpoint_log_bytes: 512 << 20,
            checkpoint_bytes_per_second: 64 << 20,
            checkpoint_records: 256,
            checkpoint_on_close_bytes: 0,
        }
    }
}

impl Settings {
    pub(crate) fn range_limits(&self) -> Limits {
        Limits {
            slots: self.range_slots,
            in_vain: self.registrations_in_vain,
            records: self.records_per_range,
            ranges: self.ranges_per_index,
        }
    }

    pub(crate) fn check(&self) -> Result<(), coeval_log::Error> {
        let complain = |what: &str| Err(coeval_log::Error::Setting(what.to_owned()));
        if self.range_slots < 4 {
            return complain("range_slots must be at least 4");
        }
        if self.records_per_range == 0 {
            return complain("records_per_range must be at least 1");
        }
        if self.ranges_per_index == 0 {
            return complain("ranges_per_index must be at least 1");
        }
        if self.image_every == 0 {
            return complain("image_every must be at least 1");
        }
        if self.budget.reserve > self.budget.limit {
            return complain("the reserve must be a part of the memory limit");
        }
        if self.sweep_records == 0 {
            return complain("sweep_records must be at least 1");
        }
        if self.checkpoint_records == 0 {
            return complain("checkpoint_records must be at least 1");
        }
        Ok(())
    }
}
