//! The tables of a follower: replay, settling, taking back, collection. The parent module
//! states the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};

use coeval_log::{Entry, Error, ReplayError, SavedRecord};
use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::{Expiry, Horizon, Snapshot, Snapshots, Table};
use coeval_txn::UnbuiltIndexes;
use coeval_types::{Lsn, Rid, StorageDefinition, StorageId, Timestamp, TransactionId, planted};

use super::backfill::{AT_ONCE, Backfill, Backfills};
use super::garbage::{Dropped, Garbage};
use super::journal::{Journal, RecordName};
use super::reader::Reader;
use super::storage::{FollowedStorage, collector};
use super::visibility::Visibility;
use crate::Statistics;
use crate::memory::{self, Memory, MemoryAccounts};
use crate::statistics;
use crate::statistics::counters::Counters;
use crate::storage::{Recovered, Upkeep};

/// Number of entries that are prefetched together.
const GROUP: usize = 32;

/// Fewest records for which a thread is started.
const PART_RECORDS: usize = 1 << 12;

/// Commits between two sums of the old versions, which cost some hundred nanoseconds for
/// each storage.
const COMMITS_BETWEEN_SUMS: u32 = 64;

/// Records that are looked at again in one step of collection.
const COLLECTED_AT_ONCE: usize = 1 << 12;
/// Records among which a row is looked for in one step.
const LOOKED_AT: usize = 1 << 10;

/// Records whose entries an index under construction gets in one step: beside a commit, which
/// readers wait for, and while there is nothing else to do.
pub(super) const BUILT_BESIDE: u64 = if cfg!(test) { 1 } else { 64 };
pub(super) const BUILT_ALONE: u64 = if cfg!(test) { 2 } else { 1 << 10 };

/// The reader id of readers that read committed versions only.
pub(super) const NOBODY: TransactionId = TransactionId(0);

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

