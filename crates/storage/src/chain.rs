//! Append-only version chains: linked lists of versions, and a version in place with a
//! list of its predecessors, for measurements of record layouts other than
//! [`crate::record`].
//!
//! ```text
//!   Chain      first ──▶ newest ──▶ … ──▶ oldest        grows at the front
//!   Queue      first ──▶ oldest ──▶ … ──▶ newest ◀── last    grows at the end
//!   Displaced  newest in place, the others in a Chain
//! ```
//!
//! No node is unlinked before the whole list is dropped, so a reader that borrows the
//! list needs no protection, and every call here is safe. This module holds all the
//! unsafe code of a record layout; the layout itself decides which version a reader
//! takes, and who may write.
//!
//! # Invariants
//!
//! - A node and its value are freed with their list, or never: two writers that add to a
//!   list at once may lose a node, which is then leaked. A layout must have one writer at
//!   a time.
//! - Every value has at most one owner.

use std::ptr;

use coeval_memory::heap::size_class;
use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::Timestamp;

use crate::record::Version;
use crate::value::{self, Value, size_at};

/// A version in a list. Its timestamp is infinite until the writer commits it.
#[derive(Debug)]
pub struct Node {
    cts: AtomicU64,
    value: AtomicPtr<value::Header>,
    next: AtomicPtr<Node>,
}

impl Node {
    /// Allocates a node, which owns the value.
    fn make(cts: u64, value: *mut value::Header, next: *mut Self) -> *mut Self {
        Box::into_raw(Box::new(Self {
            cts: AtomicU64::new(cts),
            value: AtomicPtr::new(value),
            next: AtomicPtr::new(next),
        }))
    }

    /// The commit timestamp, infinite before the commit.
    #[inline]
    #[must_use]
    pub fn cts(&self) -> Timestamp {
        Timestamp::from_bits(self.cts.load(Ordering::Acquire))
    }

    /// Commits the version at `cts`.
    pub fn stamp(&self, cts: Timestamp) {
        self.cts.store(cts.to_bits(), Ordering::Release);
    }

    /// The node's version, for a reader that has loaded `cts` from it after visiting
    /// `jumps` nodes.
    #[inline]
    #[must_use]
    pub fn version(&self, cts: Timestamp, jumps: u32) -> Version<'_> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a value is freed with its node, and the node with the list, which is
        // borrowed for as long as the node.
        unsafe { Version::new(cts, value, jumps) }
    }
}

/// The nodes from `first` on.
///
/// # Safety
/// The nodes are linked in a list that is borrowed for `'list`.
#[inline]
unsafe fn nodes<'list>(first: &AtomicPtr<Node>) -> impl Iterator<Item = &'list Node> + use<'list> {
    // SAFETY: nodes are freed with the list only.
    let first = unsafe { first.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |node| {
        // SAFETY: as above.
        unsafe { node.next.load(Ordering::Acquire).as_ref() }
    })
}

/// Memory that nodes and their values take, in bytes.
fn bytes<'list>(nodes: impl Iterator<Item = &'list Node>) -> usize {
    nodes
        .map(|node| {
            // SAFETY: a node's value lives as long as the node.
            let value = unsafe { size_at(node.value.load(Ordering::Relaxed)) };
            size_class(size_of::<Node>()) + value
        })
        .sum()
}

/// Frees a list.
///
/// # Safety
/// No other thread can reach the list any more.
unsafe fn free(first: &AtomicPtr<Node>) {
    let mut node = first.swap(ptr::null_mut(), Ordering::Relaxed);
    while !node.is_null() {
        // SAFETY: made by `Node::make`, and freed once, since the caller owns the list.
        let freed = unsafe { Box::from_raw(node) };
        node = freed.next.load(Ordering::Relaxed);
        // SAFETY: a node owns its value.
        drop(unsafe { Value::from_pointer(freed.value.load(Ordering::Relaxed)) });
    }
}

/// A list that grows at its front.
#[derive(Debug, Default)]
pub struct Chain {
    first: AtomicPtr<Node>,
}

impl Chain {
    /// The nodes, starting with the one added last.
    #[inline]
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        // SAFETY: the list is borrowed.
        unsafe { nodes(&self.first) }
    }

    /// Adds a version at the front.
    pub fn push(&self, cts: Timestamp, value: Value) {
        self.push_pointer(cts.to_bits(), value.into_pointer());
    }

    fn push_pointer(&self, cts: u64, value: *mut value::Header) -> *mut Node {
        let next = self.first.load(Ordering::Relaxed);
        let node = Node::make(cts, value, next);
        self.first.store(node, Ordering::Release);
        node
    }

    /// Memory that nodes and values take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        bytes(self.nodes())
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // SAFETY: borrowed uniquely.
        unsafe { free(&self.first) };
    }
}

/// A list that grows at its end, and is never empty.
#[derive(Debug)]
pub struct Queue {
    first: AtomicPtr<Node>,
    last: AtomicPtr<Node>,
}

impl Queue {
    /// A list of one version.
    #[must_use]
    pub fn of(cts: Timestamp, value: Value) -> Self {
        let node = Node::make(cts.to_bits(), value.into_pointer(), ptr::null_mut());
        Self {
            first: AtomicPtr::new(node),
            last: AtomicPtr::new(node),
        }
    }

