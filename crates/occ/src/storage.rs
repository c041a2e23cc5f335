//! A storage, the engine's view of a table: its records, indexes, locks and logical
//! ranges.

use std::cell::RefCell;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::index::{append_rid, split_rid};
use coeval_storage::{IndexUpkeep, OrderedIndex, Remaining, Table};
use coeval_txn::{Error, StorageMemory};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowRef,
    StorageDefinition, StorageId, Timestamp,
};

use crate::building;
use crate::displaced::Displaced;
use crate::locks::tables::TableLocks;
use crate::ranges::map::{Limits, RangeMap, Space};

/// A recovered table: records, and indexes with entries of the newest versions only.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) records: Table,
    pub(crate) indexes: Vec<Arc<Index>>,
}

/// An index of a storage: a B+tree of entries, and the logical ranges of its keys.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: IndexId,
    pub(crate) kind: IndexKind,
    extractor: Arc<dyn KeyExtractor>,
    pub(crate) entries: OrderedIndex,
    /// In a primary index, while its table follows.
    displaced: Option<Displaced>,
    pub(crate) ranges: RangeMap,
    /// Whether every write of a row registers in this index, even if the row's key is
    /// unchanged. Then a scan is protected by its predicate alone.
    pub(crate) orders_rows: bool,
    /// First snapshot that may use the index: older ones see versions that have no entry
    /// here.
    pub(crate) usable_from: Timestamp,
    /// Whether the index has the entries of all records. Only a follower makes a definition
    /// visible before that.
    built: AtomicBool,
    /// Whether the index was dropped, even by a transaction that has not ended: writers
    /// maintain it for snapshots that know it and for a rollback, but no longer check
    /// uniqueness. Changed only by the holder of the table's exclusive lock.
    dropped: AtomicBool,
}

impl Index {
    fn new(
        storage: StorageId,
        definition: &IndexDefinition,
        limits: Limits,
        orders_rows: bool,
        usable_from: Timestamp,
        domain: &Domain,
    ) -> Self {
        let space = Space {
            storage,
            index: Some(definition.id),
        };
        Self {
            id: definition.id,
            kind: definition.kind,
            extractor: Arc::clone(&definition.extractor),
            entries: OrderedIndex::new(domain),
            displaced: None,
            ranges: RangeMap::new(space, limits),
            orders_rows,
            usable_from,
            built: AtomicBool::new(true),
            dropped: AtomicBool::new(false),
        }
    }

    /// A follower's index, which snapshots from `usable_from` on may use. No transaction
    /// writes to it, so its logical ranges are unused.
    pub(crate) fn followed(
        storage: StorageId,
        definition: &IndexDefinition,
        limits: Limits,
        usable_from: Timestamp,
        domain: &Domain,
    ) -> Self {
        let index = Self::new(storage, definition, limits, false, usable_from, domain);
        let displaced = index.is_primary().then(|| Displaced::new(domain));
        Self { displaced, ..index }
    }

    /// A follower's index that is maintained and lacks entries, until it is
    /// [built](Self::set_built).
    pub(crate) fn unbuilt(self) -> Self {
        Self {
            built: AtomicBool::new(false),
            ..self
        }
    }

    pub(crate) fn is_built(&self) -> bool {
        self.built.load(Ordering::Acquire)
    }

    pub(crate) fn set_built(&self) {
        self.built.store(true, Ordering::Release);
    }

    /// The displaced entries of a follower's primary index.
    pub(crate) fn displaced(&self) -> Option<&Displaced> {
        self.displaced.as_ref()
    }

    /// Removes an entry of a record that has no version with its key any more.
    pub(crate) fn forget(&self, entry: &[u8], rid: Rid, guard: &Guard<'_>) {
        match &self.displaced {
            Some(displaced) => displaced.forget(&self.entries, entry, rid, guard),
            None => {
                self.entries.remove(entry, rid, guard);
            }
        }
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.kind == IndexKind::Primary
    }

