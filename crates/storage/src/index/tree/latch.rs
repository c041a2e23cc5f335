//! The latch of a node: a lock for writers whose holders readers notice afterwards.
//!
//! ```text
//!   63                    2   1     0
//!  +-----------------------+-----+------+
//!  | how often it changed  | gone| held |
//!  +-----------------------+-----+------+
//! ```
//!
//! A reader notes the word, reads the node, and looks at the word again: if it is the
//! same, what was read is what the node was in between. It writes nothing, so that any
//! number of readers share the cache line. A writer that has read the node in this way
//! takes the latch by one compare-and-swap from the word that it noted: that succeeds
//! only if nobody has changed the node since.
//!
//! # Orderings
//!
//! The contents are atomics that are read and written relaxed. What makes it right:
//!
//! - A reader's first look is an acquire, and pairs with the release that ended the
//!   write before: it sees at least all of that.
//! - A writer's release fence follows the compare-and-swap, and a reader's acquire fence
//!   comes before its second look. Who has read a single word of a write therefore sees
//!   in the second look the word that began this write, or a later one, and no word ever
//!   comes back.
//!
//! Nobody waits for a latch while holding one; so there are no deadlocks.
//!
//! Source: H.-J. Boehm, *Can Seqlocks Get Along with Programming Language Memory
//! Models?*, MSPC 2012, for the fences; Leis and others, *Optimistic Lock Coupling*.

use coeval_memory::sync::Backoff;
use coeval_memory::sync::atomic::{AtomicU64, Ordering, fence};

const HELD: u64 = 1;
const GONE: u64 = 2;
const CHANGE: u64 = 4;

/// What was read was being changed, or the node is gone: start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Restart;

/// What a latch was when nobody held it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Latch(AtomicU64);

impl Latch {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins to read. Waits while somebody holds the latch; fails when the node is
    /// gone. The caller holds no latch.
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

    /// Whether everything read since `version` was noted is what the node was then.
    #[inline]
    pub(super) fn validate(&self, version: Version) -> Result<(), Restart> {
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == version.0 {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// Takes the latch if nothing has changed since `version` was noted. Never waits.
    #[inline]
    pub(super) fn lock(&self, version: Version) -> Result<Held<'_>, Restart> {
        // Acquire: what follows is not moved before it. Relaxed would do as far as
        // earlier writes are concerned, which the noted version has shown already.
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

/// The latch is held; dropping this says that the node has changed.
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

    /// Lets go of a node that was not changed: readers need not start over.
    pub(super) fn release_unchanged(self) {
        let word = self.version.0;
        self.release(word);
    }

    /// Lets go of a node that no other node leads to any more.
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
