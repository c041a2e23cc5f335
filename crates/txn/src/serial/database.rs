//! The serial engine's data structures: rows by record, index entries by key, and undo
//! steps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use coeval_types::key::successor_of_prefix;
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, Rid, RowRef, StorageDefinition, StorageId,
};

use crate::contract::{ScanProgress, ScanRequest, ScanSource, VisitScan};
use crate::{Direction, Error, IndexBuild};

const RID_BYTES: usize = 8;

/// Memory of a row beside its bytes: its place in the map, and its allocation.
const ROW_BYTES: u64 = 48;
/// Memory of an index entry beside its bytes.
const ENTRY_BYTES: u64 = 48;
/// Memory of an undo step, and of the row lock that goes with it, beside the row's bytes.
const UNDO_BYTES: u64 = 128;

type EntryBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// One index: each entry is a key followed by its row's RID, big-endian.
#[derive(Debug)]
struct Index {
    definition: IndexDefinition,
    entries: BTreeSet<Vec<u8>>,
    /// Whether the running transaction has dropped the index: then it enforces nothing, and
    /// the commit removes it.
    dropped: bool,
}

/// The RID at the end of an index entry.
fn rid_of(entry: &[u8]) -> Rid {
    let at = entry.len() - RID_BYTES;
    Rid(u64::from_be_bytes(
        entry[at..].try_into().expect("eight bytes"),
    ))
}

impl Index {
    fn new(definition: IndexDefinition) -> Self {
        Self {
            definition,
            entries: BTreeSet::new(),
            dropped: false,
        }
    }

    /// The index entry of a row, and whether its key is subject to the uniqueness check.
    fn entry(&self, rid: Rid, row: RowRef<'_>) -> (Vec<u8>, bool) {
        let mut entry = Vec::new();
        let extracted = self.definition.extractor.extract(row, &mut entry);
        let comparable = match self.definition.kind {
            IndexKind::Primary => true,
            IndexKind::Unique => extracted == ExtractedKey::Comparable,
            IndexKind::Secondary => false,
        };
        entry.extend_from_slice(&rid.0.to_be_bytes());
        (entry, comparable)
    }

    /// Adds a row's entry. Returns the memory that it takes, in bytes.
    fn add(&mut self, rid: Rid, row: RowRef<'_>) -> u64 {
        let (entry, _) = self.entry(rid, row);
        let bytes = ENTRY_BYTES + entry.len() as u64;
        self.entries.insert(entry);
        bytes
    }

    /// Removes a row's entry. Returns the memory that it took, in bytes.
    fn remove(&mut self, rid: Rid, row: RowRef<'_>) -> u64 {
        let (entry, _) = self.entry(rid, row);
        self.entries.remove(&entry);
        ENTRY_BYTES + entry.len() as u64
    }

    /// Memory of all entries, in bytes.
    fn bytes(&self) -> u64 {
        let entries = self.entries.iter();
        entries.map(|entry| ENTRY_BYTES + entry.len() as u64).sum()
    }

    /// The first row with exactly this key.
    fn find(&self, key: &[u8]) -> Option<Rid> {
        self.entries
            .range::<[u8], _>((Bound::Included(key), Bound::Unbounded))
            .take_while(|entry| entry.starts_with(key))
            .find(|entry| entry.len() == key.len() + RID_BYTES)
            .map(|entry| rid_of(entry))
    }

    /// A row other than `rid` whose key conflicts with that of `row`, if the index is
    /// unique.
    fn duplicate(&self, rid: Rid, row: RowRef<'_>) -> Option<Rid> {
        if self.dropped {
            return None;
        }
        let (entry, comparable) = self.entry(rid, row);
        let key = &entry[..entry.len() - RID_BYTES];
        let other = self.find(key).filter(|&other| other != rid);
        if comparable { other } else { None }
    }
}

