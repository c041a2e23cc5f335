//! A B+tree from byte strings to RIDs that readers share without locks.
//!
//! ```text
//!   root      level 2            │ "k" │ … │                      latch word, heads,
//!                              ╱     │                            children
//!   inner     level 1   │ "c" │ "f" │      …
//!                      ╱    │      ╲
//!   leaves    level 0  [a b] [c d e] [f g h] …                    heads, RIDs, tails
//! ```
//!
//! Every node has a latch with a version ([`latch`]). Readers take no latch: they note
//! the version, read, and look at the version again (*optimistic lock coupling*).
//! Writers go down like readers, and take only the latches of what they change: usually
//! one leaf's.
//!
//! # A key's way
//!
//! `get("user:00042:name")` in a tree of keys that begin with `"user:"`:
//!
//! ```text
//!   root    prefix ""         head "user:000" against the heads     ──▶ child 17
//!   inner   prefix "user:00"  head "042:name" against the heads     ──▶ child 3
//!   leaf    prefix "user:0004"  head "2:name\0\0", length 6         ──▶ slot 9, its RID
//! ```
//!
//! The prefix of a node is what its two *fences* have in common, that is the separators
//! that lead to it. So it grows on the way down, and the eight bytes behind it nearly
//! always decide ([`node`] has the layout, [`search`] the search).
//!
//! # Who does what
//!
//! | file | does |
//! | --- | --- |
//! | [`latch`] | versions and latches, the orderings |
//! | [`word`] | atomic words; bytes of keys as numbers |
//! | [`node`] | the layout of a node; opens and closes slots |
//! | [`search`] | finds a key in a node; goes down |
//! | [`many`] | `get`, and many of them at once |
//! | [`insert`], [`split`] | insertion |
//! | [`merge`] | removal |
//! | [`contents`] | takes nodes apart and puts them together |
//! | [`scan`] | scans in both directions, and what they promise |
//! | [`batch`] | what a scan copies, and the keys that it shows |
//! | [`bulk`] | builds a tree from keys in order |
//! | [`spilled`] | long keys; what the tree takes in memory; retirement |
//!
//! # Invariants
//!
//! 1. Everything in a node but its latch is changed by the latch's holder only, or before
//!    the node is linked. All of it is atomic words, accessed relaxed.
//! 2. A reader uses nothing before it has validated the version that it noted before:
//!    neither follows a pointer, nor reports a result. Until then it only computes, with
//!    bounds.
//! 3. A child's fences are the separators around it in its parent; they change only
//!    while the latches of both are held.
//! 4. Every leaf is as far from the root as every other. The root never moves.
//! 5. What no node leads to any more is retired, not freed; whoever is pinned may still
//!    look at it, and finds its latch marked as gone.
//! 6. Latches are taken from parent to child and from left to right, never waited for
//!    while one is held.
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

/// Words of a node's body, so that a node takes 2 KiB: large enough that a tree of
/// millions of keys has four levels, small enough that inserting moves little.
pub const WORDS: usize = 248;

/// A tree whose nodes have `W` words of body.
pub struct Tree<const W: usize = WORDS> {
    root: Box<Node<W>>,
    books: Books,
    domain: DomainId,
}

// SAFETY: nodes are atomics and boxes that are shared by the rules of this folder;
// whoever follows a pointer holds a guard of the domain, and writers hold latches.
unsafe impl<const W: usize> Send for Tree<W> {}
// SAFETY: as above.
unsafe impl<const W: usize> Sync for Tree<W> {}

impl<const W: usize> fmt::Debug for Tree<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tree").finish_non_exhaustive()
    }
}

/// A tree and the guard that keeps what is read in it.
#[derive(Clone, Copy)]
struct Access<'a, const W: usize> {
    tree: &'a Tree<W>,
    guard: &'a Guard<'a>,
}

impl<const W: usize> Access<'_, W> {
    /// Repeats an attempt until no writer has come between.
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

    /// Retires long keys that slots and fences have just let go.
    fn retire_spilled(&self, unused: impl IntoIterator<Item = *mut ()>) {
        for pointer in unused {
            // SAFETY: callers have rebuilt or changed the node that led to it, under its
            // latch, and got it from there; the guard is of the tree's domain.
            unsafe { self.tree.books.retire_spilled(pointer, self.guard) };
        }
    }
}

impl<const W: usize> Tree<W> {
    /// An empty tree. All who use it are pinned in this domain.
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

    /// The RID that a key has. Waits only while somebody changes a node on the way.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8], guard: &Guard<'_>) -> Option<Rid> {
        self.access(guard).get(key)
    }

    /// The RIDs that keys have, told in any order with the key's place in `keys`. They
    /// are looked up at once, so that their waiting for memory overlaps.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        guard: &Guard<'_>,
        found: impl FnMut(usize, Option<Rid>),
    ) {
        self.access(guard).get_many(keys, found);
    }

    /// Gives the key this RID, unless it has one; then says which.
    pub fn insert_if_absent(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) -> Result<(), Rid> {
        self.access(guard).insert(key, rid)
    }

    /// Removes the key if it has this RID; says whether it had.
    pub fn remove(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) -> bool {
        self.access(guard).remove(key, rid)
    }

    /// Visits the entries between the bounds in ascending order, until the visitor
    /// breaks. The head of `scan.rs` says what it sees of concurrent writes.
    pub fn scan_forward(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        guard: &Guard<'_>,
        visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.access(guard).scan::<true>(lower, upper, visit)
    }

    /// The same in descending order.
    pub fn scan_backward(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        guard: &Guard<'_>,
        visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.access(guard).scan::<false>(lower, upper, visit)
    }

    /// A tree of entries that come in ascending order.
    ///
    /// # Panics
    /// When a key is not above the one before.
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

    /// Bytes of memory that it takes.
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

/// Frees what a node leads to: nobody else is left who could.
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
        // SAFETY: every child came from `Box::into_raw`, has one parent, and nobody else
        // uses the tree.
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
