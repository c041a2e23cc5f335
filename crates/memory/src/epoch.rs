//! Epoch-based reclamation: when unlinked memory may be freed.
//!
//! A reader of a lock-free structure may still look at a node that a writer has
//! just unlinked. So the writer does not free it, but *retires* it; it is freed
//! once every reader that may have seen it has gone.
//!
//! ```text
//!   global epoch      7 ──────────▶ 8 ──────────▶ 9
//!   reader R     pin(7)……reads x……………unpin
//!   writer W            unlinks x, retires it in epoch 7
//!   advance 7 → 8      allowed: R is pinned in 7
//!   advance 8 → 9      waits for R, which is pinned in 7, not in 8
//!   free x             in epoch 9 or later
//! ```
//!
//! # Slots, not threads
//!
//! A pin claims a *slot* with one compare-and-swap: usually the one that the same
//! thread used last time, so its cache line is at hand. Garbage belongs to the
//! slot. A thread that exits therefore leaves nothing behind that would have to
//! be rescued: whoever claims the slot next goes on with its garbage, and
//! [`Domain::collect`] claims every free slot in turn. A thread that pins twice
//! has two slots.
//!
//! # Invariants
//!
//! 1. The epoch advances from `e` to `e + 1` only when every pinned slot is
//!    pinned in `e`.
//! 2. A bag is sealed with an epoch read after a full fence that follows the
//!    unlinking of everything in it.
//! 3. A bag sealed in `e` is freed when the epoch is at least `e + 2`.
//!
//! Why 3 is enough. Let R reach `x`. Its pin's fence then came before the fence of
//! W that followed the unlinking, or R would have seen the unlinking. W read epoch
//! `e` after its fence. Whoever advanced from `e + 1` to `e + 2` read `e + 1`
//! before its own fence; had that fence come before W's, W would have read at
//! least `e + 1`. So it came after R's, and the advancer saw R's slot: pinned, and
//! not in `e + 1`, since R read its epoch before its fence and thus before W's. It
//! therefore did not advance until R had unpinned.
//!
//! Sources: Fraser, *Practical lock-freedom* (2004), §5.2.3; Silo's epochs, which
//! EMS §2.6 refers to. crossbeam-epoch's argument for `e + 2` is the same; its
//! thread-local participants are what is different here.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr;

use crate::padded::CachePadded;
use crate::prefetch::prefetch;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crate::sync::{UnsafeCell, fence_after_compare_exchange, thread_hint};

/// Nobody uses the slot.
const FREE: u64 = 0;
/// Somebody works on the slot's garbage, but reads nothing shared.
const HELD: u64 = 1;
/// The lowest bit of a state that says: pinned in the epoch in the other bits.
/// Epochs start at 1, so such a state is never [`FREE`] or [`HELD`].
const PINNED: u64 = 1;

const fn pinned_in(epoch: u64) -> u64 {
    epoch << 1 | PINNED
}

/// Slots that are allocated at once. Small under a checker or Miri, so that
/// growth is reached.
const CHUNK: usize = if cfg!(any(loom, shuttle, miri)) {
    2
} else {
    32
};
/// A bag is sealed when it holds this many pieces of garbage.
const BAG_ITEMS: usize = if cfg!(any(loom, shuttle, miri)) {
    2
} else {
    64
};

/// How many pieces of garbage are asked for ahead of the one that is freed.
const AHEAD: usize = 8;

/// How many epochs a bag waits: invariant 3.
fn grace() -> u64 {
    #[cfg(any(loom, shuttle))]
    if FREED_EARLY.is_there() {
        return 1;
    }
    2
}

/// Bags are freed one epoch early.
#[cfg(any(loom, shuttle))]
pub static FREED_EARLY: crate::sync::Fault = crate::sync::Fault::new();

/// One piece of garbage: an address, and what to do with it.
struct Deferred {
    address: *mut (),
    free: unsafe fn(*mut ()),
}

// SAFETY: `Guard::retire` asks its caller that the garbage may be freed on any
// thread.
unsafe impl Send for Deferred {}

/// The garbage of a slot. Touched only by whoever has claimed the slot.
#[derive(Default)]
struct Garbage {
    /// Not yet sealed.
    open: Vec<Deferred>,
    /// Sealed bags with their epochs, which never decrease.
    sealed: VecDeque<(u64, Vec<Deferred>)>,
    /// An emptied bag, to be used again.
    spare: Vec<Deferred>,
}

impl Garbage {
    fn seal(&mut self, domain: &Domain) {
        if !self.open.is_empty() {
            let bag = std::mem::replace(&mut self.open, std::mem::take(&mut self.spare));
            self.sealed.push_back((domain.stamp().0, bag));
        }
    }