/// One storage: its live rows, and its indexes.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) schema_version: u64,
    rows: BTreeMap<Rid, Box<[u8]>>,
    next_rid: u64,
    indexes: Vec<Index>,
    /// Memory of the rows and the index entries, in bytes, approximately.
    bytes: u64,
}

impl Storage {
    pub(super) fn new(definition: StorageDefinition) -> Self {
        Self {
            schema_version: definition.schema_version,
            rows: BTreeMap::new(),
            next_rid: 1,
            indexes: definition.indexes.into_iter().map(Index::new).collect(),
            bytes: 0,
        }
    }

    /// Removes every row.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        for index in &mut self.indexes {
            index.entries.clear();
        }
        self.bytes = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, rid: Rid) -> Option<RowRef<'_>> {
        self.rows.get(&rid).map(|bytes| RowRef::trusted(bytes))
    }

    pub(super) fn new_rid(&mut self) -> Rid {
        let rid = Rid(self.next_rid);
        self.next_rid += 1;
        rid
    }

    fn index(&self, id: IndexId) -> Result<&Index, Error> {
        self.indexes
            .iter()
            .find(|index| index.definition.id == id)
            .ok_or(Error::Unknown("index"))
    }

    pub(super) fn find(&self, index: IndexId, key: &[u8]) -> Result<Option<Rid>, Error> {
        let index = self.index(index)?;
        if index.definition.kind == IndexKind::Secondary {
            return Err(Error::Unknown("primary or unique index"));
        }
        Ok(index.find(key))
    }

    /// The unique index and the existing row that prevent `row` from being stored at `rid`.
    pub(super) fn duplicate(&self, rid: Rid, row: RowRef<'_>) -> Option<(IndexId, Rid)> {
        self.indexes.iter().find_map(|index| {
            let other = index.duplicate(rid, row)?;
            Some((index.definition.id, other))
        })
    }

    /// Whether two versions of a row differ in the primary key.
    pub(super) fn changes_primary_key(&self, older: RowRef<'_>, newer: RowRef<'_>) -> bool {
        self.indexes
            .iter()
            .filter(|index| index.definition.kind == IndexKind::Primary)
            .any(|index| index.entry(Rid(0), older).0 != index.entry(Rid(0), newer).0)
    }

    /// Stores `row` at `rid`, or removes the row there, and returns the old row. The only
    /// function that changes rows and entries, so that they always agree.
    pub(super) fn put(&mut self, rid: Rid, row: Option<Box<[u8]>>) -> Option<Box<[u8]>> {
        let older = self.rows.remove(&rid);
        let (mut taken, mut freed) = (0, 0);
        for index in &mut self.indexes {
            if let Some(older) = &older {
                freed += index.remove(rid, RowRef::trusted(older));
            }
            if let Some(row) = &row {
                taken += index.add(rid, RowRef::trusted(row));
            }
        }
        freed += older.as_deref().map_or(0, bytes_of_row);
        if let Some(row) = row {
            taken += bytes_of_row(&row);
            self.rows.insert(rid, row);
        }
        self.bytes = (self.bytes + taken).saturating_sub(freed);
        older
    }

    pub(super) fn build_index(
        &mut self,
        definition: &IndexDefinition,
    ) -> Result<IndexBuild, Error> {
        if self.index(definition.id).is_ok() {
            return Err(Error::Unknown("unused index number"));
        }
        let mut index = Index::new(definition.clone());
        let mut bytes = 0;
        for (&rid, row) in &self.rows {
            let row = RowRef::trusted(row);
            if let Some(other) = index.duplicate(rid, row) {
                return Ok(IndexBuild::Duplicate(other, rid));
            }
            bytes += index.add(rid, row);
        }
        self.bytes += bytes;
        self.indexes.push(index);
        Ok(IndexBuild::Built)
    }

    /// Marks an index as dropped, or reverts that.
    pub(super) fn set_dropped(&mut self, id: IndexId, dropped: bool) -> Result<(), Error> {
        let index = self
            .indexes
            .iter_mut()
            .find(|index| index.definition.id == id && index.dropped != dropped)
            .filter(|index| index.definition.kind != IndexKind::Primary)
            .ok_or(Error::Unknown("unique or secondary index"))?;
        index.dropped = dropped;
        Ok(())
    }

    fn forget_index(&mut self, id: IndexId) {
        self.keep_indexes(|index| index.definition.id != id);
    }

    fn forget_dropped(&mut self) {
        self.keep_indexes(|index| !index.dropped);
    }

    fn keep_indexes(&mut self, keep: impl Fn(&Index) -> bool) {
        let gone = self.indexes.iter().filter(|index| !keep(index));
        let freed: u64 = gone.map(Index::bytes).sum();
        self.bytes = self.bytes.saturating_sub(freed);
        self.indexes.retain(keep);
    }

    /// Visits one chunk of a scan. A table is scanned in RID order; the big-endian bytes of
    /// the RIDs are the keys of that order.
    pub(super) fn scan(
        &self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        let Some(bounds) = entry_bounds(request) else {
            return Ok(ScanProgress::Complete);
        };
        match request.source {
            ScanSource::Index(id) => {
                let entries = self
                    .index(id)?
                    .entries
                    .range::<Vec<u8>, _>(bounds)
                    .map(|entry| (entry.clone(), rid_of(entry)));
                Ok(self.walk(request, entries, visit))
            }
            ScanSource::Table => {
                let Some(rids) = rid_bounds(&bounds) else {
                    return Ok(ScanProgress::Complete);
                };
                let entries = self
                    .rows
                    .range(rids)
                    .map(|(rid, _)| (rid.0.to_be_bytes().to_vec(), *rid));
                Ok(self.walk(request, entries, visit))
            }
        }
    }

    fn walk(
        &self,
        request: &ScanRequest<'_>,
        entries: impl DoubleEndedIterator<Item = (Vec<u8>, Rid)>,
        visit: &mut VisitScan<'_>,
    ) -> ScanProgress {
        let mut entries = entries;
        let mut looked_at = 0;
        loop {
            let next = match request.direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some((entry, rid)) = next else {
                return ScanProgress::Complete;
            };
            looked_at += 1;
            let row = self.row(rid).expect("every entry has its row");
            if visit(rid, row) == ControlFlow::Break(()) || looked_at >= request.limit {
                return ScanProgress::More(entry);
            }
        }
    }
}

