//! Row patches: the cells in which one row differs from another.
//!
//! ```text
//! u16 count, then count × { u16 column, u32 length or u32::MAX for null, bytes }
//! ```
//!
//! Columns ascend. Applying a patch makes a new row or, if every cell that it changes keeps
//! its length, overwrites the old row in place, which needs exclusive access ([`RowMut`]).
//!
//! ```
//! use coeval_types::{RowBuilder, RowMut, RowRef};
//!
//! let row = |cells: [&[u8]; 2]| {
//!     let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
//!     cells.map(|cell| builder.push(Some(cell)));
//!     builder.finish(&mut bytes);
//!     bytes
//! };
//! let (mut older, newer) = (row([b"key", b"10"]), row([b"key", b"11"]));
//! let mut patch = Vec::new();
//! assert!(RowRef::trusted(&older).diff(RowRef::trusted(&newer), &mut patch));
//! assert_eq!(RowMut::trusted(&mut older).patch(&patch), Ok(true));
//! assert_eq!(older, newer);
//! ```

use super::{MalformedRow, RowBuilder, RowRef};

/// Bytes that the count takes at the start of a patch.
const COUNT_BYTES: usize = 2;

/// Iterator over the cells of a patch: the column, and its bytes unless null.
struct Cells<'patch> {
    left: u16,
    /// The lowest column that may follow, since columns ascend.
    next: usize,
    rest: &'patch [u8],
}

impl<'patch> Cells<'patch> {
    fn of(patch: &'patch [u8]) -> Result<Self, MalformedRow> {
        let (&count, rest) = patch.split_first_chunk().ok_or(MalformedRow)?;
        Ok(Self {
            left: u16::from_le_bytes(count),
            next: 0,
            rest,
        })
    }

    /// Returns the next cell, whose column is below `columns`; `None` at the end of the
    /// patch.
    #[inline]
    #[expect(
        clippy::type_complexity,
        reason = "a column, and a cell as rows have it"
    )]
    fn take(
        &mut self,
        columns: usize,
    ) -> Result<Option<(usize, Option<&'patch [u8]>)>, MalformedRow> {
        if self.left == 0 {
            return if self.rest.is_empty() {
                Ok(None)
            } else {
                Err(MalformedRow)
            };
        }
        self.left -= 1;
        let (&column, rest) = self.rest.split_first_chunk().ok_or(MalformedRow)?;
        let (&length, rest) = rest.split_first_chunk().ok_or(MalformedRow)?;
        let column = usize::from(u16::from_le_bytes(column));
        if column < self.next || column >= columns {
            return Err(MalformedRow);
        }
        self.next = column + 1;
        let length = u32::from_le_bytes(length);
        if length == u32::MAX {
            self.rest = rest;
            return Ok(Some((column, None)));
        }
        let (bytes, rest) = rest.split_at_checked(length as usize).ok_or(MalformedRow)?;
        self.rest = rest;
        Ok(Some((column, Some(bytes))))
    }
}

impl RowRef<'_> {
    /// Appends to `patch` the cells in which `newer` differs from this row. Returns false,
    /// and appends nothing, when the two rows differ in their number of cells: then the
    /// caller has to log a full image.
    pub fn diff(self, newer: RowRef<'_>, patch: &mut Vec<u8>) -> bool {
        if self.len() != newer.len() {
            return false;
        }
        let count_at = patch.len();
        patch.extend_from_slice(&[0; COUNT_BYTES]);
        let mut count: u16 = 0;
        let mut note = |column: usize| {
            count += 1;
            patch.extend_from_slice(&(column as u16).to_le_bytes());
            match newer.cell(column) {
                None => patch.extend_from_slice(&u32::MAX.to_le_bytes()),
                Some(bytes) => {
                    patch.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                    patch.extend_from_slice(bytes);
                }
            }
        };
        if self.has_layout_of(newer) {
            self.each_changed_in_place(newer, note);
        } else {
            let changed = |&column: &usize| newer.cell(column) != self.cell(column);
            (0..newer.len()).filter(changed).for_each(&mut note);
        }
        patch[count_at..count_at + COUNT_BYTES].copy_from_slice(&count.to_le_bytes());
        true
    }

    /// Whether both rows have the same cell lengths and the same nulls.
    fn has_layout_of(self, other: RowRef<'_>) -> bool {
        let data = self.data_start();
        other.0.get(..data) == Some(&self.0[..data])
    }

    /// Calls `note` for each cell that differs from that of a row with the same layout.
    /// Compares runs of bytes rather than cell by cell: rows are wide and changes are
    /// small.
    fn each_changed_in_place(self, newer: RowRef<'_>, mut note: impl FnMut(usize)) {
        let data = self.data_start();
        let (old, new) = (&self.0[data..], &newer.0[data..]);
        let (mut at, mut column) = (0, 0);
        while let Some(same) = first_difference(&old[at..], &new[at..]) {
            at += same;
            // A null ends where the cell before it ends.
            while self.end(column).0 <= at {
                column += 1;
            }
            note(column);
            at = self.end(column).0;
            column += 1;
        }
    }

    /// Appends to `out` this row with `patch` applied. On an error, `out` is unchanged.
    pub fn patched(self, patch: &[u8], out: &mut Vec<u8>) -> Result<(), MalformedRow> {
        let mut cells = Cells::of(patch)?;
        let mut builder = RowBuilder::new();
        let mut column = 0;
        while let Some((changed, cell)) = cells.take(self.len())? {
            for same in column..changed {
                builder.push(self.cell(same));
            }
            builder.push(cell);
            column = changed + 1;
        }
        for same in column..self.len() {
            builder.push(self.cell(same));
        }
        builder.finish(out);
        Ok(())
    }
}

