//! A storage as transactions see it: records, indexes, locks and ranges together.

use std::cell::RefCell;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::index::{append_rid, split_rid};
use coeval_storage::{IndexUpkeep, OrderedIndex, Remaining, Table};
use coeval_txn::Error;
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowRef,
    StorageDefinition, StorageId, Timestamp,
};

use crate::building;
use crate::locks::tables::TableLocks;
use crate::ranges::map::{Limits, RangeMap, Space};

/// Records, and indexes that have just the entries of their newest versions.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) records: Table,
    pub(crate) indexes: Vec<Arc<Index>>,
}

/// One index of a storage.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: IndexId,
    pub(crate) kind: IndexKind,
    extractor: Arc<dyn KeyExtractor>,
    pub(crate) entries: OrderedIndex,
    pub(crate) ranges: RangeMap,
    /// Whether every write of a row registers here, its key changed or not. Then a
    /// scan is protected by its predicate alone.
    pub(crate) orders_rows: bool,
    /// Older snapshots show versions that have no entry here.
    pub(crate) usable_from: Timestamp,
    /// Whether it was dropped, if only by a transaction that has not ended: it is
    /// maintained for snapshots that know it and for a rollback, and promises
    /// nothing. Changed only by one who has the table alone.
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
            ranges: RangeMap::new(space, limits),
            orders_rows,
            usable_from,
            dropped: AtomicBool::new(false),
        }
    }

    /// One that is kept where nobody runs transactions: no ranges are used.
    pub(crate) fn followed(
        storage: StorageId,
        definition: &IndexDefinition,
        limits: Limits,
        domain: &Domain,
    ) -> Self {
        Self::new(storage, definition, limits, false, Timestamp::ZERO, domain)
    }

    /// Makes its key lead to this record, wherever it has led before. For a primary index,
    /// of which nobody else changes this key.
    pub(crate) fn lead_to(&self, row: RowRef<'_>, rid: Rid, guard: &Guard<'_>) {
        with_buffers(|entry, _| {
            self.entry(row, rid, entry);
            while let Err(other) = self.entries.insert_if_absent(entry, rid, guard) {
                if other == rid {
                    break;
                }
                self.entries.remove(entry, other, guard);
            }
        });
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.kind == IndexKind::Primary
    }

    /// Whether two live rows must not have one key here.
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

    /// Puts the row's key into `key`, and says whether it can be a duplicate.
    pub(crate) fn key(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> bool {
        key.clear();
        let extracted = self.extractor.extract(row, key);
        self.is_primary() || extracted == ExtractedKey::Comparable
    }

    /// Puts the row's entry into `entry`, and says whether its key can be a duplicate.
    pub(crate) fn entry(&self, row: RowRef<'_>, rid: Rid, entry: &mut Vec<u8>) -> bool {
        let comparable = self.key(row, entry);
        if !self.is_primary() {
            append_rid(entry, rid);
        }
        comparable
    }

    /// The key of an entry, and its RID.
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

    /// Makes sure that the row's entry is there. False when, in a primary index,
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

    /// [`Index::add`] for a primary index, of a key that has been made.
    pub(crate) fn add_key(&self, key: &[u8], rid: Rid, guard: &Guard<'_>) -> bool {
        match self.entries.insert_if_absent(key, rid, guard) {
            Ok(()) => true,
            Err(there) => there == rid,
        }
    }

    /// Takes the row's entry out.
    pub(crate) fn remove(&self, row: RowRef<'_>, rid: Rid, guard: &Guard<'_>) {
        with_buffers(|entry, _| {
            self.entry(row, rid, entry);
            self.entries.remove(entry, rid, guard);
        });
    }

    /// Calls `visit` for each record that has, or once had, this key.
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

/// Two buffers for keys, kept by the thread so that comparing keys does not
/// allocate.
fn with_buffers<R>(work: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> R) -> R {
    type Buffers = Box<(Vec<u8>, Vec<u8>)>;
    thread_local! {
        static BUFFERS: RefCell<Option<Buffers>> = const { RefCell::new(None) };
    }
    // Taken out for the time, so that an extractor that comes back here finds
    // none, and makes its own.
    let mut buffers = BUFFERS
        .try_with(|buffers| buffers.borrow_mut().take())
        .ok()
        .flatten()
        .unwrap_or_default();
    let result = work(&mut buffers.0, &mut buffers.1);
    let _ = BUFFERS.try_with(|kept| *kept.borrow_mut() = Some(buffers));
    result
}

/// The indexes of a storage at one moment. Looking at them changes no memory that
/// another core looks at.
pub(crate) type Indexes = arc_swap::Guard<Arc<Vec<Arc<Index>>>>;

/// One of them.
pub(crate) fn find(indexes: &[Arc<Index>], id: IndexId) -> Result<&Arc<Index>, Error> {
    let mut indexes = indexes.iter();
    let found = indexes.find(|index| index.id == id);
    found.ok_or(Error::Unknown("index"))
}

/// Removes the entries of versions that are gone.
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

/// A storage that is known.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) id: StorageId,
    pub(crate) records: Table,
    pub(crate) schema_version: AtomicU64,
    pub(crate) locks: TableLocks,
    /// For rows in the order of their RIDs: used when there was no primary index
    /// at the beginning.
    rows: Option<RangeMap>,
    indexes: ArcSwap<Vec<Arc<Index>>>,
    /// How often indexes have come or gone.
    index_changes: AtomicU64,
    limits: Limits,
    /// Whether there may be garbage that the sweeper has not seen.
    written: AtomicBool,
}

impl Storage {
    /// A storage of these records. Its indexes are those that came with them, or else are
    /// built from their newest versions by up to so many threads.
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
            locks: TableLocks::new(),
            rows: (primaries == 0).then(|| RangeMap::new(space, limits)),
            indexes: ArcSwap::from_pointee(indexes),
            index_changes: AtomicU64::new(0),
            limits,
            written: AtomicBool::new(false),
        })
    }

    /// Notes that versions were replaced; to be called when they have been.
    #[inline]
    pub(crate) fn note_written(&self) {
        // Looking first keeps the cache line shared.
        if !self.written.load(Ordering::Relaxed) {
            self.written.store(true, Ordering::Release);
        }
    }

    /// Whether versions were replaced since this was asked last.
    pub(crate) fn take_written(&self) -> bool {
        self.written.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn indexes(&self) -> Indexes {
        self.indexes.load()
    }

    /// The same, to be kept.
    pub(crate) fn all_indexes(&self) -> Arc<Vec<Arc<Index>>> {
        self.indexes.load_full()
    }

    /// How often [`Storage::indexes`] has changed: those that are loaded after a look at
    /// this are in force until it says something else.
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

    /// How many logical ranges there are.
    pub(crate) fn ranges(&self) -> u64 {
        let indexes = self.indexes();
        let ranges = indexes.iter().map(|index| index.ranges.count());
        let rows = self.rows.as_ref().map_or(0, RangeMap::count);
        (ranges.sum::<usize>() + rows) as u64
    }

    /// Whether indexes and records agree, while nobody writes: every newest row is led to,
    /// and nothing leads to a record without the key.
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

    /// Where the writes of rows register that no index orders.
    pub(crate) fn rows_by_rid(&self) -> Option<&RangeMap> {
        self.rows.as_ref()
    }

    /// A new index without entries, not yet known to anybody, and usable by all.
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
