//! Copies that a back end makes of partitions of which others have whole ones, beside the traffic;
//! and what it hands out of its own to back ends that make one.
//!
//! ```text
//!   decided       take everything of epoch 30 and later; copy what is of 29 and before
//!   copy          ask a whole copy for versions up to the end of 29, key by key, a chunk at a time
//!   merge         once all chunks are here, and epoch 29 is known to be closed
//!   checkpoint    write all of it to the disk, and say so: the copy can be promoted
//! ```
//!
//! # Invariants
//!
//! 1. Everything of a later epoch that any copy has is here too: front ends draw in it only
//!    under a configuration that names this copy, and no epoch is closed without its closing record.
//! 2. What the whole copy collects meanwhile is hidden by a version that is in a chunk, or that is of a
//!    later epoch and so here. The horizon comes along, so that none reads below it.
//! 3. Whatever stood here of these epochs before, of an earlier membership, is replaced.

use std::collections::BTreeMap;

use coeval_council::NodeId;
use coeval_types::planted;

use crate::configuration::Configuration;
use crate::message::{CopyChunk, Part};
use crate::operation::Key;
use crate::outbox::Outbox;
use crate::store::Store;
use crate::timestamp::{Epoch, EpochTimestamp};

/// How far a copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The chunk after this key is asked for.
    Copying(Option<Key>),
    /// All chunks are here.
    Whole,
    /// It is in the store.
    Merged,
    /// A checkpoint with it is being written.
    Writing,
    /// It is on the disk.
    Kept,
}

/// A copy that is being made.
#[derive(Debug)]
struct Incoming {
    through: Epoch,
    stage: Stage,
    is_said: bool,
    store: Store,
}

/// A partition of which another back end makes a copy.
#[derive(Debug)]
struct Outgoing {
    through: Epoch,
    /// All keys, sorted once.
    keys: Vec<Key>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Copying {
    incoming: BTreeMap<usize, Incoming>,
    outgoing: BTreeMap<(NodeId, usize), Outgoing>,
    /// Versions may be missing below this, at the nodes that are copied from.
    horizon: EpochTimestamp,
}

impl Copying {
    /// Begins what the configuration wants, and leaves what it does not.
    pub(super) fn configure(&mut self, node: NodeId, configuration: &Configuration) {
        let through = |node: NodeId, partition: usize| {
            let joining = configuration.joining.get(&(partition, node));
            joining.copied()
        };
        let is_wanted = |partition: &usize, copy: &mut Incoming| {
            through(node, *partition) == Some(copy.through)
        };
        self.incoming.retain(is_wanted);
        self.outgoing
            .retain(|(to, partition), copy| through(*to, *partition) == Some(copy.through));
        let own = configuration.joining.iter();
        for (&(partition, _), &through) in own.filter(|((_, other), _)| *other == node) {
            let begin = || Incoming {
                through,
                stage: Stage::Copying(None),
                is_said: false,
                store: Store::default(),
            };
            let copy = self.incoming.entry(partition).or_insert_with(begin);
            // The copy that it was asked of may be gone.
            copy.is_said = false;
        }
    }

    /// Says what is to be said, and `again` what was not answered.
    pub(super) fn say(
        &mut self,
        configuration: &Configuration,
        manager: Option<NodeId>,
        closed: Epoch,
        again: bool,
        out: &mut Outbox,
    ) {
        for (&partition, copy) in &mut self.incoming {
            if copy.is_said && !again {
                continue;
            }
            let through = copy.through;
            let (to, part) = match &copy.stage {
                _ if planted!(PromoteAtOnce) => (manager, Part::Caught(partition, through)),
                Stage::Copying(after) => {
                    let copies = configuration.partitions.get(partition);
                    let whole = copies.and_then(|copies| copies.first()).copied();
                    (whole, Part::Copy(partition, through, after.clone()))
                }
                // It may have missed that the epoch is closed.
                Stage::Whole if closed < through => (manager, Part::Want(through, closed)),
                Stage::Kept => (manager, Part::Caught(partition, through)),
                _ => continue,
            };
            copy.is_said = true;
            if let Some(to) = to {
                out.say(to, part);
            }
        }
    }

