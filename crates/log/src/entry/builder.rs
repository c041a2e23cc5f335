//! Collecting the entries of a transaction.
//!
//! How long a frame is has to be known before its place in the log is drawn, and its
//! bytes are wanted only afterwards, at that place. So a builder need not hold the
//! bytes, if it knows how many they are. Of a whole row it does not: it makes the
//! entry's head and notes which of the caller's rows belongs behind it, and the row goes
//! from the version into the log when the place is there. A patch is nowhere yet, and
//! is made in the builder's buffer, from which it is copied.
//!
//! ```text
//!   image_to_come(1, 5, number 0, 300 bytes)     patch_with(1, 6, …)
//!
//!   buffer   │ head │ head, patch … │            lengths: 4 + 300, 9 + 30
//!   rows            ▲ number 0, 300 bytes
//! ```
//!
//! # Invariant
//!
//! A caller's row is the same, and as long, from when it was noted until the transaction
//! has ended. Nothing of the log says so; the frame's length does, and whoever copies
//! the row asserts it.

use coeval_types::{Lsn, Rid, RowRef, StorageId, Timestamp};

use super::payload::{Payload, RowToCome};
use super::{CHUNK, DELETE, IMAGE, PATCH};
use crate::chunks::Ticket;
use crate::frame::frame_bytes;
use crate::varint;

/// Bytes of a buffer that are kept for the next transaction.
pub(super) const KEPT: usize = 64 << 10;

/// Collects the entries of one transaction; reusable, so that a commit allocates
/// nothing once its buffers have grown.
///
/// Entries of one record are kept in the order in which they were added. More
/// than fits one frame is cut into chunks, which [`crate::Log::poll_prepare`]
/// sends ahead.
#[derive(Debug)]
pub struct EntryBuilder {
    /// Most payload of one frame.
    limit: usize,
    /// The entries, without the rows to come.
    buffer: Vec<u8>,
    rows: Vec<RowToCome>,
    /// Bytes of all rows to come.
    to_come: usize,
    /// Where each part but the first starts.
    cuts: Vec<Position>,
    /// How many parts have gone ahead as chunks.
    sent: usize,
    /// To the chunks sent.
    references: Vec<u8>,
    /// With chunks sent: keeps them in the log.
    ticket: Option<Ticket>,
}

/// A place between two entries: what is before it.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// Of the buffer.
    buffer: usize,
    /// How many rows to come.
    rows: usize,
    /// Of all that is to be written.
    bytes: usize,
}

