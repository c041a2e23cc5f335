//! The replicated log: the storage of a cluster node's log, as consensus needs it, without
//! the protocol's decisions.
//!
//! A cluster has one log. The leader's [`Log`](crate::Log) appends to it, as on an
//! unreplicated server; every other node keeps a copy, byte for byte, in a [`ReplicaLog`].
//! Consensus decides which node leads, what is appended, and how far it is committed.
//!
//! ```text
//!               leader                                        follower
//!   commits ─▶ ring ─▶ flusher ─▶ files ─ ─ ─ ─ ┐      ReplicaLog::append ─▶ files
//!                        │                      ▼ (old)       ▲       │
//!                        └──▶ window ──▶ LogStream ──bytes────┘     flush ──▶ answer
//!                                                                     │
//!   acknowledgements ◀── Log::set_committed ◀── consensus ──▶ Replayer::advance ─▶ tables
//! ```
//!
//! # Worked example
//!
//! The log of a node that led term 2 and was then partitioned. Its frames, with their
//! terms:
//!
//! ```text
//!   4096      4144   4200      4296     4400
//!   S₂        a      b         c        d          files 00000000000000004096-0000002.log
//!   └─────── committed ──┘
//! ```
//!
//! The other nodes have continued from 4296 in term 3, so the new leader answers the
//! node's one request with its log from its mark at 4296 on: `S₃ e f`. The node [replaces]
//! its own tail:
//!
//! ```text
//!   CONTROL: cut at 4296        from here on nothing at or after 4296 is in the log
//!   clear the file from 4296 on, sync
//!   CONTROL: no cut
//!   make 00000000000000004296-0000003.log, write S₃ e f, sync
//! ```
//!
//! A crash before the first step leaves `S₂ a b c d`, one after it `S₂ a b` and then a
//! prefix of the frames `S₃ e f`: the old log, a prefix of it, or the new one. Never a
//! mix, because nothing is written after a cut that has not been cleared, and because a
//! start continues a cut that CONTROL names.
//!
//! # Invariants
//!
//! 1. *Mark first.* From where replication of the log began, the first frame of each term
//!    is its mark, at the beginning of a segment named by offset and term.
//! 2. *Bytes are checked before they are written*: offset, checksum, order of terms, and
//!    that no term is newer than the newest this node has durably recorded.
//! 3. *Nothing is after the end.* A cut is cleared durably before anything is written in
//!    its place; so bytes that recovery finds after the end were being written when the
//!    process ended.
//! 4. *A segment is written only when everything before it is durable.* Frames carry the
//!    leader's commit index, which proves nothing about this node's disk; this order does.
//!    A log that ends before a segment with data in it, or before the durable end in
//!    CONTROL, is damaged, and refused.
//! 5. *Hard state before use*: a term, and a vote in it, are in CONTROL when
//!    [`ReplicaLog::set_hard_state`] returns, and no vote is ever changed in its term.
//! 6. *Committed is for ever*: nothing before the commit index is cut. A checkpoint, taken
//!    here or sent by another node, covers only committed log.
//! 7. *A leader's term accepts no commits until its mark is committed* (FRS §6.4). Until
//!    then no replayed commit counts as durable, either.
//!
//! # Not here
//!
//! Membership and votes: crate `consensus`.
//!
//! [replaces]: ReplicaLog::replace
//!
//! Sources: FRS (the fast follower recovery of chapter 6) for marks, files by term and the
//! replacement of a tail; QuorumX for what an entry carries and for flushing many batches
//! at once. Cutting by way of CONTROL, and the proofs of damage, are this project's
//! (decision 0023).

mod check;
mod checkpoints;
mod counters;
mod files;
mod frames;
mod install;
mod landmarks;
mod lead;
mod log;
mod news;
mod open;
mod replayer;
mod stream;
mod survey;
mod window;

pub(crate) use check::check_segment;
pub(crate) use landmarks::Landmarks;
pub(crate) use lead::Leading;

pub use checkpoints::CheckpointPlace;
pub use counters::ReplicaCounters;
pub use frames::{Frame, FrameKind, meaning};
pub use landmarks::{Mark, Membership};
pub use log::{HardState, ReplicaLog};
pub use news::LogNews;
pub use replayer::{Replayed, Replayer};
pub use stream::LogStream;
pub use survey::Survey;
pub use window::{Frames, LogProgress};
