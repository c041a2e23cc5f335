//! Counters of a replica's log, for metrics: what was written and synced, and how far the log
//! reaches. The thread that owns the log counts; other threads read.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coeval_memory::counters::{Counter, Durations};
use coeval_types::Lsn;

use super::log::ReplicaLog;
use crate::Statistics;

/// What the logs of a node have counted that have been its replica's, one after the other.
#[derive(Debug, Default)]
pub struct ReplicaCounters {
    written_bytes: Counter,
    syncs: Durations,
    /// Log offsets of the log that is, or was last, open.
    oldest: AtomicU64,
    begin: AtomicU64,
    flushed: AtomicU64,
    end: AtomicU64,
}

impl ReplicaCounters {
    /// `bytes` bytes are durable after syncs that took `time` together.
    pub(super) fn synced(&self, bytes: u64, time: Duration) {
        self.written_bytes.add_alone(bytes);
        self.syncs.record_time_alone(time);
    }

    /// What the log of a leader has that this one has, too: it has no commits of its own, and so
    /// neither groups nor writers.
    #[must_use]
    pub fn read(&self) -> Statistics {
        let end = Lsn(self.end.load(Relaxed));
        Statistics {
            written_bytes: self.written_bytes.get(),
            syncs: self.syncs.read(),
            reserved: end,
            installed: end,
            durable: Lsn(self.flushed.load(Relaxed)),
            ..Statistics::default()
        }
    }

    /// Bytes of log that a start would replay, as far as they are durable.
    #[must_use]
    pub fn bytes_to_replay(&self) -> u64 {
        self.durable_from(&self.begin)
    }

    /// Bytes of durable log in the directory.
    #[must_use]
    pub fn bytes_kept(&self) -> u64 {
        self.durable_from(&self.oldest)
    }

    fn durable_from(&self, from: &AtomicU64) -> u64 {
        let flushed = self.flushed.load(Relaxed);
        flushed.saturating_sub(from.load(Relaxed))
    }
}

impl ReplicaLog {
    /// Counts there from now on.
    pub fn count_in(&mut self, counters: Arc<ReplicaCounters>) {
        self.counters = counters;
        self.note_begin();
        self.note_end();
    }

    /// Notes where the log that is kept begins.
    pub(super) fn note_begin(&self) {
        let oldest = self.retention.oldest().unwrap_or(self.begin);
        self.counters.oldest.store(oldest.0, Relaxed);
        self.counters.begin.store(self.begin.0, Relaxed);
    }

    /// Notes how far the log reaches.
    pub(super) fn note_end(&self) {
        self.counters.flushed.store(self.flushed.0, Relaxed);
        self.counters.end.store(self.end.lsn.0, Relaxed);
    }
}
