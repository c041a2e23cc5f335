//! Reads: by key, by record, by range. Each is one pinned step.
//!
//! # What a read depends on
//!
//! Every version that a read comes across in its snapshot is noted as seen, whether
//! it is shown or not: a tombstone, a row whose key is another by now and one that
//! the caller will filter out decide the answer too. What is not come across decides
//! nothing that could be lost: a record that is gone from an index went when its
//! tombstone, or the version with its next key, was durable. So a read of rows that
//! have rested for a while waits for no disk, however busy the log is.
//!
//! Of an update by primary key nobody learns more than whether the row is there
//! ([`coeval_txn::Transaction::disclose_presence_only`]). Whether it is, is decided
//! under its lock; what the read before it came across is only worked upon. The lock
//! finds the newest version, and if the version right before it was a row already,
//! then *a row with this key is there* holds whether or not the newest survives. So
//! the answer waits for the earlier one only, and a row that is updated all the time
//! is updated at the speed of memory, the commits sharing their syncs:
//!
//! ```text
//!   durable 20        row 7:  10 "x" ── 30 "y"        update by key 7: answered at
//!                                                     once; its commit comes after 30
//!                     row 8:  10 "x" ── 25 gone ── 30 "y"        waits for 30
//! ```
//!
//! The new version is the transaction's own. Who reads it learns what it was made
//! from, so that read does wait.
//!
//! # Garbage on the way
//!
//! A version that was found in a record's list shows that there is a list, and with
//! it perhaps garbage (EMS §2.3.5). It is collected once the read is over. So is a
//! tombstone: whoever takes the first row of a queue and deletes it leaves one where the
//! next one looks first, and the sweep comes by too seldom for that.

use std::ops::{Bound, ControlFlow};

use coeval_env::Work;
use coeval_memory::epoch::Guard;
use coeval_storage::{Collector, Expiry, Version};
use coeval_txn::contract::{Visit, VisitScan};
use coeval_txn::{Direction, Error, ScanProgress, ScanRequest, ScanSource};
use coeval_types::key::successor_of_prefix;
use coeval_types::{IndexId, IndexKind, Rid, StorageId, Timestamp, planted};

use super::Run;
use super::state::{Read, StorageAt};
use crate::ranges::interval::End;
use crate::ranges::map::RangeMap;
use crate::shared::Shared;
use crate::storage::{Storage, Upkeep, find};
use crate::validation::Scanner;

/// Half-open bounds of entries: at or above the first, below the second.
struct EntryBounds {
    lower: End,
    upper: Option<End>,
}

