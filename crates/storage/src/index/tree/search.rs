//! Search for a key: within a node, and from the root downwards.
//!
//! # In a node
//!
//! Heads are searched first, by branchless binary search. Tails are compared only where
//! heads are equal: seldom more than once, because few keys share the eight bytes after the
//! node's prefix.
//!
//! The prefix itself is not compared: a thread that has descended by validated steps looks
//! for a key between the node's fences, and all such keys have the prefix.
//!
//! # Descent
//!
//! ```text
//!   version of parent ─▶ child's address ─▶ validate parent      the address is genuine,
//!                                                                and the child not freed
//!                        version of child ─▶ validate parent     the child had these
//!                                                                fences at that moment
//! ```
//!
//! Invariant: a step that is not validated has no effect, and no address is followed before
//! it was validated.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use super::latch::{Restart, Version};
use super::node::{Node, SPILLED, Shape};
use super::word::word_at;

/// A node that a reader has visited, with the version that it loaded.
#[derive(Debug)]
pub(super) struct Seen<'tree, const W: usize> {
    pub(super) node: &'tree Node<W>,
    pub(super) version: Version,
}

impl<const W: usize> Clone for Seen<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const W: usize> Copy for Seen<'_, W> {}

impl<const W: usize> Seen<'_, W> {
    #[inline]
    pub(super) fn validate(&self) -> Result<(), Restart> {
        self.node.latch.validate(self.version)
    }

    /// Validates like [`Seen::validate`], before a result is returned to the caller.
    #[inline]
    pub(super) fn validate_result(&self) -> Result<(), Restart> {
        #[cfg(any(loom, shuttle))]
        if crate::faults::UNVALIDATED.is_there() {
            return Ok(());
        }
        self.validate()
    }
}

/// The node at which a descent has ended.
#[derive(Debug)]
pub(super) struct LeafPosition<'tree, const W: usize> {
    pub(super) at: Seen<'tree, W>,
    /// The parent, and the index of this child in it; `None` for the root.
    pub(super) parent: Option<(Seen<'tree, W>, usize)>,
}

/// Which of two siblings to descend to for the key that separates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The right node, with keys from the separator on: where the key itself is.
    From,
    /// The left node, with keys below the separator.
    Below,
    /// The last node, whatever the key.
    Last,
}

impl<const W: usize> Node<W> {
    /// The slot of the key, and true; or the first slot with a greater key, and false.
    #[inline]
    pub(super) fn find(
        &self,
        shape: Shape,
        key: &[u8],
        version: Version,
    ) -> Result<(usize, bool), Restart> {
        let slot = self.first_slot(shape, key);
        self.find_from(shape, slot, key, version)
    }

    /// The first slot whose head is not below the key's. Reads heads only.
    #[inline]
    pub(super) fn first_slot(&self, shape: Shape, key: &[u8]) -> usize {
        self.first_head(shape, word_at(key, shape.prefix))
    }

    /// The result of [`Node::find`], starting from the result of [`Node::first_slot`].
    #[inline]
    pub(super) fn find_from(
        &self,
        shape: Shape,
        slot: usize,
        key: &[u8],
        version: Version,
    ) -> Result<(usize, bool), Restart> {
        let head = word_at(key, shape.prefix);
        if slot == shape.count || self.head(shape, slot) != head {
            return Ok((slot, false));
        }
        // Nearly always the head is unique.
        let mut low = slot;
        let mut high = slot + 1;
        if high < shape.count && self.head(shape, high) == head {
            high = match head.checked_add(1) {
                Some(next) => self.first_head(shape, next),
                None => shape.count,
            };
        }
        while low < high {
            let middle = low.midpoint(high);
            match self.compare_rest(shape, middle, key, version)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

    /// The first slot whose head is not below `head`.
    #[inline]
    fn first_head(&self, shape: Shape, head: u64) -> usize {
        let mut base = 0;
        let mut count = shape.count;
        if count == 0 {
            return 0;
        }
        while count > 1 {
            let half = count / 2;
            let below = self.head(shape, base + half - 1) < head;
            // The branch is unpredictable: a branch instruction would be mispredicted half
            // the time.
            base += select_unpredictable(below, half, 0);
            count -= half;
        }
        base + usize::from(self.head(shape, base) < head)
    }

    /// Compares a slot's key with `key`, whose head is equal.
    #[inline]
    fn compare_rest(
        &self,
        shape: Shape,
        slot: usize,
        key: &[u8],
        version: Version,
    ) -> Result<Ordering, Restart> {
        let mark = self.mark(shape, slot);
        // Shorter than the prefix only when the node has changed.
        let length = key.len().checked_sub(shape.prefix).ok_or(Restart)?;
        if mark.length == SPILLED {
            // SAFETY: callers are pinned since before the version was loaded.
            let spilled = unsafe { self.spilled(mark.place, Some(version))? };
            return Ok(spilled.bytes().cmp(key));
        }
        if mark.length > 8 && length > 8 {
            for at in 0..mark.tail_words() {
                let theirs = self.word(mark.place + at)?.get();
                let ours = word_at(key, shape.prefix + 8 + 8 * at);
                if theirs != ours {
                    return Ok(theirs.cmp(&ours));
                }
            }
        }
        Ok(mark.length.cmp(&length))
    }

    /// Index of the child that covers the key.
    #[inline]
    pub(super) fn child_index(
        &self,
        shape: Shape,
        key: &[u8],
        side: Side,
        version: Version,
    ) -> Result<usize, Restart> {
        if side == Side::Last {
            return Ok(shape.count);
        }
        let (slot, exact) = self.find(shape, key, version)?;
        Ok(slot + usize::from(exact && side == Side::From))
    }
}

/// Enters the child at an address that was just read.
///
/// # Safety
/// The caller read the address from `parent`, with its version loaded before, and while it
/// was pinned in the tree's domain; the pin lasts for `'tree`.
#[inline]
pub(super) unsafe fn enter<'tree, const W: usize>(
    parent: Seen<'tree, W>,
    child: *const Node<W>,
) -> Result<Seen<'tree, W>, Restart> {
    parent.validate()?;
    // SAFETY: the parent led to it while the caller was pinned, which validation has shown;
    // so it is not freed before the pin ends.
    let node = unsafe { &*child };
    let version = node.latch.read()?;
    #[cfg(any(loom, shuttle))]
    if crate::faults::ENTERED_BLINDLY.is_there() {
        return Ok(Seen { node, version });
    }
    parent.validate()?;
    Ok(Seen { node, version })
}

/// Descends to the node of this level whose fences enclose the key. The caller is pinned in
/// the tree's domain for `'tree`.
///
/// In a tree with fewer levels, the descent ends at the root.
#[inline]
pub(super) fn descend<'tree, const W: usize>(
    root: &'tree Node<W>,
    key: &[u8],
    side: Side,
    level: usize,
) -> Result<LeafPosition<'tree, W>, Restart> {
    let mut at = Seen {
        node: root,
        version: root.latch.read()?,
    };
    let mut parent = None;
    loop {
        let shape = at.node.shape();
        if shape.level <= level {
            return Ok(LeafPosition { at, parent });
        }
        let index = at.node.child_index(shape, key, side, at.version)?;
        let child = at.node.child(shape, index);
        Node::prefetch(child);
        // SAFETY: read from `at` after its version; the caller is pinned for 'tree.
        let next = unsafe { enter(at, child)? };
        parent = Some((at, index));
        at = next;
    }
}
