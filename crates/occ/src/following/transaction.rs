//! A read-only transaction over followed tables.
//!
//! | level | snapshot |
//! | --- | --- |
//! | READ COMMITTED | one a statement |
//! | snapshot isolation, SERIALIZABLE | one |
//!
//! A read-only transaction at one snapshot is serializable here because the leader's engine
//! orders transactions by their commit timestamps, which is the order of the log: the
//! snapshot is the state after a prefix of that order.
//!
//! Readers take no table locks. A plan is made for a schema version, and each storage knows
//! which version its definition had at which commit ([`FollowedStorage::has_schema`]); so a
//! plan that fits the snapshot stays right for as long as the snapshot lives, whatever DDL
//! is replayed beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use coeval_env::Work;
use coeval_memory::epoch::Guard;
use coeval_txn::contract::{Visit, VisitScan};
use coeval_txn::{
    BeginOptions, Error, IndexBuild, Insert, Isolation, KeptSnapshot, LockWait, LockedRow, Outcome,
    Savepoint, ScanProgress, ScanRequest, ScanSource, TableLock, Transaction, Update,
};
use coeval_types::{
    IndexDefinition, IndexId, IndexKind, Rid, RowLock, RowRef, StorageId, Timestamp, TransactionId,
};

use super::reader::Reader;
use super::storage::FollowedStorage;
use super::tables::NOBODY;
use crate::AbortCause;
use crate::reading::{EntryBounds, Reading};
use crate::storage::{Index, find};

/// A read-only transaction of a follower's engine.
#[derive(Debug)]
pub(super) struct FollowerTransaction {
    id: TransactionId,
    isolation: Isolation,
    cancel: Option<Arc<AtomicBool>>,
    /// `None` once the transaction has ended.
    reader: Option<Reader>,
    /// The snapshot, also after the end.
    snapshot: Timestamp,
    newest_seen: Timestamp,
    savepoints: u32,
    /// The cause that an abort is counted under.
    failure: AbortCause,
}

impl FollowerTransaction {
    pub(super) fn begin(id: TransactionId, reader: Reader, options: &BeginOptions) -> Self {
        coeval_env::work(Work::Transaction, 1);
        Self {
            id,
            isolation: options.isolation,
            cancel: options.cancel.clone(),
            snapshot: reader.timestamp(),
            reader: Some(reader),
            newest_seen: Timestamp::ZERO,
            savepoints: 0,
            failure: AbortCause::Rollback,
        }
    }

    /// Remembers a failure as the cause of the abort that may follow.
    fn noting<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.failure = AbortCause::of(error);
        }
        result
    }

    fn check(&self) -> Result<(), Error> {
        if self.reader.is_none() {
            return Err(Error::Unknown("running transaction"));
        }
        let cancel = self.cancel.as_ref();
        match cancel.is_some_and(|flag| flag.load(Ordering::Acquire)) {
            true => Err(Error::Canceled),
            false => Ok(()),
        }
    }

    /// Refuses a write.
    fn refuse<T>(&self) -> Result<T, Error> {
        self.check()?;
        Err(Error::ReadOnly)
    }

    /// Takes a new snapshot.
    fn refresh(&mut self) -> Result<(), Error> {
        self.check()?;
        if let Some(reader) = &mut self.reader {
            reader.refresh()?;
            self.snapshot = reader.timestamp();
        }
        Ok(())
    }

    /// Reads a storage in one step.
    fn read<R>(
        &mut self,
        storage: StorageId,
        read: impl FnOnce(&FollowedStorage, &mut Reading<'_, '_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let checked = self.check();
        self.noting(checked)?;
        let reader = self.reader.as_ref().expect("it is running");
        let read = reader.step(storage, |storage, snapshot, guard: &Guard<'_>| {
            let mut reading = Reading::new(&storage.records, (snapshot, NOBODY), guard);
            let result = read(storage, &mut reading)?;
            Ok((result, reading.met.newest))
        });
        let (result, newest) = self.noting(read)?;
        self.newest_seen = self.newest_seen.max(newest);
        Ok(result)
    }
}

/// The index, if the snapshot may use it. A plan does without an index that is being built, so
/// one that uses it was made for another definition, or by mistake.
fn usable<'a>(
    indexes: &'a [Arc<Index>],
    id: IndexId,
    storage: &FollowedStorage,
    snapshot: Timestamp,
) -> Result<&'a Index, Error> {
    let index = find(indexes, id)?;
    match index.is_usable(snapshot) && index.is_built() {
        true => Ok(index),
        false => Err(Error::SchemaChanged(storage.id())),
    }
}

