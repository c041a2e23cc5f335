//! A node: a header line, and a body of words.
//!
//! ```text
//!   header   latch │ shape │ fences │ heap │ run │ first child │ –  │ –       8 words
//!   body     head 0 … head capacity-1                                        W words
//!            value 0 … value capacity-1
//!            mark 0 … mark capacity-1, four to a word
//!            ⋮ free
//!            heap: fences, and what is left of long keys, from the end downwards
//! ```
//!
//! A leaf's values are RIDs; an inner node's are children, each with what its separator
//! begins, and `first child` has what is below them all.
//!
//! A key's *suffix* is the key without the prefix that all keys of the node share. Its
//! *head* is the suffix's first eight bytes as a number; a search is mostly about heads,
//! which lie together. What is left of the suffix is its *tail*, in the heap. The *mark*
//! of a slot says how long the suffix is and where its tail is:
//!
//! | length | | mark |
//! | --- | --- | --- |
//! | up to 8 | all in the head | 0, length |
//! | more | tail in the heap | place of its first word, length |
//! | more, and the key is longer than [`Node::LONGEST`] | the whole key in a piece of memory of its own | place of the pointer, 255 |
//!
//! The capacity, which divides the body among slots and heap, is chosen whenever the
//! node is put together: keys of eight bytes leave nearly nothing to the heap.
//!
//! # Invariants
//!
//! 1. Of any shape that was ever stored, the count is at most the capacity, and the
//!    slots of the capacity fit into the body. So a reader may use any shape that it has
//!    loaded to find heads, values and marks, whatever else it has not seen yet.
//! 2. Everything else that a reader loads may be of different moments until it has
//!    validated the version: places in the heap are looked at with bounds, pointers are
//!    not followed.
//! 3. Heads never decrease from slot to slot; equal heads are ordered by tail and length.
//! 4. Every key is at or above the lower fence, and below the upper if there is one;
//!    both begin with the prefix.

use std::ops::Range;

use coeval_memory::prefetch::prefetch;

use super::latch::{Latch, Restart, Version};
use super::spilled::Spilled;
use super::word::Word;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Slots whose marks share a word.
const MARKS: usize = 4;
/// The length in a mark, or of a fence, that means: it is elsewhere.
pub(super) const SPILLED: usize = 255;

/// A node with `W` words of body. All nodes of a tree are of one size.
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

/// What searches need to know of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) count: usize,
    pub(super) capacity: usize,
    /// Leaves are 0.
    pub(super) level: usize,
    /// Bytes of the prefix.
    pub(super) prefix: usize,
}

/// How long a suffix is, and where its tail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) place: usize,
    pub(super) length: usize,
}

/// A place in the heap that holds a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fences {
    pub(super) lower: (usize, usize),
    pub(super) upper: Option<(usize, usize)>,
}

/// How far down the heap has come, and how much of it is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heap {
    pub(super) low: usize,
    pub(super) garbage: usize,
}

/// Words that so many slots take.
pub(super) const fn slot_words(slots: usize) -> usize {
    2 * slots + slots.div_ceil(MARKS)
}

impl<const W: usize> Node<W> {
    /// Longest tail in words.
    const TAIL: usize = if W / 16 > 1 { W / 16 } else { 1 };
    /// Longest key that stays in the node.
    pub(super) const LONGEST: usize = 8 + 8 * Self::TAIL;
    /// Longest fence that stays in the node, in bytes.
    pub(super) const FENCE: usize = 8 * Self::TAIL;
    /// Words that a slot with its tail takes at the most.
    pub(super) const SLOT: usize = 3 + Self::TAIL;

    /// Half a node with two fences has room for the entry that had no room, and for
    /// another one; and everything is addressed by a byte.
    const SOUND: () = assert!(
        W / 2 + 2 * Self::TAIL + 2 * Self::SLOT <= W && W <= 248 && Self::LONGEST < SPILLED,
        "nodes of this size cannot be split"
    );

    /// A leaf without keys or fences.
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

