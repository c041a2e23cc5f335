//! A node taken apart into whole keys, and put together again with another prefix, other
//! fences, or another division of its body. This is how nodes are split and merged.
//!
//! ```text
//!   prefix "user:0001", slots …                       "user:00012", "user:00019", …
//!   fences "user:0001" … "user:0002"    ── apart ──▶  lower, upper
//!                                                          │ lower, new upper
//!   prefix "user:00011", slots …        ◀─ together ──────┘ and half of the keys
//! ```
//!
//! For the latch's holder, and for nodes that nobody else knows. A long key's own piece
//! of memory goes from the slot that had it to the slot that gets it; what no slot needs
//! any more is in [`Contents::unused`], for the caller to retire once the node is put
//! together.

use super::node::{Fences, Heap, Mark, Node, SPILLED, Shape, fence_words, slot_words};
use super::spilled::Books;
use super::word::{common_prefix, word_at};

/// Longest prefix that a shape can hold: longer ones are cut, which costs nothing but
/// comparisons.
const LONGEST_PREFIX: usize = u32::MAX as usize;

/// A key with its value. Keys lie one behind the other in [`Contents::keys`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    start: usize,
    end: usize,
    pub(super) value: *mut (),
    /// Its memory outside of the node, or null.
    spilled: *mut (),
}

/// Whole keys, and who they are for.
#[derive(Debug)]
pub(super) struct Contents {
    keys: Vec<u8>,
    pub(super) entries: Vec<Entry>,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) first: *mut (),
    pub(super) level: usize,
    pub(super) unused: Vec<*mut ()>,
}

/// What a node is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'contents> {
    pub(super) entries: &'contents [Entry],
    pub(super) lower: &'contents [u8],
    pub(super) upper: Option<&'contents [u8]>,
    pub(super) first: *mut (),
    pub(super) level: usize,
    /// Words of tail of an entry that will come next, and must have room.
    pub(super) next: Option<usize>,
}

impl Contents {
    /// Nothing yet.
    pub(super) fn new(level: usize) -> Self {
        Self {
            keys: Vec::new(),
            entries: Vec::new(),
            lower: Vec::new(),
            upper: None,
            first: std::ptr::null_mut(),
            level,
            unused: Vec::new(),
        }
    }

    pub(super) fn key(&self, entry: usize) -> &[u8] {
        self.key_of(&self.entries[entry])
    }

    fn key_of(&self, entry: &Entry) -> &[u8] {
        &self.keys[entry.start..entry.end]
    }

