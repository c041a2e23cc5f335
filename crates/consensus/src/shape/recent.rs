//! The newest entries, kept in memory for those who ask soon.
//!
//! Entries that are not durable yet are here and nowhere else; a leader sends from here
//! to followers that keep up, and asks its caller for what a straggler needs.
//!
//! Invariant: the entries kept are the log's last, without a gap; none that is not
//! durable is let go.

use std::collections::VecDeque;

use coeval_types::Lsn;

use crate::entry::Entry;

/// The log's newest entries.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    entries: VecDeque<Entry>,
    /// Where the first of them starts, or would.
    start: Lsn,
    space: u64,
    limit: u64,
}

/// How much to take at once. The first entry always fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) space: u64,
    pub(crate) entries: usize,
}

impl Limit {
    /// As many of `entries` from the first on as fit.
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

impl Recent {
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

    /// Lets go of the oldest that are durable and more than may be kept.
    pub(crate) fn durable(&mut self, end: Lsn) {
        while self.space > self.limit && self.entries.front().is_some_and(|entry| entry.end <= end)
        {
            let entry = self.entries.pop_front().expect("there is a first one");
            self.space -= entry.space();
            self.start = entry.end;
        }
    }

    /// Entries from the one that holds `from` on; `None` when that is kept no more.
    pub(crate) fn from(&self, from: Lsn, limit: Limit) -> Option<Vec<Entry>> {
        (from >= self.start).then(|| {
            let first = self.entries.partition_point(|entry| entry.end <= from);
            limit.take(self.entries.range(first..))
        })
    }
}
