//! Connections between the nodes of a cluster.
//!
//! Each node listens at an address, and connects to every other member. What is sent is
//! a *frame*: a kind, and bytes that nobody here looks into.
//!
//! ```
//! # use coeval_peers::*;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.unwrap().block_on(async {
//! // The protocol's table of kinds: the same on every node.
//! const GREETING: Kind = Kind::new(1);
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
//!     addresses: [(NodeId(1), one.address()), (NodeId(2), two.address())].into(),
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
//! # What is promised
//!
//! - Frames of a lane arrive in order, each once, as long as their connection lasts.
//!   When it ends those on their way are lost, and [`Event::Disconnected`] says so; a
//!   frame is never delivered twice. There are two lanes: urgent kinds, and everything
//!   else, which lets those go first.
//! - A frame of a kind that this build does not know ([`Kinds`]) is skipped and counted;
//!   the connection goes on. One that is damaged or too long ends it.
//! - What waits is bounded, at both ends. [`Peers::send`] never waits; it takes the
//!   frame, or says that there is no room and [`Peers::room`] waits for it. Who does not
//!   take care of what comes in keeps others from sending more, and from nothing else.
//! - [`Peers::open_stream`] opens a connection of its own, for bytes: it does not wait
//!   behind frames, nor they behind it. How many of them another node may have is
//!   bounded, too.
//! - A node is let in by its cluster's id, its own id, its version, and, with TLS, its
//!   certificate; otherwise it is told why not, in words.
//! - Whoever is no node holds a place in the door for a moment (`door`), and no more.
//!
//! # Parts
//!
//! `handshake` and `frame` are the formats, and know no connection. `queue` is what
//! waits for a node, `connection` what runs while one stands, `stream` what has one of its own, `dialler` and `door` the
//! two ways that one comes about, `security` and `tls` what lies below.

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
use coeval_env::JoinHandle;
use tokio::sync::mpsc;

pub use counters::{Connection, DoorStatus, PeerStatus, StreamStatus, Traffic};
pub use fault::Fault;
pub use frame::{Kind, Kinds};
pub use identity::{ClusterId, Identity, Members, NodeId, NotAClusterId};
pub use inbox::{Event, Frame, Inbox};
pub use queue::{Loss, SendError};
pub use refusal::{Reason, Refusal};
pub use security::{Security, Unguarded};
pub use settings::{SettingError, Settings};
pub use stream::{PeerStream, StreamError, Streams};
pub use tls::{Pem, Tls, TlsError, check_cluster_name, node_name};

use shared::Shared;

/// Why a node cannot talk to others.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Others would reach it, and nothing guards it.
    #[error(transparent)]
    Unguarded(#[from] Unguarded),
    /// The address cannot be listened at.
    #[error("cannot listen for other nodes at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
}

/// A node's connections to the other members. They end when this is dropped.
#[derive(Debug)]
pub struct Peers {
    shared: Arc<Shared>,
    streams: Streams,
    door: JoinHandle<()>,
}

impl Peers {
    /// Listens at `listen`, where port 0 takes a free one, and connects to `members`. Takes
    /// frames of `kinds`. Runs on the executor of whoever calls.
    pub async fn start(
        own: Identity,
        listen: SocketAddr,
        members: Members,
        security: Security,
        settings: Settings,
        kinds: Kinds,
    ) -> Result<(Self, Inbox), StartError> {
        settings.check()?;
        security.check(listen, settings.insecure)?;
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Of which cluster it is.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.shared.own.cluster
    }

    /// Sends a frame, if it can be sent at once or there is room for it to wait.
    pub fn send(
        &self,
        to: NodeId,
        kind: Kind,
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

    /// Waits until a frame with so many bytes would be taken. Another sender may be
    /// faster then.
    pub async fn room(&self, to: NodeId, kind: Kind, bytes: usize) -> Result<(), SendError> {
        let peer = self.shared.peer(to).ok_or(SendError::Unknown)?;
        peer.queue.room(kind, bytes).await
    }

    /// A stream to another member: see [`Streams::open`].
    pub async fn open_stream(&self, to: NodeId) -> Result<PeerStream, StreamError> {
        self.streams.open(to).await
    }

    /// Streams with other members, for whoever has to do with them and not with frames.
    #[must_use]
    pub fn streams(&self) -> Streams {
        self.streams.clone()
    }

    /// These are the members from now on: those who are new are connected to, and the
    /// connections of those who are gone end, with no event.
    pub fn set_members(&self, members: Members) -> Result<(), Unguarded> {
        check(&members, &self.shared.security(), &self.shared.settings)?;
        self.shared.set_members(members);
        Ok(())
    }

    /// Whether a member at this address may be talked to.
    pub fn check(&self, address: SocketAddr) -> Result<(), Unguarded> {
        let security = self.shared.security();
        security.check(address, self.shared.settings.insecure)
    }

    /// New connections are guarded so; those that stand stay.
    pub fn set_security(&self, security: Security) -> Result<(), Unguarded> {
        security.check(self.shared.address, self.shared.settings.insecure)?;
        self.shared
            .with_members(|members| check(members, &security, &self.shared.settings))?;
        self.shared.set_security(security);
        Ok(())
    }

    /// What is known of every other member, by id.
    #[must_use]
    pub fn status(&self) -> Vec<PeerStatus> {
        let peers = self.shared.peers();
        peers.iter().map(|peer| peer.status()).collect()
    }

    /// What happened at the door.
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

/// Whether the members may be talked to.
fn check(members: &Members, security: &Security, settings: &Settings) -> Result<(), Unguarded> {
    let mut addresses = members.addresses.values();
    addresses.try_for_each(|address| security.check(*address, settings.insecure))
}
