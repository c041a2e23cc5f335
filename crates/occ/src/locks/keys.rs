//! Locks on keys of unique indexes.
//!
//! Two rows under one key are two records, so no record's lock word stands
//! between two transactions that insert them. The key itself is locked, whether
//! or not any row has it yet. Primary keys need none: there the index leads both
//! transactions to the same record.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use coeval_memory::sync::Mutex;
use coeval_types::{IndexId, TransactionId};

const SHARDS: usize = 64;

type Holders = BTreeMap<(IndexId, Box<[u8]>), TransactionId>;

/// What became of an attempt to take a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The caller has it now.
    Now,
    /// The caller had it before.
    Before,
    /// Another transaction has it.
    ByAnother,
}

/// Who holds which key.
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

    /// Takes the key for `owner`.
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

    /// Who has the key.
    pub(crate) fn holder(&self, index: IndexId, key: &[u8]) -> Option<TransactionId> {
        let holders = self.shard(index, key).lock().expect("no panic in a shard");
        holders.get(&(index, key.into())).copied()
    }

    /// Frees the key, which `owner` has. The caller then tells the queues.
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
