//! Nodes in a simulated world.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use coeval_env::sim::{Node, World};
use coeval_peers::frame::{Header, Tag};
use coeval_peers::handshake::{Answer, Hello, Purpose, VERSIONS, greet};
use coeval_peers::{
    ClusterId, Event, Frame, Identity, Inbox, Kinds, Members, MessageKind, NodeId, Peers, Security,
    Settings,
};

pub const CLUSTER: ClusterId = ClusterId(0xc0e7a1);

pub const CONSENSUS: MessageKind = MessageKind::new(1);
pub const LOG: MessageKind = MessageKind::new(2);
pub const CHECKPOINT: MessageKind = MessageKind::new(3);
pub const SESSION: MessageKind = MessageKind::new(4);
/// The kinds that the nodes of these tests know.
pub const KINDS: Kinds = Kinds {
    urgent: &[CONSENSUS, LOG],
    other: &[CHECKPOINT, SESSION],
};

pub const MILLISECOND: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

pub fn identity(node: u64) -> Identity {
    Identity {
        cluster: CLUSTER,
        node: NodeId(node),
    }
}

pub fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7000 + node as u16))
}

pub fn members(nodes: impl IntoIterator<Item = u64>) -> Members {
    let addresses = nodes
        .into_iter()
        .map(|node| (NodeId(node), address(node).into()));
    Members {
        addresses: addresses.collect(),
        ..Members::default()
    }
}

pub async fn start(node: u64, members: Members, settings: Settings) -> (Peers, Inbox) {
    let started = Peers::start(
        identity(node),
        address(node),
        members,
        Security::Plain,
        settings,
        KINDS,
    );
    started.await.unwrap()
}

/// Waits for the next frame, and ignores other events.
pub async fn frame(inbox: &mut Inbox) -> Frame {
    loop {
        if let Event::Frame(frame) = inbox.next().await.unwrap() {
            return frame;
        }
    }
}

pub async fn connected(inbox: &mut Inbox, node: u64) {
    while !matches!(inbox.next().await, Some(Event::Connected(other)) if other.0 == node) {}
}

/// A hello of node 2 to node 1.
pub fn hello(purpose: Purpose) -> Hello {
    Hello {
        versions: VERSIONS,
        from: identity(2),
        to: NodeId(1),
        purpose,
        listens: address(2).into(),
        newcomer: None,
        announced: None,
        protocol: Some(coeval_types::Protocol::Leader),
    }
}

/// A connection of node 2 to node 1, opened by hand.
pub async fn by_hand() -> coeval_env::Stream {
    let mut stream = coeval_env::connect(address(1)).await.unwrap();
    let hello = hello(Purpose::Frames);
    let answer: Answer = greet(&mut stream, &hello).await.unwrap();
    assert_eq!(answer.verdict, Ok(*VERSIONS.end()));
    stream
}

/// A frame as encoded bytes.
pub fn bytes_of(tag: Tag, payload: &[u8]) -> Vec<u8> {
    [&Header::of(tag, payload).encode()[..], payload].concat()
}

/// Node 1, of a cluster of three, with all events of its inbox.
pub struct Alone {
    pub world: World,
    pub node: Node,
    pub peers: Rc<Peers>,
    pub events: Rc<RefCell<Vec<Event>>>,
}

impl Alone {
    pub fn new(seed: u64, settings: Settings) -> Self {
        let world = World::new(seed);
        let node = world.node();
        let events = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&events);
        let peers = world.run(node, async move {
            let mut all = members([1, 2, 3]);
            all.removed.insert(NodeId(4));
            let (peers, mut inbox) = start(1, all, settings).await;
            let peers = Rc::new(peers);
            (peers, async move {
                while let Some(event) = inbox.next().await {
                    kept.borrow_mut().push(event);
                }
            })
        });
        let (peers, keeping) = peers.unwrap();
        world.spawn(node, keeping);
        Self {
            world,
            node,
            peers,
            events,
        }
    }

    /// The payloads received.
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        let events = self.events.borrow();
        let frames = events.iter().filter_map(|event| match event {
            Event::Frame(frame) => Some(frame.payload.to_vec()),
            _ => None,
        });
        frames.collect()
    }
}
