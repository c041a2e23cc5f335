//! The life of one commit in the log: credit, reservation, copy, installation.
//!
//! ```text
//! poll_prepare ─▶ Credit ─reserve─▶ Reservation ─commit─▶ Copied ─installed─▶ ·
//!   may wait        │                  │   └──skip──────────────────────────▶ ·
//!                 drop gives back    never waits, never fails, never dropped
//! ```
//!
//! After `reserve` a commit cannot be abandoned: every later commit is after its space in
//! the log, and none of them can become visible or durable before this one is completed.
//! Dropping a [`Reservation`] or a [`Copied`], for instance by a panic, therefore aborts
//! the process at once; otherwise the log would hang for ever.
//!
//! # One copy
//!
//! The committer takes a credit for a length, and reserves the space before anything is
//! in it. So the payload need not be in one piece before: the copy collects it, from the
//! builder's buffer and from the rows themselves, straight into the ring:
//!
//! ```text
//!   builder    │ head ┊ head │ patch ┊ head │          versions   │ row │   │ row │
//!                 └──────┐  └────────────────┐                       │         │
//!   ring       │ header │ head │ row │ head, patch, head │ row │ padding │
//! ```
//!
//! The checksum is computed of each piece in its source, right before it is copied, so
//! that it also covers the copying. The frame's bytes do not depend on how the payload
//! was split. A row of another length than was announced would overwrite the bytes after
//! it; that is a broken invariant, and aborts the process as every other after `reserve`.

use coeval_memory::ring::{Region, Space};
use coeval_types::{Lsn, Timestamp};

use crate::entry::{EntryBuilder, Payload, no_rows};
use crate::frame::{HEADER_BYTES, Header, Kind, TIME_LIMIT, frame_bytes};
use crate::shared::Shared;

#[cfg(test)]
mod tests;

/// A credit for log space for one commit, not yet reserved. Dropping it returns the
/// space.
#[derive(Debug)]
#[must_use]
pub struct Credit<'log> {
    shared: &'log Shared,
    /// The ring's space for the commit; `None` once it is reserved.
    space: Option<Space<'log>>,
}

impl<'log> Credit<'log> {
    pub(crate) fn new(shared: &'log Shared, space: Space<'log>) -> Self {
        Self {
            shared,
            space: Some(space),
        }
    }

    /// Reserves the space and so assigns the commit timestamp, by one fetch-and-add.
    #[inline]
    pub(crate) fn reserve(mut self) -> Reservation<'log> {
        let space = self.space.take().expect("a credit is used once");
        Reservation(PendingFrame {
            shared: self.shared,
            region: Some(space.reserve()),
        })
    }
}

impl Drop for Credit<'_> {
    fn drop(&mut self) {
        if let Some(space) = self.space.take() {
            drop(space);
            self.shared.space.given_back();
        }
    }
}

/// The time of day in microseconds, as a frame's header stores it.
fn time_of_day() -> u64 {
    let micros = coeval_env::wall_clock().as_micros();
    u64::try_from(micros).unwrap_or(0) % TIME_LIMIT
}

/// Reserved space in the log that must be completed.
#[derive(Debug)]
struct PendingFrame<'log> {
    shared: &'log Shared,
    /// The ring's region for the frame; `None` once the frame is complete.
    region: Option<Region<'log>>,
}

