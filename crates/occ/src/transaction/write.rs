//! Writes: a transaction locks the row when it writes, at every isolation level, and
//! keeps the new row in the record as a private version until it commits.
//!
//! A call that has to wait starts over when it is polled again, and keeps the locks it
//! has taken so far. So it changes nothing before it holds everything that it may have to
//! wait for.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use coeval_memory::epoch::Guard;
use coeval_storage::{Aborted, Collector, Expiry, RecordRef, Value, Version};
use coeval_txn::contract::Visit;
use coeval_txn::{Cause, ConflictLocation, Error, Insert, Isolation, LockWait, LockedRow, Update};
use coeval_types::{IndexId, Rid, RowLock, RowRef, StorageId, Timestamp, TransactionId, planted};

use super::TransactionContext;
use super::state::{Held, Read, StorageAt, Undo};
use super::waiting::Wait;
use crate::locks::keys::Taken;
use crate::locks::rows::Tried;
use crate::memory;
use crate::storage::{Index, Storage, Upkeep};

/// About what a shared row takes: an entry of the side table, and one of the transaction.
const BYTES_OF_A_SHARE: usize = 160;

/// The record in which a new row is stored.
enum InsertTarget {
    /// A new record.
    New,
    /// This dead record, which had the primary key before and is locked now.
    Record(Rid),
}

/// The result of one attempt.
enum WriteAttempt<T> {
    Done(T),
    Wait(Wait),
}

/// Another row that has one of the new row's keys.
struct Duplicate {
    index: IndexId,
    rid: Rid,
}

