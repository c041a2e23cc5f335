//! The indexes under comparison, behind one trait.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use coeval_memory::epoch::Domain;
use coeval_storage::index::tree::Tree;
use coeval_types::Rid;
use scc::{Comparable, Equivalent, Guard, TreeIndex};

/// An index under measurement.
pub trait Index<const N: usize>: Sync + Send + Sized {
    /// Name of the index in the table.
    const NAME: &'static str;

    fn new() -> Self;

    /// Builds an index from sorted entries.
    fn load(sorted: &[([u8; N], u64)]) -> Self {
        let index = Self::new();
        for (key, rid) in sorted {
            assert!(index.insert(key, *rid));
        }
        index
    }

    fn insert(&self, key: &[u8; N], rid: u64) -> bool;
    fn remove(&self, key: &[u8; N], rid: u64) -> bool;
    fn get(&self, key: &[u8; N]) -> Option<u64>;
    fn scan(&self, from: &[u8; N], most: usize, visit: impl FnMut(&[u8], u64));

    /// Looks up existing keys; returns the sum of their record ids.
    fn get_many(&self, keys: &[[u8; N]]) -> u64 {
        keys.iter()
            .map(|key| self.get(key).expect("the key is there"))
            .sum()
    }
}

/// The ordered index of `coeval-storage`.
pub struct Ours {
    domain: Domain,
    index: Tree,
}

impl<const N: usize> Index<N> for Ours {
    const NAME: &'static str = "coeval";

    fn new() -> Self {
        let domain = Domain::new();
        let index = Tree::new(&domain);
        Self { domain, index }
    }

    fn load(sorted: &[([u8; N], u64)]) -> Self {
        let domain = Domain::new();
        let entries = sorted.iter().map(|(key, rid)| (key, Rid(*rid)));
        let index = Tree::from_sorted(&domain, entries);
        Self { domain, index }
    }

    #[inline]
    fn insert(&self, key: &[u8; N], rid: u64) -> bool {
        let guard = self.domain.pin();
        self.index.insert_if_absent(key, Rid(rid), &guard).is_ok()
    }

    #[inline]
    fn remove(&self, key: &[u8; N], rid: u64) -> bool {
        self.index.remove(key, Rid(rid), &self.domain.pin())
    }

    #[inline]
    fn get(&self, key: &[u8; N]) -> Option<u64> {
        let found = self.index.get(key, &self.domain.pin());
        found.map(|rid| rid.0)
    }

    #[inline]
    fn scan(&self, from: &[u8; N], most: usize, mut visit: impl FnMut(&[u8], u64)) {
        let mut left = most;
        let guard = self.domain.pin();
        let _ = self.index.scan_forward(
            Bound::Included(from),
            Bound::Unbounded,
            &guard,
            |key, rid| {
                visit(key, rid.0);
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            },
        );
    }

    fn get_many(&self, keys: &[[u8; N]]) -> u64 {
        let mut sum = 0u64;
        self.index.get_many(keys, &self.domain.pin(), |_, rid| {
            sum = sum.wrapping_add(rid.expect("the key is there").0);
        });
        sum
    }
}

/// Length of the longest key stored without an allocation, in bytes: that makes a key
/// three words.
const INLINE: usize = 22;

/// A byte string of any length, as the engine passed it to scc.
#[derive(Clone)]
enum Bytes {
    Inline { length: u8, bytes: [u8; INLINE] },
    Boxed(Box<[u8]>),
}

impl Bytes {
    fn new(key: &[u8]) -> Self {
        if key.len() > INLINE {
            return Self::Boxed(key.into());
        }
        let mut bytes = [0; INLINE];
        bytes[..key.len()].copy_from_slice(key);
        let length = key.len() as u8;
        Self::Inline { length, bytes }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Boxed(bytes) => bytes,
        }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

/// A borrowed key for a lookup.
struct Probe<'key>(&'key [u8]);

impl Equivalent<Bytes> for Probe<'_> {
    #[inline]
    fn equivalent(&self, key: &Bytes) -> bool {
        self.0 == key.bytes()
    }
}

impl Comparable<Bytes> for Probe<'_> {
    #[inline]
    fn compare(&self, key: &Bytes) -> Ordering {
        self.0.cmp(key.bytes())
    }
}

/// scc's index with byte strings as keys.
pub struct SccBytes(TreeIndex<Bytes, u64>);

impl<const N: usize> Index<N> for SccBytes {
    const NAME: &'static str = "scc";

    fn new() -> Self {
        Self(TreeIndex::new())
    }

    #[inline]
    fn insert(&self, key: &[u8; N], rid: u64) -> bool {
        self.0.insert_sync(Bytes::new(key), rid).is_ok()
    }

    #[inline]
    fn remove(&self, key: &[u8; N], rid: u64) -> bool {
        self.0.remove_if_sync(&Probe(key), |&there| there == rid)
    }

    #[inline]
    fn get(&self, key: &[u8; N]) -> Option<u64> {
        self.0.peek_with(&Probe(key), |_, &rid| rid)
    }

    #[inline]
    fn scan(&self, from: &[u8; N], most: usize, mut visit: impl FnMut(&[u8], u64)) {
        let guard = Guard::new();
        for (key, &rid) in self.0.range(Probe(from).., &guard).take(most) {
            visit(key.bytes(), rid);
        }
    }
}

/// scc's index with arrays as keys.
pub struct SccArray<const N: usize>(TreeIndex<[u8; N], u64>);

impl<const N: usize> Index<N> for SccArray<N> {
    const NAME: &'static str = "scc-array";

    fn new() -> Self {
        Self(TreeIndex::new())
    }

    #[inline]
    fn insert(&self, key: &[u8; N], rid: u64) -> bool {
        self.0.insert_sync(*key, rid).is_ok()
    }

    #[inline]
    fn remove(&self, key: &[u8; N], rid: u64) -> bool {
        self.0.remove_if_sync(key, |&there| there == rid)
    }

    #[inline]
    fn get(&self, key: &[u8; N]) -> Option<u64> {
        self.0.peek_with(key, |_, &rid| rid)
    }

    #[inline]
    fn scan(&self, from: &[u8; N], most: usize, mut visit: impl FnMut(&[u8], u64)) {
        let guard = Guard::new();
        for (key, &rid) in self.0.range(*from.., &guard).take(most) {
            visit(key, rid);
        }
    }
}
