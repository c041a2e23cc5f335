//! Records of an epoch's log file.
//!
//! ```text
//!  0     4        8
//! +-----+--------+------ … ------+
//! | crc | length | body          |
//! +-----+--------+------ … ------+
//!
//!  piece     1, timestamp, size of the transaction, count, then key and operation each
//!  dropped   2, timestamp
//!  close     3, epoch, newest epoch known to be closed, number of partitions
//!  torn      4: the write before was not finished; the next file repeats what is of it
//!  close     5, as 3, and the newest file before it, 0 for none: builds before the format of
//!            NODE was 2 wrote 3, and read no 5
//! ```
//!
//! The checksum (CRC32C) covers length and body. Numbers are little endian.

use std::sync::Arc;

use bytes::Bytes;

use crate::codec::{Malformed, Reader, put_bytes, put_u64};
use crate::message::Piece;
use crate::operation::{Operation, Write};
use crate::timestamp::{Epoch, EpochTimestamp};

const PIECE: u8 = 1;
const DROPPED: u8 = 2;
const CLOSE: u8 = 3;
const TORN: u8 = 4;
const CLOSE_AFTER: u8 = 5;

const VALUE: u8 = 0;
const DELETE: u8 = 1;
const COMPUTE: u8 = 2;

const HEAD: usize = 8;

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Piece(Piece),
    Dropped(EpochTimestamp),
    Close {
        through: Epoch,
        closed: Epoch,
        partitions: u64,
        /// The newest file that there was before; `None` in a record of an earlier build.
        previous: Option<Epoch>,
    },
    Torn,
}

impl Record {
    /// Whether a file may end with it.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Close { .. } | Self::Torn)
    }

    /// Takes the record at the front of `bytes`; `None` when no whole one is there.
    pub(super) fn take(bytes: &mut Bytes) -> Option<Self> {
        let word = |at: usize| {
            let field = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(field.try_into().ok()?))
        };
        let (sum, length) = (word(0)?, word(4)? as usize);
        let covered = bytes.get(4..HEAD.checked_add(length)?)?;
        if crc32c::crc32c(covered) != sum {
            return None;
        }
        let record = Self::decode(bytes.slice(HEAD..HEAD + length)).ok()?;
        *bytes = bytes.slice(HEAD + length..);
        Some(record)
    }

    fn decode(body: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let record = match reader.u8()? {
            PIECE => {
                let at = EpochTimestamp::from_bits(reader.u64()?);
                let size = reader.u32()?;
                let count = reader.u32()?;
                let writes = (0..count).map(|_| take_write(&mut reader));
                Self::Piece(Piece {
                    at,
                    size,
                    writes: Arc::new(writes.collect::<Result<_, _>>()?),
                })
            }
            DROPPED => Self::Dropped(EpochTimestamp::from_bits(reader.u64()?)),
            kind @ (CLOSE | CLOSE_AFTER) => Self::Close {
                through: reader.epoch()?,
                closed: reader.epoch()?,
                partitions: reader.u64()?,
                previous: match kind {
                    CLOSE => None,
                    _ => Some(reader.epoch()?),
                },
            },
            TORN => Self::Torn,
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(record)
    }
}

pub(crate) fn take_write(reader: &mut Reader) -> Result<Write, Malformed> {
    let key = reader.bytes()?;
    let operation = match reader.u8()? {
        VALUE => Operation::Value(reader.bytes()?),
        DELETE => Operation::Delete,
        COMPUTE => Operation::Compute(reader.bytes()?),
        _ => return Err(Malformed),
    };
    Ok(Write { key, operation })
}

pub(crate) fn put_write(out: &mut Vec<u8>, key: &[u8], operation: &Operation) {
    put_bytes(out, key);
    match operation {
        Operation::Value(bytes) => {
            out.push(VALUE);
            put_bytes(out, bytes);
        }
        Operation::Delete => out.push(DELETE),
        Operation::Compute(bytes) => {
            out.push(COMPUTE);
            put_bytes(out, bytes);
        }
    }
}

/// The records of one write.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    partitions: usize,
}

impl Batch {
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            bytes: Vec::new(),
            partitions,
        }
    }

    fn put(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.resize(start + HEAD, 0);
        body(&mut self.bytes);
        let length = (self.bytes.len() - start - HEAD) as u32;
        self.bytes[start + 4..start + HEAD].copy_from_slice(&length.to_le_bytes());
        let sum = crc32c::crc32c(&self.bytes[start + 4..]);
        self.bytes[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    }

    pub(crate) fn piece(&mut self, piece: &Piece) {
        self.put(|out| {
            out.push(PIECE);
            put_u64(out, piece.at.to_bits());
            out.extend(piece.size.to_le_bytes());
            out.extend((piece.writes.len() as u32).to_le_bytes());
            for write in piece.writes.iter() {
                put_write(out, &write.key, &write.operation);
            }
        });
    }

    pub(crate) fn dropped(&mut self, at: EpochTimestamp) {
        self.put(|out| {
            out.push(DROPPED);
            put_u64(out, at.to_bits());
        });
    }

    /// The closing record of the file of epoch `through`. `previous` is the newest file that there is.
    pub(crate) fn close(&mut self, through: Epoch, closed: Epoch, previous: Epoch) {
        let partitions = self.partitions as u64;
        self.put(|out| {
            out.push(CLOSE_AFTER);
            put_u64(out, through.0);
            put_u64(out, closed.0);
            put_u64(out, partitions);
            put_u64(out, previous.0);
        });
    }

    pub(super) fn torn(&mut self) {
        self.put(|out| out.push(TORN));
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::FrontEndId;

    #[test]
    fn records_come_back_and_any_changed_bit_ends_the_log() {
        let piece = Piece {
            at: EpochTimestamp::new(Epoch(7), 3, FrontEndId(1)),
            size: 5,
            writes: Arc::new(vec![
                Write {
                    key: Bytes::from_static(b"k"),
                    operation: Operation::Value(Bytes::from_static(b"value")),
                },
                Write {
                    key: Bytes::from_static(b"l"),
                    operation: Operation::Delete,
                },
                Write {
                    key: Bytes::from_static(b"m"),
                    operation: Operation::Compute(Bytes::from_static(b"+1")),
                },
            ]),
        };
        let mut batch = Batch::new(4);
        batch.piece(&piece);
        batch.dropped(piece.at);
        batch.close(Epoch(8), Epoch(6), Epoch(7));
        let bytes = batch.finish();
        let all = |bytes: &[u8]| {
            let mut rest = Bytes::copy_from_slice(bytes);
            std::iter::from_fn(|| Record::take(&mut rest)).collect::<Vec<_>>()
        };
        let whole = all(&bytes);
        let close = Record::Close {
            through: Epoch(8),
            closed: Epoch(6),
            partitions: 4,
            previous: Some(Epoch(7)),
        };
        assert_eq!(
            whole,
            [
                Record::Piece(piece.clone()),
                Record::Dropped(piece.at),
                close
            ]
        );
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(all(&bad).len() < 3, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(all(&bytes[..length]).len() < 3, "cut at {length}");
        }
    }
}
