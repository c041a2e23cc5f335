//! Removal from the B+tree, and merges: a nearly empty node is merged with a sibling.
//!
//! ```text
//!         parent  … │ s0 │ s1 │ s2 │ …            … │ s0 │ s2 │ …
//!                     ▼    ▼                         ▼
//!                   [a b]  [e]             ──▶    [a b e]
//! ```
//!
//! The writer takes the latches of the parent, the left and the right node, in this order.
//! It moves all entries to the left node, marks the right one as gone and retires it: a
//! reader that is still on it notices that, and restarts. Then the parent may be nearly
//! empty, and so on upwards. A root with a single child takes over the child's contents.
//!
//! Two nodes are merged only if part of the result stays free, so that the result is not
//! split again at once.

use coeval_types::Rid;

use super::Access;
use super::latch::Restart;
use super::node::{Node, SPILLED, Shape};
use super::search::{Seen, enter};
use super::word::as_pointer;

/// Maximum number of words of two nodes together for which they are merged.
const fn mergeable(words: usize) -> usize {
    words - words / 4
}

impl<const W: usize> Node<W> {
    /// Whether the node should be merged with a sibling. For the latch's holder, or for a
    /// reader that validates afterwards.
    fn is_nearly_empty(&self, shape: Shape) -> bool {
        shape.count == 0 || self.used_words(shape).0 < W / 4
    }
}