impl PendingFrame<'_> {
    fn timestamp(&self) -> Timestamp {
        let region = self.region.as_ref().expect("completed once");
        Timestamp::new(self.shared.term, Lsn(region.start()))
    }

    /// Copies a frame into the log, piece by piece; `row` returns the deferred rows by
    /// number.
    #[inline]
    fn write<'rows>(
        &mut self,
        kind: Kind,
        payload: &Payload<'_>,
        row: impl Fn(usize) -> &'rows [u8],
    ) {
        let timestamp = self.timestamp();
        let region = self.region.as_mut().expect("completed once");
        let length = if kind == Kind::Skip {
            region.bytes() - HEADER_BYTES as u64
        } else {
            payload.len() as u64
        };
        assert_eq!(
            frame_bytes(length),
            region.bytes(),
            "the entries are those the credit was taken for"
        );
        if self.shared.ephemeral {
            return;
        }
        // Each node writes consensus frames itself, and their bytes must be the same on
        // every node.
        let (durable, time) = match kind {
            Kind::Mark | Kind::Membership | Kind::Opaque => (Lsn(0), 0),
            Kind::Commit | Kind::Chunk | Kind::Skip => (self.shared.durable_end(), time_of_day()),
        };
        let header = Header {
            length: u32::try_from(length).expect("a region is far shorter"),
            timestamp,
            durable,
            kind,
            time,
        };
        let mut sealing = header.seal(self.shared.seed);
        let mut pieces = region.pieces(HEADER_BYTES as u64);
        payload.visit(row, |piece| {
            sealing.take(piece);
            pieces.put(piece);
        });
        pieces.finish();
        region.write(0, &sealing.finish());
    }

    /// Copies a frame whose payload is not made of entries into the log.
    fn write_plain(&mut self, kind: Kind, payload: &[u8]) {
        self.write(kind, &Payload::plain(payload), no_rows);
    }

    #[inline]
    fn complete(mut self) {
        let region = self.region.take().expect("completed once");
        if region.complete() {
            self.shared.prefix_moved();
        }
    }
}

impl Drop for PendingFrame<'_> {
    fn drop(&mut self) {
        if self.region.is_some() {
            tracing::error!(
                timestamp = %self.timestamp(),
                "a reserved place in the log was given up; no later commit could ever complete"
            );
            std::process::abort();
        }
    }
}

/// A commit's reserved space in the log, which fixes its position in commit order. The
/// committer must soon commit or skip it: every later commit waits for it. See the module
/// for the consequences of dropping it.
#[derive(Debug)]
#[must_use]
pub struct Reservation<'log>(PendingFrame<'log>);

impl<'log> Reservation<'log> {
    /// The commit timestamp. Later reservations have greater ones.
    #[inline]
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp()
    }

    /// Copies the commit into the log. `entries` has no deferred rows.
    ///
    /// # Panics
    /// When `entries` are not those that the credit was taken for, or have a deferred
    /// row; the panic aborts the process.
    #[inline]
    pub fn commit(self, entries: &EntryBuilder) -> Copied<'log> {
        self.commit_with(entries, no_rows)
    }

    /// Copies the commit into the log. `row` returns the deferred rows by their numbers
    /// ([`EntryBuilder::image_to_come`]); a log without a file calls it for none.
    ///
    /// # Panics
    /// When `entries` are not those that the credit was taken for, or a row has another
    /// length than was announced; the panic aborts the process.
    #[inline]
    pub fn commit_with<'rows>(
        mut self,
        entries: &EntryBuilder,
        row: impl Fn(usize) -> &'rows [u8],
    ) -> Copied<'log> {
        self.0.write(Kind::Commit, &entries.commit_payload(), row);
        entries.committed_at(self.0.timestamp().lsn());
        self.0.shared.counters.committed();
        Copied(self.0)
    }

    /// Fills the reserved space with a skip frame: the transaction failed its validation.
    #[inline]
    pub fn skip(mut self) {
        self.0.write_plain(Kind::Skip, &[]);
        self.0.shared.counters.skipped();
        self.0.complete();
    }

    /// Copies the mark of a leader's term into the log.
    pub(crate) fn mark(mut self, payload: &[u8]) {
        self.0.write_plain(Kind::Mark, payload);
        self.0.complete();
    }

    /// Copies a new cluster membership into the log.
    pub(crate) fn membership(mut self, payload: &[u8]) {
        self.0.write_plain(Kind::Membership, payload);
        self.0.complete();
    }

    /// Copies part of a transaction into the log, ahead of its commit.
    pub(crate) fn chunk<'rows>(
        mut self,
        payload: &Payload<'_>,
        row: impl Fn(usize) -> &'rows [u8],
    ) {
        self.0.write(Kind::Chunk, payload, row);
        self.0.complete();
    }
}

/// A commit that is in the log's ring, and whose versions are not yet visible to any
/// snapshot.
#[derive(Debug)]
#[must_use]
pub struct Copied<'log>(PendingFrame<'log>);

impl Copied<'_> {
    /// The commit timestamp.
    #[inline]
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp()
    }

    /// Called when the transaction's versions are in place. Once all earlier commits are
    /// installed too, new snapshots include this one, and the flusher writes it.
    #[inline]
    pub fn installed(self) {
        let shared = self.0.shared;
        self.0.complete();
        shared.writers.committed();
    }
}
