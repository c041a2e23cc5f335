//! The engine's counters, which know nothing of the modules that count. The [parent
//! module](super) reads them.

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
        /// Why a transaction was aborted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AbortCause {
            $($(#[$about])* $cause,)*
        }

        impl AbortCause {
            /// All causes, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$(Self::$cause,)*];

            /// The cause's name, for metrics.
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
    /// The client asked for it with ROLLBACK, or its statement was wrong.
    Rollback = "rollback";
    /// Another transaction committed a newer version of a row first.
    WriteWrite = "write_write";
    /// A row or key that the transaction had read has changed.
    ReadChanged = "read_changed";
    /// A range that the transaction had scanned has changed.
    RangeChanged = "range_changed";
    /// More writers have registered since the transaction's scan than a ring can hold.
    RingOverflow = "ring_overflow";
    /// A lock wanted at commit was held by a transaction that waits for this one.
    LockOrder = "lock_order";
    /// A schema that the transaction relied on has changed.
    Schema = "schema";
    /// The transaction was chosen as the victim of a deadlock.
    Deadlock = "deadlock";
    /// The transaction's wait for a lock timed out.
    LockTimeout = "lock_timeout";
    /// A lock was held, and the statement asked not to wait (NOWAIT).
    LockNotAvailable = "lock_not_available";
    /// A client or a timeout canceled the transaction.
    Canceled = "canceled";
    /// The transaction wrote more than a commit can hold.
    TooLarge = "too_large";
    /// The garbage collector ended the transaction's snapshot for the memory it held.
    SnapshotTooOld = "snapshot_too_old";
    /// The memory budget was used up.
    OutOfMemory = "out_of_memory";
    /// The disk had no room for the transaction's log records.
    DiskFull = "disk_full";
    /// The disk failed.
    Io = "io_error";
    /// The engine has stopped.
    Stopped = "stopped";
}

impl AbortCause {
    /// The cause under which an abort after this error is counted.
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
            Error::RowTooLarge { .. } | Error::WriteSetTooLarge { .. } => Self::TooLarge,
            Error::SnapshotTooOld => Self::SnapshotTooOld,
            Error::OutOfMemory => Self::OutOfMemory,
            Error::DiskFull(_) => Self::DiskFull,
            Error::Io(_) => Self::Io,
            Error::Stopped(_) => Self::Stopped,
            Error::ReadOnly | Error::TooManyTransactions { .. } | Error::Unknown(_) => {
                Self::Rollback
            }
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

/// All counters of the engine.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(super) threads: Sharded<OfThread>,
    pub(super) sweeps: Counter,
    pub(super) swept_records: Counter,
    pub(super) swept_versions: Counter,
    /// Counted by the range balancer.
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

    /// The calling thread's counters for validation.
    #[inline]
    pub(crate) fn validation(&self) -> &validation::Counters {
        &self.threads.mine().validation
    }

    pub(crate) fn deadlock(&self) {
        self.threads.mine().deadlocks.add(1);
    }

    /// Counts a wait that has ended, with or without the lock.
    pub(crate) fn waited(&self, lock: LockKind, time: Duration) {
        let thread = self.threads.mine();
        match lock {
            LockKind::Row => &thread.row_waits,
            LockKind::Key => &thread.key_waits,
            LockKind::Table(_) => &thread.table_waits,
        }
        .record_time(time);
    }

    /// Counts `records` that the garbage collector has scanned and `versions` that it has
    /// removed.
    pub(crate) fn swept(&self, records: u64, versions: u64) {
        self.swept_records.add(records);
        self.swept_versions.add(versions);
    }

    /// Counts a whole round of the garbage collector.
    pub(crate) fn sweep_done(&self) {
        self.sweeps.add(1);
    }
}

/// Samples of the log's installed offset over time.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<VecDeque<(Timestamp, Instant)>>);

impl Samples {
    /// Shortest time between two samples.
    const APART: Duration = Duration::from_secs(1);
    /// Number of samples beyond which every second one is dropped.
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

    /// How long ago `snapshot` stopped being the newest; zero if no sample is newer.
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
        // The oldest snapshot has ended, and so have the samples that only it needed.
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
