//! Checkpoints on their way from a leader to a follower whose log ends before what the
//! leader still has.
//!
//! ```text
//!   leader                                       follower
//!   consensus: node 3 needs one
//!   disk: opens the one in force
//!   reader                   ── Offer ──▶        receiver: begins files beside the data
//!                            ◀── Taken 0 ──
//!   as many pieces as the    ── Piece ──▶        receiver: writes them
//!     window takes           ── Piece ──▶
//!                            ◀── Taken n ──
//!                                                receiver: everything is there; syncs, looks
//!                            ◀── Taken all ──      at every checksum
//!                                                consensus: a write that installs it
//!                                                disk: puts it in the place of the log, and
//!                            ◀── In force ──       fills the tables from it
//!   consensus: probes node 3, which goes on
//! ```
//!
//! Pieces go on the second lane, behind messages of consensus. At most [`WINDOW`] of them
//! are under way, and the next is read from the file when one has been taken, so a slow
//! follower costs a leader those, and nothing else. The file, the log that it needs from
//! before its end, which goes along, and the log behind it are held until the follower has
//! caught up or is gone.
//!
//! # The one in force
//!
//! A follower needs a checkpoint when log is gone, and log goes only when a checkpoint stands
//! for it; so there is one in force, also while the leader does not serve yet and takes none.
//! Then it may need this very follower to commit its term's mark: of three nodes one is lost,
//! and the other two start again.
//!
//! What it holds is committed, as consensus knows here, too: it was taken by a leader, of
//! what was committed; by this node as it followed, of the same; or was sent by a leader. And
//! a start counts everything before its end as committed. The log behind it is there, for
//! only what it stands for is ever removed, and so is the log from before its end that large
//! transactions need which were being written as it was taken.
//!
//! # When it breaks off
//!
//! With the connection, with the leader's term, or when nothing is heard for [`PATIENCE`]
//! ticks. Each side forgets it by itself: the leader lets consensus probe, and if the
//! follower still needs a checkpoint, it is sent one from the beginning; the follower
//! removes its file when it forgets, when the next one begins, or when it starts. What is
//! refused is tried again after [`PAUSE`] ticks.
//!
//! # Invariants
//!
//! 1. *A follower has one checkpoint on its way*, whatever was offered before.
//! 2. *Nothing is installed but what is whole*: every checksum of the file and of its log
//!    has been looked at, and its marks lead to its end.
//! 3. *Term and vote stay*: an installation touches the log, and nothing promised.
//! 4. *What is sent is committed*, and the leader has all log from its end on.
//! 5. *To consensus it is the prefix before its end*, whatever log goes along: that is part
//!    of the same prefix, of the term in which it ends.

mod message;
mod receive;
mod send;

use std::collections::{BTreeMap, BTreeSet};

use coeval_consensus::{Consensus, NodeId as Member};
use coeval_peers::{Frame, Loss, NodeId, SendError};
use coeval_types::Lsn;
use tokio::sync::mpsc;

use super::Error;
use super::driver::Driver;
use super::frames;
use message::Message;
use receive::Receiving;
use send::Sending;

pub(super) use receive::Receipt;

/// So many pieces are under way.
const WINDOW: u64 = 4;
/// Bytes of a piece, unless a frame has less room.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of a frame beside its piece, at most.
const PIECE_COST: usize = 64;
/// Ticks after which one that nothing is heard of is given up.
const PATIENCE: u32 = 200;
/// Ticks after which one that was refused is tried again.
const PAUSE: u32 = 20;
/// Ticks between two signs of life of a follower that is busy with one.
const SIGN: u32 = 10;

/// A checkpoint on its way, for people who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The node at the other end.
    pub node: NodeId,
    /// Whether it comes to this node.
    pub incoming: bool,
    /// The place in the log that it stands for: what is before.
    pub end: Lsn,
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Bytes that there are.
    pub of: u64,
}

/// What the tasks of transfers have to say.
#[derive(Debug)]
pub(super) enum Event {
    Send(Member, u64, send::Event),
    Receive(u64, receive::Event),
}

/// Transfers under way.
pub(super) struct Transfers {
    sending: BTreeMap<Member, Sending>,
    receiving: Option<Receiving>,
    receiver: Option<mpsc::UnboundedSender<receive::Command>>,
    tell: mpsc::UnboundedSender<Event>,
    told: mpsc::UnboundedReceiver<Event>,
    piece_bytes: usize,
    /// Who is connected.
    connected: BTreeSet<Member>,
}

impl Transfers {
    pub(super) fn new(frame_bytes: usize) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        Self {
            sending: BTreeMap::new(),
            receiving: None,
            receiver: None,
            tell,
            told,
            piece_bytes: PIECE_BYTES.min(frame_bytes - PIECE_COST),
            connected: BTreeSet::new(),
        }
    }

    pub(super) fn connected(&mut self, node: NodeId) {
        self.connected.insert(Member(node.0));
    }

    pub(super) fn is_connected(&self, node: Member) -> bool {
        self.connected.contains(&node)
    }

    /// The next thing that a task says.
    pub(super) async fn next(&mut self) -> Event {
        match self.told.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    pub(super) fn all(&self) -> Vec<Transfer> {
        let sending = self.sending.iter().filter_map(|(to, one)| one.show(*to));
        let receiving = self.receiving.iter().map(Receiving::show);
        sending.chain(receiving).collect()
    }
}

impl Driver {
    /// Somebody has said something of a transfer.
    pub(super) fn transfer_frame(&mut self, frame: Frame) {
        let from = Member(frame.from.0);
        let Some((transfer, message)) = message::decode(frame.payload.clone()) else {
            tracing::error!(%from, "what a node says of a checkpoint makes no sense");
            return;
        };
        match message {
            Message::Offer(offer) => self.offered(from, transfer, offer),
            Message::Piece { at, bytes } => self.piece(transfer, at, bytes, frame),
            Message::Taken { at } => self.taken(from, transfer, at),
            Message::InForce => self.in_force(from, transfer),
            Message::Refused(reason) => self.refused(from, transfer, &reason),
        }
    }

    /// A task of a transfer has said something.
    pub(super) fn transfer_event(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Send(to, transfer, event) => self.send_event(to, transfer, event),
            Event::Receive(transfer, event) => self.receive_event(transfer, event)?,
        }
        Ok(())
    }

    /// A tick has passed.
    pub(super) fn tick_transfers(&mut self) {
        self.tick_sending();
        self.tick_receiving();
    }

    /// There is no connection to a node any more.
    pub(super) fn transfers_lose(&mut self, node: NodeId) {
        let node = Member(node.0);
        self.transfers.connected.remove(&node);
        self.forget_sending(node, "the connection has ended");
        self.forget_receiving(Some(node), "the connection has ended");
    }

    /// Says something of a transfer. Whether it went.
    fn say(&self, to: Member, transfer: u64, message: &Message) -> Result<(), SendError> {
        let bytes = message::encode(transfer, message);
        let to = NodeId(to.0);
        self.peers.send(to, frames::CHECKPOINT, bytes, Loss::Kept)
    }
}

/// Whom a node follows.
fn leader(consensus: &Consensus) -> Option<Member> {
    consensus.role().leader
}
