//! The B+tree node: a header of one cache line, and a body of words.
//!
//! ```text
//!   header   latch │ shape │ fences │ heap │ run │ first child │ –  │ –       8 words
//!   body     head 0 … head capacity-1                                        W words
//!            value 0 … value capacity-1
//!            mark 0 … mark capacity-1, four to a word
//!            ⋮ free
//!            heap: fences, and tails of long keys, growing downwards from the end
//! ```
//!
//! A leaf's values are RIDs. An inner node's values are children, each with the keys from
//! its separator on; `first child` has the keys below all separators.
//!
//! A key's *suffix* is the key without the prefix that all keys of the node share. Its
//! *head* is the suffix's first eight bytes as a number; a search mostly compares heads,
//! which are adjacent. The rest of the suffix is its *tail*, in the heap. The *mark* of a
//! slot holds the length of the suffix and the position of its tail:
//!
//! | length | | mark |
//! | --- | --- | --- |
//! | up to 8 | all in the head | 0, length |
//! | more | tail in the heap | position of its first word, length |
//! | more, key over [`Node::LONGEST`] | whole key outside the node | position of a pointer, 255 |
//!
//! The capacity, which partitions the body into slots and heap, is chosen whenever the node
//! is encoded: keys of eight bytes leave nearly nothing to the heap.
//!
//! # Invariants
//!
//! 1. In any shape that was ever stored, the count is at most the capacity, and the slots
//!    of the capacity fit into the body. So a reader may use any shape that it has loaded
//!    to find heads, values and marks, whatever else it has not seen yet.
//! 2. Everything else that a reader loads may be of different moments until it has
//!    validated the version: it accesses heap positions with bounds checks, and follows no
//!    pointers.
//! 3. Heads never decrease from slot to slot; equal heads are ordered by tail and length.
//! 4. Every key is at or above the lower fence, and below the upper if there is one; both
//!    begin with the prefix.

use std::ops::Range;

use coeval_memory::prefetch::prefetch;

use super::latch::{Latch, Restart, Version};
use super::spilled::Spilled;
use super::word::Word;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Number of slots whose marks share a word.
const MARKS: usize = 4;
/// The length in a mark, or of a fence, that means: the key is spilled.
pub(super) const SPILLED: usize = 255;

/// A node with a body of `W` words. All nodes of a tree have the same size.
#[derive(Debug)]
#[cfg_attr(not(any(loom, shuttle)), repr(C, align(64)))]
pub(super) struct Node<const W: usize> {
    pub(super) latch: Latch,
    shape: Word,
    fences: Word,
    heap: Word,
    run: Word,
    first: Word,
    _spare: [Word; 2],
    body: [Word; W],
}

/// The properties of a node that a search needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) count: usize,
    pub(super) capacity: usize,
    /// Height above the leaves, whose level is 0.
    pub(super) level: usize,
    /// Length of the prefix, in bytes.
    pub(super) prefix: usize,
}

/// The length of a slot's suffix, and the heap position of its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) place: usize,
    pub(super) length: usize,
}

/// The heap position and the length of each fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fences {
    pub(super) lower: (usize, usize),
    pub(super) upper: Option<(usize, usize)>,
}

/// The lowest word that the heap uses, and the number of heap words that are garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heap {
    pub(super) low: usize,
    pub(super) garbage: usize,
}

/// Words that `slots` slots take.
pub(super) const fn slot_words(slots: usize) -> usize {
    2 * slots + slots.div_ceil(MARKS)
}

impl<const W: usize> Node<W> {
    /// The longest tail, in words.
    const TAIL: usize = if W / 16 > 1 { W / 16 } else { 1 };
    /// The longest key that is stored within a node, in bytes.
    pub(super) const LONGEST: usize = 8 + 8 * Self::TAIL;
    /// The longest fence that is stored within a node, in bytes.
    pub(super) const FENCE: usize = 8 * Self::TAIL;
    /// Maximum number of words that a slot takes with its tail.
    pub(super) const SLOT: usize = 3 + Self::TAIL;

    /// Guarantees that half a node with two fences has room for the entry that caused the
    /// split, and for another one; and that a byte addresses every word.
    const SOUND: () = assert!(
        W / 2 + 2 * Self::TAIL + 2 * Self::SLOT <= W && W <= 248 && Self::LONGEST < SPILLED,
        "nodes of this size cannot be split"
    );

    /// Creates a leaf without keys or fences.
    pub(super) fn new() -> Box<Self> {
        let () = Self::SOUND;
        let node = Box::new(Self {
            latch: Latch::new(),
            shape: Word::new(),
            fences: Word::new(),
            heap: Word::new(),
            run: Word::new(),
            first: Word::new(),
            _spare: std::array::from_fn(|_| Word::new()),
            body: std::array::from_fn(|_| Word::new()),
        });
        node.set_heap(Heap { low: W, garbage: 0 });
        node
    }

