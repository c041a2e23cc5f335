//! Backup and restore: copies a checkpoint and the log after it from a running server,
//! and restores such a copy, optionally to a point in time.
//!
//! # Taking a backup
//!
//! ```text
//!   server                                       client
//!   hold the checkpoint in force and its log
//!   send its file                        ──▶     checkpoints/….checkpoint
//!   note the durable end e
//!   send the segments up to e            ──▶     log/….log
//!   send CONTROL, in which the log
//!     is closed in order at e            ──▶     CONTROL
//!   send the end                         ──▶     BACKUP, last
//! ```
//!
//! A backup is a data directory of the state at *e*: everything that was durable before
//! the log began to be copied, and nothing else. The server continues meanwhile; it only
//! retains the files that it would have removed. [`send`] encodes the backup as a byte
//! stream ([`archive`]) for any connection, and [`Unpacker`] writes the files from the
//! stream. BACKUP, a text file, lists them with their checksums. It comes last, so an
//! interrupted backup has none, and a restore refuses it.
//!
//! # Restoring
//!
//! [`restore()`] copies the files into an empty directory, verifying each against its
//! checksum, optionally with segments of the log after the backup, and writes CONTROL
//! last. With a target it searches for the first commit after the target and records in
//! CONTROL that the log ends right before it:
//!
//! ```text
//!   log     c1 9:00:01   c2 9:00:03   c3 9:00:03   c4 9:00:07
//!   to 9:00:05                                   ▲ ends here
//! ```
//!
//! The server that opens the directory then recovers as always; it clears the log after
//! the end, and the new term that it begins assigns new timestamps. Times are those of
//! the server's clock when each commit reserved its log space: where the clock jumped
//! back, a restore ends at the first commit that is too late.
//!
//! Invariants:
//! 1. A directory with CONTROL is complete: `restore` writes CONTROL when everything else
//!    is durable.
//! 2. A restore copies no file whose checksum differs, or that the manifest does not
//!    list.
//! 3. A restore never changes the directories that it reads.
//! 4. A backup or restore that fails leaves the directory that it was to fill empty or
//!    absent, as it was (`destination`).

mod archive;
mod destination;
mod manifest;
mod place;
mod restore;
mod send;
mod target;
mod unpack;

use std::time::Duration;

use coeval_types::{Lsn, Term, Timestamp};

pub(crate) use manifest::parse_timestamp;
pub use restore::{RestoreOptions, Restored, restore};
pub use send::BackupSource;
pub use target::RestoreTarget;
pub use unpack::Unpacker;

/// The end timestamp of a backup whose log was closed in order at `end`: the last offset
/// before it at which a commit can begin.
fn end_of_backup(term: Term, end: Lsn) -> Timestamp {
    Timestamp::new(term, Lsn(end.0 - Lsn::ALIGNMENT))
}

/// Summary of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The database id.
    pub database: u128,
    /// Commit timestamp up to which the backup has every commit; it has no later one.
    pub end: Timestamp,
    /// The time of day when its end was fixed, since the Unix epoch.
    pub taken_at: Duration,
    /// Number of files.
    pub files: usize,
    /// Bytes of all files, as they were sent.
    pub bytes: u64,
}
