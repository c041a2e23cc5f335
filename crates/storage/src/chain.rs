//! Version chains that only grow: lists of versions, and a version that is displaced into
//! one, for measurements of other record layouts beside [`crate::record`].
//!
//! ```text
//!   Chain      first ──▶ newest ──▶ … ──▶ oldest        grows at the front
//!   Queue      first ──▶ oldest ──▶ … ──▶ newest ◀── last    grows at the end
//!   Displaced  newest in place, the others in a Chain
//! ```
//!
//! Nothing is unlinked before the whole list is dropped, so a reader who borrows the list
//! needs no protection, and every call here is safe. That is all that is unsafe about a
//! record layout; which version a reader takes, and who may write, the layout says itself.
//!
//! # Invariants
//!
//! - A node and its value are freed with their list, or never: two that add to a list at
//!   once may lose a node, which is then leaked. A layout has one writer at a time.
//! - Every value has one owner at most.

use std::ptr;

use coeval_memory::heap::size_class;
use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::Timestamp;

use crate::record::Version;
use crate::value::{self, Value, size_at};

/// A version in a list. Its timestamp is infinite until it is committed.
#[derive(Debug)]
pub struct Node {
    cts: AtomicU64,
    value: AtomicPtr<value::Header>,
    next: AtomicPtr<Node>,
}

impl Node {
    /// A node of its own; it owns the value.
    fn make(cts: u64, value: *mut value::Header, next: *mut Self) -> *mut Self {
        Box::into_raw(Box::new(Self {
            cts: AtomicU64::new(cts),
            value: AtomicPtr::new(value),
            next: AtomicPtr::new(next),
        }))
    }

    /// When it was committed.
    #[inline]
    #[must_use]
    pub fn cts(&self) -> Timestamp {
        Timestamp::from_bits(self.cts.load(Ordering::Acquire))
    }

    /// It is committed at this time.
    pub fn stamp(&self, cts: Timestamp) {
        self.cts.store(cts.to_bits(), Ordering::Release);
    }

    /// The version, of which the reader has seen this timestamp after so many nodes.
    #[inline]
    #[must_use]
    pub fn version(&self, cts: Timestamp, jumps: u32) -> Version<'_> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a value is freed with its node, and that with the list, which is
        // borrowed for as long as the node.
        unsafe { Version::new(cts, value, jumps) }
    }
}

/// The nodes from `first` on.
///
/// # Safety
/// They are linked in a list that is borrowed for `'list`.
#[inline]
unsafe fn nodes<'list>(first: &AtomicPtr<Node>) -> impl Iterator<Item = &'list Node> + use<'list> {
    // SAFETY: nodes are freed with the list only.
    let first = unsafe { first.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |node| {
        // SAFETY: as above.
        unsafe { node.next.load(Ordering::Acquire).as_ref() }
    })
}

/// What nodes and their values take.
fn bytes<'list>(nodes: impl Iterator<Item = &'list Node>) -> usize {
    nodes
        .map(|node| {
            // SAFETY: a node's value lives as long as it.
            let value = unsafe { size_at(node.value.load(Ordering::Relaxed)) };
            size_class(size_of::<Node>()) + value
        })
        .sum()
}

/// Frees a list.
///
/// # Safety
/// Nobody reaches it any more.
unsafe fn free(first: &AtomicPtr<Node>) {
    let mut node = first.swap(ptr::null_mut(), Ordering::Relaxed);
    while !node.is_null() {
        // SAFETY: made by `Node::make`, and freed once, as the caller answers.
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
    /// The nodes, the one added last first.
    #[inline]
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        // SAFETY: the list is borrowed.
        unsafe { nodes(&self.first) }
    }

    /// Adds a version.
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

    /// The nodes, the one added first first.
    #[inline]
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        // SAFETY: the list is borrowed.
        unsafe { nodes(&self.first) }
    }

    /// The node added last.
    #[must_use]
    pub fn last(&self) -> &Node {
        // SAFETY: never null; it is linked, so alive as long as the list, or was lost by
        // one of two that added at once, and then is never freed.
        unsafe { &*self.last.load(Ordering::Acquire) }
    }

    /// Adds a version.
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

/// A version in place, whose timestamp is infinite while it is private or changes, and
/// the versions that it has displaced.
#[derive(Debug)]
pub struct Displaced {
    cts: AtomicU64,
    value: AtomicPtr<value::Header>,
    older: Chain,
}

impl Displaced {
    /// One version, in place.
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
            // As a region of a record of ours is read: the timestamp again after the
            // value, which was made infinite before the value changed.
            let cts = self.cts.load(Ordering::Acquire);
            if cts > snapshot.to_bits() {
                return None;
            }
            let value = self.value.load(Ordering::Acquire);
            if self.cts.load(Ordering::Relaxed) == cts {
                // SAFETY: a value is freed with this, from here or from the list; it is
                // borrowed for as long as the version.
                return Some(unsafe { Version::new(Timestamp::from_bits(cts), value, 0) });
            }
        }
    }

    /// Those that were in place before, the newest first.
    #[must_use]
    pub fn older(&self) -> &Chain {
        &self.older
    }

    /// Puts a private version in place of the one there.
    pub fn displace(&self, value: Value) {
        let newest = self.value.load(Ordering::Relaxed);
        // In the list before it is not in place any more. Release, here and below: who
        // does not find it in place finds it in the list.
        let node = self
            .older
            .push_pointer(self.cts.load(Ordering::Relaxed), newest);
        self.cts
            .store(Timestamp::INFINITE.to_bits(), Ordering::Release);
        let before = self.value.swap(value.into_pointer(), Ordering::AcqRel);
        if before != newest {
            // Another writer has displaced it too, and the other's node owns it: this
            // node owns what stood there in between.
            // SAFETY: linked, or lost and never freed.
            unsafe { &*node }.value.store(before, Ordering::Release);
        }
    }

    /// What is in place is committed at this time.
    pub fn stamp(&self, cts: Timestamp) {
        self.cts.store(cts.to_bits(), Ordering::Release);
    }

    /// Memory that nodes and values take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // SAFETY: this is borrowed, and has a value.
        let value = unsafe { size_at(self.value.load(Ordering::Relaxed)) };
        self.older.bytes() + value
    }
}

impl Drop for Displaced {
    fn drop(&mut self) {
        let value = self.value.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: borrowed uniquely; it owns the value in place.
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