impl Transaction for FollowerTransaction {
    fn id(&self) -> TransactionId {
        self.id
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn snapshot(&self) -> Timestamp {
        self.snapshot
    }

    fn newest_seen(&self) -> Timestamp {
        self.newest_seen
    }

    fn set_lock_timeout(&mut self, _: Option<Duration>) {}

    fn begin_statement(&mut self) -> Result<(), Error> {
        match self.isolation {
            Isolation::ReadCommitted => self.refresh(),
            Isolation::SnapshotIsolation | Isolation::Serializable => self.check(),
        }
    }

    fn renew_snapshot(&mut self) -> Result<(), Error> {
        self.refresh()
    }

    fn keep_snapshot(&mut self) -> KeptSnapshot {
        match &self.reader {
            Some(reader) if self.isolation == Isolation::ReadCommitted => {
                let next = Reader::new(Arc::clone(&reader.followed));
                self.snapshot = next.timestamp();
                KeptSnapshot(Box::new(self.reader.replace(next)))
            }
            _ => KeptSnapshot(Box::new(None::<Reader>)),
        }
    }

    fn resume_snapshot(&mut self, kept: KeptSnapshot) -> Result<(), Error> {
        self.check()?;
        if self.isolation == Isolation::ReadCommitted {
            let kept = kept
                .0
                .downcast::<Option<Reader>>()
                .ok()
                .and_then(|kept| *kept);
            let kept = kept.ok_or(Error::Unknown("kept snapshot"))?;
            self.snapshot = kept.timestamp();
            self.reader = Some(kept);
        }
        Ok(())
    }

    fn get(
        &mut self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        coeval_env::work(Work::Read, 1);
        self.read(storage, |storage, reading| {
            let indexes = storage.indexes();
            let index = usable(&indexes, index, storage, reading.snapshot)?;
            if index.kind == IndexKind::Secondary {
                return Err(Error::Unknown("primary or unique index"));
            }
            let found = reading.get(index, key);
            found.inspect(|(rid, _, row)| visit(*rid, *row));
            Ok(found.is_some())
        })
    }

    fn get_many(
        &mut self,
        storage: StorageId,
        index: IndexId,
        keys: &[&[u8]],
        visit: &mut (dyn FnMut(usize, Rid, RowRef<'_>) + Send),
    ) -> Result<(), Error> {
        coeval_env::work(Work::Read, keys.len());
        self.read(storage, |storage, reading| {
            let indexes = storage.indexes();
            let index = usable(&indexes, index, storage, reading.snapshot)?;
            match index.kind {
                IndexKind::Primary => reading.get_many(index, keys, |position, found| {
                    found.inspect(|(rid, _, row)| visit(position, *rid, *row));
                }),
                IndexKind::Unique => {
                    for (position, key) in keys.iter().enumerate() {
                        let found = reading.get(index, key);
                        found.inspect(|(rid, _, row)| visit(position, *rid, *row));
                    }
                }
                IndexKind::Secondary => return Err(Error::Unknown("primary or unique index")),
            }
            Ok(())
        })
    }

    fn get_record(
        &mut self,
        storage: StorageId,
        rid: Rid,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        coeval_env::work(Work::Read, 1);
        self.read(storage, |_, reading| {
            let found = reading.get_record(rid);
            found.inspect(|(rid, _, row)| visit(*rid, *row));
            Ok(found.is_some())
        })
    }

    fn scan(
        &mut self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error> {
        coeval_env::work(Work::Read, 1);
        self.read(request.storage, |storage, reading| {
            let Some(bounds) = EntryBounds::of(request) else {
                return Ok(ScanProgress::Complete);
            };
            match request.source {
                ScanSource::Table => {
                    Ok(reading.scan_table(request, &bounds, |(rid, _, row)| visit(rid, row)))
                }
                ScanSource::Index(index) => {
                    let indexes = storage.indexes();
                    let index = usable(&indexes, index, storage, reading.snapshot)?;
                    let visit = |(rid, _, row): crate::reading::Found<'_>| visit(rid, row);
                    Ok(reading.scan_index(index, request, &bounds, visit))
                }
            }
        })
    }

    /// Takes no lock, and checks the schema version that the snapshot has. A storage that
    /// the snapshot does not know has none.
    fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        _: LockWait,
        schema_version: u64,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if mode != TableLock::AccessShare {
            return Poll::Ready(self.refuse());
        }
        let has_schema = self.read(storage, |storage, reading| {
            Ok(storage.has_schema(schema_version, reading.snapshot))
        });
        Poll::Ready(match has_schema {
            Ok(true) => Ok(()),
            Ok(false) | Err(Error::Unknown("storage")) => Err(Error::SchemaChanged(storage)),
            Err(error) => Err(error),
        })
    }

    fn set_schema_version(&mut self, _: StorageId, _: u64) -> Result<(), Error> {
        self.refuse()
    }

    fn poll_build_index(
        &mut self,
        _: StorageId,
        _: &IndexDefinition,
        _: &mut Context<'_>,
    ) -> Poll<Result<IndexBuild, Error>> {
        Poll::Ready(self.refuse())
    }

    fn drop_index(&mut self, _: StorageId, _: IndexId) -> Result<(), Error> {
        self.refuse()
    }

    fn poll_lock_row(
        &mut self,
        _: StorageId,
        _: Rid,
        _: RowLock,
        _: LockWait,
        _: &mut Visit<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<LockedRow, Error>> {
        Poll::Ready(self.refuse())
    }

    fn poll_insert(
        &mut self,
        _: StorageId,
        _: RowRef<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<Insert, Error>> {
        Poll::Ready(self.refuse())
    }

    fn poll_update(
        &mut self,
        _: StorageId,
        _: Rid,
        _: RowRef<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<Update, Error>> {
        Poll::Ready(self.refuse())
    }

    fn delete(&mut self, _: StorageId, _: Rid) -> Result<(), Error> {
        self.refuse()
    }

    fn savepoint(&mut self) -> Savepoint {
        self.savepoints += 1;
        Savepoint(self.savepoints)
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.check()?;
        if savepoint.0 == 0 || savepoint.0 > self.savepoints {
            return Err(Error::Unknown("savepoint"));
        }
        self.savepoints = savepoint.0;
        Ok(())
    }

    fn release(&mut self, savepoint: Savepoint) {
        self.savepoints = self.savepoints.min(savepoint.0.saturating_sub(1));
    }

    fn poll_commit(&mut self, _: &mut Context<'_>) -> Poll<Outcome> {
        Poll::Ready(match self.reader.take() {
            Some(reader) => {
                reader.followed.counters.committed();
                Outcome::Committed(self.snapshot)
            }
            None => Outcome::Aborted(Error::Unknown("running transaction")),
        })
    }

    fn abort(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.followed.counters.aborted(self.failure);
        }
    }
}

impl Drop for FollowerTransaction {
    fn drop(&mut self) {
        self.abort();
    }
}
