//! The way of one commit: credit, reservation, copy, installed.
//!
//! ```text
//! poll_prepare ─▶ Credit ─reserve─▶ Reservation ─commit─▶ Copied ─installed─▶ ·
//!   may wait        │                  │   └──skip──────────────────────────▶ ·
//!                 drop gives back    never waits, never fails, never dropped
//! ```
//!
//! From `reserve` on there is no way back: every later commit stands behind this
//! place in the log, and none of them can become visible or durable before this
//! one is completed. Dropping a [`Reservation`] or a [`Copied`], by a panic for
//! instance, therefore ends the process at once; it would hang for ever otherwise.
//!
//! # One copy
//!
//! A credit is taken for a length, and the place is drawn before anything is in it. So
//! what goes there need not be in one piece before: the copy gathers it, from the
//! builder's buffer and from the rows themselves, straight into the ring:
//!
//! ```text
//!   builder    │ head ┊ head │ patch ┊ head │          versions   │ row │   │ row │
//!                 └──────┐  └────────────────┐                       │         │
//!   ring       │ header │ head │ row │ head, patch, head │ row │ padding │
//! ```
//!
//! The checksum is taken of each piece where it was, right before it is copied, so that
//! it also covers the copying. The bytes of a frame do not tell how many pieces it was.
//! A row of another length than was noted would come to lie over what follows it; that
//! is a broken promise, and ends the process as every other from `reserve` on.

use coeval_memory::ring::{Region, Space};
use coeval_types::{Lsn, Timestamp};

use crate::entry::{EntryBuilder, Payload, no_rows};
use crate::frame::{HEADER_BYTES, Header, Kind, TIME_LIMIT, frame_bytes};
use crate::shared::Shared;

#[cfg(test)]
mod tests;

/// Room in the log for one commit, promised but not yet placed. Dropping it gives
/// the room back.
#[derive(Debug)]
#[must_use]
pub struct Credit<'log> {
    shared: &'log Shared,
    /// Taken when the place is drawn.
    space: Option<Space<'log>>,
}

impl<'log> Credit<'log> {
    pub(crate) fn new(shared: &'log Shared, space: Space<'log>) -> Self {
        Self {
            shared,
            space: Some(space),
        }
    }

    /// Draws the commit timestamp, by one fetch-and-add.
    #[inline]
    pub(crate) fn reserve(mut self) -> Reservation<'log> {
        let space = self.space.take().expect("a credit is used once");
        Reservation(Place {
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

/// Now, as frames carry it.
fn time_of_day() -> u64 {
    let micros = coeval_env::wall_clock().as_micros();
    u64::try_from(micros).unwrap_or(0) % TIME_LIMIT
}

/// A place in the log that must be completed.
#[derive(Debug)]
struct Place<'log> {
    shared: &'log Shared,
    /// Taken when it is completed.
    region: Option<Region<'log>>,
}

impl Place<'_> {
    fn timestamp(&self) -> Timestamp {
        let region = self.region.as_ref().expect("completed once");
        Timestamp::new(self.shared.term, Lsn(region.start()))
    }

    /// Copies a frame into the log, piece by piece; `row` has the rows to come.
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
        // What consensus writes is made by each node for itself, and comes out the same.
        let (durable, time) = match kind {
            Kind::Mark | Kind::Membership => (Lsn(0), 0),
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

    /// Copies a frame into the log that is not made of entries.
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

impl Drop for Place<'_> {
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

/// A commit's place in the log and in the order of commits. To be committed or
/// skipped, soon: everybody behind it waits. See the module for what happens
/// otherwise.
#[derive(Debug)]
#[must_use]
pub struct Reservation<'log>(Place<'log>);

impl<'log> Reservation<'log> {
    /// The commit timestamp. Later ones are greater.
    #[inline]
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp()
    }

    /// Copies the commit into the log, of which no row is to come.
    ///
    /// # Panics
    /// When `entries` are not those that the credit was taken for, or a row of theirs
    /// is to come; which ends the process.
    #[inline]
    pub fn commit(self, entries: &EntryBuilder) -> Copied<'log> {
        self.commit_with(entries, no_rows)
    }

    /// Copies the commit into the log. `row` has the rows that are to come by their
    /// numbers ([`EntryBuilder::image_to_come`]); a log without a file asks for none.
    ///
    /// # Panics
    /// When `entries` are not those that the credit was taken for, or a row is not as
    /// long as was said; which ends the process.
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

    /// Gives the place up: the transaction did not pass validation.
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

    /// Copies into the log who takes part in the cluster.
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

/// A commit that is in the log's memory, and whose versions nobody sees yet.
#[derive(Debug)]
#[must_use]
pub struct Copied<'log>(Place<'log>);

impl Copied<'_> {
    /// The commit timestamp.
    #[inline]
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp()
    }

    /// The transaction's versions are in place. Once all earlier commits have said
    /// so, snapshots include this one, and it goes to the disk.
    #[inline]
    pub fn installed(self) {
        let shared = self.0.shared;
        self.0.complete();
        shared.writers.committed();
    }
}
