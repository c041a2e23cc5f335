//! The follower's side of a transfer.

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

/// What a receiver is to do.
#[derive(Debug)]
pub(super) enum Command {
    /// To take this from now on, and forget what was before.
    Begin(u64, CheckpointOffer),
    /// A piece. The frame that it came in counts as received until it is written.
    Piece { at: u64, bytes: Bytes, frame: Frame },
    /// To forget it.
    Forget,
}

/// What a receiver says.
#[derive(Debug)]
pub(in crate::node) enum Event {
    /// It has everything before.
    Taken(u64),
    /// It is whole and sound.
    Whole(ReceivedCheckpoint),
    /// It cannot be taken.
    Failed(String),
}

/// A checkpoint that is to be put in the place of the log.
pub(in crate::node) type Receipt = Box<ReceivedCheckpoint>;

/// The one on its way to this node.
#[derive(Debug)]
pub(super) struct Receiving {
    from: Member,
    transfer: u64,
    offer: CheckpointOffer,
    taken: u64,
    stage: Stage,
    /// Ticks since something came.
    silent: u32,
    ticks: u32,
}

#[derive(Debug)]
enum Stage {
    Taking,
    /// Consensus is about to hand out the write that installs it.
    Whole(Receipt),
    /// The disk has it.
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

/// Takes checkpoints, one after another.
async fn receive(
    directory: PathBuf,
    database: u128,
    mut commands: mpsc::UnboundedReceiver<Command>,
    tell: mpsc::UnboundedSender<super::Event>,
) {
    let tell = |transfer: u64, event| {
        // If nobody takes it the node has ended.
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
    /// What is to be put in the place of the log, when consensus has handed out the write.
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
        // One that has ended has said why, or the node ends.
        let _ = receiver.send(command);
    }

    /// The leader has a checkpoint for this node.
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

    /// A checkpoint came that was forgotten meanwhile. Its file goes with the next one.
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

    /// The checkpoint is in force here.
    pub(in crate::node) fn installed(&mut self) {
        if let Some(receiving) = self.transfers.receiving.take() {
            tracing::info!(from = %receiving.from, end = %receiving.offer.end(), "installed");
            self.say_or_forget(receiving.from, receiving.transfer, &Message::InForce);
        }
    }

    /// Says something that the other side finds out by itself if it is lost.
    fn say_or_forget(&self, to: Member, transfer: u64, message: &Message) {
        if let Err(error) = self.say(to, transfer, message) {
            tracing::debug!(%to, %error, "of a checkpoint nothing could be said");
        }
    }

    /// Gives up what comes from this node, or from whomever, unless it is here already.
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