    /// Whether the index forbids two live rows with one key.
    pub(crate) fn promises_uniqueness(&self) -> bool {
        self.kind != IndexKind::Secondary && !self.is_dropped()
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn set_dropped(&self, dropped: bool) {
        self.dropped.store(dropped, Ordering::Release);
    }

    pub(crate) fn is_usable(&self, snapshot: Timestamp) -> bool {
        snapshot >= self.usable_from
    }

    /// Encodes the row's key into `key`. Returns whether the key can be a duplicate.
    pub(crate) fn key(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> bool {
        key.clear();
        let extracted = self.extractor.extract(row, key);
        self.is_primary() || extracted == ExtractedKey::Comparable
    }

    /// Encodes the row's entry into `entry`. Returns whether its key can be a duplicate.
    pub(crate) fn entry(&self, row: RowRef<'_>, rid: Rid, entry: &mut Vec<u8>) -> bool {
        let comparable = self.key(row, entry);
        if !self.is_primary() {
            append_rid(entry, rid);
        }
        comparable
    }

    /// Splits an entry into its key and its RID.
    pub(crate) fn split<'entry>(&self, entry: &'entry [u8], rid: Rid) -> (&'entry [u8], Rid) {
        if self.is_primary() {
            (entry, rid)
        } else {
            split_rid(entry)
        }
    }

    /// Whether two rows have the same key.
    pub(crate) fn same_key(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        self.extractor.is_surely_same(one, other) || self.makes_same_key(one, other)
    }

    fn makes_same_key(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        with_buffers(|first, second| {
            self.key(one, first);
            self.key(other, second);
            first == second
        })
    }

    /// Whether the row has exactly this key.
    #[inline]
    pub(crate) fn has_key(&self, row: RowRef<'_>, key: &[u8]) -> bool {
        match self.extractor.has_key(row, key) {
            Some(has) => has,
            None => self.makes_key(row, key),
        }
    }

    fn makes_key(&self, row: RowRef<'_>, key: &[u8]) -> bool {
        with_buffers(|buffer, _| {
            self.key(row, buffer);
            buffer == key
        })
    }

    /// Inserts the row's entry unless it is there. False when, in a primary index,
    /// another record has the key.
    pub(crate) fn add(&self, row: RowRef<'_>, rid: Rid, guard: &Guard<'_>) -> bool {
        with_buffers(|entry, _| {
            self.entry(row, rid, entry);
            match self.entries.insert_if_absent(entry, rid, guard) {
                Ok(()) => true,
                Err(there) => there == rid,
            }
        })
    }

    /// As [`Index::add`], for a primary index and a key that is encoded already.
    pub(crate) fn add_key(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) -> bool {
        match self.entries.insert_if_absent(key, rid, guard) {
            Ok(()) => true,
            Err(there) => there == rid,
        }
    }

    /// Removes the row's entry.
    pub(crate) fn remove(&self, row: RowRef<'_>, rid: Rid, guard: &Guard<'_>) {
        with_buffers(|entry, _| {
            self.entry(row, rid, entry);
            self.forget(entry, rid, guard);
        });
    }

    /// Calls `visit` for each record that this primary index does not lead to, and that
    /// may have a version with the key: none, unless the table follows.
    #[inline]
    pub(crate) fn others(
        &self,
        key: &[u8],
        guard: &Guard<'_>,
        visit: impl FnMut(Rid) -> ControlFlow<()>,
    ) {
        if let Some(displaced) = &self.displaced {
            displaced.visit(key, guard, visit);
        }
    }

    /// Calls `visit` for each record that has, or once had, this key, and to which the
    /// index leads.
    pub(crate) fn candidates(
        &self,
        key: &[u8],
        guard: &Guard<'_>,
        mut visit: impl FnMut(Rid) -> ControlFlow<()>,
    ) {
        if self.is_primary() {
            if let Some(rid) = self.entries.get(key, guard) {
                let _ = visit(rid);
            }
            return;
        }
        let _ = self.entries.scan_forward(
            Bound::Included(key),
            Bound::Unbounded,
            guard,
            |entry, rid| {
                let (its_key, _) = split_rid(entry);
                if !entry.starts_with(key) {
                    return ControlFlow::Break(());
                }
                if its_key == key {
                    visit(rid)
                } else {
                    ControlFlow::Continue(())
                }
            },
        );
    }
}

/// Lends two key buffers of the calling thread to `work`, so that comparing keys does not
/// allocate.
fn with_buffers<R>(work: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> R) -> R {
    type Buffers = Box<(Vec<u8>, Vec<u8>)>;
    thread_local! {
        static BUFFERS: RefCell<Option<Buffers>> = const { RefCell::new(None) };
    }
    // The buffers are taken out while `work` runs, so that an extractor that calls this
    // again finds none and makes its own.
    let mut buffers = BUFFERS
        .try_with(|buffers| buffers.borrow_mut().take())
        .ok()
        .flatten()
        .unwrap_or_default();
    let result = work(&mut buffers.0, &mut buffers.1);
    let _ = BUFFERS.try_with(|kept| *kept.borrow_mut() = Some(buffers));
    result
}

/// A storage's indexes at one moment. Loading them writes no memory that other cores
/// read.
pub(crate) type Indexes = arc_swap::Guard<Arc<Vec<Arc<Index>>>>;

/// The index with this id.
pub(crate) fn find(indexes: &[Arc<Index>], id: IndexId) -> Result<&Arc<Index>, Error> {
    let mut indexes = indexes.iter();
    let found = indexes.find(|index| index.id == id);
    found.ok_or(Error::Unknown("index"))
}

/// Removes index entries of collected versions.
#[derive(Debug)]
pub(crate) struct Upkeep<'indexes>(pub(crate) &'indexes [Arc<Index>]);

