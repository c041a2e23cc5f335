//! An append ring: many threads write, one reads what is complete without a gap.
//!
//! Positions are byte offsets in an endless stream; the ring holds a window of
//! it. A writer goes through four steps, of which only the first can fail or
//! wait:
//!
//! ```text
//! try_acquire   space credit: a promise of room, taken before a place is drawn
//! reserve       one fetch-and-add draws the place
//! write         copies bytes into it; nobody else may touch them
//! complete      marks it, and moves the contiguous complete prefix on if it can
//!
//!   released        completed                    reserved   released + capacity
//!      |  to be read    |  done | being written | done |            |
//! -----+----------------+-------+---------------+------+------------+---->
//!                       ^ the prefix stops at the first place not complete
//! ```
//!
//! The one [`Reader`] sees the bytes between what it has released and the prefix,
//! as at most two slices, and gives space back by releasing them.
//!
//! # Invariants
//!
//! 1. `released ≤ completed ≤ reserved ≤ released + capacity`. The last holds
//!    because credits held, plus places reserved and not released, plus what is
//!    available always make up the capacity.
//! 2. Between drawing a place and completing it, only the place's [`Region`] can
//!    reach its bytes.
//! 3. A mark says where its region starts and how long it is. A region has at
//!    least [`AppendRing::MIN_REGION`] bytes, so each starts in a granule of its
//!    own, which has a word for the mark; the words are beside the ring, not in
//!    it, because bytes in it that come from clients could look like marks.
//!    Positions are never used twice, so an old mark is never taken for a new one.
//! 4. Whoever completes a region marks it before it looks at the prefix, and
//!    whoever moves the prefix looks for a mark there afterwards. Both have a full
//!    fence in between, so one of the two sees the other, and the prefix never
//!    stops before a marked region.
//!
//! Two writers may take credits in one order and places in the other. The one
//! whose place was made free by a release that only the other has seen is safe
//! all the same: drawing a place is an acquiring and releasing step on one word,
//! so it has seen whatever those who drew before it had seen.
//!
//! Source: Aether (Johnson et al., VLDB 2010), for the split of reservation,
//! copying and release; the marks and the credits are ours.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::padded::CachePadded;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{UnsafeCell, fence_after_compare_exchange};

pub use region::{Pieces, Region};

#[cfg(all(test, loom))]
mod model;
mod region;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

const WORD: u64 = 8;
const LENGTH_BITS: u32 = 20;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// The ring. See the module's documentation.
pub struct AppendRing {
    /// The window's bytes. A word belongs to the region, or to the reader, that
    /// its position is in (invariant 2).
    words: Box<[UnsafeCell<u64>]>,
    /// The mark of the region that starts in each granule.
    marks: Box<[AtomicU64]>,
    /// Whether somebody reads; otherwise what is complete is released at once.
    read: bool,
    reader_taken: AtomicBool,
    /// Bytes for which credits can still be taken.
    available: CachePadded<AtomicU64>,
    /// Where the next region starts.
    reserved: CachePadded<AtomicU64>,
    /// End of the contiguous complete prefix.
    completed: CachePadded<AtomicU64>,
}

// SAFETY: the words are the only part that is not `Sync` by itself. They are
// written through a `Region` and read through the `Reader` only, and invariant 2
// gives each word to one of them at a time; the atomics order the handing over.
unsafe impl Sync for AppendRing {}
// SAFETY: holds plain words and atomics, nothing bound to a thread.
unsafe impl Send for AppendRing {}

impl AppendRing {
    /// Regions start at multiples of this many bytes, and are multiples of it long.
    pub const ALIGNMENT: u64 = WORD;
    /// The shortest region, in bytes.
    pub const MIN_REGION: u64 = 32;
    /// The longest region, in bytes; the capacity may set a lower limit.
    pub const MAX_REGION: u64 = LENGTH_MASK * WORD;
    /// The first position that does not fit a mark.
    pub const LIMIT: u64 = 1 << (64 - LENGTH_BITS + WORD.trailing_zeros());

    /// A ring of `capacity` bytes, a power of two, whose first region will start
    /// at `start`.
    ///
    /// # Panics
    /// When the capacity is no power of two or less than two regions, or `start`
    /// is not aligned.
    #[must_use]
    pub fn new(capacity: u64, start: u64) -> Self {
        Self::with_reader(capacity, start, true)
    }

    /// A ring that nobody reads: it only orders and counts, and what is complete
    /// is released at once.
    ///
    /// # Panics
    /// As [`AppendRing::new`].
    #[must_use]
    pub fn unread(capacity: u64, start: u64) -> Self {
        Self::with_reader(capacity, start, false)
    }

