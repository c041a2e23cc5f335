//! Conflicts, counted by where and why: what people look at when transactions fail.
//!
//! Only a transaction that gives way comes here, so a mutex does. There is an entry
//! for each storage, index and reason; those of a storage go with it.

use std::collections::BTreeMap;

use coeval_memory::sync::Mutex;
use coeval_txn::{ConflictCount, GaveWay, Party, Place};
use coeval_types::{IndexId, StorageId};

type Key = (StorageId, Option<IndexId>, GaveWay);

/// Every conflict since the engine was started.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    counts: Mutex<BTreeMap<Key, ConflictCount>>,
}

impl Conflicts {
    /// Counts one.
    #[cold]
    pub(crate) fn note(&self, why: GaveWay, place: &Place, loser: Party, winner: Option<Party>) {
        let (storage, index) = (place.storage(), place.index());
        let now = coeval_env::wall_clock();
        let mut counts = self.counts.lock().expect("no panic while it was held");
        let entry = counts
            .entry((storage, index, why))
            .or_insert_with(|| ConflictCount {
                storage,
                index,
                why,
                count: 0,
                last: now,
                last_place: place.clone(),
                last_loser: loser,
                last_winner: winner,
            });
        entry.count += 1;
        entry.last = now;
        entry.last_place = place.clone();
        entry.last_loser = loser;
        entry.last_winner = winner;
    }

    /// Forgets those of a storage that is gone.
    pub(crate) fn forget(&self, storage: StorageId) {
        let mut counts = self.counts.lock().expect("no panic while it was held");
        counts.retain(|(of, _, _), _| *of != storage);
    }

    /// All of them.
    pub(crate) fn counts(&self) -> Vec<ConflictCount> {
        let counts = self.counts.lock().expect("no panic while it was held");
        counts.values().cloned().collect()
    }
}