    /// Prefetches the header and the heads.
    #[inline]
    pub(super) fn prefetch(node: *const Self) {
        let lines = size_of::<Self>().div_ceil(LINE * 2) + 1;
        for line in 0..lines {
            prefetch(node.cast::<u8>().wrapping_add(line * LINE));
        }
    }

    /// Prefetches the header.
    #[inline]
    pub(super) fn prefetch_header(node: *const Self) {
        prefetch(node);
    }

    /// Prefetches the heap: the tails, and the fences at its end.
    #[inline]
    pub(super) fn prefetch_heap(&self) {
        self.prefetch_words(self.heap().low..W);
    }

    /// Prefetches the end of the heap, where the fences are.
    #[inline]
    pub(super) fn prefetch_end(&self) {
        prefetch(&self.body[W - 1]);
    }

    /// Prefetches a slot's value and mark.
    #[inline]
    pub(super) fn prefetch_slot(&self, shape: Shape, slot: usize) {
        prefetch(self.value(shape, slot));
        prefetch(&self.body[2 * shape.capacity + slot / MARKS]);
    }

    /// Prefetches heads, values and marks of several slots.
    #[inline]
    pub(super) fn prefetch_slots(&self, shape: Shape, slots: Range<usize>) {
        self.prefetch_words(slots.clone());
        self.prefetch_words(shape.capacity + slots.start..shape.capacity + slots.end);
        let marks = 2 * shape.capacity;
        self.prefetch_words(marks + slots.start / MARKS..marks + slots.end.div_ceil(MARKS));
    }

    /// Prefetches words of the body.
    #[inline]
    fn prefetch_words(&self, words: Range<usize>) {
        const EACH: usize = LINE / size_of::<u64>();
        let line = |word: usize| word / EACH;
        if words.is_empty() {
            return;
        }
        // Before validation the bounds may be inconsistent, but the range is short.
        for line in line(words.start)..=line(words.end.min(W) - 1) {
            prefetch(self.body.as_ptr().wrapping_add(line * EACH));
        }
    }

    // The header.

    #[inline]
    pub(super) fn shape(&self) -> Shape {
        let word = self.shape.get();
        Shape {
            count: (word & 0xFF) as usize,
            capacity: (word >> 8 & 0xFF) as usize,
            level: (word >> 16 & 0xFF) as usize,
            prefix: (word >> 32) as usize,
        }
    }

    /// Stores the shape. For the latch's holder.
    #[inline]
    pub(super) fn set_shape(&self, shape: Shape) {
        debug_assert!(shape.count <= shape.capacity && slot_words(shape.capacity) <= W);
        let word = shape.count | shape.capacity << 8 | shape.level << 16 | shape.prefix << 32;
        self.shape.set(word as u64);
    }

    pub(super) fn fences(&self) -> Fences {
        let word = self.fences.get();
        let byte = |at: u32| (word >> (8 * at) & 0xFF) as usize;
        Fences {
            lower: (byte(0), byte(1)),
            upper: (byte(4) != 0).then(|| (byte(2), byte(3))),
        }
    }

    pub(super) fn set_fences(&self, fences: Fences) {
        let (place, length) = fences.upper.unwrap_or_default();
        let word = fences.lower.0
            | fences.lower.1 << 8
            | place << 16
            | length << 24
            | usize::from(fences.upper.is_some()) << 32;
        self.fences.set(word as u64);
    }

    #[inline]
    pub(super) fn heap(&self) -> Heap {
        let word = self.heap.get();
        Heap {
            low: (word & 0xFFFF) as usize,
            garbage: (word >> 16) as usize,
        }
    }

    #[inline]
    pub(super) fn set_heap(&self, heap: Heap) {
        self.heap.set((heap.low | heap.garbage << 16) as u64);
    }

    /// Number of consecutive insertions, each directly after the previous one, and the slot
    /// of the last one. For the latch's holder.
    #[inline]
    pub(super) fn run(&self) -> (usize, usize) {
        let word = self.run.get();
        ((word >> 8) as usize, (word & 0xFF) as usize)
    }

    #[inline]
    pub(super) fn set_run(&self, run: usize, last: usize) {
        self.run.set((last | run.min(SPILLED) << 8) as u64);
    }

    // The body.

    /// The word at `place`, which may be arbitrary before validation.
    #[inline]
    pub(super) fn word(&self, place: usize) -> Result<&Word, Restart> {
        self.body.get(place).ok_or(Restart)
    }