impl<const W: usize> Access<'_, W> {
    /// Removes the key if it is mapped to this RID; returns whether it was.
    pub(super) fn remove(&self, key: &[u8], rid: Rid) -> bool {
        let Some(is_nearly_empty) = self.until_done(|| self.try_remove(key, rid)) else {
            return false;
        };
        if is_nearly_empty {
            self.merge(key);
        }
        true
    }

    /// Removes the key, if it is mapped to this RID; returns then whether the leaf is
    /// nearly empty.
    fn try_remove(&self, key: &[u8], rid: Rid) -> Result<Option<bool>, Restart> {
        let place = self.place(key, 0)?;
        let node = place.at.node;
        let shape = node.shape();
        let (slot, exact) = node.find(shape, key, place.at.version)?;
        if !exact || node.value(shape, slot).pointer() != as_pointer(rid.0) {
            place.at.validate()?;
            return Ok(None);
        }
        let held = node.latch.lock(place.at.version)?;
        let removed = self.remove_entry(node, slot);
        let is_nearly_empty = place.parent.is_some() && node.is_nearly_empty(node.shape());
        drop(held);
        self.retire_spilled(removed);
        Ok(Some(is_nearly_empty))
    }

    /// Removes an entry and returns its memory outside the node, for the caller to retire.
    /// For the latch's holder.
    fn remove_entry(&self, node: &Node<W>, slot: usize) -> Option<*mut ()> {
        let mark = node.mark(node.shape(), slot);
        let spilled = (mark.length == SPILLED)
            .then(|| node.word(mark.place).expect("a mark is right").pointer());
        node.remove_slot(slot);
        spilled
    }

    /// Merges nearly empty nodes on the path to the key, from the leaf upwards.
    #[cold]
    fn merge(&self, key: &[u8]) {
        let mut level = 0;
        while self.until_done(|| self.try_merge(key, level)) {
            level += 1;
        }
    }

    /// Merges the node of this level on the path to the key, if it is nearly empty. Returns
    /// whether the parent has to be checked as well.
    fn try_merge(&self, key: &[u8], level: usize) -> Result<bool, Restart> {
        let place = self.place(key, level)?;
        let shape = place.at.node.shape();
        place.at.validate()?;
        let Some((parent, index)) = place.parent else {
            if shape.level > 0 && shape.count == 0 {
                self.lower_root(place.at)?;
            }
            return Ok(false);
        };
        if shape.level != level {
            return Err(Restart);
        }
        let is_nearly_empty = place.at.node.is_nearly_empty(shape);
        place.at.validate()?;
        if !is_nearly_empty {
            return Ok(false);
        }
        let children = parent.node.shape().count + 1;
        parent.validate()?;
        if index > 0 {
            let left = self.sibling(parent, index - 1)?;
            if self.join(parent, index - 1, left, place.at)? {
                return Ok(true);
            }
        }
        if index + 1 < children {
            let right = self.sibling(parent, index + 1)?;
            if self.join(parent, index, place.at, right)? {
                return Ok(true);
            }
        }
        // An only child cannot be merged before its parent; it is checked again when an
        // entry is removed from it.
        Ok(children == 1)
    }

    fn sibling<'tree>(
        &'tree self,
        parent: Seen<'tree, W>,
        index: usize,
    ) -> Result<Seen<'tree, W>, Restart> {
        let child = parent.node.child(parent.node.shape(), index);
        // SAFETY: read from the parent after its version; `self` is pinned.
        unsafe { enter(parent, child) }
    }

    /// Merges the parent's children `index` and `index + 1` into `left`, if they fit.
    fn join(
        &self,
        parent: Seen<'_, W>,
        index: usize,
        left: Seen<'_, W>,
        right: Seen<'_, W>,
    ) -> Result<bool, Restart> {
        let used = |seen: Seen<'_, W>| seen.node.used_words(seen.node.shape()).0;
        let together = used(left).saturating_add(used(right));
        left.validate()?;
        right.validate()?;
        if together > mergeable(W) {
            return Ok(false);
        }
        let held_parent = parent.node.latch.lock(parent.version)?;
        let Ok(held_left) = left.node.latch.lock(left.version) else {
            held_parent.release_unchanged();
            return Err(Restart);
        };
        let Ok(held_right) = right.node.latch.lock(right.version) else {
            held_left.release_unchanged();
            held_parent.release_unchanged();
            return Err(Restart);
        };
        let mut contents = left.node.take_apart();
        let separator = right
            .node
            .take_fence(right.node.fences().lower, &mut contents.unused);
        let upper = right.node.fences().upper;
        contents.upper = upper.map(|upper| right.node.take_fence(upper, &mut contents.unused));
        if contents.level > 0 {
            // The separator moves down, before the right node's first child.
            let first = right.node.child(right.node.shape(), 0);
            contents.push(&separator, first.cast_mut().cast());
        }
        right.node.take_entries(&mut contents);
        let part = contents.whole(None);
        if contents.words::<W>(&part) > mergeable(W) {
            held_right.release_unchanged();
            held_left.release_unchanged();
            held_parent.release_unchanged();
            return Ok(false);
        }
        let mut unused = Vec::new();
        contents.put_together(left.node, &part, &self.tree.books, &mut unused);
        unused.extend(self.remove_entry(parent.node, index));
        held_right.release_gone();
        drop(held_left);
        drop(held_parent);
        unused.append(&mut contents.unused);
        self.retire_spilled(unused);
        // SAFETY: the parent led to it and no longer does; it is marked as gone, so no
        // other writer retires it.
        unsafe { self.tree.books.retire_node(right.node, self.guard) };
        Ok(true)
    }

    /// Replaces a root that has a single child by that child's contents.
    fn lower_root(&self, root: Seen<'_, W>) -> Result<(), Restart> {
        let child = self.sibling(root, 0)?;
        let held_root = root.node.latch.lock(root.version)?;
        let Ok(held_child) = child.node.latch.lock(child.version) else {
            held_root.release_unchanged();
            return Err(Restart);
        };
        let mut contents = child.node.take_apart();
        let mut unused = Vec::new();
        let part = contents.whole(None);
        contents.put_together(root.node, &part, &self.tree.books, &mut unused);
        held_child.release_gone();
        drop(held_root);
        unused.append(&mut contents.unused);
        self.retire_spilled(unused);
        // SAFETY: the root led to it and no longer does; it is marked as gone, so no other
        // writer retires it.
        unsafe { self.tree.books.retire_node(child.node, self.guard) };
        Ok(())
    }
}
