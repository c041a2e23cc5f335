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

pub(crate) mod counters;

use std::time::Duration;

use coeval_memory::counters::Distribution;
use coeval_types::Timestamp;

use crate::memory::{self, MemoryAccounts};
use crate::shared::Shared;
use crate::validation::{self, Validations};
pub use counters::AbortCause;
use counters::CAUSES;

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