impl TransactionContext<'_> {
    pub(super) fn poll_lock_row(
        &mut self,
        storage: StorageId,
        rid: Rid,
        (mode, wait): (RowLock, LockWait),
        visit: &mut Visit<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<LockedRow, Error>> {
        self.check_write()?;
        if mode.is_shared() {
            self.check_growth(BYTES_OF_A_SHARE)?;
        }
        let at = self.state.storage(self.shared, storage)?;
        let just_locked = loop {
            let first = match wait {
                LockWait::Wait => self.goes_before(at, rid, mode),
                LockWait::NoWait | LockWait::Skip => None,
            };
            let tried = first.map_or_else(|| self.try_lock(at, rid, mode), Tried::HeldBy);
            match tried {
                Tried::Locked => break true,
                Tried::Held | Tried::Strengthened(_) => break false,
                Tried::Dead => return Poll::Ready(Ok(LockedRow::Gone)),
                Tried::HeldBy(holder) | Tried::GaveBack(holder) => {
                    self.state.had_row = Some(holder);
                }
            }
            let table = &self.state.storages[at];
            match wait {
                LockWait::Skip => return Poll::Ready(Ok(LockedRow::Skipped)),
                LockWait::NoWait => {
                    let place = ConflictLocation::Row { storage, rid };
                    return Poll::Ready(Err(Error::LockNotAvailable(place)));
                }
                LockWait::Wait => {
                    let wait = Wait::Row {
                        storage: Arc::clone(table),
                        rid,
                        mode: Some(mode),
                    };
                    ready!(self.poll_wait(wait, context))?;
                }
            }
        };
        let had_row = self.state.had_row.take();
        Poll::Ready(self.look_at_locked(at, rid, (mode, just_locked), had_row, visit))
    }

    /// Inspects a row that this transaction has locked.
    fn look_at_locked(
        &mut self,
        at: StorageAt,
        rid: Rid,
        (mode, just_locked): (RowLock, bool),
        had_row: Option<TransactionId>,
        visit: &mut Visit<'_>,
    ) -> Result<LockedRow, Error> {
        let shared = self.shared;
        let guard = shared.domain.pin();
        let (snapshot, id) = (self.state.snapshot(), self.state.id);
        let table = &self.state.storages[at];
        let record = table.records.record(rid).expect("it is locked");
        let writes = record.holder() == Some(id);
        if writes && record.has_private(id) {
            let version = record.read(snapshot, id, &guard);
            let Some(row) = version.and_then(|version| version.row()) else {
                return Ok(LockedRow::Gone);
            };
            self.state.seen_own();
            visit(rid, row);
            return Ok(LockedRow::Unchanged);
        }
        let newest = record.newest_committed(&guard);
        let changed = newest.is_some_and(|version| version.cts() > snapshot);
        if changed
            && mode == RowLock::KeyShare
            && let Some((version, row)) = self.with_same_keys(at, &record, newest, &guard)
        {
            self.state.seen(version.cts());
            visit(rid, row);
            return Ok(LockedRow::Unchanged);
        }
        let before = match self.state.presence_only && writes {
            true => record.version_before(id, &guard),
            false => None,
        };
        if changed && !self.state.follows_newest() && !planted!(LoseUpdate) {
            let place = ConflictLocation::Row {
                storage: table.id,
                rid,
            };
            let committed = newest.map(|version| version.cts());
            let cause = Cause::WriteWrite;
            return Err(self.conflict_with_commit(cause, place, had_row, committed));
        }
        let Some((version, row)) = newest.and_then(|version| Some((version, version.row()?)))
        else {
            if let Some(version) = newest {
                self.state.seen(version.cts());
            }
            if just_locked {
                self.unlock_last(mode);
            }
            return Ok(LockedRow::Gone);
        };
        // Read only where the client learns no more than whether the row exists.
        let present_since = before
            .filter(|before| !before.is_tombstone())
            .map_or(version.cts(), |before| before.cts());
        self.state.seen(present_since);
        self.state.worked_upon(version.cts());
        visit(rid, row);
        Ok(if changed {
            LockedRow::Changed
        } else {
            LockedRow::Unchanged
        })
    }

    /// The version that the snapshot shows, if its keys are those of `newest`: a row that is
    /// locked FOR KEY SHARE may change in other columns, before and after, and the transaction
    /// goes on with the row that it has found.
    fn with_same_keys<'guard>(
        &self,
        at: StorageAt,
        record: &RecordRef<'_>,
        newest: Option<Version<'_>>,
        guard: &'guard Guard<'_>,
    ) -> Option<(Version<'guard>, RowRef<'guard>)> {
        let shown = record.read(self.state.snapshot(), TransactionId(0), guard)?;
        let (old, new) = (shown.row()?, newest.as_ref()?.row()?);
        let indexes = self.state.storages[at].indexes();
        indexes
            .iter()
            .filter(|index| index.promises_uniqueness())
            .all(|index| index.same_key(old, new))
            .then_some((shown, old))
    }

    pub(super) fn poll_insert(
        &mut self,
        storage: StorageId,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Insert, Error>> {
        self.check_write()?;
        self.check_length(row.bytes().len())?;
        self.check_growth(row.bytes().len())?;
        let at = self.state.storage(self.shared, storage)?;
        let inserted = ready!(self.poll_insert_in(at, row, None, context))?;
        Poll::Ready(Ok(match inserted {
            Ok(rid) => Insert::Inserted(rid),
            Err(Duplicate { index, rid }) => Insert::Duplicate { index, rid },
        }))
    }

    /// Inserts `row`; the row `replacing` may have the same keys.
    fn poll_insert_in(
        &mut self,
        at: StorageAt,
        row: RowRef<'_>,
        replacing: Option<Rid>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Result<Rid, Duplicate>, Error>> {
        loop {
            match self.try_insert(at, row, replacing)? {
                WriteAttempt::Done(inserted) => {
                    self.stop_waiting(false);
                    match inserted {
                        Ok(_) => self.keep_keys(),
                        Err(_) => self.give_up_keys(),
                    }
                    return Poll::Ready(Ok(inserted));
                }
                WriteAttempt::Wait(wait) => ready!(self.poll_wait(wait, context))?,
            }
        }
    }

    fn try_insert(
        &mut self,
        at: StorageAt,
        row: RowRef<'_>,
        replacing: Option<Rid>,
    ) -> Result<WriteAttempt<Result<Rid, Duplicate>>, Error> {
        let table = Arc::clone(&self.state.storages[at]);
        let indexes = table.indexes();
        loop {
            let mut target = InsertTarget::New;
            for index in indexes.iter().filter(|index| index.is_primary()) {
                match self.primary_target(at, &table, index, row)? {
                    WriteAttempt::Wait(wait) => return Ok(WriteAttempt::Wait(wait)),
                    WriteAttempt::Done(Err(duplicate)) => {
                        return Ok(WriteAttempt::Done(Err(duplicate)));
                    }
                    WriteAttempt::Done(Ok(found)) => target = found,
                }
            }
            let mut own = vec![];
            own.extend(replacing);
            if let InsertTarget::Record(rid) = target {
                own.push(rid);
            }
            for index in indexes.iter().filter(|index| !index.is_primary()) {
                match self.check_unique(at, &table, index, row, &own)? {
                    WriteAttempt::Wait(wait) => return Ok(WriteAttempt::Wait(wait)),
                    WriteAttempt::Done(Some(duplicate)) => {
                        return Ok(WriteAttempt::Done(Err(duplicate)));
                    }
                    WriteAttempt::Done(None) => {}
                }
            }
            let guard = self.shared.domain.pin();
            let inserted = match target {
                InsertTarget::Record(rid) => {
                    self.write(at, rid, Value::row(row), &guard);
                    indexes.iter().for_each(|index| {
                        index.add(row, rid, &guard);
                    });
                    Some(rid)
                }
                InsertTarget::New => self.insert_new(at, &table, &indexes, row, &guard),
            };
            // If no record was inserted, another transaction took the primary key
            // meanwhile.
            if let Some(rid) = inserted {
                return Ok(WriteAttempt::Done(Ok(rid)));
            }
        }
    }

    /// Checks whether the primary key is free, and locks the dead record that has it, if
    /// there is one. Leaves the key in the state's scratch buffer.
    fn primary_target(
        &mut self,
        at: StorageAt,
        table: &Arc<Storage>,
        index: &Index,
        row: RowRef<'_>,
    ) -> Result<WriteAttempt<Result<InsertTarget, Duplicate>>, Error> {
        let mut key = std::mem::take(&mut self.state.scratch);
        index.key(row, &mut key);
        let result = self.primary_target_of(at, table, index, &key);
        self.state.scratch = key;
        result
    }

    fn primary_target_of(
        &mut self,
        at: StorageAt,
        table: &Arc<Storage>,
        index: &Index,
        key: &[u8],
    ) -> Result<WriteAttempt<Result<InsertTarget, Duplicate>>, Error> {
        let (shared, id) = (self.shared, self.state.id);
        loop {
            let guard = shared.domain.pin();
            let Some(rid) = index.entries.get(key, &guard) else {
                return Ok(WriteAttempt::Done(Ok(InsertTarget::New)));
            };
            let record = table.records.record(rid).expect("an entry has a record");
            let newest = match record.holder() {
                Some(holder) if holder != id => match unwritten_row(&record, &guard) {
                    Some(version) => Some(version),
                    None => return Ok(WriteAttempt::Wait(no_writer(table, rid))),
                },
                Some(_) if record.has_private(id) => record.read(self.state.snapshot(), id, &guard),
                _ => record.newest_committed(&guard),
            };
            let Some(version) = newest else {
                if record.holder() == Some(id) {
                    return Ok(WriteAttempt::Done(Ok(InsertTarget::Record(rid))));
                }
                // The row is dead: its entry is about to be removed.
                drop(guard);
                coeval_memory::sync::yield_now();
                continue;
            };
            if !version.is_own() && !self.state.follows_newest() {
                self.check_snapshot(table, index, key, &version)?;
            }
            self.state.seen(version.cts());
            if !version.is_tombstone() {
                if self.state.is_serializable() && !version.is_own() {
                    self.state.reads.push(Read {
                        storage: at,
                        rid,
                        cts: version.cts(),
                    });
                }
                return Ok(WriteAttempt::Done(Err(Duplicate {
                    index: index.id,
                    rid,
                })));
            }
            if record.holder() == Some(id) {
                return Ok(WriteAttempt::Done(Ok(InsertTarget::Record(rid))));
            }
            // A dead row under this key: lock it, and inspect it again. Still under the
            // guard, so the RID is not another row's.
            self.try_lock(at, rid, RowLock::Update);
        }
    }

    /// Above READ COMMITTED: fails when the newest version of the key is not in this
    /// transaction's snapshot, since another transaction wrote the key first.
    fn check_snapshot(
        &self,
        table: &Storage,
        index: &Index,
        key: &[u8],
        version: &Version<'_>,
    ) -> Result<(), Error> {
        if version.cts() <= self.state.snapshot() {
            return Ok(());
        }
        let place = ConflictLocation::Key {
            storage: table.id,
            index: index.id,
            key: key.to_vec(),
        };
        let committed = Some(version.cts());
        Err(self.conflict_with_commit(Cause::WriteWrite, place, None, committed))
    }

    /// Locks the row's key in a unique index, and searches for another row with it,
    /// except the records in `own`.
    fn check_unique(
        &mut self,
        at: StorageAt,
        table: &Arc<Storage>,
        index: &Arc<Index>,
        row: RowRef<'_>,
        own: &[Rid],
    ) -> Result<WriteAttempt<Option<Duplicate>>, Error> {
        if !index.promises_uniqueness() {
            return Ok(WriteAttempt::Done(None));
        }
        let mut key = Vec::new();
        if !index.key(row, &mut key) {
            return Ok(WriteAttempt::Done(None));
        }
        let (shared, id) = (self.shared, self.state.id);
        match shared.keys.take(index.id, &key, id) {
            Taken::Now => {
                self.state.keys.push((index.id, key.as_slice().into()));
                self.key_acquired(index.id, &key);
            }
            // The lock may have been handed over; then ending the wait records it.
            Taken::Before => self.key_acquired(index.id, &key),
            Taken::ByAnother => {
                let key = key.into_boxed_slice();
                let wait = Wait::Key(Arc::clone(table), Arc::clone(index), key);
                return Ok(WriteAttempt::Wait(wait));
            }
        }
        let guard = shared.domain.pin();
        let mut candidates = Vec::new();
        index.candidates(&key, &guard, |rid| {
            candidates.push(rid);
            std::ops::ControlFlow::Continue(())
        });
        for rid in candidates {
            if own.contains(&rid) {
                continue;
            }
            let Some(record) = table.records.record(rid) else {
                continue;
            };
            let version = match record.holder() {
                Some(holder) if holder != id => match unwritten_row(&record, &guard) {
                    Some(version) => Some(version),
                    None => return Ok(WriteAttempt::Wait(no_writer(table, rid))),
                },
                Some(_) if record.has_private(id) => record.read(self.state.snapshot(), id, &guard),
                _ => record.newest_committed(&guard),
            };
            // This includes a row that has given the key up: the next snapshot must not
            // show both.
            if let Some(version) = &version {
                self.state.seen(version.cts());
            }
            let Some((version, other)) =
                version.and_then(|version| Some((version, version.row()?)))
            else {
                continue;
            };
            if !index.has_key(other, &key) {
                continue;
            }
            if !version.is_own() {
                if !self.state.follows_newest() {
                    self.check_snapshot(table, index, &key, &version)?;
                }
                if self.state.isolation == Isolation::Serializable {
                    self.state.reads.push(Read {
                        storage: at,
                        rid,
                        cts: version.cts(),
                    });
                }
            }
            return Ok(WriteAttempt::Done(Some(Duplicate {
                index: index.id,
                rid,
            })));
        }
        Ok(WriteAttempt::Done(None))
    }

    fn key_acquired(&mut self, index: IndexId, key: &[u8]) {
        self.acquired(
            |wait| matches!(wait, Wait::Key(_, waited, its) if waited.id == index && **its == *key),
        );
    }

    /// Creates a record with `row` and inserts its keys, the primary one first, which
    /// [`Self::primary_target`] has left in the scratch buffer; `None` when another
    /// transaction has that key.
    fn insert_new(
        &mut self,
        at: StorageAt,
        table: &Storage,
        indexes: &[Arc<Index>],
        row: RowRef<'_>,
        guard: &Guard<'_>,
    ) -> Option<Rid> {
        let (shared, id) = (self.shared, self.state.id);
        let record = table.records.allocate(id, guard);
        let rid = record.rid();
        write_record(shared, &record, id, Value::row(row), indexes, guard);
        for index in indexes.iter().filter(|index| index.is_primary()) {
            if !index.add_key(&self.state.scratch, rid, guard) {
                assert_eq!(record.abort(id, guard), Aborted::Dead);
                table.records.retire(rid, guard);
                return None;
            }
        }
        for index in indexes.iter().filter(|index| !index.is_primary()) {
            index.add(row, rid, guard);
        }
        if !self.state.savepoints.is_empty() {
            self.state.undo.push(Undo::Row {
                storage: at,
                rid,
                previous: None,
            });
        }
        self.holds(Held { storage: at, rid });
        Some(rid)
    }

    /// Makes `value` the private version of a locked record. Keeps the replaced version
    /// if it may be needed again: for a savepoint, or because its index entries must be
    /// removed later.
    fn write(&mut self, at: StorageAt, rid: Rid, value: Value, guard: &Guard<'_>) {
        let table = Arc::clone(&self.state.storages[at]);
        let record = table.records.record(rid).expect("it is locked");
        let replaces_private = record.has_private(self.state.id);
        self.write_to(
            at,
            &record,
            value,
            replaces_private,
            &table.indexes(),
            guard,
        );
    }

    /// As [`Self::write`], when the caller knows whether a private version is replaced.
    fn write_to(
        &mut self,
        at: StorageAt,
        record: &RecordRef<'_>,
        value: Value,
        replaces_private: bool,
        indexes: &[Arc<Index>],
        guard: &Guard<'_>,
    ) {
        let (shared, id) = (self.shared, self.state.id);
        if replaces_private || !self.state.savepoints.is_empty() {
            let keeps_entries = |previous: &Value| match (previous.as_row(), value.as_row()) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(old), Some(new)) => indexes.iter().all(|index| index.same_key(old, new)),
            };
            let previous = record.private_value(id);
            if !self.state.savepoints.is_empty() || !previous.as_ref().is_none_or(keeps_entries) {
                self.state.undo.push(Undo::Row {
                    storage: at,
                    rid: record.rid(),
                    previous,
                });
            }
        }
        write_record(shared, record, id, value, indexes, guard);
    }

    pub(super) fn poll_update(
        &mut self,
        storage: StorageId,
        rid: Rid,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Update, Error>> {
        self.check_write()?;
        memory::check_reserve(self.shared)?;
        let at = self.state.storage(self.shared, storage)?;
        loop {
            match self.try_update(at, rid, row)? {
                WriteAttempt::Done(UpdateStep::Done(update)) => {
                    self.stop_waiting(false);
                    match update {
                        Update::Updated(_) => self.keep_keys(),
                        Update::Duplicate { .. } => self.give_up_keys(),
                    }
                    return Poll::Ready(Ok(update));
                }
                WriteAttempt::Done(UpdateStep::Move) => {
                    let inserted = ready!(self.poll_insert_in(at, row, Some(rid), context))?;
                    return Poll::Ready(Ok(match inserted {
                        Err(Duplicate { index, rid }) => Update::Duplicate { index, rid },
                        Ok(new_rid) => {
                            let guard = self.shared.domain.pin();
                            self.write(at, rid, Value::tombstone(), &guard);
                            Update::Updated(new_rid)
                        }
                    }));
                }
                WriteAttempt::Wait(wait) => ready!(self.poll_wait(wait, context))?,
            }
        }
    }

    fn try_update(
        &mut self,
        at: StorageAt,
        rid: Rid,
        row: RowRef<'_>,
    ) -> Result<WriteAttempt<UpdateStep>, Error> {
        let table = Arc::clone(&self.state.storages[at]);
        let (shared, id) = (self.shared, self.state.id);
        let guard = shared.domain.pin();
        let record = self.locked_record(&table, rid)?;
        let has_private = record.has_private(id);
        let old = current_row(&record, id, has_private, &guard);
        let old = old.ok_or(Error::Unknown("live row"))?;
        if row.bytes().len() > old.bytes().len() {
            let bytes = row.bytes().len();
            self.check_length(bytes)?;
            memory::check_growth(shared, bytes, &mut self.state.growing_writes)?;
        }
        let indexes = table.indexes();
        let mut changed = false;
        for index in indexes.iter() {
            if index.same_key(old, row) {
                continue;
            }
            // The new entry needs memory, because the old one stays for the previous
            // version.
            memory::check_growth(shared, 0, &mut self.state.growing_writes)?;
            if index.promises_uniqueness()
                && let Tried::HeldBy(_) = self.try_lock(at, rid, RowLock::Update)
            {
                return Ok(WriteAttempt::Wait(Wait::Row {
                    storage: Arc::clone(&table),
                    rid,
                    mode: Some(RowLock::Update),
                }));
            }
            if index.is_primary() {
                return Ok(WriteAttempt::Done(UpdateStep::Move));
            }
            changed = true;
            match self.check_unique(at, &table, index, row, &[rid])? {
                WriteAttempt::Wait(wait) => return Ok(WriteAttempt::Wait(wait)),
                WriteAttempt::Done(Some(Duplicate { index, rid })) => {
                    let duplicate = Update::Duplicate { index, rid };
                    return Ok(WriteAttempt::Done(UpdateStep::Done(duplicate)));
                }
                WriteAttempt::Done(None) => {}
            }
        }
        self.write_to(at, &record, Value::row(row), has_private, &indexes, &guard);
        if changed {
            for index in indexes.iter() {
                index.add(row, rid, &guard);
            }
        }
        Ok(WriteAttempt::Done(UpdateStep::Done(Update::Updated(rid))))
    }

    pub(super) fn delete(&mut self, storage: StorageId, rid: Rid) -> Result<(), Error> {
        self.check_write()?;
        let at = self.state.storage(self.shared, storage)?;
        let table = Arc::clone(&self.state.storages[at]);
        let guard = self.shared.domain.pin();
        let record = self.locked_record(&table, rid)?;
        if record.held() != Some((self.state.id, RowLock::Update)) {
            return Err(Error::Unknown("lock on the row for its deletion"));
        }
        let has_private = record.has_private(self.state.id);
        let old = current_row(&record, self.state.id, has_private, &guard);
        old.ok_or(Error::Unknown("live row"))?;
        let (tombstone, indexes) = (Value::tombstone(), table.indexes());
        self.write_to(at, &record, tombstone, has_private, &indexes, &guard);
        Ok(())
    }

    fn locked_record<'table>(
        &self,
        table: &'table Storage,
        rid: Rid,
    ) -> Result<RecordRef<'table>, Error> {
        table
            .records
            .record(rid)
            .filter(|record| record.holder() == Some(self.state.id))
            .ok_or(Error::Unknown("row lock held by this transaction"))
    }
}

