//! The version list of a record: versions older than the two in the record, oldest first.

use std::ptr;

use coeval_memory::epoch::Guard;
use coeval_memory::heap::size_class;
use coeval_memory::sync::atomic::{AtomicPtr, Ordering};
use coeval_types::Timestamp;

use super::Version;
use crate::value::{Value, ValuePointer};

/// One version in the list. Only `next` ever changes.
pub(super) struct Node {
    pub(super) cts: Timestamp,
    pub(super) value: ValuePointer,
    next: AtomicPtr<Node>,
}

/// Bytes that one node occupies, without its value.
pub(super) const NODE_BYTES: usize = size_class(size_of::<Node>());

/// The list. Written only by the holder of the record's lock; read by any thread.
#[derive(Debug)]
pub(super) struct VersionList {
    oldest: AtomicPtr<Node>,
    newest: AtomicPtr<Node>,
}

impl VersionList {
    #[cfg(any(loom, shuttle))]
    pub(super) fn new() -> Self {
        Self {
            oldest: AtomicPtr::new(ptr::null_mut()),
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The newest version of the list at or before `snapshot`.
    pub(super) fn find<'guard>(
        &self,
        snapshot: Timestamp,
        _guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        // SAFETY: under the guard no node that can be reached is freed, not even one that
        // is unlinked meanwhile; it still leads to the nodes after it.
        let mut node = unsafe { self.oldest.load(Ordering::Acquire).as_ref() }?;
        if node.cts > snapshot {
            return None;
        }
        let mut jumps = 1;
        // SAFETY: as above.
        while let Some(next) = unsafe { node.next.load(Ordering::Acquire).as_ref() }
            && next.cts <= snapshot
        {
            node = next;
            jumps += 1;
        }
        // SAFETY: reached under the guard; a node's value is retired with it.
        Some(unsafe { Version::new(node.cts, node.value, jumps) })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.oldest.load(Ordering::Relaxed).is_null()
    }

    /// Appends a version newer than all in the list. For the lock's holder.
    pub(super) fn append(&self, cts: Timestamp, value: ValuePointer) {
        let node = Box::into_raw(Box::new(Node {
            cts,
            value,
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        let newest = self.newest.load(Ordering::Relaxed);
        // SAFETY: the newest node is linked, so not freed, and only the lock's holder, the
        // caller, unlinks.
        match unsafe { newest.as_ref() } {
            None => self.oldest.store(node, Ordering::Release),
            Some(newest) => {
                assert!(newest.cts < cts, "versions out of order");
                newest.next.store(node, Ordering::Release);
            }
        }
        self.newest.store(node, Ordering::Relaxed);
    }

    /// Iterates over the list's nodes, oldest first.
    pub(super) fn nodes<'guard>(
        &self,
        _guard: &'guard Guard<'_>,
    ) -> impl Iterator<Item = &'guard Node> + use<'guard> {
        // SAFETY: under the guard no node that can be reached is freed.
        let oldest = unsafe { self.oldest.load(Ordering::Acquire).as_ref() };
        std::iter::successors(oldest, |node| {
            // SAFETY: as above.
            unsafe { node.next.load(Ordering::Acquire).as_ref() }
        })
    }

    /// Unlinks at most `most` nodes for which `is_expired(cts, next node's cts)` holds, but
    /// never the newest. For the lock's holder, who must retire them.
    pub(super) fn unlink(
        &self,
        most: usize,
        is_expired: impl Fn(Timestamp, Timestamp) -> bool,
    ) -> Vec<*mut Node> {
        let mut unlinked = Vec::new();
        let mut link = &self.oldest;
        while unlinked.len() < most {
            let node = link.load(Ordering::Relaxed);
            // SAFETY: linked, and only the caller unlinks.
            let Some(here) = (unsafe { node.as_ref() }) else {
                break;
            };
            let next = here.next.load(Ordering::Relaxed);
            // SAFETY: as above.
            let Some(after) = (unsafe { next.as_ref() }) else {
                break;
            };
            if is_expired(here.cts, after.cts) {
                // The node keeps its own link, through which a reader on it continues.
                link.store(next, Ordering::Release);
                unlinked.push(node);
            } else {
                link = &here.next;
            }
        }
        unlinked
    }

    /// Unlinks the newest node, if there is one. For the lock's holder, who must retire it;
    /// no reader may access the list meanwhile.
    pub(super) fn unlink_newest(&self) -> Option<*mut Node> {
        let newest = self.newest.load(Ordering::Relaxed);
        let (mut link, mut before) = (&self.oldest, ptr::null_mut());
        loop {
            let node = link.load(Ordering::Relaxed);
            // SAFETY: linked, and only the caller unlinks.
            let here = unsafe { node.as_ref() }?;
            if node == newest {
                link.store(ptr::null_mut(), Ordering::Release);
                self.newest.store(before, Ordering::Relaxed);
                return Some(node);
            }
            before = node;
            link = &here.next;
        }
    }

    /// Unlinks all nodes. For the lock's holder, who must retire them.
    pub(super) fn unlink_all(&self) -> Vec<*mut Node> {
        let mut unlinked = Vec::new();
        let mut node = self.oldest.load(Ordering::Relaxed);
        // SAFETY: linked, and only the caller unlinks.
        while let Some(here) = unsafe { node.as_ref() } {
            unlinked.push(node);
            node = here.next.load(Ordering::Relaxed);
        }
        self.oldest.store(ptr::null_mut(), Ordering::Release);
        self.newest.store(ptr::null_mut(), Ordering::Relaxed);
        unlinked
    }
}

/// Retires an unlinked node and its value.
///
/// # Safety
/// The node has been unlinked, and is retired once.
pub(super) unsafe fn retire_node(node: *mut Node, guard: &Guard<'_>) {
    // SAFETY: passed on to our caller.
    unsafe { guard.retire(node.cast(), free_node) }
}

/// Frees a node and its value.
///
/// # Safety
/// `node` is a `*mut Node` that no thread can reach, and is freed once.
pub(super) unsafe fn free_node(node: *mut ()) {
    // SAFETY: nodes come from `Box::into_raw` in `append`.
    let node = unsafe { Box::from_raw(node.cast::<Node>()) };
    // SAFETY: a node owns its value.
    drop(unsafe { Value::from_pointer(node.value) });
}
