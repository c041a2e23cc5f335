//! Atomics, cells and threads, from std or from a checker.
//!
//! | build | from | what it does |
//! | --- | --- | --- |
//! | plain | std | runs |
//! | `--cfg loom` | loom | tries every interleaving of a small test, with weak orderings |
//! | `--cfg shuttle` | shuttle | tries many random interleavings of a larger one |
//!
//! A checker's primitives work only inside its own runner, and cannot be made in
//! a constant; so nothing here is `const`, and nothing that uses it is a static.

#[cfg(not(any(loom, shuttle)))]
pub use std::{
    hint,
    sync::{Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(loom)]
pub use loom::{
    hint,
    sync::{Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(shuttle)]
pub use shuttle::{
    hint,
    sync::{Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(loom)]
pub use loom::cell::UnsafeCell;

/// A cell with loom's interface: access goes through a closure, so that loom can
/// see where it begins and ends.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Passes a pointer for writing. The caller answers for nobody else having
    /// one, as with [`std::cell::UnsafeCell::get`].
    #[inline]
    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// A full fence after a compare-and-swap that succeeded.
///
/// On x86 that instruction has been one already, and a second would double the
/// cost of pinning; elsewhere, and under every checker, it is a real fence.
#[inline]
pub fn fence_after_compare_exchange() {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
    std::sync::atomic::compiler_fence(atomic::Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// A small number that differs between threads that run at once, as far as
/// possible, and stays the same for a thread. Used to spread threads over slots
/// and counters; nothing is wrong when two threads get the same one.
#[inline]
#[must_use]
pub fn thread_hint() -> usize {
    #[cfg(not(any(loom, shuttle)))]
    {
        use std::cell::Cell;
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        // A thread that is being torn down has no hint any more; any will do.
        HINT.try_with(|hint| {
            if hint.get() == usize::MAX {
                hint.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            hint.get()
        })
        .unwrap_or(0)
    }
    // Checkers replay a schedule, so the answer must not depend on earlier ones.
    #[cfg(any(loom, shuttle))]
    0
}

/// One turn of waiting for another core to finish a few instructions: spins at
/// first, then lets other threads run, because the one awaited may have lost its
/// core.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Waits a little, longer each time.
    #[inline]
    pub fn wait(&mut self) {
        if self.0 < 6 && cfg!(not(any(loom, shuttle))) {
            for _ in 0..1 << self.0 {
                hint::spin_loop();
            }
            self.0 += 1;
        } else {
            yield_now();
        }
    }
}
