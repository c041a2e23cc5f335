//! Little-endian fields, for log records, messages, and the decisions that the council keeps.

use bytes::Bytes;

use crate::timestamp::Epoch;

/// Error: the bytes end early, or hold a value that no writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are malformed")]
pub struct Malformed;

/// Reads fields from the front of some bytes.
#[derive(Clone, Debug)]
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<Bytes, Malformed> {
        if count > self.0.len() {
            return Err(Malformed);
        }
        Ok(self.0.split_to(count))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?;
        bytes[..]
            .try_into()
            .map(u32::from_le_bytes)
            .or(Err(Malformed))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?;
        bytes[..]
            .try_into()
            .map(u64::from_le_bytes)
            .or(Err(Malformed))
    }

    /// The number of a partition.
    pub(crate) fn index(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.u64()?).map_err(|_| Malformed)
    }

    /// The number of an epoch, below [`Epoch::LIMIT`].
    pub(crate) fn epoch(&mut self) -> Result<Epoch, Malformed> {
        let number = self.u64()?;
        match number < Epoch::LIMIT {
            true => Ok(Epoch(number)),
            false => Err(Malformed),
        }
    }

    /// Bytes with their length before them.
    pub(crate) fn bytes(&mut self) -> Result<Bytes, Malformed> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    /// Succeeds when nothing is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed),
        }
    }
}

/// Appends bytes with their length before them.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}
