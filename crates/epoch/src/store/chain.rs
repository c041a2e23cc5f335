//! The versions of one key: blocks of a few versions each, oldest first, sorted.
//!
//! ```text
//!  block            block            block
//!  1.0.1 … 3.4.2    3.9.1 … 6.0.2    6.3.1  7.0.1  7.0.2  7.2.1
//!  └───────── closed epochs: nothing moves ──────┘ └── open: inserted in order ──┘
//! ```
//!
//! A version that comes in order is pushed. One that comes late belongs into the open epoch, so
//! it is inserted near the end; a full block splits. Blocks of closed epochs are never touched
//! again until collection drops them, so a chain of any length costs an insertion nothing.
//!
//! Invariants: no block is empty; timestamps rise strictly from block to block and within one.

use std::collections::VecDeque;

use crate::operation::Operation;
use crate::timestamp::EpochTimestamp;

/// Most versions in a block.
const BLOCK: usize = 16;

/// A version and its timestamp.
pub(super) type Version = (EpochTimestamp, Operation);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Chain {
    blocks: VecDeque<Vec<Version>>,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// All versions, oldest first.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.blocks.iter().flatten()
    }

    /// All timestamps, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = EpochTimestamp> {
        let blocks = self.blocks.iter().rev();
        blocks.flat_map(|block| block.iter().rev().map(|(at, _)| *at))
    }

    /// Index of the block in which a version of `at` is, or belongs: the last one that begins
    /// at or before it. Searched from the newest on, where nearly every version belongs.
    fn block_of(&self, at: EpochTimestamp) -> Option<usize> {
        let newest_first = self.blocks.iter().rev();
        let behind = newest_first.take_while(|block| block[0].0 > at).count();
        (self.blocks.len() - behind).checked_sub(1)
    }

    /// Inserts a version unless one of that timestamp is there.
    pub(super) fn insert(&mut self, at: EpochTimestamp, operation: Operation) -> bool {
        let Some(index) = self.block_of(at) else {
            match self.blocks.front_mut() {
                Some(first) if first.len() < BLOCK => first.insert(0, (at, operation)),
                _ => self.blocks.push_front(vec![(at, operation)]),
            }
            return true;
        };
        let block = &mut self.blocks[index];
        let place = block.partition_point(|(other, _)| *other < at);
        if block.get(place).is_some_and(|(other, _)| *other == at) {
            return false;
        }
        if block.len() < BLOCK {
            block.insert(place, (at, operation));
        } else if place == block.len() {
            self.blocks.insert(index + 1, vec![(at, operation)]);
        } else {
            let behind = block.split_off(place);
            block.push((at, operation));
            self.blocks.insert(index + 1, behind);
        }
        true
    }

    /// Removes the version of that timestamp, and returns what it was.
    pub(super) fn remove(&mut self, at: EpochTimestamp) -> Option<Operation> {
        let index = self.block_of(at)?;
        let block = &mut self.blocks[index];
        let place = block.iter().position(|(other, _)| *other == at)?;
        let (_, operation) = block.remove(place);
        if block.is_empty() {
            self.blocks.remove(index);
        }
        Some(operation)
    }

    /// The newest version at or before `at`.
    pub(super) fn newest_at(&self, at: EpochTimestamp) -> Option<(EpochTimestamp, &Operation)> {
        let block = &self.blocks[self.block_of(at)?];
        let behind = block.partition_point(|(other, _)| *other <= at);
        let (found, operation) = &block[behind - 1];
        Some((*found, operation))
    }

    /// Drops every version that a newer one at or before `horizon` hides, and a deletion that is
    /// then the oldest. Returns their number, and the bytes of their contents.
    pub(super) fn collect(&mut self, horizon: EpochTimestamp) -> (usize, usize) {
        let (mut versions, mut bytes) = (0, 0);
        let mut count = |(_, operation): Version| {
            versions += 1;
            bytes += operation.len();
        };
        let Some(last) = self.block_of(horizon) else {
            return (0, 0);
        };
        self.blocks.drain(..last).flatten().for_each(&mut count);
        let first = &mut self.blocks[0];
        let seen = first.partition_point(|(at, _)| *at <= horizon);
        let is_deletion = first[seen - 1].1 == Operation::Delete;
        let hidden = first.drain(..seen - usize::from(!is_deletion));
        hidden.for_each(&mut count);
        if first.is_empty() {
            self.blocks.pop_front();
        }
        (versions, bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::timestamp::{Epoch, FrontEndId};

    fn stamp(epoch: u64, counter: u16) -> EpochTimestamp {
        EpochTimestamp::new(Epoch(epoch), counter, FrontEndId(1))
    }

    fn value(number: u64) -> Operation {
        Operation::Value(number.to_le_bytes().to_vec().into())
    }

    /// Random insertions within an open epoch, removals and collections, beside a map.
    #[test]
    fn a_chain_is_a_sorted_map() {
        let mut chance = 7_u64;
        let mut below = |limit: u64| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (chance >> 33) % limit
        };
        for _ in 0..40 {
            let (mut chain, mut map) = (Chain::default(), BTreeMap::new());
            let mut collected = EpochTimestamp::default();
            for epoch in 1..30 {
                for _ in 0..below(40) {
                    let at = stamp(epoch, below(60) as u16);
                    if below(5) == 0 {
                        chain.remove(at);
                        map.remove(&at);
                    } else {
                        let operation = match below(4) {
                            0 => Operation::Delete,
                            _ => value(below(1000)),
                        };
                        let is_new = !map.contains_key(&at);
                        map.entry(at).or_insert_with(|| operation.clone());
                        assert_eq!(chain.insert(at, operation), is_new);
                    }
                }
                if below(6) == 0 && epoch > 3 {
                    let horizon = EpochTimestamp::end_of(Epoch(epoch - below(3) - 1));
                    collected = collected.max(horizon);
                    chain.collect(collected);
                }
                for _ in 0..10 {
                    let at = stamp(1 + below(epoch + 1), below(60) as u16).max(collected);
                    let visible = |operation: Option<Operation>| match operation {
                        None | Some(Operation::Delete) => None,
                        found => found,
                    };
                    let expected = map.range(..=at).next_back();
                    let expected = expected.map(|(_, operation)| operation.clone());
                    let found = chain.newest_at(at).map(|(_, operation)| operation.clone());
                    assert_eq!(visible(found), visible(expected), "at {at}");
                }
                let flat: Vec<_> = chain.blocks.iter().flatten().map(|(at, _)| *at).collect();
                assert!(flat.is_sorted_by(|one, other| one < other));
                assert!(
                    chain
                        .blocks
                        .iter()
                        .all(|block| (1..=BLOCK).contains(&block.len()))
                );
            }
        }
    }

    #[test]
    fn collection_keeps_what_the_oldest_reader_sees() {
        let mut chain = Chain::default();
        for number in 0..100 {
            chain.insert(stamp(1 + number / 10, number as u16), value(number));
        }
        assert_eq!(chain.collect(stamp(5, 44)), (44, 44 * 8));
        assert_eq!(chain.newest_at(stamp(5, 44)).unwrap().1, &value(44));
        chain.insert(stamp(20, 0), Operation::Delete);
        assert_eq!(
            chain.collect(EpochTimestamp::end_of(Epoch(20))),
            (57, 56 * 8)
        );
        assert!(chain.is_empty());
    }
}
