//! Rows in the encoding of `coeval_types::row`, the same for both backends.
//!
//! A number takes four or eight bytes, by its column's kind, so that it can be changed in
//! place; a text is its bytes.

use coeval_types::{Rid, RowBuilder, RowRef};

use super::schema::{Column, ColumnKind, Table};

/// Access to a row's cells. A cell that is null, or of another kind than requested, reads
/// as 0 or as the empty text: the caller knows the columns.
pub trait Cells {
    /// The number in a column.
    fn integer(&self, column: usize) -> i64;

    /// The text in a column.
    fn text(&self, column: usize) -> &str;

    /// Whether the cell is null.
    fn is_null(&self, column: usize) -> bool;
}

fn number(cell: Option<&[u8]>) -> i64 {
    match cell {
        Some(bytes) if bytes.len() == 8 => {
            i64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        }
        Some(bytes) if bytes.len() == 4 => {
            i64::from(i32::from_le_bytes(bytes.try_into().expect("four bytes")))
        }
        _ => 0,
    }
}

impl Cells for RowRef<'_> {
    fn integer(&self, column: usize) -> i64 {
        number(self.cell(column))
    }

    fn text(&self, column: usize) -> &str {
        let bytes = self.cell(column).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn is_null(&self, column: usize) -> bool {
        self.cell(column).is_none()
    }
}

/// An owned row, reusable for further reads.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The encoded row; empty if it has no columns.
    bytes: Vec<u8>,
    /// Record id of the row, if known.
    pub(super) rid: Option<Rid>,
}

/// Encoding of a row without columns.
const EMPTY: &[u8] = &[0; 2];

impl Cells for Row {
    fn integer(&self, column: usize) -> i64 {
        number(self.row().cell(column))
    }

    fn text(&self, column: usize) -> &str {
        let bytes = self.row().cell(column).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn is_null(&self, column: usize) -> bool {
        self.row().cell(column).is_none()
    }
}

impl Row {
    /// A reference to the encoded row.
    #[must_use]
    pub fn row(&self) -> RowRef<'_> {
        RowRef::trusted(match &*self.bytes {
            [] => EMPTY,
            bytes => bytes,
        })
    }

    /// Replaces the row by a copy of one that was read.
    pub(super) fn take(&mut self, rid: Option<Rid>, row: RowRef<'_>) {
        self.rid = rid;
        self.bytes.clear();
        self.bytes.extend_from_slice(row.bytes());
    }

    /// Changes a number, in place if the cell has the right width.
    pub fn set_integer(&mut self, table: &Table, column: usize, value: i64) {
        let mut buffer = [0; 8];
        let bytes = encode(table.columns[column].kind, value, &mut buffer);
        self.set(column, bytes);
    }

    /// Changes the text in a column.
    pub fn set_text(&mut self, column: usize, text: &str) {
        self.set(column, text.as_bytes());
    }

    fn set(&mut self, column: usize, bytes: &[u8]) {
        if let Some(cell) = self.row().cell(column)
            && cell.len() == bytes.len()
        {
            let start = cell.as_ptr() as usize - self.bytes.as_ptr() as usize;
            self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
            return;
        }
        if column < self.row().len() {
            let mut changed = Vec::with_capacity(self.bytes.len() + bytes.len());
            self.row().with_cell(column, Some(bytes), &mut changed);
            self.bytes = changed;
        }
    }

    /// Copies these columns of another row.
    pub(super) fn adopt(&mut self, other: &Self, columns: &[usize]) {
        for &column in columns {
            let cell = other.row().cell(column).unwrap_or_default();
            self.set(column, cell);
        }
    }
}

fn encode(kind: ColumnKind, value: i64, buffer: &mut [u8; 8]) -> &[u8] {
    if kind == ColumnKind::Int {
        let value = i32::try_from(value).expect("a number that fits its column");
        buffer[..4].copy_from_slice(&value.to_le_bytes());
        &buffer[..4]
    } else {
        *buffer = value.to_le_bytes();
        buffer
    }
}

/// Builds rows cell by cell.
#[derive(Debug)]
pub struct Maker {
    builder: RowBuilder,
    at: usize,
}

impl Default for Maker {
    fn default() -> Self {
        // Enough capacity for most rows.
        Self {
            builder: RowBuilder::with_capacity(32, 512),
            at: 0,
        }
    }
}

impl Maker {
    /// A builder without cells.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a number as the next cell.
    ///
    /// # Panics
    /// If the number does not fit its column, which is a bug of the workload.
    pub fn integer(&mut self, table: &Table, value: i64) -> &mut Self {
        let Column { kind, .. } = table.columns[self.at];
        let mut buffer = [0; 8];
        self.builder.push(Some(encode(kind, value, &mut buffer)));
        self.at += 1;
        self
    }

    /// Appends a text as the next cell.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.builder.push(Some(text.as_bytes()));
        self.at += 1;
        self
    }

    /// Appends a null as the next cell.
    pub fn null(&mut self) -> &mut Self {
        self.builder.push_null();
        self.at += 1;
        self
    }

    /// Finishes the row and starts a new one.
    pub fn finish(&mut self, row: &mut Row) {
        self.at = 0;
        row.rid = None;
        row.bytes.clear();
        self.builder.finish(&mut row.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_and_changed() {
        let table = Table::new(
            "t",
            1,
            &[
                ("a", ColumnKind::Int),
                ("b", ColumnKind::Bigint),
                ("c", ColumnKind::Text),
            ],
        );
        let mut row = Row::default();
        let mut maker = Maker::new();
        maker.integer(&table, -7).null().text("seven");
        maker.finish(&mut row);
        assert_eq!(
            (row.integer(0), row.is_null(1), row.text(2)),
            (-7, true, "seven")
        );
        row.set_integer(&table, 0, 8);
        row.set_integer(&table, 1, i64::MIN);
        row.set_text(2, "eight of them");
        assert_eq!((row.integer(0), row.integer(1)), (8, i64::MIN));
        assert_eq!(row.text(2), "eight of them");
    }
}
