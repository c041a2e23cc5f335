//! What has gone to and fro, counted.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_env::Instant;

use crate::identity::NodeId;
use crate::refusal::Reason;

/// How a connection of ours to a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// It is being tried; how it ended before, if there was one.
    #[default]
    Trying,
    /// It stands since then.
    Standing(Instant),
}

/// What is known of a node. Numbers count from the start of this one, whatever
/// connections there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Which node.
    pub node: NodeId,
    /// Where it listens.
    pub address: SocketAddr,
    /// Our connection to it.
    pub connection: Connection,
    /// Why there is none, or why the last one ended.
    pub fault: Option<String>,
    /// What kind of reason that is, if it is that the node refuses this one.
    pub refusal: Option<Reason>,
    /// Why the last of its connections to here ended.
    pub fault_of_its: Option<String>,
    /// It has said last that it has joined with nothing, and was not admitted yet.
    pub newcomer: Option<NonZeroU64>,
    /// Frames sent to it, and their bytes on the wire.
    pub sent: Traffic,
    /// Frames received from it, and their bytes; without those that were skipped.
    pub received: Traffic,
    /// Frames from it that were skipped, for this build does not know their kind.
    pub skipped: u64,
    /// Frames waiting to be sent, and the bytes that they take.
    pub queued: Traffic,
    /// Frames dropped for later ones.
    pub dropped: u64,
    /// Frames that were waiting when their connection ended.
    pub forgotten: u64,
    /// Times that somebody was told that there is no room.
    pub full: u64,
    /// Connections that stood.
    pub connects: u64,
    /// Tries that came to none.
    pub failures: u64,
    /// When it last showed that it is there, on any connection.
    pub heard: Option<Instant>,
    /// How long the last ping took to come back.
    pub round_trip: Option<Duration>,
    /// Streams with it.
    pub streams: StreamStatus,
}

/// The streams of this node with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Those that there are, whoever opened them.
    pub open: u64,
    /// Of those, what it opened and nobody here has taken yet.
    pub waiting: u64,
    /// Those that were opened from here.
    pub opened: u64,
    /// Tries from here that came to none.
    pub failed: u64,
    /// Those that it opened.
    pub let_in: u64,
    /// Those that it wanted to open when it had too many.
    pub busy: u64,
}

/// Frames and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What happened at the door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorStatus {
    /// Connections that came.
    pub came: u64,
    /// Those that were let in.
    pub let_in: u64,
    /// Those that were refused with a reason.
    pub refused: u64,
    /// Those with which no handshake came about: other protocols, TLS that failed.
    pub failed: u64,
    /// Those that took too long.
    pub slow: u64,
    /// Those that were pushed out by later ones.
    pub pushed_out: u64,
}

/// Frames and bytes, as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Flow {
    pub(crate) fn add(&self, bytes: usize) {
        self.frames.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn read(&self) -> Traffic {
        Traffic {
            frames: self.frames.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

/// What changes rarely.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) connection: Connection,
    pub(crate) fault: Option<String>,
    pub(crate) refusal: Option<Reason>,
    pub(crate) fault_of_its: Option<String>,
    pub(crate) newcomer: Option<NonZeroU64>,
    pub(crate) heard: Option<Instant>,
    pub(crate) round_trip: Option<Duration>,
}

/// The counters of one node.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: Flow,
    pub(crate) received: Flow,
    pub(crate) skipped: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) forgotten: AtomicU64,
    pub(crate) full: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) failures: AtomicU64,
    notes: Mutex<Notes>,
}

impl Counters {
    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no panic under this lock")
    }

    /// The node is there.
    pub(crate) fn heard(&self) {
        self.notes().heard = Some(coeval_env::now());
    }
}

/// The counters of a node's streams. They outlive the node, as streams may.
#[derive(Debug, Default)]
pub(crate) struct StreamCounters {
    pub(crate) open: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) let_in: AtomicU64,
    pub(crate) busy: AtomicU64,
}

/// The counters of the door.
#[derive(Debug, Default)]
pub(crate) struct Door {
    pub(crate) came: AtomicU64,
    pub(crate) let_in: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) pushed_out: AtomicU64,
}

impl Door {
    pub(crate) fn read(&self) -> DoorStatus {
        DoorStatus {
            came: self.came.load(Relaxed),
            let_in: self.let_in.load(Relaxed),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            slow: self.slow.load(Relaxed),
            pushed_out: self.pushed_out.load(Relaxed),
        }
    }
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Counts one less.
pub(crate) fn discount(counter: &AtomicU64) {
    counter.fetch_sub(1, Relaxed);
}
