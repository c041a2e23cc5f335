//! Insertion into the B+tree: into a leaf with room, or into one that makes room first.
//!
//! The writer descends as a reader does and takes the leaf's latch at the version that it
//! has read, so what it has read of the leaf is still valid. It takes more latches only
//! when the leaf has no room: see [`super::split`].

use coeval_types::Rid;

use super::Access;
use super::contents::{put_tail, tail_words};
use super::latch::Restart;
use super::node::{Heap, Node};
use super::search::{LeafPosition, Side, descend};
use super::spilled::Books;
use super::word::{as_pointer, word_at};

impl<const W: usize> Node<W> {
    /// Inserts an entry at its slot; the node has room. For the latch's holder.
    pub(super) fn insert_entry(&self, slot: usize, key: &[u8], value: *mut (), books: &Books) {
        let prefix = self.shape().prefix;
        let heap = self.heap();
        let mut low = heap.low;
        let mark = put_tail(self, &mut low, key, prefix, std::ptr::null_mut(), books);
        self.set_heap(Heap { low, ..heap });
        let (run, last) = self.run();
        self.set_run(if slot == last + 1 { run + 1 } else { 0 }, slot);
        self.insert_slot(slot, word_at(key, prefix), value, mark);
    }

    /// Whether the node has room for an entry with `tail` words of tail without being
    /// re-encoded.
    fn has_room(&self, tail: usize) -> bool {
        let shape = self.shape();
        shape.count < shape.capacity && self.free_words(shape) >= tail
    }
}

impl<const W: usize> Access<'_, W> {
    /// Maps the key to this RID, unless it has one, which is then returned as the error.
    pub(super) fn insert(&self, key: &[u8], rid: Rid) -> Result<(), Rid> {
        self.until_done(|| self.try_insert(key, rid))
    }

    fn try_insert(&self, key: &[u8], rid: Rid) -> Result<Result<(), Rid>, Restart> {
        let place = descend(&self.tree.root, key, Side::From, 0)?;
        let (node, version) = (place.at.node, place.at.version);
        let shape = node.shape();
        let (slot, exact) = node.find(shape, key, version)?;
        if exact {
            let there = Rid(node.value(shape, slot).get());
            place.at.validate()?;
            return Ok(Err(there));
        }
        let held = node.latch.lock(version)?;
        let tail = tail_words::<W>(key.len(), shape.prefix);
        if node.has_room(tail) {
            node.insert_entry(slot, key, as_pointer(rid.0), &self.tree.books);
            drop(held);
            return Ok(Ok(()));
        }
        if self.divide_anew(node, tail) {
            drop(held);
        } else {
            held.release_unchanged();
            self.split(&place, key, slot)?;
        }
        Err(Restart)
    }

    /// Maps the key to `to` if it is mapped to `from`; returns whether it was. Every reader
    /// finds one or the other.
    pub(super) fn replace(&self, key: &[u8], from: Rid, to: Rid) -> bool {
        self.until_done(|| self.try_replace(key, from, to))
    }

    fn try_replace(&self, key: &[u8], from: Rid, to: Rid) -> Result<bool, Restart> {
        let place = self.place(key, 0)?;
        let node = place.at.node;
        let shape = node.shape();
        let (slot, exact) = node.find(shape, key, place.at.version)?;
        if !exact || node.value(shape, slot).pointer() != as_pointer(from.0) {
            place.at.validate()?;
            return Ok(false);
        }
        let held = node.latch.lock(place.at.version)?;
        node.value(shape, slot).set_pointer(as_pointer(to.0));
        drop(held);
        Ok(true)
    }

    /// Makes room for an entry by re-encoding the node, if that frees enough to be
    /// worthwhile. For the latch's holder.
    pub(super) fn divide_anew(&self, node: &Node<W>, tail: usize) -> bool {
        if !node.has_room_when_divided(tail) {
            return false;
        }
        let contents = node.take_apart();
        let part = contents.whole(Some(tail));
        let mut unused = Vec::new();
        contents.put_together(node, &part, &self.tree.books, &mut unused);
        unused.extend_from_slice(&contents.unused);
        self.retire_spilled(unused);
        true
    }

    /// Makes room for a separator. Returns false, with the node unchanged, if the node has
    /// to be split. For the latch's holder.
    pub(super) fn make_room(&self, node: &Node<W>, key: &[u8]) -> bool {
        let tail = tail_words::<W>(key.len(), node.shape().prefix);
        node.has_room(tail) || self.divide_anew(node, tail)
    }

    /// Descends to the node of this level that covers the key, for a writer.
    pub(super) fn place(&self, key: &[u8], level: usize) -> Result<LeafPosition<'_, W>, Restart> {
        descend(&self.tree.root, key, Side::From, level)
    }
}
