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

use coeval_types::{Lsn, Rid, RowRef, StorageId, Term, Timestamp};

use crate::chunks::Ticket;
use crate::frame::frame_bytes;
use crate::varint;

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

/// Bytes of a buffer that are kept for the next transaction.
const KEPT: usize = 64 << 10;

/// Collects the entries of one transaction; reusable, so that a commit allocates
/// nothing once its buffer has grown.
///
/// Entries of one record are kept in the order in which they were added. More
/// than fits one frame is cut into chunks, which [`crate::Log::poll_prepare`]
/// sends ahead.
#[derive(Debug)]
pub struct EntryBuilder {
    /// Most payload of one frame.
    limit: usize,
    entries: Vec<u8>,
    /// Where each part but the first starts in `entries`.
    cuts: Vec<usize>,
    /// How many parts have gone ahead as chunks.
    sent: usize,
    /// With cuts: references to the chunks sent and, once all but the last part
    /// are, that part: the commit frame's payload.
    commit: Vec<u8>,
    /// With chunks sent: keeps them in the log.
    ticket: Option<Ticket>,
}

impl EntryBuilder {
    /// An empty one for frames of at most `limit` bytes of payload.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: Vec::new(),
            cuts: Vec::new(),
            sent: 0,
            commit: Vec::new(),
            ticket: None,
        }
    }

    /// Empties it, keeping its buffers unless they are large. To be called when the
    /// transaction has ended: the log keeps chunks that were sent for it until then.
    pub fn clear(&mut self) {
        self.ticket = None;
        self.cuts.clear();
        self.sent = 0;
        for buffer in [&mut self.entries, &mut self.commit] {
            buffer.clear();
            buffer.shrink_to(KEPT);
        }
    }

    /// Memory of its buffers, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity() + self.commit.capacity()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The record has this whole row now.
    pub fn image(&mut self, storage: StorageId, rid: Rid, row: RowRef<'_>) {
        self.add(IMAGE, storage, rid, |entries| {
            varint::put(entries, row.bytes().len() as u64);
            entries.extend_from_slice(row.bytes());
        });
    }

    /// Cells of the record were changed, as [`RowRef::diff`] says, on the version
    /// committed at `previous`.
    pub fn patch(&mut self, storage: StorageId, rid: Rid, previous: Timestamp, patch: &[u8]) {
        self.add(PATCH, storage, rid, |entries| {
            varint::put(entries, u64::from(previous.term().0));
            varint::put(entries, previous.lsn().0 / Lsn::ALIGNMENT);
            varint::put(entries, patch.len() as u64);
            entries.extend_from_slice(patch);
        });
    }

    /// The record is gone.
    pub fn delete(&mut self, storage: StorageId, rid: Rid) {
        self.add(DELETE, storage, rid, |_| ());
    }

    fn add(&mut self, tag: u8, storage: StorageId, rid: Rid, rest: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(self.sent == 0, "entries added after chunks were sent");
        let start = self.entries.len();
        self.entries.push(tag);
        varint::put(&mut self.entries, u64::from(storage.0));
        varint::put(&mut self.entries, rid.0);
        rest(&mut self.entries);
        let part = self.cuts.last().copied().unwrap_or(0);
        if self.entries.len() - part > self.limit && start > part {
            self.cuts.push(start);
        }
    }

    /// The part to send ahead as the next chunk, if any is left.
    pub(crate) fn next_chunk(&self) -> Option<&[u8]> {
        let end = *self.cuts.get(self.sent)?;
        let start = match self.sent {
            0 => 0,
            sent => self.cuts[sent - 1],
        };
        Some(&self.entries[start..end])
    }

    /// To be called before the place of a chunk is drawn.
    pub(crate) fn before_chunk(&mut self, enter: impl FnOnce() -> Ticket) {
        if self.ticket.is_none() {
            self.ticket = Some(enter());
        }
    }

    /// Notes where the commit frame is. To be called before it is complete.
    pub(crate) fn committed_at(&self, lsn: Lsn) {
        if let Some(ticket) = &self.ticket {
            ticket.committed_at(lsn);
        }
    }

    /// Notes that the next chunk has gone to `lsn`.
    pub(crate) fn chunk_sent(&mut self, lsn: Lsn) {
        self.commit.push(CHUNK);
        varint::put(&mut self.commit, lsn.0 / Lsn::ALIGNMENT);
        self.sent += 1;
        if self.sent == self.cuts.len() {
            let last = *self.cuts.last().expect("a chunk was sent");
            self.commit.extend_from_slice(&self.entries[last..]);
        }
    }

    /// The commit frame's payload, when no chunk is left to send.
    pub(crate) fn commit_payload(&self) -> &[u8] {
        debug_assert!(self.next_chunk().is_none());
        if self.cuts.is_empty() {
            &self.entries
        } else {
            &self.commit
        }
    }

    /// Bytes of the commit frame, when no chunk is left to send.
    pub(crate) fn commit_frame_bytes(&self) -> u64 {
        frame_bytes(self.commit_payload().len() as u64)
    }

    /// Bytes of the longest part, which is a frame's payload.
    pub(crate) fn longest_part(&self) -> usize {
        let mut longest = 0;
        let mut start = 0;
        for end in self.cuts.iter().copied().chain([self.entries.len()]) {
            longest = longest.max(end - start);
            start = end;
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use coeval_types::RowBuilder;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Owned {
        Image(u32, u64, Vec<Option<Vec<u8>>>),
        Patch(u32, u64, u32, u64, Vec<u8>),
        Delete(u32, u64),
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let cells = prop::collection::vec(
            prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
            0..6,
        );
        prop_oneof![
            (any::<u32>(), any::<u64>(), cells).prop_map(|(s, r, c)| Owned::Image(s, r, c)),
            (
                any::<u32>(),
                any::<u64>(),
                0..=Term::MAX.0,
                0..1_u64 << 44,
                prop::collection::vec(any::<u8>(), 0..40),
            )
                .prop_map(|(s, r, t, o, p)| Owned::Patch(s, r, t, o * 8, p)),
            (any::<u32>(), any::<u64>()).prop_map(|(s, r)| Owned::Delete(s, r)),
        ]
    }

    #[test]
    fn buffers_of_a_large_transaction_are_given_back() {
        let mut builder = EntryBuilder::new(1 << 20);
        let mut row = RowBuilder::new();
        row.push(Some(&[1; 10_000]));
        let mut bytes = Vec::new();
        row.finish(&mut bytes);
        for rid in 0..1000 {
            builder.image(StorageId(1), Rid(rid), RowRef::trusted(&bytes));
        }
        assert!(builder.capacity() > 1000 * bytes.len());
        builder.clear();
        assert!(builder.is_empty());
        assert!(builder.capacity() <= 2 * KEPT);
    }

    fn add(builder: &mut EntryBuilder, entry: &Owned) {
        match entry {
            Owned::Image(storage, rid, cells) => {
                let mut row = RowBuilder::new();
                for cell in cells {
                    row.push(cell.as_deref());
                }
                let mut bytes = Vec::new();
                row.finish(&mut bytes);
                builder.image(StorageId(*storage), Rid(*rid), RowRef::trusted(&bytes));
            }
            Owned::Patch(storage, rid, term, lsn, patch) => builder.patch(
                StorageId(*storage),
                Rid(*rid),
                Timestamp::new(Term(*term), Lsn(*lsn)),
                patch,
            ),
            Owned::Delete(storage, rid) => builder.delete(StorageId(*storage), Rid(*rid)),
        }
    }

    fn check(item: Item<'_>, entry: &Owned) -> Result<(), TestCaseError> {
        match (item, entry) {
            (Item::Entry(Entry::Image { storage, rid, row }), Owned::Image(s, r, cells)) => {
                prop_assert_eq!((storage.0, rid.0), (*s, *r));
                prop_assert!(row.cells().eq(cells.iter().map(Option::as_deref)));
            }
            (
                Item::Entry(Entry::Patch {
                    storage,
                    rid,
                    previous,
                    patch,
                }),
                Owned::Patch(s, r, term, lsn, p),
            ) => {
                prop_assert_eq!((storage.0, rid.0), (*s, *r));
                prop_assert_eq!(previous, Timestamp::new(Term(*term), Lsn(*lsn)));
                prop_assert_eq!(patch, &p[..]);
            }
            (Item::Entry(Entry::Delete { storage, rid }), Owned::Delete(s, r)) => {
                prop_assert_eq!((storage.0, rid.0), (*s, *r));
            }
            (item, entry) => prop_assert!(false, "{item:?} for {entry:?}"),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn entries_come_back_whole_or_in_chunks(
            entries in prop::collection::vec(owned(), 0..30),
            limit in 1..2000_usize,
        ) {
            let mut builder = EntryBuilder::new(limit);
            for entry in &entries {
                add(&mut builder, entry);
            }
            let mut chunks = Vec::new();
            while let Some(chunk) = builder.next_chunk() {
                chunks.push(chunk.to_vec());
                builder.chunk_sent(Lsn(chunks.len() as u64 * 8));
            }
            // Put together again, what stands in place of a reference included.
            let mut whole = Vec::new();
            let mut rest = builder.commit_payload();
            for number in 1..=chunks.len() as u64 {
                prop_assert_eq!(take_item(&mut rest), Ok(Item::Chunk(Lsn(number * 8))));
                whole.extend_from_slice(&chunks[number as usize - 1]);
            }
            whole.extend_from_slice(rest);
            let mut rest = &whole[..];
            for entry in &entries {
                let mut skimmed = rest;
                let skim = skim_item(&mut skimmed).unwrap();
                let item = take_item(&mut rest).unwrap();
                prop_assert_eq!(rest, skimmed, "both pass over the same bytes");
                let Item::Entry(taken) = item else { panic!() };
                prop_assert_eq!(skim, Skimmed::Entry(taken.record().0, taken.record().1));
                check(item, entry)?;
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..60),
            tag in 0..6_u8,
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = tag;
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() && take_item(&mut rest).is_ok() {}
            let mut rest = &bytes[..];
            while !rest.is_empty() && skim_item(&mut rest).is_ok() {}
        }
    }

    #[test]
    fn parts_keep_to_the_limit_unless_one_entry_is_longer() {
        let mut builder = EntryBuilder::new(30);
        for rid in 0..50 {
            builder.patch(StorageId(1), Rid(rid), Timestamp::ZERO, &[7; 3]);
        }
        assert!(builder.longest_part() <= 30);
        builder.patch(StorageId(1), Rid(9), Timestamp::ZERO, &[7; 100]);
        assert!(builder.longest_part() > 100);
        builder.clear();
        assert!(builder.is_empty());
        assert_eq!(builder.commit_frame_bytes(), 32);
    }
}
