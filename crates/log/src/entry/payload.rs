//! The payload of one frame, as a list of pieces that are copied into the log from where
//! they are.
//!
//! The entries' heads and patches are in the builder's buffer; whole rows are in the
//! versions that the transaction made. A payload is the two interleaved in order, and is
//! copied into the log piece by piece:
//!
//! ```text
//!   buffer     image 1, 5, 7, 20 ┊ image 1, 5, 8, 30 ┊ delete 1, 5, 9
//!   rows                    20 bytes            30 bytes
//! ```
//!
//! # Invariant
//!
//! Rows are in the order of their positions, and each position is within the payload's
//! share of the buffer; `length` is the sum of all pieces.

/// A deferred row: it is copied into the log from the caller's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowToCome {
    /// Bytes of the builder's buffer before the row.
    pub(super) at: usize,
    /// The row's number among the caller's rows.
    pub(super) number: usize,
    pub(super) length: usize,
}

/// The pieces of a frame's payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'log> {
    /// Encoded references to chunks, the first piece of the payload.
    pub(super) references: &'log [u8],
    pub(super) buffer: &'log [u8],
    /// Where `buffer` starts in the builder's buffer, to which the rows' positions are
    /// relative.
    pub(super) start: usize,
    pub(super) rows: &'log [RowToCome],
    pub(super) length: usize,
}

impl<'log> Payload<'log> {
    /// A payload of a single piece.
    pub(crate) fn plain(bytes: &'log [u8]) -> Self {
        Self {
            references: &[],
            buffer: bytes,
            start: 0,
            rows: &[],
            length: bytes.len(),
        }
    }

    /// Bytes of all pieces together.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Passes the pieces in order to `take`. `row` returns the deferred rows by number.
    ///
    /// # Panics
    /// When a row has another length than was announced.
    #[inline]
    pub(crate) fn visit<'rows>(
        &self,
        row: impl Fn(usize) -> &'rows [u8],
        mut take: impl FnMut(&[u8]),
    ) {
        if !self.references.is_empty() {
            take(self.references);
        }
        let mut from = 0;
        for to_come in self.rows {
            let at = to_come.at - self.start;
            take(&self.buffer[from..at]);
            from = at;
            let row = row(to_come.number);
            assert_eq!(row.len(), to_come.length, "the row is the one noted");
            take(row);
        }
        if from < self.buffer.len() {
            take(&self.buffer[from..]);
        }
    }
}

/// The row lookup of a caller without deferred rows.
///
/// # Panics
/// Always: such a caller is never asked for a row.
pub(crate) fn no_rows(number: usize) -> &'static [u8] {
    panic!("row {number} was deferred, but its caller defers no rows")
}
