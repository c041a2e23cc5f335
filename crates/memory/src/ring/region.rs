//! A reserved region of the append ring, and the writer that fills it.
//!
//! The ring is made of words, but the pieces of a frame have any length, and are scattered
//! in memory. [`Pieces`] writes them consecutively, without the caller having to copy them
//! together first. A word in which a piece ends is buffered until the next piece, or the
//! end, has filled it:
//!
//! ```text
//!   pieces      a a a a a a a a a a a   b b b   c c c c c c
//!              ├─────────────────┼─────────────────┼─────────────────┤
//!   words       a a a a a a a a    a a a b b b c c   c c c c 0 0 0 0
//! ```
//!
//! So every word is stored exactly once, as a whole.

use super::{AppendRing, WORD};
#[cfg(not(loom))]
use crate::sync::UnsafeCell;

/// A reserved region of the stream, to be written and completed. If it is dropped instead,
/// the complete prefix stops before it for ever.
#[derive(Debug)]
#[must_use]
pub struct Region<'ring> {
    ring: &'ring AppendRing,
    start: u64,
    bytes: u64,
}

impl<'ring> Region<'ring> {
    pub(super) fn new(ring: &'ring AppendRing, start: u64, bytes: u64) -> Self {
        Self { ring, start, bytes }
    }

    /// Position at which the region starts.
    #[inline]
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Length of the region, in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies `bytes` to `offset` within the region, and zeros after them up to the next
    /// multiple of the alignment. Bytes that the writer never writes keep the ring's old
    /// contents.
    ///
    /// # Panics
    /// When the offset is not aligned or the bytes do not fit.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut pieces = self.pieces(offset);
        pieces.put(bytes);
        pieces.finish();
    }

    /// Returns a writer that puts consecutive pieces into the region, from `offset` within
    /// it on.
    ///
    /// # Panics
    /// When the offset is not aligned.
    #[inline]
    pub fn pieces(&mut self, offset: u64) -> Pieces<'_, 'ring> {
        assert!(offset.is_multiple_of(WORD), "unaligned offset");
        Pieces {
            region: self,
            offset,
            begun: 0,
        }
    }

    /// Stores a word at `offset` within the region.
    #[inline]
    fn store(&mut self, offset: u64, word: u64) {
        debug_assert!(offset.is_multiple_of(WORD) && offset < self.bytes);
        let cell = &self.ring.words[self.ring.index(self.start + offset)];
        // SAFETY: the word is in this region, which `&mut self` alone may write, and
        // which the reader does not see before `complete` (invariant 2).
        cell.with_mut(|cell| unsafe { *cell = word });
    }

    /// Copies whole words to `offset` within the region.
    #[inline]
    fn copy(&mut self, offset: u64, words: &[u8]) {
        debug_assert!(offset.is_multiple_of(WORD) && words.len().is_multiple_of(WORD as usize));
        debug_assert!(offset + words.len() as u64 <= self.bytes);
        let first = self.ring.index(self.start + offset);
        let until_wrap = self.ring.words.len() - first;
        if words.len() <= until_wrap * WORD as usize {
            self.copy_to(first, words);
        } else {
            let (before, behind) = words.split_at(until_wrap * WORD as usize);
            self.copy_to(first, before);
            self.copy_to(0, behind);
        }
    }

    /// Copies whole words to cells of this region, from the one at `first` on.
    #[cfg(not(loom))]
    #[inline]
    fn copy_to(&mut self, first: usize, words: &[u8]) {
        let cells: &[UnsafeCell<u64>] = &self.ring.words[first..][..words.len() / WORD as usize];
        let to = cells.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: the cells have the layout of the words they hold, may be written through
        // a shared reference, and are as many as the words. They are in this region, as in
        // `store`; no reference to their bytes exists from which the caller could copy.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), to, words.len()) };
    }

    /// Copies word by word, so that loom sees each access.
    #[cfg(loom)]
    fn copy_to(&mut self, first: usize, words: &[u8]) {
        for (cell, word) in self.ring.words[first..].iter().zip(words.chunks_exact(8)) {
            let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
            // SAFETY: as in `store`.
            cell.with_mut(|cell| unsafe { *cell = word });
        }
    }

    /// Hands the region to the reader. Returns whether this call advanced the prefix, so
    /// that the reader has something new to read.
    #[inline]
    pub fn complete(self) -> bool {
        self.ring.complete(self.start, self.bytes)
    }
}

/// Writes pieces into a region, each directly after the previous one.
///
/// # Invariant
/// The bytes put so far are in the region up to the last word boundary before `offset`; the
/// bytes after that boundary are in `begun`, from its lowest byte on, followed by zeros.
#[derive(Debug)]
#[must_use = "its end is written when it is finished"]
pub struct Pieces<'region, 'ring> {
    region: &'region mut Region<'ring>,
    /// Offset within the region at which the next piece starts.
    offset: u64,
    begun: u64,
}

/// Up to eight bytes as a word, the first byte lowest, padded with zeros.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let join = |word, &byte| word << 8 | u64::from(byte);
    bytes.iter().rev().fold(0, join)
}

impl Pieces<'_, '_> {
    /// Copies a piece to the end of the previous one.
    ///
    /// # Panics
    /// When the piece does not fit into the region.
    #[inline]
    pub fn put(&mut self, piece: &[u8]) {
        let region = &mut *self.region;
        assert!(
            self.offset + piece.len() as u64 <= region.bytes,
            "outside the region"
        );
        let within = self.offset % WORD;
        let word_at = self.offset - within;
        self.offset += piece.len() as u64;
        if !region.ring.read {
            return;
        }
        let first = match piece.first_chunk() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => word_of(piece),
        };
        let begun = self.begun | first << (within * 8);
        let missing = (WORD - within) as usize;
        if piece.len() < missing {
            self.begun = begun;
            return;
        }
        region.store(word_at, begun.to_le());
        let rest = &piece[missing..];
        let (whole, last) = rest.split_at(rest.len() / WORD as usize * WORD as usize);
        if !whole.is_empty() {
            region.copy(word_at + WORD, whole);
        }
        self.begun = match piece.last_chunk() {
            // In one step, if the piece has eight bytes, whose earlier ones are shifted
            // out.
            Some(eight) if !last.is_empty() => {
                u64::from_le_bytes(*eight) >> ((WORD as usize - last.len()) * 8)
            }
            _ => word_of(last),
        };
    }

    /// Writes the rest of the last piece, and zeros up to the next multiple of the
    /// alignment.
    #[inline]
    pub fn finish(self) {
        let within = self.offset % WORD;
        if within != 0 && self.region.ring.read {
            let word = self.begun.to_le();
            self.region.store(self.offset - within, word);
        }
    }
}
