//! Checkpoints: files with every row that one snapshot sees, so that recovery need not
//! replay the log from its beginning and old log can be removed.
//!
//! # One checkpoint, from begin to end
//!
//! ```text
//!   snapshot s        taken at the end of the installed prefix, registered
//!   wait              until s is durable: the file holds no commit the log may lose
//!   blocks            the rows that s sees, table by table, in the order of
//!                     their RIDs, at a limited rate; writers continue meanwhile
//!   index, end        offset of each block, and proof that the file is whole
//!   sync, rename      …/00000000000000123456.0.checkpoint.new → ….checkpoint
//!   sync directory    from here on it is in force
//!   remove            checkpoints before it, then log segments before what it needs
//! ```
//!
//! The name contains the log offset at which replay begins: right after *s*. A failure
//! before the last sync leaves the checkpoint and the log in force that were in force
//! before, and a file that the next start removes. A failure after it leaves superfluous
//! files, which the next checkpoint removes.
//!
//! # Why no commit is lost
//!
//! A start loads the newest checkpoint and replays the log from the offset in its name.
//! Every commit before that offset is in the snapshot, every other is in the log:
//!
//! - The snapshot is the end of the contiguous installed prefix, and replay begins
//!   at exactly that end. No commit is in both, so a patch in the log always finds
//!   the version it was made for: in the checkpoint, or replayed before.
//! - A transaction that commits after the snapshot may have written chunks before it; the
//!   log is kept from the oldest of those (`chunks`), and the checkpoint's header holds
//!   that offset. Replay reads them where the commit references them. A node that receives
//!   the checkpoint from another also receives that log (`send`).
//! - Rows that the snapshot does not see are not written: no tombstones. Their row ids are
//!   free after the start, and if the log uses them again, it has the whole row.
//! - The log is truncated only after the directory with the checkpoint's name has been
//!   synced, the oldest segment first, so that a crash in between leaves superfluous log
//!   and never a gap. If the disk persists removals in another order, the segments before
//!   the gap are not needed either.
//!
//! # The file
//!
//! ```text
//! 0            4096                          index_at
//! +--------+------+-------+-------+-- … --+-------+--------------------+-------+
//! | header | zeros| block | block |       | block | index: 32 B a block| end   |
//! +--------+------+-------+-------+-- … --+-------+--------------------+-------+
//!                                                                        128 B
//! block
//!  0     4        8       16        20        24          32
//! +-----+--------+-------+---------+---------+-----------+-- … --+
//! | crc | length | at    | storage | records | first rid | records: rid − previous,
//! +-----+--------+-------+---------+---------+-----------+          timestamp, length, row
//! ```
//!
//! Header and end record are blocks of [`stamp`](crate::stamp): magic, version, checksum.
//! The header has the database, the snapshot, the offset from which the log is needed, and
//! the time of day; the end record repeats the snapshot and has the index's offset and
//! checksum. A block's checksum covers its own file offset (`at`), and is seeded with the
//! database and the snapshot: a block at another offset, or of another checkpoint, is
//! invalid. Records are in the order of their row ids, a record once, so that several
//! threads can load blocks in any order.
//!
//! # Worked example
//!
//! The log has commits at 4096, 4200 and 4304; the last is not installed yet. A
//! checkpoint's snapshot is then the one before 4304, its file is
//! `00000000000000004304.checkpoint`, and a start that finds it replays from 4304 on. Had
//! the transaction at 4304 written a chunk at 4128, the header would say that the log is
//! needed from 4128 on, and truncation could remove only segments that end before.
//!
//! Source: EMS §2.4 takes checkpoints as snapshot transactions and replays the log over
//! them by comparing timestamps; the rest is this project's.

mod directory;
mod file;
mod format;
mod load;
mod pace;
mod receive;
mod send;
mod steps;
mod writer;

use std::time::Duration;

use coeval_types::{Lsn, Timestamp};

pub use file::CheckpointFile;
pub use format::{Block, SavedRecord};
pub use receive::{CheckpointReceiver, ReceivedCheckpoint};
pub use send::{CheckpointOffer, CheckpointSource};
pub use writer::{CheckpointWriter, SealedCheckpoint};

pub(crate) use directory::{
    CHECKPOINTS, all, newest, path_of, received_log_path_of, received_path_of, remove_all_but,
    remove_unfinished,
};
pub(crate) use load::load;
pub(crate) use writer::put_name;

/// A checkpoint's position in the log, fixed when its snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointStart {
    /// Commit timestamp of the newest commit it includes.
    pub snapshot: Timestamp,
    /// Log offset from which recovery needs the log with it.
    pub log_start: Lsn,
}

impl CheckpointStart {
    /// Log offset at which replay begins: the end of the snapshot.
    #[must_use]
    pub const fn replay_from(&self) -> Lsn {
        Lsn(self.snapshot.lsn().0 + Lsn::ALIGNMENT)
    }
}

/// A checkpoint that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The checkpoint's snapshot, and the log that it needs.
    pub start: CheckpointStart,
    /// Number of rows in it.
    pub records: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// The time of day when its snapshot was taken, since the Unix epoch.
    pub taken_at: Duration,
}
