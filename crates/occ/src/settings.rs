//! The engine's settings, as data.

use std::time::Duration;

use crate::ranges::map::Limits;
use crate::{Budget, Validator};

/// How the engine works. Every field may change from one start to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The log's own settings.
    pub log: coeval_log::Settings,
    /// How scans of serializable transactions are validated.
    pub validator: Validator,
    /// Slots of a logical range's ring of registrations, at least 4: how many
    /// recent writes a serializable scan can be checked against. More than there
    /// are threads that commit at once. A slot is a cache
    /// line; a ring takes memory as it is written. Where an index has more than 16
    /// ranges, their rings have fewer slots, and get more when they need them.
    pub range_slots: usize,
    /// An index is cut into logical ranges once validators of its scans have looked at so
    /// many registrations of late whose keys were not scanned; 0 for at once.
    pub registrations_in_vain: u64,
    /// About how many keys a logical range has then, at least 1; more where there would be
    /// too many ranges.
    pub records_per_range: u64,
    /// How many logical ranges an index has at most, at least 1.
    pub ranges_per_index: usize,
    /// After so many patches of a record the log gets its whole row again, at
    /// least 1.
    pub image_every: u64,
    /// How long the sweeper rests between rounds; `None` for no sweeper, and then
    /// the engine needs no runtime.
    pub sweep_interval: Option<Duration>,
    /// How many records the sweeper looks at in one step, at least 1.
    pub sweep_records: usize,
    /// How much memory there may be.
    pub budget: Budget,
    /// A checkpoint is taken whenever a start would replay so many bytes of log; 0
    /// for only when asked.
    pub checkpoint_log_bytes: u64,
    /// How fast a checkpoint is written at most when nobody has asked for it; 0 for
    /// no limit.
    pub checkpoint_bytes_per_second: u64,
    /// How many records a checkpoint looks at in one step, at least 1.
    pub checkpoint_records: usize,
    /// A checkpoint is taken on a close when all rows together have at most so many
    /// bytes; 0 for never.
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
