//! A table of numbers by key, on the engine's interface.

use std::ops::ControlFlow;
use std::sync::Arc;

use coeval_txn::{
    BeginOptions, Bounds, Definitions, Direction, Engine, Error, Isolation, LockWait, LockedRow,
    Outcome, Rows, ScanProgress, ScanRequest, ScanSource, TableLock, Transaction,
};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowBuilder, RowRef,
    StorageDefinition, StorageId, Timestamp,
};

const STORAGE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(1);
const SECONDARY: IndexId = IndexId(2);

#[derive(Debug)]
struct Key;

impl KeyExtractor for Key {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(0).expect("no nulls here"));
        ExtractedKey::Comparable
    }
}

#[derive(Debug)]
struct Value;

impl KeyExtractor for Value {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(1).expect("no nulls here"));
        ExtractedKey::Comparable
    }
}

/// The table's definition, with indexes by key and by number.
fn definition() -> StorageDefinition {
    let primary = IndexDefinition {
        id: PRIMARY,
        kind: IndexKind::Primary,
        extractor: Arc::new(Key),
    };
    let secondary = IndexDefinition {
        id: SECONDARY,
        kind: IndexKind::Secondary,
        extractor: Arc::new(Value),
    };
    StorageDefinition {
        id: STORAGE,
        schema_version: 1,
        indexes: vec![primary, secondary],
    }
}

/// Attaches the table to an engine that begins to lead.
pub fn attach(engine: &dyn Engine) {
    engine.attach_storage(definition()).expect("once");
}

/// The definitions from which followers maintain the table's indexes.
#[derive(Debug)]
pub struct Known;

impl Definitions for Known {
    fn sources(&self) -> Vec<StorageId> {
        Vec::new()
    }

    fn read(&self, _: Rows<'_>) -> Result<Vec<StorageDefinition>, String> {
        Ok(vec![definition()])
    }
}

fn bytes((key, value): (u64, u64)) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    builder.push(Some(&key.to_be_bytes()));
    builder.push(Some(&value.to_be_bytes()));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes
}

fn numbers(row: RowRef<'_>) -> (u64, u64) {
    let number = |column| {
        let bytes = row.cell(column).expect("no nulls here");
        u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
    };
    (number(0), number(1))
}

/// A transaction.
pub struct Work(Box<dyn Transaction>);

impl Work {
    pub async fn write(engine: &dyn Engine) -> Result<Self, Error> {
        let mut work = Self::read(engine, Isolation::Serializable).await?;
        coeval_txn::lock_table(&mut *work.0, STORAGE, TableLock::RowExclusive, 1).await?;
        Ok(work)
    }

    pub async fn read(engine: &dyn Engine, isolation: Isolation) -> Result<Self, Error> {
        let options = BeginOptions {
            isolation,
            ..BeginOptions::default()
        };
        Ok(Self(coeval_txn::begin(engine, &options).await?))
    }

    pub fn newest_seen(&self) -> Timestamp {
        self.0.newest_seen()
    }

    pub async fn insert(&mut self, row: (u64, u64)) -> Result<(), Error> {
        let bytes = bytes(row);
        coeval_txn::insert(&mut *self.0, STORAGE, RowRef::trusted(&bytes)).await?;
        Ok(())
    }

    /// Adds to the number under an existing key. Returns the number before.
    pub async fn change(&mut self, key: u64, by: i64) -> Result<u64, Error> {
        let mut found = None;
        self.0
            .get(STORAGE, PRIMARY, &key.to_be_bytes(), &mut |rid, row| {
                found = Some((rid, numbers(row).1));
            })?;
        let (rid, mut value) = found.expect("accounts are never removed");
        let mut visit = |_: Rid, row: RowRef<'_>| value = numbers(row).1;
        let locked =
            coeval_txn::lock_row(&mut *self.0, STORAGE, rid, LockWait::Wait, &mut visit).await?;
        assert!(matches!(locked, LockedRow::Unchanged | LockedRow::Changed));
        let bytes = bytes((key, value.wrapping_add_signed(by)));
        coeval_txn::update(&mut *self.0, STORAGE, rid, RowRef::trusted(&bytes)).await?;
        Ok(value)
    }

    /// The number under an existing key.
    pub fn number(&mut self, key: u64) -> Result<u64, Error> {
        let mut found = None;
        let mut visit = |_: Rid, row: RowRef<'_>| found = Some(numbers(row).1);
        self.0
            .get(STORAGE, PRIMARY, &key.to_be_bytes(), &mut visit)?;
        Ok(found.expect("it is never removed"))
    }

    pub fn all(&mut self) -> Result<Vec<(u64, u64)>, Error> {
        let request = ScanRequest {
            storage: STORAGE,
            source: ScanSource::Index(PRIMARY),
            bounds: Bounds::ALL,
            direction: Direction::Forward,
            limit: usize::MAX,
        };
        let mut rows = Vec::new();
        let progress = self.0.scan(&request, &mut |_, row| {
            rows.push(numbers(row));
            ControlFlow::Continue(())
        })?;
        assert_eq!(progress, ScanProgress::Complete);
        Ok(rows)
    }

    /// Commits. The caller waits until the commit is durable before it reports the outcome.
    pub async fn commit(mut self) -> Result<Timestamp, Error> {
        match coeval_txn::commit(&mut *self.0).await {
            Outcome::Committed(timestamp) => Ok(timestamp),
            Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error),
        }
    }
}

/// Waits until a commit or read at this timestamp may be reported.
pub async fn durable(engine: &dyn Engine, timestamp: Timestamp) -> Result<(), Error> {
    std::future::poll_fn(|context| engine.poll_durable(timestamp, context)).await
}
