//! Key locks: locks on keys of unique indexes.
//!
//! Two transactions that insert rows with one key insert two records, so no record's lock
//! word makes them conflict. They lock the key itself, whether or not any row has it yet.
//! Primary keys need no key lock: there the index leads both transactions to the same
//! record.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use coeval_memory::sync::Mutex;
use coeval_types::{IndexId, TransactionId};

const SHARDS: usize = 64;

type Holders = BTreeMap<(IndexId, Box<[u8]>), TransactionId>;

/// Result of an attempt to lock a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The caller has locked it now.
    Now,
    /// The caller had locked it before.
    Before,
    /// Another transaction holds it.
    ByAnother,
}

/// The holder of each locked key.
#[derive(Debug)]
pub(crate) struct KeyLocks {
    shards: Box<[Mutex<Holders>]>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl KeyLocks {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: BuildHasherDefault::default(),
        }
    }

    fn shard(&self, index: IndexId, key: &[u8]) -> &Mutex<Holders> {
        &self.shards[self.hasher.hash_one((index, key)) as usize % SHARDS]
    }

    /// Locks the key for `owner`, if it is free.
    pub(crate) fn take(&self, index: IndexId, key: &[u8], owner: TransactionId) -> Taken {
        let mut holders = self.shard(index, key).lock().expect("no panic in a shard");
        match holders.entry((index, key.into())) {
            Entry::Vacant(entry) => {
                entry.insert(owner);
                Taken::Now
            }
            Entry::Occupied(entry) if *entry.get() == owner => Taken::Before,
            Entry::Occupied(_) => Taken::ByAnother,
        }
    }

    /// The holder of the key's lock.
    pub(crate) fn holder(&self, index: IndexId, key: &[u8]) -> Option<TransactionId> {
        let holders = self.shard(index, key).lock().expect("no panic in a shard");
        holders.get(&(index, key.into())).copied()
    }

    /// Frees the key, which `owner` holds. The caller must then notify the queues.
    pub(crate) fn free(&self, index: IndexId, key: &[u8], owner: TransactionId) {
        let mut holders = self.shard(index, key).lock().expect("no panic in a shard");
        let holder = holders.remove(&(index, key.into()));
        assert_eq!(holder, Some(owner), "only its holder frees a key");
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_holder() {
        let locks = KeyLocks::new();
        let (a, b) = (TransactionId(1), TransactionId(2));
        let index = IndexId(1);
        assert_eq!(locks.take(index, b"k", a), Taken::Now);
        assert_eq!(locks.take(index, b"k", a), Taken::Before);
        assert_eq!(locks.take(index, b"k", b), Taken::ByAnother);
        assert_eq!(locks.take(IndexId(2), b"k", b), Taken::Now);
        assert_eq!(locks.holder(index, b"k"), Some(a));
        locks.free(index, b"k", a);
        assert_eq!(locks.holder(index, b"k"), None);
        assert_eq!(locks.take(index, b"k", b), Taken::Now);
    }
}
