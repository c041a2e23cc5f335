//! Counters and status of connections, per node and for the listener.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_env::{Instant, Location};

use crate::identity::{Announcement, NodeId};
use crate::refusal::Reason;

/// State of this node's connection to another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// The node is not connected; attempts continue.
    #[default]
    Trying,
    /// The connection has been open since this instant.
    Standing(Instant),
}

/// Status of another node. Counters run from the start of this node, over all connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The other node's id.
    pub node: NodeId,
    /// Where the other node listens, by name or address.
    pub address: Location,
    /// This node's connection to it.
    pub connection: Connection,
    /// Why there is no connection, or why the last one ended.
    pub fault: Option<String>,
    /// Kind of that reason, if the other node refused the connection.
    pub refusal: Option<Reason>,
    /// Why the last connection from that node to this one ended.
    pub fault_of_its: Option<String>,
    /// The number that the node last announced as a newcomer that was not admitted yet.
    pub newcomer: Option<NonZeroU64>,
    /// What the node has announced of itself, over this connection to it; or last, over one
    /// of its own. `None` of a node that announces nothing.
    pub announced: Option<Announcement>,
    /// Frames sent to the node, and their bytes on the wire.
    pub sent: Traffic,
    /// Frames received from the node, and their bytes, without skipped ones.
    pub received: Traffic,
    /// Frames from the node that were skipped because this build does not know their kind.
    pub skipped: u64,
    /// Frames queued for the node, and the bytes that they take.
    pub queued: Traffic,
    /// Queued frames dropped for later ones.
    pub dropped: u64,
    /// Queued frames lost because their connection ended.
    pub forgotten: u64,
    /// Frames rejected because the queue was full.
    pub full: u64,
    /// Connections opened.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub failures: u64,
    /// When a message from the node last arrived, on any connection.
    pub heard: Option<Instant>,
    /// Round-trip time of the last ping.
    pub round_trip: Option<Duration>,
    /// Streams with the node.
    pub streams: StreamStatus,
}

/// Streams between this node and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Open streams, opened by either node.
    pub open: u64,
    /// Open streams that the other node opened and this node has not taken yet.
    pub waiting: u64,
    /// Streams that this node opened.
    pub opened: u64,
    /// Attempts of this node to open a stream that failed.
    pub failed: u64,
    /// Streams that the other node opened.
    pub let_in: u64,
    /// Streams that the other node was refused because it had too many.
    pub busy: u64,
}

/// An amount of frames and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of frames.
    pub frames: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Counters of the listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorStatus {
    /// Connections accepted by the operating system.
    pub came: u64,
    /// Connections of members that passed the handshake.
    pub let_in: u64,
    /// Connections refused with a reason.
    pub refused: u64,
    /// Connections without a valid handshake: other protocols, or failed TLS.
    pub failed: u64,
    /// Connections whose handshake took too long.
    pub slow: u64,
    /// Handshakes aborted to make room for later connections.
    pub pushed_out: u64,
}

/// A running count of frames and bytes.
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

/// Status that changes rarely.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) connection: Connection,
    pub(crate) fault: Option<String>,
    pub(crate) refusal: Option<Reason>,
    pub(crate) fault_of_its: Option<String>,
    pub(crate) newcomer: Option<NonZeroU64>,
    pub(crate) announced: Option<Announcement>,
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

    /// Notes that a message from the node has arrived.
    pub(crate) fn heard(&self) {
        self.notes().heard = Some(coeval_env::now());
    }
}

/// The counters of a node's streams. They outlive the node, as its streams may.
#[derive(Debug, Default)]
pub(crate) struct StreamCounters {
    pub(crate) open: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) let_in: AtomicU64,
    pub(crate) busy: AtomicU64,
}

/// The counters of the listener.
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

/// Increments a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Decrements a counter.
pub(crate) fn discount(counter: &AtomicU64) {
    counter.fetch_sub(1, Relaxed);
}
