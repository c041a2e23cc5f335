//! How often a thread allocates, for programs that hold a path to it.
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
//! Only what the asking thread asks for is counted, so what runs beside it does not disturb.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has asked for memory, or for more of what it had.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

fn count() {
    // A thread that ends may allocate when its counter is gone.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

/// An allocator that counts how often it is asked.
#[derive(Debug)]
pub struct Tally<A>(A);

impl<A> Tally<A> {
    /// One that asks `allocator`.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: everything is passed on; counting allocates nothing and does not unwind.
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
