//! Scans: leaf by leaf, in either direction, while others write.
//!
//! # What a scan promises
//!
//! A key that is in the tree from before the scan begins until it ends, and lies between
//! the bounds, is visited exactly once, with its RID. No key is visited that was not in
//! the tree at some moment of the scan. Keys are visited strictly in order. A key that
//! comes or goes meanwhile is visited or not. Nothing is said of two keys together: one
//! that came later may be seen and one that came earlier not.
//!
//! # How
//!
//! ```text
//!   cursor ──▶ leaf at version v ──▶ copy some entries ──▶ validate v ──▶ visit them
//!                   ▲                       ▲                               │
//!                   │                       └──── more in this leaf ◀───────┤
//!                   └──── cursor = the leaf's fence: through the parent, ◀──┘
//!                         or from the root when the parent has changed
//! ```
//!
//! Visitors see copies, and no latch is held while they run; so they may take their
//! time, and write to the tree. If the leaf has changed meanwhile, the scan comes down
//! from the root again, to what lies beyond the key that was visited last.
//!
//! Why that is enough. What was copied and validated is everything that the leaf had
//! between two places at one moment. The places join without gap: the next copy begins
//! at the slot behind in the same version, or behind the last visited key in another
//! version, or at the fence in the neighbour, whose range begins where this one's ends.
//! So every key that is there throughout is in exactly one copy.
//!
//! A scan copies few entries first and more later: many scans want only one.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use coeval_types::Rid;

use super::Access;
use super::latch::Restart;
use super::node::{Node, SPILLED, Shape};
use super::search::{Place, Seen, Side, descend, enter};
use super::spilled::Spilled;

/// Entries that are copied at once, at the most.
const BATCH: usize = 32;
/// Entries that are copied first.
const FIRST_BATCH: usize = 4;

/// Copies of entries that follow one another.
struct Batch {
    count: usize,
    heads: [u64; BATCH],
    values: [u64; BATCH],
    lengths: [usize; BATCH],
    tails: Vec<u64>,
    spilled: Vec<*const Spilled>,
}

/// A leaf that a scan stands in.
struct Leaf<'tree, const W: usize> {
    place: Place<'tree, W>,
    shape: Shape,
    /// The slots that lie between the bounds and have not been visited.
    slots: std::ops::Range<usize>,
    /// Whether the scan ends in this leaf. If not, it goes on at the fence.
    is_last: bool,
}

/// The key under construction, and what is known about it.
struct Key {
    /// Holds the prefix of the leaf, and behind it whatever was visited last.
    bytes: Vec<u8>,
    prefix: usize,
    /// How long the key is that was visited last in this leaf, if there was one.
    last: Option<usize>,
}

/// Where a scan goes on.
type Cursor<'key> = Bound<Cow<'key, [u8]>>;

