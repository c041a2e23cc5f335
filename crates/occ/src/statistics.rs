//! What the engine has done and what it holds, in numbers.
//!
//! Events are counted by the threads they happen on, each in its own shard; what
//! the engine holds is looked at when somebody asks.
//!
//! How old a snapshot is can be said in bytes of log at once. In time it takes a
//! memory of when the log was where:
//!
//! ```text
//!   samples      (100, 12:00:00)   (140, 12:00:01)   (300, 12:00:02)
//!   oldest snapshot  ▲ 120
//!                    stopped being the newest by 12:00:01; older samples can go
//! ```
//!
//! Samples are taken by the sweeper, about once a second, so an age is right to
//! about that; an engine without a sweeper knows no ages.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coeval_env::Instant;
use coeval_memory::counters::{Counter, Distribution, Durations, Sharded};
use coeval_txn::{Cause, Error};
use coeval_types::Timestamp;

use crate::engine::Shared;
use crate::memory::{self, MemoryAccounts};
use crate::ranges::reorganised::Reorganised;
use crate::transaction::Wait;
use crate::validation::{self, Validations};

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

const CAUSES: usize = AbortCause::ALL.len();

#[derive(Debug, Default)]
struct OfThread {
    commits: Counter,
    aborts: [Counter; CAUSES],
    deadlocks: Counter,
    row_waits: Durations,
    key_waits: Durations,
    table_waits: Durations,
    validation: validation::Counters,
}

/// What the engine counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    threads: Sharded<OfThread>,
    sweeps: Counter,
    swept_records: Counter,
    swept_versions: Counter,
    /// Counted by who keeps the ranges.
    pub(crate) reorganised: Reorganised,
    samples: Samples,
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
    pub(crate) fn waited(&self, wait: &Wait, time: Duration) {
        let thread = self.threads.mine();
        match wait {
            Wait::Row(..) => &thread.row_waits,
            Wait::Key(..) => &thread.key_waits,
            Wait::Table { .. } => &thread.table_waits,
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
struct Samples(Mutex<VecDeque<(Timestamp, Instant)>>);

impl Samples {
    /// Samples less than this apart are not worth their place.
    const APART: Duration = Duration::from_secs(1);
    /// With more samples than this, every second one goes.
    const MOST: usize = 4096;

    fn take(&self, installed: Timestamp, oldest: Option<Timestamp>, now: Instant) {
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
    fn age(&self, snapshot: Timestamp, now: Instant) -> Duration {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = samples.partition_point(|(at, _)| *at <= snapshot);
        samples
            .get(newer)
            .map_or(Duration::ZERO, |(_, then)| now.duration_since(*then))
    }
}

/// What an engine has done since it was opened, and what it holds.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Transactions that committed, those that wrote nothing included.
    pub committed: u64,
    /// Transactions that were undone, by [`AbortCause::ALL`].
    pub aborted: [u64; CAUSES],
    /// What validating came to.
    pub validation: Validations,
    /// Waits that ended because transactions waited for each other.
    pub deadlocks: u64,
    /// Waits for rows, in microseconds each.
    pub row_waits: Distribution,
    /// Waits for keys, in microseconds each.
    pub key_waits: Distribution,
    /// Waits for tables, in microseconds each.
    pub table_waits: Distribution,
    /// Snapshots that are registered now.
    pub snapshots: u64,
    /// How long ago the oldest of them stopped being the newest.
    pub oldest_snapshot_age: Duration,
    /// How many bytes of log ago.
    pub oldest_snapshot_lag: u64,
    /// Storages, tables of the catalog included.
    pub storages: u64,
    /// About how many rows they have.
    pub rows: u64,
    /// Logical ranges that their keys are cut into.
    pub ranges: u64,
    /// Ranges that have come by splits.
    pub range_splits: u64,
    /// Ranges that have gone by merges.
    pub range_merges: u64,
    /// What takes memory.
    pub memory: MemoryAccounts,
    /// Rounds the sweeper has made.
    pub sweeps: u64,
    /// Records the sweeper has looked at.
    pub swept_records: u64,
    /// Versions it has removed. Most are removed by others.
    pub swept_versions: u64,
    /// Storages and indexes that were dropped and may still be read.
    pub retired: u64,
}

/// Called by the sweeper now and then.
pub(crate) fn sample(shared: &Shared) {
    let (samples, now) = (&shared.counters.samples, coeval_env::now());
    // The end first: a snapshot registered meanwhile is not before it.
    let installed = shared.log.installed();
    samples.take(installed, shared.snapshots.oldest(), now);
}

pub(crate) fn read(shared: &Shared) -> Statistics {
    let counters = &shared.counters;
    let threads = &counters.threads;
    let installed = shared.log.installed();
    let oldest = shared.snapshots.oldest().unwrap_or(installed);
    let mut statistics = Statistics {
        committed: threads.sum(|thread| &thread.commits),
        aborted: std::array::from_fn(|cause| threads.sum(|thread| &thread.aborts[cause])),
        validation: validation::sum(threads, |thread| &thread.validation),
        deadlocks: threads.sum(|thread| &thread.deadlocks),
        row_waits: threads.distribution(|thread| &thread.row_waits),
        key_waits: threads.distribution(|thread| &thread.key_waits),
        table_waits: threads.distribution(|thread| &thread.table_waits),
        snapshots: shared.snapshots.count() as u64,
        oldest_snapshot_age: counters.samples.age(oldest, coeval_env::now()),
        oldest_snapshot_lag: lag(oldest, installed),
        storages: 0,
        rows: 0,
        ranges: 0,
        range_splits: counters.reorganised.splits.get(),
        range_merges: counters.reorganised.merges.get(),
        memory: memory::accounts(shared),
        sweeps: counters.sweeps.get(),
        swept_records: counters.swept_records.get(),
        swept_versions: counters.swept_versions.get(),
        retired: shared
            .retired
            .lock()
            .expect("no panic while it was held")
            .len() as u64,
    };
    let storages = shared.storages.read().expect("no panic while it was held");
    for storage in storages.values() {
        statistics.storages += 1;
        statistics.rows += storage.records.estimated_rows();
        statistics.ranges += storage.ranges();
    }
    statistics
}

/// Bytes of log from one place to a later one. A snapshot is of the term that
/// runs, whatever was replayed.
fn lag(from: Timestamp, to: Timestamp) -> u64 {
    if from.term() == to.term() {
        to.lsn().0.saturating_sub(from.lsn().0)
    } else {
        0
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
