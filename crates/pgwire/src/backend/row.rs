//! An in-place encoder for rows and pieces of COPY data.

use bytes::BufMut;

use crate::Error;

/// Writes one DataRow or CopyData message into the output buffer: values are encoded where
/// they are sent from, and their lengths are filled in afterwards.
///
/// If dropped before [`RowWriter::finish`], it restores the buffer.
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
    /// Values not written yet, for a DataRow.
    missing: u16,
    finished: bool,
}

impl<'out> RowWriter<'out> {
    /// Begins a row of this many values; the caller then writes each with
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

    /// Begins a piece of COPY data, which the caller writes to [`RowWriter::bytes`].
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

    /// Writes one value: `write` appends it to the buffer.
    #[inline]
    pub fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.put_i32(0);
        write(self.out);
        self.set_length(start);
        self.count();
    }

    fn set_length(&mut self, start: usize) {
        // A length that does not fit makes the row too long, which `finish` reports.
        let length = i32::try_from(self.out.len() - start - 4).unwrap_or(i32::MAX);
        self.out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Writes one value: `write` appends it and returns true, or appends nothing and
    /// returns false for NULL.
    #[inline]
    pub fn optional(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.out.len();
        self.out.put_i32(-1);
        if write(self.out) {
            self.set_length(start);
        }
        self.count();
    }

    /// Writes a NULL.
    #[inline]
    pub fn null(&mut self) {
        self.out.put_i32(-1);
        self.count();
    }

    /// The buffer for a piece of COPY data. The caller only appends to it.
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
    /// When the message is longer than a client can receive; the buffer is then restored.
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
