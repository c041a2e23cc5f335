//! The record format of the database's own rows (tables, roles, outcomes): little endian
//! integers, strings as a length and UTF-8, lists as a count and their items.
//!
//! A storage keeps such a row like a user's, with the row's key in the first cell.

use coeval_types::{ExtractedKey, KeyExtractor, Remedy, RowRef};

use crate::error::{Error, Result};

/// The error for a catalog row that cannot be decoded: the database is unusable then.
pub(crate) fn damaged(what: &str) -> Error {
    Error::internal(format!("a catalog row cannot be read: {what}")).with_remedy(Remedy::Fatal)
}

/// Key extractor for these rows: the key is the first cell.
#[derive(Debug)]
pub(crate) struct FirstCell;

impl KeyExtractor for FirstCell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(0).unwrap_or_default());
        ExtractedKey::Comparable
    }
}

/// The schema's definition has limited the count: it is far below 65,536.
pub(crate) fn count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u16).to_le_bytes());
}

pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Decoder that reads from front to back; every method fails rather than read past the
/// end.
pub(crate) struct Reader<'bytes>(pub(crate) &'bytes [u8]);

impl<'bytes> Reader<'bytes> {
    fn take(&mut self, length: usize) -> Result<&'bytes [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| damaged("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH]> {
        Ok(self.take(LENGTH)?.try_into().expect("as long as asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        let length = self.u32()? as usize;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| damaged("a name is not UTF-8"))
    }

    /// A reader of the next `length` bytes.
    pub(crate) fn part(&mut self, length: usize) -> Result<Self> {
        Ok(Self(self.take(length)?))
    }

    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.u16()?;
        (0..count).map(|_| item(self)).collect()
    }

    /// Fails unless all bytes have been read.
    pub(crate) fn end(&self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(damaged("there are bytes behind its end"))
        }
    }
}
