//! Versions in one list: from the newest to the oldest, and the other way round.

use std::ptr;

use coeval_memory::heap::size_class;
use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::Timestamp;

use super::header::{Header, INFINITE};
use crate::record::Version;
use crate::value::{Value, ValuePointer, size_at};

/// A version in a list. Its timestamp is infinite until it is committed.
pub(super) struct Node {
    pub(super) cts: AtomicU64,
    value: ValuePointer,
    pub(super) next: AtomicPtr<Node>,
}

impl Node {
    /// A node of its own; it owns the value.
    pub(super) fn make(cts: u64, value: ValuePointer, next: *mut Self) -> *mut Self {
        Box::into_raw(Box::new(Self {
            cts: AtomicU64::new(cts),
            value,
            next: AtomicPtr::new(next),
        }))
    }

    /// # Safety
    /// The node is linked in a header that is borrowed for `'read`.
    pub(super) unsafe fn version<'read>(&self, cts: u64, jumps: u32) -> Version<'read> {
        // SAFETY: a value is freed with its node, and that with the header.
        unsafe { Version::new(Timestamp::from_bits(cts), self.value, jumps) }
    }
}

/// The list's nodes from `first` on.
///
/// # Safety
/// They are linked in a header that outlives `'header`.
pub(super) unsafe fn nodes<'header>(
    first: &AtomicPtr<Node>,
) -> impl Iterator<Item = &'header Node> + use<'header> {
    // SAFETY: nodes are freed with the header only.
    let first = unsafe { first.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |node| {
        // SAFETY: as above.
        unsafe { node.next.load(Ordering::Acquire).as_ref() }
    })
}

/// What a list's nodes and their values take.
///
/// # Safety
/// As for [`nodes`].
pub(super) unsafe fn bytes(first: &AtomicPtr<Node>) -> usize {
    // SAFETY: passed on to our caller; a node's value lives as long as it.
    unsafe {
        nodes(first)
            .map(|node| size_class(size_of::<Node>()) + size_at(node.value))
            .sum()
    }
}

/// Frees a list.
///
/// # Safety
/// Nobody reaches it any more.
pub(super) unsafe fn free(first: &AtomicPtr<Node>) {
    let mut node = first.swap(ptr::null_mut(), Ordering::Relaxed);
    while !node.is_null() {
        // SAFETY: made by `Node::make`, and freed once, as the caller answers.
        let freed = unsafe { Box::from_raw(node) };
        node = freed.next.load(Ordering::Relaxed);
        // SAFETY: a node owns its value.
        drop(unsafe { Value::from_pointer(freed.value) });
    }
}

/// Every version in a list, the newest first.
pub struct NewestFirst {
    newest: AtomicPtr<Node>,
}

impl Header for NewestFirst {
    const NAME: &'static str = "pure N2O";

    fn with(first: Value) -> Self {
        let node = Node::make(1, first.into_pointer(), ptr::null_mut());
        Self {
            newest: AtomicPtr::new(node),
        }
    }

    #[inline]
    fn read(&self, snapshot: Timestamp) -> Option<Version<'_>> {
        let mut jumps = 0;
        // SAFETY: nodes go with the header, which is borrowed for as long as the version.
        for node in unsafe { nodes(&self.newest) } {
            jumps += 1;
            let cts = node.cts.load(Ordering::Acquire);
            if cts <= snapshot.to_bits() {
                // SAFETY: as above.
                return Some(unsafe { node.version(cts, jumps) });
            }
        }
        None
    }

    fn put(&self, value: Value) {
        let newest = self.newest.load(Ordering::Relaxed);
        let node = Node::make(INFINITE, value.into_pointer(), newest);
        self.newest.store(node, Ordering::Release);
    }

    fn stamp(&self, cts: Timestamp) {
        // SAFETY: there is a node, the holder's private one, until the header goes.
        let newest = unsafe { &*self.newest.load(Ordering::Relaxed) };
        newest.cts.store(cts.to_bits(), Ordering::Release);
    }

    fn bytes(&self) -> usize {
        // SAFETY: the header is borrowed.
        unsafe { bytes(&self.newest) }
    }
}

impl Drop for NewestFirst {
    fn drop(&mut self) {
        // SAFETY: borrowed uniquely.
        unsafe { free(&self.newest) };
    }
}

/// Every version in a list, the oldest first.
pub struct OldestFirst {
    oldest: AtomicPtr<Node>,
    /// For writers, who append.
    newest: AtomicPtr<Node>,
}

impl Header for OldestFirst {
    const NAME: &'static str = "pure O2N";

    fn with(first: Value) -> Self {
        let node = Node::make(1, first.into_pointer(), ptr::null_mut());
        Self {
            oldest: AtomicPtr::new(node),
            newest: AtomicPtr::new(node),
        }
    }

    #[inline]
    fn read(&self, snapshot: Timestamp) -> Option<Version<'_>> {
        let mut found = None;
        let mut jumps = 0;
        // SAFETY: nodes go with the header, which is borrowed for as long as the version.
        for node in unsafe { nodes(&self.oldest) } {
            let cts = node.cts.load(Ordering::Acquire);
            if cts > snapshot.to_bits() {
                break;
            }
            jumps += 1;
            found = Some((node, cts));
        }
        // SAFETY: as above.
        found.map(|(node, cts)| unsafe { node.version(cts, jumps) })
    }

    fn put(&self, value: Value) {
        let node = Node::make(INFINITE, value.into_pointer(), ptr::null_mut());
        let newest = self.newest.load(Ordering::Relaxed);
        // SAFETY: linked, so alive as long as the header.
        unsafe { (*newest).next.store(node, Ordering::Release) };
        self.newest.store(node, Ordering::Relaxed);
    }

    fn stamp(&self, cts: Timestamp) {
        // SAFETY: linked, the holder's private one.
        let newest = unsafe { &*self.newest.load(Ordering::Relaxed) };
        newest.cts.store(cts.to_bits(), Ordering::Release);
    }

    fn bytes(&self) -> usize {
        // SAFETY: the header is borrowed.
        unsafe { bytes(&self.oldest) }
    }
}

impl Drop for OldestFirst {
    fn drop(&mut self) {
        // SAFETY: borrowed uniquely.
        unsafe { free(&self.oldest) };
    }
}
