//! A follower's storage: its records, and the indexes that replay maintains.

use std::sync::Arc;

use arc_swap::ArcSwap;
use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::{Collector, Expiry, FollowedRecord, IndexUpkeep, Table};
use coeval_types::{IndexDefinition, Lsn, Rid, RowRef, StorageDefinition, StorageId, planted};

use crate::Settings;
use crate::building;
use crate::storage::{Index, Indexes, Recovered, Upkeep};

/// A storage of a follower.
#[derive(Debug)]
pub(crate) struct FollowedStorage {
    id: StorageId,
    pub(super) records: Table,
    indexes: ArcSwap<Vec<Arc<Index>>>,
}

impl FollowedStorage {
    pub(super) fn new(id: StorageId, records: Table) -> Self {
        Self {
            id,
            records,
            indexes: ArcSwap::default(),
        }
    }

    pub(super) fn id(&self) -> StorageId {
        self.id
    }

    #[cfg(test)]
    pub(super) fn all_indexes(&self) -> Indexes {
        self.indexes()
    }

    fn indexes(&self) -> Indexes {
        self.indexes.load()
    }

    /// Maintains these indexes from now on and no others. New indexes are built from
    /// committed rows; the caller [adds](Self::add) the entries of rows replayed after
    /// those.
    pub(super) fn define(&self, definition: &StorageDefinition, threads: usize, domain: &Domain) {
        let there = self.indexes();
        let same = |index: &Index, definition: &IndexDefinition| {
            index.id == definition.id && index.kind == definition.kind
        };
        let indexes = definition.indexes.iter().map(|definition| {
            let kept = there.iter().find(|index| same(index, definition));
            kept.cloned().unwrap_or_else(|| {
                let limits = Settings::default().range_limits();
                let mut index = Index::followed(self.id, definition, limits, domain);
                index.entries = building::entries_of(&index, &self.records, threads, domain);
                Arc::new(index)
            })
        });
        self.indexes.store(Arc::new(indexes.collect()));
    }

    /// Restores missing index entries of a record. The tables must be at the end of a
    /// commit, and no thread may write.
    ///
    /// In a primary index a key leads to one record. Of all records that have versions
    /// with the key, the right one is the record whose newest version is a row with it;
    /// at the end of a commit there is at most one.
    pub(super) fn add(&self, rid: Rid, guard: &Guard<'_>) {
        let Some(record) = self.records.followed(rid) else {
            return;
        };
        let newest = self.newest(rid, guard);
        for index in self.indexes().iter() {
            if index.is_primary() {
                newest.inspect(|row| index.lead_to(*row, rid, guard));
            } else {
                record.any_row(guard, |row| {
                    index.add(row, rid, guard);
                    false
                });
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
                index.entries.remove(&entry, rid, guard);
            }
        }
    }

    /// Removes the expired versions of a record.
    pub(super) fn collect(&self, rid: Rid, expiry: &Expiry<'_>, guard: &Guard<'_>) {
        if let Some(record) = self.records.followed(rid) {
            let indexes = self.indexes();
            record.collect(&collector(expiry, guard, &Upkeep(&indexes)));
        }
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

    /// Converts the storage for an engine. Everything must be settled and collected.
    pub(super) fn finish(self) -> Recovered {
        self.records.end_following();
        Recovered {
            records: self.records,
            indexes: Arc::unwrap_or_clone(self.indexes.into_inner()),
        }
    }
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
