//! The configuration of a cluster: which node hosts which copies and front ends, under which
//! incarnations. The council keeps it; every message names the version under which it was sent.
//!
//! An *incarnation* is one start of a node's program. A node that starts again has lost what was
//! only in memory, so it is a stranger until the council has admitted its new incarnation.
//!
//! ```text
//!  version 7   partition 0: nodes 1, 2    partition 1: nodes 2, 3
//!              back ends    1 (incarnation 4)   2 (5)   3 (9)
//!              front ends   0 on node 1 (4), from epoch 30    1 on node 2 (5), from epoch 12
//!              orphans through epoch 29
//! ```
//!
//! A front end draws timestamps from its first epoch on. What stands in an earlier epoch under
//! its number is an earlier incarnation's, which may have died within a transaction: an
//! *orphan*, resolved by counting (`manager`). The configuration says up to which epoch there
//! may be any.
//!
//! # Copies that are being made
//!
//! ```text
//!   joining      partition 1 on node 4, after epoch 29
//! ```
//!
//! Node 4 takes and seals the operations of epoch 30 and later like any copy. What is of epoch 29
//! and before it copies from a whole copy, beside the traffic. It is not read, and does not count as a
//! copy, until it has both on its disk.

use std::collections::{BTreeMap, BTreeSet};

use coeval_council::NodeId;

use crate::codec::{Malformed, Reader, put_u64};
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};

/// A front end's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontEndPlace {
    /// The node that runs it.
    pub node: NodeId,
    /// The start of that node's program to which the number belongs.
    pub incarnation: u64,
    /// The first epoch in which it may draw.
    pub first: Epoch,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Grows with every change.
    pub version: u64,
    /// The nodes that hold a copy of each partition. A read asks the first.
    pub partitions: Vec<Vec<NodeId>>,
    /// The incarnation of each node that holds copies.
    pub back_ends: BTreeMap<NodeId, u64>,
    /// The front ends.
    pub front_ends: BTreeMap<FrontEndId, FrontEndPlace>,
    /// The newest incarnation of each front end that was fenced: it never comes back.
    pub fenced: BTreeMap<FrontEndId, u64>,
    /// The newest epoch in which an earlier incarnation of a front end may have drawn.
    pub orphans_through: Epoch,
    /// Children of each front end in the barrier's tree; 0 for a flat barrier.
    pub degree: u8,
    /// Epochs before the newest closed one that can still be read.
    pub history_epochs: u64,
    /// Copies that each partition is to have; 0 for as many as it happens to have.
    pub copies: u8,
    /// Copies that are being made, with the epoch up to which they copy another one.
    pub joining: BTreeMap<(usize, NodeId), Epoch>,
    /// The incarnation with which a back end came in empty, whatever its disk holds.
    pub enlisted: BTreeMap<NodeId, u64>,
    /// The newest incarnation of each back end that was removed: it never comes back.
    pub removed: BTreeMap<NodeId, u64>,
    /// What nodes may use.
    pub limits: Limits,
}

/// What a back end may use. Every cluster is founded with the same, [`Limits::default`]; they stand in
/// the configuration so that all of its nodes go by the same ones, whatever their versions, and so
/// that tests may have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of versions in one message of a copy that is being made, but for the last key's.
    pub copy_bytes: u32,
    /// Most bytes of a key, and of a value; never more than [`crate::MOST_BYTES`].
    pub most_bytes: u32,
    /// Most bytes of operations on one back end in epochs that are not closed.
    pub open_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            copy_bytes: 1 << 18,
            most_bytes: 1 << 20,
            open_bytes: 256 << 20,
        }
    }
}

/// Most partitions that one decision places: it is one small entry of the council.
pub(crate) const MOST_PLACED: usize = 64;

impl Configuration {
    /// The partition of a key.
    #[must_use]
    pub fn partition_of(&self, key: &[u8]) -> usize {
        crc32c::crc32c(key) as usize % self.partitions.len().max(1)
    }

    /// The oldest timestamp that can be read once this epoch is closed.
    #[must_use]
    pub const fn history_before(&self, closed: Epoch) -> EpochTimestamp {
        EpochTimestamp::end_of(Epoch(closed.0.saturating_sub(self.history_epochs)))
    }

    /// The nodes that hold a copy of a key.
    #[must_use]
    pub fn copies_of(&self, key: &[u8]) -> &[NodeId] {
        let copies = self.partitions.get(self.partition_of(key));
        copies.map_or(&[], Vec::as_slice)
    }

    /// The nodes that take operations of an epoch on a key: its copies, and those being made.
    pub(crate) fn takers_of(&self, key: &[u8], epoch: Epoch) -> impl Iterator<Item = NodeId> {
        let partition = self.partition_of(key);
        let copies = self.partitions.get(partition).into_iter().flatten();
        let joining = self.joining_of(partition);
        let joining = joining.filter(move |(_, after)| epoch > *after);
        copies.copied().chain(joining.map(|(node, _)| node))
    }