impl<const W: usize> Access<'_, W> {
    /// Visits what lies between the bounds, upwards or downwards, until the visitor
    /// breaks.
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
        let mut key = Key {
            bytes: Vec::new(),
            prefix: 0,
            last: None,
        };
        let mut neighbour = None;
        'leaf: loop {
            // The neighbour may have changed, or the way to it; the root is always there.
            let mut leaf = match neighbour
                .take()
                .and_then(|place| self.arrive::<FORWARD>(place, &cursor, end, &mut fence).ok())
            {
                Some(leaf) => leaf,
                None => self.until_done(|| {
                    let place = self.leaf_of::<FORWARD>(&cursor)?;
                    self.arrive::<FORWARD>(place, &cursor, end, &mut fence)
                }),
            };
            if !leaf.is_last {
                self.prefetch_neighbour::<FORWARD>(&leaf.place);
            }
            key.enter::<W>(leaf.shape, &cursor);
            while !leaf.slots.is_empty() {
                if batch.copy::<W, FORWARD>(&mut leaf, size).is_err() {
                    if let Some(last) = key.last {
                        cursor = Bound::Excluded(Cow::Owned(key.bytes[..last].to_vec()));
                    }
                    continue 'leaf;
                }
                size = BATCH;
                batch.visit(&mut key, &mut visit)?;
            }
            if leaf.is_last {
                return ControlFlow::Continue(());
            }
            neighbour = self.neighbour::<FORWARD>(&leaf.place);
            let reached = Cow::Owned(std::mem::take(&mut fence));
            let left = match FORWARD {
                true => std::mem::replace(&mut cursor, Bound::Included(reached)),
                false => std::mem::replace(&mut cursor, Bound::Excluded(reached)),
            };
            // Its memory serves again.
            if let Bound::Included(Cow::Owned(old)) | Bound::Excluded(Cow::Owned(old)) = left {
                fence = old;
            }
        }
    }

    /// The leaf where a scan goes on.
    fn leaf_of<const FORWARD: bool>(&self, cursor: &Cursor<'_>) -> Result<Place<'_, W>, Restart> {
        let (key, side) = match (cursor, FORWARD) {
            (Bound::Included(key), _) | (Bound::Excluded(key), true) => (&**key, Side::From),
            (Bound::Excluded(key), false) => (&**key, Side::Below),
            (Bound::Unbounded, true) => (&[][..], Side::From),
            (Bound::Unbounded, false) => (&[][..], Side::Last),
        };
        descend(&self.tree.root, key, side, 0)
    }

    /// Finds out which slots of a leaf a scan visits, and puts the fence into `fence`
    /// where it goes on.
    fn arrive<'tree, const FORWARD: bool>(
        &self,
        place: Place<'tree, W>,
        cursor: &Cursor<'_>,
        end: Bound<&[u8]>,
        fence: &mut Vec<u8>,
    ) -> Result<Leaf<'tree, W>, Restart> {
        let Seen { node, version } = place.at;
        node.prefetch_end();
        let shape = node.shape();
        let fences = node.fences();
        let is_outermost = match (FORWARD, fences.upper) {
            (true, None) => true,
            (true, Some(upper)) => {
                self.copy_fence(place.at, upper, fence)?;
                false
            }
            (false, _) => {
                self.copy_fence(place.at, fences.lower, fence)?;
                fence.is_empty()
            }
        };
        // Whether the leaf ends before the bound, so that the scan goes on behind it.
        let goes_on = !is_outermost
            && match end {
                Bound::Unbounded => true,
                Bound::Included(end) | Bound::Excluded(end) if FORWARD => end >= &fence[..],
                Bound::Included(end) | Bound::Excluded(end) => end < &fence[..],
            };
        // The fences are right: so the bound, if it lies in here, has the prefix.
        place.at.validate()?;
        let slot_of = |key: &[u8], behind: bool| {
            let (slot, exact) = node.find(shape, key, version)?;
            Ok(slot + usize::from(exact && behind))
        };
        let first = match cursor.as_ref() {
            Bound::Included(key) => slot_of(key, !FORWARD)?,
            Bound::Excluded(key) => slot_of(key, FORWARD)?,
            Bound::Unbounded if FORWARD => 0,
            Bound::Unbounded => shape.count,
        };
        let last = match end {
            Bound::Included(key) if !goes_on => slot_of(key, FORWARD)?,
            Bound::Excluded(key) if !goes_on => slot_of(key, !FORWARD)?,
            _ if FORWARD => shape.count,
            _ => 0,
        };
        place.at.validate()?;
        let slots = if FORWARD { first..last } else { last..first };
        // Heads are on their way or here; values will be wanted next.
        let soon = match FORWARD {
            true => slots.start..slots.end.min(slots.start + BATCH),
            false => slots.start.max(slots.end.saturating_sub(BATCH))..slots.end,
        };
        node.prefetch_values(shape, soon);
        Ok(Leaf {
            place,
            shape,
            slots,
            is_last: !goes_on,
        })
    }

    /// Copies a fence, to be validated. Bytes that are no fence may come out until then.
    fn copy_fence(
        &self,
        at: Seen<'_, W>,
        (place, length): (usize, usize),
        bytes: &mut Vec<u8>,
    ) -> Result<(), Restart> {
        bytes.clear();
        if length == SPILLED {
            // SAFETY: `self` is pinned since before the version was noted.
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

    /// Which of the parent's children is the next leaf.
    fn next_index<const FORWARD: bool>(shape: Shape, index: usize) -> Option<usize> {
        match FORWARD {
            true => Some(index + 1).filter(|&next| next <= shape.count),
            false => index.checked_sub(1),
        }
    }

    /// Asks for all of the next leaf, while this one is visited.
    fn prefetch_neighbour<const FORWARD: bool>(&self, place: &Place<'_, W>) {
        let Some((parent, index)) = place.parent else {
            return;
        };
        let shape = parent.node.shape();
        if let Some(index) = Self::next_index::<FORWARD>(shape, index) {
            Node::prefetch_whole(parent.node.child(shape, index));
        }
    }

    /// The next leaf, if the parent knows it and is what it was.
    fn neighbour<'tree, const FORWARD: bool>(
        &'tree self,
        place: &Place<'tree, W>,
    ) -> Option<Place<'tree, W>> {
        let (parent, index) = place.parent?;
        let shape = parent.node.shape();
        let index = Self::next_index::<FORWARD>(shape, index)?;
        let child = parent.node.child(shape, index);
        // SAFETY: read from the parent after its version; `self` is pinned.
        let at = unsafe { enter(parent, child) }.ok()?;
        Some(Place {
            at,
            parent: Some((parent, index)),
        })
    }
}

