//! A small table of numbers, and helpers for tests on it.

use std::future::Future;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use coeval_occ::{Engine, Settings};
use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine as _, Error, Insert, Isolation, LockWait, LockedRow,
    Outcome, ScanProgress, ScanRequest, ScanSource, TableLock, Transaction, Update,
};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowBuilder, RowRef,
    StorageDefinition, StorageId, Timestamp,
};

pub const STORAGE: StorageId = StorageId(1);
pub const PRIMARY: IndexId = IndexId(1);
pub const SECONDARY: IndexId = IndexId(2);

/// Segments and blocks so small that a few rows fill many; no background task runs.
pub fn small_settings() -> Settings {
    Settings {
        log: coeval_log::Settings {
            segment_bytes: 8192,
            ring_bytes: 8192,
            frame_payload_bytes: 1024,
            recovery_threads: 1,
            checkpoint_block_bytes: 200,
            log_keep_bytes: 0,
            ..coeval_log::Settings::default()
        },
        image_every: 3,
        sweep_interval: None,
        checkpoint_log_bytes: 0,
        ..Settings::default()
    }
}

/// Rows are (key, value): two numbers.
pub type Row = (u64, u64);

#[derive(Debug)]
struct Cell(usize);

impl KeyExtractor for Cell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(self.0).expect("no nulls here"));
        ExtractedKey::Comparable
    }
}

pub fn index(id: IndexId, kind: IndexKind, cell: usize) -> IndexDefinition {
    IndexDefinition {
        id,
        kind,
        extractor: Arc::new(Cell(cell)),
    }
}

/// The definition of the table, by default with a primary index on the key and a
/// secondary one on the value.
pub fn definition(indexes: Vec<IndexDefinition>) -> StorageDefinition {
    StorageDefinition {
        id: STORAGE,
        schema_version: 1,
        indexes,
    }
}

pub fn usual_indexes() -> Vec<IndexDefinition> {
    vec![
        index(PRIMARY, IndexKind::Primary, 0),
        index(SECONDARY, IndexKind::Secondary, 1),
    ]
}

/// Settings for an engine that needs no runtime.
pub fn settings() -> Settings {
    Settings {
        sweep_interval: None,
        ..Settings::default()
    }
}

/// Gives an engine the usual table.
pub fn attach(engine: &Engine) {
    engine
        .attach_storage(definition(usual_indexes()))
        .expect("a new engine has no storage");
}

/// An engine in memory with the usual table.
pub fn engine() -> Engine {
    let engine = Engine::ephemeral(settings()).expect("sound settings");
    attach(&engine);
    engine
}

pub fn row_bytes((key, value): Row) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    builder.push(Some(&key.to_be_bytes()));
    builder.push(Some(&value.to_be_bytes()));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes
}

pub fn numbers(row: RowRef<'_>) -> Row {
    let number = |column| {
        let bytes = row.cell(column).expect("no nulls here");
        u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
    };
    (number(0), number(1))
}

/// The result of a future that must not wait.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

pub async fn begin(engine: &dyn coeval_txn::Engine, isolation: Isolation) -> Box<dyn Transaction> {
    let options = BeginOptions {
        isolation,
        ..BeginOptions::default()
    };
    coeval_txn::begin(engine, &options)
        .await
        .expect("nothing stands in the way")
}

pub async fn lock_table(transaction: &mut dyn Transaction) -> Result<(), Error> {
    coeval_txn::lock_table(transaction, STORAGE, TableLock::RowExclusive, 1).await
}

pub fn get(transaction: &mut dyn Transaction, key: u64) -> Result<Option<(Rid, u64)>, Error> {
    let mut found = None;
    transaction.get(STORAGE, PRIMARY, &key.to_be_bytes(), &mut |rid, row| {
        found = Some((rid, numbers(row).1));
    })?;
    Ok(found)
}

/// The rows that exist for these keys, in the keys' order.
pub fn get_many(transaction: &mut dyn Transaction, keys: &[u64]) -> Result<Vec<Row>, Error> {
    let bytes: Vec<_> = keys.iter().map(|key| key.to_be_bytes()).collect();
    let bytes: Vec<_> = bytes.iter().map(|key| &key[..]).collect();
    let mut found = Vec::new();
    transaction.get_many(STORAGE, PRIMARY, &bytes, &mut |position, _, row| {
        assert_eq!(numbers(row).0, keys[position], "the row of its key");
        found.push(numbers(row));
    })?;
    Ok(found)
}

