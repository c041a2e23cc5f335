//! The newest version in the header, the others in a list from the newest to the oldest.

use std::ptr;

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::{Timestamp, TransactionId};

use super::VersionStorage;
use super::chain::{Lock, Node, bytes, free, nodes};
use crate::record::Version;
use crate::value::{Header, Value, size_at};

const INFINITE: u64 = Timestamp::INFINITE.to_bits();

/// A record of [`HyperStyle`]. What is in it is the newest version, or the holder's
/// private one; its timestamp is infinite while it is private or changes.
struct InPlace {
    lock: Lock,
    cts: AtomicU64,
    value: AtomicPtr<Header>,
    older: AtomicPtr<Node>,
}

/// The newest version in place, the versions before it in a list.
pub struct HyperStyle(Box<[InPlace]>);

impl VersionStorage for HyperStyle {
    const NAME: &'static str = "HyPer style";

    fn filled(records: usize, first: &dyn Fn(usize) -> Value) -> Self {
        let record = |number| InPlace {
            lock: Lock::default(),
            cts: AtomicU64::new(1),
            value: AtomicPtr::new(first(number).into_pointer()),
            older: AtomicPtr::new(ptr::null_mut()),
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
        let record = &self.0[record];
        loop {
            // As a region of a record of ours is read: the timestamp again after the
            // value, which was made infinite before the value changed.
            let cts = record.cts.load(Ordering::Acquire);
            if cts > snapshot.to_bits() {
                break;
            }
            let value = record.value.load(Ordering::Acquire);
            if record.cts.load(Ordering::Relaxed) == cts {
                // SAFETY: a value goes with the storage, which is borrowed for as long
                // as the version.
                return Some(unsafe { Version::new(Timestamp::from_bits(cts), value, 0) });
            }
        }
        let mut jumps = 0;
        // SAFETY: as above.
        for node in unsafe { nodes(&record.older) } {
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
        let (cts, newest) = (
            record.cts.load(Ordering::Relaxed),
            record.value.load(Ordering::Relaxed),
        );
        let older = record.older.load(Ordering::Relaxed);
        let node = Node::make(cts, newest, older);
        // In the list before it is not in the header any more. Release, here and below:
        // who sees the header without it sees the list with it.
        record.older.store(node, Ordering::Release);
        record.cts.store(INFINITE, Ordering::Release);
        record.value.store(value.into_pointer(), Ordering::Release);
        true
    }

    fn commit(&self, record: usize, writer: TransactionId, cts: Timestamp) {
        let record = &self.0[record];
        record.lock.assert_held(writer);
        record.cts.store(cts.to_bits(), Ordering::Release);
        record.lock.give_back();
    }

    fn bytes(&self) -> usize {
        let records = self.0.iter().map(|record| {
            let value = record.value.load(Ordering::Relaxed);
            // SAFETY: the storage is borrowed, and a record has a value.
            unsafe { bytes(&record.older) + size_at(value) }
        });
        size_of_val(&*self.0) + records.sum::<usize>()
    }
}

impl Drop for HyperStyle {
    fn drop(&mut self) {
        for record in &self.0 {
            let value = record.value.swap(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: borrowed uniquely; a record owns the value in it, and its list.
            unsafe {
                drop(Value::from_pointer(value));
                free(&record.older);
            }
        }
    }
}
