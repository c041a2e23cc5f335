//! Bulk loading: builds an empty tree from sorted entries, from the leaves upwards.
//!
//! ```text
//!   keys ──▶ leaf under construction ──full──▶ leaf
//!                  its separator ──▶ inner node under construction ──full──▶ inner node
//!                                          its separator ──▶ …
//! ```
//!
//! Nodes are filled to nine tenths: the first insertion into a completely full leaf would
//! split it.

use coeval_types::Rid;

use super::Tree;
use super::contents::{Contents, Part, tail_words};
use super::node::{Node, slot_words};
use super::word::{as_pointer, common_prefix, separator};

/// One level of the tree; its last node is under construction.
struct Level {
    contents: Contents,
    /// Words of the entries' tails, without `prefix`.
    tails: usize,
    prefix: usize,
}

/// A bulk load in progress.
pub(super) struct Loader<'tree, const W: usize> {
    tree: &'tree mut Tree<W>,
    levels: Vec<Level>,
    last: Vec<u8>,
}

impl Level {
    fn new(level: usize) -> Self {
        Self {
            contents: Contents::new(level),
            tails: 0,
            prefix: usize::MAX,
        }
    }

    /// Whether this entry would fill the node up to the limit. An estimate, because the
    /// upper fence is not yet known.
    fn is_full_with<const W: usize>(&mut self, key: &[u8]) -> bool {
        const MAX_PERCENT: usize = 90;
        // Keys ascend, so the last key shares with the lower fence what all keys share.
        let prefix = common_prefix(&self.contents.lower, key);
        if prefix != self.prefix {
            self.prefix = prefix;
            self.tails = (0..self.contents.entries.len())
                .map(|entry| tail_words::<W>(self.contents.key(entry).len(), prefix))
                .sum();
        }
        let words = slot_words(self.contents.entries.len() + 1)
            + self.tails
            + tail_words::<W>(key.len(), prefix);
        words * 100 > W * MAX_PERCENT
    }

    fn push<const W: usize>(&mut self, key: &[u8], value: *mut ()) {
        if self.prefix <= key.len() {
            self.tails += tail_words::<W>(key.len(), self.prefix);
        }
        self.contents.push(key, value);
    }
}

