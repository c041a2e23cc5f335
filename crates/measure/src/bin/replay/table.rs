//! The test table of the replay benchmark: a key, an indexed number, and a text.

use std::ops::ControlFlow;
use std::sync::Arc;

use coeval_measure::Chance;
use coeval_occ::{Engine, FollowedView};
use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine as _, Error, Insert, LockWait, Outcome, ScanProgress,
    ScanRequest, ScanSource, TableLock, Transaction,
};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowBuilder, RowRef,
    StorageDefinition, StorageId,
};

use super::Failure;

const TABLE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(1);
const SECONDARY: IndexId = IndexId(2);
const SCHEMA: u64 = 1;

/// Number of rows in a transaction of the load, and in one of the changes.
const FILL: u64 = 1_000;
const CHANGES: u64 = 4;

/// Totals over the rows of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    rows: u64,
    /// Checksum over every byte of every row, independent of their order.
    checksum: u64,
}

impl Totals {
    fn add(&mut self, row: RowRef<'_>) {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        let its = row.bytes().iter().fold(0xCBF2_9CE4_8422_2325, mix);
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(its);
    }
}

#[derive(Debug)]
struct Cell(usize);

impl KeyExtractor for Cell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(self.0).expect("no nulls here"));
        ExtractedKey::Comparable
    }
}

pub fn definition() -> StorageDefinition {
    let index = |id, kind, cell| IndexDefinition {
        id,
        kind,
        extractor: Arc::new(Cell(cell)),
    };
    StorageDefinition {
        id: TABLE,
        schema_version: SCHEMA,
        indexes: vec![
            index(PRIMARY, IndexKind::Primary, 0),
            index(SECONDARY, IndexKind::Secondary, 1),
        ],
    }
}

pub fn attach(engine: &Engine) -> Result<(), Error> {
    engine.attach_storage(definition())
}

fn make_row(key: u64, number: u64) -> Vec<u8> {
    let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
    builder.push(Some(&key.to_be_bytes()));
    builder.push(Some(&number.to_be_bytes()));
    builder.push(Some(&[b'.'; 60]));
    builder.finish(&mut bytes);
    bytes
}

async fn writer(engine: &Engine) -> Result<Box<dyn Transaction>, Error> {
    let mut transaction = coeval_txn::begin(engine, &BeginOptions::default()).await?;
    coeval_txn::lock_table(&mut *transaction, TABLE, TableLock::RowExclusive, SCHEMA).await?;
    Ok(transaction)
}

async fn commit(transaction: &mut dyn Transaction) -> Result<(), Error> {
    match coeval_txn::commit(transaction).await {
        Outcome::Committed(_) => Ok(()),
        Outcome::Aborted(error) | Outcome::Unknown(error) => Err(error),
    }
}

async fn insert(transaction: &mut dyn Transaction, row: &[u8]) -> Result<(), Failure> {
    match coeval_txn::insert(transaction, TABLE, RowRef::trusted(row)).await? {
        Insert::Inserted(_) => Ok(()),
        Insert::Duplicate { .. } => Err("a key is there twice".into()),
    }
}

pub async fn fill(engine: &Engine, rows: u64) -> Result<(), Failure> {
    for first in (0..rows).step_by(FILL as usize) {
        let mut transaction = writer(engine).await?;
        for key in first..(first + FILL).min(rows) {
            insert(&mut *transaction, &make_row(key, 0)).await?;
        }
        commit(&mut *transaction).await?;
    }
    Ok(())
}

pub async fn change(engine: &Engine, rows: u64, changes: u64) -> Result<(), Failure> {
    let mut chance = Chance::new(1);
    for number in 0..changes / CHANGES {
        let mut transaction = writer(engine).await?;
        let mut keys = Vec::new();
        for _ in 0..CHANGES.min(rows) {
            let key = chance.below(rows as usize) as u64;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        for &key in &keys {
            let mut found = None;
            let bytes = key.to_be_bytes();
            transaction.get(TABLE, PRIMARY, &bytes, &mut |rid, _| found = Some(rid))?;
            let rid = found.ok_or("a key is gone")?;
            let wait = LockWait::Wait;
            coeval_txn::lock_row(&mut *transaction, TABLE, rid, wait, &mut |_, _| {}).await?;
            if number % 8 == 0 {
                transaction.delete(TABLE, rid)?;
            } else {
                let row = make_row(key, number);
                coeval_txn::update(&mut *transaction, TABLE, rid, RowRef::trusted(&row)).await?;
            }
        }
        commit(&mut *transaction).await?;
        if number % 8 == 0 {
            let mut transaction = writer(engine).await?;
            for key in keys {
                insert(&mut *transaction, &make_row(key, number)).await?;
            }
            commit(&mut *transaction).await?;
        }
    }
    Ok(())
}

/// Reads the totals through the primary index.
pub async fn totals(engine: &Engine) -> Result<Totals, Failure> {
    let mut transaction = coeval_txn::begin(engine, &BeginOptions::default()).await?;
    let request = ScanRequest {
        storage: TABLE,
        source: ScanSource::Index(PRIMARY),
        bounds: Bounds::ALL,
        direction: Direction::Forward,
        limit: usize::MAX,
    };
    let mut totals = Totals::default();
    let progress = transaction.scan(&request, &mut |_, row| {
        totals.add(row);
        ControlFlow::Continue(())
    })?;
    match progress {
        ScanProgress::Complete => Ok(totals),
        ScanProgress::More(_) => Err("a scan ends early".into()),
    }
}

/// Reads the totals from a follower's view.
pub fn totals_of(view: &FollowedView) -> Totals {
    let mut totals = Totals::default();
    let mut next = Some(Rid(0));
    while let Some(from) = next {
        next = view.rows(TABLE, from, 1 << 12, &mut |saved| totals.add(saved.row));
    }
    totals
}
