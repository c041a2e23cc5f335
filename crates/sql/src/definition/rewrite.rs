//! Table rewrites and full-table checks in DDL.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use coeval_txn::{Bounds, Direction, Insert, ScanProgress, ScanRequest, ScanSource, TableLock};
use coeval_types::{RowBuilder, RowRef};

use super::Change;
use crate::catalog::{PUBLIC, Table, TableColumn, key_text};
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, Expression};
use crate::plan::RowReader;

/// Number of rows read in one step.
const CHUNK: usize = 256;

/// Source of a cell of a rewritten row.
pub(super) enum NewCell {
    /// Cell of the old row, by position.
    Old(usize),
    /// A constant cell.
    Fixed(Option<Vec<u8>>),
    /// A cell that is computed for each row, over the old row's columns, for this column.
    Computed(Expression, TableColumn),
}

impl NewCell {
    /// The cells of a table's rows as they are, for a copy: those of dropped columns are null
    /// in it, since nothing reads their values again.
    pub(super) fn kept(table: &Table) -> Vec<Self> {
        Self::of_columns(table.cells, table.columns.iter().map(TableColumn::cell))
    }

    fn of_columns(cells: usize, columns: impl Iterator<Item = usize>) -> Vec<Self> {
        let mut kept: Vec<Self> = (0..cells).map(|_| Self::Fixed(None)).collect();
        for cell in columns {
            kept[cell] = Self::Old(cell);
        }
        kept
    }
}

impl Change<'_> {
    /// Passes every row of a table to a visitor. The caller holds the table's exclusive
    /// lock.
    pub(super) async fn each_row(
        &mut self,
        table: &Table,
        mut visit: impl FnMut(RowRef<'_>) -> Result<()> + Send,
    ) -> Result<()> {
        let mut position: Option<Vec<u8>> = None;
        loop {
            self.check_canceled()?;
            let mut failure = None;
            let progress = self.transaction().scan(
                &ScanRequest {
                    storage: table.storage,
                    source: ScanSource::Table,
                    bounds: Bounds {
                        lower: match &position {
                            Some(position) => Bound::Excluded(position),
                            None => Bound::Unbounded,
                        },
                        upper: Bound::Unbounded,
                    },
                    direction: Direction::Forward,
                    limit: CHUNK,
                },
                &mut |_, row| match visit(row) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failure = Some(error);
                        ControlFlow::Break(())
                    }
                },
            )?;
            if let Some(error) = failure {
                return Err(error);
            }
            match progress {
                ScanProgress::Complete => return Ok(()),
                ScanProgress::More(last) => position = Some(last),
            }
            coeval_env::yield_now().await;
        }
    }

    /// Fails if a row has a null in one of these columns.
    pub(super) async fn refuse_nulls(
        &mut self,
        table: &Table,
        columns: &[TableColumn],
    ) -> Result<()> {
        let cells: Vec<(usize, String)> = columns
            .iter()
            .map(|column| (column.cell(), column.name.clone()))
            .collect();
        self.require_all_rows("checking every row")?;
        let name = table.name.clone();
        self.each_row(table, move |row| {
            match cells.iter().find(|(cell, _)| row.cell(*cell).is_none()) {
                None => Ok(()),
                Some((_, column)) => Err(null_found(&name, column)),
            }
        })
        .await
    }

    /// Copies every row of `old`, whose exclusive lock the caller holds, to the new
    /// storage of `new`, with the given cells.
    pub(super) async fn copy_rows(
        &mut self,
        old: &Table,
        new: &Table,
        cells: &[NewCell],
    ) -> Result<()> {
        self.require_all_rows("rewriting a table")?;
        self.attach(new)?;
        self.context.storages.note_replaced(old.storage);
        // No other transaction can reach the new storage, but a further change in this
        // statement expects the lock.
        coeval_txn::lock_table(
            &mut *self.context.transaction,
            new.storage,
            TableLock::AccessExclusive,
            new.schema_version,
        )
        .await?;
        let mut position: Option<Vec<u8>> = None;
        loop {
            self.check_canceled()?;
            let mut rows: Vec<Vec<u8>> = Vec::with_capacity(CHUNK);
            let progress = self.transaction().scan(
                &ScanRequest {
                    storage: old.storage,
                    source: ScanSource::Table,
                    bounds: Bounds {
                        lower: match &position {
                            Some(position) => Bound::Excluded(position),
                            None => Bound::Unbounded,
                        },
                        upper: Bound::Unbounded,
                    },
                    direction: Direction::Forward,
                    limit: CHUNK,
                },
                &mut |_, row| {
                    rows.push(row.bytes().to_vec());
                    ControlFlow::Continue(())
                },
            )?;
            let rows = self.rewritten(old, new, &rows, cells)?;
            for row in &rows {
                let row = RowRef::trusted(row);
                let inserted =
                    coeval_txn::insert(&mut *self.context.transaction, new.storage, row).await?;
                if let Insert::Duplicate { index, .. } = inserted {
                    let index = new
                        .index(index)
                        .ok_or_else(|| Error::internal("an index that the table does not have"))?;
                    return Err(Error::new(
                        SqlState::UNIQUE_VIOLATION,
                        format!("could not create unique index \"{}\"", index.name),
                    )
                    .with_detail(format!("Key {} is duplicated.", key_text(new, index, row)?)));
                }
            }
            match progress {
                ScanProgress::Complete => return Ok(()),
                ScanProgress::More(last) => position = Some(last),
            }
            // Lets other tasks run between chunks.
            coeval_env::yield_now().await;
        }
    }
}