/// Offset of the first byte in which two byte strings differ, up to the length of the
/// shorter.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    const EACH: usize = 8;
    let mut pairs = one.chunks_exact(EACH).zip(other.chunks_exact(EACH));
    let whole = pairs.position(|(one, other)| one != other);
    let rest = whole.unwrap_or(one.len().min(other.len()) / EACH) * EACH;
    let mut bytes = one[rest..].iter().zip(&other[rest..]);
    bytes
        .position(|(one, other)| one != other)
        .map(|at| rest + at)
}

/// A row to which its holder has exclusive access, so that it may be changed in place.
#[derive(Debug)]
pub struct RowMut<'row>(&'row mut [u8]);

impl<'row> RowMut<'row> {
    /// Wraps bytes that a [`RowBuilder`] made, or that [`RowRef::parse`] has accepted
    /// before.
    #[must_use]
    pub fn trusted(bytes: &'row mut [u8]) -> Self {
        debug_assert!(RowRef::parse(bytes).is_ok());
        Self(bytes)
    }

    /// Applies `patch` in place if every cell that it changes keeps its length. Returns
    /// whether it did; otherwise, and on an error, the row is unchanged.
    pub fn patch(&mut self, patch: &[u8]) -> Result<bool, MalformedRow> {
        let row = RowRef(&*self.0);
        let columns = row.len();
        let mut fits = true;
        let mut cells = Cells::of(patch)?;
        while let Some((column, cell)) = cells.take(columns)? {
            fits &= row.cell(column).map(<[u8]>::len) == cell.map(<[u8]>::len);
        }
        if !fits {
            return Ok(false);
        }
        let mut cells = Cells::of(patch)?;
        while let Some((column, cell)) = cells.take(columns)? {
            let place = RowRef(&*self.0).place(column);
            if let (Some(cell), Some(place)) = (cell, place) {
                self.0[place].copy_from_slice(cell);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_patch_turns_one_row_into_the_other() {
        let older = row(&[Some(b"1"), Some(b"balance 10"), None, Some(b"filler")]);
        let newer = row(&[Some(b"1"), Some(b"balance 7"), Some(b""), None]);
        let (older, newer) = (RowRef::trusted(&older), RowRef::trusted(&newer));
        let mut patch = Vec::new();
        assert!(older.diff(newer, &mut patch));
        assert_eq!(patch[0], 3, "the first cell is the same in both");
        let mut out = Vec::new();
        older.patched(&patch, &mut out).unwrap();
        assert_eq!(out, newer.bytes());
    }

    #[test]
    fn rows_of_different_width_have_no_patch() {
        let (one, two) = (row(&[Some(b"1")]), row(&[Some(b"1"), None]));
        let mut patch = vec![9];
        assert!(!RowRef::trusted(&one).diff(RowRef::trusted(&two), &mut patch));
        assert_eq!(patch, [9]);
    }

    #[test]
    fn patches_that_fit_no_row_are_refused() {
        let good = row(&[Some(b"abc"), None, Some(b"d")]);
        let cell = |column: u8, byte: u8| [column, 0, 1, 0, 0, 0, byte];
        let bad = [
            vec![],
            vec![1],
            vec![1, 0],
            [&[1, 0][..], &cell(9, 0)].concat(),
            [&[1, 0][..], &cell(2, 0), &[0]].concat(),
            [&[1, 0][..], &cell(2, 0)[..6]].concat(),
            // The same column twice, and columns in descending order.
            [&[2, 0][..], &cell(2, 0), &cell(2, 1)].concat(),
            [&[2, 0][..], &cell(2, 0), &cell(1, 1)].concat(),
        ];
        for patch in bad {
            let mut out = vec![1];
            let applied = RowRef::trusted(&good).patched(&patch, &mut out);
            assert_eq!((applied, &out[..]), (Err(MalformedRow), &[1][..]));
            let mut there = good.clone();
            let applied = RowMut::trusted(&mut there).patch(&patch);
            assert_eq!((applied, &there), (Err(MalformedRow), &good), "{patch:?}");
        }
    }

    fn cells() -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
        // Few distinct lengths, so that many cells keep theirs.
        let cell = prop::collection::vec(any::<u8>(), 0..3);
        prop::collection::vec(prop::option::of(cell), 4)
    }

    proptest! {
        #[test]
        fn in_place_or_not_the_row_is_the_same(
            older in cells(),
            newer in cells(),
            wide: bool,
            at in any::<prop::sample::Index>(),
            byte: u8,
        ) {
            let filler = vec![3; if wide { 40_000 } else { 3 }];
            let bytes = |cells: &[Option<Vec<u8>>]| {
                let cells = cells.iter().map(Option::as_deref);
                row(&cells.chain([Some(&filler[..])]).collect::<Vec<_>>())
            };
            let fits = older.iter().zip(&newer).all(|(older, newer)| {
                older.as_ref().map(Vec::len) == newer.as_ref().map(Vec::len)
            });
            let (mut older, newer) = (bytes(&older), bytes(&newer));
            let mut patch = Vec::new();
            RowRef::trusted(&older).diff(RowRef::trusted(&newer), &mut patch);
            let mut made = Vec::new();
            RowRef::trusted(&older).patched(&patch, &mut made).unwrap();
            prop_assert_eq!(&made, &newer);
            let before = older.clone();
            prop_assert_eq!(RowMut::trusted(&mut older).patch(&patch), Ok(fits));
            prop_assert_eq!(&older, if fits { &newer } else { &before });
            // A corrupt patch never turns a row into bytes that are not a row.
            let at = at.index(patch.len());
            patch[at] = byte;
            let _ = RowMut::trusted(&mut older).patch(&patch);
            prop_assert!(RowRef::parse(&older).is_ok());
        }
    }
}
