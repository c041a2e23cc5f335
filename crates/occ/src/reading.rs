//! The read path: by key, by record, by range, over the records and indexes of one storage
//! at one snapshot. A leader's transactions and a follower's read by it; they differ in
//! what they keep of a read, which they learn from [`Observed`] and from the versions that
//! are passed to them.
//!
//! While its table follows, a primary index may lead to a record that does not show the
//! key in the snapshot, though another record does; [`Index::others`] has that one. A
//! reader looks there after the index, never before: `storage.rs` argues why that finds
//! every row.

use std::ops::{Bound, ControlFlow};

use coeval_env::Work;
use coeval_memory::epoch::Guard;
use coeval_storage::{Table, Version};
use coeval_txn::{Direction, ScanProgress, ScanRequest};
use coeval_types::key::successor_of_prefix;
use coeval_types::{Rid, RowRef, Timestamp, TransactionId};

use crate::ranges::interval::End;
use crate::storage::Index;

/// Keys that are read together: somewhat more than the cache misses that a core can wait
/// for at once.
const GROUP: usize = 32;

/// Most records that one read collects; it leaves the rest to the background collector.
const MAX_COLLECTED: usize = 8;

/// Half-open bounds of index entries: at or above the first, below the second.
pub(crate) struct EntryBounds {
    pub(crate) lower: End,
    pub(crate) upper: Option<End>,
}

impl EntryBounds {
    /// Converts the bounds of a request, each of which stands for every entry that begins
    /// with it; `None` when no entry can be between them.
    pub(crate) fn of(request: &ScanRequest<'_>) -> Option<Self> {
        let lower = match request.bounds.lower {
            Bound::Unbounded => End::new(),
            Bound::Included(key) => End::from_slice(key),
            Bound::Excluded(key) => successor_of_prefix(key)?,
        };
        let upper = match request.bounds.upper {
            Bound::Unbounded => None,
            Bound::Included(key) => successor_of_prefix(key),
            Bound::Excluded(key) => Some(End::from_slice(key)),
        };
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return None;
        }
        Some(Self { lower, upper })
    }

    fn upper(&self) -> Bound<&[u8]> {
        self.upper
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded)
    }

    /// The part of the bounds that a chunk which ended at `progress` has covered.
    pub(crate) fn looked_at(self, direction: Direction, progress: &ScanProgress) -> Self {
        match (direction, progress) {
            (_, ScanProgress::Complete) => self,
            (Direction::Forward, ScanProgress::More(position)) => Self {
                upper: successor_of_prefix(position),
                ..self
            },
            (Direction::Backward, ScanProgress::More(position)) => Self {
                lower: End::from_slice(position),
                ..self
            },
        }
    }
}

/// Versions and records that a read has visited.
pub(crate) struct Observed {
    /// The newest visited version that the answer discloses.
    pub(crate) newest: Timestamp,
    /// The newest version of which the answer discloses only that it is a row.
    pub(crate) newest_undisclosed: Timestamp,
    /// Whether the read visited a version of its own transaction.
    pub(crate) own: bool,
    /// The first few records with lists or tombstones.
    untidy: [Option<Rid>; MAX_COLLECTED],
    untidy_count: usize,
}

impl Observed {
    const fn nothing() -> Self {
        Self {
            newest: Timestamp::ZERO,
            newest_undisclosed: Timestamp::ZERO,
            own: false,
            untidy: [None; MAX_COLLECTED],
            untidy_count: 0,
        }
    }

    #[inline]
    fn note(&mut self, rid: Rid, version: &Version<'_>) {
        if version.is_own() {
            self.own = true;
        } else if version.cts() > self.newest {
            self.newest = version.cts();
        }
        self.note_garbage(rid, version);
    }

    #[inline]
    fn note_undisclosed(&mut self, rid: Rid, version: &Version<'_>) {
        if !version.is_own() && version.cts() > self.newest_undisclosed {
            self.newest_undisclosed = version.cts();
        }
        self.note_garbage(rid, version);
    }

    #[inline]
    fn note_garbage(&mut self, rid: Rid, version: &Version<'_>) {
        let is_untidy = version.jumps() > 0 || version.is_tombstone() && !version.is_own();
        if is_untidy && self.untidy_count < MAX_COLLECTED {
            self.untidy[self.untidy_count] = Some(rid);
            self.untidy_count += 1;
        }
    }

    /// Records that seem to have garbage.
    #[inline]
    pub(crate) fn untidy(&self) -> &[Option<Rid>] {
        &self.untidy[..self.untidy_count]
    }
}

/// A row that a read has found.
pub(crate) type Found<'guard> = (Rid, Version<'guard>, RowRef<'guard>);

/// One read of a storage's records, as one transaction sees them.
pub(crate) struct Reading<'table, 'guard> {
    pub(crate) records: &'table Table,
    pub(crate) snapshot: Timestamp,
    /// The transaction, which sees its own versions.
    pub(crate) reader: TransactionId,
    /// Whether the client learns only which rows exist, of those found by primary key.
    pub(crate) presence_only: bool,
    pub(crate) guard: &'guard Guard<'guard>,
    pub(crate) met: Observed,
}

impl<'table, 'guard> Reading<'table, 'guard> {
    #[inline]
    pub(crate) fn new(
        records: &'table Table,
        (snapshot, reader): (Timestamp, TransactionId),
        guard: &'guard Guard<'guard>,
    ) -> Self {
        Self {
            records,
            snapshot,
            reader,
            presence_only: false,
            guard,
            met: Observed::nothing(),
        }
    }

