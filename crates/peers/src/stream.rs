//! Streams: connections of their own, for whoever has more to say than frames.
//!
//! A stream comes about as every connection between nodes does (the same door, the same
//! handshake, the same TLS), and says in its hello that it is one. From then on it is
//! bytes, both ways, in order, and slows down who writes faster than the other reads.
//!
//! ```text
//!   who opens   hello: a stream ──▶  door   a place? ── no: refused, busy
//!                                           yes: waits to be taken, holding its place
//!               ◀── bytes, both ways ──▶    taken: the place of who waits is free again
//! ```
//!
//! Two numbers bound what another node can hold here: how many of its streams may wait
//! to be taken, and how many there may be. Bytes that nobody reads stay with the sender.
//!
//! A stream shows no signs of life of its own. The connections of frames do that; when
//! the node at the other end has been silent for too long, is removed, or this one ends,
//! its streams end with [`io::ErrorKind::ConnectionAborted`].

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, watch};

use crate::counters::{StreamCounters, count};
use crate::dialler;
use crate::fault::Fault;
use crate::handshake::Purpose;
use crate::identity::NodeId;
use crate::peer::Peer;
use crate::security::Channel;
use crate::shared::Shared;

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// No member has the id.
    #[error("node {0} is no other member of this cluster that this node knows")]
    Unknown(NodeId),
    /// The node cannot be reached, or does not want it.
    #[error("no stream to node {node}: {fault}")]
    Fault {
        /// Which node.
        node: NodeId,
        /// Why not.
        fault: Fault,
    },
}

type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The end of a node's streams, which is waited for.
#[derive(Debug)]
pub(crate) struct Cut(watch::Sender<Epoch>);

/// Streams of an epoch that is over have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Epoch {
    Number(u64),
    /// There will be none any more.
    Last,
}

impl Cut {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Epoch::Number(0)))
    }

    /// Every stream that there is ends.
    pub(crate) fn cut(&self) {
        self.0.send_if_modified(|epoch| match epoch {
            Epoch::Number(number) => {
                *number += 1;
                true
            }
            Epoch::Last => false,
        });
    }

    /// So does every one that is still to come.
    pub(crate) fn cut_for_good(&self) {
        self.0.send_replace(Epoch::Last);
    }

    fn ending(&self) -> Ending {
        let mut epochs = self.0.subscribe();
        let own = *epochs.borrow_and_update();
        Box::pin(async move {
            // A sender that is gone has cut for good before.
            let over = |epoch: &Epoch| *epoch != own || own == Epoch::Last;
            let _ = epochs.wait_for(over).await;
        })
    }
}

/// A place among the streams of a node, and its line in the books.
struct Place {
    counters: Arc<StreamCounters>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Place {
    fn new(peer: &Peer, permit: Option<OwnedSemaphorePermit>) -> Self {
        let counters = Arc::clone(&peer.streams.counters);
        count(&counters.open);
        Self {
            counters,
            _permit: permit,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        crate::counters::discount(&self.counters.open);
    }
}

/// Bytes to and from another node. What was written is on its way once it is flushed.
/// Dropping it closes it; whoever wants the other side to read everything shuts down
/// first.
pub struct PeerStream {
    node: NodeId,
    channel: Channel,
    /// Two, because reading and writing may be two tasks.
    ends: [Ending; 2],
    _place: Place,
}

impl fmt::Debug for PeerStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "stream with node {}", self.node)
    }
}

impl PeerStream {
    pub(crate) fn new(peer: &Peer, channel: Channel, permit: Option<OwnedSemaphorePermit>) -> Self {
        let cut = &peer.streams.cut;
        Self {
            node: peer.node,
            channel,
            ends: [cut.ending(), cut.ending()],
            _place: Place::new(peer, permit),
        }
    }

    /// The node at the other end.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    fn poll_end(&mut self, which: usize, context: &mut Context<'_>) -> io::Result<()> {
        match self.ends[which].as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                // Polled once more it is ready again.
                self.ends[which] = Box::pin(std::future::ready(()));
                let words = format!(
                    "node {} is silent, or no member any more, or this node ends",
                    self.node
                );
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, words))
            }
        }
    }
}

const READING: usize = 0;
const WRITING: usize = 1;

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(READING, context)?;
        Pin::new(&mut self.channel).poll_read(context, buffer)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_end(WRITING, context)?;
        Pin::new(&mut self.channel).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(WRITING, context)?;
        Pin::new(&mut self.channel).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(WRITING, context)?;
        Pin::new(&mut self.channel).poll_shutdown(context)
    }
}

/// A stream that waits to be taken.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) stream: PeerStream,
    /// Its place among those that wait.
    pub(crate) waits: OwnedSemaphorePermit,
}

/// Opens streams, and takes those of others; cheap to clone. Of several who wait for the
/// next one each gets another.
#[derive(Clone, Debug)]
pub struct Streams {
    shared: Arc<Shared>,
    arrived: Arc<Mutex<mpsc::UnboundedReceiver<Arrived>>>,
}

impl Streams {
    pub(crate) fn new(shared: Arc<Shared>, arrived: mpsc::UnboundedReceiver<Arrived>) -> Self {
        Self {
            shared,
            arrived: Arc::new(Mutex::new(arrived)),
        }
    }

    /// A stream to another member. Fails when the handshake takes too long
    /// (`handshake_milliseconds`), or with what the other side says against it.
    pub async fn open(&self, to: NodeId) -> Result<PeerStream, StreamError> {
        let peer = self.shared.peer(to).ok_or(StreamError::Unknown(to))?;
        let limit = self.shared.settings.handshake();
        let connecting = dialler::connect(&self.shared, &peer, Purpose::Stream);
        let connected = coeval_env::timeout(limit, connecting).await;
        match connected.unwrap_or(Err(Fault::Slow(limit))) {
            Ok(channel) => {
                count(&peer.streams.counters.opened);
                peer.counters.heard();
                Ok(PeerStream::new(&peer, channel, None))
            }
            Err(fault) => {
                count(&peer.streams.counters.failed);
                Err(StreamError::Fault { node: to, fault })
            }
        }
    }

    /// The next stream that another member has opened, and which member; none when there
    /// will be no more. Cancelling the wait loses none.
    pub async fn next(&self) -> Option<(NodeId, PeerStream)> {
        let arrived = self.arrived.lock().await.recv().await?;
        let Arrived { stream, waits } = arrived;
        drop(waits);
        Some((stream.node, stream))
    }
}
