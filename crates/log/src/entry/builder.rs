//! The entry builder: collects the redo entries of a transaction until its commit.
//!
//! A frame's length must be known before its log space is reserved, and its bytes are
//! needed only afterwards. So a builder need not hold the bytes of a whole row: it writes
//! the entry's head and records which of the caller's rows follows it, and the row is
//! copied from its version into the log once the space is reserved. A patch exists
//! nowhere yet: it is built in the builder's buffer, and copied from there.
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
//! A deferred row keeps its contents and length from when it was announced until the
//! transaction has ended. The log cannot check the contents; the frame depends on the
//! length, and the copy asserts it.

use coeval_types::{Lsn, Rid, RowRef, StorageId, Timestamp};

use super::payload::{Payload, RowToCome};
use super::{CHUNK, DELETE, IMAGE, PATCH};
use crate::chunks::Ticket;
use crate::frame::frame_bytes;
use crate::varint;

/// Capacity of a buffer that is kept for the next transaction, in bytes.
pub(super) const KEPT: usize = 64 << 10;

/// Collects the entries of one transaction; reusable, so that a commit allocates
/// nothing once its buffers have grown.
///
/// The builder keeps the entries of one record in the order in which they were added.
/// Entries that do not fit one frame are split into chunks, which
/// [`crate::Log::poll_prepare`] writes ahead.
#[derive(Debug)]
pub struct EntryBuilder {
    /// Most payload bytes of one frame.
    limit: usize,
    /// The entries, without the deferred rows.
    buffer: Vec<u8>,
    rows: Vec<RowToCome>,
    /// Bytes of all deferred rows.
    to_come: usize,
    /// Positions at which the parts after the first start.
    cuts: Vec<Position>,
    /// Number of parts that have been written ahead as chunks.
    sent: usize,
    /// Encoded references to the chunks that were written.
    references: Vec<u8>,
    /// Whether the transaction only frees space on the disk.
    only_frees: bool,
    /// Keeps written chunks from being truncated; `None` without chunks.
    ticket: Option<Ticket>,
}

/// A position between two entries, as the amounts before it.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// Bytes of the buffer before it.
    buffer: usize,
    /// Deferred rows before it.
    rows: usize,
    /// Payload bytes before it, deferred rows included.
    bytes: usize,
}

impl EntryBuilder {
    /// An empty builder for frames of at most `limit` bytes of payload.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            rows: Vec::new(),
            to_come: 0,
            cuts: Vec::new(),
            sent: 0,
            references: Vec::new(),
            only_frees: false,
            ticket: None,
        }
    }

    /// Empties the builder, keeping its buffers unless they are large. The caller calls
    /// it when the transaction has ended: the log retains the chunks written for it until
    /// then.
    pub fn clear(&mut self) {
        self.ticket = None;
        self.only_frees = false;
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

    /// Whether the builder has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Bytes of all entries, deferred rows included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() + self.to_come
    }

    /// Most bytes that the row of one entry may have, so that the entry fits a frame
    /// whichever record it is for.
    #[must_use]
    pub const fn longest_row(frame_payload_bytes: usize) -> usize {
        /// The tag, the storage, a record below 2³⁵, and the row's length.
        const HEAD_BYTES: usize = 1 + 5 + 5 + 4;
        frame_payload_bytes.saturating_sub(HEAD_BYTES)
    }

    /// Says whether the transaction only frees space on the disk: it may then commit while
    /// the disk is full, out of the log's reserve.
    pub fn set_only_frees(&mut self, only_frees: bool) {
        self.only_frees = only_frees;
    }

    pub(crate) fn only_frees(&self) -> bool {
        self.only_frees
    }

    /// Adds an entry for an inserted or replaced record, with a copy of its whole row.
    pub fn image(&mut self, storage: StorageId, rid: Rid, row: RowRef<'_>) {
        self.add(IMAGE, storage, rid, |entries| {
            varint::put(&mut entries.buffer, row.bytes().len() as u64);
            entries.buffer.extend_from_slice(row.bytes());
            true
        });
    }

    /// Adds an entry for an inserted or replaced record without copying its row. The
    /// caller keeps the row of `length` bytes under `number` until the transaction has
    /// ended; the log asks for it when it copies the commit
    /// ([`crate::Reservation::commit_with`]).
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

    /// Adds an entry for changed cells of a record: a patch made by [`RowRef::diff`]
    /// against the version committed at `previous`.
    pub fn patch(&mut self, storage: StorageId, rid: Rid, previous: Timestamp, patch: &[u8]) {
        self.patch_with(storage, rid, previous, |entries| {
            entries.extend_from_slice(patch);
            true
        });
    }

    /// Like [`EntryBuilder::patch`], with a patch that `make` appends to the given
    /// buffer, from which the log copies it. When `make` returns false, nothing is added,
    /// and this returns false as well.
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

    /// Adds an entry for a deleted record.
    pub fn delete(&mut self, storage: StorageId, rid: Rid) {
        self.add(DELETE, storage, rid, |_| true);
    }

    /// Adds an entry whose part after the record is written by `rest`, unless `rest`
    /// returns false.
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

    /// The payload between two positions.
    fn part(&self, start: Position, end: Position) -> Payload<'_> {
        Payload {
            references: &[],
            buffer: &self.buffer[start.buffer..end.buffer],
            start: start.buffer,
            rows: &self.rows[start.rows..end.rows],
            length: end.bytes - start.bytes,
        }
    }

    /// The part to write ahead as the next chunk, if any is left.
    pub(crate) fn next_chunk(&self) -> Option<Payload<'_>> {
        let end = *self.cuts.get(self.sent)?;
        let start = match self.sent {
            0 => Position::default(),
            sent => self.cuts[sent - 1],
        };
        Some(self.part(start, end))
    }

    /// Enters the transaction into the table of open chunks. Called before a chunk's
    /// space is reserved.
    pub(crate) fn before_chunk(&mut self, enter: impl FnOnce() -> Ticket) {
        if self.ticket.is_none() {
            self.ticket = Some(enter());
        }
    }

    /// Records the log offset of the commit frame. Called before that frame is complete.
    pub(crate) fn committed_at(&self, lsn: Lsn) {
        if let Some(ticket) = &self.ticket {
            ticket.committed_at(lsn);
        }
    }

    /// Records that the next chunk has been written at `lsn`.
    pub(crate) fn chunk_sent(&mut self, lsn: Lsn) {
        self.references.push(CHUNK);
        varint::put(&mut self.references, lsn.0 / Lsn::ALIGNMENT);
        self.sent += 1;
    }

    /// The commit frame's payload, once no chunk is left to write: references to the
    /// chunks, and the last part.
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

    /// Bytes of the commit frame, once no chunk is left to write.
    pub(crate) fn commit_frame_bytes(&self) -> u64 {
        frame_bytes(self.commit_payload().len() as u64)
    }

    /// Bytes of the longest part, the largest payload of any frame.
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

/// Appends the bytes that `make` appends, preceded by their length, and returns the
/// result of `make`.
///
/// The length is known last and comes first. One byte is left for it, which suffices for
/// most patches, of a few cells; for a longer length the patch is moved.
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
    let mut bytes = [0; varint::MAX_BYTES];
    varint::put(buffer, length as u64);
    let width = buffer.len() - end;
    bytes[..width].copy_from_slice(&buffer[end..]);
    buffer.truncate(end + width - 1);
    buffer.copy_within(start..end, length_at + width);
    buffer[length_at..][..width].copy_from_slice(&bytes[..width]);
    true
}
