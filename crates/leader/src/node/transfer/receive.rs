//! The receiving side of a checkpoint transfer, on the follower.

use std::path::PathBuf;

use bytes::Bytes;
use coeval_consensus::NodeId as Member;
use coeval_log::{CheckpointOffer, CheckpointReceiver, ReceivedCheckpoint};
use coeval_peers::{Frame, NodeId};
use tokio::sync::mpsc;

use super::message::Message;
use super::{PATIENCE, SIGN, Transfer, Transfers};
use crate::node::Error;
use crate::node::driver::{Driver, not_fatal};
use crate::node::entries;

/// A command to the receiver's thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Receive this checkpoint from now on, and discard an unfinished one.
    Begin(u64, CheckpointOffer),
    /// Write a piece. Its frame counts as received until the piece is written.
    Piece { at: u64, bytes: Bytes, frame: Frame },
    /// Discard the unfinished checkpoint.
    Forget,
}

/// A report of the receiver's thread.
#[derive(Debug)]
pub(in crate::node) enum Event {
    /// The receiver has written everything before this byte offset.
    Taken(u64),
    /// The checkpoint is complete and verified.
    Whole(ReceivedCheckpoint),
    /// The checkpoint cannot be received, for this reason.
    Failed(String),
}

/// A received checkpoint that is to replace the log.
pub(in crate::node) type Receipt = Box<ReceivedCheckpoint>;

/// The checkpoint that this node is receiving.
#[derive(Debug)]
pub(super) struct Receiving {
    from: Member,
    transfer: u64,
    offer: CheckpointOffer,
    taken: u64,
    stage: Stage,
    /// Ticks since a piece last arrived.
    silent: u32,
    ticks: u32,
}

#[derive(Debug)]
enum Stage {
    Taking,
    /// The checkpoint is complete; consensus is about to return the write that installs it.
    Whole(Receipt),
    /// The disk thread is installing the checkpoint.
    Installing,
}

impl Receiving {
    pub(super) fn show(&self) -> Transfer {
        Transfer {
            node: NodeId(self.from.0),
            incoming: true,
            end: self.offer.end(),
            bytes: self.taken,
            of: self.offer.bytes(),
        }
    }
}

/// Receives checkpoints, one after another.
async fn receive(
    directory: PathBuf,
    database: u128,
    mut commands: mpsc::UnboundedReceiver<Command>,
    tell: mpsc::UnboundedSender<super::Event>,
) {
    let tell = |transfer: u64, event| {
        // A closed channel means that the node has ended.
        let _ = tell.send(super::Event::Receive(transfer, event));
    };
    let mut current: Option<(u64, CheckpointReceiver)> = None;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Begin(transfer, offer) => {
                if let Some((_, before)) = current.take() {
                    before.abandon().await;
                }
                match CheckpointReceiver::create(&directory, database, offer).await {
                    Ok(receiver) => {
                        current = Some((transfer, receiver));
                        tell(transfer, Event::Taken(0));
                    }
                    Err(error) => tell(transfer, Event::Failed(error.to_string())),
                }
            }
            Command::Piece { at, bytes, frame } => {
                let Some((transfer, mut receiver)) = current.take() else {
                    continue;
                };
                let written = receiver.write(at, &bytes).await;
                drop(frame);
                match written {
                    Ok(()) => tell(transfer, Event::Taken(receiver.received())),
                    Err(error) => {
                        receiver.abandon().await;
                        tell(transfer, Event::Failed(error.to_string()));
                        continue;
                    }
                }
                if receiver.is_whole() {
                    match receiver.finish().await {
                        Ok(received) => tell(transfer, Event::Whole(received)),
                        Err(error) => tell(transfer, Event::Failed(error.to_string())),
                    }
                } else {
                    current = Some((transfer, receiver));
                }
            }
            Command::Forget => {
                if let Some((_, before)) = current.take() {
                    before.abandon().await;
                }
            }
        }
    }
}

impl Transfers {
    /// The checkpoint to install, once consensus has returned the write.
    pub(in crate::node) fn take_receipt(&mut self) -> Option<Receipt> {
        let receiving = self.receiving.as_mut()?;
        match std::mem::replace(&mut receiving.stage, Stage::Installing) {
            Stage::Whole(receipt) => Some(receipt),
            Stage::Taking | Stage::Installing => None,
        }
    }
}

impl Driver {
    fn tell_receiver(&mut self, command: Command) {
        let receiver = self.transfers.receiver.get_or_insert_with(|| {
            let (receiver, commands) = mpsc::unbounded_channel();
            let (directory, database) = (self.directory.clone(), self.database);
            let tell = self.transfers.tell.clone();
            drop(coeval_env::spawn_dedicated(
                "receive checkpoint",
                move || receive(directory, database, commands, tell),
            ));
            receiver
        });
        // A receiver that has ended has reported why, or the node is ending.
        let _ = receiver.send(command);
    }