impl EntryBuilder {
    /// An empty one for frames of at most `limit` bytes of payload.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            rows: Vec::new(),
            to_come: 0,
            cuts: Vec::new(),
            sent: 0,
            references: Vec::new(),
            ticket: None,
        }
    }

    /// Empties it, keeping its buffers unless they are large. To be called when the
    /// transaction has ended: the log keeps chunks that were sent for it until then.
    pub fn clear(&mut self) {
        self.ticket = None;
        self.cuts.clear();
        self.sent = 0;
        self.to_come = 0;
        for buffer in [&mut self.buffer, &mut self.references] {
            buffer.clear();
            buffer.shrink_to(KEPT);
        }
        self.rows.clear();
        self.rows.shrink_to(KEPT / size_of::<RowToCome>());
    }

    /// Memory of its buffers, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
            + self.references.capacity()
            + self.rows.capacity() * size_of::<RowToCome>()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Bytes of all entries, with the rows to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() + self.to_come
    }

    /// The record has this whole row now, which is copied here.
    pub fn image(&mut self, storage: StorageId, rid: Rid, row: RowRef<'_>) {
        self.add(IMAGE, storage, rid, |entries| {
            varint::put(&mut entries.buffer, row.bytes().len() as u64);
            entries.buffer.extend_from_slice(row.bytes());
            true
        });
    }

    /// The record has a whole row of `length` bytes now, which the caller has under
    /// this number, and has until the transaction has ended. It is asked for when it
    /// goes into the log ([`crate::Reservation::commit_with`]).
    #[inline]
    pub fn image_to_come(&mut self, storage: StorageId, rid: Rid, number: usize, length: usize) {
        self.add(IMAGE, storage, rid, |entries| {
            varint::put(&mut entries.buffer, length as u64);
            entries.rows.push(RowToCome {
                at: entries.buffer.len(),
                number,
                length,
            });
            entries.to_come += length;
            true
        });
    }

    /// Cells of the record were changed, as [`RowRef::diff`] says, on the version
    /// committed at `previous`.
    pub fn patch(&mut self, storage: StorageId, rid: Rid, previous: Timestamp, patch: &[u8]) {
        self.patch_with(storage, rid, previous, |entries| {
            entries.extend_from_slice(patch);
            true
        });
    }

    /// The same with a patch that `make` appends to what it is given, in the place where
    /// the log takes it from. When `make` returns false, nothing is added, and this
    /// returns false as well.
    #[inline]
    pub fn patch_with(
        &mut self,
        storage: StorageId,
        rid: Rid,
        previous: Timestamp,
        make: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        self.add(PATCH, storage, rid, |entries| {
            let buffer = &mut entries.buffer;
            varint::put(buffer, u64::from(previous.term().0));
            varint::put(buffer, previous.lsn().0 / Lsn::ALIGNMENT);
            put_behind_its_length(buffer, make)
        })
    }

    /// The record is gone.
    pub fn delete(&mut self, storage: StorageId, rid: Rid) {
        self.add(DELETE, storage, rid, |_| true);
    }

    /// Adds an entry with what `rest` puts behind its record, unless that returns false.
    #[inline]
    fn add(
        &mut self,
        tag: u8,
        storage: StorageId,
        rid: Rid,
        rest: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        debug_assert!(self.sent == 0, "entries added after chunks were sent");
        let start = self.end();
        self.buffer.push(tag);
        varint::put(&mut self.buffer, u64::from(storage.0));
        varint::put(&mut self.buffer, rid.0);
        if !rest(self) {
            self.buffer.truncate(start.buffer);
            return false;
        }
        let part = self.cuts.last().copied().unwrap_or_default();
        if self.len() - part.bytes > self.limit && start.bytes > part.bytes {
            self.cuts.push(start);
        }
        true
    }

    fn end(&self) -> Position {
        Position {
            buffer: self.buffer.len(),
            rows: self.rows.len(),
            bytes: self.len(),
        }
    }

    /// What is between two positions.
    fn part(&self, start: Position, end: Position) -> Payload<'_> {
        Payload {
            references: &[],
            buffer: &self.buffer[start.buffer..end.buffer],
            start: start.buffer,
            rows: &self.rows[start.rows..end.rows],
            length: end.bytes - start.bytes,
        }
    }

    /// The part to send ahead as the next chunk, if any is left.
    pub(crate) fn next_chunk(&self) -> Option<Payload<'_>> {
        let end = *self.cuts.get(self.sent)?;
        let start = match self.sent {
            0 => Position::default(),
            sent => self.cuts[sent - 1],
        };
        Some(self.part(start, end))
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
        self.references.push(CHUNK);
        varint::put(&mut self.references, lsn.0 / Lsn::ALIGNMENT);
        self.sent += 1;
    }

    /// The commit frame's payload, when no chunk is left to send: references to those
    /// that were, and the last part.
    #[inline]
    pub(crate) fn commit_payload(&self) -> Payload<'_> {
        debug_assert!(self.next_chunk().is_none());
        let start = self.cuts.last().copied().unwrap_or_default();
        let last = self.part(start, self.end());
        Payload {
            references: &self.references,
            length: self.references.len() + last.length,
            ..last
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
        for end in self.cuts.iter().copied().chain([self.end()]) {
            longest = longest.max(end.bytes - start);
            start = end.bytes;
        }
        longest
    }
}

/// Appends what `make` appends, with its length in front, and returns what `make` does.
///
/// The length is known last and stands first. One byte is left for it, which is enough
/// for what most patches have, a few cells; behind a longer length the patch moves up.
#[inline]
fn put_behind_its_length(buffer: &mut Vec<u8>, make: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let length_at = buffer.len();
    buffer.push(0);
    let start = buffer.len();
    if !make(buffer) {
        return false;
    }
    let end = buffer.len();
    let length = end - start;
    if length < 0x80 {
        buffer[length_at] = length as u8;
        return true;
    }
    let mut bytes = [0; varint::MOST_BYTES];
    varint::put(buffer, length as u64);
    let width = buffer.len() - end;
    bytes[..width].copy_from_slice(&buffer[end..]);
    buffer.truncate(end + width - 1);
    buffer.copy_within(start..end, length_at + width);
    buffer[length_at..][..width].copy_from_slice(&bytes[..width]);
    true
}
