//! Settings of a council's node, and the way by which its messages leave.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coeval_consensus::{NodeId, Spacing};
use coeval_types::Protocol;

use crate::observer::Observer;

/// Sends messages to other nodes. Messages may be lost, repeated, delayed and reordered.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends a message, or drops it; never waits. The receiver hands it to
    /// [`Council::deliver`](crate::Council::deliver).
    fn send(&self, to: NodeId, message: Bytes);
}

/// Settings of one node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's data directory for the council's log.
    pub directory: PathBuf,
    /// The cluster's id, the same on all nodes.
    pub cluster: u128,
    /// This node.
    pub node: NodeId,
    /// The voters of a new cluster, the same on all of them; empty on a node that joins one
    /// later, by [`Council::change`](crate::Council::change).
    pub founders: Vec<NodeId>,
    /// The protocol of the cluster whose decisions it keeps.
    pub protocol: Protocol,
    /// Length of a tick of the clock.
    pub tick: Duration,
    /// Ticks after which a follower that hears nothing campaigns.
    pub election_ticks: u32,
    /// Bytes of log after which a snapshot replaces it.
    pub snapshot_every_bytes: u64,
    /// Most proposals that wait for their commit at one time.
    pub proposals: usize,
    /// Observer of every step, for tests.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Settings {
    /// The usual settings: ticks of 10 ms, elections after 100 to 200 ms of silence, and the one
    /// protocol that has a council.
    #[must_use]
    pub fn new(directory: PathBuf, cluster: u128, node: NodeId, founders: Vec<NodeId>) -> Self {
        Self {
            directory,
            cluster,
            node,
            founders,
            protocol: Protocol::Epoch,
            tick: Duration::from_millis(10),
            election_ticks: 10,
            snapshot_every_bytes: 256 << 10,
            proposals: 100,
            observer: None,
        }
    }

    /// The settings of consensus.
    pub(crate) fn consensus(&self) -> coeval_consensus::Settings {
        coeval_consensus::Settings {
            election_ticks: self.election_ticks,
            spacing: Spacing::REDO_LOG,
            ..coeval_consensus::Settings::default()
        }
    }

    /// The settings of the log: small files, and one thread.
    pub(crate) fn log(&self) -> coeval_log::Settings {
        coeval_log::Settings {
            segment_bytes: 64 << 10,
            ring_bytes: 64 << 10,
            frame_payload_bytes: 8 << 10,
            recovery_threads: 1,
            protocol: self.protocol,
            ..coeval_log::Settings::default()
        }
    }
}
