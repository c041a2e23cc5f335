//! A logical range: some contiguous keys, and who has written them.
//!
//! # A range's life
//!
//! ```text
//!   current      in the map; writers register here
//!   retired      its successors are known: who registers finds out after having
//!                registered, and registers with them as well
//!   replaced     everybody who had not found out has drawn, its registrations are
//!                copied, the successors stand in the map
//!   gone         when the last commit that looked at an older map has ended
//! ```
//!
//! A retired range keeps its ring and its link. Whoever still has it finds all
//! registrations: those made before it was retired in its ring, the others along the
//! link.
//!
//! # Why nobody is missed
//!
//! A writer adds to the ring's head, then asks whether the range is retired. Who retires
//! it says so, then reads the head. All four are sequentially consistent. So a writer who
//! does not find out is before the head that was read: its registration is awaited and
//! copied. One who finds out registers with the successors before it draws.
//!
//! A validator reads the map and the links after its fence. Let a writer have drawn an
//! earlier timestamp, and let it have registered its key in range `w` last, which was not
//! retired then. The validator's map has a range `m` for this key. If `m` is `w`, the
//! registration is there. If `m` comes after `w`, what `w` knew was copied before `m`
//! stood in any map. If `w` comes after `m`, the writer saw the links between them, or a
//! newer map, before it drew; so the validator sees the links, and follows them to `w`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use coeval_memory::sync::atomic::{AtomicBool, Ordering};
use coeval_types::TransactionId;

use super::account::Account;
use super::footprint::Footprint;
use super::map::Registration;
use super::ring::Ring;

/// Most slots that one transaction takes in one range's ring. What it writes
/// beyond that is registered as so many intervals.
pub(super) const SLOTS_PER_TRANSACTION: usize = 8;

/// How many slots one transaction may take in a ring of `slots`. Slots that have
/// not drawn cannot be overwritten, so those of all threads that commit at once
/// must fit the ring with room to spare, or they would wait for each other.
fn slots_per_transaction(slots: usize) -> usize {
    (slots / 64).clamp(1, SLOTS_PER_TRANSACTION)
}

/// What the keeper knows of a range. It alone reads and writes this.
#[derive(Debug)]
pub(super) struct Tally {
    /// Keys in the range when they were last counted; [`UNKNOWN`] if never.
    records: AtomicU64,
    /// [`Range::written`] at that time.
    counted_at: AtomicU64,
    /// Keys are counted again when so many have been written.
    patience: AtomicU64,
    /// The ring's head when it was last looked at.
    head: AtomicU64,
}

/// Keys that nobody has counted.
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

    /// Whether the ring's head is where it was when this was asked last.
    pub(super) fn is_quiet(&self, head: u64) -> bool {
        self.head.swap(head, Relaxed) == head
    }
}

/// The keys at or above `lower` and below `upper`.
#[derive(Debug)]
pub(crate) struct Range {
    /// No other range of the space ever has this number.
    pub(super) id: u64,
    pub(super) lower: Box<[u8]>,
    pub(super) upper: Option<Box<[u8]>>,
    retired: AtomicBool,
    successors: OnceLock<Box<[Arc<Range>]>>,
    /// Keys that were registered together with another one in its slot.
    together: AtomicU64,
    /// How many predicates could not be decided for want of slots.
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

    /// A range for all keys, the first of its space.
    pub(super) fn first(id: u64, slots: usize, account: &Account) -> Arc<Self> {
        let ring = Ring::new(slots, account.clone());
        Self::with_ring(id, Box::default(), None, ring, account.clone())
    }

    /// A range that is to follow others.
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
        // Beside it, its count of references, which is as far from it as it is aligned.
        size_of::<Self>()
            + align_of::<Self>()
            + self.lower.len()
            + upper
            + self.ring.directory_bytes()
    }

    /// How many keys have been registered here, counting each time.
    pub(super) fn written(&self) -> u64 {
        self.ring.registrations() + self.together.load(Relaxed)
    }

    pub(super) fn note_overflow(&self) {
        self.overflows.fetch_add(1, Relaxed);
    }

    pub(super) fn has_overflowed(&self) -> bool {
        self.overflows.load(Relaxed) > 0
    }

    /// Says who follows. Returns the head that every registration is before whose owner
    /// has not found out.
    pub(super) fn retire(&self, successors: Box<[Arc<Range>]>) -> u64 {
        let unset = self.successors.set(successors);
        assert!(unset.is_ok(), "a range is retired once");
        self.retired.store(true, Ordering::SeqCst);
        self.ring.head()
    }

    /// Who follows, once that is settled.
    pub(super) fn successors(&self) -> Option<&[Arc<Range>]> {
        // Not by the cell alone: its loads only acquire.
        self.retired
            .load(Ordering::SeqCst)
            .then(|| &**self.successors.get().expect("set before it was retired"))
    }

    /// The range that stands for this one at `key`: itself, or who follows.
    fn current(self: &Arc<Self>, key: &[u8]) -> &Arc<Self> {
        let mut range = self;
        while let Some(successors) = range.successors() {
            let at = successors.partition_point(|range| *range.lower <= *key);
            range = &successors[at - 1];
        }
        range
    }

    /// How many of the keys, of which the first is inside, are inside.
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

    /// Registers the keys that are inside, of which the first is, and returns how many:
    /// here, or with those who follow.
    ///
    /// Ranges are met in the order of their keys, and a retired one only before those
    /// that follow it. So commits that wait for slots wait for each other in one order.
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
