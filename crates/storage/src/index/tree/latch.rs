//! The optimistic latch of a node: a version counter and lock bit. It excludes writers, and
//! lets readers detect afterwards that a writer interfered.
//!
//! ```text
//!   63                    2   1     0
//!  +-----------------------+-----+------+
//!  | number of changes     | gone| held |
//!  +-----------------------+-----+------+
//! ```
//!
//! A reader loads the word, reads the node, and loads the word again: if it is the same, no
//! writer changed the node in between. The reader writes nothing, so that any number of
//! readers share the cache line. A writer that has read the node in this way takes the
//! latch with one compare-and-swap from the word that it loaded: it succeeds only if no
//! other writer has changed the node since.
//!
//! # Orderings
//!
//! The contents are atomics that are read and written relaxed. This is correct because:
//!
//! - A reader's first load is an acquire, and pairs with the release that ended the
//!   previous write: the reader sees at least all of that write.
//! - A writer's release fence follows its compare-and-swap, and a reader's acquire fence
//!   precedes its second load. A reader that has read a single word of a write therefore
//!   sees, in the second load, the word with which this write started, or a later one; and
//!   no word ever recurs.
//!
//! No thread waits for a latch while it holds one, so there are no deadlocks.
//!
//! Source: H.-J. Boehm, *Can Seqlocks Get Along with Programming Language Memory
//! Models?*, MSPC 2012, for the fences; Leis and others, *Optimistic Lock Coupling*.

use coeval_memory::sync::Backoff;
use coeval_memory::sync::atomic::{AtomicU64, Ordering, fence};

const HELD: u64 = 1;
const GONE: u64 = 2;
const CHANGE: u64 = 4;

/// The operation must restart: the node was being changed, or has been unlinked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Restart;

/// The word of a latch at a moment when no writer held it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

/// The latch. See the head of this file.
#[derive(Debug)]
pub(super) struct Latch(AtomicU64);

impl Latch {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Starts an optimistic read. Waits while a writer holds the latch; fails when the node
    /// is gone. The caller holds no latch.
    #[inline]
    pub(super) fn read(&self) -> Result<Version, Restart> {
        let word = self.0.load(Ordering::Acquire);
        if word & (HELD | GONE) == 0 {
            return Ok(Version(word));
        }
        self.read_slowly()
    }

    #[cold]
    fn read_slowly(&self) -> Result<Version, Restart> {
        let mut backoff = Backoff::default();
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & GONE != 0 {
                return Err(Restart);
            }
            if word & HELD == 0 {
                return Ok(Version(word));
            }
            backoff.wait();
        }
    }

    /// Succeeds if the node has not changed since `version` was loaded, so that everything
    /// read since then is consistent.
    #[inline]
    pub(super) fn validate(&self, version: Version) -> Result<(), Restart> {
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == version.0 {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// Takes the latch if the node has not changed since `version` was loaded. Never waits.
    #[inline]
    pub(super) fn lock(&self, version: Version) -> Result<Held<'_>, Restart> {
        // Acquire: later accesses are not moved before it. Relaxed would suffice for
        // earlier writes, which the caller has already seen through `version`.
        self.0
            .compare_exchange(
                version.0,
                version.0 | HELD,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| Restart)?;
        #[cfg(any(loom, shuttle))]
        let fenced = !crate::faults::UNFENCED.is_there();
        #[cfg(not(any(loom, shuttle)))]
        let fenced = true;
        if fenced {
            fence(Ordering::Release);
        }
        Ok(Held {
            latch: self,
            version,
        })
    }
}

/// A held latch; dropping it marks the node as changed.
#[derive(Debug)]
pub(super) struct Held<'node> {
    latch: &'node Latch,
    version: Version,
}

impl Held<'_> {
    fn release(self, word: u64) {
        self.latch.0.store(word, Ordering::Release);
        std::mem::forget(self);
    }

    /// Releases the latch of a node that was not changed: readers need not restart.
    pub(super) fn release_unchanged(self) {
        let word = self.version.0;
        self.release(word);
    }

    /// Releases the latch of a node that no other node leads to any more, and marks it
    /// gone.
    pub(super) fn release_gone(self) {
        let word = (self.version.0 + CHANGE) | GONE;
        self.release(word);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.latch
            .0
            .store(self.version.0 + CHANGE, Ordering::Release);
    }
}
