//! The test table of the measurements: rows of 100 bytes, and operations on them through
//! the transaction contract.
//!
//! ```text
//!   key, 8 bytes │ scattered key, 8 │ counter, 8 │ text, 66 │ 10 bytes of the row's own
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;

use coeval_occ::Engine;
use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine as _, Error, IndexBuild, Insert, LockWait, LockedRow,
    Outcome, ScanProgress, ScanRequest, ScanSource, TableLock, Transaction, Update,
};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, RowBuilder, RowRef,
    StorageDefinition, StorageId, Timestamp,
};
use smallvec::SmallVec;

use crate::Failure;

const TABLE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(1);
const SCHEMA: u64 = 1;

/// Length of a row, in bytes.
pub const ROW_BYTES: usize = 100;
const TEXT_BYTES: usize = 66;

/// Positions of the cells.
const KEY: usize = 0;
const SCATTERED: usize = 1;
const COUNTER: usize = 2;
const TEXT: usize = 3;

/// Number of rows that one transaction of the load inserts.
const FILL: u64 = 1_000;

/// What an update changes in addition to incrementing the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The update changes nothing else.
    Counter,
    /// The update changes the text as well, and so the whole row.
    WholeRow,
}

/// The keys of which an index is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Keys in the order of the rows.
    Ascending,
    /// Keys in a random order.
    Scattered,
}

/// Totals over the rows of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of rows.
    pub rows: u64,
    /// Sum of the counters.
    pub updates: u64,
    /// Checksum over every byte of every row.
    pub checksum: u64,
}

#[derive(Debug)]
struct Cell(usize);

impl KeyExtractor for Cell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(self.0).expect("no nulls here"));
        ExtractedKey::Comparable
    }
}

fn index(id: IndexId, kind: IndexKind, cell: usize) -> IndexDefinition {
    IndexDefinition {
        id,
        kind,
        extractor: Arc::new(Cell(cell)),
    }
}

/// Attaches the table to an engine, which builds the primary index from the existing
/// rows.
///
/// # Errors
/// If the engine has the table already, or has stopped.
pub fn attach(engine: &Engine) -> Result<(), Error> {
    engine.attach_storage(StorageDefinition {
        id: TABLE,
        schema_version: SCHEMA,
        indexes: vec![index(PRIMARY, IndexKind::Primary, KEY)],
    })
}

/// Encodes a row into `bytes`.
fn make_row(key: u64, counter: u64, text: u64, builder: &mut RowBuilder, bytes: &mut Vec<u8>) {
    let scattered = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    builder.push(Some(&key.to_be_bytes()));
    builder.push(Some(&scattered.to_be_bytes()));
    builder.push(Some(&counter.to_be_bytes()));
    builder.push_with(|data| {
        let text = (text ^ scattered).to_le_bytes();
        data.extend(text.iter().cycle().take(TEXT_BYTES));
    });
    bytes.clear();
    builder.finish(bytes);
    assert_eq!(bytes.len(), ROW_BYTES, "a row of the promised length");
}

fn number(row: RowRef<'_>, cell: usize) -> u64 {
    let bytes = row.cell(cell).expect("no nulls here");
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

/// Begins a writing transaction with these options.
///
/// # Errors
/// If the engine has stopped.
pub async fn writer(engine: &Engine, options: &BeginOptions) -> Result<Writer, Error> {
    let transaction = locking(engine, options, TableLock::RowExclusive).await?;
    Ok(Writer {
        transaction,
        builder: RowBuilder::new(),
        changed: Vec::new(),
    })
}

async fn locking(
    engine: &Engine,
    options: &BeginOptions,
    lock: TableLock,
) -> Result<Box<dyn Transaction>, Error> {
    let mut transaction = coeval_txn::begin(engine, options).await?;
    coeval_txn::lock_table(&mut *transaction, TABLE, lock, SCHEMA).await?;
    Ok(transaction)
}

async fn commit(transaction: &mut dyn Transaction) -> Result<Timestamp, Error> {
    match coeval_txn::commit(transaction).await {
        Outcome::Committed(timestamp) => Ok(timestamp),
        Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error),
    }
}

