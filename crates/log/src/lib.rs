//! The redo log (write-ahead log): it orders commits by the log space they reserve, and makes
//! them durable by group commit.
//!
//! A commit of two changed records, from an engine's point of view:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use coeval_log::{Log, Settings};
//! use coeval_types::{Rid, StorageId};
//!
//! let log = Log::ephemeral(Settings::default())?;
//! let mut entries = log.entry_builder();
//! entries.delete(StorageId(1), Rid(7));
//! entries.delete(StorageId(1), Rid(8));
//!
//! let credit = log.prepare(&mut entries).await?; // may wait for room
//! let reservation = log.reserve(credit);         // assigns the commit timestamp
//! let timestamp = reservation.timestamp();
//! // … validate; `reservation.skip()` if that fails …
//! let copied = reservation.commit(&entries);     // into the log's memory
//! // … install the versions under `timestamp` …
//! copied.installed();                            // visible, and off to the disk
//!
//! log.wait_durable(timestamp).await?;            // before anything leaves the process
//! assert!(log.installed() >= timestamp);
//! # Ok::<(), coeval_log::Error>(())
//! # }).unwrap();
//! ```
//!
//! # The stream
//!
//! The log is one endless stream of bytes. An offset in it is an [`Lsn`]; a frame
//! that starts there in a term has the [`Timestamp`] made of both, and if it is a
//! commit's, that is its commit timestamp. Reserving space by one fetch-and-add is
//! therefore what orders commits. See `frame` for a frame's layout, `entry` for
//! what is in it, `segment` for the files.
//!
//! # Three ends, and the timestamps that name them
//!
//! ```text
//!              durable end      installed end       reserved end
//!  frames  A  B  |  C     D     |  (E)    F   (G)   |
//!                ^ 900          ^ 1100              ^ 1500     offsets
//! ```
//!
//! E and G, in parentheses, have reserved their space and are not yet installed. F is
//! installed; but a snapshot cannot include F and not E, so the installed end is before E.
//!
//! An *end* is the offset at which the next frame starts, and excludes that frame. A snapshot
//! at a *timestamp* includes the commit that has this timestamp. Offsets are multiples of
//! eight, so the timestamp that includes exactly the frames before an end is the one eight
//! bytes before it: [`Log::installed`] is (term, 1092) here, and [`Log::durable`] is (term,
//! 892). Hence, with `≤` on timestamps only:
//!
//! - commit `c` is in a snapshot that began at `s` if `c ≤ s`;
//! - every commit that a snapshot at `s` has read survives a crash if `s ≤ durable`;
//! - a commit `c` survives a crash if `c ≤ durable`: the flusher makes frames durable whole, so
//!   one that starts before the durable end also ends before it.
//!
//! Timestamps of earlier terms are below all of these: `Log::open` makes everything that it
//! replays durable.
//!
//! # In a cluster
//!
//! A leader's log is this one, made by [`ReplicaLog::lead`]; followers keep copies of it
//! ([`ReplicaLog`]), which [`LogStream`]s bring up to date and [`Replayer`]s apply. There
//! *durable* means committed by the cluster, and [`Log::set_committed`] advances it. See
//! [`replica`](ReplicaLog).
//!
//! # Invariants
//!
//! 1. A timestamp is assigned only once, even across crashes: an offset may be used again after
//!    a torn tail was cut, but only in a later term (`control`).
//! 2. durable ≤ installed ≤ reserved, and each only grows.
//! 3. A commit for which [`Log::poll_durable`] has returned `Ok` is in the log that the next
//!    [`Log::open`] replays, or that open is refused (`recovery`).
//! 4. Recovery replays only committed transactions: a prefix of the commits in timestamp order,
//!    each commit whole.
//! 5. After a failed write or fsync the log acknowledges nothing any more (`flusher`). The
//!    segment maker notices a full disk before it makes a write fail: the log refuses commits
//!    until there is space again.
//! 6. Segments and checkpoints are removed only when the checkpoint in force, or the log after
//!    it, holds their contents (`checkpoint`, `retention`).
//!
//! Source: group commit and early release of locks after Aether (Johnson et al., VLDB 2010);
//! redo by cells after QuorumX, parallel replay in log order after EMS §2.4. The design's own
//! additions are in DESIGN.md, "Time and commit on one node".

mod archived_log;
mod backup;
mod checkpoint;
mod chunks;
mod commit;
mod control;
mod entry;
mod error;
mod files;
mod flusher;
mod founders;
mod frame;
mod group_commit;
mod identity;
mod log;
mod origin;
#[cfg(feature = "planted")]
mod planted;
mod recovery;
mod removal;
mod replica;
mod reserve;
mod retention;
mod segment;
mod settings;
mod shared;
mod space;
mod stamp;
mod statistics;
mod supply;
mod varint;
mod waiters;

#[cfg(doc)]
use coeval_types::{Lsn, Timestamp};

pub use archived_log::ArchivedLog;
pub use backup::{
    BackupSource, BackupSummary, RestoreOptions, RestoreTarget, Restored, Unpacker, restore,
};
pub use checkpoint::{
    Block, Checkpoint, CheckpointFile, CheckpointOffer, CheckpointReceiver, CheckpointSource,
    CheckpointStart, CheckpointWriter, ReceivedCheckpoint, SavedRecord, SealedCheckpoint,
};
pub use commit::{Copied, Credit, Reservation};
pub use entry::{Entry, EntryBuilder};
pub use error::Error;
pub use founders::Founders;
pub use identity::read_identity;
pub use log::Log;
pub use origin::Origin;
pub use recovery::{RecoveryProgress, RecoverySummary, Replay, ReplayError};
pub use removal::Removal;
pub use replica::{
    CheckpointPlace, Frame, FrameKind, Frames, HardState, LogNews, LogProgress, LogStream, Mark,
    Membership, Replayed, Replayer, ReplicaCounters, ReplicaLog, Survey, meaning,
};
pub use reserve::has_room;
pub use retention::Hold;
pub use settings::Settings;
pub use shared::FatalHandler;
pub use space::SpaceWait;
pub use statistics::Statistics;