impl<'tree, const W: usize> Loader<'tree, W> {
    /// Starts loading into an empty tree.
    pub(super) fn new(tree: &'tree mut Tree<W>) -> Self {
        let shape = tree.root.shape();
        assert!(shape.level == 0 && shape.count == 0, "the tree is empty");
        Self {
            tree,
            levels: vec![Level::new(0)],
            last: Vec::new(),
        }
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// When the key is not greater than the previous one.
    pub(super) fn push(&mut self, key: &[u8], rid: Rid) {
        let leaf = &mut self.levels[0];
        assert!(
            leaf.contents.entries.is_empty() || key > &self.last[..],
            "keys to load ascend"
        );
        if leaf.contents.entries.len() > 1 && leaf.is_full_with::<W>(key) {
            self.flush_leaf(key);
        }
        let leaf = &mut self.levels[0];
        leaf.push::<W>(key, as_pointer(rid.0));
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// Makes a leaf of the collected entries, or of as many as fit, when `next` is the key
    /// that follows them.
    fn flush_leaf(&mut self, next: &[u8]) {
        let contents = &self.levels[0].contents;
        let mut at = contents.entries.len();
        let fence = loop {
            let next = if at < contents.entries.len() {
                contents.key(at)
            } else {
                next
            };
            let fence = separator(contents.key(at - 1), next);
            if fits::<W>(contents, at, Some(fence)) {
                break fence.to_vec();
            }
            at -= 1;
        };
        let lower = self.finish(0, at, &fence, at);
        self.link(1, lower);
    }

    /// Makes a node of the first `at` entries; those from `rest` on start the next node,
    /// with lower fence `fence`. Returns the finished node and its lower fence.
    fn finish(&mut self, level: usize, at: usize, fence: &[u8], rest: usize) -> (Vec<u8>, *mut ()) {
        let node = self.tree.books.node::<W>();
        let old = std::mem::replace(&mut self.levels[level], Level::new(level)).contents;
        let part = Part {
            entries: &old.entries[..at],
            upper: Some(fence),
            ..old.whole(None)
        };
        let mut unused = Vec::new();
        old.put_together(&node, &part, &self.tree.books, &mut unused);
        assert!(unused.is_empty(), "entries to load have nothing outside");
        let next = &mut self.levels[level].contents;
        next.lower = fence.to_vec();
        for entry in rest..old.entries.len() {
            next.push(old.key(entry), old.entries[entry].value);
        }
        (old.lower, Box::into_raw(node).cast())
    }

    /// Adds a finished node to its parent level.
    fn link(&mut self, level: usize, (lower, child): (Vec<u8>, *mut ())) {
        if level == self.levels.len() {
            self.levels.push(Level::new(level));
        }
        if self.levels[level].contents.first.is_null() {
            self.levels[level].contents.first = child;
            return;
        }
        let entries = self.levels[level].contents.entries.len();
        if entries > 2 && self.levels[level].is_full_with::<W>(&lower) {
            let contents = &self.levels[level].contents;
            let mut at = entries - 1;
            while !fits::<W>(contents, at, Some(contents.key(at))) {
                at -= 1;
            }
            self.flush_inner(level, at);
        }
        self.levels[level].push::<W>(&lower, child);
    }

    /// Makes an inner node of the entries before `at`; the separator at `at` moves up.
    fn flush_inner(&mut self, level: usize, at: usize) {
        let contents = &self.levels[level].contents;
        let (fence, first) = (contents.key(at).to_vec(), contents.entries[at].value);
        let finished = self.finish(level, at, &fence, at + 1);
        self.levels[level].contents.first = first;
        self.link(level + 1, finished);
    }

    /// Finishes the last node of every level.
    pub(super) fn finish_all(mut self) {
        let mut level = 0;
        loop {
            // Without an upper fence the node has no prefix, so it may be larger than
            // estimated.
            while !fits::<W>(
                &self.levels[level].contents,
                self.levels[level].contents.entries.len(),
                None,
            ) {
                self.flush_half(level);
            }
            if level + 1 == self.levels.len() {
                break;
            }
            let node = self.tree.books.node::<W>();
            let lower = self.close(level, &node);
            self.link(level + 1, (lower, Box::into_raw(node).cast()));
            level += 1;
        }
        let tree = &mut *self.tree;
        let contents = &self.levels[level].contents;
        contents.put_together(
            &tree.root,
            &contents.whole(None),
            &tree.books,
            &mut Vec::new(),
        );
    }

    fn flush_half(&mut self, level: usize) {
        let contents = &self.levels[level].contents;
        let at = contents.entries.len() / 2;
        if level > 0 {
            return self.flush_inner(level, at);
        }
        let fence = separator(contents.key(at - 1), contents.key(at)).to_vec();
        let finished = self.finish(0, at, &fence, at);
        self.link(1, finished);
    }

    /// Writes the remaining entries of a level to its last node; returns its lower fence.
    fn close(&mut self, level: usize, node: &Node<W>) -> Vec<u8> {
        let contents = std::mem::replace(&mut self.levels[level].contents, Contents::new(level));
        contents.put_together(
            node,
            &contents.whole(None),
            &self.tree.books,
            &mut Vec::new(),
        );
        contents.lower
    }
}

/// Whether a node of the first entries with this upper fence fits into `W` words.
fn fits<const W: usize>(contents: &Contents, entries: usize, fence: Option<&[u8]>) -> bool {
    let part = Part {
        entries: &contents.entries[..entries],
        upper: fence,
        ..contents.whole(None)
    };
    contents.words::<W>(&part) <= W
}
