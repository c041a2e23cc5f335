//! Conflict counters by table, index and reason, for the users who diagnose failing
//! transactions.
//!
//! Only a transaction that loses a conflict updates the counters, so a mutex suffices.
//! There is one entry for each storage, index and reason; the entries of a storage are
//! dropped with it.

use std::collections::BTreeMap;

use coeval_memory::sync::Mutex;
use coeval_txn::{ConflictCount, ConflictLocation, GaveWay, Party};
use coeval_types::{IndexId, StorageId};

type Key = (StorageId, Option<IndexId>, GaveWay);

/// All conflicts since the engine was started.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    counts: Mutex<BTreeMap<Key, ConflictCount>>,
}

impl Conflicts {
    /// Counts one conflict that `loser` lost to `winner`.
    #[cold]
    pub(crate) fn note(
        &self,
        why: GaveWay,
        place: &ConflictLocation,
        loser: Party,
        winner: Option<Party>,
    ) {
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

    /// Removes the counters of a dropped storage.
    pub(crate) fn forget(&self, storage: StorageId) {
        let mut counts = self.counts.lock().expect("no panic while it was held");
        counts.retain(|(of, _, _), _| *of != storage);
    }

    /// A copy of all counters.
    pub(crate) fn counts(&self) -> Vec<ConflictCount> {
        let counts = self.counts.lock().expect("no panic while it was held");
        counts.values().cloned().collect()
    }
}
