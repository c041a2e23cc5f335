//! Synchronisation primitives: atomics, cells and threads, from std or from a model
//! checker.
//!
//! | build | source | behaviour |
//! | --- | --- | --- |
//! | plain | std | runs the code |
//! | `--cfg loom` | loom | tries every interleaving of a small test, with weak orderings |
//! | `--cfg shuttle` | shuttle | tries many random interleavings of a larger one |
//!
//! In the last two builds, `explore` runs a scenario, and a test can inject a `Fault` into
//! the code, to show that the scenario finds it.
//!
//! A checker's primitives work only inside its own runner, and have no `const` constructor;
//! so nothing here is `const`, and no user of this module is a static.

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

/// A cell with loom's interface: access is through a closure, so that loom can see where it
/// begins and ends. It has the layout of its contents, so that adjacent cells form memory
/// to which bytes can be copied (`ring::Region`).
#[cfg(not(loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Creates a cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Passes a pointer for writing. The caller must ensure that no other thread has one,
    /// as with [`std::cell::UnsafeCell::get`].
    #[inline]
    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// A full fence after a compare-and-swap that succeeded.
///
/// On x86 the compare-and-swap is already a full fence, and a second would double the cost
/// of pinning; elsewhere, and under every checker, this is a real fence.
#[inline]
pub fn fence_after_compare_exchange() {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
    std::sync::atomic::compiler_fence(atomic::Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// A small number that stays the same for a thread and, as far as possible, differs between
/// threads that run at once. Spreads threads over slots and counters; two threads with the
/// same number only contend.
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
        // A thread being torn down has no hint any more; any number serves.
        HINT.try_with(|hint| {
            if hint.get() == usize::MAX {
                hint.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            hint.get()
        })
        .unwrap_or(0)
    }
    // Checkers replay a schedule, so the result must not depend on earlier schedules.
    #[cfg(any(loom, shuttle))]
    0
}

/// Backoff for waiting until another core finishes a few instructions: spins at first, then
/// yields to other threads, because the awaited thread may have lost its core.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Waits once, longer each time.
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

#[cfg(any(loom, shuttle))]
pub use checked::{Fault, explore, thread};

/// The test API of a build for a checker.
#[cfg(any(loom, shuttle))]
mod checked {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    #[cfg(loom)]
    pub use loom::thread;
    #[cfg(shuttle)]
    pub use shuttle::thread;

    /// Default number of schedules of each kind that shuttle tries.
    const SCHEDULES: usize = 1000;

    /// Explores a scenario with the checker of this build: see `explore_some`.
    pub fn explore(scenario: impl Fn() + Sync + Send + 'static) {
        explore_some(SCHEDULES, scenario);
    }

    /// Runs `scenario` in every interleaving with at most two preemptions.
    #[cfg(loom)]
    fn explore_some(_: usize, scenario: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(2));
        builder.max_branches = 10_000;
        builder.check(scenario);
    }

    /// Runs `scenario` in many random interleavings, and in many with few preemptions at
    /// random points, which find rarer faults.
    #[cfg(shuttle)]
    fn explore_some(schedules: usize, scenario: impl Fn() + Sync + Send + 'static) {
        let scenario = std::sync::Arc::new(scenario);
        let again = scenario.clone();
        shuttle::check_pct(move || again(), schedules, 3);
        shuttle::check_random(move || scenario(), schedules);
    }

    /// A fault that a test can inject into the code.
    #[derive(Debug)]
    pub struct Fault(AtomicBool);

    /// Makes the tests of one process take turns, since an injected fault affects all of
    /// them.
    static TURN: Mutex<()> = Mutex::new(());

    impl Fault {
        /// Creates a fault that is not injected.
        pub const fn new() -> Self {
            Self(AtomicBool::new(false))
        }

        /// Whether the fault is injected.
        pub fn is_there(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        /// Explores `scenario` without any fault.
        pub fn none(scenario: impl Fn() + Sync + Send + 'static) {
            let _turn = Self::turn();
            explore(scenario);
        }

        /// Explores a long scenario without any fault: shuttle tries `schedules` of each
        /// kind.
        pub fn none_in(schedules: usize, scenario: impl Fn() + Sync + Send + 'static) {
            let _turn = Self::turn();
            explore_some(schedules, scenario);
        }

        /// Explores `scenario` with this fault injected.
        pub fn put_back(&'static self, scenario: impl Fn() + Sync + Send + 'static) {
            struct Repair(&'static Fault);
            impl Drop for Repair {
                fn drop(&mut self) {
                    self.0.0.store(false, Ordering::Relaxed);
                }
            }
            let _turn = Self::turn();
            self.0.store(true, Ordering::Relaxed);
            let _repair = Repair(self);
            explore(scenario);
        }

        fn turn() -> MutexGuard<'static, ()> {
            // A test that found its fault has panicked while it held the lock.
            TURN.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Default for Fault {
        fn default() -> Self {
            Self::new()
        }
    }
}
