//! Consistency check: verifies that the rows and indexes of a database match its catalog.
//!
//! A checksum verifies that bytes are those that were written. This check verifies their
//! meaning: every row has its table's columns, each of its type; NOT NULL columns contain
//! no null; every index lists every row once, in order; and no two rows share a key of a
//! unique index.
//!
//! The engine must have just attached its storages, and so have built the indexes from
//! the rows: then any difference between both is an error in the rows.

use std::ops::{Bound, ControlFlow};

use coeval_txn::{
    BeginOptions, Bounds, Direction, Isolation, ScanProgress, ScanRequest, ScanSource, Transaction,
};
use coeval_types::{ExtractedKey, Rid, RowRef};

use crate::catalog::{Index, Table};
use crate::error::Result;
use crate::session::Database;
use crate::value::Value;

/// Number of rows checked in one step.
const CHUNK: usize = 1024;

/// Maximum number of findings reported for one table.
const MAX_FINDINGS: usize = 10;

/// Result of the consistency check of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of tables checked.
    pub tables: u64,
    /// Number of indexes checked.
    pub indexes: u64,
    /// Number of rows checked.
    pub rows: u64,
    /// Inconsistencies in words; each begins with the name of a table.
    pub findings: Vec<String>,
}

impl Database {
    /// Checks every row through its table and through each of its indexes. After each
    /// step the check calls `looked` with the number of rows checked and the total, in
    /// which each row counts once for its table and once for each index.
    ///
    /// # Errors
    /// When the engine fails. An inconsistency of the rows is a finding, not an error.
    pub async fn verify(&self, mut looked: impl FnMut(u64, u64) + Send) -> Result<Verified> {
        let options = BeginOptions {
            isolation: Isolation::SnapshotIsolation,
            read_only: true,
            ..BeginOptions::default()
        };
        let mut transaction = coeval_txn::begin(&*self.engine, &options).await?;
        let catalog = self.store.catalog(&mut *transaction, None)?;
        let of = catalog
            .tables()
            .map(|table| {
                let times = 1 + table.indexes.len() as u64;
                self.engine.estimated_rows(table.storage) * times
            })
            .sum();
        let mut verified = Verified::default();
        let mut done = 0;
        for table in catalog.tables() {
            let mut findings = Findings::of(table);
            let mut step = |rows: usize| {
                done += rows as u64;
                looked(done, of);
            };
            let rows = look_at_rows(&mut *transaction, table, &mut findings, &mut step)?;
            for index in &table.indexes {
                // Keys can only be computed from rows that have the table's columns.
                if findings.found.is_empty() {
                    look_at_index(
                        &mut *transaction,
                        (table, index, rows),
                        &mut findings,
                        &mut step,
                    )?;
                }
                verified.indexes += 1;
            }
            verified.tables += 1;
            verified.rows += rows;
            verified.findings.append(&mut findings.found);
        }
        transaction.abort();
        Ok(verified)
    }
}

/// The findings of one table.
struct Findings<'table> {
    table: &'table str,
    found: Vec<String>,
}

impl<'table> Findings<'table> {
    fn of(table: &'table Table) -> Self {
        Self {
            table: &table.name,
            found: Vec::new(),
        }
    }

    fn add(&mut self, what: impl FnOnce() -> String) {
        if self.found.len() < MAX_FINDINGS {
            self.found.push(format!("table {}: {}", self.table, what()));
        }
    }
}

/// Calls `visit` for every row, and `step` after each [`CHUNK`] of rows.
fn scan(
    transaction: &mut dyn Transaction,
    table: &Table,
    source: ScanSource,
    visit: &mut (dyn FnMut(Rid, RowRef<'_>) + Send),
    step: &mut (dyn FnMut(usize) + Send),
) -> Result<()> {
    let mut position: Option<Vec<u8>> = None;
    loop {
        let lower = match &position {
            Some(position) => Bound::Excluded(&position[..]),
            None => Bound::Unbounded,
        };
        let mut rows = 0;
        let progress = transaction.scan(
            &ScanRequest {
                storage: table.storage,
                source,
                bounds: Bounds {
                    lower,
                    upper: Bound::Unbounded,
                },
                direction: Direction::Forward,
                limit: CHUNK,
            },
            &mut |rid, row| {
                rows += 1;
                visit(rid, row);
                ControlFlow::Continue(())
            },
        )?;
        step(rows);
        match progress {
            ScanProgress::Complete => return Ok(()),
            ScanProgress::More(last) => position = Some(last),
        }
    }
}

/// Checks every row on its own, and returns the number of rows.
fn look_at_rows(
    transaction: &mut dyn Transaction,
    table: &Table,
    findings: &mut Findings<'_>,
    step: &mut (dyn FnMut(usize) + Send),
) -> Result<u64> {
    let mut rows = 0;
    let mut visit = |rid: Rid, row: RowRef<'_>| {
        rows += 1;
        if row.len() > table.cells {
            let (has, may) = (row.len(), table.cells);
            findings.add(|| format!("record {rid} has {has} cells, its table {may}"));
        }
        for column in &table.columns {
            let name = &column.name;
            match Value::from_cell(row.cell(column.cell()), column.column_type.data_type) {
                Ok(Value::Null) if column.not_null => {
                    findings
                        .add(|| format!("record {rid} has a null in {name}, which is NOT NULL"));
                }
                Ok(_) => {}
                Err(_) => {
                    let wanted = column.column_type;
                    findings.add(|| format!("record {rid}: its {name} is no {wanted}"));
                }
            }
        }
    };
    scan(transaction, table, ScanSource::Table, &mut visit, step)?;
    Ok(rows)
}

/// Walks an index and compares it with the table.
fn look_at_index(
    transaction: &mut dyn Transaction,
    (table, index, rows): (&Table, &Index, u64),
    findings: &mut Findings<'_>,
    step: &mut (dyn FnMut(usize) + Send),
) -> Result<()> {
    let extractor = index.definition().extractor;
    let name = &index.name;
    let mut listed = 0;
    let mut last: Option<(Rid, Vec<u8>)> = None;
    let mut visit = |rid: Rid, row: RowRef<'_>| {
        listed += 1;
        let mut key = Vec::new();
        let extracted = extractor.extract(row, &mut key);
        if let Some((before, previous)) = &last {
            if *previous > key {
                findings.add(|| format!("index {name}: record {rid} comes too late"));
            }
            let comparable = extracted == ExtractedKey::Comparable;
            if index.is_unique() && comparable && *previous == key {
                findings.add(|| {
                    format!("index {name} is unique, but records {before} and {rid} have one key")
                });
            }
        }
        last = Some((rid, key));
    };
    let source = ScanSource::Index(index.id);
    scan(transaction, table, source, &mut visit, step)?;
    if listed != rows {
        findings.add(|| format!("index {name} lists {listed} rows, the table has {rows}"));
    }
    Ok(())
}
