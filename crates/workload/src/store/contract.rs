//! Sessions with an engine in this process, through the transaction contract.
//!
//! Keys and rows have the simplest encoding; there is no SQL, no socket, and no copy of a
//! row that a scan visits.

mod many;

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Error, Insert, LockWait, LockedRow, Outcome,
    ScanProgress, ScanRequest, ScanSource, TableLock, Transaction, Update,
};
use coeval_types::{
    IndexDefinition, IndexId, IndexKind, Rid, RowRef, StorageDefinition, StorageId, Timestamp,
};

use super::client_session::{Scan, Visit, Way};
use super::key::{Columns, push, push_integer};
use super::row::Cells;
use super::schema::Table;
use super::{Failure, Row};
pub(super) use many::VisitMany;

/// The only schema version, because workloads never change their schema.
const SCHEMA_VERSION: u64 = 1;
/// Number of records that a scan visits in one pinned step.
const CHUNK: usize = 256;
/// An index is numbered by its storage's number times this, plus its position.
const INDEXES: u32 = 16;

fn storage(table: usize) -> StorageId {
    StorageId(u32::try_from(table).unwrap_or(u32::MAX) + 1)
}

/// Id of the primary index if `position` is `None`, otherwise of a secondary one.
fn index(table: usize, position: Option<usize>) -> IndexId {
    let position = position.map_or(0, |position| position + 1);
    let position = u32::try_from(position).unwrap_or(u32::MAX);
    IndexId(storage(table).0 * INDEXES + position)
}

/// A workload's tables as the engine's storage definitions.
#[must_use]
pub fn definitions(tables: &[Table]) -> Vec<StorageDefinition> {
    let definition = |(at, table): (usize, &Table)| {
        let mut indexes = Vec::new();
        if table.key > 0 {
            indexes.push((IndexKind::Primary, None));
        }
        let secondary = 0..table.indexes.len();
        indexes.extend(secondary.map(|position| (IndexKind::Secondary, Some(position))));
        let define = |(kind, position)| IndexDefinition {
            id: index(at, position),
            kind,
            extractor: Arc::new(Columns::of(table, &table.order(position))),
        };
        StorageDefinition {
            id: storage(at),
            schema_version: SCHEMA_VERSION,
            indexes: indexes.into_iter().map(define).collect(),
        }
    };
    tables.iter().enumerate().map(definition).collect()
}

/// Creates a workload's tables in an engine.
pub(super) fn attach(engine: &dyn Engine, tables: &[Table]) -> Result<(), Error> {
    definitions(tables)
        .into_iter()
        .try_for_each(|definition| engine.attach_storage(definition))
}

/// A session with an engine in this process.
pub struct Contract {
    engine: Arc<dyn Engine>,
    tables: Arc<[Table]>,
    transaction: Option<Box<dyn Transaction>>,
    /// Bit set of the tables that the transaction has locked for writing.
    locked: u64,
    wrote: bool,
    key: Vec<u8>,
    scratch: Row,
}

impl fmt::Debug for Contract {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Contract")
            .field("engine", &self.engine.name())
            .finish_non_exhaustive()
    }
}

