//! States of ended transactions, kept for the next ones.
//!
//! A state that comes back to the core that used it last is found in that core's
//! cache, and nobody else waits for the list it lies in. So each thread has a shelf
//! of its own; another's is looked at only when there is no place for one more
//! transaction.
//!
//! ```text
//!   worker 0 ──take, give back──▶ shelf 0 │ state │ state │ …
//!   worker 1 ──take, give back──▶ shelf 1 │ state │ …
//! ```
//!
//! A state on a shelf remembers the storages it has worked with, since the next
//! transaction of the same thread probably wants the same, and their indexes. A storage
//! or an index that is dropped is taken from all shelves, and from a state in use when
//! that comes back: the *generation* tells that something was dropped meanwhile.
//!
//! # Invariant
//!
//! No state on a shelf holds a storage or an index that was dropped before [`Pool::forget_storages`]
//! began. Both that and giving back hold the shelf's lock while they look at a state
//! there, and the generation is raised before the first shelf is locked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coeval_memory::counters::Sharded;
use coeval_memory::padded::CachePadded;

use crate::transaction::state::State;

/// Kept on each shelf, at most.
const KEPT: usize = 64;

type Shelf = Mutex<Vec<Box<State>>>;

/// All shelves.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    shelves: Sharded<Shelf>,
    /// How many times storages or indexes have been dropped.
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
    /// A state that the calling thread has given back.
    pub(crate) fn take(&self) -> Option<Box<State>> {
        lock(self.shelves.mine()).pop()
    }

    /// A state that anybody has given back.
    pub(crate) fn take_any(&self) -> Option<Box<State>> {
        self.shelves.all().find_map(|shelf| lock(shelf).pop())
    }

    /// Keeps a state. When there are enough already, it comes back.
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

    /// A storage was dropped: nothing here keeps it.
    pub(crate) fn forget_storages(&self) {
        let generation = self.generation.0.fetch_add(1, Ordering::SeqCst) + 1;
        for shelf in self.shelves.all() {
            for state in &mut *lock(shelf) {
                state.keep_storages(generation);
            }
        }
    }
}