    fn with_reader(capacity: u64, start: u64, read: bool) -> Self {
        assert!(
            capacity.is_power_of_two() && capacity >= 2 * Self::MIN_REGION,
            "capacity of an append ring"
        );
        assert!(start.is_multiple_of(Self::ALIGNMENT), "unaligned start");
        let words = if read { capacity / WORD } else { 0 };
        Self {
            words: (0..words).map(|_| UnsafeCell::new(0)).collect(),
            marks: (0..capacity / Self::MIN_REGION)
                .map(|_| AtomicU64::new(0))
                .collect(),
            read,
            reader_taken: AtomicBool::new(false),
            available: CachePadded(AtomicU64::new(capacity)),
            reserved: CachePadded(AtomicU64::new(start)),
            completed: CachePadded(AtomicU64::new(start)),
        }
    }

    /// How many bytes the window has.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.marks.len() as u64 * Self::MIN_REGION
    }

    /// Memory it takes, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        (self.words.len() * size_of::<u64>() + self.marks.len() * size_of::<AtomicU64>()) as u64
    }

    /// End of what is reserved: where the next region would start.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// End of the contiguous complete prefix. What was done before a region in it
    /// was completed has happened before this returns.
    #[inline]
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Whether no credit is held, and everything reserved has been released.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.available.load(Ordering::Acquire) == self.capacity()
    }

    /// Takes a credit for a region of `bytes`, or `None` when there is not the
    /// room now.
    ///
    /// # Panics
    /// When no region may be that long (see [`AppendRing::MIN_REGION`],
    /// [`AppendRing::MAX_REGION`] and the capacity), or the length is not aligned.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self, bytes: u64) -> Option<Space<'_>> {
        assert!(
            bytes.is_multiple_of(Self::ALIGNMENT)
                && (Self::MIN_REGION..=Self::MAX_REGION.min(self.capacity())).contains(&bytes),
            "a region of {bytes} bytes"
        );
        let mut available = self.available.load(Ordering::Relaxed);
        while available >= bytes {
            match self.available.compare_exchange_weak(
                available,
                available - bytes,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Space { ring: self, bytes }),
                Err(now) => available = now,
            }
        }
        None
    }

    /// The reader; `None` when it was taken before, or nobody is to read.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Option<Reader> {
        if !self.read || self.reader_taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(Reader {
            ring: Arc::clone(self),
            released: self.start(),
        })
    }

    /// Where the first region started; only before anything was released.
    fn start(&self) -> u64 {
        let reserved = self.reserved.load(Ordering::Acquire);
        let start = self.completed.load(Ordering::Acquire);
        assert_eq!(
            reserved, start,
            "the reader is taken before the first region"
        );
        start
    }

    #[inline]
    fn mark(&self, position: u64) -> &AtomicU64 {
        let index = (position / Self::MIN_REGION) as usize & (self.marks.len() - 1);
        &self.marks[index]
    }

    /// Marks a region and moves the prefix over it and its marked successors.
    /// Returns whether the prefix moved.
    fn complete(&self, start: u64, bytes: u64) -> bool {
        let mark = ((start / WORD) << LENGTH_BITS) | (bytes / WORD);
        self.mark(start).store(mark, Ordering::Release);
        // Invariant 4, as below.
        fence(Ordering::SeqCst);
        let mut moved = false;
        let mut position = self.completed.load(Ordering::Acquire);
        loop {
            let mark = self.mark(position).load(Ordering::Acquire);
            let length = (mark & LENGTH_MASK) * WORD;
            if mark >> LENGTH_BITS != position / WORD || length == 0 {
                return moved;
            }
            match self.completed.compare_exchange(
                position,
                position + length,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    fence_after_compare_exchange();
                    moved = true;
                    position += length;
                    if !self.read {
                        self.available.fetch_add(length, Ordering::Release);
                    }
                }
                Err(now) => position = now,
            }
        }
    }

    /// The word at a position of the stream.
    #[inline]
    fn index(&self, position: u64) -> usize {
        (position / WORD) as usize & (self.words.len() - 1)
    }
}

impl fmt::Debug for AppendRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AppendRing")
            .field("capacity", &self.capacity())
            .field("available", &self.available.load(Ordering::Relaxed))
            .field("reserved", &self.reserved.load(Ordering::Relaxed))
            .field("completed", &self.completed.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// A credit: room for one region, not yet a place. Dropping it gives it back.
#[derive(Debug)]
#[must_use]
pub struct Space<'ring> {
    ring: &'ring AppendRing,
    bytes: u64,
}