    /// The `count` words from `place` on, which may be arbitrary before validation.
    #[inline]
    pub(super) fn words(&self, place: usize, count: usize) -> Result<&[Word], Restart> {
        self.body.get(place..place + count).ok_or(Restart)
    }

    /// The slot's word in the part of the body that begins at `part`.
    #[inline]
    fn slot_word(&self, part: usize, slot: usize) -> &Word {
        debug_assert!(part + slot < W);
        // SAFETY: `part` is 0 or the capacity of a shape that was loaded from this node,
        // and `slot` is below that capacity; invariant 1 of this file.
        unsafe { self.body.get_unchecked(part + slot) }
    }

    #[inline]
    pub(super) fn head(&self, shape: Shape, slot: usize) -> u64 {
        debug_assert!(slot < shape.capacity);
        self.slot_word(0, slot).get()
    }

    #[inline]
    pub(super) fn value(&self, shape: Shape, slot: usize) -> &Word {
        debug_assert!(slot < shape.capacity);
        self.slot_word(shape.capacity, slot)
    }

    /// The heads of several slots.
    #[inline]
    pub(super) fn heads(&self, shape: Shape, slots: Range<usize>) -> &[Word] {
        debug_assert!(slots.end <= shape.capacity);
        &self.body[slots]
    }

    /// The values of several slots.
    #[inline]
    pub(super) fn values(&self, shape: Shape, slots: Range<usize>) -> &[Word] {
        debug_assert!(slots.end <= shape.capacity);
        &self.body[shape.capacity..][slots]
    }

    /// The common length of these slots' suffixes, if they have one and none is spilled.
    /// Compares four marks at a time.
    #[inline]
    pub(super) fn common_length(&self, shape: Shape, slots: Range<usize>) -> Option<usize> {
        let last = slots.end.checked_sub(1)?;
        let words = &self.body[2 * shape.capacity..][slots.start / MARKS..=last / MARKS];
        let mark = Mark::from_word(words[0].get(), slots.start);
        let pattern = mark.length as u64 * 0x0001_0001_0001_0001;
        let mut different = 0;
        for (at, word) in words.iter().enumerate() {
            let mut difference = word.get() ^ pattern;
            if at == 0 {
                difference &= u64::MAX << (16 * (slots.start % MARKS));
            }
            if at + 1 == words.len() {
                difference &= u64::MAX >> (48 - 16 * (last % MARKS));
            }
            different |= difference & 0x00FF_00FF_00FF_00FF;
        }
        (different == 0 && mark.length != SPILLED).then_some(mark.length)
    }

    #[inline]
    pub(super) fn mark(&self, shape: Shape, slot: usize) -> Mark {
        let word = self.body[2 * shape.capacity + slot / MARKS].get();
        Mark::from_word(word, slot)
    }

    /// The child before slot `at`, or the last child if `at` is the count.
    #[inline]
    pub(super) fn child(&self, shape: Shape, at: usize) -> *const Self {
        let word = match at {
            0 => &self.first,
            _ => self.value(shape, at - 1),
        };
        word.pointer().cast_const().cast()
    }

    pub(super) fn set_first_child(&self, child: *mut ()) {
        self.first.set_pointer(child);
    }

    /// The spilled key whose pointer is at `place`, according to a mark or a fence.
    ///
    /// # Safety
    /// The caller holds a guard from before `version` was loaded, or the latch; in the
    /// second case it passes no version.
    #[inline]
    pub(super) unsafe fn spilled(
        &self,
        place: usize,
        version: Option<Version>,
    ) -> Result<&Spilled, Restart> {
        let pointer = self.word(place)?.pointer();
        if let Some(version) = version {
            self.latch.validate(version)?;
        }
        // SAFETY: the node has, or had at a moment while the caller was pinned, a key whose
        // mark gave `place` as the position of its pointer. It was linked then, so it is
        // not freed while the caller's guard lives; and it never changes.
        Ok(unsafe { &*pointer.cast::<Spilled>() })
    }

    // Changes, for the latch's holder.

    fn marks_word(&self, shape: Shape, index: usize) -> &Word {
        &self.body[2 * shape.capacity + index]
    }

    /// Writes a slot beyond the count.
    pub(super) fn set_slot(
        &self,
        shape: Shape,
        slot: usize,
        head: u64,
        value: *mut (),
        mark: Mark,
    ) {
        self.body[slot].set(head);
        self.value(shape, slot).set_pointer(value);
        let word = self.marks_word(shape, slot / MARKS);
        let shift = 16 * (slot % MARKS);
        let others = word.get() & !(0xFFFF << shift);
        word.set(others | mark.bits() << shift);
    }

