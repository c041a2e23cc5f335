//! Registered snapshots, and the rule by which garbage collection decides that a version
//! has expired.
//!
//! A version may be removed when no transaction can read it any more. Every transaction
//! that reads registers its snapshot here first.
//!
//! ```text
//!   versions of a row      10 ──────── 20 ──────── 30
//!   registered snapshots        ▲ 15                     ▲ 40
//!   expired                no: 15 sees it   yes: none in [20, 30)
//! ```
//!
//! # Registration versus collection
//!
//! ```text
//!   reader                                collector
//!   s ← installed                         b ← min(installed, committed)
//!   slot ← s                              full fence
//!   full fence                            scan the slots
//!   repeat unless installed = s           remove versions expired under b
//! ```
//!
//! One of the two fences comes first. If the reader's does, the scan sees its slot. If the
//! collector's does, the reader's second load of installed sees at least the collector's
//! value, so s ≥ b: the collector only removes versions whose successor is at or below b,
//! and the reader sees the successor. For this reason both bounds are read *before* the
//! scan (EMS §2.3.5 does not mention it).
//!
//! It follows that a completed scan stays valid: a snapshot registered later is not below
//! b. [`Expiry::cached`] uses that.
//!
//! # Ending a snapshot
//!
//! Another thread can end a snapshot that holds too many versions: it marks the slot, and
//! the versions that only this snapshot could see expire. The snapshot's reader is not
//! stopped, and may miss versions from then on. So it checks its slot *after* each read:
//!
//! ```text
//!   collector                             reader
//!   sees the mark                         reads versions
//!   unlinks expired versions              checks its slot
//! ```
//!
//! A read that has missed a version has seen its unlinking, which followed the mark; then
//! the check sees the mark, and the reader discards the result.
//!
//! The bound includes the committed prefix because an installed but uncommitted commit may
//! be rolled back after a change of leader, and the previous version is then the newest
//! again.

use std::fmt;
use std::sync::{Arc, OnceLock};

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use coeval_memory::sync::thread_hint;
use coeval_types::Timestamp;
use coeval_types::planted;

/// Number of slots allocated at once.
const CHUNK: usize = if cfg!(any(loom, shuttle, miri)) {
    2
} else {
    16
};
/// Value of a free slot. No snapshot has this timestamp.
const FREE: u64 = Timestamp::INFINITE.to_bits();
/// Value of the slot of an ended snapshot. No snapshot has this timestamp either.
const ENDED: u64 = FREE - 1;

/// Progress of the log, read before the snapshots are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// End of the contiguous installed prefix: the timestamp of a new snapshot.
    pub installed: Timestamp,
    /// End of the prefix that can no longer be rolled back.
    pub committed: Timestamp,
}

type Slot = Arc<CachePadded<AtomicU64>>;

struct Chunk {
    slots: [Slot; CHUNK],
    next: OnceLock<Box<Chunk>>,
}

impl Chunk {
    fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| Arc::new(CachePadded(AtomicU64::new(FREE)))),
            next: OnceLock::new(),
        }
    }
}

/// The registry of all active snapshots.
pub struct Snapshots {
    slots: Box<Chunk>,
    /// Every slot that was ever claimed is before this position; shortens scans.
    used: CachePadded<AtomicUsize>,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.registered()).finish()
    }
}

