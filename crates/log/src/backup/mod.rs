//! Backups: a checkpoint and the log behind it, taken from a running server, and
//! what becomes of them when they are restored.
//!
//! # Taking one
//!
//! ```text
//!   server                                       client
//!   hold the checkpoint in force and its log
//!   send its file                        ──▶     checkpoints/….checkpoint
//!   note the durable end e
//!   send the segments up to e            ──▶     log/….log
//!   send CONTROL, saying that the log
//!     was closed in order at e           ──▶     CONTROL
//!   send the end                         ──▶     BACKUP, last
//! ```
//!
//! A backup is a data directory of the state at *e*: everything that was durable
//! before the log began to be copied, and nothing else. The server goes on
//! meanwhile; it only keeps what it would have removed. [`send`] makes a stream of
//! bytes of it ([`archive`]), which goes over whatever connection there is, and
//! [`Unpacker`] writes the files from the stream. BACKUP, a text file, lists them
//! with their checksums. It comes last, so a backup that was broken off has none and
//! is refused.
//!
//! # Restoring
//!
//! [`restore`] copies the files into an empty directory, checking each against its
//! checksum, optionally with segments that go on behind the backup, and writes
//! CONTROL last. With a target it looks for the first commit behind the target and
//! says in CONTROL that the log ends right before it:
//!
//! ```text
//!   log     c1 9:00:01   c2 9:00:03   c3 9:00:03   c4 9:00:07
//!   to 9:00:05                                   ▲ ends here
//! ```
//!
//! The server that opens the directory then recovers as always; what is behind the
//! end is cleared, and the new term that it begins makes new timestamps. Times are
//! what the server's clock said when each commit got its place: where the clock
//! jumped back, a restore ends at the first commit that is too late.
//!
//! Invariants:
//! 1. A directory with CONTROL is complete: it is written when all else is durable.
//! 2. Nothing is restored whose checksum differs, or that the list does not have.
//! 3. A restore never changes what it restores from.

mod archive;
mod manifest;
mod place;
mod restore;
mod send;
mod target;
mod unpack;

use std::time::Duration;

use coeval_types::{Lsn, Term, Timestamp};

pub use restore::{RestoreOptions, Restored, restore};
pub use send::BackupSource;
pub use target::RestoreTarget;
pub use unpack::Unpacker;

/// What is called the end of a backup whose log was closed in order at `end`: the last
/// place before it at which a commit can begin.
fn end_of_backup(term: Term, end: Lsn) -> Timestamp {
    Timestamp::new(term, Lsn(end.0 - Lsn::ALIGNMENT))
}

/// What a backup is, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The database's number.
    pub database: u128,
    /// It has every commit up to this one, and no other.
    pub end: Timestamp,
    /// The time of day when its end was fixed, since the Unix epoch.
    pub taken_at: Duration,
    /// How many files.
    pub files: usize,
    /// Bytes of all files, as they were sent.
    pub bytes: u64,
}
