//! The tables of a follower: replay, settling, taking back, views. The parent module
//! states the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use coeval_log::{Entry, Error, ReplayError, SavedRecord};
use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::{Expiry, Horizon, Snapshot, Snapshots, Table};
use coeval_types::{Lsn, Rid, StorageDefinition, StorageId, Timestamp, TransactionId, planted};

use super::journal::{Journal, RecordName};
use super::storage::{FollowedStorage, collector};
use super::visibility::Visibility;
use crate::storage::{Recovered, Upkeep};

/// Number of entries that are prefetched together.
const GROUP: usize = 32;

/// Fewest records for which a thread is started.
const PART_RECORDS: usize = 1 << 12;

/// The reader id of a view, which reads committed versions only.
const NOBODY: TransactionId = TransactionId(0);

type Storages = BTreeMap<StorageId, Arc<FollowedStorage>>;

/// A record that a commit has changed.
#[derive(Clone, Copy, Debug)]
struct Touched {
    cts: Timestamp,
    place: RecordName,
    /// Whether indexes lead to the record already: the row has the keys of the one it
    /// replaces.
    is_led_to: bool,
}

/// Tables that are replayed as the log grows.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) domain: Arc<Domain>,
    snapshots: Snapshots,
    storages: RwLock<Storages>,
    pub(super) visibility: Visibility,
    /// Records that the current batch of replay has changed.
    touched: Mutex<Vec<Touched>>,
    journal: Mutex<Journal>,
    /// Records that may have old versions which a view has kept.
    postponed: Mutex<BTreeSet<RecordName>>,
    /// Held shared by views, for a step at a time, and exclusively while something is
    /// taken back.
    gate: RwLock<()>,
    threads: usize,
}

impl Followed {
    /// Follows from tables that hold everything up to `visible`, all of it committed.
    pub(super) fn new(
        tables: BTreeMap<StorageId, Table>,
        visible: Timestamp,
        threads: usize,
    ) -> Self {
        let storages = tables.into_iter();
        let storages = storages.map(|(id, table)| (id, Arc::new(FollowedStorage::new(id, table))));
        Self {
            domain: Arc::new(Domain::new()),
            snapshots: Snapshots::new(),
            storages: RwLock::new(storages.collect()),
            visibility: Visibility::new(visible),
            touched: Mutex::default(),
            journal: Mutex::default(),
            postponed: Mutex::default(),
            gate: RwLock::default(),
            threads,
        }
    }

    pub(super) fn visible(&self) -> Timestamp {
        self.visibility.last()
    }

