//! Chains of updates: versions of a register between which there can be no other.
//!
//! ```text
//! T1  r 5 → 1, w 5 2          1 ─► 2 ─► 3    one chain
//! T2  r 5 → 2, w 5 3
//! T3  w 5 9                   9              another
//! ```
//!
//! A transaction that reads v and writes w leaves no room between them at any level that
//! prevents lost updates: a writer of u with v ─► u ─► w would have written after its
//! snapshot, or between its own read and write. So of two chains, one as a whole precedes
//! the other, and a known order of one version of each holds for all versions of both. The
//! initial version comes first, and so does its chain.
//!
//! Read committed permits lost updates. There, orders of processes and of time are not
//! guaranteed anyway; and from the order after the initial version, only antidependencies
//! are derived, which read committed ignores: those of readers of the chain's last version,
//! and of the version that its writer had read.
//!
//! Where two transactions updated one version, an update is lost, which is reported by
//! itself; such a register has no chains.

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
    /// Builds the chains from pairs of versions of which the second directly follows; they
    /// contain no cycles.
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
            // The versions of a register are consecutive.
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

    /// For two versions of which one precedes the other, the implied order of their chains:
    /// the last version of the first chain and the first version of the second.
    pub(super) fn of_all(&self, before: Version, after: Version) -> Option<(Version, Version)> {
        let pair = (self.last[before as usize], self.first[after as usize]);
        let are_two = self.first[before as usize] != pair.1;
        (are_two && pair != (before, after)).then_some(pair)
    }

    /// Pairs of versions of which the readers of the first missed the second: the end of
    /// the initial version's chain, and the first version of every other chain.
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

    /// The versions that the last writer of a chain wrote there, and the one that it had
    /// read; empty if the chain is one version.
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
