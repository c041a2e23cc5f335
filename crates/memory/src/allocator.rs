//! The allocator of the server's program: mimalloc behind [`Counting`].
//!
//! ```text
//!   #[global_allocator]
//!   static ALLOCATOR: Allocator = allocator::NEW;
//!
//!   fn main() {
//!       allocator::start();      from here on heap::bytes() answers
//! ```
//!
//! It takes memory from the kernel in arenas of a gigabyte and more, and cuts pieces of
//! 64 KiB to 4 MiB from them, each for one thread and one size. A piece that is free
//! goes back to the kernel after [`KEPT_MILLISECONDS`]; whoever allocates next sees to
//! that, or [`heap::give_back`].
//!
//! Its own statistics are of no use for accounts: on Linux, what was given back still
//! counts as committed, and a piece counts whole as soon as it is begun.
//!
//! # Memory taken before it is needed
//!
//! The kernel gives a page, and zeroes it, when it is touched first, while whoever touches
//! it waits. On a virtual machine the host has to find it first, unless it was touched
//! shortly before: 2 MiB were seen to take 0.1 ms of zeroing, and 5 ms when the host had
//! none. So pages of arenas can be touched before anybody needs them ([`populate`], and
//! [`reserve`] where the first arena does not do). The allocator does not know of it, and
//! has no use for knowing: to it such pages were never used. When they were, and are free
//! again, they go back as all others do.

use std::io;
use std::ops::Range;

use libmimalloc_sys as sys;
use mimalloc::MiMalloc;

use crate::heap::{self, Counting};

/// The allocator's type.
pub type Allocator = Counting<MiMalloc>;

/// The allocator, for a program that makes it its global one.
pub const NEW: Allocator = Counting::new(MiMalloc);

/// How long the allocator keeps what is free before the kernel gets it back, in
/// milliseconds. Longer than what comes and goes with every statement, shorter than
/// anybody waits who has deleted much and looks whether it helped.
pub const KEPT_MILLISECONDS: i32 = 100;

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: sys::mi_option_t = 15;

/// An arena's size is a multiple of this, in bytes: it is divided into as much.
const ARENA_UNIT: usize = 32 << 20;

/// No arena is reserved larger than this, in bytes; the allocator could have them of twice
/// as much, and 160 of them.
const LARGEST_ARENA: usize = 8 << 30;

/// Sets the allocator up and has it counted from here on. Called once, at the start of
/// a program whose global allocator is [`NEW`].
pub fn start() {
    // SAFETY: an option of this number exists, and may be set at any time.
    unsafe { sys::mi_option_set(PURGE_DELAY, KEPT_MILLISECONDS.into()) };
    heap::counts(give_back);
}

/// Has the kernel give all pages of these addresses that are not there yet, as if somebody
/// wrote to each. Blocks until they are there. What is in memory stays as it is.
///
/// # Errors
/// What the kernel says. It knows this since Linux 5.14; the addresses, which begin with a
/// page, have to be the process's own, to write to.
#[cfg(target_os = "linux")]
pub fn populate(addresses: Range<usize>) -> io::Result<()> {
    use rustix::io::Errno;
    use rustix::mm::{Advice, madvise};

    let start = std::ptr::without_provenance_mut(addresses.start);
    // SAFETY: this advice changes no contents and no rights, whatever the addresses are;
    // where there is nothing to write to, it is refused.
    let done = unsafe { madvise(start, addresses.len(), Advice::LinuxPopulateWrite) };
    done.map_err(|error| match error {
        Errno::INVAL => io::Error::new(
            io::ErrorKind::Unsupported,
            "memory is populated by Linux 5.14 and newer kernels",
        ),
        error => error.into(),
    })
}

/// Other kernels are not asked.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn populate(_: Range<usize>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Has the allocator reserve so many bytes more, in arenas that it uses beside those it has.
/// They take addresses, and no memory. Returns whether it could.
#[must_use]
pub fn reserve(bytes: usize) -> bool {
    let mut left = bytes;
    while left > 0 {
        let size = left.next_multiple_of(ARENA_UNIT).min(LARGEST_ARENA);
        // SAFETY: may be called at any time by any thread; nobody wants the arena's number.
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
    // SAFETY: frees nothing that is in use, and works on what this thread owns and on
    // what nobody does.
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
