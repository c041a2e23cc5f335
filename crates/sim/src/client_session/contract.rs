//! A client in the engine's process, which uses the transaction contract.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Error, Insert, Isolation, LockWait, LockedRow,
    Outcome, ScanProgress, ScanRequest, ScanSource, TableLock, Transaction,
};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowBuilder, RowRef,
    StorageDefinition, StorageId,
};

use super::{Ended, Failure, Row};

const STORAGE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(1);
const SCHEMA: u64 = 1;
/// Number of records visited in one step of a scan.
const CHUNK: usize = 16;
/// Longest pause between two statements.
pub const THINK: Duration = Duration::from_millis(2);
/// How long a question for the newest commit may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of attempts on a key whose row is inserted and deleted concurrently.
const TRIES: usize = 4;

#[derive(Debug)]
struct FirstCell;

impl KeyExtractor for FirstCell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(0).expect("no nulls here"));
        ExtractedKey::Comparable
    }
}

/// Definition of the one table: rows of key and numbers, indexed by key.
#[must_use]
pub fn storage() -> StorageDefinition {
    StorageDefinition {
        id: STORAGE,
        schema_version: SCHEMA,
        indexes: vec![IndexDefinition {
            id: PRIMARY,
            kind: IndexKind::Primary,
            extractor: Arc::new(FirstCell),
        }],
    }
}

fn encode(key: u64, row: &[i64]) -> Vec<u8> {
    let numbers: Vec<u8> = row.iter().flat_map(|number| number.to_be_bytes()).collect();
    let mut builder = RowBuilder::new();
    builder.push(Some(&key.to_be_bytes()));
    builder.push(Some(&numbers));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes
}

fn decode(row: RowRef<'_>) -> (u64, Row) {
    let key = row.cell(0).and_then(|cell| cell.try_into().ok());
    let numbers = row.cell(1).unwrap_or_default();
    let numbers = numbers
        .chunks_exact(8)
        .map(|number| i64::from_be_bytes(number.try_into().expect("eight bytes")));
    (
        u64::from_be_bytes(key.unwrap_or_default()),
        numbers.collect(),
    )
}

/// Pauses between two statements of a session, so that other sessions run in between.
async fn think() {
    let micros = coeval_env::random_u64() % THINK.as_micros() as u64;
    coeval_env::sleep(Duration::from_micros(micros)).await;
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Stopped(_) => Failure::Lost(error.to_string()),
        _ => Failure::Failed(error.to_string()),
    }
}

/// Waits until snapshots of the engine include everything that was acknowledged before the
/// call; an engine that writes has no question to ask.
pub async fn newest(engine: &dyn Engine) -> Result<(), Failure> {
    if !engine.is_read_only() {
        return Ok(());
    }
    match coeval_env::timeout(PATIENCE, coeval_txn::newest(engine)).await {
        Ok(told) => told.map_err(failure),
        Err(late) => Err(Failure::Lost(late.to_string())),
    }
}

/// A client in the engine's process.
pub struct Contract {
    engine: Arc<dyn Engine>,
    isolation: Isolation,
    transaction: Option<Box<dyn Transaction>>,
    /// Whether the transaction has written anything.
    wrote: bool,
}

impl std::fmt::Debug for Contract {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Contract")
            .field("engine", &self.engine.name())
            .finish_non_exhaustive()
    }
}

