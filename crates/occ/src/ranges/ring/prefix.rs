//! Prefixes of a ring that are settled, to be read without a lock.
//!
//! A predicate starts behind a prefix in which nobody has drawn a timestamp after its
//! snapshot. How far such a prefix goes depends on the snapshot, and transactions whose
//! snapshots differ a little scan at the same time. So there are several *marks*, each a
//! position and the largest timestamp before it:
//!
//! ```text
//!   positions    0 ……… 128 ……… 200 ……… 275 … head
//!   marks               ≤ 40     ≤ 55     ≤ 61
//!   snapshot 58 starts           here
//! ```
//!
//! The newest mark moves; once it is some way from the one before, another takes its
//! place, and the oldest is given up. A mark's timestamp is written before its position
//! and read after it. So who reads a position reads a timestamp that is right for it, or
//! one of a later position, which is larger: then it starts further back than it had to.

use coeval_memory::sync::atomic::{AtomicU64, Ordering};

/// How many marks there are.
const MARKS: usize = 4;
/// How far marks are apart.
const APART: u64 = 64;

/// Everything before `position` has drawn nothing above `newest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    pub(super) position: u64,
    pub(super) newest: u64,
}

/// A [`Prefix`] that only grows, and is written by one at a time.
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

    /// That somebody before its position, of whom nothing else is known, has drawn `newest`.
    pub(super) fn raise(&self, newest: u64) {
        let Prefix {
            position,
            newest: known,
        } = self.get();
        let newest = newest.max(known);
        self.set(Prefix { position, newest });
    }
}

/// The marks. Written under the ring's mutex.
#[derive(Debug)]
pub(super) struct Marks([Mark; MARKS]);

impl Marks {
    pub(super) fn new(start: Prefix) -> Self {
        Self(std::array::from_fn(|_| Mark::new(start)))
    }

    /// The furthest position with nothing above `snapshot` before it.
    pub(super) fn start(&self, snapshot: u64) -> Option<u64> {
        let marks = self.0.iter().map(Mark::get);
        let within = marks.filter(|mark| mark.newest <= snapshot);
        within.map(|mark| mark.position).max()
    }

    /// The settled prefix has come so far. `newest` names the newest mark.
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
