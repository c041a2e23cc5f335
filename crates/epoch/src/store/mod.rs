//! The multi-version store of one partition: for each key its versions, in linked blocks.
//!
//! The store does not know which epochs are closed: the back end, which owns it, lets only
//! writes of open epochs in, and only reads of closed ones. So a version is inserted among the
//! newest few, whatever the number of versions before them.

mod chain;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::operation::{Found, Key, Operation};
use crate::timestamp::{Epoch, EpochTimestamp};
use chain::Chain;

/// A hasher without a random key, so that a simulation repeats itself.
pub(crate) type Fixed = BuildHasherDefault<DefaultHasher>;

/// The versions of one partition.
#[derive(Debug, Default)]
pub struct Store {
    chains: HashMap<Key, Chain, Fixed>,
}

impl Store {
    /// Adds a version. Returns false, and changes nothing, when the key has one of that
    /// timestamp already: the operation was sent twice.
    pub fn insert(&mut self, key: &Key, at: EpochTimestamp, operation: &Operation) -> bool {
        let chain = self.chains.entry(key.clone()).or_default();
        chain.insert(at, operation.clone())
    }

    /// Takes back a version.
    pub fn remove(&mut self, key: &Key, at: EpochTimestamp) {
        if let Some(chain) = self.chains.get_mut(key) {
            chain.remove(at);
            if chain.is_empty() {
                self.chains.remove(key);
            }
        }
    }

    /// Whether the key has a version of exactly this timestamp.
    #[must_use]
    pub fn has(&self, key: &Key, at: EpochTimestamp) -> bool {
        let chain = self.chains.get(key);
        let newest = chain.and_then(|chain| chain.newest_at(at));
        newest.is_some_and(|(found, _)| found == at)
    }

    /// The newest version of a key that is not newer than `at`.
    #[must_use]
    pub fn get(&self, key: &Key, at: EpochTimestamp) -> Found {
        let chain = self.chains.get(key);
        let newest = chain.and_then(|chain| chain.newest_at(at));
        newest.map_or(Found::Nothing, |(_, operation)| Found::from(operation))
    }

    /// Removes versions that no reader at `horizon` or later can see. Returns how many.
    pub fn collect(&mut self, horizon: EpochTimestamp) -> usize {
        let mut removed = 0;
        self.chains.retain(|_, chain| {
            removed += chain.collect(horizon);
            !chain.is_empty()
        });
        removed
    }

    /// Number of versions.
    #[must_use]
    pub fn versions(&self) -> usize {
        self.chains.values().map(Chain::len).sum()
    }

    /// All versions between two timestamps, by timestamp and key.
    #[must_use]
    pub fn history(
        &self,
        from: EpochTimestamp,
        to: EpochTimestamp,
    ) -> Vec<(EpochTimestamp, Key, Operation)> {
        let versions = self.chains.iter().flat_map(|(key, chain)| {
            let within = chain.versions().filter(|(at, _)| (from..=to).contains(at));
            within.map(|(at, operation)| (*at, key.clone(), operation.clone()))
        });
        let mut versions: Vec<_> = versions.collect();
        versions.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        versions
    }

    /// The newest version of a key at or before `at`.
    pub(crate) fn version(
        &self,
        key: &Key,
        at: EpochTimestamp,
    ) -> Option<(EpochTimestamp, &Operation)> {
        self.chains.get(key)?.newest_at(at)
    }

    /// The newest version of a key whose timestamp is among some.
    pub(crate) fn newest_in(
        &self,
        key: &Key,
        is_among: impl Fn(EpochTimestamp) -> bool,
    ) -> Option<EpochTimestamp> {
        let mut newest_first = self.chains.get(key)?.newest_first();
        newest_first.find(|at| is_among(*at))
    }

    /// All keys, in order.
    #[must_use]
    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.chains.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// The versions of a key up to the end of an epoch.
    pub(crate) fn versions_of(
        &self,
        key: &Key,
        through: Epoch,
    ) -> Vec<(EpochTimestamp, Operation)> {
        let last = EpochTimestamp::end_of(through);
        let versions = self.chains.get(key).into_iter().flat_map(Chain::versions);
        versions
            .take_while(|(at, _)| *at <= last)
            .cloned()
            .collect()
    }

    /// Takes over the versions of another store that are later than `last`.
    pub(crate) fn take_after(&mut self, last: EpochTimestamp, other: Self) {
        for (key, chain) in other.chains {
            for (at, operation) in chain.versions().filter(|(at, _)| *at > last) {
                self.insert(&key, *at, operation);
            }
        }
    }

    /// What a reader at `at` sees, key by key, in the order of the keys.
    #[must_use]
    pub fn image(&self, at: EpochTimestamp) -> Vec<(Key, EpochTimestamp, Operation)> {
        let seen = self.chains.iter().filter_map(|(key, chain)| {
            let (version, operation) = chain.newest_at(at)?;
            let is_there = *operation != Operation::Delete;
            is_there.then(|| (key.clone(), version, operation.clone()))
        });
        let mut seen: Vec<_> = seen.collect();
        seen.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        seen
    }
}
