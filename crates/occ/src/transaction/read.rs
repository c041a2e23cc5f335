//! Reads: by key, by record, by range. Each read is one pinned step.
//!
//! # What a read depends on
//!
//! A transaction notes every version that a read visits in its snapshot as seen, whether
//! the read returns it or not: a tombstone, a row whose key has changed, and a row that
//! the caller will filter out all affect the answer. A version that the read does not
//! visit cannot affect it and be lost: an index entry is removed only when the tombstone
//! of its record, or the version with the next key, is durable. So a read of rows without
//! recent writes waits for no disk, however busy the log is.
//!
//! The client of an update by primary key learns only whether the row exists
//! ([`coeval_txn::Transaction::disclose_presence_only`]). That is decided under the row's
//! lock; the version that the preceding read visited is only worked upon, not disclosed.
//! The lock holder finds the newest version, and if the version right before it was a row
//! already, then *a row with this key exists* holds whether or not the newest survives a
//! crash. So the answer waits for the earlier version only, and a hot row is updated at
//! the speed of memory, its commits sharing their syncs:
//!
//! ```text
//!   durable 20        row 7:  10 "x" ── 30 "y"        update by key 7: answered at
//!                                                     once; its commit comes after 30
//!                     row 8:  10 "x" ── 25 gone ── 30 "y"        waits for 30
//! ```
//!
//! The new version is the transaction's own. A client that reads it learns the version it
//! was made from, so that read does wait.
//!
//! # Garbage collection by reads
//!
//! A read that found its version in a record's list knows that there is a list, and with
//! it possibly garbage (EMS §2.3.5). The transaction collects it once the read is over.
//! The same holds for a tombstone: a consumer that deletes the first row of a queue
//! leaves a tombstone where the next consumer looks first, and the background garbage
//! collector is too slow for that.

use std::ops::{Bound, ControlFlow};

use coeval_env::Work;
use coeval_memory::epoch::Guard;
use coeval_storage::{Collector, Expiry, Version};
use coeval_txn::contract::{Visit, VisitScan};
use coeval_txn::{Direction, Error, ScanProgress, ScanRequest, ScanSource};
use coeval_types::key::successor_of_prefix;
use coeval_types::{IndexId, IndexKind, Rid, StorageId, Timestamp, planted};

use super::TransactionContext;
use super::state::{Read, StorageAt};
use crate::ranges::interval::End;
use crate::ranges::map::RangeMap;
use crate::shared::Shared;
use crate::storage::{Storage, Upkeep, find};
use crate::validation::Scanner;

/// Half-open bounds of index entries: at or above the first, below the second.
struct EntryBounds {
    lower: End,
    upper: Option<End>,
}

impl EntryBounds {
    /// Converts the bounds of a request, each of which stands for every entry that begins
    /// with it; `None` when no entry can be between them.
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

    /// The part of the bounds that a chunk which ended at `progress` has covered.
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

/// Versions and records that a read has visited.
pub(super) struct Observed {
    /// The newest visited version.
    newest: Timestamp,
    /// Whether the read visited a version of its own transaction.
    own: bool,
    /// The first few records with lists or tombstones.
    untidy: [Option<Rid>; MAX_COLLECTED],
    untidy_count: usize,
}

/// Most records that one read collects; it leaves the rest to the background collector.
const MAX_COLLECTED: usize = 8;

impl Observed {
    pub(super) const fn nothing() -> Self {
        Self {
            newest: Timestamp::ZERO,
            own: false,
            untidy: [None; MAX_COLLECTED],
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
        if is_untidy && self.untidy_count < MAX_COLLECTED {
            self.untidy[self.untidy_count] = Some(rid);
            self.untidy_count += 1;
        }
    }
}

impl TransactionContext<'_> {
    /// Ends a read: notes the versions that its answer depends on, and collects garbage
    /// that it has passed. Fails when the snapshot was ended meanwhile: versions that
    /// belong to it may have been missing.
    #[inline]
    pub(super) fn leave(
        &mut self,
        met: &Observed,
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

    /// As [`Self::leave`], for a read of which the client learns nothing: notes versions
    /// as worked upon, not as seen.
    #[inline]
    pub(super) fn leave_undisclosed(&mut self, met: &Observed, at: StorageAt, guard: &Guard<'_>) {
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

    /// Collects garbage that a read has passed.
    #[inline]
    fn tidy(&mut self, met: &Observed, at: StorageAt, guard: &Guard<'_>) {
        if met.untidy_count > 0 {
            let table = &self.state.storages[at];
            collect_records(self.shared, table, &met.untidy, guard);
        }
    }

    /// Notes a returned row in the read set.
    pub(super) fn note_read(&mut self, storage: StorageAt, rid: Rid, version: &Version<'_>) {
        if self.state.is_serializable() && !version.is_own() {
            self.state.reads.push(Read {
                storage,
                rid,
                cts: version.cts(),
            });
        }
    }

    /// Notes that a scan covered every key between these bounds.
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
        let mut met = Observed::nothing();
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
        let mut met = Observed::nothing();
        let version = table
            .records
            .record(rid)
            .and_then(|record| record.read(snapshot, id, &guard))
            .inspect(|version| met.note(rid, version));
        self.leave(&met, at, &guard)?;
        // A record that this transaction has found before and does not find now was
        // deleted by itself, or at READ COMMITTED by another transaction: there is
        // nothing to note.
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
        // A predicate alone protects a scan of an index that orders the rows.
        let reads_again = !index.orders_rows || self.shared.validation.reads_rows_again();
        let guard = self.shared.domain.pin();
        let mut looked_at = 0;
        let mut progress = ScanProgress::Complete;
        let mut met = Observed::nothing();
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

    /// Scans a table in RID order; the keys of that order are the RIDs as big-endian
    /// bytes.
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
        let mut met = Observed::nothing();
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
                // The range map that orders the rows has another order than the scan.
                self.note_scan(&index.ranges, b"", None);
            }
        }
        Ok(progress)
    }
}

/// Collects expired versions in records that a read has passed.
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
