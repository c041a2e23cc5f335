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

/// Sets the allocator up and has it counted from here on. Called once, at the start of
/// a program whose global allocator is [`NEW`].
pub fn start() {
    // SAFETY: an option of this number exists, and may be set at any time.
    unsafe { sys::mi_option_set(PURGE_DELAY, KEPT_MILLISECONDS.into()) };
    heap::counts(give_back);
}

fn give_back() {
    // SAFETY: frees nothing that is in use, and works on what this thread owns and on
    // what nobody does.
    unsafe { sys::mi_collect(false) };
}
