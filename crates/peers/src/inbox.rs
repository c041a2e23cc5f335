//! What arrives, for whoever takes care of it.

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::fault::Fault;
use crate::frame::Kind;
use crate::identity::NodeId;

/// So many things may be waiting; their bytes are bounded for each node.
const EVENTS: usize = 1024;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// Frames are taken for this node from now on. What was sent to it before may have
    /// been lost.
    Connected(NodeId),
    /// No more are, for now. Those on their way may be lost.
    Disconnected(NodeId, Fault),
    /// A frame came.
    Frame(Frame),
}

/// A frame that came. As long as it is kept it counts among the bytes that a node may
/// have sent without anybody having taken care of them.
#[derive(Debug)]
pub struct Frame {
    /// From whom.
    pub from: NodeId,
    /// What it is.
    pub kind: Kind,
    /// What it says.
    pub payload: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Frame {
    pub(crate) fn new(
        from: NodeId,
        kind: Kind,
        payload: Bytes,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            from,
            kind,
            payload,
            _room: room,
        }
    }
}

/// Where events come out.
#[derive(Debug)]
pub struct Inbox(mpsc::Receiver<Event>);

impl Inbox {
    /// The next event; none when there will be no more. Frames of a node come in the
    /// order in which they were sent, by lane (see [`Kinds`](crate::Kinds)), but for those that were
    /// lost with a connection. Cancelling the wait loses none.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}

/// Where they go in.
#[derive(Clone, Debug)]
pub(crate) struct Inlet(mpsc::Sender<Event>);

pub(crate) fn inbox() -> (Inlet, Inbox) {
    let (sender, receiver) = mpsc::channel(EVENTS);
    (Inlet(sender), Inbox(receiver))
}

impl Inlet {
    /// Whether anybody is still there to take it.
    pub(crate) async fn put(&self, frame: Frame) -> bool {
        self.tell(Event::Frame(frame)).await
    }

    pub(crate) async fn tell(&self, event: Event) -> bool {
        self.0.send(event).await.is_ok()
    }
}
