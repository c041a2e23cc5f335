//! Memory accounting: counts the bytes that the process has allocated, in its allocator.
//!
//! [`Counting`] wraps a global allocator and counts bytes as they are allocated and freed.
//! A counter that every thread adds to at every allocation would cost more than the
//! allocation, so each thread keeps its own difference, and adds it to the total when it
//! reaches [`BATCH`] bytes:
//!
//! ```text
//!   thread A   +72 +16 −72 … = +65,536 ──┐
//!   thread B   −128 −64 …    = −65,540 ──┼──▶ TOTAL ──▶ bytes()
//!   thread C   +4,000        (kept)      ┘
//! ```
//!
//! So the total is exact to within a batch per thread, and reading it is one load.
//!
//! # Freed memory
//!
//! Freed memory may remain as a hole in the process's resident memory: resident, but no
//! longer allocated. Only the kernel knows the size of these holes; but since the kernel
//! was last asked, they have not grown by more than the bytes freed since. So freed bytes
//! are also counted separately ([`freed`]), in batches likewise, and in shards, because
//! that sum never balances and all threads would contend for one cache line.
//!
//! ```text
//!   a page becomes resident   ⟸   something was allocated in it
//!   allocated = bytes now − bytes then + freed between
//! ```
//!
//! # Which bytes count
//!
//! An allocator rounds sizes up to size classes, and the padding is as unavailable as the
//! requested bytes. [`size_class`] rounds as mimalloc does up to its largest class; other
//! allocators differ by a few per cent.
//!
//! Zeroed memory that no thread has written to occupies nothing: the kernel provides a page
//! when it is first touched. A caller that allocates much zeroed memory and touches it bit
//! by bit reports that with [`untouched`] and [`touched`].
//!
//! Memory that the allocator has from the kernel and has not handed out is not counted
//! here: only the kernel knows which of its pages are resident.
//!
//! Invariant: every allocation is subtracted with the same size that it was added with,
//! because both are computed from its layout.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::padded::CachePadded;
use crate::sync::thread_hint;

/// Bytes up to which a thread's own count may grow before it is added to the total.
const BATCH: i64 = 64 << 10;

/// The sum of all batches, in bytes. A thread frees memory that another one allocated, so
/// single batches may be negative, and so may be the sum for a moment.
static TOTAL: AtomicI64 = AtomicI64::new(0);

/// Number of shards of the count of freed bytes.
const SHARDS: usize = 16;

/// Freed bytes, the sum of all batches, by shards.
static FREED: [CachePadded<AtomicU64>; SHARDS] = [const { CachePadded(AtomicU64::new(0)) }; SHARDS];

/// Makes the allocator return free memory to the kernel; set once accounting has started.
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

thread_local! {
    /// Bytes that this thread has not yet added to the total. Has no destructor, so that it
    /// can be used until the thread's very end; its remainder is then lost, a batch at
    /// most.
    static OWN: Cell<i64> = const { Cell::new(0) };
    /// Bytes that this thread has added to the total, so that its own sum can be told.
    static HANDED_OVER: Cell<i64> = const { Cell::new(0) };
    /// Bytes that this thread has freed and not yet added to [`FREED`]; likewise without a
    /// destructor.
    static OWN_FREED: Cell<u64> = const { Cell::new(0) };
}

#[inline]
fn count(bytes: i64) {
    // `try_with` fails at a thread's very end on some platforms; then the batch is one
    // entry.
    let handed_over = OWN.try_with(|own| {
        let sum = own.get() + bytes;
        if sum.abs() < BATCH {
            own.set(sum);
            0
        } else {
            own.set(0);
            let _ = HANDED_OVER.try_with(|all| all.set(all.get() + sum));
            sum
        }
    });
    let sum = handed_over.unwrap_or(bytes);
    if sum != 0 {
        TOTAL.fetch_add(sum, Ordering::Relaxed);
    }
}

/// Counts `bytes` as freed; the caller has already subtracted them from the total.
#[inline]
fn count_freed(bytes: u64) {
    let handed_over = OWN_FREED.try_with(|own| {
        let sum = own.get() + bytes;
        if sum < BATCH.unsigned_abs() {
            own.set(sum);
            0
        } else {
            own.set(0);
            sum
        }
    });
    let sum = handed_over.unwrap_or(bytes);
    if sum != 0 {
        FREED[thread_hint() % SHARDS].fetch_add(sum, Ordering::Relaxed);
    }
}

/// An allocator that counts the bytes that the allocator inside it hands out.
#[derive(Debug)]
pub struct Counting<A>(A);