    /// The nodes, starting with the one added first.
    #[inline]
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        // SAFETY: the list is borrowed.
        unsafe { nodes(&self.first) }
    }

    /// The node added last.
    #[must_use]
    pub fn last(&self) -> &Node {
        // SAFETY: never null; the node is linked, so it lives as long as the list, or it
        // was lost by one of two concurrent writers, and then is never freed.
        unsafe { &*self.last.load(Ordering::Acquire) }
    }

    /// Adds a version at the end.
    pub fn push(&self, cts: Timestamp, value: Value) {
        let node = Node::make(cts.to_bits(), value.into_pointer(), ptr::null_mut());
        self.last().next.store(node, Ordering::Release);
        self.last.store(node, Ordering::Release);
    }

    /// Memory that nodes and values take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        bytes(self.nodes())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: borrowed uniquely.
        unsafe { free(&self.first) };
    }
}

/// A version in place, whose timestamp is infinite while it is private or changes, and a
/// list of the versions that it has displaced.
#[derive(Debug)]
pub struct Displaced {
    cts: AtomicU64,
    value: AtomicPtr<value::Header>,
    older: Chain,
}

impl Displaced {
    /// A record with one version, in place.
    #[must_use]
    pub fn of(cts: Timestamp, value: Value) -> Self {
        Self {
            cts: AtomicU64::new(cts.to_bits()),
            value: AtomicPtr::new(value.into_pointer()),
            older: Chain::default(),
        }
    }

    /// The version in place, if it was committed at or before `snapshot`.
    #[inline]
    #[must_use]
    pub fn in_place(&self, snapshot: Timestamp) -> Option<Version<'_>> {
        loop {
            // As in a region of [`crate::record`]: the reader loads the timestamp again
            // after the value, because the writer makes it infinite before it changes the
            // value.
            let cts = self.cts.load(Ordering::Acquire);
            if cts > snapshot.to_bits() {
                return None;
            }
            let value = self.value.load(Ordering::Acquire);
            if self.cts.load(Ordering::Relaxed) == cts {
                // SAFETY: a value is freed with `self`, from the place or from the list;
                // `self` is borrowed for as long as the version.
                return Some(unsafe { Version::new(Timestamp::from_bits(cts), value, 0) });
            }
        }
    }

    /// The versions that were in place before, the newest first.
    #[must_use]
    pub fn older(&self) -> &Chain {
        &self.older
    }

    /// Puts a private version in place, and moves the current one to the list.
    pub fn displace(&self, value: Value) {
        let newest = self.value.load(Ordering::Relaxed);
        // The version is in the list before it leaves its place. Release, here and below:
        // a reader that does not find it in place finds it in the list.
        let node = self
            .older
            .push_pointer(self.cts.load(Ordering::Relaxed), newest);
        self.cts
            .store(Timestamp::INFINITE.to_bits(), Ordering::Release);
        let before = self.value.swap(value.into_pointer(), Ordering::AcqRel);
        if before != newest {
            // Another writer has displaced `newest` too, and the other writer's node owns
            // it: this node owns the version that was in place in between.
            // SAFETY: linked, or lost and never freed.
            unsafe { &*node }.value.store(before, Ordering::Release);
        }
    }

    /// Commits the version in place at `cts`.
    pub fn stamp(&self, cts: Timestamp) {
        self.cts.store(cts.to_bits(), Ordering::Release);
    }

    /// Memory that nodes and values take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // SAFETY: `self` is borrowed, and has a value.
        let value = unsafe { size_at(self.value.load(Ordering::Relaxed)) };
        self.older.bytes() + value
    }
}

impl Drop for Displaced {
    fn drop(&mut self) {
        let value = self.value.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: borrowed uniquely; `self` owns the value in place.
        drop(unsafe { Value::from_pointer(value) });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use coeval_types::{RowBuilder, RowRef};

    use super::*;

    const fn at(bits: u64) -> Timestamp {
        Timestamp::from_bits(bits)
    }

    fn value(cell: u8) -> Value {
        let (mut builder, mut row) = (RowBuilder::new(), Vec::new());
        builder.push(Some(&[cell; 20]));
        builder.finish(&mut row);
        Value::row(RowRef::trusted(&row))
    }

    fn cells<'list>(nodes: impl Iterator<Item = &'list Node>) -> Vec<(u64, u8)> {
        nodes
            .map(|node| {
                let row = node.version(node.cts(), 0).row().expect("a row");
                (node.cts().to_bits(), row.cell(0).expect("its cell")[0])
            })
            .collect()
    }

    #[test]
    fn lists_keep_what_was_added_in_their_order() {
        let (chain, queue) = (Chain::default(), Queue::of(at(1), value(1)));
        assert_eq!((cells(chain.nodes()), chain.bytes()), (Vec::new(), 0));
        chain.push(at(1), value(1));
        for list in [2, 3] {
            chain.push(Timestamp::INFINITE, value(list));
            let newest = chain.nodes().next().expect("just added");
            newest.stamp(at(u64::from(list)));
            queue.push(Timestamp::INFINITE, value(list));
            queue.last().stamp(at(u64::from(list)));
        }
        assert_eq!(cells(chain.nodes()), [(3, 3), (2, 2), (1, 1)]);
        assert_eq!(cells(queue.nodes()), [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(chain.bytes(), queue.bytes());
    }

    #[test]
    fn what_is_displaced_is_in_the_list() {
        let versions = Displaced::of(at(1), value(1));
        let one = versions.bytes();
        assert!(versions.in_place(at(0)).is_none());
        for version in [2, 3] {
            versions.displace(value(version));
            assert!(versions.in_place(at(9)).is_none(), "private");
            versions.stamp(at(u64::from(version)));
        }
        assert!(versions.in_place(at(2)).is_none());
        let newest = versions.in_place(at(3)).expect("committed");
        assert_eq!((newest.cts(), newest.jumps()), (at(3), 0));
        assert_eq!(cells(versions.older().nodes()), [(2, 2), (1, 1)]);
        assert_eq!(versions.bytes(), one + versions.older().bytes());
    }
}
