//! The payload of one frame, where its pieces lie.
//!
//! What a builder has made for the log itself lies in its buffer; whole rows lie where
//! the versions are that the transaction made. A payload is the two in their order,
//! and is copied into the log piece by piece:
//!
//! ```text
//!   buffer     image 1, 5, 7, 20 ┊ image 1, 5, 8, 30 ┊ delete 1, 5, 9
//!   rows                    20 bytes            30 bytes
//! ```
//!
//! # Invariant
//!
//! Rows are in the order of their places, and each place lies within the payload's
//! share of the buffer; `length` is the sum of all pieces.

/// A row that goes into the log from where the caller has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowToCome {
    /// What is before it in the builder's buffer.
    pub(super) at: usize,
    /// Its number among the caller's rows.
    pub(super) number: usize,
    pub(super) length: usize,
}

/// The pieces of a frame's payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'log> {
    /// References to chunks, which are in front of everything.
    pub(super) references: &'log [u8],
    pub(super) buffer: &'log [u8],
    /// Where `buffer` starts in the builder's, from which the rows' places count.
    pub(super) start: usize,
    pub(super) rows: &'log [RowToCome],
    pub(super) length: usize,
}

impl<'log> Payload<'log> {
    /// One that is a single piece.
    pub(crate) fn plain(bytes: &'log [u8]) -> Self {
        Self {
            references: &[],
            buffer: bytes,
            start: 0,
            rows: &[],
            length: bytes.len(),
        }
    }

    /// Bytes of all pieces.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Hands over the pieces in order. `row` has the rows that are to come.
    ///
    /// # Panics
    /// When a row is not as long as was said when it was noted.
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

/// The rows of who has noted none.
///
/// # Panics
/// When it is asked for one.
pub(crate) fn no_rows(number: usize) -> &'static [u8] {
    panic!("row {number} was noted, and nobody has it")
}