    /// Adds an entry behind all others.
    pub(super) fn push(&mut self, key: &[u8], value: *mut ()) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.entries.push(Entry {
            start,
            end: self.keys.len(),
            value,
            spilled: std::ptr::null_mut(),
        });
    }

    /// Removes an entry; its memory outside is unused.
    pub(super) fn forget(&mut self, entry: usize) {
        let spilled = self.entries[entry].spilled;
        if !spilled.is_null() {
            self.unused.push(spilled);
        }
        self.entries[entry].spilled = std::ptr::null_mut();
    }

    /// All of it, as it was.
    pub(super) fn whole(&self, next: Option<usize>) -> Part<'_> {
        Part {
            entries: &self.entries,
            lower: &self.lower,
            upper: self.upper.as_deref(),
            first: self.first,
            level: self.level,
            next,
        }
    }

    /// Words that a node of these entries takes, with room for the next.
    pub(super) fn words<const W: usize>(&self, part: &Part<'_>) -> usize {
        let prefix = prefix(part.lower, part.upper);
        let tails: usize = part
            .entries
            .iter()
            .map(|entry| tail_words::<W>(entry.end - entry.start, prefix))
            .sum();
        let slots = part.entries.len() + usize::from(part.next.is_some());
        slot_words(slots) + tails + part.next.unwrap_or(0) + fences_words::<W>(part)
    }

    /// Makes `node` what the part says. `unused` gets what no slot needs any more.
    pub(super) fn put_together<const W: usize>(
        &self,
        node: &Node<W>,
        part: &Part<'_>,
        books: &Books,
        unused: &mut Vec<*mut ()>,
    ) {
        let prefix = prefix(part.lower, part.upper);
        let mut low = W;
        let lower = put_fence(node, &mut low, part.lower, books);
        let upper = part
            .upper
            .map(|upper| put_fence(node, &mut low, upper, books));
        node.set_fences(Fences { lower, upper });
        let shape = Shape {
            count: part.entries.len(),
            capacity: self.capacity::<W>(part, prefix),
            level: part.level,
            prefix,
        };
        for (slot, entry) in part.entries.iter().enumerate() {
            let key = self.key_of(entry);
            let mark = put_tail(node, &mut low, key, prefix, entry.spilled, books);
            if mark.length != SPILLED && !entry.spilled.is_null() {
                unused.push(entry.spilled);
            }
            node.set_slot(shape, slot, word_at(key, prefix), entry.value, mark);
        }
        node.set_heap(Heap { low, garbage: 0 });
        node.set_run(0, SPILLED);
        node.set_first_child(part.first);
        assert!(slot_words(shape.capacity) <= low, "slots and heap meet");
        node.set_shape(shape);
    }

    /// How many slots the body gets, if keys to come are like those that are there.
    fn capacity<const W: usize>(&self, part: &Part<'_>, prefix: usize) -> usize {
        let available = W - fences_words::<W>(part);
        let count = part.entries.len() + usize::from(part.next.is_some());
        let tails: usize = part
            .entries
            .iter()
            .map(|entry| tail_words::<W>(entry.end - entry.start, prefix))
            .chain(part.next)
            .sum();
        // A slot takes two words and a quarter.
        let mut capacity = match count {
            0 => available * 4 / 9,
            _ => available * 4 * count / (9 * count + 4 * tails),
        };
        while slot_words(capacity) + tails > available {
            capacity -= 1;
        }
        capacity.max(count)
    }
}

/// How many bytes all keys between the fences have in common.
fn prefix(lower: &[u8], upper: Option<&[u8]>) -> usize {
    upper.map_or(0, |upper| common_prefix(lower, upper).min(LONGEST_PREFIX))
}

/// Words in the heap for a key of this length. A longer prefix never makes them more:
/// that is why whether a key is long is not asked of its suffix.
#[inline]
pub(super) fn tail_words<const W: usize>(length: usize, prefix: usize) -> usize {
    match length - prefix {
        0..=8 => 0,
        _ if length > Node::<W>::LONGEST => 1,
        suffix => (suffix - 8).div_ceil(8),
    }
}

fn fences_words<const W: usize>(part: &Part<'_>) -> usize {
    let words = |fence: &[u8]| {
        let length = if fence.len() > Node::<W>::FENCE {
            SPILLED
        } else {
            fence.len()
        };
        fence_words(Some((0, length)))
    };
    words(part.lower) + part.upper.map_or(0, words)
}

/// Writes bytes to the end of the free part of the heap, and says where.
fn put_bytes<const W: usize>(node: &Node<W>, low: &mut usize, bytes: &[u8]) -> usize {
    let words = bytes.len().div_ceil(8);
    *low -= words;
    for at in 0..words {
        let word = node.word(*low + at).expect("the heap is in the body");
        word.set(word_at(bytes, 8 * at));
    }
    *low
}

fn put_pointer<const W: usize>(node: &Node<W>, low: &mut usize, pointer: *mut ()) -> usize {
    *low -= 1;
    let word = node.word(*low).expect("the heap is in the body");
    word.set_pointer(pointer);
    *low
}

fn put_fence<const W: usize>(
    node: &Node<W>,
    low: &mut usize,
    fence: &[u8],
    books: &Books,
) -> (usize, usize) {
    match fence.len() {
        0 => (0, 0),
        length if length <= Node::<W>::FENCE => (put_bytes(node, low, fence), length),
        _ => (put_pointer(node, low, books.spill(fence)), SPILLED),
    }
}

