//! Epoch-based reclamation: decides when unlinked memory may be freed.
//!
//! A reader of a lock-free structure may still access a node that a writer has just
//! unlinked. So the writer does not free the node, but *retires* it; the node is freed once
//! every reader that may have seen it has unpinned.
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
//! A pin claims a *slot* with one compare-and-swap: usually the slot that the same thread
//! used last time, so its cache line is in that core's cache. Garbage belongs to the slot.
//! A thread that exits therefore leaves no garbage that needs rescue: the next thread that
//! claims the slot continues with its garbage, and [`Domain::collect`] claims every free
//! slot in turn. A thread that pins twice has two slots.
//!
//! # Invariants
//!
//! 1. The epoch advances from `e` to `e + 1` only when every pinned slot is
//!    pinned in `e`.
//! 2. A bag is sealed with an epoch read after a full fence that follows the
//!    unlinking of everything in it.
//! 3. A bag sealed in `e` is freed when the epoch is at least `e + 2`.
//!
//! Why 3 is enough. Let reader R reach `x`. R's fence in its pin then preceded the fence
//! that writer W issued after the unlinking, or R would have seen the unlinking. W read
//! epoch `e` after its fence. The thread A that advanced from `e + 1` to `e + 2` read `e +
//! 1` before its own fence; had A's fence preceded W's, W would have read at least `e + 1`.
//! So A's fence followed R's, and A saw R's slot: pinned, and not in `e + 1`, since R read
//! its epoch before its fence and thus before W's. A therefore did not advance until R had
//! unpinned.
//!
//! Sources: Fraser, *Practical lock-freedom* (2004), §5.2.3; Silo's epochs, to which EMS
//! §2.6 refers. crossbeam-epoch argues for `e + 2` in the same way; it differs from this
//! module in its thread-local participants.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr;

use crate::padded::CachePadded;
use crate::prefetch::prefetch;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crate::sync::{UnsafeCell, fence_after_compare_exchange, thread_hint};

/// State of a slot that no thread has claimed.
const FREE: u64 = 0;
/// State of a slot whose garbage a thread is working on, while it reads nothing shared.
const HELD: u64 = 1;
/// The lowest bit of a slot's state: set when the slot is pinned, in the epoch given by the
/// other bits. Epochs start at 1, so such a state is never [`FREE`] or [`HELD`].
const PINNED: u64 = 1;

const fn pinned_in(epoch: u64) -> u64 {
    epoch << 1 | PINNED
}

/// Number of slots allocated at once. Small under a checker or Miri, so that tests reach
/// the growth.
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

/// How many pieces of garbage ahead of the one being freed are prefetched.
const AHEAD: usize = 8;

/// Number of epochs that a sealed bag waits before it is freed: invariant 3.
fn grace() -> u64 {
    #[cfg(any(loom, shuttle))]
    if FREED_EARLY.is_there() {
        return 1;
    }
    2
}

/// Injected fault: bags are freed one epoch early.
#[cfg(any(loom, shuttle))]
pub static FREED_EARLY: crate::sync::Fault = crate::sync::Fault::new();

/// One piece of garbage: an address, and the function that frees it.
struct Deferred {
    address: *mut (),
    free: unsafe fn(*mut ()),
}

// SAFETY: `Guard::retire` requires of its caller that the garbage may be freed on any
// thread.
unsafe impl Send for Deferred {}

/// The garbage of a slot. Accessed only by the thread that has claimed the slot.
#[derive(Default)]
struct Garbage {
    /// Garbage that is not yet sealed.
    open: Vec<Deferred>,
    /// Sealed bags with their epochs, which never decrease.
    sealed: VecDeque<(u64, Vec<Deferred>)>,
    /// An emptied bag, kept for reuse.
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
            // No core has accessed the garbage for a while, so several cache misses
            // overlap.
            for deferred in bag.iter().take(AHEAD) {
                prefetch(deferred.address);
            }
            for at in 0..bag.len() {
                if let Some(later) = bag.get(at + AHEAD) {
                    prefetch(later.address);
                }
                let deferred = &bag[at];
                // SAFETY: by invariant 3 no thread can reach it any more; and it is in one
                // bag only, which is emptied before it is reused.
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

// SAFETY: `garbage` is accessed only by the thread that moved `state` away from FREE, until
// that thread moves it back with a release store; the next claims it with acquire.
unsafe impl Sync for Slot {}
// SAFETY: nothing in a slot is bound to a thread.
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

    /// Calls `work` with the slot's garbage. The caller must have claimed the slot.
    fn with_garbage<R>(&self, work: impl FnOnce(&mut Garbage) -> R) -> R {
        // SAFETY: the claim gives the caller exclusive access. `work` never reaches the
        // same slot again: it only moves garbage or frees it, and a function that frees
        // garbage pins, if at all, through a slot of its own.
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

/// A reclamation domain: readers, and the garbage that waits for them. An engine has one.
pub struct Domain {
    epoch: CachePadded<AtomicU64>,
    slots: Box<Chunk>,
}

/// Identity of a domain: no two domains that exist at the same time have equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainId(usize);

/// A point in time after which something was unlinked: see [`Domain::has_passed`].
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
    /// Creates a domain without garbage.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch: CachePadded(AtomicU64::new(1)),
            slots: Box::new(Chunk::new()),
        }
    }