    /// The leader offers a checkpoint to this node.
    pub(super) fn offered(&mut self, from: Member, transfer: u64, offer: CheckpointOffer) {
        if super::leader(&self.consensus) != Some(from)
            || self.lead.is_some()
            || self.retiring.is_some()
        {
            return;
        }
        if offer.end() <= self.consensus.commit() {
            return self.say_or_forget(from, transfer, &Message::InForce);
        }
        let before = self.transfers.receiving.as_ref();
        if before.is_some_and(|before| !matches!(before.stage, Stage::Taking)) {
            return;
        }
        tracing::info!(%from, end = %offer.end(), bytes = offer.bytes(), "receives a checkpoint");
        self.transfers.receiving = Some(Receiving {
            from,
            transfer,
            offer,
            taken: 0,
            stage: Stage::Taking,
            silent: 0,
            ticks: 0,
        });
        self.tell_receiver(Command::Begin(transfer, offer));
    }

    pub(super) fn piece(&mut self, transfer: u64, at: u64, bytes: Bytes, frame: Frame) {
        let Some(receiving) = &mut self.transfers.receiving else {
            return;
        };
        if receiving.transfer == transfer && receiving.from.0 == frame.from.0 {
            receiving.silent = 0;
            self.tell_receiver(Command::Piece { at, bytes, frame });
        }
    }

    pub(super) fn receive_event(&mut self, transfer: u64, event: Event) -> Result<(), Error> {
        let receiving = self.transfers.receiving.as_mut();
        let Some(receiving) = receiving.filter(|receiving| receiving.transfer == transfer) else {
            self.not_wanted(event);
            return Ok(());
        };
        let from = receiving.from;
        match event {
            Event::Taken(at) => {
                receiving.taken = at;
                self.say_or_forget(from, transfer, &Message::Taken { at });
            }
            Event::Whole(received) => self.whole(from, transfer, received)?,
            Event::Failed(reason) => {
                tracing::error!(%from, reason, "a checkpoint was not taken");
                self.transfers.receiving = None;
                self.say_or_forget(from, transfer, &Message::Refused(reason));
            }
        }
        Ok(())
    }

    /// Removes a checkpoint that arrived after its transfer was given up.
    fn not_wanted(&mut self, event: Event) {
        if let Event::Whole(received) = event {
            drop(coeval_env::spawn_dedicated(
                "remove checkpoint",
                move || received.discard(),
            ));
        }
    }

    fn whole(
        &mut self,
        from: Member,
        transfer: u64,
        received: ReceivedCheckpoint,
    ) -> Result<(), Error> {
        let installed = match entries::checkpoint(&received) {
            Err(error) => Err(error.to_string()),
            Ok(checkpoint) => match self.consensus.install_checkpoint(checkpoint) {
                Ok(is_needed) => Ok(is_needed),
                Err(refusal) => Err(not_fatal(refusal)?.to_string()),
            },
        };
        match installed {
            Ok(true) => {
                if let Some(receiving) = &mut self.transfers.receiving {
                    receiving.stage = Stage::Whole(Box::new(received));
                }
            }
            Ok(false) => {
                self.transfers.receiving = None;
                self.not_wanted(Event::Whole(received));
                self.say_or_forget(from, transfer, &Message::InForce);
            }
            Err(reason) => {
                tracing::error!(%from, reason, "a checkpoint was not taken");
                self.transfers.receiving = None;
                self.not_wanted(Event::Whole(received));
                self.say_or_forget(from, transfer, &Message::Refused(reason));
            }
        }
        Ok(())
    }

    /// The checkpoint is in force on this node.
    pub(in crate::node) fn installed(&mut self) {
        if let Some(receiving) = self.transfers.receiving.take() {
            tracing::info!(from = %receiving.from, end = %receiving.offer.end(), "installed");
            self.say_or_forget(receiving.from, receiving.transfer, &Message::InForce);
        }
    }

    /// Sends a message whose loss the other side detects by itself.
    fn say_or_forget(&self, to: Member, transfer: u64, message: &Message) {
        if let Err(error) = self.say(to, transfer, message) {
            tracing::debug!(%to, %error, "of a checkpoint nothing could be said");
        }
    }

    /// Gives up an incomplete checkpoint that comes from `from`, or from any node if
    /// `None`.
    pub(in crate::node) fn forget_receiving(&mut self, from: Option<Member>, why: &str) {
        let Some(receiving) = &self.transfers.receiving else {
            return;
        };
        let is_meant = from.is_none_or(|from| receiving.from == from);
        if is_meant && matches!(receiving.stage, Stage::Taking) {
            tracing::warn!(from = %receiving.from, why, "a checkpoint is not received any further");
            self.transfers.receiving = None;
            self.tell_receiver(Command::Forget);
        }
    }

    pub(super) fn tick_receiving(&mut self) {
        let leader = super::leader(&self.consensus);
        let Some(receiving) = &mut self.transfers.receiving else {
            return;
        };
        receiving.silent += 1;
        receiving.ticks += 1;
        let (from, transfer, at) = (receiving.from, receiving.transfer, receiving.taken);
        let is_checked = at == receiving.offer.bytes();
        if receiving.ticks % SIGN == 0 {
            self.say_or_forget(from, transfer, &Message::Taken { at });
        }
        let Some(receiving) = &self.transfers.receiving else {
            return;
        };
        if leader.is_some_and(|leader| leader != from) {
            self.forget_receiving(None, "another node leads");
        } else if receiving.silent > PATIENCE && !is_checked {
            self.forget_receiving(None, "nothing was heard of it for long");
        }
    }
}
