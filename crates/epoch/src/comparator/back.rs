//! The back end of a comparator: versions, which of them are committed, and locks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use coeval_council::NodeId;

use super::word::{Version, Word};
use super::{Control, Lookup};
use crate::back_end::LogWrite;
use crate::configuration::Configuration;
use crate::log::Batch;
use crate::message::Piece;
use crate::operation::{Found, Key, Write};
use crate::store::{Fixed, Store};
use crate::timestamp::{Epoch, EpochTimestamp};

/// A transaction, by its front end's node and number.
type Transaction = (NodeId, u64);

/// Operations that are kept and not seen.
#[derive(Debug)]
struct Prepared {
    at: EpochTimestamp,
    writes: Arc<Vec<Write>>,
    siblings: Arc<Vec<Key>>,
}

#[derive(Debug)]
enum Lock {
    Exclusive(Transaction),
    Shared(BTreeSet<Transaction>),
}

/// A version that is there, and the keys of its transaction.
type Committed = (EpochTimestamp, Arc<Vec<Key>>);

/// See the module.
#[derive(Debug)]
pub(super) struct Back {
    control: Control,
    configuration: Arc<Configuration>,
    stores: BTreeMap<usize, Store>,
    prepared: HashMap<Transaction, Prepared, Fixed>,
    /// The newest committed version of each key; RAMP only.
    newest: HashMap<Key, Committed, Fixed>,
    /// The keys of transactions whose versions are kept: RAMP-Fast only.
    siblings: HashMap<EpochTimestamp, Arc<Vec<Key>>, Fixed>,
    locks: HashMap<Key, Lock, Fixed>,
    /// Keys that a read has locked.
    read: HashMap<Transaction, Vec<Key>, Fixed>,
    /// Records that have not been handed out, and answers that wait for them.
    pieces: Vec<Piece>,
    unsaid: Vec<(NodeId, Word)>,
    /// Answers that wait for a write.
    waiting: BTreeMap<u64, Vec<(NodeId, Word)>>,
    next_write: u64,
}

impl Back {
    pub(super) fn new(control: Control, configuration: Arc<Configuration>) -> Self {
        Self {
            control,
            configuration,
            stores: BTreeMap::new(),
            prepared: HashMap::default(),
            newest: HashMap::default(),
            siblings: HashMap::default(),
            locks: HashMap::default(),
            read: HashMap::default(),
            pieces: Vec::new(),
            unsaid: Vec::new(),
            waiting: BTreeMap::new(),
            next_write: 1,
        }
    }

    pub(super) fn hear(&mut self, from: NodeId, word: Word, say: &mut impl FnMut(NodeId, Word)) {
        match word {
            Word::Prepare(number, at, writes, siblings) => {
                self.prepare((from, number), at, writes, siblings, say);
            }
            Word::Commit(number, at) => {
                self.commit((from, number), at);
                say(from, Word::Done(number));
            }
            Word::Abort(number) => {
                if let Some(prepared) = self.prepared.remove(&(from, number)) {
                    self.unlock(
                        (from, number),
                        prepared.writes.iter().map(|write| &write.key),
                    );
                }
                say(from, Word::Done(number));
            }
            Word::Read(number, keys) => say(from, self.read((from, number), keys)),
            Word::Exactly(number, wanted) => {
                let versions = wanted.into_iter().map(|(key, at)| self.version(key, at));
                say(from, Word::Found(number, Some(versions.collect())));
            }
            Word::Among(number, keys, stamps) => {
                say(from, Word::Found(number, Some(self.among(keys, &stamps))));
            }
            Word::Release(number) => {
                if let Some(keys) = self.read.remove(&(from, number)) {
                    self.unlock((from, number), keys.iter());
                }
            }
            Word::Prepared(..) | Word::Done(_) | Word::Found(..) | Word::Stamps(..) => {}
        }
    }

    fn store(&mut self, key: &Key) -> &mut Store {
        let partition = self.configuration.partition_of(key);
        self.stores.entry(partition).or_default()
    }

    fn stored(&self, key: &Key, at: EpochTimestamp) -> (EpochTimestamp, Found) {
        let store = self.stores.get(&self.configuration.partition_of(key));
        let version = store.and_then(|store| store.version(key, at));
        version.map_or(
            (EpochTimestamp::default(), Found::Nothing),
            |(at, found)| (at, Found::from(found)),
        )
    }

    fn prepare(
        &mut self,
        transaction: Transaction,
        at: EpochTimestamp,
        writes: Arc<Vec<Write>>,
        siblings: Arc<Vec<Key>>,
        say: &mut impl FnMut(NodeId, Word),
    ) {
        let (from, number) = transaction;
        let keys = || writes.iter().map(|write| &write.key);
        if self.control == Control::Locking {
            if keys().any(|key| self.locks.contains_key(key)) {
                return say(from, Word::Prepared(number, None));
            }
            for key in keys() {
                self.locks.insert(key.clone(), Lock::Exclusive(transaction));
            }
        } else {
            for write in writes.iter() {
                self.store(&write.key)
                    .insert(&write.key, at, &write.operation);
            }
        }
        let last = EpochTimestamp::from_bits(u64::MAX);
        let newest = keys().map(|key| self.stored(key, last).0).max();
        self.pieces.push(Piece {
            at,
            size: writes.len() as u32,
            writes: Arc::clone(&writes),
        });
        let prepared = Word::Prepared(number, Some(newest.unwrap_or_default()));
        self.unsaid.push((from, prepared));
        if self.control == Control::RampFast {
            self.siblings.insert(at, Arc::clone(&siblings));
        }
        if self.control != Control::None {
            let prepared = Prepared {
                at,
                writes,
                siblings,
            };
            self.prepared.insert(transaction, prepared);
        }
    }

