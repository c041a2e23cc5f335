//! The inbox: the bounded queue of events and received frames.

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::fault::Fault;
use crate::frame::MessageKind;
use crate::identity::NodeId;

/// Maximum number of queued events; received bytes are bounded for each node.
const EVENTS: usize = 1024;

/// An event of the connections.
#[derive(Debug)]
pub enum Event {
    /// Frames can be sent to this node from now on. Frames sent to it before may have been
    /// lost.
    Connected(NodeId),
    /// Frames cannot be sent to this node for now. Frames in flight may be lost.
    Disconnected(NodeId, Fault),
    /// A frame was received.
    Frame(Frame),
}

/// A received frame. While it exists, its bytes count against the receive budget of its
/// sender.
#[derive(Debug)]
pub struct Frame {
    /// The sender.
    pub from: NodeId,
    /// The kind of the frame.
    pub kind: MessageKind,
    /// The payload.
    pub payload: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Frame {
    pub(crate) fn new(
        from: NodeId,
        kind: MessageKind,
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

/// The receiving end of the inbox.
#[derive(Debug)]
pub struct Inbox(mpsc::Receiver<Event>);

impl Inbox {
    /// The next event, or `None` when there will be no more. Frames of a node arrive in the
    /// order in which they were sent, by lane (see [`Kinds`](crate::Kinds)), except for
    /// frames lost with a connection. Cancelling the wait loses none.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}

/// The sending end of the inbox.
#[derive(Clone, Debug)]
pub(crate) struct Inlet(mpsc::Sender<Event>);

pub(crate) fn inbox() -> (Inlet, Inbox) {
    let (sender, receiver) = mpsc::channel(EVENTS);
    (Inlet(sender), Inbox(receiver))
}

impl Inlet {
    /// Delivers a frame; returns false if the inbox has been dropped.
    pub(crate) async fn put(&self, frame: Frame) -> bool {
        self.tell(Event::Frame(frame)).await
    }

    pub(crate) async fn tell(&self, event: Event) -> bool {
        self.0.send(event).await.is_ok()
    }
}
