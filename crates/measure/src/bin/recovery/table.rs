//! The table that is lost and found: rows of 100 bytes, and what is done with them.
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

use super::Failure;

const TABLE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(1);
const SCHEMA: u64 = 1;

/// Bytes of a row.
pub const ROW_BYTES: usize = 100;
const TEXT_BYTES: usize = 66;

/// Cells.
const KEY: usize = 0;
const SCATTERED: usize = 1;
const COUNTER: usize = 2;
const TEXT: usize = 3;

/// Rows of a transaction that fills.
const FILL: u64 = 1_000;

/// What an update changes beside the counter, which it adds one to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Counter,
    WholeRow,
}

/// Which keys an index is built of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Ascending,
    Scattered,
}

/// What the table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub rows: u64,
    /// Sum of the counters.
    pub updates: u64,
    /// Of every byte of every row.
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

/// Makes the table known, which builds its primary index from the rows that are there.
pub fn attach(engine: &Engine) -> Result<(), Error> {
    engine.attach_storage(StorageDefinition {
        id: TABLE,
        schema_version: SCHEMA,
        indexes: vec![index(PRIMARY, IndexKind::Primary, KEY)],
    })
}

/// Puts a row into `bytes`.
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

/// A transaction that writes.
async fn writer(engine: &Engine, lock: TableLock) -> Result<Box<dyn Transaction>, Error> {
    let mut transaction = coeval_txn::begin(engine, &BeginOptions::default()).await?;
    coeval_txn::lock_table(&mut *transaction, TABLE, lock, SCHEMA).await?;
    Ok(transaction)
}

async fn commit(transaction: &mut dyn Transaction) -> Result<Timestamp, Error> {
    match coeval_txn::commit(transaction).await {
        Outcome::Committed(timestamp) => Ok(timestamp),
        Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error),
    }
}

/// Fills the table with rows of these keys.
pub async fn fill(engine: &Engine, rows: u64) -> Result<(), Failure> {
    let (mut builder, mut row) = (RowBuilder::new(), Vec::new());
    for first in (0..rows).step_by(FILL as usize) {
        let mut transaction = writer(engine, TableLock::Write).await?;
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

/// Updates the rows with these keys, which ascend, in one transaction.
pub async fn update(
    engine: &Engine,
    keys: &[u64],
    change: Change,
    text: u64,
) -> Result<Timestamp, Failure> {
    let mut transaction = writer(engine, TableLock::Write).await?;
    let (mut builder, mut changed) = (RowBuilder::new(), Vec::new());
    for &key in keys {
        let mut found = None;
        transaction.get(TABLE, PRIMARY, &key.to_be_bytes(), &mut |rid, _| {
            found = Some(rid);
        })?;
        let rid = found.ok_or_else(|| format!("key {key} is gone"))?;
        let mut visit = |_, row: RowRef<'_>| {
            let counter = number(row, COUNTER) + 1;
            match change {
                Change::Counter => {
                    for cell in [KEY, SCATTERED] {
                        builder.push(row.cell(cell));
                    }
                    builder.push(Some(&counter.to_be_bytes()));
                    builder.push(row.cell(TEXT));
                    changed.clear();
                    builder.finish(&mut changed);
                }
                Change::WholeRow => make_row(key, counter, text, &mut builder, &mut changed),
            }
        };
        let wait = LockWait::Wait;
        let locked = coeval_txn::lock_row(&mut *transaction, TABLE, rid, wait, &mut visit).await?;
        if !matches!(locked, LockedRow::Unchanged | LockedRow::Changed) {
            return Err(format!("key {key} is gone").into());
        }
        let row = RowRef::trusted(&changed);
        let updated = coeval_txn::update(&mut *transaction, TABLE, rid, row).await?;
        if !matches!(updated, Update::Updated(_)) {
            return Err(format!("key {key} is there twice").into());
        }
    }
    Ok(commit(&mut *transaction).await?)
}

/// `CREATE INDEX` on the rows that are there, and back again.
pub async fn build_index(engine: &Engine, keys: Keys, kind: IndexKind) -> Result<(), Failure> {
    const NEW: IndexId = IndexId(2);
    let cell = match keys {
        Keys::Ascending => KEY,
        Keys::Scattered => SCATTERED,
    };
    let mut transaction = writer(engine, TableLock::Exclusive).await?;
    let definition = index(NEW, kind, cell);
    let built = coeval_txn::build_index(&mut *transaction, TABLE, &definition).await?;
    if built != IndexBuild::Built {
        return Err(format!("an index of different keys: {built:?}").into());
    }
    transaction.abort();
    Ok(())
}

/// Reads every row by the primary index.
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
