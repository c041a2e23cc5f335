//! The newest version in the header, the others in a list from the newest to the oldest.

use std::ptr;

use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::Timestamp;

use super::chain::{Node, bytes, free, nodes};
use super::header::{Header, INFINITE};
use crate::record::Version;
use crate::value::{self, Value, size_at};

/// What is in it is the newest version, or the holder's private one; its timestamp is
/// infinite while it is private or changes.
pub struct InPlace {
    cts: AtomicU64,
    value: AtomicPtr<value::Header>,
    older: AtomicPtr<Node>,
}

impl Header for InPlace {
    const NAME: &'static str = "HyPer style";

    fn with(first: Value) -> Self {
        Self {
            cts: AtomicU64::new(1),
            value: AtomicPtr::new(first.into_pointer()),
            older: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[inline]
    fn read(&self, snapshot: Timestamp) -> Option<Version<'_>> {
        loop {
            // As a region of a record of ours is read: the timestamp again after the
            // value, which was made infinite before the value changed.
            let cts = self.cts.load(Ordering::Acquire);
            if cts > snapshot.to_bits() {
                break;
            }
            let value = self.value.load(Ordering::Acquire);
            if self.cts.load(Ordering::Relaxed) == cts {
                // SAFETY: a value goes with the header, which is borrowed for as long
                // as the version.
                return Some(unsafe { Version::new(Timestamp::from_bits(cts), value, 0) });
            }
        }
        let mut jumps = 0;
        // SAFETY: as above.
        for node in unsafe { nodes(&self.older) } {
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
        let (cts, newest) = (
            self.cts.load(Ordering::Relaxed),
            self.value.load(Ordering::Relaxed),
        );
        let older = self.older.load(Ordering::Relaxed);
        let node = Node::make(cts, newest, older);
        // In the list before it is not in the header any more. Release, here and below:
        // who sees the header without it sees the list with it.
        self.older.store(node, Ordering::Release);
        self.cts.store(INFINITE, Ordering::Release);
        self.value.store(value.into_pointer(), Ordering::Release);
    }

    fn stamp(&self, cts: Timestamp) {
        self.cts.store(cts.to_bits(), Ordering::Release);
    }

    fn bytes(&self) -> usize {
        let value = self.value.load(Ordering::Relaxed);
        // SAFETY: the header is borrowed, and has a value.
        unsafe { bytes(&self.older) + size_at(value) }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        let value = self.value.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: borrowed uniquely; a header owns the value in it, and its list.
        unsafe {
            drop(Value::from_pointer(value));
            free(&self.older);
        }
    }
}