/// Fills the table with `rows` rows, with keys from 0.
///
/// # Errors
/// If a key exists already, or the engine has stopped.
pub async fn fill(engine: &Engine, rows: u64) -> Result<(), Failure> {
    let (mut builder, mut row) = (RowBuilder::new(), Vec::new());
    for first in (0..rows).step_by(FILL as usize) {
        let mut transaction =
            locking(engine, &BeginOptions::default(), TableLock::RowExclusive).await?;
        for key in first..(first + FILL).min(rows) {
            make_row(key, 0, 0, &mut builder, &mut row);
            let inserted =
                coeval_txn::insert(&mut *transaction, TABLE, RowRef::trusted(&row)).await?;
            if !matches!(inserted, Insert::Inserted(_)) {
                return Err(format!("key {key} is there already").into());
            }
        }
        commit(&mut *transaction).await?;
    }
    Ok(())
}

/// A writing transaction, with its buffers.
pub struct Writer {
    transaction: Box<dyn Transaction>,
    builder: RowBuilder,
    changed: Vec<u8>,
}

impl Writer {
    /// Reads the rows with these keys in one batch, 64 at most.
    ///
    /// # Errors
    /// If a row is missing, or a conflict aborts the transaction.
    pub fn read_many(&mut self, keys: &[[u8; 8]]) -> Result<(), Failure> {
        read_many(&mut *self.transaction, keys)
    }

    /// Updates the row with this key, after waiting for its lock.
    ///
    /// # Errors
    /// If the row does not exist, or a conflict aborts the transaction.
    pub async fn update(&mut self, key: u64, change: Change, text: u64) -> Result<(), Failure> {
        let Self {
            transaction,
            builder,
            changed,
        } = self;
        let mut found = None;
        transaction.get(TABLE, PRIMARY, &key.to_be_bytes(), &mut |rid, _| {
            found = Some(rid);
        })?;
        let rid = found.ok_or_else(|| format!("key {key} is gone"))?;
        let mut right = true;
        let mut visit = |_, row: RowRef<'_>| {
            right &= number(row, KEY) == key;
            let counter = number(row, COUNTER) + 1;
            match change {
                Change::Counter => {
                    for cell in [KEY, SCATTERED] {
                        builder.push(row.cell(cell));
                    }
                    builder.push(Some(&counter.to_be_bytes()));
                    builder.push(row.cell(TEXT));
                    changed.clear();
                    builder.finish(changed);
                }
                Change::WholeRow => make_row(key, counter, text, builder, changed),
            }
        };
        let wait = LockWait::Wait;
        let locked = coeval_txn::lock_row(&mut **transaction, TABLE, rid, wait, &mut visit).await?;
        if !matches!(locked, LockedRow::Unchanged | LockedRow::Changed) || !right {
            return Err(format!("key {key} is gone, or leads to another row").into());
        }
        let row = RowRef::trusted(changed);
        let updated = coeval_txn::update(&mut **transaction, TABLE, rid, row).await?;
        if !matches!(updated, Update::Updated(_)) {
            return Err(format!("key {key} is there twice").into());
        }
        Ok(())
    }

    /// Commits, without waiting for durability.
    ///
    /// # Errors
    /// If a conflict aborts the transaction.
    pub async fn commit(mut self) -> Result<Timestamp, Error> {
        commit(&mut *self.transaction).await
    }
}

/// Updates the rows with these keys, which must ascend, in one transaction.
///
/// # Errors
/// The same as those of [`Writer`].
pub async fn update(
    engine: &Engine,
    keys: &[u64],
    change: Change,
    text: u64,
) -> Result<Timestamp, Failure> {
    let mut writer = writer(engine, &BeginOptions::default()).await?;
    for &key in keys {
        writer.update(key, change, text).await?;
    }
    Ok(writer.commit().await?)
}

