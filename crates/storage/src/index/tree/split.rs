//! Splits of the B+tree: a full node becomes two.
//!
//! ```text
//!         parent  … │ s0 │ s2 │ …                 … │ s0 │ s1 │ s2 │ …
//!                     ▼                              ▼    ▼
//!               [a b c d e f]            ──▶      [a b c] [d e f]
//!               s0        s2                      s0   s1 s1   s2        fences
//! ```
//!
//! The writer takes the latches of the parent and of the node, in this order. It finishes
//! the new node before the parent leads to it. If the parent has no room for the separator,
//! the writer releases all latches, splits the parent first, and restarts the insertion.
//!
//! The root stays in place: when it is full, its contents move to two new nodes, and it
//! becomes their parent.
//!
//! # Split position
//!
//! In the middle, by words. But keys often arrive in order, at the end of the tree or at
//! several positions of it (orders of many districts): a run of insertions, each directly
//! after the previous one, splits the node where the run has arrived. The left node then
//! stays full, rather than half empty for ever.
//!
//! A leaf's separator is the shortest key that separates the halves; an inner node's is its
//! middle separator, which moves up.

use super::Access;
use super::contents::{Contents, Part};
use super::latch::Restart;
use super::node::Node;
use super::search::LeafPosition;
use super::word::separator;

/// Number of consecutive insertions from which on they count as a run.
const RUN: usize = 8;

/// The position at which a node is split.
#[derive(Debug)]
struct Cut {
    /// Index of the first entry of the right node; in an inner node, this entry moves up
    /// instead.
    at: usize,
    separator: Vec<u8>,
}

impl<const W: usize> Access<'_, W> {
    /// Splits the node at `place`, which has no room for `key` at `slot`.
    pub(super) fn split(
        &self,
        place: &LeafPosition<'_, W>,
        key: &[u8],
        slot: usize,
    ) -> Result<(), Restart> {
        let node = place.at.node;
        let Some((parent, index)) = place.parent else {
            let _held = node.latch.lock(place.at.version)?;
            self.split_root(key, slot);
            return Ok(());
        };
        let held_parent = parent.node.latch.lock(parent.version)?;
        let Ok(held) = node.latch.lock(place.at.version) else {
            held_parent.release_unchanged();
            return Err(Restart);
        };
        let mut contents = node.take_apart();
        let cut = cut::<W>(node, &contents, key, slot);
        let before = parent.node.shape();
        if !self.make_room(parent.node, &cut.separator) {
            held.release_unchanged();
            held_parent.release_unchanged();
            return self.split_level(key, before.level);
        }
        let right = self.tree.books.node::<W>();
        let mut unused = Vec::new();
        let (left_part, right_part) = halves(&mut contents, &cut);
        let books = &self.tree.books;
        contents.put_together(&right, &right_part.of(&contents, &cut), books, &mut unused);
        contents.put_together(node, &left_part.of(&contents, &cut), books, &mut unused);
        let right = Box::into_raw(right).cast();
        parent
            .node
            .insert_entry(index, &cut.separator, right, books);
        drop(held);
        drop(held_parent);
        unused.append(&mut contents.unused);
        self.retire_spilled(unused);
        Ok(())
    }

    /// Splits the node of this level that covers the key, unless it has room by now.
    fn split_level(&self, key: &[u8], level: usize) -> Result<(), Restart> {
        let place = self.place(key, level)?;
        let shape = place.at.node.shape();
        let (slot, _) = place.at.node.find(shape, key, place.at.version)?;
        let has_room = place.at.node.has_room_when_divided(Node::<W>::SLOT);
        place.at.validate()?;
        if shape.level != level || has_room {
            return Err(Restart);
        }
        self.split(&place, key, slot)
    }

    /// Splits the root, whose latch the caller holds.
    fn split_root(&self, key: &[u8], slot: usize) {
        let root = &*self.tree.root;
        let books = &self.tree.books;
        let mut contents = root.take_apart();
        let cut = cut::<W>(root, &contents, key, slot);
        let mut unused = Vec::new();
        let (left_part, right_part) = halves(&mut contents, &cut);
        let (left, right) = (books.node::<W>(), books.node::<W>());
        contents.put_together(&right, &right_part.of(&contents, &cut), books, &mut unused);
        contents.put_together(&left, &left_part.of(&contents, &cut), books, &mut unused);
        let mut above = Contents::new(contents.level + 1);
        above.first = Box::into_raw(left).cast();
        above.push(&cut.separator, Box::into_raw(right).cast());
        above.put_together(root, &above.whole(None), books, &mut unused);
        unused.append(&mut contents.unused);
        self.retire_spilled(unused);
    }
}

