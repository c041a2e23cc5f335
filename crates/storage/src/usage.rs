//! Memory accounting of a table: counters of the bytes in its versions, updated on
//! allocation and removal.
//!
//! If all cores added to one counter, they would contend for its cache line. So there are
//! several shards, each thread adds to one of them, and a reader adds them up. A shard may
//! be negative: a value allocated by one thread and dropped by another counts once in each.
//! Sums taken while writers run are approximate; at rest they are exact.

use std::sync::atomic::{AtomicI64, Ordering};

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::thread_hint;

const SHARDS: usize = 8;

/// Memory in bytes, by use, in the size classes of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Record headers, including those of retired RIDs.
    pub records: u64,
    /// Rows of all versions, private ones included.
    pub values: u64,
    /// The part of `values` that a newer committed version has replaced: kept because a
    /// snapshot sees them, or because garbage collection has not reached them yet.
    pub old_values: u64,
    /// Nodes of version lists.
    pub version_lists: u64,
}

impl Memory {
    /// Sum of all memory.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.records + self.values + self.version_lists
    }
}

// Counters are no part of any protocol, so std's atomics serve under checkers too.
#[derive(Debug, Default)]
struct Shard {
    values: AtomicI64,
    old_values: AtomicI64,
    nodes: AtomicI64,
    rows: AtomicI64,
}

/// A table's memory counters.
#[derive(Debug, Default)]
pub(crate) struct Usage([CachePadded<Shard>; SHARDS]);

impl Usage {
    #[inline]
    fn shard(&self) -> &Shard {
        &self.0[thread_hint() % SHARDS]
    }

    fn sum(&self, counter: impl Fn(&Shard) -> &AtomicI64) -> u64 {
        let sum: i64 = self
            .0
            .iter()
            .map(|shard| counter(shard).load(Ordering::Relaxed))
            .sum();
        // While writers run, the sum may be negative for a moment.
        sum.try_into().unwrap_or(0)
    }

    pub(crate) fn value_added(&self, bytes: usize) {
        self.shard()
            .values
            .fetch_add(bytes as i64, Ordering::Relaxed);
    }

    pub(crate) fn value_removed(&self, bytes: usize) {
        self.shard()
            .values
            .fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Counts a value of `bytes` bytes as old: a newer committed version has replaced it.
    pub(crate) fn value_replaced(&self, bytes: usize) {
        if bytes > 0 {
            self.shard()
                .old_values
                .fetch_add(bytes as i64, Ordering::Relaxed);
        }
    }

    /// Uncounts an old value of `bytes` bytes, which has been removed.
    pub(crate) fn old_value_removed(&self, bytes: usize) {
        self.shard()
            .old_values
            .fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    pub(crate) fn node_added(&self, bytes: usize) {
        self.shard()
            .nodes
            .fetch_add(bytes as i64, Ordering::Relaxed);
    }

    pub(crate) fn node_removed(&self, bytes: usize) {
        self.shard()
            .nodes
            .fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    pub(crate) fn rows_changed(&self, by: i64) {
        if by != 0 {
            self.shard().rows.fetch_add(by, Ordering::Relaxed);
        }
    }

    pub(crate) fn values(&self) -> u64 {
        self.sum(|shard| &shard.values)
    }

    pub(crate) fn old_values(&self) -> u64 {
        self.sum(|shard| &shard.old_values)
    }

    pub(crate) fn nodes(&self) -> u64 {
        self.sum(|shard| &shard.nodes)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.sum(|shard| &shard.rows)
    }
}
