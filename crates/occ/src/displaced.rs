//! Displaced entries: the records that have a version with a primary key, and to which the
//! primary index of a followed table does not lead.
//!
//! On a leader a key is free again, for another record, when no snapshot shows the record that
//! had it. A follower's readers are not asked: while one of them still sees the old record,
//! replay installs the new one. So on a follower several records may have versions with one
//! key, of which each snapshot sees at most one as a row. The index leads to one of them,
//! and this set to the others, under key and RID as a secondary index does.
//!
//! ```text
//!   k deleted in record 5 at 200, inserted in record 9 at 300
//!
//!     snapshot 100      index k ─▶ 9      displaced k ─▶ 5      finds 5
//!     snapshot 300      index k ─▶ 9                            finds 9
//! ```
//!
//! # Invariants
//!
//! 1. *A key that any version has is in the index.* A key moves from one record to another
//!    in one step ([`OrderedIndex::replace`]), and when the record goes to which the index
//!    leads, another one inherits its key.
//! 2. *A record is displaced before the index leads elsewhere*, and stays so until its last
//!    version with the key is collected, or until no reader is in the middle of a step.
//!
//! # Why a reader finds every row
//!
//! It looks in the index, then here. Say its snapshot shows key k in record X. By 1 it finds
//! k in the index, leading to X or to another record Y. If to Y, then X was displaced before
//! the index led to Y, by 2, unless the index led to X again meanwhile; and X is still
//! displaced, because the version that the snapshot shows is not collected, and the entry is
//! not removed while a reader is in a step.
//!
//! A record that is displaced and then has the key as its newest version again is doubled:
//! in the index and here. Doubles are harmless to readers; they are removed when no reader
//! is in a step, so that the set is empty once no version is old.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::OrderedIndex;
use coeval_storage::index::{append_rid, split_rid};
use coeval_types::{Rid, planted};

/// The displaced entries of one primary index.
#[derive(Debug)]
pub(crate) struct Displaced {
    entries: OrderedIndex,
    /// Number of entries. Raised before the index leads elsewhere.
    count: AtomicUsize,
    /// Entries of records to which the index leads as well. The lock is held while a key
    /// that is in the index moves, or goes.
    doubled: Mutex<Vec<Vec<u8>>>,
}

fn entry(key: &[u8], rid: Rid) -> Vec<u8> {
    let mut entry = Vec::with_capacity(key.len() + 2 * size_of::<Rid>());
    entry.extend_from_slice(key);
    append_rid(&mut entry, rid);
    entry
}

impl Displaced {
    pub(crate) fn new(domain: &Domain) -> Self {
        Self {
            entries: OrderedIndex::new(domain),
            count: AtomicUsize::new(0),
            doubled: Mutex::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub(crate) fn memory(&self) -> u64 {
        self.entries.memory()
    }

    fn moving(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.doubled.lock().expect("no panic while it was held")
    }

    /// Calls `visit` for each displaced record of this key.
    #[inline]
    pub(crate) fn visit(
        &self,
        key: &[u8],
        guard: &Guard<'_>,
        visit: impl FnMut(Rid) -> ControlFlow<()>,
    ) {
        if !self.is_empty() {
            self.visit_all(key, guard, visit);
        }
    }

    fn visit_all(
        &self,
        key: &[u8],
        guard: &Guard<'_>,
        mut visit: impl FnMut(Rid) -> ControlFlow<()>,
    ) {
        let (from, to) = (Bound::Included(key), Bound::Unbounded);
        let _ = self.entries.scan_forward(from, to, guard, |entry, rid| {
            if !entry.starts_with(key) {
                return ControlFlow::Break(());
            }
            match split_rid(entry).0 == key {
                true => visit(rid),
                false => ControlFlow::Continue(()),
            }
        });
    }

    fn insert(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) {
        let entry = entry(key, rid);
        self.count.fetch_add(1, Ordering::AcqRel);
        if self.entries.insert_if_absent(&entry, rid, guard).is_err() {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn remove(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) {
        if !self.is_empty() && self.entries.remove(&entry(key, rid), rid, guard) {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Makes the key lead to this record, which has it as its newest version. Returns
    /// whether the record is doubled now.
    pub(crate) fn lead_to(
        &self,
        index: &OrderedIndex,
        key: &[u8],
        rid: Rid,
        guard: &Guard<'_>,
    ) -> bool {
        if index.insert_if_absent(key, rid, guard).is_ok() {
            return false;
        }
        let mut doubled = self.moving();
        while let Err(other) = index.insert_if_absent(key, rid, guard) {
            if other == rid {
                break;
            }
            if !planted!(ForgetDisplaced) {
                self.insert(key, other, guard);
            }
            if index.replace(key, other, rid, guard) {
                break;
            }
        }
        if self.is_empty() {
            return false;
        }
        let entry = entry(key, rid);
        let is_doubled = self.entries.get(&entry, guard).is_some();
        if is_doubled {
            doubled.push(entry);
        }
        is_doubled
    }

    /// Makes the key lead to this record as well, which has an older version with it.
    pub(crate) fn keep(&self, index: &OrderedIndex, key: &[u8], rid: Rid, guard: &Guard<'_>) {
        let is_led_to = || match index.insert_if_absent(key, rid, guard) {
            Ok(()) => true,
            Err(there) => there == rid,
        };
        if is_led_to() || planted!(ForgetDisplaced) {
            return;
        }
        let _moving = self.moving();
        if !is_led_to() {
            self.insert(key, rid, guard);
        }
    }

    /// Removes the record's entries of this key, of which it has no version any more.
    pub(crate) fn forget(&self, index: &OrderedIndex, key: &[u8], rid: Rid, guard: &Guard<'_>) {
        let _moving = self.moving();
        self.remove(key, rid, guard);
        if index.get(key, guard) != Some(rid) {
            return;
        }
        let mut heir = None;
        self.visit(key, guard, |rid| {
            heir = Some(rid);
            ControlFlow::Break(())
        });
        match heir {
            // The heir stays displaced: a reader may have found `rid` in the index, and look
            // here next.
            Some(heir) => index.replace(key, rid, heir, guard),
            None => index.remove(key, rid, guard),
        };
    }

    /// Removes doubles. No reader may be in a step.
    pub(crate) fn settle(&self, index: &OrderedIndex, guard: &Guard<'_>) {
        for entry in std::mem::take(&mut *self.moving()) {
            let (key, rid) = split_rid(&entry);
            if index.get(key, guard) == Some(rid) {
                self.remove(key, rid, guard);
            }
        }
    }

    /// Calls `visit` for every entry, for tests.
    #[cfg(test)]
    pub(crate) fn each(&self, guard: &Guard<'_>, mut visit: impl FnMut(&[u8], Rid)) {
        let all = Bound::Unbounded;
        let _ = self.entries.scan_forward(all, all, guard, |entry, rid| {
            visit(split_rid(entry).0, rid);
            ControlFlow::Continue(())
        });
    }
}
