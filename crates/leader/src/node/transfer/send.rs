//! The sending side of a checkpoint transfer, on the leader.

use std::collections::VecDeque;

use bytes::Bytes;
use coeval_consensus::NodeId as Member;
use coeval_log::CheckpointOffer;
use coeval_peers::{NodeId, SendError};
use coeval_txn::Engine as _;
use coeval_types::Lsn;
use tokio::sync::{mpsc, oneshot};

use super::message::Message;
use super::{PATIENCE, PAUSE, Transfer, WINDOW};
use crate::node::disk::{CheckpointToSend, Command};
use crate::node::driver::Driver;

/// A report of the reader's task.
#[derive(Debug)]
pub(in crate::node) enum Event {
    /// The reader has opened this checkpoint.
    Opened(CheckpointOffer),
    /// A piece, and the byte offset at which it begins.
    Piece(u64, Bytes),
    /// No checkpoint is in force that the follower could use.
    Missing,
    /// The reader cannot continue, for this reason.
    Failed(String),
}

/// A checkpoint being sent to a follower.
#[derive(Debug)]
pub(super) struct Sending {
    transfer: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The transfer begins with the next tick.
    Wanted,
    /// After this many ticks consensus checks again which log the follower needs.
    Failed(u32),
    /// The file is being opened.
    Opening(mpsc::UnboundedSender<u64>),
    Sending(Pieces),
    /// The follower has the checkpoint in force. The leader retains the log after it until
    /// the follower has caught up.
    InForce {
        end: Lsn,
        /// While this sender exists, the reader retains the file and the log.
        _reader: mpsc::UnboundedSender<u64>,
    },
}

#[derive(Debug)]
struct Pieces {
    offer: CheckpointOffer,
    reader: mpsc::UnboundedSender<u64>,
    /// The follower has written everything before this byte offset.
    taken: u64,
    /// Everything before this byte offset has been requested from the reader.
    asked: u64,
    /// Pieces that were read but not sent yet for lack of room.
    waiting: VecDeque<(u64, Bytes)>,
    /// Ticks since a message of the follower last arrived.
    silent: u32,
}

impl Sending {
    pub(super) fn show(&self, to: Member) -> Option<Transfer> {
        let Stage::Sending(pieces) = &self.stage else {
            return None;
        };
        Some(Transfer {
            node: NodeId(to.0),
            incoming: false,
            end: pieces.offer.end(),
            bytes: pieces.taken,
            of: pieces.offer.bytes(),
        })
    }
}

/// Waits for the checkpoint, and reads the pieces that are requested until the requests'
/// sender is dropped.
async fn read(
    opened: oneshot::Receiver<CheckpointToSend>,
    mut asked: mpsc::UnboundedReceiver<u64>,
    piece_bytes: usize,
    tell: impl Fn(Event),
) {
    let failed = |reason: &str| tell(Event::Failed(reason.to_owned()));
    let source = match opened.await {
        Ok(Ok(Some(source))) => source,
        Ok(Ok(None)) => return tell(Event::Missing),
        Ok(Err(error)) => return failed(&error.to_string()),
        Err(_) => return failed("this node leads no more"),
    };
    tell(Event::Opened(source.offer()));
    while let Some(at) = asked.recv().await {
        match source.read(at, piece_bytes).await {
            Ok(bytes) => tell(Event::Piece(at, bytes)),
            Err(error) => return failed(&error.to_string()),
        }
    }
}

impl Driver {
    /// A follower needs a checkpoint.
    pub(in crate::node) fn want_checkpoint(&mut self, to: Member) {
        let sending = Sending {
            transfer: coeval_env::random_u64(),
            stage: Stage::Wanted,
        };
        self.transfers.sending.insert(to, sending);
    }

    /// Ends all sending: this node no longer leads.
    pub(in crate::node) fn forget_all_sending(&mut self) {
        self.transfers.sending.clear();
    }

    /// Ends one transfer; consensus checks which log the follower needs now.
    pub(super) fn forget_sending(&mut self, to: Member, why: &str) {
        if let Some(sending) = self.transfers.sending.remove(&to) {
            if !matches!(sending.stage, Stage::InForce { .. }) {
                tracing::warn!(%to, why, "a checkpoint is not sent any further");
            }
            self.consensus.checkpoint_sent(to);
        }
    }

    /// A transfer has failed, and is tried again after a while.
    fn sending_failed(&mut self, to: Member, why: &str) {
        tracing::warn!(%to, why, "a checkpoint could not be sent, and will be tried again");
        if let Some(sending) = self.transfers.sending.get_mut(&to) {
            sending.stage = Stage::Failed(PAUSE);
        }
    }

    pub(super) fn send_event(&mut self, to: Member, transfer: u64, event: Event) {
        let Some(sending) = self.transfers.sending.get_mut(&to) else {
            return;
        };
        if sending.transfer != transfer {
            return;
        }
        match (event, &mut sending.stage) {
            (Event::Opened(offer), Stage::Opening(reader)) => {
                tracing::info!(%to, end = %offer.end(), bytes = offer.bytes(), "sends a checkpoint");
                sending.stage = Stage::Sending(Pieces {
                    offer,
                    reader: reader.clone(),
                    taken: 0,
                    asked: 0,
                    waiting: VecDeque::new(),
                    silent: 0,
                });
                if let Err(error) = self.say(to, transfer, &Message::Offer(offer)) {
                    self.sending_failed(to, &error.to_string());
                }
            }
            (Event::Piece(at, bytes), Stage::Sending(pieces)) => {
                pieces.waiting.push_back((at, bytes));
                self.send_pieces(to);
            }
            (Event::Failed(reason), _) => self.sending_failed(to, &reason),
            (Event::Missing, _) => {
                self.begin_checkpoint();
                self.sending_failed(to, "no checkpoint is in force yet; one has been asked for");
            }
            (Event::Opened(_) | Event::Piece(..), _) => {}
        }
    }