    /// Frees the bags that are old enough in epoch `now`.
    fn free_until(&mut self, now: u64) {
        while let Some((epoch, _)) = self.sealed.front() {
            if epoch + grace() > now {
                return;
            }
            let (_, mut bag) = self.sealed.pop_front().expect("it has a front");
            // Nobody has looked at it for a while: several come from memory together.
            for deferred in bag.iter().take(AHEAD) {
                prefetch(deferred.address);
            }
            for at in 0..bag.len() {
                if let Some(later) = bag.get(at + AHEAD) {
                    prefetch(later.address);
                }
                let deferred = &bag[at];
                // SAFETY: invariant 3: nobody can reach it any more; and it is
                // in one bag only, which is emptied before it is used again.
                unsafe { (deferred.free)(deferred.address) };
            }
            bag.clear();
            self.spare = bag;
        }
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty()
    }
}

struct Slot {
    /// [`FREE`], [`HELD`], or pinned in an epoch.
    state: AtomicU64,
    garbage: UnsafeCell<Garbage>,
}

// SAFETY: `garbage` is touched only by the one who moved `state` away from FREE,
// until he moves it back with a release store; the next claims it with acquire.
unsafe impl Sync for Slot {}
// SAFETY: nothing in a slot belongs to a thread.
unsafe impl Send for Slot {}

impl Slot {
    fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            garbage: UnsafeCell::new(Garbage::default()),
        }
    }

    #[inline]
    fn claim(&self, state: u64) -> bool {
        self.state.load(Ordering::Relaxed) == FREE
            && self
                .state
                .compare_exchange(FREE, state, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The caller has claimed the slot.
    fn with_garbage<R>(&self, work: impl FnOnce(&mut Garbage) -> R) -> R {
        // SAFETY: the claim makes the caller the only one to touch it. `work`
        // never reaches the same slot again: it only moves garbage or frees it,
        // and what frees garbage pins, if at all, through a slot of its own.
        self.garbage
            .with_mut(|garbage| work(unsafe { &mut *garbage }))
    }
}

struct Chunk {
    slots: [CachePadded<Slot>; CHUNK],
    /// The next chunk, or null. Set once.
    next: AtomicPtr<Chunk>,
}

impl Chunk {
    fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| CachePadded(Slot::new())),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Readers and garbage that belong together. An engine has one.
pub struct Domain {
    epoch: CachePadded<AtomicU64>,
    slots: Box<Chunk>,
}

/// Which domain it is: no two that exist at one time have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainId(usize);

/// A moment after which something was unlinked: see [`Domain::has_passed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Domain").finish_non_exhaustive()
    }
}

