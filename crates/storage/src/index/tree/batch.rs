//! Batches of a scan: entries copied out of a leaf, and the keys rebuilt from them.
//!
//! ```text
//!   heads   h0 h1 h2 …          copied word by word, then validated
//!   values  r0 r1 r2 …
//!   marks   all equal, no tails?        ──▶ one length for all
//!           if not                      ──▶ a length and a tail each
//!
//!   prefix "abc" + head  ──▶  │ a b c h h h h h │ h h h · · · · · │    whole words
//! ```
//!
//! Keys are assembled in words that are aligned to the start of the key, not to that of its
//! head: visitors mostly read keys eight bytes at a time, and a load that spans two recent
//! stores would stall until both have completed.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow, Range};

use coeval_types::Rid;

use super::latch::Restart;
use super::node::{Node, SPILLED, Shape};
use super::search::Seen;
use super::spilled::Spilled;
use super::word::{Word, word_at};

/// Maximum number of entries that a batch copies.
pub(super) const BATCH: usize = 32;

/// The bound at which a scan continues.
pub(super) type Cursor<'key> = Bound<Cow<'key, [u8]>>;

/// Copies of consecutive entries of a leaf.
pub(super) struct Batch {
    count: usize,
    heads: [u64; BATCH],
    values: [u64; BATCH],
    /// The length of all suffixes, if they have equal lengths and none is spilled. If not,
    /// each has its own in `lengths`.
    common_length: Option<usize>,
    lengths: [usize; BATCH],
    tails: Vec<u64>,
    spilled: Vec<*const Spilled>,
}

/// Buffer in which a scan assembles keys.
pub(super) struct Key {
    /// The prefix of the leaf, followed by the rest of the key that was visited last.
    bytes: Vec<u8>,
    prefix: usize,
    /// Offset of the word in which the prefix ends; `begun` holds the prefix's bytes in it.
    place: usize,
    begun: u64,
    /// Length of the key that was visited last in this leaf, if any.
    last: Option<usize>,
}

/// A view of the key buffer while heads and tails are written to it.
struct Room<'key> {
    bytes: &'key mut [u8],
    place: usize,
    begun: u64,
    shift: usize,
}

impl Key {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            prefix: 0,
            place: 0,
            begun: 0,
            last: None,
        }
    }

    /// Prepares for a leaf of this shape, to which the cursor leads: they share the prefix.
    pub(super) fn enter<const W: usize>(&mut self, shape: Shape, cursor: &Cursor<'_>) {
        self.prefix = shape.prefix;
        self.place = shape.prefix / 8 * 8;
        self.begun = 0;
        self.last = None;
        self.bytes.clear();
        if let Bound::Included(key) | Bound::Excluded(key) = cursor {
            let prefix = &key[..shape.prefix];
            self.bytes.extend_from_slice(prefix);
            self.begun = word_at(prefix, self.place);
        }
        // Space for a head and the longest tail, in whole words.
        self.bytes.resize(self.place + Node::<W>::LONGEST + 8, 0);
    }

    /// Moves the cursor after the key that was visited last in this leaf, which has changed
    /// since.
    #[cold]
    pub(super) fn leave(&self, cursor: &mut Cursor<'_>) {
        if let Some(last) = self.last {
            *cursor = Bound::Excluded(Cow::Owned(self.bytes[..last].to_vec()));
        }
    }

    /// The buffer from the word in which the prefix ends, and the bytes with which that
    /// word starts.
    #[inline]
    fn room(&mut self) -> Room<'_> {
        Room {
            bytes: &mut self.bytes,
            place: self.place,
            begun: self.begun,
            shift: 8 * (self.prefix - self.place),
        }
    }

    /// Stores a key that was not in the leaf itself.
    fn put_whole(&mut self, key: &[u8]) {
        if self.bytes.len() < key.len() {
            self.bytes.resize(key.len(), 0);
        }
        self.bytes[..key.len()].copy_from_slice(key);
    }
}