impl EntryBounds {
    /// The request's bounds, each standing for every entry that begins with it;
    /// `None` when nothing lies between them.
    fn of(request: &ScanRequest<'_>) -> Option<Self> {
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

    /// What a chunk that ended at `progress` has looked at.
    fn looked_at(self, direction: Direction, progress: &ScanProgress) -> Self {
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

/// What a read has come across.
pub(super) struct Met {
    /// The newest version.
    newest: Timestamp,
    /// Whether one of the transaction's own was among them.
    own: bool,
    /// Records with lists or tombstones, the first few.
    untidy: [Option<Rid>; MOST_COLLECTED],
    untidy_count: usize,
}

/// A read of many such records leaves the rest of them to the sweep.
const MOST_COLLECTED: usize = 8;

impl Met {
    pub(super) const fn nothing() -> Self {
        Self {
            newest: Timestamp::ZERO,
            own: false,
            untidy: [None; MOST_COLLECTED],
            untidy_count: 0,
        }
    }

    #[inline]
    pub(super) fn note(&mut self, rid: Rid, version: &Version<'_>) {
        if version.is_own() {
            self.own = true;
        } else if version.cts() > self.newest {
            self.newest = version.cts();
        }
        let is_untidy = version.jumps() > 0 || version.is_tombstone() && !version.is_own();
        if is_untidy && self.untidy_count < MOST_COLLECTED {
            self.untidy[self.untidy_count] = Some(rid);
            self.untidy_count += 1;
        }
    }
}

impl Run<'_> {
    /// Ends a read: notes what its answer depends on, and removes garbage that it
    /// came across. Fails when the snapshot was ended meanwhile: what was read may
    /// not be all there was.
    #[inline]
    pub(super) fn leave(
        &mut self,
        met: &Met,
        at: StorageAt,
        guard: &Guard<'_>,
    ) -> Result<(), Error> {
        self.check_snapshot_kept()?;
        self.state.seen(met.newest);
        if met.own {
            self.state.seen_own();
        }
        self.tidy(met, at, guard);
        Ok(())
    }

    /// The same for what the caller discloses nothing of, as far as notes go.
    #[inline]
    pub(super) fn leave_undisclosed(&mut self, met: &Met, at: StorageAt, guard: &Guard<'_>) {
        self.state.worked_upon(met.newest);
        self.tidy(met, at, guard);
    }

    #[inline]
    fn check_snapshot_kept(&self) -> Result<(), Error> {
        match &self.state.snapshot {
            Some(snapshot) if snapshot.is_ended() && !planted!(EndOldSnapshots) => {
                Err(Error::SnapshotTooOld)
            }
            _ => Ok(()),
        }
    }

    /// Removes garbage that a read came across.
    #[inline]
    fn tidy(&mut self, met: &Met, at: StorageAt, guard: &Guard<'_>) {
        if met.untidy_count > 0 {
            let table = &self.state.storages[at];
            collect_records(self.shared, table, &met.untidy, guard);
        }
    }

    /// Notes a row that was shown in the read set.
    pub(super) fn note_read(&mut self, storage: StorageAt, rid: Rid, version: &Version<'_>) {
        if self.state.is_serializable() && !version.is_own() {
            self.state.reads.push(Read {
                storage,
                rid,
                cts: version.cts(),
            });
        }
    }

    /// Notes that every key between these was looked at.
    pub(super) fn note_scan(&mut self, ranges: &RangeMap, lower: &[u8], upper: Option<&[u8]>) {
        let state = &mut *self.state;
        let scanner = Scanner {
            snapshot: state.snapshot(),
            snapshots: &self.shared.snapshots,
        };
        let validation = &self.shared.validation;
        validation.note_scan(&mut state.notes, ranges, scanner, lower, upper);
    }

    pub(super) fn get(
        &mut self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        self.check_read()?;
        let shared = self.shared;
        let at = self.state.storage(shared, storage)?;
        let table = &self.state.storages[at];
        let indexes = table.indexes();
        let index = find(&indexes, index)?;
        let (index, kind) = (&**index, index.kind);
        if kind == IndexKind::Secondary {
            return Err(Error::Unknown("primary or unique index"));
        }
        let (snapshot, id) = (self.state.snapshot(), self.state.id);
        if !index.is_usable(snapshot) {
            return Err(Error::SchemaChanged(storage));
        }
        let guard = shared.domain.pin();
        let mut found = None;
        let mut met = Met::nothing();
        index.candidates(key, &guard, |rid| {
            let version = table
                .records
                .record(rid)
                .and_then(|record| record.read(snapshot, id, &guard))
                .inspect(|version| met.note(rid, version));
            match version.map(|version| (version, version.row())) {
                Some((version, Some(row))) if index.has_key(row, key) => {
                    found = Some((rid, version, row));
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        });
        let index = index.id;
        drop(indexes);
        if found.is_some() && self.state.presence_only && kind == IndexKind::Primary {
            self.check_snapshot_kept()?;
            self.leave_undisclosed(&met, at, &guard);
        } else {
            self.leave(&met, at, &guard)?;
        }
        let Some((rid, version, row)) = found else {
            if self.state.is_serializable() {
                let table = std::sync::Arc::clone(&self.state.storages[at]);
                let indexes = table.indexes();
                let upper = successor_of_prefix::<End>(key);
                self.note_scan(&find(&indexes, index)?.ranges, key, upper.as_deref());
            }
            return Ok(false);
        };
        self.note_read(at, rid, &version);
        visit(rid, row);
        Ok(true)
    }

    pub(super) fn get_record(
        &mut self,
        storage: StorageId,
        rid: Rid,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        self.check_read()?;
        let at = self.state.storage(self.shared, storage)?;
        let table = std::sync::Arc::clone(&self.state.storages[at]);
        let (snapshot, id) = (self.state.snapshot(), self.state.id);
        let guard = self.shared.domain.pin();
        let mut met = Met::nothing();
        let version = table
            .records
            .record(rid)
            .and_then(|record| record.read(snapshot, id, &guard))
            .inspect(|version| met.note(rid, version));
        self.leave(&met, at, &guard)?;
        // A record that this transaction has found and does not find any more is
        // one that it deleted, or at READ COMMITTED another did: nothing to note.
        let Some((version, row)) = version.and_then(|version| Some((version, version.row()?)))
        else {
            return Ok(false);
        };
        self.note_read(at, rid, &version);
        visit(rid, row);
        Ok(true)
    }

    pub(super) fn scan(
        &mut self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        self.check_read()?;
        let at = self.state.storage(self.shared, request.storage)?;
        let Some(bounds) = EntryBounds::of(request) else {
            return Ok(ScanProgress::Complete);
        };
        match request.source {
            ScanSource::Index(index) => self.scan_index(at, index, request, bounds, visit),
            ScanSource::Table => self.scan_table(at, request, bounds, visit),
        }
    }

    fn scan_index(
        &mut self,
        at: StorageAt,
        index: IndexId,
        request: &ScanRequest<'_>,
        bounds: EntryBounds,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        let table = std::sync::Arc::clone(&self.state.storages[at]);
        let indexes = table.indexes();
        let index = find(&indexes, index)?;
        let (snapshot, id) = (self.state.snapshot(), self.state.id);
        if !index.is_usable(snapshot) {
            return Err(Error::SchemaChanged(request.storage));
        }
        // A scan of rows in their own order is protected by its note alone.
        let reads_again = !index.orders_rows || self.shared.validation.reads_rows_again();
        let guard = self.shared.domain.pin();
        let mut looked_at = 0;
        let mut progress = ScanProgress::Complete;
        let mut met = Met::nothing();
        let mut visit_entry = |entry: &[u8], rid: Rid| {
            looked_at += 1;
            let version = table
                .records
                .record(rid)
                .and_then(|record| record.read(snapshot, id, &guard))
                .inspect(|version| met.note(rid, version));
            let mut flow = ControlFlow::Continue(());
            if let Some(version) = version
                && let Some(row) = version.row()
                && index.has_key(row, index.split(entry, rid).0)
            {
                if reads_again {
                    self.note_read(at, rid, &version);
                }
                flow = visit(rid, row);
            }
            if flow.is_break() || looked_at >= request.limit {
                progress = ScanProgress::More(entry.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let lower = Bound::Included(&*bounds.lower);
        let _ = match request.direction {
            Direction::Forward => {
                index
                    .entries
                    .scan_forward(lower, bounds.upper(), &guard, &mut visit_entry)
            }
            Direction::Backward => {
                index
                    .entries
                    .scan_backward(lower, bounds.upper(), &guard, &mut visit_entry)
            }
        };
        coeval_env::work(Work::Row, looked_at);
        self.leave(&met, at, &guard)?;
        if self.state.is_serializable() {
            let looked_at = bounds.looked_at(request.direction, &progress);
            let upper = looked_at.upper.as_deref();
            self.note_scan(&index.ranges, &looked_at.lower, upper);
        }
        Ok(progress)
    }

    /// A table is scanned in the order of its RIDs, whose big-endian bytes are the
    /// keys of that order.
    fn scan_table(
        &mut self,
        at: StorageAt,
        request: &ScanRequest<'_>,
        bounds: EntryBounds,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        let table = std::sync::Arc::clone(&self.state.storages[at]);
        let (snapshot, id) = (self.state.snapshot(), self.state.id);
        let reads_again = self.shared.validation.reads_rows_again();
        let guard = self.shared.domain.pin();
        let first = first_rid(&bounds.lower).0;
        let end = bounds
            .upper
            .as_ref()
            .map_or(u64::MAX, |upper| first_rid(upper).0)
            .min(table.records.high_water().0);
        let mut progress = ScanProgress::Complete;
        let mut looked_at = 0;
        let mut met = Met::nothing();
        let mut visit_rid = |rid: u64| {
            let Some(record) = table.records.record(Rid(rid)) else {
                return ControlFlow::Continue(());
            };
            looked_at += 1;
            let mut flow = ControlFlow::Continue(());
            let version = record.read(snapshot, id, &guard);
            if let Some(version) = version {
                met.note(Rid(rid), &version);
                if let Some(row) = version.row() {
                    if reads_again {
                        self.note_read(at, Rid(rid), &version);
                    }
                    flow = visit(Rid(rid), row);
                }
            }
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
        self.leave(&met, at, &guard)?;
        if self.state.is_serializable() {
            if let Some(ranges) = table.rows_by_rid() {
                let looked_at = bounds.looked_at(request.direction, &progress);
                let upper = looked_at.upper.as_deref();
                self.note_scan(ranges, &looked_at.lower, upper);
            } else if let Some(index) = table.indexes().iter().find(|index| index.orders_rows) {
                // Rows are ordered by another key than they are scanned by.
                self.note_scan(&index.ranges, b"", None);
            }
        }
        Ok(progress)
    }
}

/// Removes what has expired in records that a read came across.
#[cold]
fn collect_records(shared: &Shared, table: &Storage, rids: &[Option<Rid>], guard: &Guard<'_>) {
    let expiry = Expiry::new(shared.horizon(), &shared.snapshots);
    let indexes = table.indexes();
    let collector = Collector {
        guard,
        expiry: &expiry,
        indexes: &Upkeep(&indexes),
    };
    for rid in rids.iter().flatten() {
        if let Some(record) = table.records.record(*rid) {
            record.collect(&collector);
        }
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