    /// Asks the engine for a checkpoint: the log from before replication began, in a cluster
    /// that was founded from a backup, is sent to no node.
    fn begin_checkpoint(&self) {
        let Some(engine) = self.lead.as_ref().and_then(|lead| lead.engine.clone()) else {
            return;
        };
        drop(coeval_env::spawn("checkpoint for a follower", async move {
            if let Err(error) = engine.checkpoint().await {
                tracing::warn!(%error, "a checkpoint for a follower could not be taken");
            }
        }));
    }

    /// Sends the pieces that have been read, as far as the connection has room.
    fn send_pieces(&mut self, to: Member) {
        loop {
            let Some(sending) = self.transfers.sending.get(&to) else {
                return;
            };
            let Stage::Sending(pieces) = &sending.stage else {
                return;
            };
            let Some((at, bytes)) = pieces.waiting.front() else {
                return;
            };
            let piece = Message::Piece {
                at: *at,
                bytes: bytes.clone(),
            };
            match self.say(to, sending.transfer, &piece) {
                Ok(()) => {}
                // Tried again with the next tick.
                Err(SendError::Full) => return,
                Err(error) => return self.sending_failed(to, &error.to_string()),
            }
            if let Some(Sending {
                stage: Stage::Sending(pieces),
                ..
            }) = self.transfers.sending.get_mut(&to)
            {
                pieces.waiting.pop_front();
            }
        }
    }

    /// A follower has written everything before `at`.
    pub(super) fn taken(&mut self, from: Member, transfer: u64, at: u64) {
        let piece_bytes = self.transfers.piece_bytes as u64;
        let Some(sending) = self.transfers.sending.get_mut(&from) else {
            return;
        };
        let Stage::Sending(pieces) = &mut sending.stage else {
            return;
        };
        if sending.transfer != transfer || at > pieces.asked {
            return;
        }
        pieces.silent = 0;
        pieces.taken = pieces.taken.max(at);
        let until = pieces
            .offer
            .bytes()
            .min(pieces.taken + WINDOW * piece_bytes);
        while pieces.asked < until {
            // A reader that has failed has reported it.
            let _ = pieces.reader.send(pieces.asked);
            pieces.asked = pieces.offer.piece_end(pieces.asked, piece_bytes);
        }
    }

    /// A follower has the checkpoint in force.
    pub(super) fn in_force(&mut self, from: Member, transfer: u64) {
        let Some(sending) = self.transfers.sending.get_mut(&from) else {
            return;
        };
        let Stage::Sending(pieces) = &sending.stage else {
            return;
        };
        if sending.transfer == transfer {
            tracing::info!(to = %from, end = %pieces.offer.end(), "a checkpoint is in force");
            sending.stage = Stage::InForce {
                end: pieces.offer.end(),
                _reader: pieces.reader.clone(),
            };
            self.consensus.checkpoint_sent(from);
        }
    }

    /// A follower refuses the checkpoint.
    pub(super) fn refused(&mut self, from: Member, transfer: u64, reason: &str) {
        let sending = self.transfers.sending.get(&from);
        if sending.is_some_and(|sending| sending.transfer == transfer) {
            self.sending_failed(from, reason);
        }
    }

    pub(super) fn tick_sending(&mut self) {
        let followers: Vec<Member> = self.transfers.sending.keys().copied().collect();
        for to in followers {
            self.tick_one(to);
        }
    }

    fn tick_one(&mut self, to: Member) {
        let Some(sending) = self.transfers.sending.get_mut(&to) else {
            return;
        };
        match &mut sending.stage {
            Stage::Wanted => {
                let (answer, opened) = oneshot::channel();
                // A closed channel means that the node has ended.
                let _ = self.disk.send(Command::Open(answer));
                let (reader, asked) = mpsc::unbounded_channel();
                sending.stage = Stage::Opening(reader);
                let (tell, transfer) = (self.transfers.tell.clone(), sending.transfer);
                let piece_bytes = self.transfers.piece_bytes;
                drop(coeval_env::spawn_dedicated("send checkpoint", move || {
                    read(opened, asked, piece_bytes, move |event| {
                        // A closed channel means that the node has ended.
                        let _ = tell.send(super::Event::Send(to, transfer, event));
                    })
                }));
            }
            Stage::Failed(0) => {
                self.transfers.sending.remove(&to);
                self.consensus.checkpoint_sent(to);
            }
            Stage::Failed(ticks) => *ticks -= 1,
            Stage::Opening(_) => {}
            Stage::Sending(pieces) => {
                pieces.silent += 1;
                if pieces.silent > PATIENCE {
                    self.sending_failed(to, "nothing was heard of it for long");
                } else {
                    self.send_pieces(to);
                }
            }
            Stage::InForce { end, .. } => {
                let end = *end;
                if self.has_caught_up(to, end) {
                    self.transfers.sending.remove(&to);
                }
            }
        }
    }

    /// Whether a follower has the log after a checkpoint, except for the amount that a
    /// connected follower may lack.
    fn has_caught_up(&self, to: Member, end: Lsn) -> bool {
        let status = self.consensus.status();
        let follower = status.followers.iter().find(|follower| follower.node == to);
        follower.is_none_or(|follower| {
            let lacks = status.last.end.0.saturating_sub(follower.matched.0);
            follower.matched >= end && lacks <= self.follower_log_bytes / 2
        })
    }
}
