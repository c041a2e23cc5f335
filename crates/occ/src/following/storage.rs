//! A follower's storage: its records, and the indexes that replay maintains.

use std::sync::Arc;

use arc_swap::ArcSwap;
use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::{Collector, Expiry, FollowedRecord, IndexUpkeep, Table};
use coeval_txn::StorageMemory;
use coeval_types::{
    IndexDefinition, IndexId, Lsn, Rid, RowRef, StorageDefinition, StorageId, Timestamp, planted,
};

use crate::Settings;
use crate::building;
use crate::displaced::Displaced;
use crate::storage::{Index, Indexes, Recovered, Upkeep};

/// A storage of a follower.
#[derive(Debug)]
pub(crate) struct FollowedStorage {
    id: StorageId,
    pub(super) records: Table,
    indexes: ArcSwap<Vec<Arc<Index>>>,
    /// Schema versions, each with the commit from which on snapshots have it, oldest first.
    schemas: ArcSwap<Vec<(Timestamp, u64)>>,
}

impl FollowedStorage {
    pub(super) fn new(id: StorageId, records: Table) -> Self {
        Self {
            id,
            records,
            indexes: ArcSwap::default(),
            schemas: ArcSwap::default(),
        }
    }

    pub(super) fn id(&self) -> StorageId {
        self.id
    }

    /// Memory of the rows and of each index, in bytes.
    pub(super) fn memory(&self) -> StorageMemory {
        let indexes = self.indexes.load();
        let of = |index: &Arc<Index>| (index.id, index.entries.memory() + index.ranges.memory());
        StorageMemory {
            rows: self.records.memory().total(),
            indexes: indexes.iter().map(of).collect(),
        }
    }

    pub(super) fn indexes(&self) -> Indexes {
        self.indexes.load()
    }

    /// Learns the definition that snapshots from `since` on have. Returns what has changed of
    /// the indexes; those that are dropped are maintained until they are
    /// [removed](Self::remove_index).
    ///
    /// New indexes are built from committed rows, except those of tables with more than
    /// `at_once` records, which the caller has to build; the caller [adds](Self::add) the
    /// entries of rows replayed after those, and then makes `since` visible.
    pub(super) fn define(
        &self,
        definition: &StorageDefinition,
        since: Timestamp,
        (threads, at_once): (usize, u64),
        domain: &Domain,
    ) -> Redefined {
        let mut unbuilt = Vec::new();
        let builds_at_once = self.records.high_water().0 <= at_once;
        let there = self.indexes();
        let same = |index: &Index, definition: &IndexDefinition| {
            index.id == definition.id && index.kind == definition.kind && !index.is_dropped()
        };
        let defined = definition.indexes.iter().map(|definition| {
            let kept = there.iter().find(|index| same(index, definition));
            kept.cloned().unwrap_or_else(|| {
                let limits = Settings::default().range_limits();
                let mut index = Index::followed(self.id, definition, limits, since, domain);
                if builds_at_once {
                    index.entries = building::entries_of(&index, &self.records, threads, domain);
                    return Arc::new(index);
                }
                let index = Arc::new(index.unbuilt());
                unbuilt.push(Arc::clone(&index));
                index
            })
        });
        let mut indexes: Vec<_> = defined.collect();
        let is_defined = |index: &Arc<Index>| definition.indexes.iter().any(|its| same(index, its));
        let dropped: Vec<_> = there
            .iter()
            .filter(|index| !is_defined(index))
            .cloned()
            .collect();
        let dropped_now = dropped.iter().filter(|index| !index.is_dropped());
        let dropped_now = dropped_now.map(|index| index.id).collect();
        dropped.iter().for_each(|index| index.set_dropped(true));
        indexes.extend(dropped);
        self.indexes.store(Arc::new(indexes));
        self.set_schema(definition.schema_version, since);
        Redefined {
            dropped: dropped_now,
            unbuilt,
        }
    }

    fn set_schema(&self, version: u64, since: Timestamp) {
        let schemas = self.schemas.load();
        if schemas.last().is_some_and(|(_, last)| *last == version) {
            return;
        }
        let mut schemas = Vec::clone(&schemas);
        schemas.push((since, version));
        self.schemas.store(Arc::new(schemas));
    }

    /// Forgets schema versions that no snapshot from `oldest` on has.
    pub(super) fn forget_schemas(&self, oldest: Timestamp) {
        let schemas = self.schemas.load();
        let newer = schemas.partition_point(|(since, _)| *since <= oldest);
        if newer > 1 {
            self.schemas.store(Arc::new(schemas[newer - 1..].to_vec()));
        }
    }

    /// Whether a plan for this schema version may use the storage in this snapshot.
    pub(super) fn has_schema(&self, version: u64, snapshot: Timestamp) -> bool {
        let schemas = self.schemas.load();
        let its = schemas.iter().rfind(|(since, _)| *since <= snapshot);
        its.is_some_and(|(_, its)| *its == version)
    }

    pub(super) fn remove_index(&self, id: IndexId) {
        let indexes = self.indexes();
        let kept = indexes
            .iter()
            .filter(|index| index.id != id || !index.is_dropped());
        self.indexes.store(Arc::new(kept.cloned().collect()));
    }

    /// Restores missing index entries of a record. The tables must be at the end of a
    /// commit, and no thread may write. Returns whether the record is led to twice.
    ///
    /// In a primary index a key leads to the record whose newest version is a row with it,
    /// if one is: at the end of a commit there is at most one. Other records that have
    /// versions with the key are displaced.
    pub(super) fn add(&self, rid: Rid, guard: &Guard<'_>) -> bool {
        let Some(record) = self.records.followed(rid) else {
            return false;
        };
        let newest = self.newest(rid, guard);
        let mut is_doubled = false;
        for index in self.indexes().iter() {
            is_doubled |= add_to(index, &record, (rid, newest), guard);
        }
        is_doubled
    }

