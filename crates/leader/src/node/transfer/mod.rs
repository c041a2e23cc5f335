//! Checkpoint transfer: sends a checkpoint to a follower whose log ends before the leader's
//! retained log begins.
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
//!                                                receiver: everything has arrived; syncs,
//!                            ◀── Taken all ──      verifies every checksum
//!                                                consensus: a write that installs it
//!                                                disk: replaces the log with it, and
//!                            ◀── In force ──       fills the tables from it
//!   consensus: probes node 3, which continues
//! ```
//!
//! Pieces travel on the second lane, after messages of consensus. At most [`WINDOW`] of
//! them are under way, and the leader reads the next from the file when the follower has
//! acknowledged one, so a slow follower costs the leader that many pieces of memory and
//! nothing else. The leader retains the file, the log from before its end that is sent
//! along, and the log after it until the follower has caught up or is gone.
//!
//! # The checkpoint in force
//!
//! A follower needs a checkpoint when log is gone, and log is removed only when a
//! checkpoint covers it; so the leader has one in force, even while it does not serve yet
//! and takes none. The exception is a cluster founded from a backup, whose log from before
//! the founding is sent to no node: a leader that serves takes a checkpoint when a follower
//! needs one. It may then need this very follower to commit its term's mark: of three
//! nodes one is lost, and the other two restart.
//!
//! The checkpoint's content is committed, also as consensus knows it on this node: it was
//! taken by a leader, of committed rows; by this node as a follower, of the same; or
//! received from a leader. And a starting node counts everything before the checkpoint's
//! end as committed. The log after it is there, since only log that it covers is ever
//! removed, and so is the log from before its end that it needs for large transactions
//! which were being written when it was taken.
//!
//! # When a transfer breaks off
//!
//! A transfer breaks off with the connection, with the leader's term, or when one side
//! hears nothing for [`PATIENCE`] ticks. Each side forgets it by itself. The leader lets
//! consensus probe, and if the follower still needs a checkpoint, sends one from the
//! beginning. The follower removes its file when it gives up, when the next transfer
//! begins, or when it starts. A refused transfer is tried again after [`PAUSE`] ticks.
//!
//! # Invariants
//!
//! 1. *A follower receives one checkpoint at a time*, whatever was offered before.
//! 2. *Only a complete checkpoint is installed*: the receiver has verified every checksum
//!    of the file and of its log, and its marks lead to its end.
//! 3. *Term and vote stay*: an installation changes the log, and no promise of the node.
//! 4. *The content sent is committed*, and the leader has all log from its end on.
//! 5. *To consensus the checkpoint is the prefix before its end*, whatever log is sent
//!    along: that log is part of the same prefix, of the term in which it ends.

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

/// Number of pieces under way.
const WINDOW: u64 = 4;
/// Bytes of a piece, unless a frame is smaller.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of a frame in addition to its piece, at most.
const PIECE_COST: usize = 64;
/// Ticks without a message after which a transfer is given up.
const PATIENCE: u32 = 200;
/// Ticks after which a refused transfer is tried again.
const PAUSE: u32 = 20;
/// Ticks between two acknowledgements by which a busy follower shows that it is alive.
const SIGN: u32 = 10;

/// A checkpoint transfer, as administrators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The node at the other end.
    pub node: NodeId,
    /// Whether the checkpoint is sent to this node.
    pub incoming: bool,
    /// Log offset before which the checkpoint covers everything.
    pub end: Lsn,
    /// Bytes that the follower has received.
    pub bytes: u64,
    /// Total bytes of the checkpoint.
    pub of: u64,
}

/// A report of a transfer's task to the driver.
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
    /// The connected nodes.
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

    /// The next report of a transfer's task.
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
    /// Handles another node's message about a transfer.
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

    /// Handles a report of a transfer's task.
    pub(super) fn transfer_event(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Send(to, transfer, event) => self.send_event(to, transfer, event),
            Event::Receive(transfer, event) => self.receive_event(transfer, event)?,
        }
        Ok(())
    }

    /// Advances the timers of all transfers by a tick.
    pub(super) fn tick_transfers(&mut self) {
        self.tick_sending();
        self.tick_receiving();
    }

    /// The connection to a node has ended: its transfers break off.
    pub(super) fn transfers_lose(&mut self, node: NodeId) {
        let node = Member(node.0);
        self.transfers.connected.remove(&node);
        self.forget_sending(node, "the connection has ended");
        self.forget_receiving(Some(node), "the connection has ended");
    }

    /// Sends a message of a transfer; fails if the connection cannot take it.
    fn say(&self, to: Member, transfer: u64, message: &Message) -> Result<(), SendError> {
        let bytes = message::encode(transfer, message);
        let to = NodeId(to.0);
        self.peers.send(to, frames::CHECKPOINT, bytes, Loss::Kept)
    }
}

/// The leader that this node follows.
fn leader(consensus: &Consensus) -> Option<Member> {
    consensus.role().leader
}
