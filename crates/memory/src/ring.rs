//! The append ring, the in-memory log buffer: many threads write to it, and one reader
//! reads the contiguous complete prefix.
//!
//! Positions are byte offsets in an endless stream; the ring holds a window of it. A writer
//! takes four steps, of which only the first can fail or wait:
//!
//! ```text
//! try_acquire   takes a space credit: a promise of room, before the region is reserved
//! reserve       reserves the region with one fetch-and-add
//! write         copies bytes into the region, which no other thread may touch
//! complete      marks the region, and advances the contiguous complete prefix if it can
//!
//!   released        completed                    reserved   released + capacity
//!      |  to be read    |  done | being written | done |            |
//! -----+----------------+-------+---------------+------+------------+---->
//!                       ^ the prefix ends at the first incomplete region
//! ```
//!
//! The only [`Reader`] reads the bytes between its release position and the end of the
//! prefix, as at most two slices, and returns space to writers by releasing them.
//!
//! # Invariants
//!
//! 1. `released ≤ completed ≤ reserved ≤ released + capacity`. The last holds because
//!    credits held, plus regions reserved and not released, plus available bytes always sum
//!    up to the capacity.
//! 2. Between reserving a region and completing it, only its [`Region`] can reach its
//!    bytes.
//! 3. A mark holds the start and the length of its region. A region has at least
//!    [`AppendRing::MIN_REGION`] bytes, so each starts in a granule of its own, which has a
//!    word for the mark. These words are beside the ring, not in it, because bytes in the
//!    ring that come from clients could look like marks. Positions are never reused, so an
//!    old mark is never mistaken for a new one.
//! 4. A writer that completes a region marks it before it reads the end of the prefix; a
//!    writer that advances the prefix looks for a mark at its end afterwards. Both issue a
//!    full fence in between, so one of the two sees the other, and the prefix never stops
//!    before a marked region.
//!
//! Two writers may take credits in one order and regions in the other. A writer may thus
//! reserve bytes freed by a release that only the other writer has seen. It is safe all the
//! same: reserving is an acquire-release operation on one word, so this writer has seen
//! everything that earlier reservers had seen.
//!
//! Source: Aether (Johnson et al., VLDB 2010), for the split of reservation,
//! copying and release; the marks and the credits are this module's own.

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

/// The append ring. See the module's documentation.
pub struct AppendRing {
    /// The window's bytes. A word belongs to the region that its position is in, or to the
    /// reader (invariant 2).
    words: Box<[UnsafeCell<u64>]>,
    /// The mark of the region that starts in each granule.
    marks: Box<[AtomicU64]>,
    /// Whether a reader will read the bytes; otherwise complete regions are released at
    /// once.
    read: bool,
    reader_taken: AtomicBool,
    /// Bytes for which writers can still take credits.
    available: CachePadded<AtomicU64>,
    /// Position at which the next region starts.
    reserved: CachePadded<AtomicU64>,
    /// Position at which the contiguous complete prefix ends.
    completed: CachePadded<AtomicU64>,
}

// SAFETY: the words are the only part that is not `Sync` by itself. They are written
// through a `Region` and read through the `Reader` only, and invariant 2 gives each word to
// one of them at a time; the atomics order the transfer.
unsafe impl Sync for AppendRing {}
// SAFETY: holds plain words and atomics, nothing bound to a thread.
unsafe impl Send for AppendRing {}

impl AppendRing {
    /// The start and the length of every region are multiples of this many bytes.
    pub const ALIGNMENT: u64 = WORD;
    /// The shortest region, in bytes.
    pub const MIN_REGION: u64 = 32;
    /// The longest region, in bytes; a small capacity imposes a lower limit.
    pub const MAX_REGION: u64 = LENGTH_MASK * WORD;
    /// The first position that does not fit a mark.
    pub const LIMIT: u64 = 1 << (64 - LENGTH_BITS + WORD.trailing_zeros());

    /// Creates a ring of `capacity` bytes, a power of two, whose first region will start at
    /// `start`.
    ///
    /// # Panics
    /// When the capacity is not a power of two or less than two regions, or `start` is not
    /// aligned.
    #[must_use]
    pub fn new(capacity: u64, start: u64) -> Self {
        Self::with_reader(capacity, start, true)
    }

