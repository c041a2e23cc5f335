//! Rows and pieces of COPY data, written in place.

use bytes::BufMut;

use crate::Error;

/// Writes one DataRow or CopyData message into the output buffer: the value bytes
/// go where they are sent from, their lengths are filled in behind them.
///
/// Dropped before [`RowWriter::finish`], it leaves the buffer as it was.
///
/// ```
/// use coeval_pgwire::backend::RowWriter;
///
/// let mut out = Vec::new();
/// let mut row = RowWriter::data_row(&mut out, 2);
/// row.value(|bytes| bytes.extend_from_slice(b"42"));
/// row.null();
/// row.finish()?;
/// assert_eq!(&out[..], b"D\0\0\0\x10\0\x02\0\0\0\x0242\xff\xff\xff\xff");
/// # Ok::<(), coeval_pgwire::Error>(())
/// ```
#[derive(Debug)]
pub struct RowWriter<'out> {
    out: &'out mut Vec<u8>,
    start: usize,
    /// Values still to come, for a DataRow.
    missing: u16,
    finished: bool,
}

impl<'out> RowWriter<'out> {
    /// A row of this many values, each of which is then given by
    /// [`RowWriter::value`] or [`RowWriter::null`].
    #[must_use]
    pub fn data_row(out: &'out mut Vec<u8>, columns: u16) -> Self {
        let start = out.len();
        out.reserve(7 + 12 * usize::from(columns));
        out.extend_from_slice(b"D\0\0\0\0");
        out.put_u16(columns);
        Self {
            out,
            start,
            missing: columns,
            finished: false,
        }
    }

    /// A piece of COPY data, to be given by [`RowWriter::bytes`].
    #[must_use]
    pub fn copy_data(out: &'out mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(b"d\0\0\0\0");
        Self {
            out,
            start,
            missing: 0,
            finished: false,
        }
    }

    /// One value, written by `write` at the end of the buffer.
    #[inline]
    pub fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.put_i32(0);
        write(self.out);
        self.set_length(start);
        self.count();
    }

    fn set_length(&mut self, start: usize) {
        // A length that does not fit makes the row too long, which finish says.
        let length = i32::try_from(self.out.len() - start - 4).unwrap_or(i32::MAX);
        self.out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// One value that `write` writes at the end of the buffer, or none if `write`
    /// says false, having appended nothing.
    #[inline]
    pub fn optional(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.out.len();
        self.out.put_i32(-1);
        if write(self.out) {
            self.set_length(start);
        }
        self.count();
    }

    /// One missing value.
    #[inline]
    pub fn null(&mut self) {
        self.out.put_i32(-1);
        self.count();
    }

    /// Where a piece of COPY data goes. Only append.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        self.out
    }

    fn count(&mut self) {
        debug_assert!(self.missing > 0, "more values than columns");
        self.missing = self.missing.saturating_sub(1);
    }

    /// Completes the message.
    ///
    /// # Errors
    /// When it is longer than a client can take; nothing is left of it then.
    #[inline]
    pub fn finish(mut self) -> Result<(), Error> {
        assert_eq!(self.missing, 0, "fewer values than columns");
        self.finished = true;
        super::finish(self.out, self.start)
    }
}

impl Drop for RowWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_row_leaves_nothing() {
        let mut out = b"before".to_vec();
        let mut row = RowWriter::data_row(&mut out, 2);
        row.value(|bytes| bytes.put_slice(b"half"));
        drop(row);
        assert_eq!(&out[..], b"before");
    }

    #[test]
    fn copy_data_is_framed() {
        let mut out = Vec::new();
        let mut piece = RowWriter::copy_data(&mut out);
        piece.bytes().put_slice(b"1\tone\n");
        piece.finish().unwrap();
        assert_eq!(&out[..], b"d\0\0\0\x0a1\tone\n");
    }
}