/// One of the two nodes of a split, with the entries that it gets.
struct Half {
    entries: std::ops::Range<usize>,
    first: *mut (),
    is_right: bool,
}

impl Half {
    fn of<'contents>(&self, contents: &'contents Contents, cut: &'contents Cut) -> Part<'contents> {
        let (lower, upper) = match self.is_right {
            false => (&contents.lower, Some(&cut.separator)),
            true => (&cut.separator, contents.upper.as_ref()),
        };
        Part {
            entries: &contents.entries[self.entries.clone()],
            lower,
            upper: upper.map(|upper| &upper[..]),
            first: self.first,
            level: contents.level,
            next: None,
        }
    }
}

fn halves(contents: &mut Contents, cut: &Cut) -> (Half, Half) {
    let mut right = Half {
        entries: cut.at..contents.entries.len(),
        first: std::ptr::null_mut(),
        is_right: true,
    };
    if contents.level > 0 {
        // The entry moves up, and its child is the right node's first.
        right.first = contents.entries[cut.at].value;
        right.entries.start += 1;
        contents.forget(cut.at);
    }
    let left = Half {
        entries: 0..cut.at,
        first: contents.first,
        is_right: false,
    };
    (left, right)
}

/// Chooses where to split a node that has no room for `key` at `slot`.
fn cut<const W: usize>(node: &Node<W>, contents: &Contents, key: &[u8], slot: usize) -> Cut {
    let count = contents.entries.len();
    let is_leaf = contents.level == 0;
    assert!(count > 1, "a full node has entries to share out");
    let (run, last) = node.run();
    if slot == last + 1 && run >= RUN.min(count / 2) {
        let end_of_run = if is_leaf { slot } else { slot.min(count - 1) };
        // The new fence may be longer than the one that it replaces, so that nearly all of
        // the entries may not fit.
        for at in (end_of_run.max(3) - 2..=end_of_run).rev() {
            let separator = match is_leaf {
                true if at == slot => separator(contents.key(at - 1), key),
                true => separator(contents.key(at - 1), contents.key(at)),
                false => contents.key(at),
            };
            if fit::<W>(contents, at, separator) {
                let separator = separator.to_vec();
                return Cut { at, separator };
            }
        }
    }
    let at = middle::<W>(contents);
    let separator = match is_leaf {
        true => separator(contents.key(at - 1), contents.key(at)),
        false => contents.key(at),
    };
    assert!(fit::<W>(contents, at, separator), "halves fit");
    let separator = separator.to_vec();
    Cut { at, separator }
}

/// Whether both halves of a node fit into nodes.
fn fit<const W: usize>(contents: &Contents, at: usize, separator: &[u8]) -> bool {
    let left = Part {
        entries: &contents.entries[..at],
        upper: Some(separator),
        ..contents.whole(None)
    };
    let right = Part {
        entries: &contents.entries[at..],
        lower: separator,
        ..contents.whole(None)
    };
    contents.words::<W>(&left) <= W && contents.words::<W>(&right) <= W
}

/// The entry before which half of the words are.
fn middle<const W: usize>(contents: &Contents) -> usize {
    let count = contents.entries.len();
    let words = |entries: usize| {
        contents.words::<W>(&Part {
            entries: &contents.entries[..entries],
            ..contents.whole(None)
        })
    };
    let half = words(count) / 2;
    let (mut low, mut high) = (1, count - 1);
    while low < high {
        let middle = low.midpoint(high);
        if words(middle) < half {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