    fn expiry(&self) -> Expiry<'_> {
        let visible = self.visible();
        let horizon = Horizon {
            installed: visible,
            committed: visible,
        };
        Expiry::cached(horizon, &self.snapshots)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().expect("no panic while it was held")
    }

    pub(super) fn storage(&self, id: StorageId) -> Option<Arc<FollowedStorage>> {
        let storages = self.storages.read().expect("no panic while it was held");
        storages.get(&id).cloned()
    }

    fn storage_or_new(&self, id: StorageId) -> Arc<FollowedStorage> {
        if let Some(storage) = self.storage(id) {
            return storage;
        }
        let mut storages = self.storages.write().expect("no panic while it was held");
        let new = || Arc::new(FollowedStorage::new(id, Table::new()));
        Arc::clone(storages.entry(id).or_insert_with(new))
    }

    /// All storages, after creating those of these entries that are missing.
    fn storages_with(&self, entries: &[(Timestamp, Entry<'_>)]) -> RwLockReadGuard<'_, Storages> {
        loop {
            let storages = self.storages.read().expect("no panic while it was held");
            let mut ids = entries.iter().map(|(_, entry)| entry.record().0);
            let Some(missing) = ids.find(|id| !storages.contains_key(id)) else {
                return storages;
            };
            drop(storages);
            self.storage_or_new(missing);
        }
    }

    /// Installs the changes of commits. The caller applies a record's changes in order,
    /// from one thread.
    pub(super) fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError> {
        let guard = self.domain.pin();
        let expiry = self.expiry();
        let mut changed = Vec::with_capacity(entries.len());
        for group in entries.chunks(GROUP) {
            let storages = self.storages_with(group);
            let storage = |entry: &Entry<'_>| &storages[&entry.record().0];
            for (_, entry) in group {
                if let Some((record, _)) = storage(entry).record(entry.record().1) {
                    record.prefetch();
                }
            }
            for (cts, entry) in group {
                let installed = install(storage(entry), *cts, *entry, &expiry, &guard);
                let is_led_to = installed.map_err(|reason| ReplayError {
                    timestamp: *cts,
                    reason,
                })?;
                changed.push(Touched {
                    cts: *cts,
                    place: entry.record(),
                    is_led_to,
                });
            }
        }
        let mut touched = self.touched.lock().expect("no panic while it was held");
        touched.append(&mut changed);
        Ok(())
    }

    /// Settles the batch: all its entries have been installed, and are whole commits.
    /// Updates the indexes.
    pub(super) fn settle(&self) {
        let mut touched = self.touched.lock().expect("no panic while it was held");
        let touched = std::mem::take(&mut *touched);
        let strays = touched.iter().filter(|touched| !touched.is_led_to);
        let mut places: Vec<RecordName> = strays.map(|touched| touched.place).collect();
        places.sort_unstable();
        places.dedup();
        let parts = (places.len() / PART_RECORDS).clamp(1, self.threads);
        let length = places.len().div_ceil(parts).max(1);
        let parts: Vec<_> = places.chunks(length).collect();
        coeval_env::scatter(parts.len(), |part| {
            let guard = self.domain.pin();
            self.each(parts[part], |storage, rid| storage.add(rid, &guard));
        });
        let touched = touched.into_iter();
        let changes = touched
            .map(|touched| (touched.cts, touched.place))
            .collect();
        self.journal().extend(changes);
    }

    /// Calls `visit` for these records, which are sorted by storage.
    fn each<'a>(
        &self,
        places: impl IntoIterator<Item = &'a RecordName>,
        mut visit: impl FnMut(&FollowedStorage, Rid),
    ) {
        let mut last: Option<Arc<FollowedStorage>> = None;
        for (id, rid) in places {
            let storage = match last.take() {
                Some(storage) if storage.id() == *id => Some(storage),
                // The storage may have been dropped since.
                _ => self.storage(*id),
            };
            if let Some(storage) = &storage {
                visit(storage, *rid);
            }
            last = storage;
        }
    }

    /// Makes settled commits before `end` visible, since they are committed, and removes
    /// the versions that they have replaced. Returns the storages that have changed.
    pub(super) fn commit(&self, end: Lsn) -> Vec<StorageId> {
        let settled = self.journal().settle(end);
        let Some((last, places)) = settled else {
            self.visibility.reach(end);
            return Vec::new();
        };
        self.visibility.publish(last);
        self.visibility.reach(end);
        let mut changed: Vec<_> = places.iter().map(|(storage, _)| *storage).collect();
        changed.dedup();
        self.collect(places);
        changed
    }

    /// Removes the versions that settled changes of these records have replaced. While
    /// there is a view, versions that it may show stay, and are checked again when there
    /// is none.
    fn collect(&self, mut places: Vec<RecordName>) {
        let mut postponed = self.postponed.lock().expect("no panic while it was held");
        let expiry = self.expiry();
        if self.snapshots.count() > 0 {
            postponed.extend(&places);
        } else if !postponed.is_empty() {
            postponed.extend(places);
            places = std::mem::take(&mut *postponed).into_iter().collect();
        }
        let guard = self.domain.pin();
        self.each(&places, |storage, rid| {
            storage.collect(rid, &expiry, &guard)
        });
        drop(guard);
        self.domain.collect();
    }

    /// Takes back all commits from `from` on.
    pub(super) fn take_back(&self, from: Lsn) -> Result<(), Error> {
        let visible = self.visible();
        if from <= visible.lsn() {
            let what = format!("commit {visible} is visible, and stays");
            return Err(Error::Refused { at: from, what });
        }
        let _alone = self.gate.write().expect("no panic while it was held");
        let places = self.journal().take_back(from);
        if planted!(ReusedOffset) {
            return Ok(());
        }
        let guard = self.domain.pin();
        self.each(&places, |storage, rid| storage.take_back(rid, from, &guard));
        if !planted!(ForgetIndex) {
            // Only now: a key may have moved from one record to another.
            self.each(&places, |storage, rid| storage.add(rid, &guard));
        }
        drop(guard);
        // The newest version may now be an older committed one, possibly a deletion.
        self.collect(places);
        Ok(())
    }

    /// Maintains the indexes of these storages, and forgets the dropped ones. No replay
    /// may run meanwhile.
    pub(super) fn define(&self, definitions: &[StorageDefinition], dropped: &[StorageId]) {
        for definition in definitions {
            let storage = self.storage_or_new(definition.id);
            storage.define(definition, self.threads, &self.domain);
            let places = self.journal().of(definition.id);
            let guard = self.domain.pin();
            self.each(&places, |storage, rid| storage.add(rid, &guard));
        }
        let mut storages = self.storages.write().expect("no panic while it was held");
        storages.retain(|id, _| !dropped.contains(id));
    }

    /// A view of the visible commits, which reads while replay continues.
    pub(super) fn view(self: &Arc<Self>) -> FollowedView {
        let snapshot = self.snapshots.register(|| self.visible());
        let storages = self.storages.read().expect("no panic while it was held");
        FollowedView {
            storages: storages.clone(),
            snapshot,
            followed: Arc::clone(self),
        }
    }

    /// Converts the tables for an engine. Everything must be committed.
    pub(super) fn finish(&self) -> Result<BTreeMap<StorageId, Recovered>, Error> {
        self.settle();
        self.commit(Lsn(u64::MAX));
        self.collect(Vec::new());
        debug_assert!(self.journal().is_empty());
        let mut storages = self.storages.write().expect("no panic while it was held");
        let storages = std::mem::take(&mut *storages);
        let finished = storages.into_iter().map(|(id, storage)| {
            let storage = Arc::into_inner(storage).ok_or_else(|| {
                Error::Setting("a view still reads tables that are to be led".to_owned())
            })?;
            Ok((id, storage.finish()))
        });
        finished.collect()
    }
}

/// Installs a change. Returns whether indexes lead to the record already, because its row
/// has the keys of the one it replaces.
fn install(
    storage: &FollowedStorage,
    cts: Timestamp,
    entry: Entry<'_>,
    expiry: &Expiry<'_>,
    guard: &Guard<'_>,
) -> Result<bool, String> {
    let (id, rid) = entry.record();
    let Some((record, indexes)) = storage.record(rid) else {
        return Err(format!("{id:?} has no record {rid}"));
    };
    let upkeep = Upkeep(&indexes);
    let collector = collector(expiry, guard, &upkeep);
    let installed = match entry {
        Entry::Image { row, .. } => record.image(cts, row, &collector).map(|_| false),
        Entry::Patch {
            previous, patch, ..
        } => {
            let replaced = storage.newest(rid, guard);
            let patched = record.patch(cts, previous, patch, &collector);
            patched.map(|_| storage.has_same_keys(replaced, storage.newest(rid, guard)))
        }
        Entry::Delete { .. } => record.delete(cts, &collector).map(|_| false),
    };
    installed.map_err(|error| error.to_string())
}

/// A view of the tables at one commit, which stays while replay continues. Replay keeps
/// the versions that the view shows until the caller drops it, which it must do before an
/// engine takes the tables.
#[derive(Debug)]
pub struct FollowedView {
    snapshot: Snapshot,
    storages: Storages,
    followed: Arc<Followed>,
}

impl FollowedView {
    /// The last commit that the view shows.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.snapshot.timestamp()
    }

    /// The storages in the view; some may be empty.
    pub fn storages(&self) -> impl Iterator<Item = StorageId> {
        self.storages.keys().copied()
    }

    /// Visits the rows of the next `records` records from `from` on, and returns the RID
    /// to continue from. Steps should be short: taking back waits for them.
    pub fn rows(
        &self,
        storage: StorageId,
        from: Rid,
        records: usize,
        visit: &mut dyn FnMut(SavedRecord<'_>),
    ) -> Option<Rid> {
        let table = &self.storages.get(&storage)?.records;
        let _beside = self.followed.gate.read().expect("no panic under it");
        let guard = self.followed.domain.pin();
        let end = table.high_water().0;
        let stop = end.min(from.0.saturating_add(records as u64));
        for rid in (from.0..stop).map(Rid) {
            let record = table.record(rid);
            let version = record.and_then(|record| record.read(self.timestamp(), NOBODY, &guard));
            let Some(version) = version else { continue };
            if let Some(row) = version.row() {
                let timestamp = version.cts();
                visit(SavedRecord {
                    rid,
                    timestamp,
                    row,
                });
            }
        }
        (stop < end).then_some(Rid(stop))
    }
}
