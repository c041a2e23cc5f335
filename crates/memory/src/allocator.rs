//! The server's global allocator: mimalloc wrapped in [`Counting`], which accounts for its
//! bytes.
//!
//! ```text
//!   #[global_allocator]
//!   static ALLOCATOR: Allocator = allocator::NEW;
//!
//!   fn main() {
//!       allocator::start();      from here on heap::bytes() answers
//! ```
//!
//! mimalloc maps memory from the kernel in arenas of a gigabyte and more, and cuts pages of
//! 64 KiB to 4 MiB from them, each for one thread and one size class. A free page is
//! returned to the kernel after [`KEPT_MILLISECONDS`]; the next allocation does that, or a
//! call of [`heap::give_back`].
//!
//! mimalloc's own statistics cannot account for memory: on Linux, they still count returned
//! memory as committed, and count a page whole as soon as it is started.
//!
//! # Pre-faulting
//!
//! The kernel provides and zeroes a page when a thread first touches it, and that thread
//! waits. On a virtual machine the host has to find the page first, unless it was touched
//! shortly before: zeroing 2 MiB was measured at 0.1 ms, and at 5 ms when the host had no
//! free memory. So pages of arenas can be touched before any thread needs them
//! ([`populate`], and [`reserve`] where the first arena is too small). The allocator does
//! not know this and need not: it treats such pages as never used. Once used and freed,
//! they are returned to the kernel like all others.

use std::io;
use std::ops::Range;

use libmimalloc_sys as sys;
use mimalloc::MiMalloc;

use crate::heap::{self, Counting};

/// The type of the server's global allocator.
pub type Allocator = Counting<MiMalloc>;

/// The allocator, for a program that declares it as its global one.
pub const NEW: Allocator = Counting::new(MiMalloc);

/// Milliseconds for which the allocator keeps free memory before it returns it to the
/// kernel. Longer than memory that every statement allocates and frees stays free, shorter
/// than an operator waits after a large DELETE to see the memory returned.
pub const KEPT_MILLISECONDS: i32 = 100;

/// Number of `mi_option_purge_delay`, for which the bindings have no name.
const PURGE_DELAY: sys::mi_option_t = 15;

/// Granularity of an arena in bytes: the size of an arena is a multiple of this.
const ARENA_UNIT: usize = 32 << 20;

/// The largest arena that [`reserve`] makes, in bytes. The allocator supports arenas of
/// twice this size, and 160 of them.
const LARGEST_ARENA: usize = 8 << 30;

/// Configures the allocator and starts the accounting. Called once, at the start of a
/// program whose global allocator is [`NEW`].
pub fn start() {
    // SAFETY: an option of this number exists, and may be set at any time.
    unsafe { sys::mi_option_set(PURGE_DELAY, KEPT_MILLISECONDS.into()) };
    heap::counts(give_back);
}

/// Makes the kernel provide all missing pages of this address range, as if each were
/// written to. Blocks until they are resident. Contents of memory do not change.
///
/// # Errors
/// The kernel's error. Linux supports this since 5.14; the range must start at a page
/// boundary and be writable memory of this process.
#[cfg(target_os = "linux")]
pub fn populate(addresses: Range<usize>) -> io::Result<()> {
    use rustix::io::Errno;
    use rustix::mm::{Advice, madvise};

    let start = std::ptr::without_provenance_mut(addresses.start);
    // SAFETY: this advice changes neither contents nor access rights, whatever the
    // addresses are; the kernel refuses a range that is not writable.
    let done = unsafe { madvise(start, addresses.len(), Advice::LinuxPopulateWrite) };
    done.map_err(|error| match error {
        Errno::INVAL => io::Error::new(
            io::ErrorKind::Unsupported,
            "memory is populated by Linux 5.14 and newer kernels",
        ),
        error => error.into(),
    })
}

/// Unsupported on kernels other than Linux.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn populate(_: Range<usize>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes the allocator reserve `bytes` more of address space, in arenas beside those it
/// has. Reserving takes no memory. Returns whether the allocator could.
#[must_use]
pub fn reserve(bytes: usize) -> bool {
    let mut left = bytes;
    while left > 0 {
        let size = left.next_multiple_of(ARENA_UNIT).min(LARGEST_ARENA);
        // SAFETY: any thread may call this at any time; the null pointer declines the
        // arena's id.
        let failed =
            unsafe { sys::mi_reserve_os_memory_ex(size, true, true, false, std::ptr::null_mut()) };
        if failed != 0 {
            return false;
        }
        left = left.saturating_sub(size);
    }
    true
}

fn give_back() {
    // SAFETY: frees nothing that is in use; works only on memory that this thread owns and
    // on memory that no thread owns.
    unsafe { sys::mi_collect(false) };
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn what_is_populated_keeps_its_contents() {
        let mut memory = vec![0_u8; 64 * PAGE];
        memory[2 * PAGE] = 7;
        let start = memory.as_ptr().addr().next_multiple_of(PAGE);
        populate(start..start + 60 * PAGE).unwrap();
        memory[2 * PAGE + 1] = 8;
        assert_eq!(memory.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 15);
    }

    #[test]
    fn what_is_not_there_to_be_written_to_is_refused() {
        for addresses in [0..PAGE, 1..PAGE, usize::MAX - PAGE + 1..usize::MAX] {
            assert!(populate(addresses).is_err());
        }
        let code = populate as fn(_) -> _ as usize / PAGE * PAGE;
        assert!(populate(code..code + PAGE).is_err());
    }

    #[test]
    fn arenas_are_reserved_as_they_are_needed() {
        assert!(reserve(0));
        assert!(reserve(1));
        assert!(reserve(LARGEST_ARENA + 1));
    }
}
