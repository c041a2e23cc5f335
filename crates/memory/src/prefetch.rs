//! Asking for memory before it is needed.
//!
//! A record that is not in a cache takes as long as a hundred instructions to come.
//! Who knows the next few records asks for all of them, and then uses them in turn:
//! their ways overlap.

/// Asks for the cache line at `address`. Only a hint: any address will do, that of
/// memory which is gone included. Does nothing where the processor has no such
/// instruction that stable Rust knows.
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
