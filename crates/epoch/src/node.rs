//! A node: any of front end, back end and manager, which share one outbox, one configuration
//! and one fence.
//!
//! A pure step function: requests, frames, ticks and finished log writes go in; frames, answers,
//! log writes and proposals for the council come out, by [`EpochNode::take`]. It has no clock, no
//! disk, no network and no chance.
//!
//! # What is let in
//!
//! | of a frame | is let in |
//! | --- | --- |
//! | whose configuration is older | nothing but a request to join; the newest is sent back |
//! | whose configuration is newer | the configuration, or nothing: the newest is asked for |
//! | of an incarnation that the configuration does not have | orders of a manager |
//! | with a manager's orders of an earlier term | everything but these |
//! | of an earlier term, at a manager | nothing for the manager |
//! | of a later term, at a manager | all of it, and it manages no longer |

use std::sync::Arc;

use coeval_council::{Fence, NodeId, Term};
use coeval_types::planted;

use crate::answer::Answer;
use crate::back_end::{BackEnd, Image, LogWrite, NoImage};
use crate::configuration::Configuration;
use crate::directory::Decision;
use crate::front_end::FrontEnd;
use crate::log::{Checkpoint, Recovered};
use crate::manager::{Manager, Rhythm};
use crate::message::{Frame, Part};
use crate::operation::{Key, Operation, Write};
use crate::outbox::Outbox;
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};

/// Versions of a partition, by timestamp and key.
pub type History = Vec<(EpochTimestamp, Key, Operation)>;

/// How a node starts.
#[derive(Debug)]
pub struct Start {
    /// The node.
    pub node: NodeId,
    /// The start of its program: higher than of any earlier one.
    pub incarnation: u64,
    /// The front end that it runs.
    pub front_end: Option<FrontEndId>,
    /// What its log holds, if it has copies.
    pub back_end: Option<Recovered>,
}

/// What the caller has to carry out.
#[derive(Debug, Default)]
pub struct Output {
    /// Frames to send.
    pub frames: Vec<Frame>,
    /// Answers for clients, by the handles of their requests.
    pub answers: Vec<(u64, Answer)>,
    /// Writes to the log, in order.
    pub writes: Vec<LogWrite>,
    /// Decisions to propose to the council, in the manager's term.
    pub proposals: Vec<Decision>,
    /// A checkpoint to write: a copy that was made is in it. Reported by
    /// [`EpochNode::checkpoint_kept`] once it is on the disk; no other is handed out before.
    pub checkpoint: Option<Checkpoint>,
}

/// See the module.
#[derive(Debug)]
pub struct EpochNode {
    node: NodeId,
    incarnation: u64,
    configuration: Arc<Configuration>,
    fence: Fence,
    manager_at: Option<NodeId>,
    front_end: Option<FrontEnd>,
    back_end: Option<BackEnd>,
    manager: Option<Manager>,
    outbox: Outbox,
    /// The number of the newest durable log write.
    durable: u64,
    is_tick: bool,
}

impl EpochNode {
    /// Starts a node.
    #[must_use]
    pub fn start(start: Start) -> Self {
        let (node, incarnation) = (start.node, start.incarnation);
        let back_end = start.back_end;
        Self {
            node,
            incarnation,
            configuration: Arc::default(),
            fence: Fence::default(),
            manager_at: None,
            front_end: start.front_end.map(|id| FrontEnd::new(id, incarnation)),
            back_end: back_end.map(|recovered| BackEnd::new(node, incarnation, recovered)),
            manager: None,
            outbox: Outbox::default(),
            durable: 0,
            is_tick: false,
        }
    }

    /// This node leads the council in this term: it manages.
    pub fn lead(&mut self, term: Term, rhythm: Rhythm) {
        let configuration = Arc::clone(&self.configuration);
        self.manager = Some(Manager::new(term, rhythm, configuration));
        self.leader_is(term, self.node);
    }