    fn commit(&mut self, transaction: Transaction, at: EpochTimestamp) {
        let Some(prepared) = self.prepared.remove(&transaction) else {
            return;
        };
        for write in prepared.writes.iter() {
            if self.control == Control::Locking {
                self.store(&write.key)
                    .insert(&write.key, at, &write.operation);
            } else {
                let newest = self.newest.entry(write.key.clone()).or_default();
                if newest.0 < prepared.at {
                    *newest = (prepared.at, Arc::clone(&prepared.siblings));
                }
            }
        }
        self.unlock(transaction, prepared.writes.iter().map(|write| &write.key));
    }

    fn unlock<'keys>(&mut self, transaction: Transaction, keys: impl Iterator<Item = &'keys Key>) {
        for key in keys {
            let is_free = match self.locks.get_mut(key) {
                Some(Lock::Exclusive(holder)) => *holder == transaction,
                Some(Lock::Shared(holders)) => {
                    holders.remove(&transaction);
                    holders.is_empty()
                }
                None => false,
            };
            if is_free {
                self.locks.remove(key);
            }
        }
    }

    /// The answer to the first round of a read.
    fn read(&mut self, transaction: Transaction, keys: Vec<Key>) -> Word {
        let number = transaction.1;
        let committed = |key: &Key| {
            self.newest
                .get(key)
                .map_or_else(Default::default, Clone::clone)
        };
        match self.control {
            Control::RampSmall(_) => {
                let stamps = keys.into_iter().map(|key| {
                    let (at, _): Committed = committed(&key);
                    (key, at)
                });
                Word::Stamps(number, stamps.collect())
            }
            Control::RampFast => {
                let versions = keys.into_iter().map(|key| {
                    let (at, _): Committed = committed(&key);
                    self.version(key, at)
                });
                Word::Found(number, Some(versions.collect()))
            }
            Control::None => Word::Found(number, Some(self.newest_of(keys))),
            Control::Locking => {
                let is_held = |key: &Key| matches!(self.locks.get(key), Some(Lock::Exclusive(_)));
                if keys.iter().any(is_held) {
                    return Word::Found(number, None);
                }
                for key in &keys {
                    let free = || Lock::Shared(BTreeSet::new());
                    let lock = self.locks.entry(key.clone()).or_insert_with(free);
                    if let Lock::Shared(holders) = lock {
                        holders.insert(transaction);
                    }
                }
                self.read.insert(transaction, keys.clone());
                Word::Found(number, Some(self.newest_of(keys)))
            }
        }
    }

    fn newest_of(&self, keys: Vec<Key>) -> Vec<Version> {
        let last = EpochTimestamp::from_bits(u64::MAX);
        let newest = keys.into_iter().map(|key| {
            let (at, found) = self.stored(&key, last);
            Version {
                key,
                at,
                found,
                siblings: Arc::default(),
            }
        });
        newest.collect()
    }

    /// Exactly this version of a key, seen or not.
    fn version(&self, key: Key, at: EpochTimestamp) -> Version {
        let (stored, found) = self.stored(&key, at);
        Version {
            found: match stored == at {
                true => found,
                false => Found::Nothing,
            },
            siblings: self.siblings.get(&at).cloned().unwrap_or_default(),
            key,
            at,
        }
    }

    /// The newest version of each key among timestamps, seen or not.
    fn among(&self, keys: Vec<Key>, stamps: &[EpochTimestamp]) -> Vec<Version> {
        let is_set = self.control != Control::RampSmall(Lookup::List);
        let set: HashSet<EpochTimestamp, Fixed> = match is_set {
            true => stamps.iter().copied().collect(),
            false => HashSet::default(),
        };
        let newest = keys.into_iter().map(|key| {
            let store = self.stores.get(&self.configuration.partition_of(&key));
            let found = store.and_then(|store| match is_set {
                true => store.newest_in(&key, |at| set.contains(&at)),
                false => stamps
                    .iter()
                    .copied()
                    .filter(|at| store.has(&key, *at))
                    .max(),
            });
            self.version(key, found.unwrap_or_default())
        });
        newest.collect()
    }

    /// One write with all that was prepared, and with the decisions of this node's front end. Answers
    /// wait until it is on the disk.
    pub(super) fn take_records(&mut self, decided: Vec<Piece>) -> Option<LogWrite> {
        if self.pieces.is_empty() && decided.is_empty() {
            return None;
        }
        let mut batch = Batch::new(self.configuration.partitions.len());
        let pieces = self.pieces.drain(..);
        pieces.chain(decided).for_each(|piece| batch.piece(&piece));
        let number = self.next_write;
        self.next_write += 1;
        self.waiting
            .insert(number, std::mem::take(&mut self.unsaid));
        Some(LogWrite {
            number,
            file: Epoch(1),
            bytes: batch.finish(),
        })
    }

    pub(super) fn persisted(&mut self, number: u64, say: &mut impl FnMut(NodeId, Word)) {
        let rest = self.waiting.split_off(&(number + 1));
        let done = std::mem::replace(&mut self.waiting, rest);
        for (to, word) in done.into_values().flatten() {
            say(to, word);
        }
    }
}
