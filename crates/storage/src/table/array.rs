//! The record array of a table: it grows in chunks, and records never move.
//!
//! Chunks double in size, so that a table of any size has few of them and their addresses
//! fit in the table itself: a RID leads to its record by two loads, one of the chunk's
//! address and one of the record.
//!
//! ```text
//!   chunk   0        1          2                 …   k
//!   RIDs    0..64    64..192    192..448              64·(2^k − 1) .. 64·(2^(k+1) − 1)
//! ```
//!
//! A chunk is allocated zeroed, which for a large one costs nothing until its pages are
//! touched; all-zero bytes are a record that has never been used. Large chunks are added to
//! the memory accounting ([`coeval_memory::heap`]) as records are allocated, a page at a
//! time.

use std::ptr;

use coeval_memory::heap;
use coeval_memory::sync::atomic::{AtomicPtr, Ordering};
use coeval_types::Rid;

use crate::record::Record;

/// Number of records in the first chunk.
const FIRST: u64 = if cfg!(any(loom, shuttle, miri)) {
    4
} else {
    64
};
const CHUNKS: usize = 40;

/// The first RID that a table cannot have.
pub(super) const RID_LIMIT: u64 = FIRST * ((1 << CHUNKS) - 1);

/// The records of a table.
pub(super) struct RecordArray {
    chunks: [AtomicPtr<Record>; CHUNKS],
}

/// Bytes from which on the kernel provides a chunk with untouched pages.
const LARGE: usize = 1 << 20;
/// Bytes that the kernel provides when one of them is touched.
const PAGE: usize = 4096;
/// Number of records in a page.
const IN_PAGE: u64 = (PAGE / size_of::<Record>()) as u64;

/// The chunk of a record, and its index in the chunk.
#[inline]
fn place(rid: Rid) -> (usize, usize) {
    let shifted = rid.0 + FIRST;
    let chunk = shifted.ilog2() - FIRST.ilog2();
    (chunk as usize, (shifted - (FIRST << chunk)) as usize)
}

const fn chunk_length(chunk: usize) -> usize {
    (FIRST as usize) << chunk
}

const fn chunk_bytes(chunk: usize) -> usize {
    chunk_length(chunk) * size_of::<Record>()
}

/// Bytes of a chunk's records before `rid`, in whole pages.
fn touched_bytes(chunk: usize, rid: u64) -> usize {
    let first = (FIRST << chunk) - FIRST;
    let records = usize::try_from(rid.saturating_sub(first)).unwrap_or(usize::MAX);
    let bytes = records.saturating_mul(size_of::<Record>());
    bytes.next_multiple_of(PAGE).min(chunk_bytes(chunk))
}

impl RecordArray {
    pub(super) fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// The record with this RID, if its chunk is allocated.
    #[inline]
    pub(super) fn get(&self, rid: Rid) -> Option<&Record> {
        if rid.0 >= RID_LIMIT {
            return None;
        }
        let (chunk, at) = place(rid);
        let records = self.chunks[chunk].load(Ordering::Acquire);
        if records.is_null() {
            return None;
        }
        // SAFETY: a chunk has `chunk_length` records, `at` is below that, and
        // chunks live as long as the array.
        Some(unsafe { &*records.add(at) })
    }

    /// The record with this RID; allocates its chunk if needed. `rid` is below
    /// [`RID_LIMIT`].
    pub(super) fn get_or_grow(&self, rid: Rid) -> &Record {
        assert!(rid.0 < RID_LIMIT, "{rid:?} past the limit of a table");
        if self.get(rid).is_none() {
            self.grow(place(rid).0);
        }
        self.get(rid).expect("just made")
    }

    #[cold]
    fn grow(&self, chunk: usize) {
        let fresh = Box::into_raw(Self::fresh(chunk_length(chunk)));
        if self.chunks[chunk]
            .compare_exchange(
                ptr::null_mut(),
                fresh.cast::<Record>(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_err()
        {
            // SAFETY: allocated above; another thread was faster, so it was never
            // published.
            drop(unsafe { Box::from_raw(fresh) });
        } else if chunk_bytes(chunk) >= LARGE {
            heap::untouched(chunk_bytes(chunk));
        }
    }

    /// Accounts for the first allocation of a RID; all earlier RIDs have been allocated.
    #[inline]
    pub(super) fn count_first_use(&self, rid: Rid) {
        if rid.0.is_multiple_of(IN_PAGE) && chunk_bytes(place(rid).0) >= LARGE {
            heap::touched(PAGE);
        }
    }

    /// Calls [`RecordArray::count_first_use`] for every RID before this one; none has been
    /// counted yet.
    pub(super) fn count_all_used(&self, high_water: Rid) {
        for chunk in (0..CHUNKS).filter(|&chunk| chunk_bytes(chunk) >= LARGE) {
            match touched_bytes(chunk, high_water.0) {
                0 => return,
                bytes => heap::touched(bytes),
            }
        }
    }

    /// Prepares the accounting for dropping the array: unused records are counted again,
    /// since the deallocation subtracts whole chunks.
    pub(super) fn count_unused(&self, high_water: Rid) {
        for (chunk, records) in self.chunks.iter().enumerate() {
            let bytes = chunk_bytes(chunk);
            if bytes >= LARGE && !records.load(Ordering::Relaxed).is_null() {
                heap::touched(bytes - touched_bytes(chunk, high_water.0));
            }
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn fresh(length: usize) -> Box<[Record]> {
        // SAFETY: a record consists of atomic integers and pointers, for which zero bytes
        // are a valid value.
        unsafe { Box::new_zeroed_slice(length).assume_init() }
    }

    #[cfg(any(loom, shuttle))]
    fn fresh(length: usize) -> Box<[Record]> {
        (0..length).map(|_| Record::new()).collect()
    }

    /// Bytes of the records before `rid`.
    pub(super) fn bytes_before(rid: Rid) -> u64 {
        rid.0 * size_of::<Record>() as u64
    }
}

impl Drop for RecordArray {
    fn drop(&mut self) {
        for (chunk, records) in self.chunks.iter().enumerate() {
            let records = records.load(Ordering::Relaxed);
            if !records.is_null() {
                let records = ptr::slice_from_raw_parts_mut(records, chunk_length(chunk));
                // SAFETY: made in `grow` with this length.
                drop(unsafe { Box::from_raw(records) });
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_rid_has_its_place() {
        let mut expected = (0, 0);
        for rid in 0..FIRST * 15 {
            assert_eq!(place(Rid(rid)), expected);
            expected.1 += 1;
            if expected.1 == chunk_length(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let (chunk, at) = place(Rid(RID_LIMIT - 1));
        assert_eq!((chunk, at), (CHUNKS - 1, chunk_length(CHUNKS - 1) - 1));
    }

    #[test]
    fn records_never_move() {
        let array = RecordArray::new();
        assert!(array.get(Rid(3)).is_none());
        let first = ptr::from_ref(array.get_or_grow(Rid(3)));
        let far = Rid(FIRST * 20);
        assert!(array.get(far).is_none());
        array.get_or_grow(far);
        assert!(
            array.get(Rid(FIRST * 4)).is_none(),
            "chunks between stay unmade"
        );
        assert_eq!(first, ptr::from_ref(array.get(Rid(3)).unwrap()));
    }
}
