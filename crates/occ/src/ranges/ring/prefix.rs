//! Settled prefixes of a ring, which scans read without a lock to find their first
//! position.
//!
//! A predicate starts after a prefix of the ring in which every timestamp is within its
//! snapshot. The length of such a prefix depends on the snapshot, and transactions with
//! slightly different snapshots scan at the same time. So there are several *marks*, each
//! a position and the largest timestamp before it:
//!
//! ```text
//!   positions    0 ……… 128 ……… 200 ……… 275 … head
//!   marks               ≤ 40     ≤ 55     ≤ 61
//!   snapshot 58 starts           here
//! ```
//!
//! The newest mark moves; once it is some distance from the previous one, the next mark
//! becomes the newest, and the oldest is overwritten. A mark's timestamp is written
//! before its position and read after it. So a reader of a position gets its timestamp,
//! or that of a later position, which is larger: then the reader starts further back than
//! necessary.

use coeval_memory::sync::atomic::{AtomicU64, Ordering};

/// Number of marks.
const MARKS: usize = 4;
/// Distance between marks, in positions.
const APART: u64 = 64;

/// States that no timestamp before `position` is above `newest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    pub(super) position: u64,
    pub(super) newest: u64,
}

/// A [`Prefix`] that only grows, with one writer at a time.
#[derive(Debug)]
pub(super) struct Mark {
    position: AtomicU64,
    newest: AtomicU64,
}

impl Mark {
    pub(super) fn new(prefix: Prefix) -> Self {
        Self {
            position: AtomicU64::new(prefix.position),
            newest: AtomicU64::new(prefix.newest),
        }
    }

    pub(super) fn set(&self, prefix: Prefix) {
        self.newest.store(prefix.newest, Ordering::Release);
        self.position.store(prefix.position, Ordering::Release);
    }

    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    pub(super) fn get(&self) -> Prefix {
        let position = self.position();
        Prefix {
            position,
            newest: self.newest.load(Ordering::Acquire),
        }
    }

    /// Raises the largest timestamp before the position to at least `newest`.
    pub(super) fn raise(&self, newest: u64) {
        let Prefix {
            position,
            newest: known,
        } = self.get();
        let newest = newest.max(known);
        self.set(Prefix { position, newest });
    }
}

/// The marks of a ring. Written under the ring's mutex.
#[derive(Debug)]
pub(super) struct Marks([Mark; MARKS]);

impl Marks {
    pub(super) fn new(start: Prefix) -> Self {
        Self(std::array::from_fn(|_| Mark::new(start)))
    }

    /// The largest marked position with no timestamp above `snapshot` before it.
    pub(super) fn start(&self, snapshot: u64) -> Option<u64> {
        let marks = self.0.iter().map(Mark::get);
        let within = marks.filter(|mark| mark.newest <= snapshot);
        within.map(|mark| mark.position).max()
    }

    /// Records that the settled prefix has grown to `settled`. `newest` is the index of
    /// the newest mark.
    pub(super) fn advance(&self, newest: &mut usize, settled: Prefix) {
        let before = &self.0[(*newest + MARKS - 1) % MARKS];
        if self.0[*newest].position() >= before.position() + APART {
            *newest = (*newest + 1) % MARKS;
        }
        self.0[*newest].set(settled);
    }

    pub(super) fn raise(&self, newest: u64) {
        for mark in &self.0 {
            mark.raise(newest);
        }
    }
}
