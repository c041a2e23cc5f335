//! A logical range: an interval of contiguous keys, with the ring of its recent writers.
//!
//! # A range's life cycle
//!
//! ```text
//!   current      in the map; writers register here
//!   retired      its successors are set: a writer that registers finds out after having
//!                registered, and registers in the successors as well
//!   replaced     all writers that had not found out were assigned their timestamps, their
//!                registrations are copied, the successors are in the map
//!   dropped      when the last commit that loaded an older map has ended
//! ```
//!
//! A retired range keeps its ring and its links. A validator that still holds the range
//! finds all registrations: those made before it was retired in its ring, the others by
//! following the links.
//!
//! # Why no writer is missed
//!
//! A writer increments the ring's head, then reads whether the range is retired. The
//! balancer marks the range as retired, then reads the head. All four operations are
//! sequentially consistent. So a writer that does not find out is before the head that
//! the balancer read: the balancer waits for its timestamp and copies its registration. A
//! writer that finds out registers in the successors before its timestamp is assigned.
//!
//! A validator reads the map and the links after its fence. Let a writer have an earlier
//! timestamp, and let it have registered its key in range `w` last, which was not retired
//! then. The validator's map has a range `m` for this key. If `m` is `w`, the
//! registration is there. If `m` is a successor of `w`, the registrations of `w` were
//! copied before `m` was in any map. If `w` is a successor of `m`, the writer saw the
//! links between them, or a newer map, before its timestamp was assigned; so the
//! validator sees the links, and follows them to `w`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use coeval_memory::sync::atomic::{AtomicBool, Ordering};
use coeval_types::TransactionId;

use super::account::Account;
use super::footprint::Footprint;
use super::map::Registration;
use super::ring::Ring;

/// Most slots that one transaction takes in one range's ring. Further keys are registered
/// as this many intervals.
pub(super) const SLOTS_PER_TRANSACTION: usize = 8;

/// Number of slots that one transaction may take in a ring of `slots`. A slot cannot be
/// overwritten before its writer's timestamp is assigned, so the slots of all threads
/// that commit at once must fit the ring with room to spare, or the writers would wait
/// for each other.
fn slots_per_transaction(slots: usize) -> usize {
    (slots / 64).clamp(1, SLOTS_PER_TRANSACTION)
}

/// The balancer's knowledge of a range. Only the balancer reads and writes it.
#[derive(Debug)]
pub(super) struct Tally {
    /// Number of keys in the range at the last count; [`UNKNOWN`] if never counted.
    records: AtomicU64,
    /// [`Range::written`] at the last count.
    counted_at: AtomicU64,
    /// Number of registrations after which the keys are counted again.
    patience: AtomicU64,
    /// The ring's head when the balancer last read it.
    head: AtomicU64,
}

/// Number of keys in a range that was never counted.
pub(super) const UNKNOWN: u64 = u64::MAX;

impl Tally {
    pub(super) fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    pub(super) fn counted_at(&self) -> u64 {
        self.counted_at.load(Relaxed)
    }

    pub(super) fn patience(&self) -> u64 {
        self.patience.load(Relaxed)
    }

    pub(super) fn set(&self, records: u64, counted_at: u64, patience: u64) {
        self.records.store(records, Relaxed);
        self.counted_at.store(counted_at, Relaxed);
        self.patience.store(patience, Relaxed);
    }

    /// Whether the ring's head is unchanged since the last call.
    pub(super) fn is_quiet(&self, head: u64) -> bool {
        self.head.swap(head, Relaxed) == head
    }
}

/// A range with the keys at or above `lower` and below `upper`.
#[derive(Debug)]
pub(crate) struct Range {
    /// Number of the range, unique in its space for all time.
    pub(super) id: u64,
    pub(super) lower: Box<[u8]>,
    pub(super) upper: Option<Box<[u8]>>,
    retired: AtomicBool,
    successors: OnceLock<Box<[Arc<Range>]>>,
    /// Keys that were registered together with another key in one slot.
    together: AtomicU64,
    /// Number of predicates that could not be decided because the ring had wrapped
    /// around.
    overflows: AtomicU32,
    pub(super) tally: Tally,
    pub(super) ring: Ring,
    account: Account,
}

impl Range {
    fn with_ring(
        id: u64,
        lower: Box<[u8]>,
        upper: Option<Box<[u8]>>,
        ring: Ring,
        account: Account,
    ) -> Arc<Self> {
        let range = Self {
            id,
            lower,
            upper,
            retired: AtomicBool::new(false),
            successors: OnceLock::new(),
            together: AtomicU64::new(0),
            overflows: AtomicU32::new(0),
            tally: Tally {
                records: AtomicU64::new(UNKNOWN),
                counted_at: AtomicU64::new(0),
                patience: AtomicU64::new(0),
                head: AtomicU64::new(UNKNOWN),
            },
            ring,
            account,
        };
        range.account.add(range.fixed_bytes());
        Arc::new(range)
    }

