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
//! # Memory taken before it is needed
//!
//! The kernel gives a page, and zeroes it, when it is touched first, while whoever touches
//! it waits. On a virtual machine the host has to find it first, unless it was touched
//! shortly before: 2 MiB were seen to take 0.1 ms of zeroing, and 5 ms when the host had
//! none. So pages of arenas can be touched before anybody needs them ([`populate`], and
//! [`reserve`] where the first arena does not do). The allocator does not know of it, and
//! has no use for knowing: to it such pages were never used. When they were, and are free
//! again, they go back as all others do.
//!
//! Its own statistics are of no use for accounts: on Linux, what was given back still
//! counts as committed, and a piece counts whole as soon as it is begun.

use std::io;
use std::ops::Range;

use libmimalloc_sys as sys;
use mimalloc::MiMalloc;
use rustix::mm::{Advice, madvise};

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
/// What the kernel says: it knows this since Linux 5.14, and the addresses, which begin with
/// a page, have to be the process's own to write to.
pub fn populate(addresses: Range<usize>) -> io::Result<()> {
    let start = std::ptr::without_provenance_mut(addresses.start);
    // SAFETY: this advice changes no contents and no rights, whoever has the memory; other
    // addresses are refused.
    let done = unsafe { madvise(start, addresses.len(), Advice::LinuxPopulateWrite) };
    Ok(done?)
}

/// Has the allocator reserve one more arena of so many bytes, a multiple of 32 MiB, which
/// it will use when those before are full. Returns whether it could.
#[must_use]
pub fn reserve(bytes: usize) -> bool {
    // SAFETY: may be called at any time; nobody is told the number of the arena.
    let failed =
        unsafe { sys::mi_reserve_os_memory_ex(bytes, true, true, false, std::ptr::null_mut()) };
    failed == 0
}

fn give_back() {
    // SAFETY: frees nothing that is in use, and works on what this thread owns and on
    // what nobody does.
    unsafe { sys::mi_collect(false) };
}