/// Converts the request's bounds into bounds of whole entries; `None` when the range is
/// empty.
///
/// A bound covers every entry that has it as a prefix: an excluded lower bound excludes all
/// of them, an included upper bound includes all of them.
fn entry_bounds(request: &ScanRequest<'_>) -> Option<EntryBounds> {
    let lower = match request.bounds.lower {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => successor_of_prefix(key)?,
    };
    let upper = match request.bounds.upper {
        Bound::Unbounded => None,
        Bound::Included(key) => successor_of_prefix(key),
        Bound::Excluded(key) => Some(key.to_vec()),
    };
    match upper {
        Some(upper) if upper <= lower => None,
        Some(upper) => Some((Bound::Included(lower), Bound::Excluded(upper))),
        None => Some((Bound::Included(lower), Bound::Unbounded)),
    }
}

/// The RIDs whose big-endian bytes are within the bounds of whole entries; `None` if there
/// are none.
fn rid_bounds((lower, upper): &EntryBounds) -> Option<(Bound<Rid>, Bound<Rid>)> {
    // The first RID whose bytes are not below these.
    let first = |bytes: &[u8]| {
        let mut padded = [0; RID_BYTES];
        let length = bytes.len().min(RID_BYTES);
        padded[..length].copy_from_slice(&bytes[..length]);
        u128::from(u64::from_be_bytes(padded)) + u128::from(bytes.len() > RID_BYTES)
    };
    let end = u128::from(u64::MAX) + 1;
    let lower = match lower {
        Bound::Included(bytes) | Bound::Excluded(bytes) => first(bytes),
        Bound::Unbounded => 0,
    };
    let upper = match upper {
        Bound::Included(bytes) | Bound::Excluded(bytes) => first(bytes),
        Bound::Unbounded => end,
    };
    if lower >= upper {
        return None;
    }
    let upper = match u64::try_from(upper) {
        Ok(upper) => Bound::Excluded(Rid(upper)),
        Err(_) => Bound::Unbounded,
    };
    Some((Bound::Included(Rid(lower as u64)), upper))
}