    /// As [`Self::add`], in one index.
    pub(super) fn add_to(&self, index: &Index, rid: Rid, guard: &Guard<'_>) -> bool {
        let Some(record) = self.records.followed(rid) else {
            return false;
        };
        add_to(index, &record, (rid, self.newest(rid, guard)), guard)
    }

    /// Removes doubled entries. No reader may be in a step.
    pub(super) fn settle_displaced(&self, guard: &Guard<'_>) {
        for index in self.indexes().iter() {
            if let Some(displaced) = index.displaced() {
                displaced.settle(&index.entries, guard);
            }
        }
    }

    /// Removes a record's versions from `from` on, and the entries that only they had. No
    /// thread may write or read.
    pub(super) fn take_back(&self, rid: Rid, from: Lsn, guard: &Guard<'_>) {
        let Some(record) = self.records.followed(rid) else {
            return;
        };
        let mut keys = Vec::new();
        let indexes = self.indexes();
        record.take_back(from, guard, &mut |row| {
            let mut entry = Vec::new();
            for index in indexes.iter() {
                index.entry(row, rid, &mut entry);
                keys.push((Arc::clone(index), entry.clone()));
            }
        });
        if planted!(ForgetIndex) {
            return;
        }
        for (index, entry) in keys {
            let mut buffer = Vec::new();
            let has_it = |row: RowRef<'_>| {
                index.entry(row, rid, &mut buffer);
                buffer == entry
            };
            if !record.any_row(guard, has_it) {
                index.forget(&entry, rid, guard);
            }
        }
    }

    /// Removes the expired versions of a record, and passes the snapshots that hold others
    /// to `held`. No thread may write.
    pub(super) fn collect(
        &self,
        rid: Rid,
        expiry: &Expiry<'_>,
        guard: &Guard<'_>,
        held: &mut dyn FnMut(Timestamp),
    ) {
        if let Some(record) = self.records.followed(rid) {
            let indexes = self.indexes();
            record.collect(&collector(expiry, guard, &Upkeep(&indexes)));
            record.holders(expiry, guard, held);
        }
    }

    /// Memory that the indexes take, in bytes.
    pub(super) fn index_bytes(&self) -> u64 {
        let indexes = self.indexes();
        let bytes = indexes.iter().map(|index| {
            let displaced = index.displaced().map_or(0, Displaced::memory);
            index.entries.memory() + displaced
        });
        bytes.sum()
    }

    /// The row of the record's newest version, if it has one.
    pub(super) fn newest<'guard>(
        &self,
        rid: Rid,
        guard: &'guard Guard<'_>,
    ) -> Option<RowRef<'guard>> {
        let version = self.records.record(rid)?.newest_committed(guard)?;
        version.row()
    }

    /// Whether both rows exist, and have the same key in every index.
    pub(super) fn has_same_keys(&self, one: Option<RowRef<'_>>, other: Option<RowRef<'_>>) -> bool {
        let (Some(one), Some(other)) = (one, other) else {
            return false;
        };
        let indexes = self.indexes();
        indexes.iter().all(|index| index.same_key(one, other))
    }

    /// The record with this RID, and the indexes.
    #[inline]
    pub(super) fn record(&self, rid: Rid) -> Option<(FollowedRecord<'_>, Indexes)> {
        Some((self.records.followed(rid)?, self.indexes()))
    }

    /// Converts the storage for an engine, which builds the indexes that are not built here.
    /// Everything must be settled and collected.
    pub(super) fn finish(self) -> Recovered {
        self.records.end_following();
        let indexes = Arc::unwrap_or_clone(self.indexes.into_inner());
        let is_empty = |index: &Arc<Index>| index.displaced().is_none_or(Displaced::is_empty);
        debug_assert!(
            indexes.iter().all(is_empty),
            "a key is displaced for no reader"
        );
        Recovered {
            records: self.records,
            indexes: indexes
                .into_iter()
                .filter(|index| !index.is_dropped() && index.is_built())
                .collect(),
        }
    }
}

/// What a new definition has changed of a storage's indexes.
#[derive(Debug)]
pub(super) struct Redefined {
    /// The indexes that it does not have any more.
    pub(super) dropped: Vec<IndexId>,
    /// New indexes that lack the entries of the records that there are.
    pub(super) unbuilt: Vec<Arc<Index>>,
}

/// Restores missing entries of a record, whose newest version is this row.
fn add_to(
    index: &Index,
    record: &FollowedRecord<'_>,
    (rid, newest): (Rid, Option<RowRef<'_>>),
    guard: &Guard<'_>,
) -> bool {
    let Some(displaced) = index.displaced() else {
        record.any_row(guard, |row| {
            index.add(row, rid, guard);
            false
        });
        return false;
    };
    let entries = &index.entries;
    let mut is_doubled = false;
    let newest = newest.map(|row| {
        let mut key = Vec::new();
        index.key(row, &mut key);
        is_doubled = displaced.lead_to(entries, &key, rid, guard);
        key
    });
    let mut key = Vec::new();
    record.any_row(guard, |row| {
        index.key(row, &mut key);
        if newest.as_ref() != Some(&key) {
            displaced.keep(entries, &key, rid, guard);
        }
        false
    });
    is_doubled
}

pub(super) fn collector<'a>(
    expiry: &'a Expiry<'a>,
    guard: &'a Guard<'a>,
    indexes: &'a dyn IndexUpkeep,
) -> Collector<'a> {
    Collector {
        guard,
        expiry,
        indexes,
    }
}