    /// The copies of a partition that are being made.
    fn joining_of(&self, partition: usize) -> impl Iterator<Item = (NodeId, Epoch)> {
        let range = (partition, NodeId(0))..=(partition, NodeId(u64::MAX));
        let joining = self.joining.range(range);
        joining.map(|((_, node), after)| (*node, *after))
    }

    /// Whether a node takes operations of an epoch on a partition.
    #[must_use]
    pub fn takes(&self, node: NodeId, partition: usize, epoch: Epoch) -> bool {
        let after = self.joining.get(&(partition, node));
        self.hosts(node, partition) || after.is_some_and(|after| epoch > *after)
    }

    /// Whether a node holds a whole copy of any partition.
    #[must_use]
    pub fn hosts_any(&self, node: NodeId) -> bool {
        let mut partitions = self.partitions.iter();
        partitions.any(|copies| copies.contains(&node))
    }

    /// Copies on a node, those that are being made included.
    pub(crate) fn load(&self, node: NodeId) -> usize {
        let whole = self.partitions.iter();
        let whole = whole.filter(|copies| copies.contains(&node)).count();
        let joining = self.joining.keys();
        whole + joining.filter(|(_, other)| *other == node).count()
    }

    /// Copies that a partition lacks, those that are being made not counted.
    pub(crate) fn lacks(&self, partition: usize) -> usize {
        let whole = self.partitions.get(partition).map_or(0, Vec::len);
        let there = whole + self.joining_of(partition).count();
        usize::from(self.copies).saturating_sub(there)
    }

    /// Whether this incarnation of a back end that is not a member may come in, empty.
    #[must_use]
    pub fn may_enlist(&self, node: NodeId, incarnation: u64) -> bool {
        let removed = self.removed.get(&node);
        !self.back_ends.contains_key(&node) && removed.is_none_or(|known| *known < incarnation)
    }

    /// Whether a node holds a whole copy of a partition.
    #[must_use]
    pub fn hosts(&self, node: NodeId, partition: usize) -> bool {
        let copies = self.partitions.get(partition);
        copies.is_some_and(|copies| copies.contains(&node))
    }

    /// Whether this is the current incarnation of a node's back end.
    #[must_use]
    pub fn is_back_end(&self, node: NodeId, incarnation: u64) -> bool {
        self.back_ends.get(&node) == Some(&incarnation)
    }

    /// Whether no current front end drew this timestamp.
    #[must_use]
    pub fn is_orphan(&self, at: EpochTimestamp) -> bool {
        let place = self.front_ends.get(&at.front_end());
        place.is_none_or(|place| at.epoch() < place.first)
    }

    /// Whether a message of this incarnation of a node is a stranger's.
    #[must_use]
    pub fn is_stranger(&self, node: NodeId, incarnation: u64) -> bool {
        let back_end = self.back_ends.get(&node).copied();
        let front_ends = self.front_ends.values();
        let front_end = front_ends
            .filter(|place| place.node == node)
            .map(|place| place.incarnation);
        let mut known = back_end.into_iter().chain(front_end);
        // A node whose two parts are admitted one after the other is known by either.
        !known.any(|known| known == incarnation)
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        let back_ends = self.back_ends.keys().copied();
        back_ends
            .chain(self.front_ends.values().map(|place| place.node))
            .collect()
    }

    /// The children of a front end in the barrier's tree; those of the manager for `None`.
    ///
    /// Front ends stand in the order of their numbers as in a binary heap, but of this degree,
    /// below the manager at place 0.
    #[must_use]
    pub fn children(&self, parent: Option<FrontEndId>) -> Vec<FrontEndId> {
        let order: Vec<FrontEndId> = self.front_ends.keys().copied().collect();
        if self.degree == 0 {
            return if parent.is_none() { order } else { Vec::new() };
        }
        let place = match parent {
            None => 0,
            Some(id) => match order.iter().position(|other| *other == id) {
                Some(index) => index + 1,
                None => return Vec::new(),
            },
        };
        let first = place * usize::from(self.degree);
        let last = (first + usize::from(self.degree)).min(order.len());
        order.get(first..last).map_or(Vec::new(), <[_]>::to_vec)
    }

    /// The parent of a front end; the manager for `None`.
    #[must_use]
    pub fn parent(&self, child: FrontEndId) -> Option<FrontEndId> {
        let ids = self.front_ends.keys().copied();
        ids.into_iter()
            .find(|id| self.children(Some(*id)).contains(&child))
    }

