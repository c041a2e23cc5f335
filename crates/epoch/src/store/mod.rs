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

/// Bytes that a version takes beside its operation's, about: its timestamp, its place in a block.
const VERSION_BYTES: usize = 64;
/// Bytes that a key takes beside its own, about: its entry in the map, and its chain's first block.
const KEY_BYTES: usize = 128;

/// A hasher without a random key, so that a simulation repeats itself.
pub(crate) type Fixed = BuildHasherDefault<DefaultHasher>;

/// The versions of one partition.
#[derive(Debug, Default)]
pub struct Store {
    chains: HashMap<Key, Chain, Fixed>,
    /// Bytes of keys and versions, about.
    bytes: usize,
}

impl Store {
    /// Adds a version. Returns false, and changes nothing, when the key has one of that
    /// timestamp already: the operation was sent twice.
    pub fn insert(&mut self, key: &Key, at: EpochTimestamp, operation: &Operation) -> bool {
        // Of their own, for those that have come are parts of a whole message, which one of them would
        // keep in memory.
        let operation = operation.detached();
        let bytes = VERSION_BYTES + operation.len();
        if let Some(chain) = self.chains.get_mut(key) {
            let is_new = chain.insert(at, operation);
            self.bytes += if is_new { bytes } else { 0 };
            return is_new;
        }
        self.bytes += KEY_BYTES + key.len() + bytes;
        let key = Key::copy_from_slice(key);
        let chain = self.chains.entry(key).or_default();
        chain.insert(at, operation)
    }

    /// Bytes of keys and versions, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes back a version.
    pub fn remove(&mut self, key: &Key, at: EpochTimestamp) {
        if let Some(chain) = self.chains.get_mut(key) {
            if let Some(operation) = chain.remove(at) {
                self.bytes -= VERSION_BYTES + operation.len();
            }
            if chain.is_empty() {
                self.chains.remove(key);
                self.bytes -= KEY_BYTES + key.len();
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
        let (mut removed, mut bytes) = (0, 0);
        self.chains.retain(|key, chain| {
            let (versions, contents) = chain.collect(horizon);
            removed += versions;
            bytes += contents + versions * VERSION_BYTES;
            if chain.is_empty() {
                bytes += KEY_BYTES + key.len();
            }
            !chain.is_empty()
        });
        self.bytes -= bytes;
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
