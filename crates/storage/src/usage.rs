//! How much memory a table's versions take, counted where they are made and
//! dropped.
//!
//! A counter that every writer adds to would be one cache line that every core
//! fights for. So there are several, a thread adds to one of them, and whoever
//! asks adds them up. A shard may well be negative: a value made by one thread and
//! dropped by another counts once in each. Sums taken while others write are
//! approximate; at rest they are exact.

use std::sync::atomic::{AtomicI64, Ordering};

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::thread_hint;

const SHARDS: usize = 8;

/// Memory in bytes, by what holds it, in the sizes that allocators give out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Record headers, those of retired RIDs included.
    pub records: u64,
    /// Values: rows of every version, private ones included.
    pub values: u64,
    /// Those of them that a newer committed version has replaced: kept because a
    /// snapshot sees them, or because nobody has come across them yet.
    pub old_values: u64,
    /// Version list nodes.
    pub version_lists: u64,
}

impl Memory {
    /// Everything together.
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

/// A table's counters.
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
        // Added up while others write, it may fall short of nothing.
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

    /// A value of so many bytes has a newer committed version now.
    pub(crate) fn value_replaced(&self, bytes: usize) {
        if bytes > 0 {
            self.shard()
                .old_values
                .fetch_add(bytes as i64, Ordering::Relaxed);
        }
    }

    /// A value that had a newer committed version is gone.
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
