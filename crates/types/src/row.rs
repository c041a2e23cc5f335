//! The row format: immutable byte strings made of cells, one per column.
//!
//! A row does not know its columns' types; it knows where each cell begins and
//! whether it is null. That is all that storage, log and replication need in
//! order to ship and replay only the cells that changed.
//!
//! ```text
//!  u16 head          n end words                     data
//! +---------------+-------+-------+-- … --+--------+------------------- … --+
//! | wide | n cells | end 0 | end 1 |       | end n-1 | cell 0 | cell 1 |       |
//! +---------------+-------+-------+-- … --+--------+------------------- … --+
//! ```
//!
//! An end word holds the offset at which its cell's bytes end, counted from the start of
//! the data; its top bit marks a null (which has no bytes). End words are 16 bits, or 32 in
//! a *wide* row, whose data is 32 KiB or longer. All integers are little endian.
//!
//! The difference between two rows is a patch; see `patch`.
//!
//! Invariants: end words never decrease, the last one is the length of the data, a null's
//! end equals the end before it. [`RowRef::parse`] checks them, for bytes from a file or a
//! peer; [`RowBuilder`] only makes rows that satisfy them.

use std::fmt;
use std::ops::Range;

mod patch;

pub use patch::RowMut;

const WIDE: u16 = 1 << 15;
const MAX_CELLS: usize = (WIDE - 1) as usize;
const NULL_16: u16 = 1 << 15;
const NULL_32: u32 = 1 << 31;
const HEAD_BYTES: usize = 2;

/// Error: the bytes are not a row, or not a patch that fits the row. For bytes read from a
/// file or a peer, this means corruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedRow;

impl fmt::Display for MalformedRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("malformed row")
    }
}

impl std::error::Error for MalformedRow {}

/// A borrowed row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RowRef<'row>(&'row [u8]);

impl<'row> RowRef<'row> {
    /// Wraps bytes of untrusted origin, checking every invariant of a row.
    pub fn parse(bytes: &'row [u8]) -> Result<Self, MalformedRow> {
        if bytes.len() < HEAD_BYTES {
            return Err(MalformedRow);
        }
        let row = Self(bytes);
        let data_start = row.data_start();
        if bytes.len() < data_start {
            return Err(MalformedRow);
        }
        let mut previous = 0;
        for column in 0..row.len() {
            let (end, null) = row.end(column);
            if end < previous || (null && end != previous) {
                return Err(MalformedRow);
            }
            previous = end;
        }
        if data_start + previous != bytes.len() {
            return Err(MalformedRow);
        }
        Ok(row)
    }

    /// Wraps bytes that a [`RowBuilder`] made, or that [`RowRef::parse`] has accepted
    /// before.
    #[inline]
    #[must_use]
    pub fn trusted(bytes: &'row [u8]) -> Self {
        debug_assert!(Self::parse(bytes).is_ok());
        Self(bytes)
    }