    /// Asks for the header and the heads.
    #[inline]
    pub(super) fn prefetch(node: *const Self) {
        let lines = size_of::<Self>().div_ceil(LINE * 2) + 1;
        for line in 0..lines {
            prefetch(node.cast::<u8>().wrapping_add(line * LINE));
        }
    }

    /// Asks for the header.
    #[inline]
    pub(super) fn prefetch_header(node: *const Self) {
        prefetch(node);
    }

    /// Asks for the heap: what is left of keys, and the fences at its end.
    #[inline]
    pub(super) fn prefetch_heap(&self) {
        self.prefetch_words(self.heap().low..W);
    }

    /// Asks for the end of the heap, where fences are.
    #[inline]
    pub(super) fn prefetch_end(&self) {
        prefetch(&self.body[W - 1]);
    }

    /// Asks for what a slot has beside its head.
    #[inline]
    pub(super) fn prefetch_slot(&self, shape: Shape, slot: usize) {
        prefetch(self.value(shape, slot));
        prefetch(&self.body[2 * shape.capacity + slot / MARKS]);
    }

    /// Asks for heads, values and marks of several slots.
    #[inline]
    pub(super) fn prefetch_slots(&self, shape: Shape, slots: Range<usize>) {
        self.prefetch_words(slots.clone());
        self.prefetch_words(shape.capacity + slots.start..shape.capacity + slots.end);
        let marks = 2 * shape.capacity;
        self.prefetch_words(marks + slots.start / MARKS..marks + slots.end.div_ceil(MARKS));
    }

    /// Asks for words of the body.
    #[inline]
    fn prefetch_words(&self, words: Range<usize>) {
        const EACH: usize = LINE / size_of::<u64>();
        let line = |word: usize| word / EACH;
        if words.is_empty() {
            return;
        }
        // Of different moments they may be anywhere, but they are not many.
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

    /// For the latch's holder.
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

    /// For the latch's holder: how many insertions in a row came right behind the one
    /// before, and where the last one was.
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

    /// The word at `place`, which may be anything that was read before validation.
    #[inline]
    pub(super) fn word(&self, place: usize) -> Result<&Word, Restart> {
        self.body.get(place).ok_or(Restart)
    }

    /// Several words from `place` on, likewise.
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

    /// The length of these slots' suffixes, if all are of one length and in the node.
    /// Looks at four marks at a time.
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

    /// The child before slot `at`, or the last one.
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

    /// A spilled key that a mark or a fence says is at `place`.
    ///
    /// # Safety
    /// The caller holds a guard from before `version` was noted, or the latch; in the
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
        // SAFETY: the node has, or had at a moment while the caller was pinned, a key
        // whose mark said that its pointer is at `place`. It was linked then, so it is
        // not freed while the caller's guard lives; and it never changes.
        Ok(unsafe { &*pointer.cast::<Spilled>() })
    }

    // Changes, for the latch's holder.

    fn marks_word(&self, shape: Shape, index: usize) -> &Word {
        &self.body[2 * shape.capacity + index]
    }

    /// Sets a slot that lies beyond the count.
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

    /// Opens a slot and fills it.
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

    /// Closes a slot. Its tail becomes garbage.
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

    /// Words that keys, values, marks and tails take, and those that fences take. For
    /// the latch's holder, or to be validated.
    pub(super) fn used_words(&self, shape: Shape) -> (usize, usize) {
        let (heap, fences) = (self.heap(), self.fences());
        let fences = fence_words(Some(fences.lower)) + fence_words(fences.upper);
        // Of different moments they may come to less than nothing.
        let tails = W.wrapping_sub(heap.low + heap.garbage + fences);
        (slot_words(shape.count).wrapping_add(tails), fences)
    }

    /// Whether an entry with so many words of tail would have room if the node were put
    /// together anew, and some more. As for [`Node::used_words`].
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
    /// The slot's mark in the word that has it.
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

    /// Words of its tail in the heap.
    #[inline]
    pub(super) fn tail_words(self) -> usize {
        match self.length {
            0..=8 => 0,
            SPILLED => 1,
            length => (length - 8).div_ceil(8),
        }
    }
}
