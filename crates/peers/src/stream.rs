//! Streams: separate connections between nodes, for tasks that exchange bytes, not frames.
//!
//! A stream is opened as every connection between nodes is (the same listener, handshake
//! and TLS), and its hello says that it is a stream. From then on it carries bytes in both
//! directions, in order, and slows down a writer that is faster than its reader.
//!
//! ```text
//!   opening node    hello: a stream ──▶    listener   a free slot? ── no: refused, busy
//!                                                     yes: waits to be taken, in its slot
//!                   ◀── bytes, both ways ──▶          taken: its waiting slot is free again
//! ```
//!
//! Two limits bound what another node can hold here: how many of its streams may wait to be
//! taken, and how many may be open. Bytes that the reader does not read stay with the
//! sender.
//!
//! A stream has no keep-alives of its own. The frame connections have them; when the node
//! at the other end has been silent for too long, is removed, or this node shuts down, its
//! streams end with [`io::ErrorKind::ConnectionAborted`].

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

/// Why a stream could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// No member has the id.
    #[error("node {0} is no other member of this cluster that this node knows")]
    Unknown(NodeId),
    /// The node cannot be reached, or refuses the stream.
    #[error("no stream to node {node}: {fault}")]
    Fault {
        /// The node to which the stream was to be opened.
        node: NodeId,
        /// Why the connection to the node failed.
        fault: Fault,
    },
}

type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Ends the streams with one node: every stream waits for this signal.
#[derive(Debug)]
pub(crate) struct Cut(watch::Sender<Epoch>);

/// A node's streams of earlier epochs have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Epoch {
    Number(u64),
    /// No later epoch follows: every stream ends at once.
    Last,
}

impl Cut {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Epoch::Number(0)))
    }

    /// Ends every open stream.
    pub(crate) fn cut(&self) {
        self.0.send_if_modified(|epoch| match epoch {
            Epoch::Number(number) => {
                *number += 1;
                true
            }
            Epoch::Last => false,
        });
    }

    /// Ends every open stream, and every later one.
    pub(crate) fn cut_for_good(&self) {
        self.0.send_replace(Epoch::Last);
    }

    fn ending(&self) -> Ending {
        let mut epochs = self.0.subscribe();
        let own = *epochs.borrow_and_update();
        Box::pin(async move {
            // The sender sets the last epoch before it is dropped.
            let over = |epoch: &Epoch| *epoch != own || own == Epoch::Last;
            let _ = epochs.wait_for(over).await;
        })
    }
}

/// A slot among the streams of a node, with its counter.
struct StreamSlot {
    counters: Arc<StreamCounters>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl StreamSlot {
    fn new(peer: &Peer, permit: Option<OwnedSemaphorePermit>) -> Self {
        let counters = Arc::clone(&peer.streams.counters);
        count(&counters.open);
        Self {
            counters,
            _permit: permit,
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        crate::counters::discount(&self.counters.open);
    }
}

/// A byte stream to and from another node. Written bytes are sent once flushed. Dropping it
/// closes it; a writer that wants the other side to read everything shuts it down first.
pub struct PeerStream {
    node: NodeId,
    channel: Channel,
    /// Two, because reading and writing may be two tasks.
    ends: [Ending; 2],
    _place: StreamSlot,
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
            _place: StreamSlot::new(peer, permit),
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
                // A future that was ready is replaced, since it may be polled again.
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
    /// Its slot among the waiting streams.
    pub(crate) waits: OwnedSemaphorePermit,
}

/// Opens streams, and takes those that other nodes open; cheap to clone. Each stream is
/// taken by one of the waiting callers.
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

    /// Opens a stream to another member. Fails when the handshake takes too long
    /// (`handshake_milliseconds`), or with the other side's refusal.
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

    /// The next stream that another member has opened, with that member's id; `None` when
    /// there will be no more. Cancelling the wait loses none.
    pub async fn next(&self) -> Option<(NodeId, PeerStream)> {
        let arrived = self.arrived.lock().await.recv().await?;
        let Arrived { stream, waits } = arrived;
        drop(waits);
        Some((stream.node, stream))
    }
}