    /// Another node leads the council in this term.
    pub fn leader_is(&mut self, term: Term, leader: NodeId) {
        if self.fence.admit(term).is_ok() {
            self.manager_at = Some(leader);
        }
        if leader != self.node {
            self.manager = None;
        }
    }

    /// The directory on this node has a configuration, or has learned of one.
    pub fn configure(&mut self, configuration: &Arc<Configuration>) {
        if configuration.version <= self.configuration.version {
            return;
        }
        self.configuration = Arc::clone(configuration);
        if let Some(front_end) = &mut self.front_end {
            front_end.configure(configuration);
        }
        if let Some(back_end) = &mut self.back_end {
            back_end.configure(configuration);
        }
        if let Some(manager) = &mut self.manager {
            manager.configure(configuration, &mut self.outbox);
        }
    }

    /// What the council made of a proposal is known, and the directory says it.
    pub fn proposal_ended(&mut self) {
        if let Some(manager) = &mut self.manager {
            manager.proposal_ended(&mut self.outbox);
        }
    }

    /// Has the manager fence a front end that is dead.
    pub fn fence_front_end(&mut self, id: FrontEndId) {
        if let Some(manager) = &mut self.manager {
            manager.fence(id, &mut self.outbox);
        }
    }

    /// Has the manager remove a back end that is dead.
    ///
    /// # Errors
    /// When it has the last copy of partitions: which. Clients are refused for as long as this is
    /// said again at each tick.
    pub fn remove_back_end(&mut self, node: NodeId) -> Result<(), Vec<usize>> {
        match &mut self.manager {
            Some(manager) => manager.remove(node, &mut self.outbox),
            None => Ok(()),
        }
    }

    /// A write-only transaction: all operations, or none.
    pub fn put_all(&mut self, handle: u64, writes: Vec<Write>) {
        if let Some(front_end) = &mut self.front_end {
            front_end.put_all(handle, writes);
        }
    }

    /// A read-only transaction at a timestamp of now.
    pub fn get_latest(&mut self, handle: u64, keys: Vec<Key>) {
        if let Some(front_end) = &mut self.front_end {
            front_end.get_latest(handle, keys);
        }
    }

    /// A read-only transaction at this timestamp.
    pub fn get_at(&mut self, handle: u64, keys: Vec<Key>, at: EpochTimestamp) {
        if let Some(front_end) = &mut self.front_end {
            front_end.get_at(handle, keys, at);
        }
    }

    /// Has the front end hold every version that is read at the end of the newest closed epoch that it
    /// knows, under this number, until it is let go; returns the epoch. `None` where no front end is
    /// admitted, or none has heard of a closed epoch.
    pub fn hold(&mut self, number: u64) -> Option<Epoch> {
        let front_end = self.front_end.as_mut()?;
        front_end.hold(number)
    }

    /// Lets go what is held under this number.
    pub fn let_go(&mut self, number: u64) {
        if let Some(front_end) = &mut self.front_end {
            front_end.let_go(number);
        }
    }

    /// A part of the image of a partition at the end of a closed epoch: the keys after one, of so many
    /// bytes at most but for the last.
    ///
    /// # Errors
    /// Where there is none.
    pub fn image(
        &mut self,
        of: (usize, Epoch),
        after: Option<&Key>,
        most_bytes: usize,
    ) -> Result<Image, NoImage> {
        match &mut self.back_end {
            Some(back_end) => back_end.image(of, after, most_bytes),
            None => Err(NoImage::NotHere),
        }
    }

    /// Gives a write-only transaction up, unless its epoch is being closed.
    pub fn give_up(&mut self, handle: u64) {
        if let Some(front_end) = &mut self.front_end {
            front_end.give_up(handle);
        }
    }

    /// A tick of the caller's clock at which nothing is said again: over connections that lose
    /// nothing while they last, that is to be done more rarely than epochs close.
    pub fn pass_time(&mut self) {
        if let Some(manager) = &mut self.manager {
            manager.pass_time(&mut self.outbox);
        }
    }