impl Snapshots {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self {
            slots: Box::new(Chunk::new()),
            used: CachePadded(AtomicUsize::new(0)),
        }
    }

    /// Registers a snapshot at the end of the installed prefix, which `installed` reads.
    /// From then on every version that the snapshot sees is kept, until the snapshot is
    /// dropped. Never waits.
    pub fn register(&self, installed: impl Fn() -> Timestamp) -> Snapshot {
        let first = installed();
        let mut snapshot = Snapshot {
            timestamp: first,
            slot: self.claim(first),
        };
        snapshot.settle(installed);
        snapshot
    }

    fn claim(&self, timestamp: Timestamp) -> Slot {
        assert!(timestamp.is_finite(), "a snapshot is at a commit");
        let mut chunk = &*self.slots;
        let mut position = 0;
        loop {
            for at in 0..CHUNK {
                let at = (thread_hint() + at) % CHUNK;
                let slot = &chunk.slots[at];
                if slot.load(Ordering::Relaxed) == FREE
                    && slot
                        .compare_exchange(
                            FREE,
                            timestamp.to_bits(),
                            Ordering::AcqRel,
                            Ordering::Relaxed,
                        )
                        .is_ok()
                {
                    if self.used.load(Ordering::Relaxed) <= position + at {
                        self.used.fetch_max(position + at + 1, Ordering::AcqRel);
                    }
                    return slot.clone();
                }
            }
            chunk = chunk.next.get_or_init(|| Box::new(Chunk::new()));
            position += CHUNK;
        }
    }

    /// Iterates over all slots that were ever claimed.
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let used = self.used.load(Ordering::Acquire);
        std::iter::successors(Some(&*self.slots), |chunk| {
            chunk.next.get().map(|next| &**next)
        })
        .flat_map(|chunk| &chunk.slots)
        .take(used)
    }

    /// Iterates over all registered snapshots, in no order. May miss one that is registered
    /// during the scan.
    fn registered(&self) -> impl Iterator<Item = Timestamp> {
        // The collector's fence; it has read its horizon before.
        fence(Ordering::SeqCst);
        self.slots()
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|&bits| bits < ENDED)
            .map(Timestamp::from_bits)
    }

    /// Timestamp of the oldest registered snapshot.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.registered().min()
    }

    /// Number of registered snapshots.
    #[must_use]
    pub fn count(&self) -> usize {
        self.registered().count()
    }

    /// Ends the oldest registered snapshot, if it is older than `before`: from now on no
    /// version is kept for it, and [`Snapshot::is_ended`] returns true. Returns its
    /// timestamp.
    pub fn end_oldest(&self, before: Timestamp) -> Option<Timestamp> {
        self.end_oldest_but(before, &[])
    }

    /// [`Snapshots::end_oldest`] of those that have none of the timestamps `spared`.
    pub fn end_oldest_but(&self, before: Timestamp, spared: &[Timestamp]) -> Option<Timestamp> {
        let others = self.registered().filter(|each| !spared.contains(each));
        let oldest = others.min().filter(|&oldest| oldest < before)?;
        // Any of the snapshots with the oldest timestamp will do. It may have been dropped
        // meanwhile, and then nothing has to be done.
        self.slots().find(|slot| {
            slot.load(Ordering::Relaxed) == oldest.to_bits()
                && slot
                    .compare_exchange(oldest.to_bits(), ENDED, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        })?;
        Some(oldest)
    }

    /// Whether a snapshot is registered in `[from, to)`.
    #[must_use]
    pub fn any_in(&self, from: Timestamp, to: Timestamp) -> bool {
        self.registered()
            .any(|snapshot| from <= snapshot && snapshot < to)
            && !planted!(FreeUnexpired)
    }
}

/// A registered snapshot. Dropping it releases the versions that were kept for it.
#[derive(Debug)]
#[must_use = "a snapshot is registered for as long as it is kept"]
pub struct Snapshot {
    timestamp: Timestamp,
    slot: Slot,
}

impl Snapshot {
    /// The newest commit that the snapshot includes.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Whether another thread has ended the snapshot. The reader calls this after a read:
    /// the result is valid only if this returns false.
    #[inline]
    #[must_use]
    pub fn is_ended(&self) -> bool {
        // The loads of the read itself acquire; this one comes after them.
        self.slot.load(Ordering::Acquire) == ENDED
    }

    /// Moves the snapshot to the end of the installed prefix, for a new statement. Versions
    /// that only the old position saw are released. A snapshot that was ended is valid
    /// again.
    pub fn refresh(&mut self, installed: impl Fn() -> Timestamp) {
        let now = installed();
        assert!(now >= self.timestamp, "the installed prefix went back");
        if now != self.timestamp || self.is_ended() {
            self.timestamp = now;
            self.slot.store(now.to_bits(), Ordering::Release);
            self.settle(installed);
        }
    }