    /// A chunk has come.
    pub(super) fn copied(&mut self, chunk: &CopyChunk) {
        let Some(copy) = self.incoming.get_mut(&chunk.partition) else {
            return;
        };
        let asked = Stage::Copying(chunk.after.clone());
        if copy.through != chunk.through || copy.stage != asked {
            return;
        }
        for (key, at, operation) in &chunk.versions {
            copy.store.insert(key, *at, operation);
        }
        self.horizon = self.horizon.max(chunk.horizon);
        copy.is_said = false;
        copy.stage = match &chunk.next {
            Some(key) => Stage::Copying(Some(key.clone())),
            None => Stage::Whole,
        };
    }

    /// Merges into the stores what is whole, and returns the horizon of what it was copied from.
    pub(super) fn merge(
        &mut self,
        closed: Epoch,
        stores: &mut BTreeMap<usize, Store>,
    ) -> Option<EpochTimestamp> {
        let mut has_merged = false;
        for (&partition, copy) in &mut self.incoming {
            if copy.stage != Stage::Whole || copy.through > closed && !planted!(CopyOpenEpoch) {
                continue;
            }
            let mut whole = std::mem::take(&mut copy.store);
            if let Some(own) = stores.remove(&partition) {
                let first = EpochTimestamp::end_of(copy.through);
                whole.take_after(first, own);
            }
            stores.insert(partition, whole);
            copy.stage = Stage::Merged;
            has_merged = true;
        }
        has_merged.then_some(self.horizon)
    }

    /// Whether a checkpoint has to be written now; it is then reported by [`Self::kept`].
    pub(super) fn begin_checkpoint(&mut self) -> bool {
        let stages = self.incoming.values_mut().map(|copy| &mut copy.stage);
        let mut stages: Vec<&mut Stage> = stages.collect();
        let is_writing = stages.iter().any(|stage| **stage == Stage::Writing);
        let is_due = stages.iter().any(|stage| **stage == Stage::Merged) && !is_writing;
        for stage in stages.iter_mut().filter(|stage| ***stage == Stage::Merged) {
            if is_due {
                **stage = Stage::Writing;
            }
        }
        is_due
    }

    /// The checkpoint was not written: it is due again.
    pub(super) fn failed(&mut self) {
        for copy in self.incoming.values_mut() {
            if copy.stage == Stage::Writing {
                copy.stage = Stage::Merged;
            }
        }
    }

    /// Bytes of copies that are not merged.
    pub(super) fn bytes(&self) -> usize {
        self.incoming.values().map(|copy| copy.store.bytes()).sum()
    }

    /// The checkpoint is on the disk.
    pub(super) fn kept(&mut self) {
        for copy in self.incoming.values_mut() {
            if copy.stage == Stage::Writing {
                copy.stage = Stage::Kept;
                copy.is_said = false;
            }
        }
    }

    /// Answers a back end that copies a partition of which this one has a whole copy.
    pub(super) fn hand_out(
        &mut self,
        to: NodeId,
        (partition, through, after): (usize, Epoch, Option<Key>),
        store: Option<&Store>,
        horizon: EpochTimestamp,
        most_bytes: usize,
    ) -> CopyChunk {
        let begin = || Outgoing {
            through,
            keys: store.map_or(Vec::new(), Store::keys),
        };
        let outgoing = self.outgoing.entry((to, partition));
        let outgoing = outgoing.or_insert_with(begin);
        let first = match &after {
            Some(after) => outgoing.keys.partition_point(|key| key <= after),
            None => 0,
        };
        let (mut versions, mut next, mut bytes) = (Vec::new(), None, 0);
        for key in outgoing.keys.iter().skip(first) {
            if bytes >= most_bytes.max(1) {
                break;
            }
            let own = store.map_or(Vec::new(), |store| store.versions_of(key, through));
            let sizes = own.iter();
            bytes += sizes
                .map(|(_, operation)| operation.len() + key.len() + 8)
                .sum::<usize>();
            versions.extend(
                own.into_iter()
                    .map(|(at, operation)| (key.clone(), at, operation)),
            );
            next = Some(key.clone());
        }
        let is_last = next == outgoing.keys.last().cloned() || next.is_none();
        CopyChunk {
            partition,
            through,
            after,
            versions,
            next: next.filter(|_| !is_last),
            horizon,
        }
    }
}