    /// The encoded row, head and end words included.
    #[inline]
    #[must_use]
    pub fn bytes(self) -> &'row [u8] {
        self.0
    }

    #[inline]
    fn head(self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]])
    }

    /// Number of cells in the row.
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        usize::from(self.head() & !WIDE)
    }

    /// Whether the row has no cells.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    fn is_wide(self) -> bool {
        self.head() & WIDE != 0
    }

    fn data_start(self) -> usize {
        HEAD_BYTES + self.len() * if self.is_wide() { 4 } else { 2 }
    }

    /// Offset within the data at which a cell's bytes end, and whether the cell is null.
    #[inline]
    fn end(self, column: usize) -> (usize, bool) {
        if self.is_wide() {
            let at = HEAD_BYTES + column * 4;
            let word = u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"));
            ((word & !NULL_32) as usize, word & NULL_32 != 0)
        } else {
            let at = HEAD_BYTES + column * 2;
            let word = u16::from_le_bytes([self.0[at], self.0[at + 1]]);
            (usize::from(word & !NULL_16), word & NULL_16 != 0)
        }
    }

    /// The bytes of cell `column`, or `None` for a null. A column that the row does not
    /// have reads as null: it was added to the table later.
    #[inline]
    #[must_use]
    pub fn cell(self, column: usize) -> Option<&'row [u8]> {
        self.place(column).map(|place| &self.0[place])
    }

    /// The byte range of a cell within the row; `None` for a null and for a column that the
    /// row does not have.
    #[inline]
    fn place(self, column: usize) -> Option<Range<usize>> {
        let head = self.head();
        if head & WIDE != 0 {
            return self.place_in_wide(column);
        }
        let columns = usize::from(head);
        if column >= columns {
            return None;
        }
        // The cell's end word and the one before it; for the first cell the latter is the
        // row's head.
        let at = column * 2;
        let words: [u8; 4] = self.0[at..at + 4].try_into().expect("four bytes");
        let end = u16::from_le_bytes([words[2], words[3]]);
        if end & NULL_16 != 0 {
            return None;
        }
        let before = u16::from_le_bytes([words[0], words[1]]) & !NULL_16;
        let start = if column == 0 { 0 } else { before };
        let data = HEAD_BYTES + columns * 2;
        Some(data + usize::from(start)..data + usize::from(end))
    }

    #[cold]
    fn place_in_wide(self, column: usize) -> Option<Range<usize>> {
        if column >= self.len() || self.end(column).1 {
            return None;
        }
        let start = match column {
            0 => 0,
            _ => self.end(column - 1).0,
        };
        let data = self.data_start();
        Some(data + start..data + self.end(column).0)
    }

    /// Appends to `out` a copy of this row in which `cell` replaces the cell of `column`.
    pub fn with_cell(self, column: usize, cell: Option<&[u8]>, out: &mut Vec<u8>) {
        assert!(column < self.len(), "a column of the row");
        let start = match column {
            0 => 0,
            _ => self.end(column - 1).0,
        };
        let (end, _) = self.end(column);
        let head = self.data_start();
        let (before, bytes) = (end - start, cell.map_or(0, <[u8]>::len));
        let wide = usize::from(NULL_16);
        if self.is_wide() || self.0.len() - head - before + bytes >= wide {
            let mut builder = RowBuilder::new();
            for (at, its) in self.cells().enumerate() {
                builder.push(if at == column { cell } else { its });
            }
            return builder.finish(out);
        }
        let row = out.len();
        out.reserve(self.0.len() + bytes);
        out.extend_from_slice(&self.0[..head + start]);
        out.extend_from_slice(cell.unwrap_or_default());
        out.extend_from_slice(&self.0[head + end..]);
        for at in column..self.len() {
            let (end, null) = self.end(at);
            let null = if at == column { cell.is_none() } else { null };
            let end = (end - before + bytes) as u16 | if null { NULL_16 } else { 0 };
            let word = row + HEAD_BYTES + at * 2;
            out[word..word + 2].copy_from_slice(&end.to_le_bytes());
        }
    }

    /// All cells of the row, in column order.
    pub fn cells(self) -> impl Iterator<Item = Option<&'row [u8]>> {
        (0..self.len()).map(move |column| self.cell(column))
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.cells()).finish()
    }
}

/// Builds rows cell by cell. Reusable, so that building a row allocates nothing once the
/// builder's buffers have grown.
#[derive(Debug, Default)]
pub struct RowBuilder {
    ends: Vec<u32>,
    data: Vec<u8>,
}

impl RowBuilder {
    /// The maximum number of cells in a row.
    pub const MAX_CELLS: usize = MAX_CELLS;

    /// A builder with an empty row.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder with an empty row and capacity for `cells` cells of `bytes` bytes in
    /// total.
    #[must_use]
    pub fn with_capacity(cells: usize, bytes: usize) -> Self {
        Self {
            ends: Vec::with_capacity(cells),
            data: Vec::with_capacity(bytes),
        }
    }