    #[inline]
    fn version(&self, rid: Rid) -> Option<Version<'guard>> {
        let record = self.records.record(rid)?;
        record.read(self.snapshot, self.reader, self.guard)
    }

    /// The row of this record, if it has the key.
    #[inline]
    fn row_with_key(&mut self, index: &Index, rid: Rid, key: &[u8]) -> Option<Found<'guard>> {
        let version = self.version(rid)?;
        let row = version.row().filter(|&row| index.has_key(row, key));
        match row {
            Some(_) if self.presence_only && index.is_primary() => {
                self.met.note_undisclosed(rid, &version);
            }
            _ => self.met.note(rid, &version),
        }
        Some((rid, version, row?))
    }

    /// The row with this key among records to which the primary index does not lead.
    #[inline]
    fn row_of_others(&mut self, index: &Index, key: &[u8]) -> Option<Found<'guard>> {
        let mut found = None;
        index.others(key, self.guard, |rid| {
            found = self.row_with_key(index, rid, key);
            match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        });
        found
    }

    /// The row with this key in a primary or unique index.
    #[inline]
    pub(crate) fn get(&mut self, index: &Index, key: &[u8]) -> Option<Found<'guard>> {
        let mut found = None;
        index.candidates(key, self.guard, |rid| {
            found = self.row_with_key(index, rid, key);
            match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        });
        found.or_else(|| self.row_of_others(index, key))
    }

    /// The rows with these keys in a primary index: passes each key's position and row to
    /// `visit`, in the order of the keys.
    pub(crate) fn get_many(
        &mut self,
        index: &Index,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<Found<'guard>>),
    ) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let mut records = [None; GROUP];
            index.entries.get_many(keys, self.guard, |at, rid| {
                let record = rid.and_then(|rid| self.records.record(rid));
                records[at] = record.inspect(|record| record.prefetch());
            });
            for record in records.iter().flatten() {
                record.prefetch_row();
            }
            for (position, (key, record)) in keys.iter().zip(records).enumerate() {
                let found = record.and_then(|record| self.row_with_key(index, record.rid(), key));
                let found = found.or_else(|| self.row_of_others(index, key));
                visit(group * GROUP + position, found);
            }
        }
    }

    /// The row of one record.
    #[inline]
    pub(crate) fn get_record(&mut self, rid: Rid) -> Option<Found<'guard>> {
        let version = self.version(rid)?;
        self.met.note(rid, &version);
        Some((rid, version, version.row()?))
    }

    /// Passes the next rows in the order of an index to `visit`.
    pub(crate) fn scan_index(
        &mut self,
        index: &Index,
        request: &ScanRequest<'_>,
        bounds: &EntryBounds,
        mut visit: impl FnMut(Found<'guard>) -> ControlFlow<()>,
    ) -> ScanProgress {
        let mut looked_at = 0;
        let mut progress = ScanProgress::Complete;
        let guard = self.guard;
        let mut visit_entry = |entry: &[u8], rid: Rid| {
            looked_at += 1;
            let (key, _) = index.split(entry, rid);
            let found = self.row_with_key(index, rid, key);
            let found = found.or_else(|| self.row_of_others(index, key));
            let flow = found.map_or(ControlFlow::Continue(()), &mut visit);
            if flow.is_break() || looked_at >= request.limit {
                progress = ScanProgress::More(entry.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let (lower, upper) = (Bound::Included(&*bounds.lower), bounds.upper());
        let entries = &index.entries;
        let _ = match request.direction {
            Direction::Forward => entries.scan_forward(lower, upper, guard, &mut visit_entry),
            Direction::Backward => entries.scan_backward(lower, upper, guard, &mut visit_entry),
        };
        coeval_env::work(Work::Row, looked_at);
        progress
    }

    /// Passes the next rows in RID order to `visit`; the keys of that order are the RIDs as
    /// big-endian bytes.
    pub(crate) fn scan_table(
        &mut self,
        request: &ScanRequest<'_>,
        bounds: &EntryBounds,
        mut visit: impl FnMut(Found<'guard>) -> ControlFlow<()>,
    ) -> ScanProgress {
        let first = first_rid(&bounds.lower).0;
        let end = bounds
            .upper
            .as_ref()
            .map_or(u64::MAX, |upper| first_rid(upper).0)
            .min(self.records.high_water().0);
        let mut progress = ScanProgress::Complete;
        let mut looked_at = 0;
        let mut visit_rid = |rid: u64| {
            if self.records.record(Rid(rid)).is_none() {
                return ControlFlow::Continue(());
            }
            looked_at += 1;
            let found = self.get_record(Rid(rid));
            let flow = found.map_or(ControlFlow::Continue(()), &mut visit);
            if flow.is_break() || looked_at >= request.limit {
                progress = ScanProgress::More(rid.to_be_bytes().to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        if first < end {
            let _ = match request.direction {
                Direction::Forward => (first..end).try_for_each(&mut visit_rid),
                Direction::Backward => (first..end).rev().try_for_each(&mut visit_rid),
            };
        }
        coeval_env::work(Work::Row, looked_at);
        progress
    }
}

/// The first RID whose bytes are at or above `bound`.
fn first_rid(bound: &[u8]) -> Rid {
    let mut bytes = [0; 8];
    let length = bound.len().min(8);
    bytes[..length].copy_from_slice(&bound[..length]);
    let rid = u64::from_be_bytes(bytes);
    Rid(if bound.len() > 8 {
        rid.saturating_add(1)
    } else {
        rid
    })
}