impl Contract {
    /// A client of `engine`.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            isolation: Isolation::ReadCommitted,
            transaction: None,
            wrote: false,
        }
    }

    pub(super) fn is_on_follower(&self) -> bool {
        self.engine.is_read_only()
    }

    async fn statement(&mut self) -> Result<&mut dyn Transaction, Failure> {
        if self.isolation == Isolation::ReadCommitted {
            newest(&*self.engine).await?;
        }
        let transaction = self.transaction.as_deref_mut();
        let transaction =
            transaction.ok_or_else(|| Failure::Failed("no transaction runs".to_owned()))?;
        transaction.begin_statement().map_err(failure)?;
        Ok(transaction)
    }

    pub(super) async fn begin(
        &mut self,
        isolation: Isolation,
        read_only: bool,
    ) -> Result<(), Failure> {
        let options = BeginOptions {
            isolation,
            read_only,
            ..BeginOptions::default()
        };
        newest(&*self.engine).await?;
        let begun = coeval_txn::begin(&*self.engine, &options).await;
        self.isolation = isolation;
        self.transaction = Some(begun.map_err(failure)?);
        self.wrote = false;
        Ok(())
    }

    pub(super) async fn get(&mut self, key: u64) -> Result<Option<Row>, Failure> {
        let transaction = self.statement().await?;
        let found = find(transaction, key).map_err(failure)?;
        think().await;
        Ok(found.map(|(_, row)| row))
    }

    pub(super) async fn scan(&mut self, first: u64, last: u64) -> Result<Vec<(u64, Row)>, Failure> {
        let transaction = self.statement().await?;
        let mut rows = Vec::new();
        let mut lower = Bound::Included(first.to_be_bytes().to_vec());
        let last = last.to_be_bytes();
        loop {
            let request = ScanRequest {
                storage: STORAGE,
                source: ScanSource::Index(PRIMARY),
                bounds: Bounds {
                    lower: lower.as_ref().map(Vec::as_slice),
                    upper: Bound::Included(&last),
                },
                direction: Direction::Forward,
                limit: CHUNK,
            };
            let progress = transaction.scan(&request, &mut |_, row| {
                rows.push(decode(row));
                ControlFlow::Continue(())
            });
            match progress.map_err(failure)? {
                ScanProgress::Complete => return Ok(rows),
                ScanProgress::More(at) => lower = Bound::Excluded(at),
            }
            think().await;
        }
    }

    pub(super) async fn change(
        &mut self,
        key: u64,
        change: impl Fn(Option<Row>) -> Row + Send,
    ) -> Result<(), Failure> {
        self.wrote = true;
        let transaction = self.statement().await?;
        replace(transaction, key, change).await.map_err(failure)?;
        think().await;
        Ok(())
    }

    pub(super) async fn put(&mut self, key: u64, row: &[i64]) -> Result<(), Failure> {
        self.change(key, |_| row.to_vec()).await
    }

    pub(super) async fn append(&mut self, key: u64, number: i64) -> Result<(), Failure> {
        let append = |row: Option<Row>| {
            let mut row = row.unwrap_or_default();
            row.push(number);
            row
        };
        self.change(key, append).await
    }

    pub(super) async fn delete(&mut self, key: u64) -> Result<bool, Failure> {
        self.wrote = true;
        let transaction = self.statement().await?;
        let deleted = delete(transaction, key).await.map_err(failure)?;
        think().await;
        Ok(deleted)
    }

    pub(super) async fn commit(&mut self) -> Ended {
        let Some(mut transaction) = self.transaction.take() else {
            return Ended::Failed("no transaction runs".to_owned());
        };
        let timestamp = match coeval_txn::commit(&mut *transaction).await {
            Outcome::Committed(timestamp) => timestamp,
            Outcome::Aborted(error) => return Ended::Failed(error.to_string()),
            Outcome::Unknown(error) => return Ended::Unknown(error.to_string()),
        };
        let seen = timestamp.max(transaction.newest_seen());
        if let Err(error) = coeval_txn::durable(&*self.engine, seen).await {
            return Ended::Unknown(error.to_string());
        }
        if !self.wrote
            && let Err(error) = coeval_txn::confirmed(&*self.engine).await
        {
            return Ended::Failed(error.to_string());
        }
        Ended::Committed
    }

    pub(super) async fn abort(&mut self) -> Result<(), Failure> {
        if let Some(mut transaction) = self.transaction.take() {
            transaction.abort();
        }
        Ok(())
    }
}

fn find(transaction: &mut dyn Transaction, key: u64) -> Result<Option<(Rid, Row)>, Error> {
    let mut found = None;
    transaction.get(STORAGE, PRIMARY, &key.to_be_bytes(), &mut |rid, row| {
        found = Some((rid, decode(row).1));
    })?;
    Ok(found)
}

/// Locks a record and returns its newest row.
async fn locked(transaction: &mut dyn Transaction, rid: Rid) -> Result<Option<Row>, Error> {
    let mut newest = None;
    let mut visit = |_: Rid, row: RowRef<'_>| newest = Some(decode(row).1);
    let wait = LockWait::Wait;
    let answer = coeval_txn::lock_row(transaction, STORAGE, rid, wait, &mut visit).await?;
    Ok(match answer {
        LockedRow::Unchanged | LockedRow::Changed => newest,
        LockedRow::Gone | LockedRow::Skipped => None,
    })
}

async fn replace(
    transaction: &mut dyn Transaction,
    key: u64,
    change: impl Fn(Option<Row>) -> Row + Send,
) -> Result<(), Error> {
    coeval_txn::lock_table(transaction, STORAGE, TableLock::RowExclusive, SCHEMA).await?;
    let mut rid = find(transaction, key)?.map(|(rid, _)| rid);
    for _ in 0..TRIES {
        if let Some(there) = rid.take()
            && let Some(row) = locked(transaction, there).await?
        {
            let bytes = encode(key, &change(Some(row)));
            coeval_txn::update(transaction, STORAGE, there, RowRef::trusted(&bytes)).await?;
            return Ok(());
        }
        let bytes = encode(key, &change(None));
        match coeval_txn::insert(transaction, STORAGE, RowRef::trusted(&bytes)).await? {
            Insert::Inserted(_) => return Ok(()),
            Insert::Duplicate { rid: there, .. } => rid = Some(there),
        }
    }
    Err(Error::Unknown("row that keeps still"))
}

async fn delete(transaction: &mut dyn Transaction, key: u64) -> Result<bool, Error> {
    coeval_txn::lock_table(transaction, STORAGE, TableLock::RowExclusive, SCHEMA).await?;
    let Some((rid, _)) = find(transaction, key)? else {
        return Ok(false);
    };
    if locked(transaction, rid).await?.is_none() {
        return Ok(false);
    }
    transaction.delete(STORAGE, rid)?;
    Ok(true)
}
