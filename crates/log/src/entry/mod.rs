//! Entries: what a transaction did to one record each.
//!
//! ```text
//! image   1, storage, rid, length, row
//! patch   2, storage, rid, previous term, previous offset / 8, length, cells
//! delete  3, storage, rid
//! chunk   4, offset / 8                    (a commit's, not a chunk's)
//! ```
//!
//! The first is a byte, the numbers are [varints](crate::varint). A *patch* names
//! the commit timestamp of the version it changes: replay applies it to exactly
//! that version, and can tell when it is not there. A *chunk* reference stands in
//! a commit frame where the entries of that chunk frame belong, at the front; the
//! chunk was written in the commit's own term.
//!
//! [`EntryBuilder`] collects them, and what a frame takes of that is a [`Payload`]; both
//! leave whole rows where they are until they go into the log.

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

/// What happened to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'log> {
    /// It was inserted, or replaced as a whole.
    Image {
        /// Its storage.
        storage: StorageId,
        /// Its place there.
        rid: Rid,
        /// Its new row.
        row: RowRef<'log>,
    },
    /// Some of its cells were changed.
    Patch {
        /// Its storage.
        storage: StorageId,
        /// Its place there.
        rid: Rid,
        /// Commit timestamp of the version that was changed.
        previous: Timestamp,
        /// The change, for [`RowRef::patched`].
        patch: &'log [u8],
    },
    /// It was deleted.
    Delete {
        /// Its storage.
        storage: StorageId,
        /// Its place there.
        rid: Rid,
    },
}

impl Entry<'_> {
    /// Which record.
    #[must_use]
    pub fn record(&self) -> (StorageId, Rid) {
        match *self {
            Self::Image { storage, rid, .. }
            | Self::Patch { storage, rid, .. }
            | Self::Delete { storage, rid } => (storage, rid),
        }
    }
}

/// Bytes that are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedEntry;

/// One item of a commit's or a chunk's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'log> {
    Entry(Entry<'log>),
    /// The entries of the chunk frame that starts here.
    Chunk(Lsn),
}

/// Where one item is, without its contents having been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skimmed {
    /// An entry of this record.
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

/// Takes the item at the front of `bytes`.
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

/// Passes over the item at the front of `bytes`, looking only at what says whose
/// it is and how long.
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