impl Room<'_> {
    /// Writes a head and a tail after the prefix, and returns the first `end` bytes of the
    /// key.
    #[inline(always)]
    fn put(&mut self, head: u64, tail: &[u64], end: usize) -> &[u8] {
        let (place, shift) = (self.place, self.shift);
        let (words, _) = self.bytes[place..][..8 * (tail.len() + 2)].as_chunks_mut::<8>();
        words[0] = (self.begun | head >> shift).to_be_bytes();
        // A shift by 64 bits must give zero, which a single shift does not do.
        let mut begun = head << 1 << (63 - shift);
        for (bytes, &word) in words[1..].iter_mut().zip(tail) {
            *bytes = (begun | word >> shift).to_be_bytes();
            begun = word << 1 << (63 - shift);
        }
        words[tail.len() + 1] = begun.to_be_bytes();
        &self.bytes[..end]
    }
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            count: 0,
            common_length: None,
            heads: [0; BATCH],
            values: [0; BATCH],
            lengths: [0; BATCH],
            tails: Vec::new(),
            spilled: Vec::new(),
        }
    }

    /// Copies the entries of these slots of a leaf, at most a full batch, in scan order.
    pub(super) fn copy<const W: usize, const FORWARD: bool>(
        &mut self,
        leaf: Seen<'_, W>,
        shape: Shape,
        slots: Range<usize>,
    ) -> Result<(), Restart> {
        let node = leaf.node;
        self.count = slots.len();
        copy_words::<FORWARD>(node.heads(shape, slots.clone()), &mut self.heads);
        copy_words::<FORWARD>(node.values(shape, slots.clone()), &mut self.values);
        self.common_length = node.common_length(shape, slots.clone());
        match self.common_length {
            Some(0..=8) => {}
            Some(length) => {
                self.copy_tails::<W, FORWARD>(node, shape, slots, tail_words(length))?;
            }
            None => self.copy_suffixes::<W, FORWARD>(node, shape, slots)?,
        }
        leaf.validate_result()
    }

    /// Copies tails of equal length.
    fn copy_tails<const W: usize, const FORWARD: bool>(
        &mut self,
        node: &Node<W>,
        shape: Shape,
        slots: Range<usize>,
        words: usize,
    ) -> Result<(), Restart> {
        self.tails.resize(slots.len() * words, 0);
        for (at, tail) in self.tails.chunks_exact_mut(words).enumerate() {
            let mark = node.mark(shape, nth::<FORWARD>(&slots, at));
            for (copy, word) in tail.iter_mut().zip(node.words(mark.place, words)?) {
                *copy = word.get();
            }
        }
        Ok(())
    }

    /// Copies lengths and tails of keys with different lengths.
    fn copy_suffixes<const W: usize, const FORWARD: bool>(
        &mut self,
        node: &Node<W>,
        shape: Shape,
        slots: Range<usize>,
    ) -> Result<(), Restart> {
        self.tails.clear();
        self.spilled.clear();
        for at in 0..slots.len() {
            let mark = node.mark(shape, nth::<FORWARD>(&slots, at));
            self.lengths[at] = mark.length;
            if mark.length <= 8 {
                continue;
            }
            if mark.length == SPILLED {
                let pointer = node.word(mark.place)?.pointer();
                self.spilled.push(pointer.cast_const().cast());
            } else {
                for word in node.words(mark.place, mark.tail_words())? {
                    self.tails.push(word.get());
                }
            }
        }
        Ok(())
    }

    /// Passes the copied and validated entries to the visitor. The caller has been pinned
    /// since before the copy.
    pub(super) fn visit(
        &self,
        key: &mut Key,
        visit: &mut impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let entries = self.heads[..self.count].iter().zip(&self.values);
        if let Some(length) = self.common_length {
            let end = key.prefix + length;
            let mut room = key.room();
            if length <= 8 {
                for (&head, &value) in entries {
                    visit(room.put(head, &[], end), Rid(value))?;
                }
            } else {
                let tails = self.tails.chunks_exact(tail_words(length));
                for ((&head, &value), tail) in entries.zip(tails) {
                    visit(room.put(head, tail, end), Rid(value))?;
                }
            }
            key.last = Some(end);
            return ControlFlow::Continue(());
        }
        let mut tails = &self.tails[..];
        let mut spilled = self.spilled.iter();
        for ((&head, &value), &length) in entries.zip(&self.lengths) {
            if length == SPILLED {
                let pointer = *spilled.next().expect("one for each such length");
                // SAFETY: a validated leaf led to it while the caller was pinned.
                let bytes = unsafe { &*pointer }.bytes();
                key.put_whole(bytes);
                key.last = Some(bytes.len());
                visit(bytes, Rid(value))?;
                continue;
            }
            let (tail, others) = tails.split_at(tail_words(length));
            tails = others;
            let end = key.prefix + length;
            key.last = Some(end);
            visit(key.room().put(head, tail, end), Rid(value))?;
        }
        ControlFlow::Continue(())
    }
}

/// Words of tail that a suffix of this length has in the node's heap.
#[inline]
fn tail_words(length: usize) -> usize {
    length.saturating_sub(8).div_ceil(8)
}

/// The slot at position `at` in scan order.
#[inline]
fn nth<const FORWARD: bool>(slots: &Range<usize>, at: usize) -> usize {
    match FORWARD {
        true => slots.start + at,
        false => slots.end - 1 - at,
    }
}

/// Copies words in scan order.
#[inline]
fn copy_words<const FORWARD: bool>(words: &[Word], copies: &mut [u64; BATCH]) {
    let copies = &mut copies[..words.len()];
    match FORWARD {
        true => {
            for (copy, word) in copies.iter_mut().zip(words) {
                *copy = word.get();
            }
        }
        false => {
            for (copy, word) in copies.iter_mut().zip(words.iter().rev()) {
                *copy = word.get();
            }
        }
    }
}