/// Reads the row with this key in a transaction of its own.
///
/// # Errors
/// If the row does not exist, or a conflict aborts the transaction.
#[inline]
pub async fn read(engine: &Engine, options: &BeginOptions, key: u64) -> Result<(), Failure> {
    let mut transaction = coeval_txn::begin(engine, options).await?;
    let mut found = None;
    transaction.get(TABLE, PRIMARY, &key.to_be_bytes(), &mut |_, row| {
        found = Some(number(row, KEY));
    })?;
    commit(&mut *transaction).await?;
    match found == Some(key) {
        true => Ok(()),
        false => Err(format!("a read of key {key} found {found:?}").into()),
    }
}

/// Reads the rows with these keys in one batch, 64 at most, in a transaction of their
/// own.
///
/// # Errors
/// If a row is missing, or a conflict aborts the transaction.
pub async fn read_at_once(
    engine: &Engine,
    options: &BeginOptions,
    keys: &[[u8; 8]],
) -> Result<(), Failure> {
    let mut transaction = coeval_txn::begin(engine, options).await?;
    read_many(&mut *transaction, keys)?;
    commit(&mut *transaction).await?;
    Ok(())
}

fn read_many(transaction: &mut dyn Transaction, keys: &[[u8; 8]]) -> Result<(), Failure> {
    let slices: SmallVec<[&[u8]; 16]> = keys.iter().map(|key| &key[..]).collect();
    let mut right = 0_u64;
    transaction.get_many(TABLE, PRIMARY, &slices, &mut |at, _, row| {
        right |= u64::from(row.cell(KEY) == Some(&keys[at][..])) << at;
    })?;
    // Checks each key, because a key may have been visited twice.
    match right.count_ones() as usize == keys.len() {
        true => Ok(()),
        false => Err(format!("of {} keys not all were found: {right:b}", keys.len()).into()),
    }
}

/// Creates an index on the existing rows, as `CREATE INDEX` does, and drops it again.
///
/// # Errors
/// If different keys are reported as duplicates, or the engine has stopped.
pub async fn build_index(engine: &Engine, keys: Keys, kind: IndexKind) -> Result<(), Failure> {
    const NEW: IndexId = IndexId(2);
    let cell = match keys {
        Keys::Ascending => KEY,
        Keys::Scattered => SCATTERED,
    };
    let options = BeginOptions::default();
    let mut transaction = locking(engine, &options, TableLock::AccessExclusive).await?;
    let definition = index(NEW, kind, cell);
    let built = coeval_txn::build_index(&mut *transaction, TABLE, &definition).await?;
    if built != IndexBuild::Built {
        return Err(format!("an index of different keys: {built:?}").into());
    }
    transaction.abort();
    Ok(())
}

/// Reads every row through the primary index.
///
/// # Errors
/// If a key is missing or out of order, or the engine has stopped.
pub async fn totals(engine: &Engine) -> Result<Totals, Failure> {
    let mut transaction = coeval_txn::begin(engine, &BeginOptions::default()).await?;
    let mut totals = Totals::default();
    let mut position: Option<Vec<u8>> = None;
    loop {
        let lower = position.as_deref().map_or(Bounds::ALL.lower, |position| {
            std::ops::Bound::Excluded(position)
        });
        let request = ScanRequest {
            storage: TABLE,
            source: ScanSource::Index(PRIMARY),
            bounds: Bounds {
                lower,
                ..Bounds::ALL
            },
            direction: Direction::Forward,
            limit: 1_000,
        };
        let mut misplaced = None;
        let progress = transaction.scan(&request, &mut |_, row| {
            if number(row, KEY) != totals.rows {
                misplaced = Some(number(row, KEY));
                return ControlFlow::Break(());
            }
            totals.rows += 1;
            totals.updates += number(row, COUNTER);
            totals.checksum = totals.checksum.wrapping_add(checksum(row.bytes()));
            ControlFlow::Continue(())
        })?;
        if let Some(key) = misplaced {
            return Err(format!("key {key} stands where {} belongs", totals.rows).into());
        }
        match progress {
            ScanProgress::Complete => return Ok(totals),
            ScanProgress::More(at) => position = Some(at),
        }
    }
}

fn checksum(row: &[u8]) -> u64 {
    row.chunks(8).fold(0, |sum: u64, bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        (sum ^ u64::from_le_bytes(word))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    })
}
