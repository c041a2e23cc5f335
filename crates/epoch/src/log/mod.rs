//! The log of a back end: one file for each sealed epoch, with a closing record; and checkpoints
//! at an epoch's end.
//!
//! ```text
//!   checkpoint-0000000000040        every key as of the end of epoch 40
//!   epoch-0000000000041.log         piece 41.0.1 | piece 41.0.2 | closing record 41
//!   epoch-0000000000042.log         piece 42.0.2 | piece 42.1.1 |           power fails
//! ```
//!
//! A file is written at once when its epoch is sealed, and synced once. The closing record says
//! that the file is whole, and which epoch was known to be closed everywhere when it was
//! written. A file without one was being written: what of it is whole is kept, but as part of
//! an epoch that is open, on whose transactions the manager decides by what *all* back ends
//! have.
//!
//! A resolution after a closing record appends to the same file: the pieces that were added,
//! records of the ones that go, and the closing record again.
//!
//! A start cuts off what is not whole at the end of the newest file, and says so by a record.
//! The next seal writes the pieces before it again, for they are not closed.
//!
//! # Invariants
//!
//! 1. Every file but the newest ends with a closing record, or with one that says that a start has
//!    ended it. Anything else is damage, and refused by file and offset.
//! 2. The file that a closing record names as the one before it is there, or a checkpoint has
//!    replaced it. Otherwise it was lost, and a start is refused: what is left would look whole.

mod checkpoint;
mod files;
mod inspect;
mod record;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::message::Piece;
use crate::timestamp::{Epoch, EpochTimestamp};

pub use checkpoint::Checkpoint;
pub use files::{LogError, LogFiles};
pub use inspect::Inspected;
use record::Record;
pub(crate) use record::{Batch, put_write, take_write};

/// What a directory held when it was read.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The newest checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Transactions after it, with their operations here.
    pub pieces: BTreeMap<EpochTimestamp, Piece>,
    /// The newest closing record.
    pub sealed: Epoch,
    /// The newest epoch that was known to be closed.
    pub closed: Epoch,
    /// The newest file after the checkpoint; 0 for none.
    pub newest_file: Epoch,
    /// Number of partitions of the cluster.
    pub partitions: usize,
}

/// Where a log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log of epoch {file} is {}", self.words())]
pub struct LogDamaged {
    /// The file.
    pub file: Epoch,
    /// Offset of the first record that is not whole; `None` for a file that is not there.
    pub offset: Option<usize>,
}

impl LogDamaged {
    fn words(&self) -> String {
        match self.offset {
            Some(offset) => format!("damaged at offset {offset}"),
            None => "missing".to_owned(),
        }
    }
}

impl Recovered {
    /// Reads the files of a log, in order, after a checkpoint.
    ///
    /// # Errors
    /// When a file before the newest is damaged, or missing.
    pub fn read(
        checkpoint: Option<Checkpoint>,
        files: &BTreeMap<Epoch, Vec<u8>>,
    ) -> Result<Self, LogDamaged> {
        let mut recovered = Self {
            partitions: checkpoint.as_ref().map_or(0, |found| found.partitions),
            ..Self::default()
        };
        let after = checkpoint.as_ref().map_or(Epoch(0), |found| found.epoch);
        recovered.checkpoint = checkpoint;
        let newest = files.keys().next_back();
        for (file, bytes) in files.range(after.plus(1)..) {
            let mut rest = Bytes::copy_from_slice(bytes);
            let mut is_whole = false;
            while let Some(record) = Record::take(&mut rest) {
                is_whole = record.is_last();
                if let Record::Close {
                    previous: Some(previous),
                    ..
                } = record
                    && previous > after
                    && previous < *file
                    && !files.contains_key(&previous)
                {
                    return Err(LogDamaged {
                        file: previous,
                        offset: None,
                    });
                }
                recovered.note(record);
            }
            recovered.newest_file = *file;
            if Some(file) != newest && (!is_whole || !rest.is_empty()) {
                return Err(LogDamaged {
                    file: *file,
                    offset: Some(bytes.len() - rest.len()),
                });
            }
        }
        Ok(recovered)
    }

    fn note(&mut self, record: Record) {
        match record {
            Record::Piece(piece) => {
                self.pieces.insert(piece.at, piece);
            }
            Record::Dropped(at) => {
                self.pieces.remove(&at);
            }
            Record::Torn => {}
            Record::Close {
                through,
                closed,
                partitions,
                previous: _,
            } => {
                self.sealed = self.sealed.max(through);
                self.closed = self.closed.max(closed);
                self.partitions = partitions as usize;
            }
        }
    }
}

/// Bytes at the end of a file that make no whole record, and whether the ones before them end it.
fn torn(bytes: &[u8]) -> (usize, bool) {
    let mut rest = Bytes::copy_from_slice(bytes);
    let mut is_whole = false;
    while let Some(record) = Record::take(&mut rest) {
        is_whole = record.is_last();
    }
    (rest.len(), is_whole)
}

/// Mends the newest file after a crash: cuts off what is not whole, and ends the file. Returns
/// whether it has changed.
pub fn mend(bytes: &mut Vec<u8>) -> bool {
    let (cut, is_whole) = torn(bytes);
    if is_whole && cut == 0 {
        return false;
    }
    bytes.truncate(bytes.len() - cut);
    if !is_whole {
        let mut batch = Batch::new(0);
        batch.torn();
        bytes.extend(batch.finish());
    }
    true
}
