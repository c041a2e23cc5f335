//! Engine statistics: counters of events, and gauges of the engine's contents.
//!
//! Each thread counts its events in a shard of its own; gauges are computed when a caller
//! reads the statistics.
//!
//! The age of a snapshot in bytes of log follows from its timestamp. Its age in time
//! takes samples of the log's offset:
//!
//! ```text
//!   samples      (100, 12:00:00)   (140, 12:00:01)   (300, 12:00:02)
//!   oldest snapshot  ▲ 120
//!                    stopped being the newest by 12:00:01; older samples can go
//! ```
//!
//! The garbage collector takes samples, about once a second, so an age has that
//! precision; an engine without a garbage collector reports ages of zero. A follower's are
//! taken when commits become visible.

pub(crate) mod counters;

use std::time::Duration;

use coeval_memory::counters::Distribution;
use coeval_storage::Snapshots;
use coeval_types::Timestamp;

use crate::memory::{self, MemoryAccounts};
use crate::shared::Shared;
use crate::validation::{self, Validations};
pub use counters::AbortCause;
use counters::{CAUSES, Counters};

/// Counters of an engine since it was opened, and gauges of its contents.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Transactions that committed, including those that wrote nothing.
    pub committed: u64,
    /// Transactions that were aborted, by [`AbortCause::ALL`].
    pub aborted: [u64; CAUSES],
    /// Outcomes of validation.
    pub validation: Validations,
    /// Deadlocks that were detected and resolved.
    pub deadlocks: u64,
    /// Waits for row locks, in microseconds each.
    pub row_waits: Distribution,
    /// Waits for key locks, in microseconds each.
    pub key_waits: Distribution,
    /// Waits for table locks, in microseconds each.
    pub table_waits: Distribution,
    /// Snapshots that are registered now.
    pub snapshots: u64,
    /// How long ago the oldest registered snapshot stopped being the newest.
    pub oldest_snapshot_age: Duration,
    /// The same age in bytes of log.
    pub oldest_snapshot_lag: u64,
    /// Storages, including the tables of the catalog.
    pub storages: u64,
    /// Estimated number of rows in all storages.
    pub rows: u64,
    /// Logical ranges of all indexes.
    pub ranges: u64,
    /// Logical ranges created by splits.
    pub range_splits: u64,
    /// Logical ranges removed by merges.
    pub range_merges: u64,
    /// Memory in use, by purpose.
    pub memory: MemoryAccounts,
    /// Rounds that the garbage collector has completed.
    pub sweeps: u64,
    /// Records that the garbage collector has scanned.
    pub swept_records: u64,
    /// Versions that the garbage collector has removed. Writers remove most versions.
    pub swept_versions: u64,
    /// Storages and indexes that were dropped and may still be read.
    pub retired: u64,
}

/// Takes a sample of the log's offset; called by the garbage collector in every round.
pub(crate) fn sample(shared: &Shared) {
    // The end is read first: a snapshot registered meanwhile is not before it.
    let installed = shared.log.installed();
    sample_at(&shared.counters, installed, &shared.snapshots);
}

/// Takes a sample of the offset that new snapshots have.
pub(crate) fn sample_at(counters: &Counters, newest: Timestamp, snapshots: &Snapshots) {
    let now = coeval_env::now();
    counters.samples.take(newest, snapshots.oldest(), now);
}

/// The counters, and the gauges of these snapshots; `newest` is what a new one would be.
pub(crate) fn count(counters: &Counters, newest: Timestamp, snapshots: &Snapshots) -> Statistics {
    let threads = &counters.threads;
    let oldest = snapshots.oldest().unwrap_or(newest);
    Statistics {
        committed: threads.sum(|thread| &thread.commits),
        aborted: std::array::from_fn(|cause| threads.sum(|thread| &thread.aborts[cause])),
        validation: validation::sum(threads, |thread| &thread.validation),
        deadlocks: threads.sum(|thread| &thread.deadlocks),
        row_waits: threads.distribution(|thread| &thread.row_waits),
        key_waits: threads.distribution(|thread| &thread.key_waits),
        table_waits: threads.distribution(|thread| &thread.table_waits),
        snapshots: snapshots.count() as u64,
        oldest_snapshot_age: counters.samples.age(oldest, coeval_env::now()),
        oldest_snapshot_lag: lag(oldest, newest),
        range_splits: counters.reorganised.splits.get(),
        range_merges: counters.reorganised.merges.get(),
        sweeps: counters.sweeps.get(),
        swept_records: counters.swept_records.get(),
        swept_versions: counters.swept_versions.get(),
        ..Statistics::default()
    }
}

pub(crate) fn read(shared: &Shared) -> Statistics {
    let installed = shared.log.installed();
    let mut statistics = count(&shared.counters, installed, &shared.snapshots);
    statistics.memory = memory::accounts(shared);
    statistics.retired = shared
        .retired
        .lock()
        .expect("no panic while it was held")
        .len() as u64;
    let storages = shared.storages.read().expect("no panic while it was held");
    for storage in storages.values() {
        statistics.storages += 1;
        statistics.rows += storage.records.estimated_rows();
        statistics.ranges += storage.ranges();
    }
    statistics
}

/// Bytes of log between two offsets. A registered snapshot belongs to the current term,
/// even if recovery has replayed earlier terms.
fn lag(from: Timestamp, to: Timestamp) -> u64 {
    if from.term() == to.term() {
        to.lsn().0.saturating_sub(from.lsn().0)
    } else {
        0
    }
}
