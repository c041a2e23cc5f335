//! What was updated in one go: versions between which no other stands.
//!
//! ```text
//! T1  r 5 → 1, w 5 2          1 ─► 2 ─► 3    one chain
//! T2  r 5 → 2, w 5 3
//! T3  w 5 9                   9              another
//! ```
//!
//! A transaction that reads v and writes w leaves no room between them at any level that
//! loses no update: whoever wrote v ─► u ─► w would have done so behind its snapshot, or
//! between its place in the order and itself. So of two chains, one comes as a whole before
//! the other, and what is known of one version of each holds for all of both. The initial
//! version comes first, and so does its chain.
//!
//! Read committed loses updates. There, orders of processes and of time promise nothing
//! anyhow; and of what follows from the initial version, only antidependencies are made,
//! which read committed does not look at: of the chain's last version, and of what its
//! writer had read.
//!
//! Where two transactions updated one version, an update is lost, which is found by itself;
//! such a register has no chains.

use std::collections::BTreeSet;

use super::super::graph::number;
use super::super::versions::{Version, Versions};

/// The chain of every version.
pub(super) struct Chains {
    first: Vec<Version>,
    last: Vec<Version>,
    before: Vec<Option<Version>>,
}

impl Chains {
    /// By pairs of which the second follows at once, for registers of which they are in
    /// no circle.
    pub(super) fn new(
        versions: &Versions,
        follows: &[(Version, Version)],
        initial: impl Fn(Version) -> Version,
    ) -> Self {
        let all = || 0..number(versions.len());
        let mut before: Vec<Option<Version>> = vec![None; versions.len()];
        let mut after: Vec<Option<Version>> = vec![None; versions.len()];
        let mut forked = BTreeSet::new();
        for (version, next) in follows {
            before[*next as usize] = Some(*version);
            let other = after[*version as usize].replace(*next);
            if other.is_some_and(|other| other != *next) {
                forked.insert(initial(*version));
            }
        }
        let mut chains = Self {
            first: all().collect(),
            last: all().collect(),
            before,
        };
        for forked in &forked {
            // A register's versions are in a row.
            let of_register = (*forked..).take_while(|version| {
                (*version as usize) < versions.len() && initial(*version) == *forked
            });
            for version in of_register {
                chains.before[version as usize] = None;
                after[version as usize] = None;
            }
        }
        for first in all().filter(|version| chains.before[*version as usize].is_none()) {
            let mut chain = vec![first];
            let mut last = first;
            while let Some(next) = after[last as usize] {
                chain.push(next);
                last = next;
            }
            for version in chain {
                chains.first[version as usize] = first;
                chains.last[version as usize] = last;
            }
        }
        chains
    }

    /// What follows for the chains of two versions of which one precedes the other.
    pub(super) fn of_all(&self, before: Version, after: Version) -> Option<(Version, Version)> {
        let pair = (self.last[before as usize], self.first[after as usize]);
        let are_two = self.first[before as usize] != pair.1;
        (are_two && pair != (before, after)).then_some(pair)
    }

    /// Pairs of which the readers of the first missed the second: of the initial version's
    /// chain and each other.
    pub(super) fn behind_initial(
        &self,
        versions: &Versions,
        initials: &[Version],
    ) -> Vec<(Version, Version)> {
        let mut pairs = Vec::new();
        let all = initials.iter().skip(1).copied();
        let ends = all.chain([number(versions.len())]);
        for (initial, end) in initials.iter().zip(ends) {
            let ends_with = self.ending(versions, *initial);
            let others = (initial + 1..end).filter(|version| self.is_first(*version));
            for other in others {
                pairs.extend(ends_with.iter().map(|version| (*version, other)));
            }
        }
        pairs
    }

    fn is_first(&self, version: Version) -> bool {
        self.first[version as usize] == version
    }

    /// What the last writer of a chain wrote there, and what it had read; nothing if the
    /// chain is one version.
    fn ending(&self, versions: &Versions, first: Version) -> Vec<Version> {
        let mut version = self.last[first as usize];
        let writer = versions.writer(version);
        let mut ending = Vec::new();
        while version != first {
            ending.push(version);
            version = self.before[version as usize].unwrap_or(first);
            if versions.writer(version) != writer {
                break;
            }
        }
        if version != first {
            ending.push(version);
        }
        ending
    }
}