/// How the indexes of new definitions are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Building {
    /// Before the definition is visible.
    AtOnce,
    /// Beside replay, if the table is large.
    Beside,
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
    /// What snapshots hold.
    garbage: Mutex<Garbage>,
    /// The indexes that are being built.
    backfills: Backfills,
    /// Storages with records that their primary index leads to twice.
    doubled: Mutex<BTreeSet<StorageId>>,
    /// Held shared by readers, for a step at a time, and exclusively while something is
    /// taken back, or the tables end.
    pub(super) gate: RwLock<()>,
    /// The commits of the views that read.
    views: Mutex<Vec<Timestamp>>,
    /// The memory budget; without one, old versions are not limited.
    pub(super) memory: OnceLock<Memory>,
    pub(super) counters: Counters,
    /// Commits until old versions are added up again.
    until_added_up: AtomicU32,
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
            garbage: Mutex::default(),
            backfills: Backfills::default(),
            doubled: Mutex::default(),
            gate: RwLock::default(),
            views: Mutex::default(),
            memory: OnceLock::new(),
            counters: Counters::default(),
            until_added_up: AtomicU32::new(0),
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

    fn garbage(&self) -> MutexGuard<'_, Garbage> {
        self.garbage.lock().expect("no panic while it was held")
    }

    /// All storages, dropped ones that a snapshot may know included.
    pub(super) fn storages(&self) -> RwLockReadGuard<'_, Storages> {
        self.storages.read().expect("no panic while it was held")
    }

    /// The storages that are not dropped.
    pub(super) fn undropped(&self) -> Vec<StorageId> {
        let storages: Vec<_> = self.storages().keys().copied().collect();
        let garbage = self.garbage();
        let is_there = |id: &StorageId| !garbage.is_dropped(*id);
        storages.into_iter().filter(is_there).collect()
    }

    pub(super) fn storage(&self, id: StorageId) -> Option<Arc<FollowedStorage>> {
        self.storages().get(&id).cloned()
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
                if planted!(SkipAtLimit) && self.holds_too_much() {
                    continue;
                }
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
            self.each(parts[part], |storage, rid| self.add(storage, rid, &guard));
        });
        let touched = touched.into_iter();
        let changes = touched
            .map(|touched| (touched.cts, touched.place))
            .collect();
        self.journal().extend(changes);
    }

    fn add(&self, storage: &FollowedStorage, rid: Rid, guard: &Guard<'_>) {
        if storage.add(rid, guard) {
            self.is_doubled(storage);
        }
    }

    fn is_doubled(&self, storage: &FollowedStorage) {
        let mut doubled = self.doubled.lock().expect("no panic while it was held");
        doubled.insert(storage.id());
    }

    /// Removes doubled entries. No reader may be in a step.
    fn settle_doubled(&self) {
        let mut doubled = self.doubled.lock().expect("no panic while it was held");
        let guard = self.domain.pin();
        for id in std::mem::take(&mut *doubled) {
            if let Some(storage) = self.storage(id) {
                storage.settle_displaced(&guard);
            }
        }
    }

    fn has_doubled(&self) -> bool {
        let doubled = self.doubled.lock().expect("no panic while it was held");
        !doubled.is_empty()
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
    /// the versions that they have replaced. Calls `before` with the storages that have
    /// changed and the last of the commits, before that is visible. Returns the storages.
    pub(super) fn commit(
        &self,
        end: Lsn,
        before: impl FnOnce(&[StorageId], Timestamp),
    ) -> Vec<StorageId> {
        let settled = self.journal().settle(end);
        let Some((last, places)) = settled else {
            self.visibility.reach(end);
            self.build_some(BUILT_BESIDE);
            self.collect_due();
            return Vec::new();
        };
        let mut changed: Vec<_> = places.iter().map(|(storage, _)| *storage).collect();
        changed.dedup();
        if planted!(ShowUnbuiltIndex) {
            self.visibility.publish(last);
        }
        before(&changed, last);
        self.visibility.publish(last);
        self.visibility.reach(end);
        self.build_some(BUILT_BESIDE);
        if self.has_doubled() {
            let _alone = self.gate.write().expect("no panic while it was held");
            self.settle_doubled();
        }
        self.collect(&places, &self.expiry());
        statistics::sample_at(&self.counters, last, &self.snapshots);
        self.end_oldest();
        self.collect_due();
        changed
    }

    /// Goes on with the index that is being built, by this many records. Returns whether
    /// there is one. No replay may run meanwhile.
    pub(super) fn build_some(&self, records: u64) -> bool {
        let Some(mut backfill) = self.backfills.take() else {
            return false;
        };
        // A storage that has gone took its backfills along.
        let Some(storage) = self.storage(backfill.storage) else {
            return true;
        };
        let stop = backfill.end.0.min(backfill.next.0 + records);
        let guard = self.domain.pin();
        for rid in (backfill.next.0..stop).map(Rid) {
            if storage.add_to(&backfill.index, rid, &guard) {
                self.is_doubled(&storage);
            }
        }
        backfill.next = Rid(stop);
        match backfill.next < backfill.end {
            true => self.backfills.put_back(backfill),
            false => self.backfills.end(&backfill),
        }
        true
    }

    pub(super) fn is_building(&self) -> bool {
        !self.backfills.is_empty()
    }

    /// The indexes that plans must do without.
    pub(super) fn unbuilt(&self) -> Option<Arc<UnbuiltIndexes>> {
        self.backfills.unbuilt()
    }

    /// The accounts of memory, for this budget.
    pub(super) fn accounts(&self, memory: &Memory) -> MemoryAccounts {
        let storages = self.storages();
        let tables = storages.values();
        let tables = tables.map(|storage| (&storage.records, storage.index_bytes()));
        memory::add_up(memory, 0, tables)
    }

    /// Counters of the readers, and gauges of the tables.
    pub(super) fn statistics(&self) -> Statistics {
        let visible = self.visible();
        let mut statistics = statistics::count(&self.counters, visible, &self.snapshots);
        // Both are commits of committed log, so their offsets are of one log.
        let oldest = self.snapshots.oldest().unwrap_or(visible);
        statistics.oldest_snapshot_lag = visible.lsn().0.saturating_sub(oldest.lsn().0);
        statistics.retired = self.garbage().dropped() as u64;
        for storage in self.storages().values() {
            statistics.storages += 1;
            statistics.rows += storage.records.estimated_rows();
        }
        if let Some(memory) = self.memory.get() {
            statistics.memory = self.accounts(memory);
        }
        statistics
    }

    /// Ends the oldest reader's snapshot if old versions take more than their share, or are
    /// what keeps the process above its limit: replay never waits for a reader. A view's is
    /// not ended, for a checkpoint must be whole; readers are, however old the view is.
    fn end_oldest(&self) {
        let Some(memory) = self.memory.get() else {
            return;
        };
        let left = self.until_added_up.load(Ordering::Relaxed);
        if left > 0 {
            self.until_added_up.store(left - 1, Ordering::Relaxed);
            return;
        }
        self.until_added_up
            .store(COMMITS_BETWEEN_SUMS, Ordering::Relaxed);
        if !self.holds_too_much() {
            return;
        }
        // A reader at a view's commit holds nothing that the view does not.
        let views = self.views();
        memory::end_oldest_of(memory, &self.snapshots, self.visible(), &views);
    }

    /// Whether old versions are too much for the memory budget.
    fn holds_too_much(&self) -> bool {
        let memory = self.memory.get();
        memory.is_some_and(|memory| {
            memory::is_old_too_much(memory, self.accounts(memory).old_versions)
        })
    }

    fn views(&self) -> MutexGuard<'_, Vec<Timestamp>> {
        self.views.lock().expect("no panic while it was held")
    }

    /// Registers the snapshot of a view.
    pub(super) fn begin_view(self: &Arc<Self>) -> Reader {
        let mut views = self.views();
        let reader = Reader::new(Arc::clone(self));
        views.push(reader.timestamp());
        reader
    }

    pub(super) fn end_view(&self, timestamp: Timestamp) {
        let mut views = self.views();
        if let Some(at) = views.iter().position(|its| *its == timestamp) {
            views.swap_remove(at);
        }
    }

    /// Removes expired versions of these records, which are sorted, and notes which
    /// snapshots hold others.
    fn collect<'a>(&self, places: impl IntoIterator<Item = &'a RecordName>, expiry: &Expiry<'_>) {
        let mut held = Vec::new();
        let guard = self.domain.pin();
        self.each(places, |storage, rid| {
            storage.collect(rid, expiry, &guard, &mut |holder| {
                held.push((holder, (storage.id(), rid)));
            });
        });
        drop(guard);
        if !held.is_empty() {
            let mut garbage = self.garbage();
            held.into_iter()
                .for_each(|(holder, place)| garbage.hold(holder, place));
        }
        self.domain.collect();
    }

    /// Collects some of what was held by snapshots that have ended. Returns whether there
    /// was anything. No replay may run meanwhile.
    pub(super) fn collect_due(&self) -> bool {
        let (due, unknown) = {
            let expiry = self.expiry();
            let oldest = self.snapshots.oldest();
            let mut garbage = self.garbage();
            if planted!(CollectWithoutReaders) && oldest.is_some() {
                return false;
            }
            let due = garbage.take_due(COLLECTED_AT_ONCE, |snapshot| is_held(&expiry, snapshot));
            (due, garbage.take_unknown(oldest))
        };
        if !due.is_empty() {
            self.collect(&due, &self.expiry());
        }
        let is_any = !due.is_empty() || !unknown.is_empty();
        for dropped in unknown {
            self.remove(dropped);
        }
        is_any
    }

    fn remove(&self, dropped: Dropped) {
        self.backfills.forget(dropped.storage, dropped.index);
        match dropped.index {
            None => {
                let mut storages = self.storages.write().expect("no panic while it was held");
                let removed = storages.remove(&dropped.storage);
                drop(storages);
                drop(removed);
            }
            Some(index) => {
                if let Some(storage) = self.storage(dropped.storage) {
                    storage.remove_index(index);
                }
            }
        }
    }

    /// Ready when there is something to [collect](Self::collect_due).
    pub(super) fn poll_due(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut garbage = self.garbage();
        garbage.wait(context.waker());
        let expiry = self.expiry();
        let oldest = self.snapshots.oldest();
        if planted!(CollectWithoutReaders) && oldest.is_some() {
            return Poll::Pending;
        }
        match garbage.is_due(oldest, |snapshot| is_held(&expiry, snapshot)) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Registers a snapshot at the visible commit.
    pub(super) fn register(&self) -> Snapshot {
        self.snapshots.register(|| self.visible())
    }

    /// A reader's snapshot has ended, or has moved away from this timestamp: wakes the
    /// thread that collects, if that may have something to do.
    pub(super) fn released(&self, snapshot: Timestamp) {
        // A snapshot that ended before the thread looked is not missed: it looks under this
        // lock, and notes its waker first.
        let mut garbage = self.garbage();
        let waker = match garbage.waits_for(snapshot) {
            true => garbage.take_waker(),
            false => None,
        };
        drop(garbage);
        if let Some(waker) = waker {
            waker.wake();
        }
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
            self.each(&places, |storage, rid| self.add(storage, rid, &guard));
        }
        drop(guard);
        self.settle_doubled();
        // The newest version may now be an older committed one, possibly a deletion.
        self.collect(&places, &self.expiry());
        Ok(())
    }

    /// Learns the definitions that snapshots from `since` on have, which is not visible yet, and
    /// which storages these do not know. No replay may run meanwhile.
    pub(super) fn define(
        &self,
        definitions: &[StorageDefinition],
        dropped: &[StorageId],
        since: Timestamp,
        building: Building,
    ) {
        let at_once = match building {
            Building::AtOnce => u64::MAX,
            Building::Beside => AT_ONCE,
        };
        let oldest = self.snapshots.oldest().unwrap_or(since);
        for definition in definitions {
            let storage = self.storage_or_new(definition.id);
            storage.forget_schemas(oldest);
            let how = (self.threads, at_once);
            let changed = storage.define(definition, since, how, &self.domain);
            for index in changed.unbuilt {
                self.backfills.begin(Backfill {
                    storage: definition.id,
                    index,
                    next: Rid(0),
                    end: storage.records.high_water(),
                });
            }
            let places = self.journal().of(definition.id);
            let guard = self.domain.pin();
            self.each(&places, |storage, rid| self.add(storage, rid, &guard));
            let mut garbage = self.garbage();
            changed.dropped.into_iter().for_each(|index| {
                garbage.drop_later(Dropped {
                    storage: definition.id,
                    index: Some(index),
                    since,
                });
            });
        }
        let mut garbage = self.garbage();
        dropped.iter().for_each(|&storage| {
            garbage.drop_later(Dropped {
                storage,
                index: None,
                since,
            });
        });
    }

    /// Whether a storage has a row at a commit whose versions are kept.
    pub(super) fn has_rows_at(&self, timestamp: Timestamp, storage: StorageId) -> bool {
        let mut has = false;
        let mut next = Some(Rid(0));
        while let Some(from) = next.filter(|_| !has) {
            next = self.rows_at(timestamp, storage, from, LOOKED_AT, &mut |_| has = true);
        }
        has
    }

    /// Visits the rows of the next `records` records from `from` on, as of a commit whose
    /// versions are kept, and returns the RID to continue from.
    pub(super) fn rows_at(
        &self,
        timestamp: Timestamp,
        storage: StorageId,
        from: Rid,
        records: usize,
        visit: &mut dyn FnMut(SavedRecord<'_>),
    ) -> Option<Rid> {
        let storages = self.storages();
        let table = &storages.get(&storage)?.records;
        let guard = self.domain.pin();
        let end = table.high_water().0;
        let stop = end.min(from.0.saturating_add(records as u64));
        for rid in (from.0..stop).map(Rid) {
            let record = table.record(rid);
            let version = record.and_then(|record| record.read(timestamp, NOBODY, &guard));
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

    /// Ends all readers: no step begins from now on, and none is under way.
    pub(super) fn end_readers(&self) {
        self.visibility.close();
        drop(self.gate.write().expect("no panic while it was held"));
    }

    fn is_viewed(&self) -> bool {
        !self.views().is_empty()
    }

    /// Frees the tables although readers still have their snapshots.
    pub(super) fn clear(&self) {
        self.end_readers();
        if !self.is_viewed() {
            let mut storages = self.storages.write().expect("no panic while it was held");
            storages.clear();
        }
    }

    /// Converts the tables for an engine. Everything must be committed. Ends all readers.
    pub(super) fn finish(&self) -> Result<BTreeMap<StorageId, Recovered>, Error> {
        let viewed = || {
            let what = "a view still reads tables that are to be led";
            Error::Setting(what.to_owned())
        };
        if self.is_viewed() {
            return Err(viewed());
        }
        self.end_readers();
        self.settle();
        self.commit(Lsn(u64::MAX), |_, _| {});
        self.settle_doubled();
        debug_assert!(self.journal().is_empty());
        self.collect_for_no_reader();
        let mut storages = self.storages.write().expect("no panic while it was held");
        let storages = std::mem::take(&mut *storages);
        let finished = storages.into_iter().map(|(id, storage)| {
            let storage = Arc::into_inner(storage).ok_or_else(viewed)?;
            Ok((id, storage.finish()))
        });
        finished.collect()
    }

    /// Collects everything that snapshots hold: their readers have ended.
    fn collect_for_no_reader(&self) {
        let no_readers = Snapshots::new();
        let visible = self.visible();
        let horizon = Horizon {
            installed: visible,
            committed: visible,
        };
        let (held, dropped) = {
            let mut garbage = self.garbage();
            (garbage.take_all(), garbage.take_unknown(None))
        };
        self.collect(&held, &Expiry::cached(horizon, &no_readers));
        dropped.into_iter().for_each(|dropped| self.remove(dropped));
    }

    /// Number of records that snapshots hold, for tests.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.garbage().held()
    }
}

/// Whether a snapshot is registered at exactly this timestamp.
fn is_held(expiry: &Expiry<'_>, snapshot: Timestamp) -> bool {
    let next = Timestamp::from_bits(snapshot.to_bits() + 1);
    expiry.holder(snapshot, next).is_some()
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
