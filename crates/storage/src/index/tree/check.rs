//! Consistency check of a B+tree at rest against its invariants, for tests.

use std::collections::BTreeMap;

use super::Tree;
use super::contents::Contents;
use super::node::{Node, SPILLED};
use super::word::{common_prefix, word_at};

/// Statistics and entries of a checked tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TreeShape {
    pub(super) nodes: usize,
    pub(super) spilled: usize,
    pub(super) levels: usize,
    pub(super) entries: BTreeMap<Vec<u8>, u64>,
}

/// Checks every node of the tree.
///
/// # Panics
/// When the tree violates an invariant.
pub(super) fn check<const W: usize>(tree: &Tree<W>) -> TreeShape {
    let mut found = TreeShape {
        levels: tree.root.shape().level + 1,
        ..TreeShape::default()
    };
    let root = tree.root.take_apart();
    assert!(root.lower.is_empty() && root.upper.is_none());
    check_node(&tree.root, &root, &mut found);
    found
}

fn check_node<const W: usize>(node: &Node<W>, contents: &Contents, found: &mut TreeShape) {
    let shape = node.shape();
    let (lower, upper) = (&contents.lower, &contents.upper);
    found.nodes += 1;
    found.spilled += contents.unused.len();
    let prefix = upper
        .as_ref()
        .map_or(0, |upper| common_prefix(lower, upper));
    assert_eq!(shape.prefix, prefix);
    assert_eq!(shape.count, contents.entries.len());
    let (used, fences) = node.used_words(shape);
    assert_eq!(used + fences, contents.words::<W>(&contents.whole(None)));
    for at in 0..shape.count {
        let key = contents.key(at);
        assert!(key >= &lower[..] && upper.as_ref().is_none_or(|upper| key < &upper[..]));
        assert!(at == 0 || contents.key(at - 1) < key, "keys ascend");
        assert_eq!(node.head(shape, at), word_at(key, prefix));
        let mark = node.mark(shape, at);
        match mark.length {
            SPILLED => assert!(key.len() > Node::<W>::LONGEST && key.len() - prefix > 8),
            length => assert_eq!(key.len() - prefix, length),
        }
        found.spilled += usize::from(mark.length == SPILLED);
    }
    if shape.level == 0 {
        let entries = (0..shape.count).map(|at| {
            let rid = node.value(shape, at).get();
            (contents.key(at).to_vec(), rid)
        });
        found.entries.extend(entries);
        return;
    }
    for at in 0..=shape.count {
        // SAFETY: the tree is at rest, and its nodes are alive.
        let child = unsafe { &*node.child(shape, at) };
        assert_eq!(child.shape().level, shape.level - 1);
        let its = child.take_apart();
        let from = if at == 0 { lower } else { contents.key(at - 1) };
        assert_eq!(its.lower, from, "a child begins at its separator");
        let to = match at < shape.count {
            true => Some(contents.key(at)),
            false => upper.as_deref(),
        };
        assert_eq!(
            its.upper.as_deref(),
            to,
            "a child ends at the next separator"
        );
        check_node(child, &its, found);
    }
}
