//! A concurrent B+tree from byte strings to RIDs, with optimistic lock coupling: readers
//! take no latches.
//!
//! ```text
//!   root      level 2            │ "k" │ … │                      latch word, heads,
//!                              ╱     │                            children
//!   inner     level 1   │ "c" │ "f" │      …
//!                      ╱    │      ╲
//!   leaves    level 0  [a b] [c d e] [f g h] …                    heads, RIDs, tails
//! ```
//!
//! Every node has a latch with a version ([`latch`]). Readers do not take it: they load the
//! version, read the node, and load the version again (*optimistic lock coupling*). Writers
//! descend like readers, and take only the latches of nodes that they change: usually that
//! of one leaf.
//!
//! # The path of a key
//!
//! `get("user:00042:name")` in a tree of keys that begin with `"user:"`:
//!
//! ```text
//!   root    prefix ""         compare head "user:000"              ──▶ child 17
//!   inner   prefix "user:00"  compare head "042:name"              ──▶ child 3
//!   leaf    prefix "user:0004"  head "2:name\0\0", length 6         ──▶ slot 9, its RID
//! ```
//!
//! A node's prefix is the common prefix of its two *fences*, the separators that enclose it
//! in its parent. So it grows on the way down, and the eight bytes after it nearly always
//! decide ([`node`] documents the layout, [`search`] the search).
//!
//! # Files
//!
//! | file | contents |
//! | --- | --- |
//! | [`latch`] | versions and latches, the orderings |
//! | [`word`] | atomic words; bytes of keys as numbers |
//! | [`node`] | the layout of a node; opens and closes slots |
//! | [`search`] | finds a key in a node; descends from the root |
//! | [`many`] | `get`, and many of them at once |
//! | [`insert`], [`split`] | insertion |
//! | [`merge`] | removal |
//! | [`contents`] | decodes nodes and encodes them again |
//! | [`scan`] | scans in both directions, and their guarantees |
//! | [`batch`] | the entries that a scan copies, and the keys that it rebuilds |
//! | [`bulk`] | builds a tree from keys in order |
//! | [`spilled`] | long keys; memory accounting; retirement |
//!
//! # Invariants
//!
//! 1. Everything in a node but its latch is changed only by the latch's holder, or before
//!    the node is linked. All of it is atomic words, accessed relaxed.
//! 2. A reader uses nothing before it has validated the version that it loaded before: it
//!    neither follows a pointer nor returns a result. Until then it only computes, with
//!    bounds checks.
//! 3. A child's fences are the separators around it in its parent; they change only while
//!    the latches of both are held.
//! 4. All leaves have the same distance from the root. The root never moves.
//! 5. A node that no other node leads to is retired, not freed; a pinned reader may still
//!    access it, and finds its latch marked as gone.
//! 6. Latches are taken from parent to child and from left to right; a thread that holds
//!    one never waits for another.
//!
//! Sources: V. Leis, M. Haubenschild, T. Neumann: *Optimistic Lock Coupling* (2019), for
//! the protocol; G. Graefe: *Modern B-Tree Techniques* (2011), §3, for fences, prefixes,
//! suffix truncation and heads; V. Leis and others: *LeanStore* (2018) for slots and heap
//! in a node.

mod batch;
mod bulk;
mod contents;
mod insert;
mod latch;
mod many;
mod merge;
mod node;
mod scan;
mod search;
mod spilled;
mod split;
mod word;

use std::fmt;
use std::ops::{Bound, ControlFlow};

use coeval_memory::epoch::{Domain, DomainId, Guard};
use coeval_memory::sync::Backoff;
use coeval_types::Rid;

use bulk::Loader;
use latch::Restart;
use node::{Node, SPILLED};
use spilled::Books;

/// Words in a node's body, which make a node 2 KiB: large enough that a tree of millions of
/// keys has four levels, small enough that an insertion moves little.
pub const WORDS: usize = 248;

/// A B+tree whose nodes have bodies of `W` words.
pub struct Tree<const W: usize = WORDS> {
    root: Box<Node<W>>,
    books: Books,
    domain: DomainId,
}

// SAFETY: nodes are atomics and boxes, shared by the rules of this folder; a thread that
// follows a pointer holds a guard of the domain, and writers hold latches.
unsafe impl<const W: usize> Send for Tree<W> {}
// SAFETY: as above.
unsafe impl<const W: usize> Sync for Tree<W> {}

impl<const W: usize> fmt::Debug for Tree<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tree").finish_non_exhaustive()
    }
}

/// A tree and the guard that protects the nodes read in it.
#[derive(Clone, Copy)]
struct Access<'a, const W: usize> {
    tree: &'a Tree<W>,
    guard: &'a Guard<'a>,
}

