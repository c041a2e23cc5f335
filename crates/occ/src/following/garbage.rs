//! What a follower removes once the snapshots that hold it have ended: old versions of
//! records, dropped storages and indexes.
//!
//! ```text
//!   versions of r5     100 ───── 200 ───── 300     visible 300
//!   snapshots              ▲ 150     ▲ 250
//!   held               r5 by 150, r5 by 250        looked at again when one of them ends
//! ```
//!
//! A version that a snapshot holds cannot be collected before that snapshot has ended, so
//! the record is looked at again then, however many other snapshots are registered. The
//! oldest holder of each version is noted; when it ends and another holds the version as
//! well, that one is noted. A dropped storage or index goes when no snapshot is older than
//! the commit that dropped it.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use coeval_types::{IndexId, StorageId, Timestamp};

use super::journal::RecordName;

/// A storage, or one index of it, that a visible commit has dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) storage: StorageId,
    pub(super) index: Option<IndexId>,
    /// The commit from which on snapshots do not know it.
    pub(super) since: Timestamp,
}

/// The list of what snapshots hold.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    held: BTreeMap<Timestamp, BTreeSet<RecordName>>,
    dropped: Vec<Dropped>,
    /// The thread that collects, while it waits for something to become due.
    waker: Option<Waker>,
}

impl Garbage {
    /// Notes that a snapshot holds a version of this record.
    pub(super) fn hold(&mut self, holder: Timestamp, place: RecordName) {
        self.held.entry(holder).or_default().insert(place);
    }

    pub(super) fn drop_later(&mut self, dropped: Dropped) {
        self.dropped.push(dropped);
    }

    /// Takes up to `most` records whose holders have ended.
    pub(super) fn take_due(
        &mut self,
        most: usize,
        is_registered: impl Fn(Timestamp) -> bool,
    ) -> BTreeSet<RecordName> {
        let mut due = BTreeSet::new();
        let holders: Vec<_> = self.held.keys().copied().collect();
        for holder in holders.into_iter().filter(|&holder| !is_registered(holder)) {
            let places = self.held.get_mut(&holder).expect("it was there");
            while due.len() < most
                && let Some(place) = places.pop_first()
            {
                due.insert(place);
            }
            if !places.is_empty() {
                break;
            }
            self.held.remove(&holder);
        }
        due
    }

    /// Takes all records.
    pub(super) fn take_all(&mut self) -> BTreeSet<RecordName> {
        std::mem::take(&mut self.held)
            .into_values()
            .flatten()
            .collect()
    }

    /// Takes what was dropped and no snapshot knows; `oldest` is the oldest one.
    pub(super) fn take_unknown(&mut self, oldest: Option<Timestamp>) -> Vec<Dropped> {
        let is_unknown =
            |dropped: &mut Dropped| oldest.is_none_or(|oldest| oldest >= dropped.since);
        self.dropped.extract_if(.., is_unknown).collect()
    }

    /// Number of dropped storages and indexes that a snapshot may know.
    pub(super) fn dropped(&self) -> usize {
        self.dropped.len()
    }

    /// Whether a storage was dropped.
    pub(super) fn is_dropped(&self, storage: StorageId) -> bool {
        let mut dropped = self.dropped.iter();
        dropped.any(|dropped| dropped.storage == storage && dropped.index.is_none())
    }

    /// Whether something is due.
    pub(super) fn is_due(
        &self,
        oldest: Option<Timestamp>,
        is_registered: impl Fn(Timestamp) -> bool,
    ) -> bool {
        let is_unknown = |dropped: &Dropped| oldest.is_none_or(|oldest| oldest >= dropped.since);
        self.held.keys().any(|&holder| !is_registered(holder))
            || self.dropped.iter().any(is_unknown)
    }

    /// Whether something may become due when this snapshot ends.
    pub(super) fn waits_for(&self, snapshot: Timestamp) -> bool {
        let knows = |dropped: &Dropped| snapshot < dropped.since;
        self.held.contains_key(&snapshot) || self.dropped.iter().any(knows)
    }

    pub(super) fn wait(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Number of records that are held; a record counts once for each holder.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.values().map(BTreeSet::len).sum()
    }
}