    /// Completes the registration: the slot holds `timestamp`; moves both until the
    /// installed prefix does not change between two loads.
    fn settle(&mut self, installed: impl Fn() -> Timestamp) {
        loop {
            fence(Ordering::SeqCst);
            #[cfg(any(loom, shuttle))]
            if crate::faults::REGISTERED_BLINDLY.is_there() {
                return;
            }
            let again = installed();
            if again == self.timestamp {
                return;
            }
            self.timestamp = again;
            self.slot.store(again.to_bits(), Ordering::Release);
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // Release: reads under the snapshot happen before any change to the versions it
        // kept.
        self.slot.store(FREE, Ordering::Release);
    }
}

/// Decides which versions have expired: one at `cts` has when its successor's timestamp is
/// at or below both bounds, and no snapshot is registered in between.
#[derive(Debug)]
pub struct Expiry<'snapshots> {
    bound: Timestamp,
    snapshots: &'snapshots Snapshots,
    cached: Option<Vec<Timestamp>>,
}

impl<'snapshots> Expiry<'snapshots> {
    /// Creates a rule that scans the snapshots for each version that it is asked about. The
    /// caller has read `horizon` before this call.
    #[must_use]
    pub fn new(horizon: Horizon, snapshots: &'snapshots Snapshots) -> Self {
        Self {
            bound: horizon.installed.min(horizon.committed),
            snapshots,
            cached: None,
        }
    }

    /// Creates a rule that scans the snapshots once, now: for a sweep over many records.
    /// Snapshots that are dropped later still protect their versions.
    #[must_use]
    pub fn cached(horizon: Horizon, snapshots: &'snapshots Snapshots) -> Self {
        let mut registered: Vec<_> = snapshots.registered().collect();
        registered.sort_unstable();
        Self {
            cached: Some(registered),
            ..Self::new(horizon, snapshots)
        }
    }

    /// Whether no snapshot, present or future, can read the version at `cts`, which was
    /// replaced at `successor`.
    #[must_use]
    pub fn is_expired(&self, cts: Timestamp, successor: Timestamp) -> bool {
        debug_assert!(cts < successor);
        if successor > self.bound {
            return false;
        }
        match &self.cached {
            None => !self.snapshots.any_in(cts, successor),
            Some(registered) => {
                let at = registered.partition_point(|&snapshot| snapshot < cts);
                registered.get(at).is_none_or(|&next| next >= successor)
            }
        }
    }

    /// The oldest snapshot that can read the version at `cts`, which was replaced at
    /// `successor`: it holds the version. `None` when no registered snapshot does.
    #[must_use]
    pub fn holder(&self, cts: Timestamp, successor: Timestamp) -> Option<Timestamp> {
        let holds = |snapshot: &Timestamp| (cts..successor).contains(snapshot);
        match &self.cached {
            None => self.snapshots.registered().filter(holds).min(),
            Some(registered) => {
                let at = registered.partition_point(|&snapshot| snapshot < cts);
                registered.get(at).copied().filter(holds)
            }
        }
    }