    /// Opens a slot, moving the later ones, and fills it.
    pub(super) fn insert_slot(&self, slot: usize, head: u64, value: *mut (), mark: Mark) {
        let shape = self.shape();
        let count = shape.count;
        assert!(slot <= count && count < shape.capacity, "there is room");
        for at in (slot..count).rev() {
            self.body[at + 1].copy(&self.body[at]);
        }
        let values = &self.body[shape.capacity..2 * shape.capacity];
        for at in (slot..count).rev() {
            values[at + 1].copy(&values[at]);
        }
        for index in (slot / MARKS + 1..=count / MARKS).rev() {
            let word = self.marks_word(shape, index);
            let before = self.marks_word(shape, index - 1).get();
            word.set(word.get() << 16 | before >> 48);
        }
        let word = self.marks_word(shape, slot / MARKS);
        let shift = 16 * (slot % MARKS);
        let (below, from) = split_bits(word.get(), shift);
        word.set(below | mark.bits() << shift | from << 16);
        self.body[slot].set(head);
        values[slot].set_pointer(value);
        self.set_shape(Shape {
            count: count + 1,
            ..shape
        });
    }

    /// Closes a slot, moving the later ones. Its tail becomes garbage.
    pub(super) fn remove_slot(&self, slot: usize) {
        let shape = self.shape();
        let count = shape.count;
        assert!(slot < count, "the slot is there");
        let heap = self.heap();
        self.set_heap(Heap {
            garbage: heap.garbage + self.mark(shape, slot).tail_words(),
            ..heap
        });
        for at in slot + 1..count {
            self.body[at - 1].copy(&self.body[at]);
        }
        let values = &self.body[shape.capacity..2 * shape.capacity];
        for at in slot + 1..count {
            values[at - 1].copy(&values[at]);
        }
        let (first, last) = (slot / MARKS, (count - 1) / MARKS);
        for index in first..=last {
            let next = match index < last {
                true => self.marks_word(shape, index + 1).get(),
                false => 0,
            };
            let word = self.marks_word(shape, index);
            let shift = if index == first {
                16 * (slot % MARKS)
            } else {
                0
            };
            let (below, from) = split_bits(word.get(), shift);
            let moved = from >> 16 & !((1 << shift) - 1);
            word.set(below | moved | next << 48);
        }
        self.set_shape(Shape {
            count: count - 1,
            ..shape
        });
    }

    /// Words between the slots and the heap.
    #[inline]
    pub(super) fn free_words(&self, shape: Shape) -> usize {
        self.heap().low - slot_words(shape.capacity)
    }

    /// Words that keys, values, marks and tails take, and words that fences take. For the
    /// latch's holder, or for a reader that validates afterwards.
    pub(super) fn used_words(&self, shape: Shape) -> (usize, usize) {
        let (heap, fences) = (self.heap(), self.fences());
        let fences = fence_words(Some(fences.lower)) + fence_words(fences.upper);
        // Before validation the sum may be negative, so it wraps.
        let tails = W.wrapping_sub(heap.low + heap.garbage + fences);
        (slot_words(shape.count).wrapping_add(tails), fences)
    }

    /// Whether an entry with `tail` words of tail would fit after re-encoding the node,
    /// with some room left. For the same callers as [`Node::used_words`].
    pub(super) fn has_room_when_divided(&self, tail: usize) -> bool {
        let shape = self.shape();
        let (used, fences) = self.used_words(shape);
        let slot = slot_words(shape.count + 1) - slot_words(shape.count);
        used.wrapping_add(fences + slot + tail + W / 16) <= W
    }
}

/// Words that a fence takes in the heap.
pub(super) fn fence_words(fence: Option<(usize, usize)>) -> usize {
    match fence {
        None => 0,
        Some((_, SPILLED)) => 1,
        Some((_, length)) => length.div_ceil(8),
    }
}

/// The bits of `word` below `shift`, and the others.
fn split_bits(word: u64, shift: usize) -> (u64, u64) {
    let below = word & ((1 << shift) - 1);
    (below, word ^ below)
}

impl Mark {
    /// The mark of a slot, from the word that contains it.
    #[inline]
    fn from_word(word: u64, slot: usize) -> Self {
        let mark = (word >> (16 * (slot % MARKS)) & 0xFFFF) as usize;
        Self {
            place: mark >> 8,
            length: mark & 0xFF,
        }
    }

    #[inline]
    fn bits(self) -> u64 {
        debug_assert!(self.place <= 0xFF && self.length <= 0xFF);
        (self.place << 8 | self.length) as u64
    }

    /// Words of the slot's tail in the heap.
    #[inline]
    pub(super) fn tail_words(self) -> usize {
        match self.length {
            0..=8 => 0,
            SPILLED => 1,
            length => (length - 8).div_ceil(8),
        }
    }
}
