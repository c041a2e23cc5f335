//! The node-to-node transport: connections that carry frames and streams between members.
//!
//! Each node listens at an address, and connects to every other member. It sends *frames*:
//! a kind, and a payload of bytes that this crate does not interpret.
//!
//! ```
//! # use coeval_peers::*;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.unwrap().block_on(async {
//! // The protocol's table of kinds: the same on every node.
//! const GREETING: MessageKind = MessageKind::new(1);
//! const KINDS: Kinds = Kinds { urgent: &[], other: &[GREETING] };
//! # async fn start(node: NodeId, members: Members) -> (Peers, Inbox) {
//! #     let own = Identity { cluster: ClusterId(7), node };
//! #     let listen = "127.0.0.1:0".parse().unwrap();
//! #     let settings = Settings::default();
//! #     Peers::start(own, listen, members, Security::Plain, settings, KINDS).await.unwrap()
//! # }
//! let (one, mut of_one) = start(NodeId(1), Members::default()).await;
//! let (two, mut of_two) = start(NodeId(2), Members::default()).await;
//! let members = Members {
//!     addresses: [(NodeId(1), one.address().into()), (NodeId(2), two.address().into())].into(),
//!     ..Members::default()
//! };
//! one.set_members(members.clone()).unwrap();
//! two.set_members(members).unwrap();
//!
//! while !matches!(of_one.next().await, Some(Event::Connected(NodeId(2)))) {}
//! one.send(NodeId(2), GREETING, "good day".into(), Loss::Kept).unwrap();
//! loop {
//!     if let Some(Event::Frame(frame)) = of_two.next().await {
//!         assert_eq!((frame.from, &frame.payload[..]), (NodeId(1), &b"good day"[..]));
//!         break;
//!     }
//! }
//! # });
//! ```
//!
//! # Guarantees
//!
//! - Frames of a lane arrive in order, each once, as long as their connection lasts. When
//!   it ends, frames in flight are lost, and [`Event::Disconnected`] reports it; a frame is
//!   never delivered twice. There are two lanes: urgent kinds are sent before all others.
//! - The receiver skips and counts a frame of a kind that this build does not know
//!   ([`Kinds`]); the connection continues. A damaged or oversized frame ends it.
//! - Queues are bounded, at both ends. [`Peers::send`] never waits; it accepts the frame,
//!   or reports that the queue is full, and [`Peers::room`] waits for room. A receiver that
//!   does not consume its frames keeps the sender from sending more, and has no other
//!   effect.
//! - [`Peers::open_stream`] opens a connection of its own, for bytes: streams and frames do
//!   not wait for each other. The number of streams that another node may open is bounded,
//!   too.
//! - A node is accepted by its cluster's id, its own id, its version, and, with TLS, its
//!   certificate; otherwise the listener answers with the reason, in words.
//! - A connection that has not identified itself holds one of few slots for a moment
//!   (`door`), and nothing more.
//!
//! # Parts
//!
//! `handshake` and `frame` define the formats, and know no connection. `queue` holds the
//! frames that wait for a node, `connection` runs while a connection is open, `stream` is
//! for connections of their own, `dialler` and `door` open and accept connections,
//! `security` and `tls` are the layers below.

mod backoff;
mod connection;
mod counters;
mod dialler;
mod door;
mod fault;
pub mod frame;
pub mod handshake;
mod identity;
mod inbox;
mod peer;
mod queue;
mod refusal;
mod security;
mod settings;
mod shared;
mod stream;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use coeval_env::{JoinHandle, Location};
use tokio::sync::mpsc;

pub use counters::{Connection, DoorStatus, PeerStatus, StreamStatus, Traffic};
pub use fault::Fault;
pub use frame::{Kinds, MessageKind};
pub use identity::{
    Announcement, ClusterId, DirectoryId, Identity, Members, NodeId, NotAClusterId,
};
pub use inbox::{Event, Frame, Inbox};
pub use queue::{Loss, SendError};
pub use refusal::{Reason, Refusal};
pub use security::{Channel, Security, Unguarded};
pub use settings::{SettingError, Settings};
pub use stream::{PeerStream, StreamError, Streams};
pub use tls::{Pem, Tls, TlsError, check_cluster_name, node_name};

use shared::Shared;

