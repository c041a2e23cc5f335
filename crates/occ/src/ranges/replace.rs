//! Online replacement of ranges: how the balancer replaces ranges while transactions
//! commit.
//!
//! ```text
//!   link      the old ranges point to their successors      writers register in both
//!   settle    all writers that did not find out were assigned their timestamps;
//!             registrations that are still needed are copied
//!   publish   the new ranges enter the map
//! ```
//!
//! The balancer never waits: when it cannot settle yet, it tries again later. From the
//! link on, writers register in the new ranges too, so only a few commits in the old
//! ranges are left to wait for, and those are between two instructions.
//!
//! A registration is needed while a running transaction's snapshot is older. Of the
//! others only the largest timestamp is kept: a validator with an older snapshot than
//! that gets an overflow.
//!
//! A transaction that fails after its timestamp was assigned marks its registrations as
//! aborted, but not their copies. Such a copy stands for a write that never happened,
//! until no transaction runs whose snapshot is older: it can make other transactions
//! fail, and hides no conflict.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coeval_types::Timestamp;

use super::map::{Map, RangeMap};
use super::range::Range;
use super::ring::Legacy;

/// Adjacent ranges of a map that are to be replaced.
#[derive(Debug)]
pub(super) struct Change {
    /// Position of the first range.
    pub(super) first: usize,
    /// Number of ranges.
    pub(super) count: usize,
    /// Lower bounds of the new ranges, except the first.
    pub(super) boundaries: Vec<Box<[u8]>>,
    /// Slots of each new range.
    pub(super) slots: usize,
}

#[derive(Debug)]
struct Linked {
    first: usize,
    count: usize,
    successors: Box<[Arc<Range>]>,
    /// Ranges whose registrations are not copied yet, and their heads.
    unsettled: Vec<(Arc<Range>, u64)>,
}

/// A replacement under way: ranges and their successors.
#[derive(Debug)]
pub(super) struct Replacement {
    linked: Vec<Linked>,
}

impl Replacement {
    /// Number of ranges that each change removes, and number that it creates.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        let linked = self.linked.iter();
        linked.map(|linked| (linked.count, linked.successors.len()))
    }
}

impl RangeMap {
    /// Links the ranges of these changes, which increase and do not overlap, to new ones.
    /// Calls `known` with each new range, the change's position, and the range's position
    /// within the change. The caller must hold the balancer's mutex.
    pub(super) fn link(
        &self,
        changes: &[Change],
        known: impl Fn(usize, usize, &Range),
    ) -> Replacement {
        let map = self.map();
        let link = |(position, change): (usize, &Change)| {
            let old = &map.ranges()[change.first..][..change.count];
            let successors = self.successors(old, change);
            for (at, range) in successors.iter().enumerate() {
                known(position, at, range);
            }
            let unsettled = old
                .iter()
                .map(|range| (Arc::clone(range), range.retire(successors.clone())))
                .collect();
            Linked {
                first: change.first,
                count: change.count,
                successors,
                unsettled,
            }
        };
        Replacement {
            linked: changes.iter().enumerate().map(link).collect(),
        }
    }

    fn successors(&self, old: &[Arc<Range>], change: &Change) -> Box<[Arc<Range>]> {
        let [first, ..] = old else {
            unreachable!("a change replaces something")
        };
        let end = old[old.len() - 1].upper.clone();
        let boundaries = &change.boundaries;
        (0..=boundaries.len())
            .map(|at| {
                let lower = match at.checked_sub(1) {
                    None => first.lower.clone(),
                    Some(before) => boundaries[before].clone(),
                };
                let upper = boundaries.get(at).cloned().or_else(|| end.clone());
                assert!(upper.as_ref().is_none_or(|upper| lower < *upper));
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                Range::following(id, lower, upper, change.slots, &self.account)
            })
            .collect()
    }

    /// Publishes the new ranges if all registrations are settled; otherwise returns
    /// false. No registered snapshot may be older than `horizon`.
    pub(super) fn settle(&self, replacement: &mut Replacement, horizon: Timestamp) -> bool {
        for linked in &mut replacement.linked {
            let successors = &linked.successors;
            linked.unsettled.retain(|(range, head)| {
                let legacy = range.ring.legacy(*head, horizon);
                match &legacy {
                    Some(legacy) => bequeath(legacy, successors),
                    None => return true,
                }
                false
            });
        }
        if replacement
            .linked
            .iter()
            .any(|linked| !linked.unsettled.is_empty())
        {
            return false;
        }
        let map = self.map();
        let mut ranges = Vec::with_capacity(map.ranges().len());
        let mut copied = 0;
        for linked in &replacement.linked {
            ranges.extend_from_slice(&map.ranges()[copied..linked.first]);
            ranges.extend_from_slice(&linked.successors);
            copied = linked.first + linked.count;
        }
        ranges.extend_from_slice(&map.ranges()[copied..]);
        self.publish(Map::new(ranges.into()));
        true
    }
}

/// Passes needed registrations on to the successors.
fn bequeath(legacy: &Legacy, successors: &[Arc<Range>]) {
    for range in successors {
        range.ring.inherit(legacy);
    }
    for survivor in &legacy.survivors {
        let footprint = &survivor.footprint;
        let first =
            footprint.with_least(|key| successors.partition_point(|range| *range.lower <= *key));
        successors[first.saturating_sub(1)..]
            .iter()
            .take_while(|range| footprint.may_meet(&range.lower, range.upper.as_deref()))
            .for_each(|range| range.ring.copy(survivor));
    }
}