/// Writes what of a key does not go into its head. `spilled` is memory that the key has
/// outside, or null.
pub(super) fn put_tail<const W: usize>(
    node: &Node<W>,
    low: &mut usize,
    key: &[u8],
    prefix: usize,
    spilled: *mut (),
    books: &Books,
) -> Mark {
    let length = key.len() - prefix;
    if length <= 8 {
        return Mark { place: 0, length };
    }
    if key.len() <= Node::<W>::LONGEST {
        let place = put_bytes(node, low, &key[prefix + 8..]);
        return Mark { place, length };
    }
    let spilled = match spilled.is_null() {
        true => books.spill(key),
        false => spilled,
    };
    Mark {
        place: put_pointer(node, low, spilled),
        length: SPILLED,
    }
}

impl<const W: usize> Node<W> {
    /// Everything that is in the node, for the latch's holder, who is about to put it
    /// together anew or to retire it: its memory outside is what the contents say.
    pub(super) fn take_apart(&self) -> Contents {
        let shape = self.shape();
        let mut contents = Contents::new(shape.level);
        let fences = self.fences();
        contents.lower = self.take_fence(fences.lower, &mut contents.unused);
        contents.upper = fences
            .upper
            .map(|upper| self.take_fence(upper, &mut contents.unused));
        contents.first = self.child(shape, 0).cast_mut().cast();
        self.take_entries(&mut contents);
        contents
    }

    /// Adds the entries to those that `contents` has already.
    pub(super) fn take_entries(&self, contents: &mut Contents) {
        let shape = self.shape();
        let mut prefix = Vec::new();
        self.read_fence(self.fences().lower, &mut prefix);
        prefix.truncate(shape.prefix);
        let Contents { keys, entries, .. } = contents;
        entries.reserve(shape.count);
        keys.reserve(shape.count * (shape.prefix + 24));
        for slot in 0..shape.count {
            let start = keys.len();
            let mark = self.mark(shape, slot);
            let mut spilled = std::ptr::null_mut();
            if mark.length == SPILLED {
                spilled = self.held_word(mark.place).pointer();
                // SAFETY: the caller holds the latch.
                let key = unsafe { self.spilled(mark.place, None) };
                keys.extend_from_slice(key.expect("a mark is right").bytes());
            } else {
                keys.extend_from_slice(&prefix);
                keys.extend_from_slice(&self.head(shape, slot).to_be_bytes());
                for at in 0..mark.tail_words() {
                    let word = self.held_word(mark.place + at).get();
                    keys.extend_from_slice(&word.to_be_bytes());
                }
                keys.truncate(start + shape.prefix + mark.length);
            }
            entries.push(Entry {
                start,
                end: keys.len(),
                value: self.value(shape, slot).pointer(),
                spilled,
            });
        }
    }

    /// A fence's bytes; its memory outside, if any, is put into `unused`.
    pub(super) fn take_fence(&self, fence: (usize, usize), unused: &mut Vec<*mut ()>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.read_fence(fence, &mut bytes);
        if fence.1 == SPILLED {
            unused.push(self.held_word(fence.0).pointer());
        }
        bytes
    }

    /// For the latch's holder: a fence's bytes.
    pub(super) fn read_fence(&self, (place, length): (usize, usize), bytes: &mut Vec<u8>) {
        bytes.clear();
        if length == SPILLED {
            // SAFETY: the caller holds the latch.
            let fence = unsafe { self.spilled(place, None) };
            bytes.extend_from_slice(fence.expect("a fence is in the body").bytes());
            return;
        }
        for at in 0..length.div_ceil(8) {
            bytes.extend_from_slice(&self.held_word(place + at).get().to_be_bytes());
        }
        bytes.truncate(length);
    }

    fn held_word(&self, place: usize) -> &super::word::Word {
        self.word(place).expect("a place of the heap")
    }
}