impl IndexUpkeep for Upkeep<'_> {
    fn removed(&self, rid: Rid, removed: RowRef<'_>, remaining: &Remaining<'_>) {
        for index in self.0 {
            if !remaining.any(|row| index.same_key(row, removed)) {
                index.remove(removed, rid, remaining.guard());
            }
        }
    }
}

/// A storage that is attached.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) id: StorageId,
    pub(crate) records: Table,
    /// The schema version that was committed last.
    schema_version: AtomicU64,
    /// The schema version that the transaction has set which keeps writers out; as
    /// committed, if none has.
    schema_next: AtomicU64,
    pub(crate) locks: TableLocks,
    /// Logical ranges of the rows in RID order: used when the storage was created without
    /// a primary index.
    rows: Option<RangeMap>,
    indexes: ArcSwap<Vec<Arc<Index>>>,
    /// Number of times an index was added or removed.
    index_changes: AtomicU64,
    limits: Limits,
    /// Whether there may be garbage that the garbage collector has not seen.
    written: AtomicBool,
}

impl Storage {
    /// A storage of recovered records. It keeps indexes that were recovered with them,
    /// and builds the others from the newest versions with up to `threads` threads.
    pub(crate) fn new(
        definition: &StorageDefinition,
        recovered: Recovered,
        limits: Limits,
        threads: usize,
        domain: &Domain,
    ) -> Result<Self, Error> {
        let Recovered {
            records,
            indexes: mut kept,
        } = recovered;
        let primaries = definition
            .indexes
            .iter()
            .filter(|index| index.kind == IndexKind::Primary)
            .count();
        if primaries > 1 {
            return Err(Error::Unknown("storage with two primary indexes"));
        }
        let indexes: Vec<_> = definition
            .indexes
            .iter()
            .map(|index| {
                let orders_rows = index.kind == IndexKind::Primary;
                let mut index = Index::new(
                    definition.id,
                    index,
                    limits,
                    orders_rows,
                    Timestamp::ZERO,
                    domain,
                );
                let same = |kept: &Arc<Index>| (kept.id, kept.kind) == (index.id, index.kind);
                let there = kept.iter().position(same).map(|at| kept.swap_remove(at));
                index.entries = match there.and_then(Arc::into_inner) {
                    Some(kept) => kept.entries,
                    None => building::entries_of(&index, &records, threads, domain),
                };
                Arc::new(index)
            })
            .collect();
        let space = Space {
            storage: definition.id,
            index: None,
        };
        Ok(Self {
            id: definition.id,
            records,
            schema_version: AtomicU64::new(definition.schema_version),
            schema_next: AtomicU64::new(definition.schema_version),
            locks: TableLocks::new(),
            rows: (primaries == 0).then(|| RangeMap::new(space, limits)),
            indexes: ArcSwap::from_pointee(indexes),
            index_changes: AtomicU64::new(0),
            limits,
            written: AtomicBool::new(false),
        })
    }

    /// Whether a plan for this schema version may use the table.
    ///
    /// While a change of the schema lets readers go on beside it, both versions are sound:
    /// snapshots show the new one a little before or after [`Storage::publish_schema`].
    pub(crate) fn has_schema(&self, version: u64) -> bool {
        version == self.schema_version.load(Ordering::Acquire)
            || version == self.schema_next.load(Ordering::Acquire)
    }

    /// Sets the schema version that is not committed yet. Returns the previous one.
    pub(crate) fn set_schema(&self, version: u64) -> u64 {
        self.schema_next.swap(version, Ordering::AcqRel)
    }

    /// Called when the change is committed, and snapshots include it, before its table
    /// lock is freed: from here on plans for earlier versions are refused.
    pub(crate) fn publish_schema(&self) {
        let version = self.schema_next.load(Ordering::Acquire);
        self.schema_version.store(version, Ordering::Release);
    }

