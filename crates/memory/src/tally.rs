//! Allocation counting: the number of allocations of a thread, for tests that bound those
//! of a code path.
//!
//! ```text
//!   #[global_allocator]
//!   static ALLOCATOR: Tally<System> = Tally::new(System);
//!
//!   let before = tally::allocations();
//!   …the path…
//!   assert_eq!(tally::allocations() - before, 0);
//! ```
//!
//! Only the calling thread's allocations are counted, so that other threads do not disturb
//! the count.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Number of times that this thread has allocated memory or grown an allocation.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

fn count() {
    // An ending thread may allocate when its counter is already destroyed.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

/// An allocator that counts each thread's allocations.
#[derive(Debug)]
pub struct Tally<A>(A);

impl<A> Tally<A> {
    /// Wraps `allocator`.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: every call is passed on; counting allocates nothing and does not unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Tally<A> {
    /// # Safety
    /// As for [`GlobalAlloc::alloc`].
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on to our caller.
        unsafe { self.0.alloc(layout) }
    }

    /// # Safety
    /// As for [`GlobalAlloc::alloc_zeroed`].
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on to our caller.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    /// # Safety
    /// As for [`GlobalAlloc::dealloc`].
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: passed on to our caller.
        unsafe { self.0.dealloc(address, layout) }
    }

    /// # Safety
    /// As for [`GlobalAlloc::realloc`].
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: passed on to our caller.
        unsafe { self.0.realloc(address, layout, size) }
    }
}
