//! Common code of the compared version storages: an array of record headers, each with a
//! lock.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::{AtomicU64, Ordering};
use coeval_storage::{Value, Version};
use coeval_types::{Timestamp, TransactionId};

use super::VersionStorage;

/// A layout of one record's versions. The caller of `put` or `stamp` holds the record's
/// lock; every version stays until the header is dropped.
pub trait Header: Send + Sync {
    /// The layout's name in measurements.
    const NAME: &'static str;

    /// A header with one version, of timestamp 1.
    fn with(first: Value) -> Self;

    /// The newest version committed at or before `snapshot`.
    fn read(&self, snapshot: Timestamp) -> Option<Version<'_>>;

    /// Adds a private version.
    fn put(&self, value: Value);

    /// Commits the private version at `cts`, as the newest.
    fn stamp(&self, cts: Timestamp);

    /// Memory that list nodes and values take, in bytes.
    fn bytes(&self) -> usize;
}

/// An array of records with headers of one kind.
pub struct Headers<H>(Box<[Locked<H>]>);

struct Locked<H> {
    /// Transaction that holds the lock, or 0.
    holder: AtomicU64,
    header: H,
}

impl<H: Header> VersionStorage for Headers<H> {
    const NAME: &'static str = H::NAME;

    fn filled(records: usize, first: &dyn Fn(usize) -> Value) -> Self {
        let record = |number| Locked {
            holder: AtomicU64::new(0),
            header: H::with(first(number)),
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
        self.0[record].header.read(snapshot)
    }

    fn update(&self, record: usize, writer: TransactionId, value: Value, _: &Guard<'_>) -> bool {
        let Locked { holder, header } = &self.0[record];
        let taken = holder.compare_exchange(0, writer.0, Ordering::Acquire, Ordering::Relaxed);
        assert_ne!(taken, Err(writer.0), "locked twice");
        if taken.is_ok() {
            header.put(value);
        }
        taken.is_ok()
    }

    fn commit(&self, record: usize, writer: TransactionId, cts: Timestamp) {
        let Locked { holder, header } = &self.0[record];
        assert_eq!(holder.load(Ordering::Relaxed), writer.0, "not the holder");
        header.stamp(cts);
        holder.store(0, Ordering::Release);
    }

    fn bytes(&self) -> usize {
        let lists = self.0.iter().map(|record| record.header.bytes());
        size_of_val(&*self.0) + lists.sum::<usize>()
    }
}