    /// Creates a ring without a reader: it only orders and counts regions, and releases
    /// complete ones at once.
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

    /// Size of the window, in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.marks.len() as u64 * Self::MIN_REGION
    }

    /// Memory that the ring occupies, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        (self.words.len() * size_of::<u64>() + self.marks.len() * size_of::<AtomicU64>()) as u64
    }

    /// End of the reserved regions: the position at which the next region would start.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// End of the contiguous complete prefix. Everything that a writer did before it
    /// completed a region of the prefix has happened before this returns.
    #[inline]
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Whether no writer holds a credit, and every reserved byte has been released.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.available.load(Ordering::Acquire) == self.capacity()
    }

    /// Takes a credit for a region of `bytes`, or returns `None` when the ring lacks the
    /// room at the moment.
    ///
    /// # Panics
    /// When `bytes` is not a legal length of a region (see [`AppendRing::MIN_REGION`],
    /// [`AppendRing::MAX_REGION`] and the capacity) or not aligned.
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

    /// Returns the reader; `None` when it was taken before, or the ring has no reader.
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

    /// Position at which the first region starts; valid only before any release.
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

    /// Marks a region, and advances the prefix over it and its marked successors. Returns
    /// whether the prefix moved.
    fn complete(&self, start: u64, bytes: u64) -> bool {
        let mark = ((start / WORD) << LENGTH_BITS) | (bytes / WORD);
        self.mark(start).store(mark, Ordering::Release);
        // Invariant 4, as after the compare-and-swap below.
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

    /// Index of the word that holds a position of the stream.
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

/// A credit: room for one region that is not yet reserved. Dropping it returns the credit.
#[derive(Debug)]
#[must_use]
pub struct Space<'ring> {
    ring: &'ring AppendRing,
    bytes: u64,
}

impl<'ring> Space<'ring> {
    /// Length of the future region, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves the region at the end of the stream. Never waits.
    #[inline]
    pub fn reserve(self) -> Region<'ring> {
        let (ring, bytes) = (self.ring, self.bytes);
        // The region owns the credit now; releasing the region returns it.
        std::mem::forget(self);
        // Acquire and release: see the essay's paragraph on two writers.
        let start = ring.reserved.fetch_add(bytes, Ordering::AcqRel);
        Region::new(ring, start, bytes)
    }

    /// Converts to a credit that does not borrow its ring, for a holder that cannot borrow.
    ///
    /// # Panics
    /// When `ring` is not the credit's ring.
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

/// A credit like [`Space`] that keeps its ring alive.
#[derive(Debug)]
#[must_use]
pub struct OwnedSpace {
    ring: Arc<AppendRing>,
    bytes: u64,
}

impl OwnedSpace {
    /// Converts to a credit that borrows its ring.
    ///
    /// # Panics
    /// When `ring` is not the credit's ring.
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

/// The ring's only reader.
#[derive(Debug)]
pub struct Reader {
    ring: Arc<AppendRing>,
    released: u64,
}

impl Reader {
    /// Position up to which the reader has released the stream.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// The ring that this reader reads.
    #[must_use]
    pub fn ring(&self) -> &Arc<AppendRing> {
        &self.ring
    }

    /// The bytes of `range`, in order, as two slices; the second may be empty.
    ///
    /// # Panics
    /// When the range is not aligned, or is not within the complete, unreleased bytes.
    #[cfg(not(loom))]
    #[must_use]
    pub fn bytes(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        self.check(&range);
        let first = self.ring.index(range.start);
        let count = ((range.end - range.start) / WORD) as usize;
        let until_wrap = count.min(self.ring.words.len() - first);
        let slice = |index: usize, count: usize| {
            let words: &[UnsafeCell<u64>] = &self.ring.words[index..index + count];
            // SAFETY: the cells have the layout of the words they hold. Every one is
            // complete and not released (`check`), so no region covers it until `release`,
            // which borrows the reader mutably.
            unsafe {
                std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), count * WORD as usize)
            }
        };
        (slice(first, until_wrap), slice(0, count - until_wrap))
    }

    /// Like [`Reader::bytes`], but word by word, so that loom sees each access.
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

    /// Returns the space before `position` to writers.
    ///
    /// # Panics
    /// When the position is after the complete prefix, or before the last release.
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