impl<'ring> Space<'ring> {
    /// How long the region will be.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Draws the region's place. Never waits.
    #[inline]
    pub fn reserve(self) -> Region<'ring> {
        let (ring, bytes) = (self.ring, self.bytes);
        // The credit is in the region now, and comes back when it is released.
        std::mem::forget(self);
        // Acquire and release: see the module's last paragraph.
        let start = ring.reserved.fetch_add(bytes, Ordering::AcqRel);
        Region::new(ring, start, bytes)
    }

    /// The same credit without the borrow, to be kept where no borrow can be.
    ///
    /// # Panics
    /// When `ring` is another ring than the credit's.
    pub fn into_owned(self, ring: &Arc<AppendRing>) -> OwnedSpace {
        assert!(std::ptr::eq(self.ring, Arc::as_ptr(ring)), "another ring");
        let bytes = self.bytes;
        std::mem::forget(self);
        OwnedSpace {
            ring: Arc::clone(ring),
            bytes,
        }
    }
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        self.ring.available.fetch_add(self.bytes, Ordering::Release);
    }
}

/// A [`Space`] that keeps its ring alive.
#[derive(Debug)]
#[must_use]
pub struct OwnedSpace {
    ring: Arc<AppendRing>,
    bytes: u64,
}

impl OwnedSpace {
    /// The same credit, borrowing its ring.
    ///
    /// # Panics
    /// When `ring` is another ring than the credit's.
    pub fn into_space(self, ring: &AppendRing) -> Space<'_> {
        assert!(std::ptr::eq(ring, Arc::as_ptr(&self.ring)), "another ring");
        let bytes = self.bytes;
        // The credit moves into the result; only the reference is dropped.
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the reference is read out once.
        drop(unsafe { std::ptr::read(&this.ring) });
        Space { ring, bytes }
    }
}

impl Drop for OwnedSpace {
    fn drop(&mut self) {
        self.ring.available.fetch_add(self.bytes, Ordering::Release);
    }
}

/// The one that reads.
#[derive(Debug)]
pub struct Reader {
    ring: Arc<AppendRing>,
    released: u64,
}

impl Reader {
    /// End of what has been released.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// The ring.
    #[must_use]
    pub fn ring(&self) -> &Arc<AppendRing> {
        &self.ring
    }

    /// The bytes of `range`, in order, as two slices of which the second may be
    /// empty.
    ///
    /// # Panics
    /// When the range is not aligned, or not all complete and not yet released.
    #[cfg(not(loom))]
    #[must_use]
    pub fn bytes(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        self.check(&range);
        let first = self.ring.index(range.start);
        let count = ((range.end - range.start) / WORD) as usize;
        let until_wrap = count.min(self.ring.words.len() - first);
        let slice = |index: usize, count: usize| {
            let words: &[UnsafeCell<u64>] = &self.ring.words[index..index + count];
            // SAFETY: the cells are laid out as the words they hold. Every one is
            // complete and not released (`check`), so no region covers it until
            // `release`, which borrows the reader mutably.
            unsafe {
                std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), count * WORD as usize)
            }
        };
        (slice(first, until_wrap), slice(0, count - until_wrap))
    }

    /// [`Reader::bytes`] word by word, so that loom sees each access.
    #[cfg(loom)]
    #[must_use]
    pub fn words(&self, range: Range<u64>) -> Vec<u64> {
        self.check(&range);
        (range.start / WORD..range.end / WORD)
            .map(|word| {
                // SAFETY: as in `bytes`.
                self.ring.words[self.ring.index(word * WORD)].with(|cell| unsafe { *cell })
            })
            .collect()
    }

    fn check(&self, range: &Range<u64>) {
        assert!(
            range.start.is_multiple_of(WORD) && range.end.is_multiple_of(WORD),
            "unaligned range"
        );
        assert!(
            self.released <= range.start
                && range.start <= range.end
                && range.end <= self.ring.completed(),
            "not there to be read"
        );
    }

    /// Gives the space before `position` back to writers.
    ///
    /// # Panics
    /// When the position is not complete, or before what has been released.
    pub fn release(&mut self, position: u64) {
        assert!(
            self.released <= position && position <= self.ring.completed(),
            "not there to be released"
        );
        self.ring
            .available
            .fetch_add(position - self.released, Ordering::Release);
        self.released = position;
    }
}
