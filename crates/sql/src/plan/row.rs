//! A stored row as values.

use coeval_types::RowRef;

use crate::catalog::Table;
use crate::value::DataType;
use crate::{Result, Value};

/// Reads a table's rows: which cells they have, of which types.
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
    /// Reads all of a table's columns.
    #[must_use]
    pub fn new(table: &Table) -> Self {
        Self::of(table, &|_| true)
    }

    /// Reads the columns for which `wanted` says so, by their positions. The
    /// others come as null.
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

    /// How many values a row becomes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Appends the row's values to `values`.
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
