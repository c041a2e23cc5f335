//! Atomics, cells and threads, from std or from a checker.
//!
//! | build | from | what it does |
//! | --- | --- | --- |
//! | plain | std | runs |
//! | `--cfg loom` | loom | tries every interleaving of a small test, with weak orderings |
//! | `--cfg shuttle` | shuttle | tries many random interleavings of a larger one |
//!
//! In the last two, `explore` runs a scenario and `Fault`s can be put back into
//! the code, to show that a scenario would find them.
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
/// see where it begins and ends. It is laid out as what it holds, so that cells side by
/// side are memory that bytes can be copied to (`ring::Region`).
#[cfg(not(loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
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

#[cfg(any(loom, shuttle))]
pub use checked::{Fault, explore, thread};

/// What tests need in a build for a checker.
#[cfg(any(loom, shuttle))]
mod checked {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    #[cfg(loom)]
    pub use loom::thread;
    #[cfg(shuttle)]
    pub use shuttle::thread;

    /// Schedules of each kind that shuttle tries where nothing else is said.
    const SCHEDULES: usize = 1000;

    /// Tries a scenario as the checker does: see below.
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

    /// Runs `scenario` in many random interleavings, and in many with few
    /// preemptions at random places, which find rarer faults.
    #[cfg(shuttle)]
    fn explore_some(schedules: usize, scenario: impl Fn() + Sync + Send + 'static) {
        let scenario = std::sync::Arc::new(scenario);
        let again = scenario.clone();
        shuttle::check_pct(move || again(), schedules, 3);
        shuttle::check_random(move || scenario(), schedules);
    }

    /// A fault that a test can put back into the code.
    #[derive(Debug)]
    pub struct Fault(AtomicBool);

    /// Tests of one process take turns, since a fault is there for all of them.
    static TURN: Mutex<()> = Mutex::new(());

    impl Fault {
        /// A fault that is not there.
        pub const fn new() -> Self {
            Self(AtomicBool::new(false))
        }

        /// Whether it is there.
        pub fn is_there(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        /// Explores `scenario` without any fault.
        pub fn none(scenario: impl Fn() + Sync + Send + 'static) {
            let _turn = Self::turn();
            explore(scenario);
        }

        /// The same for a long scenario: shuttle tries so many schedules of each kind.
        pub fn none_in(schedules: usize, scenario: impl Fn() + Sync + Send + 'static) {
            let _turn = Self::turn();
            explore_some(schedules, scenario);
        }

        /// Explores `scenario` with this fault.
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
            // A test that found its fault has panicked in its turn.
            TURN.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Default for Fault {
        fn default() -> Self {
            Self::new()
        }
    }
}
