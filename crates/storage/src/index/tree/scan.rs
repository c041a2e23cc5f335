//! Range scans of the B+tree: leaf by leaf, in either direction, while writers run.
//!
//! # Guarantees
//!
//! A key that is in the tree from before the scan begins until it ends, and is between the
//! bounds, is visited exactly once, with its RID. No key is visited that was not in the
//! tree at some moment of the scan. Keys are visited strictly in order. A key that is
//! inserted or removed meanwhile may be visited or not. The scan is not a snapshot: it may
//! visit a key that was inserted later and miss one that was inserted earlier.
//!
//! # Algorithm
//!
//! ```text
//!   cursor ──▶ leaf at version v ──▶ copy some entries ──▶ validate v ──▶ visit them
//!                   ▲                       ▲                               │
//!                   │                       └──── more in this leaf ◀───────┤
//!                   └──── cursor = the leaf's fence: through the parent, ◀──┘
//!                         or from the root when the parent has changed
//! ```
//!
//! Visitors get copies, and no latch is held while they run; so they may take their time,
//! and write to the tree. If the leaf has changed meanwhile, the scan descends from the
//! root again, to the position after the last visited key.
//!
//! Why that is enough. A validated copy is everything that the leaf had between two
//! positions at one moment. The copies join without a gap: the next one begins at the next
//! slot in the same version, or after the last visited key in another version, or at the
//! fence in the sibling, whose range begins where this one's ends. So every key that is
//! there throughout is in exactly one copy.
//!
//! The first batch is small, because many scans want only one entry. A scan that continues
//! prefetches the next batch while it visits this one, in this leaf or in the next, and
//! nothing further: a prefetch that is too early or useless delays other loads.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow, Range};

use coeval_types::Rid;

use super::Access;
use super::batch::{BATCH, Batch, Cursor, Key};
use super::latch::Restart;
use super::node::{Node, SPILLED, Shape};
use super::search::{LeafPosition, Seen, Side, descend, enter};

/// Number of entries in the first batch.
const FIRST_BATCH: usize = 4;

/// A leaf that a scan is visiting.
struct Leaf<'tree, const W: usize> {
    place: LeafPosition<'tree, W>,
    shape: Shape,
    /// The slots between the bounds that have not been visited.
    slots: Range<usize>,
    /// Whether the scan ends in this leaf. If not, it continues at the fence.
    is_last: bool,
    /// Whether the leaf's heap was prefetched.
    is_asked_for: bool,
}

impl<const W: usize> Leaf<'_, W> {
    /// Takes the next slots, at most `most`.
    fn take<const FORWARD: bool>(&mut self, most: usize) -> Range<usize> {
        let Range { start, end } = self.slots;
        let count = most.min(self.slots.len());
        match FORWARD {
            true => {
                self.slots.start = start + count;
                start..start + count
            }
            false => {
                self.slots.end = end - count;
                end - count..end
            }
        }
    }
}

/// The position in a leaf at which a scan starts or continues.
#[derive(Clone, Copy)]
enum Start<'cursor, 'key> {
    /// Start at a cursor that has to be searched for in the leaf.
    At(&'cursor Cursor<'key>),
    /// Start at the first slot in scan order: the cursor is the leaf's fence.
    Outermost,
}