impl<const W: usize> Access<'_, W> {
    /// Repeats an attempt until no writer interferes.
    #[inline]
    fn until_done<T>(&self, mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
        let mut backoff = Backoff::default();
        loop {
            if let Ok(done) = attempt() {
                return done;
            }
            backoff.wait();
        }
    }

    /// Retires the memory of long keys that slots and fences no longer use.
    fn retire_spilled(&self, unused: impl IntoIterator<Item = *mut ()>) {
        for pointer in unused {
            // SAFETY: callers have re-encoded or changed the node that led to it, under its
            // latch, and got it from there; the guard is of the tree's domain.
            unsafe { self.tree.books.retire_spilled(pointer, self.guard) };
        }
    }
}

impl<const W: usize> Tree<W> {
    /// Creates an empty tree. All its users must be pinned in this domain.
    #[must_use]
    pub fn new(domain: &Domain) -> Self {
        let books = Books::default();
        Self {
            root: books.node(),
            books,
            domain: domain.id(),
        }
    }

    #[inline]
    fn access<'a>(&'a self, guard: &'a Guard<'a>) -> Access<'a, W> {
        assert!(
            guard.domain().id() == self.domain,
            "the guard is of another domain than the index"
        );
        Access { tree: self, guard }
    }

    /// Looks up the RID of a key. Waits only while a writer changes a node on the path.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8], guard: &Guard<'_>) -> Option<Rid> {
        self.access(guard).get(key)
    }

    /// Looks up the RIDs of many keys at once, overlapping their cache misses; calls
    /// `found` in any order with a key's position in `keys`.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        guard: &Guard<'_>,
        found: impl FnMut(usize, Option<Rid>),
    ) {
        self.access(guard).get_many(keys, found);
    }

    /// Maps the key to this RID, unless it has one, which is then returned as the error.
    pub fn insert_if_absent(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) -> Result<(), Rid> {
        self.access(guard).insert(key, rid)
    }

    /// Maps the key to `to` if it is mapped to `from`; returns whether it was. No reader
    /// finds the key absent meanwhile.
    pub fn replace(&self, key: &[u8], from: Rid, to: Rid, guard: &Guard<'_>) -> bool {
        self.access(guard).replace(key, from, to)
    }

    /// Removes the key if it is mapped to this RID; returns whether it was.
    pub fn remove(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) -> bool {
        self.access(guard).remove(key, rid)
    }

    /// Visits the entries between the bounds in ascending order, until the visitor breaks.
    /// `scan.rs` documents what the scan sees of concurrent writes.
    pub fn scan_forward(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        guard: &Guard<'_>,
        visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.access(guard).scan::<true>(lower, upper, visit)
    }

    /// Visits the entries between the bounds in descending order, like
    /// [`Tree::scan_forward`].
    pub fn scan_backward(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        guard: &Guard<'_>,
        visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.access(guard).scan::<false>(lower, upper, visit)
    }

    /// Creates a tree from entries in ascending order.
    ///
    /// # Panics
    /// When a key is not greater than the previous one.
    #[must_use]
    pub fn from_sorted<K: AsRef<[u8]>>(
        domain: &Domain,
        entries: impl IntoIterator<Item = (K, Rid)>,
    ) -> Self {
        let mut tree = Self::new(domain);
        let mut loader = Loader::new(&mut tree);
        for (key, rid) in entries {
            loader.push(key.as_ref(), rid);
        }
        loader.finish_all();
        tree
    }

    /// Bytes of memory that the tree occupies.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.books.memory::<W>()
    }
}

impl<const W: usize> Drop for Tree<W> {
    fn drop(&mut self) {
        free_below(&self.root);
    }
}

/// Frees everything below a node of a tree that is being dropped.
fn free_below<const W: usize>(node: &Node<W>) {
    let shape = node.shape();
    let mut spilled = Vec::new();
    for slot in 0..shape.count {
        let mark = node.mark(shape, slot);
        if mark.length == SPILLED {
            spilled.push(mark.place);
        }
    }
    let fences = node.fences();
    for (place, length) in [Some(fences.lower), fences.upper].into_iter().flatten() {
        if length == SPILLED {
            spilled.push(place);
        }
    }
    for place in spilled {
        let pointer = node.word(place).expect("a place of the heap").pointer();
        // SAFETY: the slot's or fence's own, in a tree that is being dropped.
        unsafe { Books::free_spilled(pointer) };
    }
    if shape.level == 0 {
        return;
    }
    for child in 0..=shape.count {
        let child = node.child(shape, child).cast_mut();
        // SAFETY: every child came from `Box::into_raw`, has one parent, and no other
        // thread uses the tree.
        let child = unsafe { Box::from_raw(child) };
        free_below(&child);
    }
}

#[cfg(test)]
mod check;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

#[cfg(all(test, any(loom, shuttle)))]
mod models;