    /// Partitions of which this node holds the only copy.
    #[must_use]
    pub fn only_on(&self, node: NodeId) -> Vec<usize> {
        let partitions = self.partitions.iter().enumerate();
        let alone = partitions.filter(|(_, copies)| copies[..] == [node]);
        alone.map(|(partition, _)| partition).collect()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.version);
        put_u64(out, self.orphans_through.0);
        out.push(self.degree);
        put_u64(out, self.history_epochs);
        put_u64(out, self.partitions.len() as u64);
        for copies in &self.partitions {
            put_u64(out, copies.len() as u64);
            copies.iter().for_each(|node| put_u64(out, node.0));
        }
        put_u64(out, self.back_ends.len() as u64);
        for (node, incarnation) in &self.back_ends {
            put_u64(out, node.0);
            put_u64(out, *incarnation);
        }
        put_u64(out, self.front_ends.len() as u64);
        for (id, place) in &self.front_ends {
            out.push(id.0);
            put_u64(out, place.node.0);
            put_u64(out, place.incarnation);
            put_u64(out, place.first.0);
        }
        put_u64(out, self.fenced.len() as u64);
        for (id, incarnation) in &self.fenced {
            out.push(id.0);
            put_u64(out, *incarnation);
        }
        out.push(self.copies);
        put_u64(out, self.joining.len() as u64);
        for ((partition, node), after) in &self.joining {
            put_u64(out, *partition as u64);
            put_u64(out, node.0);
            put_u64(out, after.0);
        }
        for known in [&self.enlisted, &self.removed] {
            put_u64(out, known.len() as u64);
            for (node, incarnation) in known {
                put_u64(out, node.0);
                put_u64(out, *incarnation);
            }
        }
        self.limits.encode(out);
    }

    /// Whether this incarnation of a front end may be admitted: it is newer than any that was.
    #[must_use]
    pub fn may_admit(&self, id: FrontEndId, incarnation: u64) -> bool {
        let known = self.front_ends.get(&id).map(|place| place.incarnation);
        let fenced = self.fenced.get(&id).copied();
        known.max(fenced).is_none_or(|known| known < incarnation)
    }

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, Malformed> {
        let mut configuration = Self {
            version: reader.u64()?,
            orphans_through: reader.epoch()?,
            degree: reader.u8()?,
            history_epochs: reader.u64()?,
            ..Self::default()
        };
        for _ in 0..reader.u64()? {
            let count = reader.u64()?;
            let copies = (0..count).map(|_| reader.u64().map(NodeId));
            configuration
                .partitions
                .push(copies.collect::<Result<_, _>>()?);
        }
        for _ in 0..reader.u64()? {
            let node = NodeId(reader.u64()?);
            configuration.back_ends.insert(node, reader.u64()?);
        }
        for _ in 0..reader.u64()? {
            let id = FrontEndId(reader.u8()?);
            let place = FrontEndPlace {
                node: NodeId(reader.u64()?),
                incarnation: reader.u64()?,
                first: reader.epoch()?,
            };
            configuration.front_ends.insert(id, place);
        }
        for _ in 0..reader.u64()? {
            let id = FrontEndId(reader.u8()?);
            configuration.fenced.insert(id, reader.u64()?);
        }
        configuration.copies = reader.u8()?;
        for _ in 0..reader.u64()? {
            let (partition, node) = (reader.index()?, NodeId(reader.u64()?));
            let after = reader.epoch()?;
            configuration.joining.insert((partition, node), after);
        }
        for known in [&mut configuration.enlisted, &mut configuration.removed] {
            for _ in 0..reader.u64()? {
                let node = NodeId(reader.u64()?);
                known.insert(node, reader.u64()?);
            }
        }
        configuration.limits = Limits::decode(reader)?;
        Ok(configuration)
    }
}

impl Limits {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.copy_bytes.to_le_bytes());
        out.extend(self.most_bytes.to_le_bytes());
        put_u64(out, self.open_bytes);
    }

    fn decode(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self {
            copy_bytes: reader.u32()?,
            most_bytes: reader.u32()?,
            open_bytes: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_reaches_each_front_end_once() {
        for degree in [0, 1, 2, 3, 8] {
            for count in 0..20 {
                let place = FrontEndPlace {
                    node: NodeId(1),
                    incarnation: 1,
                    first: Epoch(1),
                };
                let configuration = Configuration {
                    degree,
                    front_ends: (0..count).map(|id| (FrontEndId(id), place)).collect(),
                    ..Configuration::default()
                };
                let mut reached = Vec::new();
                let mut next = vec![None];
                while let Some(parent) = next.pop() {
                    for child in configuration.children(parent) {
                        assert_eq!(configuration.parent(child), parent);
                        reached.push(child);
                        next.push(Some(child));
                    }
                }
                reached.sort_unstable();
                assert_eq!(reached, (0..count).map(FrontEndId).collect::<Vec<_>>());
            }
        }
    }
}
