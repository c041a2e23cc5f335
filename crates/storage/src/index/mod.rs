//! The ordered index: byte strings in order, each with a RID.
//!
//! Three uses, by the caller's convention:
//!
//! | index | entry | RID |
//! | --- | --- | --- |
//! | primary | the key | the record that has the key for ever |
//! | unique, secondary | the key, then the RID, 8 bytes big endian | the same RID |
//!
//! In the second form the same key may stand for several records: versions of
//! different rows may have it at different times. [`append_rid`] and [`split_rid`]
//! make and take apart such entries. The RID has a fixed length, but two keys may
//! differ in length: entries then compare as the keys do only if no key is a
//! prefix of another, which the key encoding provides for.
//!
//! # What a scan sees
//!
//! A key that is there from before the scan begins until it ends is visited, once,
//! in order. A key that comes or goes meanwhile may be visited or not. Nothing is
//! locked, and a visitor may write to the index.
//!
//! # Below
//!
//! scc's TreeIndex: of the concurrent ordered maps that we tried the only one
//! without a wrong answer. Its own slowness in scans is known, and the reason why
//! nothing outside this file knows of it.

mod key;

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use coeval_types::Rid;
use scc::{Guard, TreeIndex};

use key::Key;

/// Bytes of a RID at the end of an entry.
pub const RID_BYTES: usize = 8;

/// Turns a key into an entry of a unique or secondary index.
pub fn append_rid(key: &mut Vec<u8>, rid: Rid) {
    key.extend_from_slice(&rid.0.to_be_bytes());
}

/// Takes an entry of a unique or secondary index apart.
///
/// # Panics
/// When the entry is shorter than a RID, so was not made by [`append_rid`].
#[must_use]
pub fn split_rid(entry: &[u8]) -> (&[u8], Rid) {
    let (key, rid) = entry.split_at(entry.len() - RID_BYTES);
    (
        key,
        Rid(u64::from_be_bytes(rid.try_into().expect("eight bytes"))),
    )
}

/// An ordered map from byte strings to RIDs, shared between threads.
#[derive(Default)]
pub struct OrderedIndex {
    tree: TreeIndex<Key, Rid>,
    entries: AtomicU64,
    boxed_bytes: AtomicU64,
}

impl fmt::Debug for OrderedIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OrderedIndex")
            .field("entries", &self.len())
            .finish_non_exhaustive()
    }
}

impl OrderedIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The RID that a key has. Never blocks.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Rid> {
        self.tree.peek_with(key, |_, &rid| rid)
    }

    /// Gives the key this RID, unless it has one; then says which. Blocks only
    /// while another thread splits or merges the same node.
    pub fn insert_if_absent(&self, key: &[u8], rid: Rid) -> Result<(), Rid> {
        loop {
            if let Some(there) = self.get(key) {
                return Err(there);
            }
            if self.tree.insert_sync(Key::new(key), rid).is_ok() {
                self.entries.fetch_add(1, Ordering::Relaxed);
                self.boxed_bytes
                    .fetch_add(Key::boxed_bytes(key), Ordering::Relaxed);
                return Ok(());
            }
            // Somebody else was first, and may have removed it again already.
        }
    }

    /// Removes the key if it has this RID; says whether it had. Blocks as
    /// [`OrderedIndex::insert_if_absent`].
    pub fn remove(&self, key: &[u8], rid: Rid) -> bool {
        let removed = self.tree.remove_if_sync(key, |&there| there == rid);
        if removed {
            self.entries.fetch_sub(1, Ordering::Relaxed);
            self.boxed_bytes
                .fetch_sub(Key::boxed_bytes(key), Ordering::Relaxed);
        }
        removed
    }

    /// Visits the entries between the bounds in ascending order, until the visitor
    /// breaks.
    pub fn scan_forward(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if is_empty_range(lower, upper) {
            return ControlFlow::Continue(());
        }
        let guard = Guard::new();
        for (key, &rid) in self.tree.range::<[u8], _>((lower, upper), &guard) {
            visit(key.as_bytes(), rid)?;
        }
        ControlFlow::Continue(())
    }

    /// Visits the entries between the bounds in descending order, until the
    /// visitor breaks.
    pub fn scan_backward(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if is_empty_range(lower, upper) {
            return ControlFlow::Continue(());
        }
        let guard = Guard::new();
        for (key, &rid) in self.tree.range::<[u8], _>((lower, upper), &guard).rev() {
            visit(key.as_bytes(), rid)?;
        }
        ControlFlow::Continue(())
    }

    /// How many entries it has; approximate while others write.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether it has none; approximate while others write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        /// A leaf's bookkeeping and the inner nodes, shared out among entries, at
        /// two thirds full.
        const OVERHEAD: u64 = 24;
        let entry = (size_of::<Key>() + size_of::<Rid>()) as u64 + OVERHEAD;
        self.len() * entry + self.boxed_bytes.load(Ordering::Relaxed)
    }
}

/// Whether nothing lies between the bounds because they cross.
fn is_empty_range(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower >= upper,
        _ => false,
    }
}
