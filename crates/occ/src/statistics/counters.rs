//! What is counted while the engine works, with nothing of the engine that counts it. The
//! [module above](super) reads it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coeval_env::Instant;
use coeval_memory::counters::{Counter, Durations, Sharded};
use coeval_txn::{Cause, Error, LockKind};
use coeval_types::Timestamp;

use crate::ranges::reorganised::Reorganised;
use crate::validation;

macro_rules! causes {
    ($($(#[$about:meta])* $cause:ident = $name:literal;)*) => {
        /// Why a transaction was undone.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AbortCause {
            $($(#[$about])* $cause,)*
        }

        impl AbortCause {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$cause,)*];

            /// Its name, for metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name,)*
                }
            }
        }
    };
}

causes! {
    /// The caller wanted it: ROLLBACK, or a statement that was wrong.
    Rollback = "rollback";
    /// Another transaction committed a newer version of a row first.
    WriteWrite = "write_write";
    /// A row or key it had read has changed.
    ReadChanged = "read_changed";
    /// A range it had scanned has changed.
    RangeChanged = "range_changed";
    /// Too many writers since its scan to check them all.
    RingOverflow = "ring_overflow";
    /// A lock wanted at commit was held by one that waits for it.
    LockOrder = "lock_order";
    /// A schema it relied on has changed.
    Schema = "schema";
    /// It gave way in a circle of waits.
    Deadlock = "deadlock";
    /// A lock was not to be had in time.
    LockTimeout = "lock_timeout";
    /// A lock was held and it did not want to wait.
    LockNotAvailable = "lock_not_available";
    /// Somebody, or a timeout, asked it to end.
    Canceled = "canceled";
    /// It wrote more than a commit can hold.
    TooLarge = "too_large";
    /// Its snapshot was ended, for the memory it held.
    SnapshotTooOld = "snapshot_too_old";
    /// There was no memory left.
    OutOfMemory = "out_of_memory";
    /// The disk had no room for it.
    DiskFull = "disk_full";
    /// The disk failed.
    Io = "io_error";
    /// The engine has stopped.
    Stopped = "stopped";
}

impl AbortCause {
    /// What aborting after this error is counted as.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Conflict(conflict) => match conflict.cause {
                Cause::WriteWrite => Self::WriteWrite,
                Cause::ReadChanged => Self::ReadChanged,
                Cause::RangeChanged => Self::RangeChanged,
                Cause::RingOverflow => Self::RingOverflow,
                Cause::LockOrder => Self::LockOrder,
                Cause::Schema => Self::Schema,
            },
            Error::Deadlock { .. } => Self::Deadlock,
            Error::LockTimeout(_) => Self::LockTimeout,
            Error::LockNotAvailable(_) => Self::LockNotAvailable,
            Error::SchemaChanged(_) => Self::Schema,
            Error::Canceled => Self::Canceled,
            Error::WriteSetTooLarge { .. } => Self::TooLarge,
            Error::SnapshotTooOld => Self::SnapshotTooOld,
            Error::OutOfMemory => Self::OutOfMemory,
            Error::DiskFull(_) => Self::DiskFull,
            Error::Io(_) => Self::Io,
            Error::Stopped(_) => Self::Stopped,
            Error::ReadOnly | Error::Unknown(_) => Self::Rollback,
        }
    }
}

pub(super) const CAUSES: usize = AbortCause::ALL.len();

#[derive(Debug, Default)]
pub(super) struct OfThread {
    pub(super) commits: Counter,
    pub(super) aborts: [Counter; CAUSES],
    pub(super) deadlocks: Counter,
    pub(super) row_waits: Durations,
    pub(super) key_waits: Durations,
    pub(super) table_waits: Durations,
    pub(super) validation: validation::Counters,
}

/// What the engine counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(super) threads: Sharded<OfThread>,
    pub(super) sweeps: Counter,
    pub(super) swept_records: Counter,
    pub(super) swept_versions: Counter,
    /// Counted by who keeps the ranges.
    pub(crate) reorganised: Reorganised,
    pub(super) samples: Samples,
}

impl Counters {
    #[inline]
    pub(crate) fn committed(&self) {
        self.threads.mine().commits.add(1);
    }