/// Why a node cannot start its connections.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Other machines could reach the node's address without TLS.
    #[error(transparent)]
    Unguarded(#[from] Unguarded),
    /// The node cannot listen at its address.
    #[error("cannot listen for other nodes at {address}: {error}")]
    Listen {
        /// The address that was to be listened at.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
}

/// A node's connections to the other members. Dropping it ends them.
#[derive(Debug)]
pub struct Peers {
    shared: Arc<Shared>,
    streams: Streams,
    door: JoinHandle<()>,
}

impl Peers {
    /// Listens at `listen`, where port 0 chooses a free one, connects to `members`, and
    /// accepts frames of `kinds`. The tasks run on the caller's executor.
    pub async fn start(
        own: Identity,
        listen: SocketAddr,
        members: Members,
        security: Security,
        settings: Settings,
        kinds: Kinds,
    ) -> Result<(Self, Inbox), StartError> {
        settings.check()?;
        security.check(&listen.into(), settings.insecure)?;
        check(&members, &security, &settings)?;
        let failed = |error| StartError::Listen {
            address: listen,
            error,
        };
        let listener = coeval_env::listen(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (inlet, inbox) = inbox::inbox();
        let (arrives, arrived) = mpsc::unbounded_channel();
        let shared = Shared::new(own, address, settings, security, kinds, (inlet, arrives));
        let shared = Arc::new(shared);
        let opened = door::open(Arc::clone(&shared), listener);
        let peers = Self {
            door: coeval_env::spawn("take nodes' connections", opened),
            streams: Streams::new(Arc::clone(&shared), arrived),
            shared,
        };
        peers.shared.set_members(members);
        Ok((peers, inbox))
    }

    /// The address at which this node listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The cluster to which this node belongs.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.shared.own.cluster
    }

    /// Sends a frame, if the queue to the node has room for it.
    pub fn send(
        &self,
        to: NodeId,
        kind: MessageKind,
        payload: Bytes,
        loss: Loss,
    ) -> Result<(), SendError> {
        let peer = self.shared.peer(to).ok_or(SendError::Unknown)?;
        match peer.queue.push(kind, payload, loss) {
            Ok(dropped) => {
                peer.counters.dropped.fetch_add(dropped, Relaxed);
                Ok(())
            }
            Err(error) => {
                if error == SendError::Full {
                    counters::count(&peer.counters.full);
                }
                Err(error)
            }
        }
    }

    /// Waits until a frame of this many bytes would be accepted. Another sender may take
    /// the room first.
    pub async fn room(&self, to: NodeId, kind: MessageKind, bytes: usize) -> Result<(), SendError> {
        let peer = self.shared.peer(to).ok_or(SendError::Unknown)?;
        peer.queue.room(kind, bytes).await
    }

    /// Opens a stream to another member: see [`Streams::open`].
    pub async fn open_stream(&self, to: NodeId) -> Result<PeerStream, StreamError> {
        self.streams.open(to).await
    }

    /// Streams with other members, for tasks that use no frames.
    #[must_use]
    pub fn streams(&self) -> Streams {
        self.streams.clone()
    }

    /// Replaces the set of members: this node connects to new ones, and ends its
    /// connections with removed ones, with no event.
    pub fn set_members(&self, members: Members) -> Result<(), Unguarded> {
        check(&members, &self.shared.security(), &self.shared.settings)?;
        self.shared.set_members(members);
        Ok(())
    }

    /// Whether a member at this location may be connected to.
    pub fn check(&self, location: &Location) -> Result<(), Unguarded> {
        let security = self.shared.security();
        security.check(location, self.shared.settings.insecure)
    }

    /// Secures new connections like this; open ones stay.
    pub fn set_security(&self, security: Security) -> Result<(), Unguarded> {
        security.check(&self.shared.address.into(), self.shared.settings.insecure)?;
        self.shared
            .with_members(|members| check(members, &security, &self.shared.settings))?;
        self.shared.set_security(security);
        Ok(())
    }

    /// The status of every other member, by id.
    #[must_use]
    pub fn status(&self) -> Vec<PeerStatus> {
        let peers = self.shared.peers();
        peers.iter().map(|peer| peer.status()).collect()
    }

    /// Counters of the listener.
    #[must_use]
    pub fn door(&self) -> DoorStatus {
        self.shared.door.read()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.door.abort();
        self.shared.end();
    }
}

/// Whether all members may be connected to.
fn check(members: &Members, security: &Security, settings: &Settings) -> Result<(), Unguarded> {
    let mut addresses = members.addresses.values();
    addresses.try_for_each(|address| security.check(address, settings.insecure))
}
