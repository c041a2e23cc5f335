//! Versions in one list: from the newest to the oldest, and the other way round.

use std::ptr;

use coeval_memory::epoch::Guard;
use coeval_memory::heap::size_class;
use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::{Timestamp, TransactionId};

use super::VersionStorage;
use crate::record::Version;
use crate::value::{Value, ValuePointer, size_at};

const INFINITE: u64 = Timestamp::INFINITE.to_bits();

/// A version in a list. Its timestamp is infinite until it is committed.
pub(super) struct Node {
    pub(super) cts: AtomicU64,
    value: ValuePointer,
    pub(super) next: AtomicPtr<Node>,
}

/// A lock that a writer has, or nobody.
#[derive(Default)]
pub(super) struct Lock(AtomicU64);

impl Lock {
    pub(super) fn take(&self, writer: TransactionId) -> bool {
        let taken = self
            .0
            .compare_exchange(0, writer.0, Ordering::Acquire, Ordering::Relaxed);
        assert_ne!(taken, Err(writer.0), "locked twice");
        taken.is_ok()
    }

    pub(super) fn assert_held(&self, writer: TransactionId) {
        assert_eq!(self.0.load(Ordering::Relaxed), writer.0, "not the holder");
    }

    pub(super) fn give_back(&self) {
        self.0.store(0, Ordering::Release);
    }
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
    /// The node is linked in a storage that is borrowed for `'read`.
    pub(super) unsafe fn version<'read>(&self, cts: u64, jumps: u32) -> Version<'read> {
        // SAFETY: a value is freed with its node, and that with the storage.
        unsafe { Version::new(Timestamp::from_bits(cts), self.value, jumps) }
    }
}

/// The list's nodes from `first` on.
///
/// # Safety
/// They are linked in a storage that outlives `'storage`.
pub(super) unsafe fn nodes<'storage>(
    first: &AtomicPtr<Node>,
) -> impl Iterator<Item = &'storage Node> + use<'storage> {
    // SAFETY: nodes are freed with the storage only.
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

/// A record of [`PureN2o`].
struct NewestFirst {
    lock: Lock,
    newest: AtomicPtr<Node>,
}

/// Every version in a list, the newest first.
pub struct PureN2o(Box<[NewestFirst]>);

impl VersionStorage for PureN2o {
    const NAME: &'static str = "pure N2O";

    fn filled(records: usize, first: &dyn Fn(usize) -> Value) -> Self {
        let record = |number| NewestFirst {
            lock: Lock::default(),
            newest: AtomicPtr::new(Node::make(1, first(number).into_pointer(), ptr::null_mut())),
        };
        Self((0..records).map(record).collect())
    }

    #[inline]
    fn read<'read>(
        &'read self,
        record: usize,
        snapshot: Timestamp,
        _: &'read Guard<'_>,
    ) -> Option<Version<'read>> {
        let mut jumps = 0;
        // SAFETY: the storage is borrowed for as long as the version.
        for node in unsafe { nodes(&self.0[record].newest) } {
            jumps += 1;
            let cts = node.cts.load(Ordering::Acquire);
            if cts <= snapshot.to_bits() {
                // SAFETY: as above.
                return Some(unsafe { node.version(cts, jumps) });
            }
        }
        None
    }

    fn update(&self, record: usize, writer: TransactionId, value: Value, _: &Guard<'_>) -> bool {
        let record = &self.0[record];
        if !record.lock.take(writer) {
            return false;
        }
        let newest = record.newest.load(Ordering::Relaxed);
        let node = Node::make(INFINITE, value.into_pointer(), newest);
        record.newest.store(node, Ordering::Release);
        true
    }

    fn commit(&self, record: usize, writer: TransactionId, cts: Timestamp) {
        let record = &self.0[record];
        record.lock.assert_held(writer);
        // SAFETY: there is a node, the holder's private one, until the storage goes.
        let newest = unsafe { &*record.newest.load(Ordering::Relaxed) };
        newest.cts.store(cts.to_bits(), Ordering::Release);
        record.lock.give_back();
    }

    fn bytes(&self) -> usize {
        // SAFETY: the storage is borrowed.
        let lists = self.0.iter().map(|record| unsafe { bytes(&record.newest) });
        size_of_val(&*self.0) + lists.sum::<usize>()
    }
}

impl Drop for PureN2o {
    fn drop(&mut self) {
        for record in &self.0 {
            // SAFETY: borrowed uniquely.
            unsafe { free(&record.newest) };
        }
    }
}

/// A record of [`PureO2n`].
struct OldestFirst {
    lock: Lock,
    oldest: AtomicPtr<Node>,
    /// For writers, who append.
    newest: AtomicPtr<Node>,
}

/// Every version in a list, the oldest first.
pub struct PureO2n(Box<[OldestFirst]>);

impl VersionStorage for PureO2n {
    const NAME: &'static str = "pure O2N";

    fn filled(records: usize, first: &dyn Fn(usize) -> Value) -> Self {
        let record = |number| {
            let node = Node::make(1, first(number).into_pointer(), ptr::null_mut());
            OldestFirst {
                lock: Lock::default(),
                oldest: AtomicPtr::new(node),
                newest: AtomicPtr::new(node),
            }
        };
        Self((0..records).map(record).collect())
    }

    #[inline]
    fn read<'read>(
        &'read self,
        record: usize,
        snapshot: Timestamp,
        _: &'read Guard<'_>,
    ) -> Option<Version<'read>> {
        let mut found = None;
        let mut jumps = 0;
        // SAFETY: the storage is borrowed for as long as the version.
        for node in unsafe { nodes(&self.0[record].oldest) } {
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

    fn update(&self, record: usize, writer: TransactionId, value: Value, _: &Guard<'_>) -> bool {
        let record = &self.0[record];
        if !record.lock.take(writer) {
            return false;
        }
        let node = Node::make(INFINITE, value.into_pointer(), ptr::null_mut());
        let newest = record.newest.load(Ordering::Relaxed);
        // SAFETY: linked, so alive as long as the storage.
        unsafe { (*newest).next.store(node, Ordering::Release) };
        record.newest.store(node, Ordering::Relaxed);
        true
    }

    fn commit(&self, record: usize, writer: TransactionId, cts: Timestamp) {
        let record = &self.0[record];
        record.lock.assert_held(writer);
        // SAFETY: linked, the holder's private one.
        let newest = unsafe { &*record.newest.load(Ordering::Relaxed) };
        newest.cts.store(cts.to_bits(), Ordering::Release);
        record.lock.give_back();
    }

    fn bytes(&self) -> usize {
        // SAFETY: the storage is borrowed.
        let lists = self.0.iter().map(|record| unsafe { bytes(&record.oldest) });
        size_of_val(&*self.0) + lists.sum::<usize>()
    }
}

impl Drop for PureO2n {
    fn drop(&mut self) {
        for record in &self.0 {
            // SAFETY: borrowed uniquely.
            unsafe { free(&record.oldest) };
        }
    }
}
