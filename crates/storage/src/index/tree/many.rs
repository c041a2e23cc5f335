//! Point look-ups in the B+tree: of one key, and of many keys at once.
//!
//! A look-up in a large tree waits for memory once or twice per node. Many look-ups overlap
//! their cache misses:
//!
//! ```text
//!   one by one      A root ····· inner ····· leaf ····· B root ····· inner ····· leaf ·····
//!   at once         A root ····· inner ····· leaf ·····        ····· waiting for memory
//!                   B  root ····· inner ····· leaf ·····
//!                   C   root ····· inner ····· leaf ·····
//! ```
//!
//! The look-ups advance in turn, one step each, and prefetch the memory of their next step.
//! A look-up that encounters a writer restarts on its own.

use coeval_types::Rid;

use super::Access;
use super::latch::Restart;
use super::node::{Node, Shape};
use super::search::{Seen, Side, descend, enter};

/// Number of look-ups that descend together: as many as the outstanding cache misses of a
/// core; each prefetches several lines.
const GROUP: usize = 16;

/// The next step of a look-up.
enum LookupStep<'tree, const W: usize> {
    /// Search the prefetched child for the key.
    Enter(Seen<'tree, W>, *const Node<W>),
    /// Check whether the prefetched slot, or else a later one, has the key, and read its
    /// RID.
    Read(Seen<'tree, W>, Shape, usize),
    Done,
}

impl<const W: usize> Access<'_, W> {
    /// Looks up the RID of a key.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<Rid> {
        self.until_done(|| self.try_get(key))
    }

    #[inline]
    fn try_get(&self, key: &[u8]) -> Result<Option<Rid>, Restart> {
        let place = descend(&self.tree.root, key, Side::From, 0)?;
        let (node, version) = (place.at.node, place.at.version);
        let shape = node.shape();
        let (slot, exact) = node.find(shape, key, version)?;
        let found = exact.then(|| Rid(node.value(shape, slot).get()));
        place.at.validate_result()?;
        Ok(found)
    }

    /// Looks up the RIDs of many keys; calls `found` in any order with a key's position in
    /// `keys`.
    pub(super) fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut found: impl FnMut(usize, Option<Rid>),
    ) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let mut tell = |at: usize, rid| found(group * GROUP + at, rid);
            let mut steps: [LookupStep<'_, W>; GROUP] = std::array::from_fn(|_| LookupStep::Done);
            let mut left = keys.len();
            for (at, (step, key)) in steps.iter_mut().zip(keys).enumerate() {
                *step = self.advance(self.begin(key.as_ref()), key.as_ref(), &mut |rid| {
                    left -= 1;
                    tell(at, rid);
                });
            }
            while left > 0 {
                for (at, (step, key)) in steps.iter_mut().zip(keys).enumerate() {
                    let next = match std::mem::replace(step, LookupStep::Done) {
                        LookupStep::Done => continue,
                        LookupStep::Enter(parent, child) => {
                            self.go_down(parent, child, key.as_ref())
                        }
                        LookupStep::Read(at, shape, slot) => {
                            read(at, shape, slot, key.as_ref()).map(Err)
                        }
                    };
                    *step = self.advance(next, key.as_ref(), &mut |rid| {
                        left -= 1;
                        tell(at, rid);
                    });
                }
            }
        }
    }

    /// Returns a look-up's next step, or passes its result to `tell`.
    fn advance<'tree>(
        &self,
        next: Result<Result<LookupStep<'tree, W>, Option<Rid>>, Restart>,
        key: &[u8],
        tell: &mut dyn FnMut(Option<Rid>),
    ) -> LookupStep<'tree, W> {
        match next {
            Ok(Ok(step)) => return step,
            Ok(Err(found)) => tell(found),
            Err(Restart) => tell(self.get(key)),
        }
        LookupStep::Done
    }

    fn begin(&self, key: &[u8]) -> Result<Result<LookupStep<'_, W>, Option<Rid>>, Restart> {
        let node = &*self.tree.root;
        let version = node.latch.read()?;
        self.look(Seen { node, version }, key)
    }

    fn go_down<'tree>(
        &'tree self,
        parent: Seen<'tree, W>,
        child: *const Node<W>,
        key: &[u8],
    ) -> Result<Result<LookupStep<'tree, W>, Option<Rid>>, Restart> {
        // SAFETY: read from the parent after its version; `self` is pinned.
        let at = unsafe { enter(parent, child)? };
        self.look(at, key)
    }

    /// Searches a node for the key. Returns the next step, or the result of the look-up.
    #[inline]
    fn look<'tree>(
        &self,
        at: Seen<'tree, W>,
        key: &[u8],
    ) -> Result<Result<LookupStep<'tree, W>, Option<Rid>>, Restart> {
        let shape = at.node.shape();
        if shape.level > 0 {
            let index = at.node.child_index(shape, key, Side::From, at.version)?;
            let child = at.node.child(shape, index);
            Node::prefetch(child);
            return Ok(Ok(LookupStep::Enter(at, child)));
        }
        let slot = at.node.first_slot(shape, key);
        if slot == shape.count {
            at.validate()?;
            return Ok(Err(None));
        }
        at.node.prefetch_slot(shape, slot);
        Ok(Ok(LookupStep::Read(at, shape, slot)))
    }
}

/// The RID of the key in a leaf, if it is there. `slot` is the first slot that may have it.
#[inline]
fn read<const W: usize>(
    at: Seen<'_, W>,
    shape: Shape,
    slot: usize,
    key: &[u8],
) -> Result<Option<Rid>, Restart> {
    let (slot, exact) = at.node.find_from(shape, slot, key, at.version)?;
    let found = exact.then(|| Rid(at.node.value(shape, slot).get()));
    at.validate()?;
    Ok(found)
}