impl Key {
    /// Begins in a leaf of this shape, which the cursor leads to: they share the prefix.
    fn enter<const W: usize>(&mut self, shape: Shape, cursor: &Cursor<'_>) {
        self.prefix = shape.prefix;
        self.last = None;
        self.bytes.clear();
        if let Bound::Included(key) | Bound::Excluded(key) = cursor {
            self.bytes.extend_from_slice(&key[..shape.prefix]);
        }
        // Room for a head and the longest tail, in whole words.
        self.bytes.resize(shape.prefix + Node::<W>::LONGEST, 0);
    }
}

impl Batch {
    fn new() -> Self {
        Self {
            count: 0,
            heads: [0; BATCH],
            values: [0; BATCH],
            lengths: [0; BATCH],
            tails: Vec::new(),
            spilled: Vec::new(),
        }
    }

    /// Copies the next entries of the leaf, and takes them off its slots.
    fn copy<const W: usize, const FORWARD: bool>(
        &mut self,
        leaf: &mut Leaf<'_, W>,
        most: usize,
    ) -> Result<(), Restart> {
        let (node, shape) = (leaf.place.at.node, leaf.shape);
        let (start, end) = (leaf.slots.start, leaf.slots.end);
        self.count = leaf.slots.len().min(most).min(BATCH);
        self.tails.clear();
        self.spilled.clear();
        let slots = match FORWARD {
            true => start..start + self.count,
            false => end - self.count..end,
        };
        let words = node.heads(shape, slots.clone()).iter();
        for (copy, word) in self.heads.iter_mut().zip(in_order::<_, FORWARD>(words)) {
            *copy = word.get();
        }
        let words = node.values(shape, slots.clone()).iter();
        for (copy, word) in self.values.iter_mut().zip(in_order::<_, FORWARD>(words)) {
            *copy = word.get();
        }
        let marks = in_order::<_, FORWARD>(node.marks(shape, slots));
        for (at, mark) in marks.enumerate() {
            self.lengths[at] = mark.length;
            if mark.length <= 8 {
                continue;
            }
            if mark.length == SPILLED {
                let pointer = node.word(mark.place)?.pointer();
                self.spilled.push(pointer.cast_const().cast());
            } else {
                for word in 0..mark.tail_words() {
                    self.tails.push(node.word(mark.place + word)?.get());
                }
            }
        }
        leaf.place.at.validate_result()?;
        match FORWARD {
            true => leaf.slots.start += self.count,
            false => leaf.slots.end -= self.count,
        }
        Ok(())
    }

    /// Visits what was copied and validated. The caller is pinned since before.
    fn visit(
        &self,
        key: &mut Key,
        visit: &mut impl FnMut(&[u8], Rid) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let prefix = key.prefix;
        let mut tails = &self.tails[..];
        let mut spilled = self.spilled.iter();
        for at in 0..self.count {
            let rid = Rid(self.values[at]);
            if self.lengths[at] == SPILLED {
                let pointer = *spilled.next().expect("one for each such length");
                // SAFETY: a validated leaf led to it while the caller was pinned.
                let bytes = unsafe { &*pointer }.bytes();
                if key.bytes.len() < bytes.len() {
                    key.bytes.resize(bytes.len(), 0);
                }
                key.bytes[..bytes.len()].copy_from_slice(bytes);
                key.last = Some(bytes.len());
                visit(bytes, rid)?;
                continue;
            }
            let length = prefix + self.lengths[at];
            key.bytes[prefix..prefix + 8].copy_from_slice(&self.heads[at].to_be_bytes());
            if self.lengths[at] > 8 {
                let (tail, others) = tails.split_at((self.lengths[at] - 8).div_ceil(8));
                tails = others;
                let room = key.bytes[prefix + 8..].chunks_exact_mut(8);
                for (word, bytes) in tail.iter().zip(room) {
                    bytes.copy_from_slice(&word.to_be_bytes());
                }
            }
            key.last = Some(length);
            visit(&key.bytes[..length], rid)?;
        }
        ControlFlow::Continue(())
    }
}

/// The items as a scan meets them.
#[inline]
fn in_order<I: DoubleEndedIterator, const FORWARD: bool>(
    items: I,
) -> impl Iterator<Item = I::Item> {
    let (mut up, mut down) = match FORWARD {
        true => (Some(items), None),
        false => (None, Some(items)),
    };
    std::iter::from_fn(move || match FORWARD {
        true => up.as_mut()?.next(),
        false => down.as_mut()?.next_back(),
    })
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