    pub(crate) fn aborted(&self, cause: AbortCause) {
        self.threads.mine().aborts[cause as usize].add(1);
    }

    /// Where the calling thread counts what validating comes to.
    #[inline]
    pub(crate) fn validation(&self) -> &validation::Counters {
        &self.threads.mine().validation
    }

    pub(crate) fn deadlock(&self) {
        self.threads.mine().deadlocks.add(1);
    }

    /// A wait that has ended, with or without the lock.
    pub(crate) fn waited(&self, lock: LockKind, time: Duration) {
        let thread = self.threads.mine();
        match lock {
            LockKind::Row => &thread.row_waits,
            LockKind::Key => &thread.key_waits,
            LockKind::TableWrite | LockKind::TableExclusive => &thread.table_waits,
        }
        .record_time(time);
    }

    /// The sweeper has come through so many records of a storage, and removed so
    /// many versions.
    pub(crate) fn swept(&self, records: u64, versions: u64) {
        self.swept_records.add(records);
        self.swept_versions.add(versions);
    }

    /// The sweeper has been everywhere once.
    pub(crate) fn sweep_done(&self) {
        self.sweeps.add(1);
    }
}

/// When the log was where.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<VecDeque<(Timestamp, Instant)>>);

impl Samples {
    /// Samples less than this apart are not worth their place.
    const APART: Duration = Duration::from_secs(1);
    /// With more samples than this, every second one goes.
    const MOST: usize = 4096;

    pub(super) fn take(&self, installed: Timestamp, oldest: Option<Timestamp>, now: Instant) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = oldest.unwrap_or(installed);
        while samples.front().is_some_and(|(at, _)| *at <= oldest) {
            samples.pop_front();
        }
        let worth = samples
            .back()
            .is_none_or(|(at, then)| *at < installed && now.duration_since(*then) >= Self::APART);
        if worth && installed > oldest {
            samples.push_back((installed, now));
        }
        if samples.len() > Self::MOST {
            let mut odd = false;
            samples.retain(|_| {
                odd = !odd;
                odd
            });
        }
    }

    /// How long ago this snapshot stopped being the newest; not at all, as far as
    /// is known, if nothing newer has been sampled.
    pub(super) fn age(&self, snapshot: Timestamp, now: Instant) -> Duration {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = samples.partition_point(|(at, _)| *at <= snapshot);
        samples
            .get(newer)
            .map_or(Duration::ZERO, |(_, then)| now.duration_since(*then))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const fn at(bits: u64) -> Timestamp {
        Timestamp::from_bits(bits)
    }

    #[test]
    fn a_snapshot_ages_from_when_something_newer_came() {
        let samples = Samples::default();
        let start = coeval_env::now();
        let second = |count: u64| start + Duration::from_secs(count);
        samples.take(at(100), Some(at(100)), second(0));
        assert_eq!(samples.age(at(100), second(50)), Duration::ZERO);
        samples.take(at(140), Some(at(100)), second(50));
        samples.take(at(150), Some(at(100)), second(50));
        samples.take(at(300), Some(at(100)), second(60));
        assert_eq!(samples.age(at(100), second(80)), Duration::from_secs(30));
        assert_eq!(samples.age(at(140), second(80)), Duration::from_secs(20));
        assert_eq!(samples.age(at(300), second(80)), Duration::ZERO);
        // The oldest is gone, and so is what only it needed.
        samples.take(at(300), Some(at(200)), second(81));
        assert_eq!(samples.0.lock().unwrap().len(), 1);
        samples.take(at(300), None, second(82));
        assert!(samples.0.lock().unwrap().is_empty());
    }

    #[test]
    fn samples_of_a_month_take_little_room() {
        let samples = Samples::default();
        let start = coeval_env::now();
        let last = 30 * 24 * 3600;
        for second in 0..last {
            let now = start + Duration::from_secs(second);
            samples.take(at(10 + second), Some(at(5)), now);
        }
        assert!(samples.0.lock().unwrap().len() <= Samples::MOST);
        let age = samples.age(at(5), start + Duration::from_secs(last));
        assert_eq!(age, Duration::from_secs(last), "the first sample is kept");
    }
}
