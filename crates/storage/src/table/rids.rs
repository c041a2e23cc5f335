//! Which RIDs are free.

use std::collections::VecDeque;

use coeval_memory::epoch::{Domain, Stamp};
use coeval_memory::padded::CachePadded;
use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicU64, Ordering};
use coeval_types::Rid;

use super::array::RID_LIMIT;

/// The free list and the high-water mark.
pub(super) struct Rids {
    pub(super) high_water: CachePadded<AtomicU64>,
    /// How many there are in the free list: spares its lock when there are none.
    count: AtomicU64,
    /// Retired RIDs, oldest first, with when they were retired; `None` for those
    /// that nobody can have seen.
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

    /// A RID for a new record: a retired one that every reader has passed, else
    /// the next one. Says whether it was never given out before.
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
        let mut free = self.free.lock().expect("nobody panics holding it");
        let (stamp, _) = free.front()?;
        if stamp.is_some_and(|stamp| !domain.has_passed(stamp)) {
            return None;
        }
        let (_, rid) = free.pop_front()?;
        self.count.store(free.len() as u64, Ordering::Relaxed);
        Some(rid)
    }

    pub(super) fn give_back(&self, rid: Rid, stamp: Stamp) {
        let mut free = self.free.lock().expect("nobody panics holding it");
        free.push_back((Some(stamp), rid));
        self.count.store(free.len() as u64, Ordering::Relaxed);
    }

    /// Replaces the free list: after replay, when nobody reads.
    pub(super) fn rebuild(&self, dead: impl Iterator<Item = Rid>) {
        let mut free = self.free.lock().expect("nobody panics holding it");
        free.clear();
        free.extend(dead.map(|rid| (None, rid)));
        self.count.store(free.len() as u64, Ordering::Relaxed);
    }
}