impl Change<'_> {
    /// Rows of `old` as rows of `new`.
    fn rewritten(
        &mut self,
        old: &Table,
        new: &Table,
        rows: &[Vec<u8>],
        cells: &[NewCell],
    ) -> Result<Vec<Vec<u8>>> {
        let computes = cells
            .iter()
            .any(|cell| matches!(cell, NewCell::Computed(..)));
        let reader = RowReader::of(old, &|_| computes);
        let catalog = Arc::clone(&self.catalog);
        let transaction = &mut *self.context.transaction;
        let mut context = EvaluationContext::new(self.session, &catalog, &[], Some(transaction));
        context.engine = Some(self.context.engine);
        let mut builder = RowBuilder::new();
        let mut values = Vec::new();
        let mut rewritten = Vec::with_capacity(rows.len());
        for row in rows {
            let row = RowRef::trusted(row);
            values.clear();
            reader.read(row, &mut values)?;
            for cell in cells {
                match cell {
                    NewCell::Old(cell) => builder.push(row.cell(*cell)),
                    NewCell::Fixed(value) => builder.push(value.as_deref()),
                    NewCell::Computed(expression, column) => {
                        let value = expression.evaluate(&mut context, &values)?;
                        if !value.is_null() {
                            builder.push_with(|out| value.write_cell(out));
                        } else if column.not_null {
                            return Err(null_found(&new.name, &column.name));
                        } else {
                            builder.push_null();
                        }
                    }
                }
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            rewritten.push(bytes);
        }
        Ok(rewritten)
    }
}

/// SQLSTATE 23502, `not_null_violation`: an existing row contains a null.
fn null_found(table: &str, column: &str) -> Error {
    Error::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("column \"{column}\" of relation \"{table}\" contains null values"),
    )
    .with_table(PUBLIC, table)
    .with_column(column)
}

#[cfg(test)]
mod tests {
    use super::NewCell;

    #[test]
    fn values_of_dropped_columns_are_not_copied() {
        let kept = NewCell::of_columns(4, [0, 2].into_iter());
        assert!(matches!(
            kept[..],
            [
                NewCell::Old(0),
                NewCell::Fixed(None),
                NewCell::Old(2),
                NewCell::Fixed(None)
            ]
        ));
    }
}