impl<const W: usize> Access<'_, W> {
    /// Visits the entries between the bounds, in ascending or descending order, until the
    /// visitor breaks.
    pub(super) fn scan<const FORWARD: bool>(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if is_empty_range(lower, upper) {
            return ControlFlow::Continue(());
        }
        let (start, end) = match FORWARD {
            true => (lower, upper),
            false => (upper, lower),
        };
        let mut cursor: Cursor<'_> = start.map(Cow::Borrowed);
        let mut batch = Batch::new();
        let mut size = FIRST_BATCH;
        let mut fence = Vec::new();
        let mut key = Key::new();
        let mut neighbour = None;
        'leaf: loop {
            // The sibling may have changed, or the path to it; the root is always there.
            let mut leaf = match neighbour.take().and_then(|place| {
                self.arrive::<FORWARD>(place, Start::Outermost, end, &mut fence)
                    .ok()
            }) {
                Some(leaf) => leaf,
                None => self.until_done(|| {
                    let place = self.leaf_of::<FORWARD>(&cursor)?;
                    self.arrive::<FORWARD>(place, Start::At(&cursor), end, &mut fence)
                }),
            };
            key.enter::<W>(leaf.shape, &cursor);
            while !leaf.slots.is_empty() {
                let slots = leaf.take::<FORWARD>(size);
                if size == BATCH {
                    self.ask_ahead::<FORWARD>(&mut leaf);
                }
                if batch
                    .copy::<W, FORWARD>(leaf.place.at, leaf.shape, slots)
                    .is_err()
                {
                    key.leave(&mut cursor);
                    continue 'leaf;
                }
                size = BATCH;
                batch.visit(&mut key, &mut visit)?;
            }
            if leaf.is_last {
                return ControlFlow::Continue(());
            }
            if self.copy_reached::<FORWARD>(&leaf, &mut fence).is_err() {
                key.leave(&mut cursor);
                continue 'leaf;
            }
            neighbour = self.neighbour::<FORWARD>(&leaf.place);
            let reached = Cow::Owned(std::mem::take(&mut fence));
            let left = match FORWARD {
                true => std::mem::replace(&mut cursor, Bound::Included(reached)),
                false => std::mem::replace(&mut cursor, Bound::Excluded(reached)),
            };
            // Its buffer is reused.
            if let Bound::Included(Cow::Owned(old)) | Bound::Excluded(Cow::Owned(old)) = left {
                fence = old;
            }
        }
    }

    /// Finds the leaf at which a scan continues.
    fn leaf_of<const FORWARD: bool>(
        &self,
        cursor: &Cursor<'_>,
    ) -> Result<LeafPosition<'_, W>, Restart> {
        let (key, side) = match (cursor, FORWARD) {
            (Bound::Included(key), _) | (Bound::Excluded(key), true) => (&**key, Side::From),
            (Bound::Excluded(key), false) => (&**key, Side::Below),
            (Bound::Unbounded, true) => (&[][..], Side::From),
            (Bound::Unbounded, false) => (&[][..], Side::Last),
        };
        descend(&self.tree.root, key, side, 0)
    }

    /// Determines which slots of a leaf a scan visits, and copies the fence at which it
    /// continues to `fence`.
    fn arrive<'tree, const FORWARD: bool>(
        &self,
        place: LeafPosition<'tree, W>,
        start: Start<'_, '_>,
        end: Bound<&[u8]>,
        fence: &mut Vec<u8>,
    ) -> Result<Leaf<'tree, W>, Restart> {
        let Seen { node, version } = place.at;
        let shape = node.shape();
        // Whether the leaf ends before the bound, so that the scan continues after it.
        let goes_on = match (Self::reached::<FORWARD>(node), end) {
            (None, _) => false,
            (Some(_), Bound::Unbounded) => true,
            (Some(reached), Bound::Included(end) | Bound::Excluded(end)) => {
                self.copy_fence(place.at, reached, fence)?;
                match FORWARD {
                    true => end >= &fence[..],
                    false => end < &fence[..],
                }
            }
        };
        // The fences are valid: so the bound, if it is in this leaf, has the prefix.
        place.at.validate()?;
        let slot_of = |key: &[u8], behind: bool| {
            let (slot, exact) = node.find(shape, key, version)?;
            Ok(slot + usize::from(exact && behind))
        };
        let first = match start {
            Start::At(Bound::Included(key)) => slot_of(key, !FORWARD)?,
            Start::At(Bound::Excluded(key)) => slot_of(key, FORWARD)?,
            Start::At(Bound::Unbounded) | Start::Outermost if FORWARD => 0,
            Start::At(Bound::Unbounded) | Start::Outermost => shape.count,
        };
        let last = match end {
            Bound::Included(key) if !goes_on => slot_of(key, FORWARD)?,
            Bound::Excluded(key) if !goes_on => slot_of(key, !FORWARD)?,
            _ if FORWARD => shape.count,
            _ => 0,
        };
        place.at.validate()?;
        let slots = if FORWARD { first..last } else { last..first };
        // The heads are prefetched or cached; the values are needed next.
        node.prefetch_slots(shape, first_of::<FORWARD>(&slots));
        if goes_on {
            node.prefetch_end();
            self.ask_header::<FORWARD>(&place);
        }
        Ok(Leaf {
            place,
            shape,
            slots,
            is_last: !goes_on,
            is_asked_for: matches!(start, Start::Outermost),
        })
    }

    /// Copies a fence, which the caller must validate. Until then the bytes may be
    /// arbitrary.
    fn copy_fence(
        &self,
        at: Seen<'_, W>,
        (place, length): (usize, usize),
        bytes: &mut Vec<u8>,
    ) -> Result<(), Restart> {
        bytes.clear();
        if length == SPILLED {
            // SAFETY: `self` is pinned since before the version was loaded.
            let fence = unsafe { at.node.spilled(place, Some(at.version))? };
            bytes.extend_from_slice(fence.bytes());
            return Ok(());
        }
        for word in 0..length.div_ceil(8) {
            let word = at.node.word(place + word)?.get();
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.truncate(length);
        Ok(())
    }

    /// Index of the next leaf among the parent's children, in scan order.
    fn next_index<const FORWARD: bool>(shape: Shape, index: usize) -> Option<usize> {
        match FORWARD {
            true => Some(index + 1).filter(|&next| next <= shape.count),
            false => index.checked_sub(1),
        }
    }

    /// Prefetches the next leaf's header, which determines what else of the leaf to
    /// prefetch.
    fn ask_header<const FORWARD: bool>(&self, place: &LeafPosition<'_, W>) {
        if let Some((parent, index)) = place.parent {
            let shape = parent.node.shape();
            if let Some(next) = Self::next_index::<FORWARD>(shape, index) {
                Node::prefetch_header(parent.node.child(shape, next));
            }
        }
    }

    /// Prefetches what the scan visits after the next batch, in this leaf or in the next
    /// one. Only for a scan that continues beyond its first batch.
    fn ask_ahead<const FORWARD: bool>(&self, leaf: &mut Leaf<'_, W>) {
        let node = leaf.place.at.node;
        if !leaf.is_asked_for {
            leaf.is_asked_for = true;
            node.prefetch_heap();
        }
        if !leaf.slots.is_empty() {
            node.prefetch_slots(leaf.shape, first_of::<FORWARD>(&leaf.slots));
            return;
        }
        let Some((parent, index)) = leaf.place.parent.filter(|_| !leaf.is_last) else {
            return;
        };
        let shape = parent.node.shape();
        let Some(next) = Self::next_index::<FORWARD>(shape, index) else {
            return;
        };
        let child = parent.node.child(shape, next);
        if parent.validate().is_err() {
            return;
        }
        // SAFETY: read from the parent, which validation has shown to be unchanged since
        // its version was loaded; `self` is pinned since before.
        let child = unsafe { &*child };
        let its = child.shape();
        child.prefetch_slots(its, first_of::<FORWARD>(&(0..its.count)));
        child.prefetch_heap();
        if let Some(further) = Self::next_index::<FORWARD>(shape, next) {
            Node::prefetch_header(parent.node.child(shape, further));
        }
    }

    /// The fence after which a scan continues; `None` for the outermost leaf.
    fn reached<const FORWARD: bool>(node: &Node<W>) -> Option<(usize, usize)> {
        let fences = node.fences();
        match FORWARD {
            true => fences.upper,
            false => Some(fences.lower).filter(|&(_, length)| length > 0),
        }
    }

    /// Copies and validates the fence after which a scan continues.
    fn copy_reached<const FORWARD: bool>(
        &self,
        leaf: &Leaf<'_, W>,
        fence: &mut Vec<u8>,
    ) -> Result<(), Restart> {
        let at = leaf.place.at;
        let reached = Self::reached::<FORWARD>(at.node).ok_or(Restart)?;
        self.copy_fence(at, reached, fence)?;
        at.validate_result()
    }

    /// The next leaf, if it has the same parent and the parent has not changed.
    fn neighbour<'tree, const FORWARD: bool>(
        &'tree self,
        place: &LeafPosition<'tree, W>,
    ) -> Option<LeafPosition<'tree, W>> {
        let (parent, index) = place.parent?;
        let shape = parent.node.shape();
        let index = Self::next_index::<FORWARD>(shape, index)?;
        let child = parent.node.child(shape, index);
        // SAFETY: read from the parent after its version; `self` is pinned.
        let at = unsafe { enter(parent, child) }.ok()?;
        Some(LeafPosition {
            at,
            parent: Some((parent, index)),
        })
    }
}

/// The first slots in scan order, at most a full batch.
fn first_of<const FORWARD: bool>(slots: &Range<usize>) -> Range<usize> {
    match FORWARD {
        true => slots.start..slots.end.min(slots.start + BATCH),
        false => slots.start.max(slots.end.saturating_sub(BATCH))..slots.end,
    }
}

/// Whether the range is empty because its bounds cross.
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