fn bytes_of_row(row: &[u8]) -> u64 {
    ROW_BYTES + row.len() as u64
}

/// Undo record: how to revert one step of a transaction.
#[derive(Debug)]
pub(super) enum Undo {
    /// Store this row, or none, at this record.
    Row {
        storage: StorageId,
        rid: Rid,
        older: Option<Box<[u8]>>,
    },
    /// Reset the storage to this schema version.
    SchemaVersion { storage: StorageId, older: u64 },
    /// Remove this index.
    IndexBuilt { storage: StorageId, index: IndexId },
    /// Make this index enforce uniqueness again.
    IndexDropped { storage: StorageId, index: IndexId },
}

impl Undo {
    /// Memory that the step takes, in bytes, approximately.
    pub(super) fn bytes(&self) -> u64 {
        let older = match self {
            Self::Row { older, .. } => older.as_deref().map_or(0, <[u8]>::len),
            Self::SchemaVersion { .. } | Self::IndexBuilt { .. } | Self::IndexDropped { .. } => 0,
        };
        UNDO_BYTES + older as u64
    }
}

/// The whole state of the serial engine.
#[derive(Debug, Default)]
pub(super) struct Database {
    pub(super) storages: BTreeMap<StorageId, Storage>,
    /// Memory of the running transaction's undo log, in bytes.
    pub(super) undo_bytes: u64,
    /// Number of commits that wrote something; also the timestamp of the latest one.
    pub(super) commits: u64,
}

impl Database {
    pub(super) fn storage(&self, id: StorageId) -> Result<&Storage, Error> {
        self.storages.get(&id).ok_or(Error::Unknown("storage"))
    }

    pub(super) fn storage_mut(&mut self, id: StorageId) -> Result<&mut Storage, Error> {
        self.storages.get_mut(&id).ok_or(Error::Unknown("storage"))
    }

    /// Memory of all rows, index entries and undo steps, in bytes, approximately.
    pub(super) fn bytes(&self) -> u64 {
        let storages = self.storages.values();
        self.undo_bytes + storages.map(|storage| storage.bytes).sum::<u64>()
    }

    /// Reverts one step. Does nothing for a storage that was dropped since.
    pub(super) fn undo(&mut self, step: Undo) {
        match step {
            Undo::Row {
                storage,
                rid,
                older,
            } => {
                if let Some(storage) = self.storages.get_mut(&storage) {
                    storage.put(rid, older);
                }
            }
            Undo::SchemaVersion { storage, older } => {
                if let Some(storage) = self.storages.get_mut(&storage) {
                    storage.schema_version = older;
                }
            }
            Undo::IndexBuilt { storage, index } => {
                if let Some(storage) = self.storages.get_mut(&storage) {
                    storage.forget_index(index);
                }
            }
            Undo::IndexDropped { storage, index } => {
                if let Some(storage) = self.storages.get_mut(&storage) {
                    storage
                        .set_dropped(index, false)
                        .expect("an index stays until the commit");
                }
            }
        }
    }

    /// Removes the indexes that the now committed steps have dropped.
    pub(super) fn forget_dropped(&mut self, steps: &[Undo]) {
        for step in steps {
            if let Undo::IndexDropped { storage, .. } = step
                && let Some(storage) = self.storages.get_mut(storage)
            {
                storage.forget_dropped();
            }
        }
    }
}