    /// Whether everything up to `cts` is settled: no commit at or below it can be rolled
    /// back, and every new snapshot includes it.
    #[must_use]
    pub fn is_settled(&self, cts: Timestamp) -> bool {
        cts <= self.bound
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const fn at(bits: u64) -> Timestamp {
        Timestamp::from_bits(bits)
    }

    fn horizon(installed: u64, committed: u64) -> Horizon {
        Horizon {
            installed: at(installed),
            committed: at(committed),
        }
    }

    #[test]
    fn a_version_expires_between_snapshots() {
        let snapshots = Snapshots::new();
        let old = snapshots.register(|| at(15));
        let new = snapshots.register(|| at(40));
        for expiry in [
            Expiry::new(horizon(40, 40), &snapshots),
            Expiry::cached(horizon(40, 40), &snapshots),
        ] {
            assert!(!expiry.is_expired(at(10), at(20)), "15 sees it");
            assert_eq!(expiry.holder(at(10), at(20)), Some(at(15)));
            assert_eq!(expiry.holder(at(10), at(50)), Some(at(15)));
            assert_eq!(expiry.holder(at(16), at(40)), None);
            assert!(expiry.is_expired(at(20), at(30)), "no snapshot does");
            assert!(expiry.is_expired(at(16), at(40)), "40 sees its successor");
            assert!(!expiry.is_expired(at(15), at(16)), "15 sees its own");
            assert!(!expiry.is_expired(at(30), at(41)), "not yet installed");
        }
        drop(old);
        let expiry = Expiry::new(horizon(40, 40), &snapshots);
        assert!(expiry.is_expired(at(10), at(20)));
        assert_eq!(snapshots.oldest(), Some(at(40)));
        drop(new);
        assert_eq!(snapshots.oldest(), None);
    }

    #[test]
    fn what_may_be_rolled_back_does_not_count_as_a_successor() {
        let snapshots = Snapshots::new();
        let expiry = Expiry::new(horizon(40, 25), &snapshots);
        assert!(expiry.is_expired(at(10), at(25)));
        assert!(!expiry.is_expired(at(10), at(30)));
        assert!(expiry.is_settled(at(25)) && !expiry.is_settled(at(26)));
    }

    #[test]
    fn registration_follows_the_installed_prefix() {
        let snapshots = Snapshots::new();
        let looks = std::cell::Cell::new(0);
        // The installed prefix moves twice while the snapshot is being registered.
        let snapshot = snapshots.register(|| {
            looks.set(looks.get() + 1);
            at(looks.get().min(3))
        });
        assert_eq!(snapshot.timestamp(), at(3));
        assert_eq!(snapshots.oldest(), Some(at(3)));
    }

    #[test]
    fn the_oldest_but_some_can_be_ended() {
        let snapshots = Snapshots::new();
        let [view, beside, next] = [15, 15, 20].map(|time| snapshots.register(|| at(time)));
        let spared = [at(15)];
        assert_eq!(snapshots.end_oldest_but(at(20), &spared), None);
        assert_eq!(snapshots.end_oldest_but(at(40), &spared), Some(at(20)));
        assert!(next.is_ended() && !view.is_ended() && !beside.is_ended());
        assert_eq!(snapshots.end_oldest_but(at(40), &spared), None);
    }

    #[test]
    fn the_oldest_can_be_ended() {
        let snapshots = Snapshots::new();
        let mut old = snapshots.register(|| at(15));
        let new = snapshots.register(|| at(40));
        assert_eq!(snapshots.end_oldest(at(15)), None, "not before itself");
        assert_eq!(snapshots.end_oldest(at(40)), Some(at(15)));
        assert!(old.is_ended() && !new.is_ended());
        let expiry = Expiry::new(horizon(40, 40), &snapshots);
        assert!(
            expiry.is_expired(at(10), at(20)),
            "no snapshot sees it any more"
        );
        assert_eq!(snapshots.oldest(), Some(at(40)));
        assert_eq!(snapshots.end_oldest(at(40)), None);
        // A new statement refreshes the snapshot, which has kept its slot.
        old.refresh(|| at(41));
        assert!(!old.is_ended());
        assert_eq!(snapshots.registered().count(), 2);
        assert_eq!(snapshots.end_oldest(at(100)), Some(at(40)));
        drop((old, new));
        assert_eq!(snapshots.registered().count(), 0);
    }

    #[test]
    fn more_snapshots_than_slots() {
        let snapshots = Snapshots::new();
        let all: Vec<_> = (0..100)
            .map(|bits| snapshots.register(|| at(bits)))
            .collect();
        assert_eq!(snapshots.registered().count(), 100);
        assert_eq!(snapshots.oldest(), Some(at(0)));
        drop(all);
        assert_eq!(snapshots.registered().count(), 0);
    }
}