    /// Appends a cell.
    #[inline]
    pub fn push(&mut self, cell: Option<&[u8]>) {
        match cell {
            None => self.push_null(),
            Some(bytes) => self.push_with(|data| data.extend_from_slice(bytes)),
        }
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        assert!(self.ends.len() < MAX_CELLS, "row of too many cells");
        self.ends.push(self.data.len() as u32 | NULL_32);
    }

    /// Appends a cell; `write` appends the cell's bytes to the data.
    ///
    /// # Panics
    /// When the row has more than 32,767 cells or 2 GiB of data; callers limit
    /// both long before.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        assert!(self.ends.len() < MAX_CELLS, "row of too many cells");
        write(&mut self.data);
        let end = u32::try_from(self.data.len()).expect("row under 2 GiB");
        assert!(end < NULL_32, "row under 2 GiB");
        self.ends.push(end);
    }

    /// Appends the finished row to `out` and starts a new, empty one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let wide = self.data.len() >= usize::from(NULL_16);
        let head = self.ends.len() as u16 | if wide { WIDE } else { 0 };
        out.reserve(HEAD_BYTES + self.ends.len() * 4 + self.data.len());
        out.extend_from_slice(&head.to_le_bytes());
        if wide {
            let words = self.ends.iter().flat_map(|end| end.to_le_bytes());
            out.extend(words);
        } else {
            let words = out.len();
            out.resize(words + self.ends.len() * 2, 0);
            for (word, &end) in out[words..].as_chunks_mut().0.iter_mut().zip(&self.ends) {
                // In a row below 32 KiB an end fits 15 bits, and the null bit, shifted down
                // by 16, becomes the top bit of the 16-bit end word.
                let null = (end >> 16) as u16;
                *word = (end as u16 | null).to_le_bytes();
            }
        }
        out.extend_from_slice(&self.data);
        self.ends.clear();
        self.data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn row(cells: &[Option<&[u8]>]) -> Vec<u8> {
        let mut builder = RowBuilder::new();
        for cell in cells {
            builder.push(*cell);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        bytes
    }

    #[test]
    fn cells_come_back() {
        let bytes = row(&[Some(b"a"), None, Some(b""), Some(b"xyz")]);
        let row = RowRef::parse(&bytes).unwrap();
        assert_eq!(row.len(), 4);
        assert_eq!(row.cell(0), Some(&b"a"[..]));
        assert_eq!(row.cell(1), None);
        assert_eq!(row.cell(2), Some(&b""[..]));
        assert_eq!(row.cell(3), Some(&b"xyz"[..]));
        assert_eq!(row.cell(4), None, "a column added later reads as null");
    }

    #[test]
    fn one_cell_is_replaced() {
        let long = vec![7; 40_000];
        let cells: [&[Option<&[u8]>]; 2] = [
            &[Some(b"a"), None, Some(b""), Some(b"xyz")],
            &[Some(b"a"), Some(&long), None],
        ];
        for cells in cells {
            let before = row(cells);
            for column in 0..cells.len() {
                for cell in [
                    None,
                    Some(&b""[..]),
                    Some(b"longer than before"),
                    Some(&long),
                ] {
                    let mut expected = cells.to_vec();
                    expected[column] = cell;
                    let mut made = vec![9];
                    RowRef::trusted(&before).with_cell(column, cell, &mut made);
                    assert_eq!(made[1..], row(&expected), "{column}");
                }
            }
        }
    }

    #[test]
    fn wide_rows_come_back() {
        let long = vec![7; 40_000];
        let bytes = row(&[Some(b"a"), Some(&long), None]);
        let row = RowRef::parse(&bytes).unwrap();
        assert_eq!(row.cell(1), Some(&long[..]));
        assert_eq!(row.cell(2), None);
    }

    #[test]
    fn damage_is_refused() {
        let good = row(&[Some(b"abc"), None, Some(b"d")]);
        for length in 0..good.len() {
            assert_eq!(RowRef::parse(&good[..length]), Err(MalformedRow));
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                // Either refused, or still a row whose every cell can be read.
                if let Ok(row) = RowRef::parse(&bad) {
                    assert_eq!(row.cells().count(), row.len());
                }
            }
        }
    }
}