/// The result of an update step.
enum UpdateStep {
    Done(Update),
    /// The primary key changes: the row needs another record.
    Move,
}

/// The newest version of a record that another transaction holds, if it is a row and the
/// holder has not written the record: then the row has its keys, whatever the holder does
/// next. PostgreSQL, too, refuses a key that a row has which is only locked.
fn unwritten_row<'guard>(
    record: &RecordRef<'_>,
    guard: &'guard Guard<'_>,
) -> Option<Version<'guard>> {
    // The version first: a holder that has written since may have committed another.
    let version = record.newest_committed(guard)?;
    (!record.is_written() && !version.is_tombstone()).then_some(version)
}

/// Waits until no transaction holds a record whose key another row is to have.
fn no_writer(table: &Arc<Storage>, rid: Rid) -> Wait {
    Wait::Row {
        storage: Arc::clone(table),
        rid,
        mode: None,
    }
}

/// The row that a write by the lock holder replaces.
fn current_row<'guard>(
    record: &RecordRef<'_>,
    id: TransactionId,
    has_private: bool,
    guard: &'guard Guard<'_>,
) -> Option<RowRef<'guard>> {
    let version = if has_private {
        record.read(Timestamp::ZERO, id, guard)
    } else {
        record.newest_committed(guard)
    };
    version?.row()
}

fn write_record(
    shared: &crate::shared::Shared,
    record: &RecordRef<'_>,
    id: TransactionId,
    value: Value,
    indexes: &[Arc<Index>],
    guard: &Guard<'_>,
) {
    let expiry = Expiry::new(shared.horizon(), &shared.snapshots);
    let collector = Collector {
        guard,
        expiry: &expiry,
        indexes: &Upkeep(indexes),
    };
    record.write(id, value, &collector);
}
