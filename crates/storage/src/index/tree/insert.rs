//! Insertion: into a leaf that has room, or into one that is given room first.
//!
//! Who inserts goes down as a reader does and takes the leaf's latch from the version
//! that it saw, so what it found out about the leaf still holds. Only when there is no
//! room are more latches taken: see [`super::split`].

use coeval_types::Rid;

use super::Access;
use super::contents::{put_tail, tail_words};
use super::latch::Restart;
use super::node::{Heap, Node};
use super::search::{Place, Side, descend};
use super::spilled::Books;
use super::word::{as_pointer, word_at};

impl<const W: usize> Node<W> {
    /// For the latch's holder: puts an entry at `slot`, where it belongs and for which
    /// there is room.
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

    /// Whether an entry with so many words of tail can be put in as the node is.
    fn has_room(&self, tail: usize) -> bool {
        let shape = self.shape();
        shape.count < shape.capacity && self.free_words(shape) >= tail
    }
}

impl<const W: usize> Access<'_, W> {
    /// Gives the key this RID, unless it has one; then says which.
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

    /// For the latch's holder: makes room for an entry by putting the node together
    /// anew, if that gives enough of it to be worth the while.
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

    /// For the latch's holder: makes room for a separator. False if the
    /// node has to be split, and is as it was.
    pub(super) fn make_room(&self, node: &Node<W>, key: &[u8]) -> bool {
        let tail = tail_words::<W>(key.len(), node.shape().prefix);
        node.has_room(tail) || self.divide_anew(node, tail)
    }

    /// Goes down to this level, for a writer.
    pub(super) fn place(&self, key: &[u8], level: usize) -> Result<Place<'_, W>, Restart> {
        descend(&self.tree.root, key, Side::From, level)
    }
}