impl<A> Counting<A> {
    /// Wraps `allocator`.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: every call is passed to the wrapped allocator with the same arguments, and its
// result is returned unchanged; counting allocates nothing and does not unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    /// # Safety
    /// As for [`GlobalAlloc::alloc`].
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to our caller.
        let address = unsafe { self.0.alloc(layout) };
        if !address.is_null() {
            count(class_of(layout));
        }
        address
    }

    /// # Safety
    /// As for [`GlobalAlloc::alloc_zeroed`].
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to our caller.
        let address = unsafe { self.0.alloc_zeroed(layout) };
        if !address.is_null() {
            count(class_of(layout));
        }
        address
    }

    /// # Safety
    /// As for [`GlobalAlloc::dealloc`].
    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        let bytes = class_of(layout);
        count(-bytes);
        count_freed(bytes.unsigned_abs());
        // SAFETY: passed on to our caller.
        unsafe { self.0.dealloc(address, layout) }
    }

    /// # Safety
    /// As for [`GlobalAlloc::realloc`].
    #[inline]
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on to our caller.
        let moved = unsafe { self.0.realloc(address, layout, size) };
        if !moved.is_null() {
            let (before, after) = (class_of(layout), bytes_of(size));
            count(after - before);
            let freed = match moved == address {
                true => (before - after).max(0),
                false => before,
            };
            count_freed(freed.unsigned_abs());
        }
        moved
    }
}

#[inline]
fn bytes_of(size: usize) -> i64 {
    size_class(size) as i64
}

#[inline]
fn class_of(layout: Layout) -> i64 {
    bytes_of(layout.size())
}

/// Bytes that an allocation of `size` bytes occupies: up to 64 in steps of 16, above that
/// in four steps per doubling; large ones in whole pages of 4 KiB.
#[inline]
#[must_use]
pub const fn size_class(size: usize) -> usize {
    const PAGE: usize = 4096;
    /// Above this size in bytes, an allocation has pages of its own.
    const LARGE: usize = 1 << 20;
    if size <= 64 {
        size.next_multiple_of(16)
    } else if size <= LARGE {
        let step = 1 << ((size - 1).ilog2() - 2);
        size.next_multiple_of(step)
    } else {
        size.next_multiple_of(PAGE)
    }
}

/// Starts the accounting. Called once, by a program that has declared [`Counting`] as its
/// global allocator. `give_back` makes the wrapped allocator return to the kernel memory
/// that has been free for a while, as far as the calling thread can.
pub fn counts(give_back: fn()) {
    let _ = GIVE_BACK.set(give_back);
}

/// Bytes that the process has allocated and not freed, or `None` when accounting has not
/// started. Takes two loads.
#[inline]
#[must_use]
pub fn bytes() -> Option<u64> {
    GIVE_BACK.get()?;
    Some(TOTAL.load(Ordering::Relaxed).try_into().unwrap_or(0))
}

/// Bytes that this thread has allocated, less those that it has freed; 0 where no allocator
/// counts. The difference of two readings is what the code between them has kept, as long as
/// it ran on this thread only.
#[inline]
#[must_use]
pub fn of_this_thread() -> i64 {
    HANDED_OVER.get() + OWN.get()
}

/// Bytes that have been freed since the process started, to within a batch per thread.
/// Takes one load per shard.
#[must_use]
pub fn freed() -> u64 {
    FREED
        .iter()
        .map(|shard| shard.load(Ordering::Relaxed))
        .fold(0, u64::wrapping_add)
}

/// Makes the allocator return memory to the kernel that has been free for a while. By
/// itself it does that only during an allocation, so an idle thread would keep everything.
/// Takes microseconds when there is little to return; does nothing when accounting has not
/// started.
pub fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// Excludes `bytes` of an allocation from the count, because they have never been touched.
pub fn untouched(bytes: usize) {
    TOTAL.fetch_sub(bytes as i64, Ordering::Relaxed);
}

/// Counts `bytes` that were untouched: they have been touched, or are about to be freed.
#[inline]
pub fn touched(bytes: usize) {
    count(bytes as i64);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_classes() {
        for (size, class) in [
            (0, 0),
            (1, 16),
            (16, 16),
            (17, 32),
            (64, 64),
            (65, 80),
            (80, 80),
            (81, 96),
            (128, 128),
            (129, 160),
            (160, 160),
            (1000, 1024),
            (1025, 1280),
            (1 << 20, 1 << 20),
            ((1 << 20) + 1, (1 << 20) + 4096),
        ] {
            assert_eq!(size_class(size), class, "{size}");
        }
    }

    #[test]
    fn what_is_freed_was_counted_as_it_came() {
        let counting = Counting::new(std::alloc::System);
        let (before, freed_before) = (OWN.get(), OWN_FREED.get());
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: the layout is not empty; the address is used as its allocator asks.
        unsafe {
            let address = counting.alloc(layout);
            assert!(!address.is_null());
            assert_eq!(OWN.get() - before, 112);
            let moved = counting.realloc(address, layout, 300);
            assert_eq!(OWN.get() - before, 320);
            let left_behind = if moved == address { 0 } else { 112 };
            assert_eq!(OWN_FREED.get() - freed_before, left_behind);
            counting.dealloc(moved, Layout::from_size_align(300, 8).unwrap());
            assert_eq!(OWN_FREED.get() - freed_before, left_behind + 320);
        }
        assert_eq!(OWN.get(), before);
    }

    #[test]
    fn a_thread_hands_over_what_has_become_a_batch() {
        // Other tests of this process count nothing: they use another allocator.
        let before = TOTAL.load(Ordering::Relaxed);
        let own = OWN.get();
        touched(usize::try_from(BATCH).unwrap());
        assert_eq!(TOTAL.load(Ordering::Relaxed) - before, BATCH + own);
        untouched(usize::try_from(BATCH).unwrap());
        assert_eq!(TOTAL.load(Ordering::Relaxed) - before, own);
    }
}
