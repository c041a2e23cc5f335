//! A cache of the newest entries, for followers that keep up.
//!
//! Entries that are not durable yet are only here; a leader sends from here to followers
//! that keep up, and asks its caller for the entries that a slow follower needs.
//!
//! Invariant: the cached entries are the log's last, without a gap; no entry that is not
//! durable is evicted.

use std::collections::VecDeque;

use coeval_types::Lsn;

use crate::entry::Entry;

/// The cache. See the module.
#[derive(Clone, Debug)]
pub(crate) struct EntryCache {
    entries: VecDeque<Entry>,
    /// Log offset at which the first cached entry starts, or would.
    start: Lsn,
    space: u64,
    limit: u64,
}

/// Limit of the entries taken at once. The first entry always fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) space: u64,
    pub(crate) entries: usize,
}

impl Limit {
    /// The first of `entries` that fit the limit.
    pub(crate) fn take<'entry>(self, entries: impl Iterator<Item = &'entry Entry>) -> Vec<Entry> {
        let mut taken: Vec<Entry> = Vec::new();
        let mut space = 0;
        for entry in entries {
            space += entry.space();
            if !taken.is_empty() && (space > self.space || taken.len() >= self.entries) {
                break;
            }
            taken.push(entry.clone());
        }
        taken
    }
}

impl EntryCache {
    pub(crate) const fn new(start: Lsn, limit: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            start,
            space: 0,
            limit,
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.space += entry.space();
        self.entries.push_back(entry);
    }

    pub(crate) fn truncate(&mut self, to: Lsn) {
        while self.entries.back().is_some_and(|entry| entry.end > to) {
            let entry = self.entries.pop_back().expect("there is a last one");
            self.space -= entry.space();
        }
        if self.entries.is_empty() {
            self.start = to;
        }
    }

    pub(crate) fn clear(&mut self, start: Lsn) {
        self.entries.clear();
        self.space = 0;
        self.start = start;
    }

    /// Evicts the oldest durable entries beyond the cache's limit.
    pub(crate) fn durable(&mut self, end: Lsn) {
        while self.space > self.limit && self.entries.front().is_some_and(|entry| entry.end <= end)
        {
            let entry = self.entries.pop_front().expect("there is a first one");
            self.space -= entry.space();
            self.start = entry.end;
        }
    }

    /// Entries from the one that contains `from` on; `None` when that has been evicted.
    pub(crate) fn from(&self, from: Lsn, limit: Limit) -> Option<Vec<Entry>> {
        (from >= self.start).then(|| {
            let first = self.entries.partition_point(|entry| entry.end <= from);
            limit.take(self.entries.range(first..))
        })
    }
}
