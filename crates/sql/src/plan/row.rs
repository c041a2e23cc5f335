//! Decoding of a stored row to values.

use coeval_types::RowRef;

use crate::catalog::Table;
use crate::value::DataType;
use crate::{Result, Value};

/// Decoder of a table's rows: knows which cells to decode, and their types.
#[derive(Clone, Debug)]
pub struct RowReader {
    columns: Box<[ReadColumn]>,
}

#[derive(Clone, Copy, Debug)]
struct ReadColumn {
    cell: usize,
    data_type: DataType,
    wanted: bool,
}

impl RowReader {
    /// A decoder of all columns of a table.
    #[must_use]
    pub fn new(table: &Table) -> Self {
        Self::of(table, &|_| true)
    }

    /// A decoder of the columns for whose positions `wanted` returns true. It returns
    /// null for the others.
    #[must_use]
    pub fn of(table: &Table, wanted: &dyn Fn(usize) -> bool) -> Self {
        Self {
            columns: table
                .columns
                .iter()
                .enumerate()
                .map(|(position, column)| ReadColumn {
                    cell: column.cell(),
                    data_type: column.column_type.data_type,
                    wanted: wanted(position),
                })
                .collect(),
        }
    }

    /// Number of values that a row decodes to.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Decodes the row and appends its values to `values`.
    #[inline]
    pub fn read(&self, row: RowRef<'_>, values: &mut Vec<Value>) -> Result<()> {
        values.reserve(self.columns.len());
        for column in &self.columns {
            values.push(if column.wanted {
                Value::from_cell(row.cell(column.cell), column.data_type)?
            } else {
                Value::Null
            });
        }
        Ok(())
    }
}
