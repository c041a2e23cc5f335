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

use std::sync::Arc;

use coeval_memory::epoch::Guard;
use coeval_storage::{Collector, Expiry, Version};
use coeval_txn::contract::{Visit, VisitScan};
use coeval_txn::{Error, ScanProgress, ScanRequest, ScanSource};
use coeval_types::key::successor_of_prefix;
use coeval_types::{IndexId, IndexKind, Rid, StorageId, planted};

use super::TransactionContext;
use super::state::{Read, StorageAt};
use crate::ranges::interval::End;
use crate::ranges::map::RangeMap;
use crate::reading::{EntryBounds, Observed, Reading};
use crate::shared::Shared;
use crate::storage::{Storage, Upkeep, find};
use crate::validation::Scanner;

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
        self.state.worked_upon(met.newest_undisclosed);
        self.tidy(met, at, guard);
        Ok(())
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
        if !met.untidy().is_empty() {
            let table = &self.state.storages[at];
            collect_records(self.shared, table, met.untidy(), guard);
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
        if index.kind == IndexKind::Secondary {
            return Err(Error::Unknown("primary or unique index"));
        }
        let (snapshot, id) = (self.state.snapshot(), self.state.id);
        if !index.is_usable(snapshot) {
            return Err(Error::SchemaChanged(storage));
        }
        let guard = shared.domain.pin();
        let mut reading = Reading::new(&table.records, (snapshot, id), &guard);
        reading.presence_only = self.state.presence_only;
        let found = reading.get(index, key);
        let (met, index) = (reading.met, index.id);
        drop(indexes);
        self.leave(&met, at, &guard)?;
        let Some((rid, version, row)) = found else {
            if self.state.is_serializable() {
                let table = Arc::clone(&self.state.storages[at]);
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
        let table = Arc::clone(&self.state.storages[at]);
        let guard = self.shared.domain.pin();
        let seen_by = (self.state.snapshot(), self.state.id);
        let mut reading = Reading::new(&table.records, seen_by, &guard);
        let found = reading.get_record(rid);
        self.leave(&reading.met, at, &guard)?;
        // A record that this transaction has found before and does not find now was
        // deleted by itself, or at READ COMMITTED by another transaction: there is
        // nothing to note.
        let Some((rid, version, row)) = found else {
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
        let table = Arc::clone(&self.state.storages[at]);
        let indexes = table.indexes();
        let index = find(&indexes, index)?;
        let snapshot = self.state.snapshot();
        if !index.is_usable(snapshot) {
            return Err(Error::SchemaChanged(request.storage));
        }
        // A predicate alone protects a scan of an index that orders the rows.
        let reads_again = !index.orders_rows || self.shared.validation.reads_rows_again();
        let guard = self.shared.domain.pin();
        let mut reading = Reading::new(&table.records, (snapshot, self.state.id), &guard);
        let progress = reading.scan_index(index, request, &bounds, |(rid, version, row)| {
            if reads_again {
                self.note_read(at, rid, &version);
            }
            visit(rid, row)
        });
        self.leave(&reading.met, at, &guard)?;
        if self.state.is_serializable() {
            let looked_at = bounds.looked_at(request.direction, &progress);
            let upper = looked_at.upper.as_deref();
            self.note_scan(&index.ranges, &looked_at.lower, upper);
        }
        Ok(progress)
    }

    fn scan_table(
        &mut self,
        at: StorageAt,
        request: &ScanRequest<'_>,
        bounds: EntryBounds,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        let table = Arc::clone(&self.state.storages[at]);
        let reads_again = self.shared.validation.reads_rows_again();
        let guard = self.shared.domain.pin();
        let seen_by = (self.state.snapshot(), self.state.id);
        let mut reading = Reading::new(&table.records, seen_by, &guard);
        let progress = reading.scan_table(request, &bounds, |(rid, version, row)| {
            if reads_again {
                self.note_read(at, rid, &version);
            }
            visit(rid, row)
        });
        self.leave(&reading.met, at, &guard)?;
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
