//! Checkpoints: every row as one snapshot shows it, in a file, so that a start
//! need not replay the log from its beginning and the log need not be kept.
//!
//! # One checkpoint, from begin to end
//!
//! ```text
//!   snapshot s        taken at the end of the installed prefix, registered
//!   wait              until s is durable: the file holds nothing the log may lose
//!   blocks            the rows that s shows, table by table, in the order of
//!                     their RIDs, at a limited rate; writers go on meanwhile
//!   index, end        where each block is, and that the file is whole
//!   sync, rename      …/00000000000000123456.0.checkpoint.new → ….checkpoint
//!   sync directory    from here on it is in force
//!   remove            checkpoints before it, then log segments before what it needs
//! ```
//!
//! The name says where in the log replay begins: right behind *s*. Whatever fails
//! before the last sync leaves the checkpoint and the log that were in force
//! before, and a file that the next start removes. Whatever fails behind it leaves
//! too much, and the next checkpoint removes that.
//!
//! # Why nothing is lost
//!
//! A start loads the newest checkpoint and replays the log from the place its name
//! says. Every commit before that place is in the snapshot, every other is in the
//! log:
//!
//! - The snapshot is the end of the contiguous installed prefix, and replay begins
//!   at exactly that end. No commit is in both, so a patch in the log always finds
//!   the version it was made for: in the checkpoint, or replayed before.
//! - A transaction that commits behind the snapshot may have sent chunks before it;
//!   the log is kept from the oldest of those (`chunks`), and the checkpoint's
//!   header says from where. Replay reads them where the commit names them. A node
//!   that is sent the checkpoint is sent that log, too (`send`).
//! - Rows that the snapshot does not show are not written: no tombstones. Their
//!   RIDs are free after the start, and if the log uses them again, it has the
//!   whole row.
//! - Log is removed only after the directory has been synced that has the
//!   checkpoint's name, oldest segment first, so that a crash in between leaves too
//!   much and never a gap. If the disk keeps removals in another order, what is
//!   left before the gap is not needed either.
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
//! | crc | length | place | storage | records | first rid | records: rid − previous,
//! +-----+--------+-------+---------+---------+-----------+          timestamp, length, row
//! ```
//!
//! Header and end are blocks of [`stamp`](crate::stamp): magic, version, checksum.
//! The header has the database, the snapshot, from where the log is needed, and the
//! time of day; the end repeats the snapshot and says where the index is and what
//! its checksum must be. A block's checksum covers its own place in the file, and
//! begins with the database and the snapshot: a block at another place, or of
//! another checkpoint, is none. Records are in the order of their RIDs, a record
//! once, so that blocks can be loaded on several threads in any order.
//!
//! # Worked example
//!
//! The log has commits at 4096, 4200 and 4304; the last is not installed yet. A
//! checkpoint's snapshot is then the one before 4304, its file is
//! `00000000000000004304.checkpoint`, and a start that finds it replays from 4304
//! on. Had the transaction at 4304 sent a chunk at 4128, the header would say that
//! the log is needed from 4128 on, and a segment that ends before may go.
//!
//! Source: EMS §2.4 takes checkpoints as snapshot transactions and replays the log
//! over them by comparing timestamps; the rest is ours.

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

/// A checkpoint's place in the log, fixed when its snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointStart {
    /// The newest commit it includes.
    pub snapshot: Timestamp,
    /// From where on the log is needed with it.
    pub log_start: Lsn,
}

impl CheckpointStart {
    /// Where replay begins: the end of the snapshot.
    #[must_use]
    pub const fn replay_from(&self) -> Lsn {
        Lsn(self.snapshot.lsn().0 + Lsn::ALIGNMENT)
    }
}

/// A checkpoint that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its place in the log.
    pub start: CheckpointStart,
    /// How many rows it holds.
    pub records: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// The time of day when its snapshot was taken, since the Unix epoch.
    pub taken_at: Duration,
}