/// Rows whose key in the index is between the bounds, both included.
pub fn scan(
    transaction: &mut dyn Transaction,
    source: ScanSource,
    first: u64,
    last: u64,
    direction: Direction,
    chunk: usize,
) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let (first, last) = (first.to_be_bytes().to_vec(), last.to_be_bytes().to_vec());
    let (mut lower, mut upper) = (Bound::Included(first), Bound::Included(last));
    loop {
        let request = ScanRequest {
            storage: STORAGE,
            source,
            bounds: Bounds {
                lower: lower.as_ref().map(Vec::as_slice),
                upper: upper.as_ref().map(Vec::as_slice),
            },
            direction,
            limit: chunk,
        };
        let progress = transaction.scan(&request, &mut |_, row| {
            rows.push(numbers(row));
            ControlFlow::Continue(())
        })?;
        match (progress, direction) {
            (ScanProgress::Complete, _) => return Ok(rows),
            (ScanProgress::More(at), Direction::Forward) => lower = Bound::Excluded(at),
            (ScanProgress::More(at), Direction::Backward) => upper = Bound::Excluded(at),
        }
    }
}

pub fn all(transaction: &mut dyn Transaction) -> Vec<Row> {
    let source = ScanSource::Index(PRIMARY);
    scan(transaction, source, 0, u64::MAX, Direction::Forward, 100).expect("a scan")
}

pub async fn insert(transaction: &mut dyn Transaction, row: Row) -> Result<Insert, Error> {
    let bytes = row_bytes(row);
    coeval_txn::insert(transaction, STORAGE, RowRef::trusted(&bytes)).await
}

/// The row with this key, locked: its record and newest value.
pub async fn locked(
    transaction: &mut dyn Transaction,
    key: u64,
) -> Result<Option<(Rid, u64)>, Error> {
    let Some((rid, _)) = get(transaction, key)? else {
        return Ok(None);
    };
    let mut newest = 0;
    let mut visit = |_: Rid, row: RowRef<'_>| newest = numbers(row).1;
    let answer =
        coeval_txn::lock_row(transaction, STORAGE, rid, LockWait::Wait, &mut visit).await?;
    Ok(match answer {
        LockedRow::Unchanged | LockedRow::Changed => Some((rid, newest)),
        LockedRow::Gone | LockedRow::Skipped => None,
    })
}

/// Changes the value under a key, if there is one.
pub async fn change(
    transaction: &mut dyn Transaction,
    key: u64,
    change: impl Fn(u64) -> u64,
) -> Result<Option<Update>, Error> {
    let Some((rid, value)) = locked(transaction, key).await? else {
        return Ok(None);
    };
    let bytes = row_bytes((key, change(value)));
    coeval_txn::update(transaction, STORAGE, rid, RowRef::trusted(&bytes))
        .await
        .map(Some)
}

/// Gives a row another key, if it exists; returns the outcome and the row's value.
pub async fn move_row(
    transaction: &mut dyn Transaction,
    from: u64,
    to: u64,
) -> Result<Option<(Update, u64)>, Error> {
    let Some((rid, value)) = locked(transaction, from).await? else {
        return Ok(None);
    };
    let bytes = row_bytes((to, value));
    let update = coeval_txn::update(transaction, STORAGE, rid, RowRef::trusted(&bytes)).await?;
    Ok(Some((update, value)))
}

pub async fn delete(transaction: &mut dyn Transaction, key: u64) -> Result<bool, Error> {
    let Some((rid, _)) = locked(transaction, key).await? else {
        return Ok(false);
    };
    transaction.delete(STORAGE, rid)?;
    Ok(true)
}

pub async fn commit(transaction: &mut dyn Transaction) -> Result<Timestamp, Error> {
    match coeval_txn::commit(transaction).await {
        Outcome::Committed(timestamp) => Ok(timestamp),
        Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error),
    }
}

/// Commits rows in one transaction.
pub async fn load(engine: &dyn coeval_txn::Engine, rows: impl IntoIterator<Item = Row>) {
    let mut transaction = begin(engine, Isolation::ReadCommitted).await;
    lock_table(&mut *transaction).await.expect("nobody else");
    for row in rows {
        let inserted = insert(&mut *transaction, row).await;
        assert!(matches!(inserted, Ok(Insert::Inserted(_))));
    }
    commit(&mut *transaction).await.expect("nobody else");
}