    /// Notes that versions were replaced. The writer calls this after replacing them.
    #[inline]
    pub(crate) fn note_written(&self) {
        // Reading first keeps the cache line shared.
        if !self.written.load(Ordering::Relaxed) {
            self.written.store(true, Ordering::Release);
        }
    }

    /// Whether versions were replaced since the last call.
    pub(crate) fn take_written(&self) -> bool {
        self.written.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn indexes(&self) -> Indexes {
        self.indexes.load()
    }

    /// As [`Self::indexes`], to be kept.
    pub(crate) fn all_indexes(&self) -> Arc<Vec<Arc<Index>>> {
        self.indexes.load_full()
    }

    /// Number of changes to [`Storage::indexes`]: a list that was loaded after reading
    /// this number is current as long as the number is unchanged.
    #[inline]
    pub(crate) fn index_changes(&self) -> u64 {
        self.index_changes.load(Ordering::Acquire)
    }

    fn change_indexes(&self, mut change: impl FnMut(&mut Vec<Arc<Index>>)) {
        self.indexes.rcu(|indexes| {
            let mut indexes = Vec::clone(indexes);
            change(&mut indexes);
            indexes
        });
        self.index_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Memory that the indexes and logical ranges take, in bytes.
    pub(crate) fn index_bytes(&self) -> u64 {
        let indexes = self.indexes();
        let indexes = indexes
            .iter()
            .map(|index| index.entries.memory() + index.ranges.memory());
        let rows = self.rows.as_ref().map_or(0, RangeMap::memory);
        indexes.sum::<u64>() + rows
    }

    /// Memory of the rows and of each index, in bytes.
    pub(crate) fn memory(&self) -> StorageMemory {
        let indexes = self.indexes();
        let of = |index: &Arc<Index>| (index.id, index.entries.memory() + index.ranges.memory());
        StorageMemory {
            rows: self.records.memory().total(),
            indexes: indexes.iter().map(of).collect(),
        }
    }

    /// Number of logical ranges of all indexes.
    pub(crate) fn ranges(&self) -> u64 {
        let indexes = self.indexes();
        let ranges = indexes.iter().map(|index| index.ranges.count());
        let rows = self.rows.as_ref().map_or(0, RangeMap::count);
        (ranges.sum::<usize>() + rows) as u64
    }

    /// Checks that indexes and records agree: every newest row has its entry, and every
    /// entry refers to a record with a version of that key. No transaction may write
    /// meanwhile.
    pub(crate) fn check_indexes(&self, guard: &Guard<'_>) -> Result<(), String> {
        for index in self.indexes().iter() {
            let mut entry = Vec::new();
            for rid in (0..self.records.high_water().0).map(Rid) {
                let record = self.records.record(rid);
                let version = record.and_then(|record| record.newest_committed(guard));
                let Some(row) = version.and_then(|version| version.row()) else {
                    continue;
                };
                index.entry(row, rid, &mut entry);
                if index.entries.get(&entry, guard) != Some(rid) {
                    return Err(format!("{:?} of {:?} misses {rid}", index.id, self.id));
                }
            }
            let (all, mut its) = (Bound::Unbounded, Vec::new());
            let checked = index.entries.scan_forward(all, all, guard, |entry, rid| {
                let record = self.records.followed(rid);
                let has_it = record.is_some_and(|record| {
                    record.any_row(guard, |row| {
                        index.entry(row, rid, &mut its);
                        its == entry
                    })
                });
                match has_it {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            if checked.is_break() {
                let what = "leads to a record that has no such version";
                return Err(format!("{:?} of {:?} {what}", index.id, self.id));
            }
        }
        Ok(())
    }

    pub(crate) fn index(&self, id: IndexId) -> Result<Arc<Index>, Error> {
        find(&self.indexes(), id).cloned()
    }

    /// Logical ranges in which writes register by RID, if no primary index orders the
    /// rows.
    pub(crate) fn rows_by_rid(&self) -> Option<&RangeMap> {
        self.rows.as_ref()
    }

    /// A new empty index, usable by all snapshots, which is not yet in the storage's
    /// list.
    pub(crate) fn make_index(&self, definition: &IndexDefinition, domain: &Domain) -> Index {
        let from = Timestamp::ZERO;
        Index::new(self.id, definition, self.limits, false, from, domain)
    }

    pub(crate) fn add_index(&self, index: Arc<Index>) {
        self.change_indexes(|indexes| indexes.push(Arc::clone(&index)));
    }

    pub(crate) fn remove_index(&self, id: IndexId) {
        self.change_indexes(|indexes| indexes.retain(|index| index.id != id));
    }
}