type Running<'a> = &'a mut (dyn Transaction + 'static);

impl Contract {
    pub(super) fn new(engine: Arc<dyn Engine>, tables: Arc<[Table]>) -> Self {
        Self {
            engine,
            tables,
            transaction: None,
            locked: 0,
            wrote: false,
            key: Vec::new(),
            scratch: Row::default(),
        }
    }

    pub(super) async fn begin(&mut self, way: Way) -> Result<(), Failure> {
        let options = BeginOptions {
            isolation: way.isolation,
            read_only: way.read_only,
            ..BeginOptions::default()
        };
        self.abort();
        let transaction = coeval_txn::begin(&*self.engine, &options).await;
        self.transaction = Some(transaction.map_err(|error| Failure::aborted(&error))?);
        (self.locked, self.wrote) = (0, false);
        Ok(())
    }

    fn encode(&mut self, table: usize, values: &[i64]) {
        self.key.clear();
        self.push_key(table, values);
    }

    fn push_key(&mut self, table: usize, values: &[i64]) {
        for (column, &value) in self.tables[table].columns.iter().zip(values) {
            push_integer(column.kind, value, &mut self.key);
        }
    }

    /// Begins a statement in the running transaction.
    fn statement(transaction: &mut Option<Box<dyn Transaction>>) -> Result<Running<'_>, Error> {
        let transaction = transaction
            .as_deref_mut()
            .ok_or(Error::Unknown("running transaction"))?;
        transaction.begin_statement()?;
        Ok(transaction)
    }

    pub(super) fn get(
        &mut self,
        table: usize,
        key: &[i64],
        row: &mut Row,
    ) -> Result<bool, Failure> {
        self.encode(table, key);
        let mut read = || {
            let transaction = Self::statement(&mut self.transaction)?;
            let mut visit = |rid: Rid, found: RowRef<'_>| row.take(Some(rid), found);
            transaction.get(storage(table), index(table, None), &self.key, &mut visit)
        };
        read().map_err(|error| Failure::aborted(&error))
    }

    /// Begins a statement that writes, after locking its table.
    async fn writing(&mut self, table: usize) -> Result<Running<'_>, Error> {
        let transaction = Self::statement(&mut self.transaction)?;
        if self.locked & 1 << table == 0 {
            let mode = TableLock::RowExclusive;
            coeval_txn::lock_table(transaction, storage(table), mode, SCHEMA_VERSION).await?;
            self.locked |= 1 << table;
        }
        self.wrote = true;
        Ok(transaction)
    }

    pub(super) async fn lock(
        &mut self,
        table: usize,
        key: &[i64],
        row: &mut Row,
    ) -> Result<bool, Failure> {
        self.encode(table, key);
        let key = std::mem::take(&mut self.key);
        let locked = self.lock_encoded(table, &key, row).await;
        self.key = key;
        locked.map_err(|error| Failure::aborted(&error))
    }

    async fn lock_encoded(
        &mut self,
        table: usize,
        key: &[u8],
        row: &mut Row,
    ) -> Result<bool, Error> {
        let transaction = self.writing(table).await?;
        let mut found = None;
        let mut visit = |rid: Rid, _: RowRef<'_>| found = Some(rid);
        transaction.get(storage(table), index(table, None), key, &mut visit)?;
        let Some(rid) = found else {
            return Ok(false);
        };
        let mut visit = |rid: Rid, newest: RowRef<'_>| row.take(Some(rid), newest);
        let wait = LockWait::Wait;
        let locked = coeval_txn::lock_row(transaction, storage(table), rid, wait, &mut visit);
        Ok(match locked.await? {
            LockedRow::Unchanged | LockedRow::Changed => true,
            LockedRow::Gone | LockedRow::Skipped => false,
        })
    }

    pub(super) async fn update(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        let updated = async {
            let rid = row.rid.ok_or(Error::Unknown("row that was read"))?;
            let transaction = self.writing(table).await?;
            coeval_txn::update(transaction, storage(table), rid, row.row()).await
        };
        match updated.await {
            Ok(Update::Updated(_)) => Ok(()),
            Ok(Update::Duplicate { .. }) => Err(Failure::duplicate(&self.tables[table].name)),
            Err(error) => Err(Failure::aborted(&error)),
        }
    }

    pub(super) async fn put(
        &mut self,
        table: usize,
        row: &Row,
        columns: &[usize],
    ) -> Result<bool, Failure> {
        let width = self.tables[table].key;
        let key: [i64; 4] = std::array::from_fn(|column| row.integer(column));
        let mut old = std::mem::take(&mut self.scratch);
        let mut found = self.lock(table, &key[..width], &mut old).await;
        if found == Ok(true) {
            old.adopt(row, columns);
            found = self.update(table, &old).await.map(|()| true);
        }
        self.scratch = old;
        found
    }

    pub(super) async fn insert(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        let inserted = async {
            let transaction = self.writing(table).await?;
            coeval_txn::insert(transaction, storage(table), row.row()).await
        };
        match inserted.await {
            Ok(Insert::Inserted(_)) => Ok(()),
            Ok(Insert::Duplicate { .. }) => Err(Failure::duplicate(&self.tables[table].name)),
            Err(error) => Err(Failure::aborted(&error)),
        }
    }

    pub(super) fn delete(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        let mut delete = || {
            let rid = row.rid.ok_or(Error::Unknown("row that was read"))?;
            let transaction = Self::statement(&mut self.transaction)?;
            transaction.delete(storage(table), rid)
        };
        delete().map_err(|error| Failure::aborted(&error))
    }

    pub(super) async fn scan(
        &mut self,
        scan: &Scan<'_>,
        visit: &mut Visit<'_>,
        interleaved: bool,
    ) -> Result<usize, Failure> {
        let shown = self.scan_chunks(scan, visit, interleaved).await;
        shown.map_err(|error| Failure::aborted(&error))
    }

    async fn scan_chunks(
        &mut self,
        scan: &Scan<'_>,
        visit: &mut Visit<'_>,
        interleaved: bool,
    ) -> Result<usize, Error> {
        let (mut lower, mut upper) = self.bounds(scan);
        let transaction = Self::statement(&mut self.transaction)?;
        let has_order = scan.index.is_some() || self.tables[scan.table].key > 0;
        let wanted = scan.limit.unwrap_or(usize::MAX);
        let mut shown = 0;
        while shown < wanted {
            let request = ScanRequest {
                storage: storage(scan.table),
                source: if has_order {
                    ScanSource::Index(index(scan.table, scan.index))
                } else {
                    ScanSource::Table
                },
                bounds: Bounds {
                    lower: lower.as_ref().map(Vec::as_slice),
                    upper: upper.as_ref().map(Vec::as_slice),
                },
                direction: if scan.backward {
                    Direction::Backward
                } else {
                    Direction::Forward
                },
                // The chunk limit counts entries of deleted rows too, and a queue begins
                // with many of them while a reader holds an old snapshot.
                limit: CHUNK,
            };
            let progress = transaction.scan(&request, &mut |_, row| {
                visit(row);
                shown += 1;
                if shown < wanted {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            match progress {
                ScanProgress::Complete => break,
                ScanProgress::More(at) if scan.backward => upper = Bound::Excluded(at),
                ScanProgress::More(at) => lower = Bound::Excluded(at),
            }
            if interleaved {
                coeval_env::yield_now().await;
            }
        }
        Ok(shown)
    }

    fn bounds(&self, scan: &Scan<'_>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let table = &self.tables[scan.table];
        let order = table.order(scan.index);
        let mut prefix = Vec::new();
        for (&column, &value) in order.iter().zip(scan.prefix) {
            push(table.columns[column].kind, value, &mut prefix);
        }
        let bound = |value: Option<i64>| {
            let mut key = prefix.clone();
            if let Some(value) = value {
                let column = order[scan.prefix.len()];
                push_integer(table.columns[column].kind, value, &mut key);
            }
            if key.is_empty() {
                Bound::Unbounded
            } else {
                Bound::Included(key)
            }
        };
        (bound(scan.from), bound(scan.to))
    }

    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        let Some(mut transaction) = self.transaction.take() else {
            return Err(Failure::aborted(&Error::Unknown("running transaction")));
        };
        transaction.disclose_all();
        let seen = transaction.newest_seen();
        let committed = match coeval_txn::commit(&mut *transaction).await {
            Outcome::Committed(timestamp) => timestamp,
            Outcome::Aborted(error) => return Err(Failure::aborted(&error)),
            Outcome::Unknown(error) => return Err(unknown(&error)),
        };
        drop(transaction);
        // A read-only transaction waits until the versions it has read are durable.
        let wait_for = if self.wrote {
            committed.max(seen)
        } else {
            seen
        };
        if wait_for == Timestamp::ZERO {
            return Ok(());
        }
        let durable = coeval_txn::durable(&*self.engine, wait_for).await;
        durable.map_err(|error| unknown(&error))
    }

    pub(super) fn abort(&mut self) {
        if let Some(mut transaction) = self.transaction.take() {
            transaction.abort();
        }
    }
}

fn unknown(error: &Error) -> Failure {
    Failure::Unknown {
        cause: "stopped".into(),
        message: error.to_string(),
    }
}
