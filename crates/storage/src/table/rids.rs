//! Allocation of RIDs: the high-water mark and the free list.

use std::collections::VecDeque;

use coeval_memory::epoch::{Domain, Stamp};
use coeval_memory::padded::CachePadded;
use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicU64, Ordering};
use coeval_types::Rid;

use super::array::RID_LIMIT;

/// The RID allocator of a table.
pub(super) struct Rids {
    pub(super) high_water: CachePadded<AtomicU64>,
    /// Length of the free list: avoids its lock when it is empty.
    count: AtomicU64,
    /// Retired RIDs, oldest first, with the stamp of their retirement; `None` for those
    /// that no reader can have seen.
    free: Mutex<VecDeque<(Option<Stamp>, Rid)>>,
}

impl Rids {
    pub(super) fn new() -> Self {
        Self {
            high_water: CachePadded(AtomicU64::new(0)),
            count: AtomicU64::new(0),
            free: Mutex::new(VecDeque::new()),
        }
    }

    /// Takes a RID for a new record: a retired one from before all current guards, else the
    /// next new one. Returns whether it was never allocated before.
    pub(super) fn take(&self, domain: &Domain) -> (Rid, bool) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(rid) = self.take_free(domain)
        {
            return (rid, false);
        }
        let rid = self.high_water.fetch_add(1, Ordering::AcqRel);
        assert!(rid < RID_LIMIT, "a table is full");
        (Rid(rid), true)
    }

    fn take_free(&self, domain: &Domain) -> Option<Rid> {
        let mut free = self.free.lock().expect("no thread panics while holding it");
        let (stamp, _) = free.front()?;
        if stamp.is_some_and(|stamp| !domain.has_passed(stamp)) {
            return None;
        }
        let (_, rid) = free.pop_front()?;
        self.count.store(free.len() as u64, Ordering::Relaxed);
        Some(rid)
    }

    pub(super) fn give_back(&self, rid: Rid, stamp: Stamp) {
        let mut free = self.free.lock().expect("no thread panics while holding it");
        free.push_back((Some(stamp), rid));
        self.count.store(free.len() as u64, Ordering::Relaxed);
    }

    /// Replaces the free list: after replay, while there are no readers.
    pub(super) fn rebuild(&self, dead: impl Iterator<Item = Rid>) {
        let mut free = self.free.lock().expect("no thread panics while holding it");
        free.clear();
        free.extend(dead.map(|rid| (None, rid)));
        self.count.store(free.len() as u64, Ordering::Relaxed);
    }
}
