//! Entries: the redo records of the log, each with a transaction's change to one record.
//!
//! ```text
//! image   1, storage, rid, length, row
//! patch   2, storage, rid, previous term, previous offset / 8, length, cells
//! delete  3, storage, rid
//! chunk   4, offset / 8                    (a commit's, not a chunk's)
//! ```
//!
//! The first field is a byte, the numbers are [varints](crate::varint). A *patch* names
//! the commit timestamp of the version it changes: replay applies it to exactly that
//! version, and notices when that version is missing. A *chunk* reference in a commit
//! frame takes the place of the entries in that chunk frame, at the front; the chunk was
//! written in the commit's own term.
//!
//! [`EntryBuilder`] collects entries, and a [`Payload`] is the part of them that goes
//! into one frame; whole rows stay in their versions until they are copied into the log.

use coeval_types::{Lsn, Rid, RowRef, StorageId, Term, Timestamp};

use crate::varint;

mod builder;
mod payload;
#[cfg(test)]
mod tests;

pub use builder::EntryBuilder;
pub(crate) use payload::{Payload, no_rows};

const IMAGE: u8 = 1;
const PATCH: u8 = 2;
const DELETE: u8 = 3;
const CHUNK: u8 = 4;

/// A change to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'log> {
    /// The record was inserted, or replaced as a whole.
    Image {
        /// The storage that holds the record.
        storage: StorageId,
        /// Row id of the record in that storage.
        rid: Rid,
        /// The new row.
        row: RowRef<'log>,
    },
    /// Some cells of the record were changed.
    Patch {
        /// The storage that holds the record.
        storage: StorageId,
        /// Row id of the record in that storage.
        rid: Rid,
        /// Commit timestamp of the version that was changed.
        previous: Timestamp,
        /// The changed cells, for [`RowRef::patched`].
        patch: &'log [u8],
    },
    /// The record was deleted.
    Delete {
        /// The storage that holds the record.
        storage: StorageId,
        /// Row id of the record in that storage.
        rid: Rid,
    },
}

impl Entry<'_> {
    /// The changed record: its storage and its row id.
    #[must_use]
    pub fn record(&self) -> (StorageId, Rid) {
        match *self {
            Self::Image { storage, rid, .. }
            | Self::Patch { storage, rid, .. }
            | Self::Delete { storage, rid } => (storage, rid),
        }
    }
}

/// Error: the bytes are no valid entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedEntry;

/// One item of a commit's or a chunk's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'log> {
    Entry(Entry<'log>),
    /// A reference to the entries of the chunk frame that starts at this log offset.
    Chunk(Lsn),
}

/// An item of which only the record, or the chunk's offset, has been decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skimmed {
    /// An entry for this record.
    Entry(StorageId, Rid),
    Chunk(Lsn),
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    varint::take(bytes).and_then(|value| u32::try_from(value).ok())
}

fn take_record(bytes: &mut &[u8]) -> Option<(StorageId, Rid)> {
    Some((StorageId(take_u32(bytes)?), Rid(varint::take(bytes)?)))
}

fn take_lsn(bytes: &mut &[u8]) -> Option<Lsn> {
    let lsn = varint::take(bytes)?.checked_mul(Lsn::ALIGNMENT)?;
    (lsn < Lsn::LIMIT.0).then_some(Lsn(lsn))
}

fn take_timestamp(bytes: &mut &[u8]) -> Option<Timestamp> {
    let term = take_u32(bytes)?;
    let lsn = take_lsn(bytes)?;
    (term <= Term::MAX.0).then(|| Timestamp::new(Term(term), lsn))
}

fn take_bytes<'log>(bytes: &mut &'log [u8]) -> Option<&'log [u8]> {
    let length = usize::try_from(varint::take(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn take_tag(bytes: &mut &[u8]) -> Option<u8> {
    let (&tag, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(tag)
}

/// Decodes the item at the front of `bytes`, and advances past it.
pub(crate) fn take_item<'log>(bytes: &mut &'log [u8]) -> Result<Item<'log>, MalformedEntry> {
    fn take<'log>(bytes: &mut &'log [u8]) -> Option<Item<'log>> {
        let tag = take_tag(bytes)?;
        if tag == CHUNK {
            return Some(Item::Chunk(take_lsn(bytes)?));
        }
        let (storage, rid) = take_record(bytes)?;
        Some(Item::Entry(match tag {
            IMAGE => Entry::Image {
                storage,
                rid,
                row: RowRef::parse(take_bytes(bytes)?).ok()?,
            },
            PATCH => Entry::Patch {
                storage,
                rid,
                previous: take_timestamp(bytes)?,
                patch: take_bytes(bytes)?,
            },
            DELETE => Entry::Delete { storage, rid },
            _ => return None,
        }))
    }
    take(bytes).ok_or(MalformedEntry)
}

/// Skips the item at the front of `bytes`, decoding only its record and its length.
pub(crate) fn skim_item(bytes: &mut &[u8]) -> Result<Skimmed, MalformedEntry> {
    fn skim(bytes: &mut &[u8]) -> Option<Skimmed> {
        let tag = take_tag(bytes)?;
        if tag == CHUNK {
            return Some(Skimmed::Chunk(take_lsn(bytes)?));
        }
        let (storage, rid) = take_record(bytes)?;
        match tag {
            IMAGE => {
                take_bytes(bytes)?;
            }
            PATCH => {
                take_timestamp(bytes)?;
                take_bytes(bytes)?;
            }
            DELETE => {}
            _ => return None,
        }
        Some(Skimmed::Entry(storage, rid))
    }
    skim(bytes).ok_or(MalformedEntry)
}
