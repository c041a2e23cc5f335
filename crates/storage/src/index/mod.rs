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
//! scc's TreeIndex, because its readers lock nothing and write nothing. Nothing
//! outside this folder knows of it, and a tree of our own shall take its place.
//!
//! Version 3.8.8 has a fault that we keep away from: a scan that finds no key at or
//! beyond its start goes to the outermost leaf instead, and ends at once when that
//! leaf has just lost its last key, however many keys the others have. So every
//! index has two sentinels, below and above all keys, which are never removed. No
//! scan then starts beyond every key, and no outermost leaf is empty.
//! `tests/it/index.rs` fails within a second without them.

mod key;
pub mod tree;

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicI64, Ordering};

use coeval_types::Rid;
use scc::{Guard, TreeIndex};

use key::{Key, Probe};

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
pub struct OrderedIndex {
    tree: TreeIndex<Key, Rid>,
    /// Signed, like the bytes: a key may be removed before its insertion is counted.
    entries: AtomicI64,
    boxed_bytes: AtomicI64,
}

impl fmt::Debug for OrderedIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OrderedIndex")
            .field("entries", &self.len())
            .finish_non_exhaustive()
    }
}

impl Default for OrderedIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl OrderedIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        let tree = TreeIndex::new();
        for sentinel in [Key::Lowest, Key::Highest] {
            let inserted = tree.insert_sync(sentinel, Rid(u64::MAX));
            assert!(inserted.is_ok(), "an empty tree has no sentinels");
        }
        Self {
            tree,
            entries: AtomicI64::new(0),
            boxed_bytes: AtomicI64::new(0),
        }
    }

    /// The RID that a key has. Never blocks.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Rid> {
        self.tree.peek_with(&Probe::Key(key), |_, &rid| rid)
    }

    /// Gives the key this RID, unless it has one; then says which. Blocks only
    /// while another thread splits or merges the same node.
    pub fn insert_if_absent(&self, key: &[u8], rid: Rid) -> Result<(), Rid> {
        let mut owned = Key::new(key);
        while let Err((back, _)) = self.tree.insert_sync(owned, rid) {
            if let Some(there) = self.get(key) {
                return Err(there);
            }
            // It was there, and somebody has removed it since.
            owned = back;
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.boxed_bytes
            .fetch_add(Key::boxed_bytes(key), Ordering::Relaxed);
        Ok(())
    }

    /// Removes the key if it has this RID; says whether it had. Blocks as
    /// [`OrderedIndex::insert_if_absent`].
    pub fn remove(&self, key: &[u8], rid: Rid) -> bool {
        let removed = self
            .tree
            .remove_if_sync(&Probe::Key(key), |&there| there == rid);
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
        visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let guard = Guard::new();
        visit_all(self.range(lower, upper, &guard), visit)
    }

    /// Visits the entries between the bounds in descending order, until the
    /// visitor breaks.
    pub fn scan_backward(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let guard = Guard::new();
        visit_all(self.range(lower, upper, &guard).rev(), visit)
    }

    fn range<'index>(
        &'index self,
        lower: Bound<&'index [u8]>,
        upper: Bound<&'index [u8]>,
        guard: &'index Guard,
    ) -> impl DoubleEndedIterator<Item = (&'index Key, &'index Rid)> {
        let (lower, upper) = match is_empty_range(lower, upper) {
            // Bounds that cross may not be asked of the tree.
            true => (
                Bound::Excluded(Probe::Lowest),
                Bound::Included(Probe::Lowest),
            ),
            false => (
                or_sentinel(lower, Probe::Lowest),
                or_sentinel(upper, Probe::Highest),
            ),
        };
        self.tree.range((lower, upper), guard)
    }

    /// How many entries it has; approximate while others write.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed).try_into().unwrap_or(0)
    }

    /// Whether it has none; approximate while others write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        /// A leaf's bookkeeping and empty places, and the inner nodes, shared out among
        /// entries: measured, 20 when keys come in order and 47 when they come at
        /// random.
        const OVERHEAD: u64 = 32;
        let entry = (size_of::<Key>() + size_of::<Rid>()) as u64 + OVERHEAD;
        let boxed = self.boxed_bytes.load(Ordering::Relaxed);
        self.len() * entry + u64::try_from(boxed).unwrap_or(0)
    }
}

fn visit_all<'index>(
    entries: impl Iterator<Item = (&'index Key, &'index Rid)>,
    mut visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for (key, &rid) in entries {
        if let Some(key) = key.as_bytes() {
            visit(key, rid)?;
        }
    }
    ControlFlow::Continue(())
}

/// The place where a scan begins or ends: without a bound, at a sentinel.
fn or_sentinel<'key>(bound: Bound<&'key [u8]>, sentinel: Probe<'key>) -> Bound<Probe<'key>> {
    match bound {
        Bound::Included(key) => Bound::Included(Probe::Key(key)),
        Bound::Excluded(key) => Bound::Excluded(Probe::Key(key)),
        Bound::Unbounded => Bound::Included(sentinel),
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