impl Domain {
    /// A domain without garbage.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch: CachePadded(AtomicU64::new(1)),
            slots: Box::new(Chunk::new()),
        }
    }

    /// Says which domain this is, so that a structure can make sure that whoever comes is
    /// pinned in its own.
    #[inline]
    #[must_use]
    pub fn id(&self) -> DomainId {
        // The domain itself may be moved.
        DomainId(ptr::from_ref(&*self.slots).addr())
    }

    /// Keeps what is reachable from now on from being freed until the guard is
    /// dropped. Never blocks. A guard held for long holds back all garbage, so it
    /// never crosses an await.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        let slot = self.claim(pinned_in(epoch));
        fence_after_compare_exchange();
        Guard {
            domain: self,
            slot,
            not_send: PhantomData,
        }
    }

    /// Claims a free slot, making more when there is none.
    #[inline]
    fn claim(&self, state: u64) -> &Slot {
        let slot = &self.slots.slots[thread_hint() % CHUNK];
        if slot.claim(state) {
            return slot;
        }
        self.claim_slowly(state)
    }

    #[cold]
    fn claim_slowly(&self, state: u64) -> &Slot {
        let mut chunk: &Chunk = &self.slots;
        let hint = thread_hint();
        loop {
            for at in 0..CHUNK {
                let slot = &chunk.slots[(hint + at) % CHUNK];
                if slot.claim(state) {
                    return slot;
                }
            }
            chunk = self.next_or_new(chunk);
        }
    }

    fn next_or_new<'domain>(&'domain self, chunk: &'domain Chunk) -> &'domain Chunk {
        let mut next = chunk.next.load(Ordering::Acquire);
        if next.is_null() {
            let fresh = Box::into_raw(Box::new(Chunk::new()));
            next = match chunk.next.compare_exchange(
                ptr::null_mut(),
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => fresh,
                Err(theirs) => {
                    // SAFETY: made above, and shown to nobody.
                    drop(unsafe { Box::from_raw(fresh) });
                    theirs
                }
            };
        }
        // SAFETY: chunks live as long as the domain, which `self` borrows.
        unsafe { &*next }
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::successors(Some(&*self.slots), |chunk| {
            // SAFETY: as in `next_or_new`; null ends the list.
            unsafe { chunk.next.load(Ordering::Acquire).as_ref() }
        })
    }

    /// Moves the epoch on if nobody is pinned in an earlier one. Returns the epoch
    /// that is known to be reached.
    fn try_advance(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for slot in self.chunks().flat_map(|chunk| &chunk.slots) {
            // Acquire: what a reader read before it unpinned happens before what
            // is freed because of it.
            let state = slot.state.load(Ordering::Acquire);
            if state != FREE && state != HELD && state != pinned_in(epoch) {
                return epoch;
            }
        }
        match self
            .epoch
            .compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => epoch + 1,
            Err(further) => further,
        }
    }

    /// A stamp for what the caller has unlinked so far.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        fence(Ordering::SeqCst);
        Stamp(self.epoch.load(Ordering::Acquire))
    }

    /// Whether every guard that was alive when `stamp` was taken is gone, so that
    /// what was unlinked before may be used for something else. Does not wait;
    /// [`Domain::collect`] makes progress.
    #[must_use]
    pub fn has_passed(&self, stamp: Stamp) -> bool {
        self.epoch.load(Ordering::Acquire) >= stamp.0 + 2
    }

    /// Moves on as far as the readers allow, and frees what may be freed, the
    /// garbage of idle slots included. To be called now and then by whoever looks
    /// after memory; retiring does its share by itself. Says whether garbage is
    /// left.
    pub fn collect(&self) -> bool {
        self.try_advance();
        let mut left = false;
        for slot in self.chunks().flat_map(|chunk| &chunk.slots) {
            if slot.claim(HELD) {
                slot.with_garbage(|garbage| {
                    garbage.seal(self);
                    garbage.free_until(self.epoch.load(Ordering::Acquire));
                    left |= !garbage.is_empty();
                });
                slot.state.store(FREE, Ordering::Release);
            } else {
                left = true;
            }
        }
        left
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // Guards borrow the domain, so there are none, and every slot is free.
        for slot in self.chunks().flat_map(|chunk| &chunk.slots) {
            assert!(slot.claim(HELD), "a guard outlives its domain");
            slot.with_garbage(|garbage| {
                garbage.seal(self);
                garbage.free_until(u64::MAX);
            });
        }
        let mut next = self.slots.next.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`, reachable only from the chunk
            // before it, which is gone or cannot be reached any more.
            let chunk = unsafe { Box::from_raw(next) };
            next = chunk.next.load(Ordering::Acquire);
        }
    }
}

/// While it lives, nothing that its holder can reach is freed. Belongs to the
/// thread that made it.
pub struct Guard<'domain> {
    domain: &'domain Domain,
    slot: &'domain Slot,
    not_send: PhantomData<*mut ()>,
}

impl std::fmt::Debug for Guard<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl<'domain> Guard<'domain> {
    /// The domain it is pinned in.
    #[must_use]
    pub fn domain(&self) -> &'domain Domain {
        self.domain
    }

    /// Frees `address` with `free` when nobody can reach it any more.
    ///
    /// # Safety
    /// `address` has been unlinked: nobody who pins from now on can reach it. It is
    /// retired once. `free` may be called with it on any thread, and does not
    /// panic.
    #[inline]
    pub unsafe fn retire(&self, address: *mut (), free: unsafe fn(*mut ())) {
        self.slot.with_garbage(|garbage| {
            garbage.open.push(Deferred { address, free });
        });
    }

    /// Retires a boxed value.
    ///
    /// # Safety
    /// As for [`Guard::retire`]; `address` came from [`Box::into_raw`].
    pub unsafe fn retire_box<T: Send>(&self, address: *mut T) {
        /// # Safety
        /// `address` came from [`Box::into_raw`] and is freed here only.
        unsafe fn free<T>(address: *mut ()) {
            // SAFETY: `retire_box` was given it from `Box::into_raw`, once.
            drop(unsafe { Box::from_raw(address.cast::<T>()) });
        }
        // SAFETY: passed on to our caller.
        unsafe { self.retire(address.cast(), free::<T>) }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.slot.with_garbage(|garbage| garbage.open.len()) < BAG_ITEMS {
            self.slot.state.store(FREE, Ordering::Release);
        } else {
            self.collect();
        }
    }
}

impl Guard<'_> {
    /// Seals the bag and frees what may be freed, no longer pinned.
    #[cold]
    fn collect(&mut self) {
        self.slot.state.store(HELD, Ordering::Release);
        self.slot.with_garbage(|garbage| {
            garbage.seal(self.domain);
            garbage.free_until(self.domain.try_advance());
        });
        self.slot.state.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

#[cfg(all(test, any(loom, shuttle)))]
mod models;