    /// The first range of a space, for all keys.
    pub(super) fn first(id: u64, slots: usize, account: &Account) -> Arc<Self> {
        let ring = Ring::new(slots, account.clone());
        Self::with_ring(id, Box::default(), None, ring, account.clone())
    }

    /// A range that will succeed others.
    pub(super) fn following(
        id: u64,
        lower: Box<[u8]>,
        upper: Option<Box<[u8]>>,
        slots: usize,
        account: &Account,
    ) -> Arc<Self> {
        let ring = Ring::following(slots, account.clone());
        Self::with_ring(id, lower, upper, ring, account.clone())
    }

    fn fixed_bytes(&self) -> usize {
        let upper = self.upper.as_ref().map_or(0, |upper| upper.len());
        // The `Arc`'s reference counts take as many bytes as the range is aligned to.
        size_of::<Self>()
            + align_of::<Self>()
            + self.lower.len()
            + upper
            + self.ring.directory_bytes()
    }

    /// Number of keys registered here, counting repeated keys each time.
    pub(super) fn written(&self) -> u64 {
        self.ring.registrations() + self.together.load(Relaxed)
    }

    pub(super) fn note_overflow(&self) {
        self.overflows.fetch_add(1, Relaxed);
    }

    pub(super) fn has_overflowed(&self) -> bool {
        self.overflows.load(Relaxed) > 0
    }

    /// Sets the successors. Returns the ring's head: every registration of a writer that
    /// has not found out is before it.
    pub(super) fn retire(&self, successors: Box<[Arc<Range>]>) -> u64 {
        let unset = self.successors.set(successors);
        assert!(unset.is_ok(), "a range is retired once");
        self.retired.store(true, Ordering::SeqCst);
        self.ring.head()
    }

    /// The successors, once they are set.
    pub(super) fn successors(&self) -> Option<&[Arc<Range>]> {
        // `retired` is read as well, because the cell's loads only acquire.
        self.retired
            .load(Ordering::SeqCst)
            .then(|| &**self.successors.get().expect("set before it was retired"))
    }

    /// The current range for `key`: this one, or a successor.
    fn current(self: &Arc<Self>, key: &[u8]) -> &Arc<Self> {
        let mut range = self;
        while let Some(successors) = range.successors() {
            let at = successors.partition_point(|range| *range.lower <= *key);
            range = &successors[at - 1];
        }
        range
    }

    /// Number of the keys that are inside the range. The first key must be inside.
    fn inside(&self, keys: &[&[u8]]) -> usize {
        match &self.upper {
            None => keys.len(),
            Some(_) if keys.len() == 1 => 1,
            Some(upper) => keys.partition_point(|key| **key < **upper),
        }
    }

    fn register_here(
        self: &Arc<Self>,
        owner: TransactionId,
        keys: &[&[u8]],
        registrations: &mut Vec<Registration>,
    ) {
        let most = slots_per_transaction(self.ring.capacity());
        for part in keys.chunks(keys.len().div_ceil(most)) {
            let footprint = match part {
                [key] => Footprint::of_key(key),
                [first, .., last] => {
                    self.together.fetch_add(part.len() as u64 - 1, Relaxed);
                    Footprint::of_interval(first, last)
                }
                [] => unreachable!("chunks are not empty"),
            };
            let position = self.ring.register(owner, &footprint);
            registrations.push(Registration::new(Arc::clone(self), position));
        }
    }

    /// Registers those of the keys that are inside the range, here or in its successors,
    /// and returns their number. The first key must be inside.
    ///
    /// A writer visits ranges in key order, and a retired range only before its
    /// successors. So writers that wait for slots wait for each other in one order, and
    /// cannot deadlock.
    pub(super) fn register(
        self: &Arc<Self>,
        owner: TransactionId,
        keys: &[&[u8]],
        registrations: &mut Vec<Registration>,
    ) -> usize {
        let mut range = self.current(keys[0]);
        loop {
            let inside = range.inside(keys);
            range.register_here(owner, &keys[..inside], registrations);
            #[cfg(shuttle)]
            if super::faults::NO_SECOND_LOOK.is_there() {
                return inside;
            }
            let current = range.current(keys[0]);
            if Arc::ptr_eq(current, range) {
                return inside;
            }
            range = current;
        }
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let bytes = self.fixed_bytes() + self.ring.slot_bytes();
        self.account.subtract(bytes);
    }
}