    /// The domain's identity, with which a structure can check that a guard given to it is
    /// pinned in its own domain.
    #[inline]
    #[must_use]
    pub fn id(&self) -> DomainId {
        // The address of the first chunk, since the domain itself may be moved.
        DomainId(ptr::from_ref(&*self.slots).addr())
    }

    /// Pins the calling thread: memory reachable from now on is not freed until the guard
    /// is dropped. Never blocks. A guard held for long holds back all garbage, so a caller
    /// never keeps one across an await.
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

    /// Claims a free slot, allocating more slots when all are taken.
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
                    // SAFETY: allocated above, and never published.
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

    /// Advances the epoch unless a slot is pinned in an earlier one. Returns an epoch that
    /// the domain is known to have reached.
    fn try_advance(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for slot in self.chunks().flat_map(|chunk| &chunk.slots) {
            // Acquire: a reader's accesses before it unpinned happen before the freeing
            // that its unpinning permits.
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

    /// The stamp of everything that the caller has unlinked so far.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        fence(Ordering::SeqCst);
        Stamp(self.epoch.load(Ordering::Acquire))
    }

    /// Whether every guard that was alive when `stamp` was taken has been dropped, so that
    /// memory unlinked before it may be reused. Does not wait; [`Domain::collect`] makes
    /// progress.
    #[must_use]
    pub fn has_passed(&self, stamp: Stamp) -> bool {
        self.epoch.load(Ordering::Acquire) >= stamp.0 + 2
    }

    /// Advances the epoch as far as readers allow, and frees all garbage that is old
    /// enough, including that of idle slots. The garbage collector calls this periodically;
    /// threads that retire garbage also collect their own slot's. Returns whether garbage
    /// is left.
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
        // Guards borrow the domain, so none exists any more, and every slot is free.
        for slot in self.chunks().flat_map(|chunk| &chunk.slots) {
            assert!(slot.claim(HELD), "a guard outlives its domain");
            slot.with_garbage(|garbage| {
                garbage.seal(self);
                garbage.free_until(u64::MAX);
            });
        }
        let mut next = self.slots.next.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`, and reachable only from the previous chunk,
            // which is freed or cannot be reached any more.
            let chunk = unsafe { Box::from_raw(next) };
            next = chunk.next.load(Ordering::Acquire);
        }
    }
}

/// A pin: while it lives, no memory that its holder can reach is freed. Bound to the thread
/// that made it.
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
    /// The domain in which the guard is pinned.
    #[must_use]
    pub fn domain(&self) -> &'domain Domain {
        self.domain
    }

    /// Calls `free` with `address` once no thread can reach it any more.
    ///
    /// # Safety
    /// `address` has been unlinked: no thread that pins from now on can reach it. It is
    /// retired once. `free` may be called with it on any thread, and does not panic.
    #[inline]
    pub unsafe fn retire(&self, address: *mut (), free: unsafe fn(*mut ())) {
        self.slot.with_garbage(|garbage| {
            garbage.open.push(Deferred { address, free });
        });
    }

    /// Retires a boxed value, to be dropped once no thread can reach it any more.
    ///
    /// # Safety
    /// As for [`Guard::retire`]; in addition, `address` came from [`Box::into_raw`].
    pub unsafe fn retire_box<T: Send>(&self, address: *mut T) {
        /// # Safety
        /// `address` came from [`Box::into_raw`] and is freed here only.
        unsafe fn free<T>(address: *mut ()) {
            // SAFETY: the caller of `retire_box` got the address from `Box::into_raw`, and
            // retires it once.
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
    /// Unpins the slot, seals its bag and frees the bags that are old enough.
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
