//! Memory of a tree outside its nodes' bodies: allocation, accounting and retirement of
//! long keys and of the nodes themselves.

use std::sync::atomic::{AtomicI64, Ordering};

use coeval_memory::epoch::Guard;
use coeval_memory::heap::size_class;

use super::node::Node;

/// A key that is too long for a node. It belongs to one slot or fence, and never changes.
#[derive(Debug)]
pub(super) struct Spilled(Box<[u8]>);

impl Spilled {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn memory(&self) -> i64 {
        (size_class(size_of::<Self>()) + size_class(self.0.len())) as i64
    }
}

/// Memory accounting of a tree, in the size classes of the allocator.
// Counters are no part of any protocol, so std's atomics serve under checkers too.
#[derive(Debug, Default)]
pub(super) struct Books {
    nodes: AtomicI64,
    spilled: AtomicI64,
}

impl Books {
    /// Bytes that the tree occupies. Retired memory is no longer counted.
    pub(super) fn memory<const W: usize>(&self) -> u64 {
        let nodes = self.nodes.load(Ordering::Relaxed) * size_class(size_of::<Node<W>>()) as i64;
        let bytes = nodes + self.spilled.load(Ordering::Relaxed);
        // A sum taken while writers run may be negative for a moment.
        bytes.try_into().unwrap_or(0)
    }

    /// Allocates a node.
    pub(super) fn node<const W: usize>(&self) -> Box<Node<W>> {
        self.nodes.fetch_add(1, Ordering::Relaxed);
        Node::new()
    }

    /// Copies a long key to memory of its own; returns the pointer for a word to hold.
    pub(super) fn spill(&self, key: &[u8]) -> *mut () {
        let spilled = Box::new(Spilled(key.into()));
        self.spilled.fetch_add(spilled.memory(), Ordering::Relaxed);
        Box::into_raw(spilled).cast()
    }

    /// Retires a long key.
    ///
    /// # Safety
    /// `pointer` came from [`Books::spill`]; the slot or fence that led to it no longer
    /// does, or its node is retired too; it is retired once. The guard is of the tree's
    /// domain.
    /// tree's domain.
    pub(super) unsafe fn retire_spilled(&self, pointer: *mut (), guard: &Guard<'_>) {
        let pointer = pointer.cast::<Spilled>();
        // SAFETY: made by `spill`, and not freed before it is retired, which is below.
        let memory = unsafe { (*pointer).memory() };
        self.spilled.fetch_sub(memory, Ordering::Relaxed);
        // SAFETY: the caller has unlinked it; and it came from `Box::into_raw`.
        unsafe { guard.retire_box(pointer) };
    }

    /// Retires a node, but not the children and keys that it leads to.
    ///
    /// # Safety
    /// `node` was allocated by [`Books::node`], no other node leads to it any more, and it
    /// is retired once. The guard is of the tree's domain.
    pub(super) unsafe fn retire_node<const W: usize>(
        &self,
        node: *const Node<W>,
        guard: &Guard<'_>,
    ) {
        self.nodes.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller has unlinked it; every node is made into a raw pointer when it
        // is linked.
        unsafe { guard.retire_box(node.cast_mut()) };
    }

    /// Frees a long key at once.
    ///
    /// # Safety
    /// `pointer` came from [`Books::spill`]; no other thread can reach it, and none frees
    /// it.
    pub(super) unsafe fn free_spilled(pointer: *mut ()) {
        // SAFETY: it came from `Box::into_raw`; the rest is the caller's promise.
        drop(unsafe { Box::from_raw(pointer.cast::<Spilled>()) });
    }
}
