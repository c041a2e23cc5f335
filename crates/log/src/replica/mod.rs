//! The log of a node of a cluster: what consensus needs of files, and nothing of what it
//! decides.
//!
//! A cluster has one log. The leader's [`Log`](crate::Log) makes it, as a server alone
//! does; every other node keeps a copy, byte for byte, in a [`ReplicaLog`]. Consensus
//! says who leads, what goes where, and up to where it is committed.
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
//! The log of a node that led term 2 and was cut off. Its frames, with their terms:
//!
//! ```text
//!   4096      4144   4200      4296     4400
//!   S₂        a      b         c        d          files 00000000000000004096-0000002.log
//!   └─────── committed ──┘
//! ```
//!
//! The others have gone on from 4296 in term 3, so the new leader answers the node's one
//! request with its log from its mark at 4296 on: `S₃ e f`. The node [replaces] its own
//! tail:
//!
//! ```text
//!   CONTROL: cut at 4296        from here on nothing at or behind 4296 is in the log
//!   clear the file from 4296 on, sync
//!   CONTROL: no cut
//!   make 00000000000000004296-0000003.log, write S₃ e f, sync
//! ```
//!
//! A crash before the first step leaves `S₂ a b c d`, one behind it `S₂ a b` and then
//! some of `S₃ e f`, whole frames from the first on: what was there, a prefix, or what was
//! to be. Never a mix, because nothing is written behind a cut that has not been cleared,
//! and because CONTROL tells a start to go on with a cut that was begun.
//!
//! # Invariants
//!
//! 1. *Mark first.* From where the log began to be replicated, the first frame of each
//!    term is its mark, and stands at the beginning of a file named by term and place.
//! 2. *Bytes are checked before they are written*: place, checksum, order of terms, and
//!    that no term is newer than the newest this node has heard of, which is durable.
//! 3. *Nothing is behind the end.* What is cut is cleared, and durably, before anything
//!    is written in its place; so what recovery finds behind the end was being written
//!    when the process ended.
//! 4. *A file is written only when all before it is durable.* Frames carry what the
//!    leader knew to be committed, which proves nothing about this disk; this order does.
//!    A log that ends before a file that is written, or before what CONTROL says was
//!    durable, is damaged, and refused.
//! 5. *Hard state before use*: a term, and a vote in it, are in CONTROL when
//!    [`ReplicaLog::set_hard_state`] returns, and no vote is ever changed in its term.
//! 6. *Committed is for ever*: nothing before the commit point is cut. A checkpoint,
//!    taken here or sent by another node, covers what is committed and nothing else.
//! 7. *A leader's term takes no commits until its mark is committed* (FRS §6.4). Until
//!    then nothing of what was replayed counts as durable, either.
//!
//! # Not here
//!
//! Who is a member and what a vote is worth: crate `consensus`.
//!
//! [replaces]: ReplicaLog::replace
//!
//! Sources: FRS (the fast follower recovery of chapter 6) for marks, files by term and
//! the replacement of a tail; QuorumX for what an entry carries and for flushing many
//! batches at once. Cutting by way of CONTROL, and the proofs of damage, are ours
//! (decision 0023).

mod check;
mod checkpoints;
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
mod window;

pub(crate) use check::check_segment;
pub(crate) use landmarks::Landmarks;
pub(crate) use lead::Leading;

pub use checkpoints::CheckpointPlace;
pub use frames::{Frame, FrameKind, meaning};
pub use landmarks::{Mark, Membership};
pub use log::{HardState, ReplicaLog};
pub use news::LogNews;
pub use replayer::{Replayed, Replayer};
pub use stream::LogStream;
pub use window::{Frames, Progress};
