//! A test index: a plain set of entries, maintained through [`IndexUpkeep`].

use std::collections::BTreeSet;
use std::sync::Mutex;

use coeval_storage::{IndexUpkeep, Remaining};
use coeval_types::{Rid, RowRef};

use crate::support::number;

/// A set of `(first cell, RID)`, from which garbage collection removes entries.
#[derive(Default)]
pub struct Entries(pub Mutex<BTreeSet<(u64, Rid)>>);

impl Entries {
    /// Adds an entry, as an engine does under the record's lock.
    pub fn add(&self, key: u64, rid: Rid) {
        self.0.lock().unwrap().insert((key, rid));
    }

    /// Inserts or removes an entry.
    pub fn keep(&self, kept: bool, key: u64, rid: Rid) {
        let mut entries = self.0.lock().unwrap();
        if kept {
            entries.insert((key, rid));
        } else {
            entries.remove(&(key, rid));
        }
    }

    /// The keys of a record's entries.
    pub fn keys(&self, rid: Rid) -> Vec<u64> {
        let entries = self.0.lock().unwrap();
        entries
            .iter()
            .filter(|entry| entry.1 == rid)
            .map(|entry| entry.0)
            .collect()
    }
}

impl IndexUpkeep for Entries {
    fn removed(&self, rid: Rid, removed: RowRef<'_>, remaining: &Remaining<'_>) {
        let key = number(removed);
        if !remaining.any(|row| number(row) == key) {
            self.0.lock().unwrap().remove(&(key, rid));
        }
    }
}