    /// A tick of the caller's clock: what was not answered is said again.
    pub fn tick(&mut self) {
        self.is_tick = true;
        if let Some(manager) = &mut self.manager {
            manager.tick(&mut self.outbox);
        }
        if let Some(back_end) = &self.back_end
            && !back_end.is_admitted()
            && let Some(manager) = self.manager_at
        {
            // One that was removed, or never was a member, holds nothing that counts.
            let part = match self.configuration.back_ends.contains_key(&self.node) {
                true => Part::Return(back_end.sealed()),
                false => Part::Enlist,
            };
            self.outbox.say(manager, part);
        }
    }

    /// Limits what the copies here take of the memory. Above it values are refused.
    pub fn set_memory_bytes(&mut self, most: u64) {
        if let Some(back_end) = &mut self.back_end {
            back_end.set_memory_bytes(most);
        }
    }

    /// The disk of the copies here is full: nothing more is taken, until it is not.
    pub fn set_disk_full(&mut self, is_full: bool) {
        if let Some(back_end) = &mut self.back_end {
            back_end.set_disk_full(is_full);
        }
    }

    /// Bytes of versions, and of operations that are not closed, on this node.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.back_end.as_ref().map_or(0, BackEnd::memory)
    }

    /// The checkpoint of [`Output::checkpoint`] could not be written: it is handed out again.
    pub fn checkpoint_failed(&mut self) {
        if let Some(back_end) = &mut self.back_end {
            back_end.checkpoint_failed();
        }
    }

    /// The checkpoint of [`Output::checkpoint`] is on the disk.
    pub fn checkpoint_kept(&mut self) {
        if let Some(back_end) = &mut self.back_end {
            back_end.checkpoint_kept();
        }
    }

    /// Log writes up to this number are durable.
    pub fn persisted(&mut self, number: u64) {
        self.durable = self.durable.max(number);
        if let Some(back_end) = &mut self.back_end {
            back_end.persisted(number);
        }
    }

    /// A frame has come.
    pub fn receive(&mut self, frame: &Frame) {
        if frame.to != self.node {
            return;
        }
        for part in &frame.parts {
            self.receive_from_stranger(frame, part);
        }
        let version = self.configuration.version;
        if frame.version < version && !planted!(AcceptOldConfiguration) {
            let newest = Arc::clone(&self.configuration);
            return self.outbox.say(frame.from, Part::Configuration(newest));
        }
        if frame.version > version {
            return self.outbox.say(frame.from, Part::Behind);
        }
        let configuration = &self.configuration;
        let is_stranger = configuration.is_stranger(frame.from, frame.incarnation)
            && !planted!(AcceptOldConfiguration);
        let is_newest = self.fence.admit(frame.term).is_ok() || planted!(TwoManagers);
        // A manager that hears of a later term has been replaced.
        let newest = self.fence.newest();
        let manager = self.manager.take();
        self.manager = manager.filter(|manager| manager.term() >= newest || planted!(TwoManagers));
        for part in &frame.parts {
            match part {
                Part::Switch(..)
                | Part::Closed(..)
                | Part::Lost(_)
                | Part::Collect(..)
                | Part::Seal(..)
                | Part::Greet => {
                    if is_newest {
                        self.receive_order(frame, part);
                    }
                }
                _ if is_stranger => {}
                _ => self.receive_part(frame, part),
            }
        }
    }

    /// What is let in whatever the configuration of its sender.
    fn receive_from_stranger(&mut self, frame: &Frame, part: &Part) {
        let (from, incarnation) = (frame.from, frame.incarnation);
        match (part, &mut self.manager) {
            (Part::Configuration(configuration), _) => self.configure(configuration),
            (Part::Behind, _) => {
                let newest = Arc::clone(&self.configuration);
                self.outbox.say(from, Part::Configuration(newest));
            }
            (Part::Join(id), Some(manager)) => {
                manager.join(*id, from, incarnation, &mut self.outbox);
            }
            (Part::Return(sealed), Some(manager)) => {
                manager.came_back(from, incarnation, *sealed, &mut self.outbox);
            }
            (Part::Enlist, Some(manager)) => manager.enlist(from, incarnation, &mut self.outbox),
            _ => {}
        }
    }

    /// A manager's order.
    fn receive_order(&mut self, frame: &Frame, part: &Part) {
        let out = &mut self.outbox;
        let front_end = self.front_end.as_mut();
        let front_end = front_end.filter(|front_end| front_end.is_admitted());
        let mut back_end = self.back_end.as_mut();
        if let Some(stranger) = back_end.as_ref()
            && !stranger.is_admitted()
        {
            let is_known = self.configuration.back_ends.contains_key(&self.node);
            if *part == Part::Greet && is_known {
                out.say(frame.from, Part::Return(stranger.sealed()));
            }
            back_end = None;
        }
        match part {
            Part::Switch(close, draw) => {
                if let Some(front_end) = front_end {
                    front_end.switch(*close, *draw, out);
                }
            }
            Part::Closed(through, draw, horizon) => {
                if let Some(front_end) = front_end {
                    front_end.note_closed(*through, *draw, *horizon, out);
                }
                if let Some(back_end) = back_end {
                    back_end.note_closed(*through, *horizon);
                }
            }
            Part::Lost(partitions) => {
                if let Some(front_end) = front_end {
                    front_end.lost(partitions);
                }
            }
            Part::Collect(closed, through) => {
                if let Some(back_end) = back_end {
                    let orphans = back_end.orphans(*closed, *through);
                    out.say(frame.from, Part::Collected(*through, orphans));
                }
            }
            Part::Seal(through, resolution) => {
                if let Some(back_end) = back_end {
                    back_end.seal(frame.from, *through, resolution);
                }
            }
            Part::Greet => {
                if let Some(back_end) = back_end {
                    out.say(frame.from, Part::Standing(back_end.standing()));
                }
            }
            _ => {}
        }
    }

    /// Anything else.
    fn receive_part(&mut self, frame: &Frame, part: &Part) {
        let (from, out) = (frame.from, &mut self.outbox);
        let front_end = self.front_end.as_mut();
        let front_end = front_end.filter(|front_end| front_end.is_admitted());
        let back_end = self.back_end.as_mut();
        let back_end = back_end.filter(|back_end| back_end.is_admitted());
        // What was said to an earlier manager says nothing about what that one did afterwards.
        let manager = self
            .manager
            .as_mut()
            .filter(|manager| frame.term >= manager.term() || planted!(TwoManagers));
        match (part, front_end, back_end, manager) {
            (Part::Items(id, confirmed, items), _, Some(back_end), _) => {
                back_end.take_items(frame, *id, *confirmed, items, out);
            }
            (Part::Get(id, read, at, keys), _, Some(back_end), _) => {
                let part = match back_end.get(*at, keys.clone()) {
                    Ok(values) => Part::Got(*id, *read, values),
                    Err(oldest) => Part::TooOld(*id, *read, oldest),
                };
                out.say(from, part);
            }
            (Part::Taken(_, incarnation, through, refused), Some(front_end), _, _) => {
                let back_end = (from, frame.incarnation);
                front_end.taken(back_end, *incarnation, *through, refused);
            }
            (Part::Got(_, read, values), Some(front_end), _, _) => {
                front_end.got(*read, values.clone());
            }
            (Part::TooOld(_, read, oldest), Some(front_end), _, _) => {
                front_end.too_old(*read, *oldest);
            }
            (Part::Want(drawing, closed), _, _, Some(manager)) => {
                manager.want(from, (*drawing, *closed), out);
            }
            (Part::Drained(id, through, floor), front_end, _, manager) => {
                // The parent in the tree is a front end, or the manager.
                match (manager, front_end) {
                    (Some(manager), _) if self.configuration.parent(*id).is_none() => {
                        manager.drained(*id, *through, *floor, out);
                    }
                    (_, Some(front_end)) => front_end.child_drained(*id, *through, *floor),
                    _ => {}
                }
            }
            (Part::Collected(through, pieces), _, _, Some(manager)) => {
                manager.collected(from, *through, pieces.clone(), out);
            }
            (Part::Copy(partition, through, after), _, Some(back_end), _) => {
                if let Some(chunk) = back_end.hand_out(from, *partition, *through, after.clone()) {
                    out.say(from, Part::Copied(Box::new(chunk)));
                }
            }
            (Part::Copied(chunk), _, Some(back_end), _) => back_end.copied(chunk),
            (Part::Caught(partition, through), _, _, Some(manager)) => {
                manager.caught((from, frame.incarnation), *partition, *through, out);
            }
            (Part::Sealed(through), _, _, Some(manager)) => manager.sealed(from, *through, out),
            (Part::Standing(standing), _, _, Some(manager)) => {
                manager.standing(from, *standing, out);
            }
            _ => {}
        }
    }

    /// Takes everything that the caller must do now.
    pub fn take(&mut self) -> Output {
        let mut output = Output::default();
        loop {
            let again = std::mem::take(&mut self.is_tick);
            if let Some(front_end) = &mut self.front_end {
                front_end.say(self.manager_at, again, &mut self.outbox);
                output.answers.extend(front_end.take_answers());
            }
            if let Some(back_end) = &mut self.back_end {
                output.writes.extend(back_end.take_writes());
                back_end.say(self.manager_at, self.durable, again, &mut self.outbox);
                if output.checkpoint.is_none() {
                    output.checkpoint = back_end.due_checkpoint();
                }
            }
            let own = self.outbox.take_to(self.node);
            if own.is_empty() {
                break;
            }
            let frame = Frame {
                from: self.node,
                incarnation: self.incarnation,
                to: self.node,
                version: self.configuration.version,
                term: self.fence.newest(),
                parts: own,
            };
            self.receive(&frame);
        }
        if let Some(manager) = &mut self.manager {
            output.proposals = manager.take_proposals();
        }
        let standing = (self.configuration.version, self.fence.newest());
        output.frames = self.outbox.take(self.node, self.incarnation, standing);
        output
    }

    /// The node's number.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.node
    }

    /// The configuration that the node goes by.
    #[must_use]
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    /// Whether the front end was fenced, or the back end removed: the node's program must start
    /// again, as a new incarnation.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        let removed = self.configuration.removed.get(&self.node);
        if self.back_end.is_some() && removed.is_some_and(|removed| *removed >= self.incarnation) {
            return true;
        }
        let front_end = self.front_end.as_ref();
        let fenced = front_end.and_then(|front_end| {
            let newest = self.configuration.fenced.get(&front_end.id());
            newest.copied()
        });
        fenced.is_some_and(|fenced| fenced >= self.incarnation)
    }

    /// The manager, if it runs here.
    #[must_use]
    pub fn manager(&self) -> Option<&Manager> {
        self.manager.as_ref()
    }

    /// The newest epoch that the node's copies know to be closed; its front end, if it has none.
    #[must_use]
    pub fn closed(&self) -> Epoch {
        match (&self.back_end, &self.front_end) {
            (Some(back_end), _) => back_end.closed(),
            (None, Some(front_end)) => front_end.closed(),
            (None, None) => Epoch(0),
        }
    }

    /// The newest epoch that the node knows to be closed, whether its copies count or not: what is
    /// said to a back end that was removed stops, and its front end hears on.
    #[must_use]
    pub fn newest_closed(&self) -> Epoch {
        let front_end = self.front_end.as_ref().map(FrontEnd::closed);
        self.closed().max(front_end.unwrap_or_default())
    }

    /// All versions in this node's copy of a partition, of the closed epochs after one and
    /// through another; `None` when it has no such copy.
    #[must_use]
    pub fn history(&self, partition: usize, epochs: (Epoch, Epoch)) -> Option<History> {
        self.back_end.as_ref()?.history(partition, epochs)
    }

    /// A checkpoint of the copies on this node, at the end of the newest closed epoch.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.back_end.as_ref().map(BackEnd::checkpoint)
    }
}
