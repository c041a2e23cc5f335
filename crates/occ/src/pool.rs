//! The pool of transaction states: reuses the buffers of ended transactions for new ones.
//!
//! A state that returns to the core that used it last is found in that core's cache, and
//! no other thread contends for the list it is in. So each thread has a shelf of its own;
//! a thread searches other shelves only when all slots for transactions are taken.
//!
//! ```text
//!   worker 0 ──take, keep──▶ shelf 0 │ state │ state │ …
//!   worker 1 ──take, keep──▶ shelf 1 │ state │ …
//! ```
//!
//! A state on a shelf remembers the storages it has worked with and their indexes, since
//! the next transaction of the same thread probably uses the same ones. When a storage or
//! an index is dropped, the pool removes it from the states on all shelves; a state in
//! use drops it on return, because the *generation* shows that a drop happened meanwhile.
//!
//! # Invariant
//!
//! No state on a shelf holds a storage or an index that was dropped before
//! [`Pool::forget_storages`] began. Both that call and [`Pool::keep`] hold the shelf's
//! lock while they change a state there, and the generation is raised before the first
//! shelf is locked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coeval_memory::counters::Sharded;
use coeval_memory::padded::CachePadded;

use crate::transaction::state::State;

/// States that each shelf keeps, at most.
const KEPT: usize = 64;

type Shelf = Mutex<Vec<Box<State>>>;

/// The shelves of all threads.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    shelves: Sharded<Shelf>,
    /// Number of times a storage or an index has been dropped.
    generation: CachePadded<AtomicU64>,
}

#[expect(
    clippy::vec_box,
    reason = "the box goes to the transaction and comes back; moving it is the point"
)]
fn lock(shelf: &Shelf) -> MutexGuard<'_, Vec<Box<State>>> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Takes a state that the calling thread has returned.
    pub(crate) fn take(&self) -> Option<Box<State>> {
        lock(self.shelves.mine()).pop()
    }

    /// Takes a state that any thread has returned.
    pub(crate) fn take_any(&self) -> Option<Box<State>> {
        self.shelves.all().find_map(|shelf| lock(shelf).pop())
    }

    /// Keeps a state for reuse. Returns it when the shelf is full.
    #[must_use = "a state that is not kept has a place to give back"]
    pub(crate) fn keep(&self, mut state: Box<State>) -> Option<Box<State>> {
        let mut shelf = lock(self.shelves.mine());
        if shelf.len() >= KEPT {
            return Some(state);
        }
        state.keep_storages(self.generation.0.load(Ordering::SeqCst));
        shelf.push(state);
        None
    }

    /// Removes dropped storages and indexes from all kept states; called after each drop.
    pub(crate) fn forget_storages(&self) {
        let generation = self.generation.0.fetch_add(1, Ordering::SeqCst) + 1;
        for shelf in self.shelves.all() {
            for state in &mut *lock(shelf) {
                state.keep_storages(generation);
            }
        }
    }
}
