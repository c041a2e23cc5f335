//! Decoded nodes: a node is decoded into whole keys, and encoded again with another prefix,
//! other fences, or another partition of its body. Splits and merges do this.
//!
//! ```text
//!   prefix "user:0001", slots …                       "user:00012", "user:00019", …
//!   fences "user:0001" … "user:0002"    ── decode ─▶  lower, upper
//!                                                          │ lower, new upper
//!   prefix "user:00011", slots …        ◀─ encode ────────┘ and half of the keys
//! ```
//!
//! For the latch's holder, and for nodes that are not linked yet. A long key's own memory
//! moves from its old slot to its new one; memory that no slot needs any more is listed in
//! [`Contents::unused`], for the caller to retire once the node is encoded.

use super::node::{Fences, Heap, Mark, Node, SPILLED, Shape, fence_words, slot_words};
use super::spilled::Books;
use super::word::{common_prefix, word_at};

/// The longest prefix that a shape can hold: a longer one is cut, which only costs
/// comparisons.
const LONGEST_PREFIX: usize = u32::MAX as usize;

/// A key with its value. The keys' bytes are consecutive in [`Contents::keys`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    start: usize,
    end: usize,
    pub(super) value: *mut (),
    /// The key's memory outside the node, or null.
    spilled: *mut (),
}

/// The decoded contents of a node: its entries with whole keys, and its fences.
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

/// Description of a node to encode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'contents> {
    pub(super) entries: &'contents [Entry],
    pub(super) lower: &'contents [u8],
    pub(super) upper: Option<&'contents [u8]>,
    pub(super) first: *mut (),
    pub(super) level: usize,
    /// Words of tail of an entry that will be inserted next, for which the node must have
    /// room.
    pub(super) next: Option<usize>,
}

impl Contents {
    /// Contents without entries.
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

    /// Appends an entry.
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

    /// Releases an entry's memory outside the node, because the entry will be removed.
    pub(super) fn forget(&mut self, entry: usize) {
        let spilled = self.entries[entry].spilled;
        if !spilled.is_null() {
            self.unused.push(spilled);
        }
        self.entries[entry].spilled = std::ptr::null_mut();
    }

    /// Describes a node with all entries and the old fences.
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

    /// Words that a node of these entries takes, with room for the next entry.
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

    /// Encodes `part` into `node`. Adds to `unused` the memory that no slot needs any more.
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

    /// Number of slots that the body gets, assuming that future keys resemble the present
    /// ones.
    fn capacity<const W: usize>(&self, part: &Part<'_>, prefix: usize) -> usize {
        let available = W - fences_words::<W>(part);
        let count = part.entries.len() + usize::from(part.next.is_some());
        let tails: usize = part
            .entries
            .iter()
            .map(|entry| tail_words::<W>(entry.end - entry.start, prefix))
            .chain(part.next)
            .sum();
        // A slot takes two and a quarter words.
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

/// Number of leading bytes that all keys between the fences share.
fn prefix(lower: &[u8], upper: Option<&[u8]>) -> usize {
    upper.map_or(0, |upper| common_prefix(lower, upper).min(LONGEST_PREFIX))
}

/// Words in the heap for a key of this length. A longer prefix never increases them: for
/// that reason, whether a key is spilled depends on its own length, not on its suffix's.
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

/// Writes bytes to the end of the heap's free part, and returns their position.
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

/// Writes the part of a key that does not fit its head. `spilled` is the key's existing
/// memory outside the node, or null.
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
    /// Decodes the whole node, for the latch's holder, who will encode it anew or retire
    /// it: the contents own the node's outside memory from then on.
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

    /// Appends the node's entries to those of `contents`.
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

    /// A fence's bytes; adds the fence's outside memory, if any, to `unused`.
    pub(super) fn take_fence(&self, fence: (usize, usize), unused: &mut Vec<*mut ()>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.read_fence(fence, &mut bytes);
        if fence.1 == SPILLED {
            unused.push(self.held_word(fence.0).pointer());
        }
        bytes
    }

    /// Copies a fence's bytes. For the latch's holder.
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
