//! Software prefetching: starts a cache miss before the data is needed.
//!
//! Fetching a record that is in no cache takes as long as a hundred instructions. A caller
//! that knows the next few records prefetches all of them, and then uses them in turn, so
//! that their cache misses overlap.

/// Prefetches the cache line at `address`. Only a hint: any address is allowed, including
/// that of freed memory. Does nothing where the processor has no such instruction in stable
/// Rust.
#[inline]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: reads nothing that the program could see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
