//! The driver: one task that owns a node's step function, and carries out what comes out of it.
//!
//! ```text
//!   peers: frames ─┐                       ┌─▶ peers: frames
//!   clients        ├─▶ EpochNode, a step ──┼─▶ the disk's thread: log writes
//!   the disk       │   for all that is     ├─▶ clients: answers
//!   ticks          │   there at one time   └─▶ the council: proposals
//!   the council ───┘
//! ```
//!
//! All that has come is handed in before anything is taken out, so one frame for each node and
//! one acknowledgement are for as many transactions as there are.
//!
//! # Who manages
//!
//! The council's leader, in its term, once the cluster has a configuration; without one it
//! proposes the first. A node outside the council is told by the leader.
//!
//! # A fenced front end
//!
//! Its number is another incarnation's: the driver begins a new one, as if its process had ended.
//! Clients that wait are told that the outcome is not known: orphans are resolved by counting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use coeval_council::{Council, Error as CouncilError, NodeId, Standing, Term};
use coeval_env::Instant;
use coeval_peers::{Event, Frame as Received, Inbox, Loss, Peers};
use tokio::sync::{mpsc, oneshot, watch};

use super::detector::Detector;
use super::disk::Order;
use super::home::Home;
use super::requests::{Held, ImageAsked, Request, UnderWay};
use super::status::{Counts, ManagerStatus, Status};
use super::{ServerError, Settings, link};
use crate::answer::{Answer, Reason};
use crate::directory::{Decision, Directory};
use crate::log::{Checkpoint, LogError, Recovered};
use crate::message::Frame;
use crate::node::{EpochNode, Start};
use crate::timestamp::{Epoch, FrontEndId};
use crate::wire;

/// Most inputs that one step takes in.
const STEP_INPUTS: usize = 1024;
/// Ticks after which what was not answered is said again: connections lose nothing while they last.
const SAY_AGAIN_TICKS: u32 = 10;
/// Most ticks that are made up for at once: enough for a dead node to be noticed.
const MOST_TICKS: u32 = 100;
/// How long after a checkpoint that failed it is tried again; then twice as long, up to the longest.
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Bytes of versions in one part of an image, but for its last key.
const IMAGE_BYTES: usize = 4 << 20;

/// What comes to the driver from its own process.
#[derive(Debug)]
pub(super) enum Input {
    Request(Request, UnderWay),
    Status(oneshot::Sender<Status>),
    /// Hold versions for a backup.
    Hold(oneshot::Sender<Option<Held>>),
    /// Hold them no longer.
    LetGo(u64),
    Image(ImageAsked),
    /// A write is durable: how often the log had been read again before it, and its number, which
    /// each incarnation counts from one.
    Persisted(u64, u64),
    /// A checkpoint at the end of this epoch is in force.
    Checkpointed(Epoch),
    /// A checkpoint was not written, for want of room.
    CheckpointFailed(LogError),
    /// The log's disk is full, or is not any more.
    DiskFull(bool),
    DiskFailed(LogError),
    /// What the council made of a proposal is known.
    Proposed,
    /// End, in order.
    Stop,
}

/// What a node is part of, and what it uses.
pub(super) struct Parts {
    pub(super) home: Home,
    pub(super) directory: Directory,
    /// The council, on its members.
    pub(super) council: Option<Council>,
    pub(super) peers: Arc<Peers>,
    pub(super) disk: mpsc::UnboundedSender<Order>,
    pub(super) inputs: mpsc::UnboundedReceiver<Input>,
    /// For tasks that report back.
    pub(super) sender: mpsc::UnboundedSender<Input>,
}

/// See the module.
pub(super) struct Driver {
    settings: Settings,
    parts: Parts,
    standing: Option<watch::Receiver<Standing>>,
    node: EpochNode,
    detector: Detector,
    /// The council's leader, as far as this node knows.
    leader: Option<(Term, NodeId)>,
    /// The term in which this node manages.
    led: Option<Term>,
    /// The term in which this node has proposed the first configuration.
    founded_in: Option<Term>,
    waiting: BTreeMap<u64, UnderWay>,
    next_handle: u64,
    next_tick: Instant,
    /// Ticks since everything was said again.
    quiet_ticks: u32,
    counts: Counts,
    /// Bytes of log since the last checkpoint, and the ones that are being written: whether the
    /// step function waits for it.
    logged: u64,
    checkpoints: VecDeque<bool>,
    /// When one may be tried after one that failed, and the pause after the next that fails.
    next_checkpoint: (Instant, Duration),
    /// Whether the step function waits for one that has failed.
    has_to_repeat: bool,
    is_disk_full: bool,
    /// The version of messages that each node reads, as it has announced at its last connection.
    reads: BTreeMap<NodeId, u8>,
    /// When the newest closed epoch was heard of, and the time since the one before.
    closed: (Epoch, Instant),
    epoch_length: Duration,
    unavailable: Vec<usize>,
}

/// Waits for news of the council; for ever where there is none.
async fn changed(standing: &mut Option<watch::Receiver<Standing>>) -> bool {
    match standing {
        Some(standing) => standing.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

impl Driver {
    pub(super) fn new(settings: Settings, parts: Parts, recovered: Recovered) -> Self {
        let node = start(&settings, &parts, recovered);
        let own = parts.home.founding.node;
        let others = parts.home.founding.members.keys().copied();
        let now = coeval_env::now();
        Self {
            standing: parts.council.as_ref().map(Council::standing),
            node,
            detector: Detector::new(settings.patience(), others.filter(|node| *node != own)),
            leader: None,
            led: None,
            founded_in: None,
            waiting: BTreeMap::new(),
            next_handle: 1,
            next_tick: now + settings.tick(),
            quiet_ticks: SAY_AGAIN_TICKS,
            counts: Counts::default(),
            logged: 0,
            checkpoints: VecDeque::new(),
            next_checkpoint: (now, CHECKPOINT_PAUSE),
            has_to_repeat: false,
            is_disk_full: false,
            reads: BTreeMap::new(),
            closed: (Epoch(0), now),
            epoch_length: Duration::ZERO,
            unavailable: Vec::new(),
            settings,
            parts,
        }
    }

    /// Runs until a request ends it, or something fails that it cannot go on without.
    pub(super) async fn run(mut self, mut inbox: Inbox) -> Result<(), ServerError> {
        self.note_standing();
        loop {
            let mut goes_on = tokio::select! {
                biased;
                () = coeval_env::sleep_until(self.next_tick) => {
                    self.make_up_ticks();
                    true
                }
                event = inbox.next() => self.note_event(event),
                input = self.parts.inputs.recv() => self.note_input(input)?,
                is_there = changed(&mut self.standing) => {
                    if !is_there {
                        return Err(ServerError::Council(CouncilError::Ended));
                    }
                    self.note_standing();
                    true
                }
            };
            for _ in 0..STEP_INPUTS {
                if !goes_on {
                    break;
                }
                goes_on = tokio::select! {
                    biased;
                    event = inbox.next() => self.note_event(event),
                    input = self.parts.inputs.recv() => self.note_input(input)?,
                    () = std::future::ready(()) => break,
                };
            }
            self.carry_out();
            if !goes_on {
                break;
            }
            if self.node.is_fenced() {
                self.begin_anew().await?;
            }
        }
        if let Some(council) = &self.parts.council {
            council.close().await.map_err(ServerError::Council)?;
        }
        Ok(())
    }

    fn note_input(&mut self, input: Option<Input>) -> Result<bool, ServerError> {
        match input {
            None | Some(Input::Stop) => return Ok(false),
            Some(Input::Request(request, under_way)) => {
                if let Err(refusal) = request.check() {
                    self.counts.refused += 1;
                    // The client may have gone.
                    let refused = Answer::Aborted(Reason::Refused(refusal));
                    let _ = under_way.answer.send(refused);
                    return Ok(true);
                }
                if !self.parts.home.founding.runs_front_end() {
                    // The client may have gone.
                    let _ = under_way.answer.send(Answer::Aborted(Reason::NoFrontEnd));
                    return Ok(true);
                }
                let handle = self.next_handle;
                self.next_handle += 1;
                self.waiting.insert(handle, under_way);
                match request {
                    Request::PutAll(writes) => self.node.put_all(handle, writes),
                    Request::GetLatest(keys) => self.node.get_latest(handle, keys),
                    Request::GetAt(keys, at) => self.node.get_at(handle, keys, at),
                }
            }
            // The asker may have gone.
            Some(Input::Status(answer)) => drop(answer.send(self.status())),
            Some(Input::Hold(answer)) => {
                let number = self.next_handle;
                self.next_handle += 1;
                let held = self.node.hold(number).map(|epoch| Held {
                    epoch,
                    configuration: Arc::clone(self.node.configuration()),
                    number,
                    inputs: self.parts.sender.clone(),
                });
                // The asker may have gone; then it is let go as it is dropped.
                drop(answer.send(held));
            }
            Some(Input::LetGo(number)) => self.node.let_go(number),
            Some(Input::Image(ImageAsked { of, after, answer })) => {
                let image = self.node.image(of, after.as_ref(), IMAGE_BYTES);
                // The asker may have gone.
                let _ = answer.send(image);
            }
            Some(Input::Persisted(begun_anew, number)) => {
                // A number of an earlier incarnation says nothing about this one's writes.
                if begun_anew == self.counts.begun_anew {
                    self.node.persisted(number);
                }
            }
            Some(Input::Checkpointed(epoch)) => {
                tracing::info!(%epoch, "a checkpoint is in force");
                self.counts.checkpoints += 1;
                // On a full disk each epoch is a reason for the next one.
                let pause = match self.is_disk_full {
                    true => CHECKPOINT_PAUSE,
                    false => Duration::ZERO,
                };
                self.next_checkpoint = (coeval_env::now() + pause, CHECKPOINT_PAUSE);
                if self.checkpoints.pop_front() == Some(true) {
                    self.node.checkpoint_kept();
                }
            }
            Some(Input::CheckpointFailed(error)) => {
                let pause = self.next_checkpoint.1;
                tracing::error!(%error, ?pause, "no checkpoint was written; it is tried again");
                self.next_checkpoint = (coeval_env::now() + pause, (pause * 2).min(LONGEST_PAUSE));
                self.logged = self.settings.checkpoint_bytes;
                self.has_to_repeat |= self.checkpoints.pop_front() == Some(true);
            }
            Some(Input::DiskFull(is_full)) => {
                self.is_disk_full = is_full;
                self.node.set_disk_full(is_full);
            }
            Some(Input::DiskFailed(error)) => return Err(ServerError::Log(error)),
            Some(Input::Proposed) => {
                self.node.configure(&self.parts.directory.configuration());
                self.node.proposal_ended();
            }
        }
        Ok(true)
    }

    fn note_event(&mut self, event: Option<Event>) -> bool {
        match event {
            None => return false,
            Some(Event::Connected(node)) => {
                tracing::info!(%node, "connected");
                self.detector.connected(node);
                let peers = self.parts.peers.status();
                let announced = peers.into_iter().find(|peer| peer.node == node);
                let announced = announced.and_then(|peer| peer.announced);
                let reads = announced.map_or(wire::OLDEST.into(), |announced| announced.reads);
                // A node that reads more than any version reads this one's newest.
                let reads = u8::try_from(reads).unwrap_or(u8::MAX);
                self.reads.insert(node, reads);
                self.tell_leader(&[node]);
            }
            Some(Event::Disconnected(node, fault)) => {
                tracing::info!(%node, %fault, "disconnected");
                self.detector.disconnected(node);
            }
            Some(Event::Frame(frame)) => self.note_frame(frame),
        }
        true
    }

    fn note_frame(&mut self, received: Received) {
        let from = received.from;
        let own = self.parts.home.founding.node;
        match received.kind {
            link::EPOCH => match wire::decode(from, own, received.payload.clone()) {
                Ok(frame) => self.node.receive(&frame),
                Err(error) => {
                    self.counts.malformed += 1;
                    tracing::warn!(%from, %error, "a message was dropped");
                }
            },
            link::COUNCIL => {
                if let Some(council) = &self.parts.council {
                    council.deliver(from, received.payload.clone());
                }
            }
            link::LEADER if self.parts.council.is_none() => {
                match link::read_leader(received.payload.clone()) {
                    Ok((term, leader)) if leader == from => self.follow(term, leader),
                    _ => self.counts.malformed += 1,
                }
            }
            _ => self.counts.malformed += 1,
        }
    }

    /// Another node leads in this term.
    fn follow(&mut self, term: Term, leader: NodeId) {
        if self.leader.is_none_or(|(newest, _)| newest <= term) {
            self.leader = Some((term, leader));
            self.node.leader_is(term, leader);
        }
    }

    /// Takes in what the council says: who leads, and what was decided.
    fn note_standing(&mut self) {
        let Some(standing) = &mut self.standing else {
            return;
        };
        let now = standing.borrow_and_update().clone();
        let configuration = self.parts.directory.configuration();
        self.node.configure(&configuration);
        let own = self.parts.home.founding.node;
        if let Some(leader) = now.leader.filter(|leader| *leader != own) {
            self.led = None;
            self.follow(now.term, leader);
        } else if now.leads && configuration.version == 0 {
            self.found(now.term);
        } else if now.leads && self.led != Some(now.term) {
            tracing::info!(term = %now.term, "this node manages epochs");
            self.led = Some(now.term);
            self.leader = Some((now.term, own));
            self.node.lead(now.term, self.settings.rhythm);
            self.tell_all_leader();
        }
    }

    /// Has the council decide on the first configuration, once in a term.
    fn found(&mut self, term: Term) {
        if self.founded_in != Some(term) {
            self.founded_in = Some(term);
            let first = self.parts.home.founding.configuration();
            self.propose(term, Decision::Found(first));
        }
    }

    fn tell_all_leader(&self) {
        let members = &self.parts.home.founding.members;
        let members: Vec<NodeId> = members.keys().copied().collect();
        self.tell_leader(&members);
    }

    /// Tells nodes outside the council that this one leads.
    fn tell_leader(&self, nodes: &[NodeId]) {
        let Some(term) = self.led else {
            return;
        };
        let founding = &self.parts.home.founding;
        let council = founding.council();
        for node in nodes.iter().filter(|node| !council.contains(node)) {
            let message = link::leader(term, founding.node);
            // One that is not connected is told once it is, and what is lost is said again.
            let _ = self
                .parts
                .peers
                .send(*node, link::LEADER, message, Loss::Kept);
        }
    }

    /// Has the council decide. What came of it is reported once the directory has it; if that is
    /// not known here, this node does not lead any more, and nothing more is to be reported.
    fn propose(&self, term: Term, decision: Decision) {
        let Some(council) = self.parts.council.clone() else {
            return;
        };
        let sender = self.parts.sender.clone();
        coeval_env::spawn("propose to the council", async move {
            let outcome = council.propose(term, decision.encode()).await;
            match &outcome {
                Ok(_) => tracing::info!(?decision, "decided"),
                Err(error) => tracing::warn!(?decision, %error, "not decided"),
            }
            let is_known = !matches!(outcome, Err(CouncilError::Unknown | CouncilError::Ended));
            if is_known {
                // The driver may have ended.
                let _ = sender.send(Input::Proposed);
            }
        });
    }

    fn make_up_ticks(&mut self) {
        let now = coeval_env::now();
        for _ in 0..MOST_TICKS {
            if now < self.next_tick {
                break;
            }
            self.detector.tick();
            self.next_tick += self.settings.tick();
        }
        if self.next_tick <= now {
            // A process that was stopped: what it missed beyond that is not made up for.
            self.next_tick = now + self.settings.tick();
        }
        // However late this tick is, one is as good as several: what is said again is said once.
        self.quiet_ticks += 1;
        if self.quiet_ticks < SAY_AGAIN_TICKS {
            self.node.pass_time();
        } else {
            self.quiet_ticks = 0;
            self.node.tick();
            self.tell_all_leader();
        }
        self.bury();
        self.checkpoint();
    }

    /// Has the manager fence the front ends of dead nodes, and remove their copies.
    fn bury(&mut self) {
        if self.node.manager().is_none() {
            self.unavailable.clear();
            return;
        }
        let configuration = Arc::clone(self.node.configuration());
        let mut unavailable = Vec::new();
        for dead in self.detector.dead() {
            for (id, place) in &configuration.front_ends {
                if place.node == dead {
                    self.node.fence_front_end(*id);
                }
            }
            if configuration.back_ends.contains_key(&dead)
                && let Err(partitions) = self.node.remove_back_end(dead)
            {
                unavailable.extend(partitions);
            }
        }
        unavailable.sort_unstable();
        if unavailable != self.unavailable {
            let partitions = &unavailable;
            tracing::warn!(?partitions, "partitions whose last copy is on a dead node");
            self.unavailable = unavailable;
        }
    }

    /// Has a checkpoint written once the log has grown enough, or its disk is full: it frees the log.
    fn checkpoint(&mut self) {
        if !self.checkpoints.is_empty() || coeval_env::now() < self.next_checkpoint.0 {
            return;
        }
        if std::mem::take(&mut self.has_to_repeat) {
            return self.node.checkpoint_failed();
        }
        let has_grown = self.logged >= self.settings.checkpoint_bytes;
        let is_due = has_grown || self.is_disk_full && self.logged > 0;
        let is_closed = |epoch: Epoch| epoch > Epoch(0);
        if is_due
            && let Some(checkpoint) = self.node.checkpoint()
            && is_closed(checkpoint.epoch)
        {
            self.write_checkpoint(checkpoint, false);
        }
    }

    fn write_checkpoint(&mut self, checkpoint: Checkpoint, is_awaited: bool) {
        self.logged = 0;
        self.checkpoints.push_back(is_awaited);
        // A disk that has failed has said so.
        let _ = self.parts.disk.send(Order::Checkpoint(checkpoint));
    }

    /// Carries out what the step function asks for.
    fn carry_out(&mut self) {
        let output = self.node.take();
        for write in output.writes {
            self.counts.log_writes += 1;
            self.counts.log_bytes += write.bytes.len() as u64;
            self.logged += write.bytes.len() as u64;
            // A disk that has failed has said so.
            let _ = self.parts.disk.send(Order::Write(write));
        }
        if let Some(checkpoint) = output.checkpoint {
            self.write_checkpoint(checkpoint, true);
        }
        for frame in &output.frames {
            self.send(frame);
        }
        for (handle, answer) in output.answers {
            match &answer {
                Answer::Committed(_) => self.counts.committed += 1,
                Answer::Values(..) => self.counts.read += 1,
                Answer::Aborted(_) => self.counts.refused += 1,
            }
            if let Some(under_way) = self.waiting.remove(&handle) {
                // The client may have gone.
                let _ = under_way.answer.send(answer);
            }
        }
        if let Some(term) = self.node.manager().map(|manager| manager.term()) {
            for decision in output.proposals {
                self.propose(term, decision);
            }
        }
        let closed = self.node.newest_closed();
        if closed > self.closed.0 {
            let now = coeval_env::now();
            self.epoch_length = now.duration_since(self.closed.1);
            self.closed = (closed, now);
        }
    }

    /// Sends a frame as far as there is room: what is lost is said again at a later tick.
    fn send(&mut self, frame: &Frame) {
        let reads = self.reads.get(&frame.to).copied();
        for payload in wire::encode_for(frame, reads.unwrap_or(wire::OLDEST)) {
            let sent = self
                .parts
                .peers
                .send(frame.to, link::EPOCH, payload, Loss::Kept);
            if let Err(error) = sent {
                self.counts.unsent += 1;
                tracing::debug!(to = %frame.to, %error, "a message was not sent");
            }
        }
    }

    /// Begins a new incarnation, for the old one's front end was fenced.
    async fn begin_anew(&mut self) -> Result<(), ServerError> {
        let (answer, reopened) = oneshot::channel();
        let _ = self.parts.disk.send(Order::Reopen(answer));
        let recovered = reopened.await.unwrap_or(Err(LogError::Ended));
        let recovered = recovered.map_err(ServerError::Log)?;
        let incarnation = self.parts.home.begin().await.map_err(ServerError::Home)?;
        tracing::warn!(
            incarnation,
            "the node was fenced or removed, and begins anew"
        );
        self.checkpoints
            .iter_mut()
            .for_each(|awaited| *awaited = false);
        self.counts.begun_anew += 1;
        // Each client that waits is told that the outcome is not known.
        self.counts.unknown += self.waiting.len() as u64;
        self.waiting.clear();
        let configuration = Arc::clone(self.node.configuration());
        self.node = start(&self.settings, &self.parts, recovered);
        self.node.set_disk_full(self.is_disk_full);
        self.has_to_repeat = false;
        self.node.configure(&configuration);
        self.led = None;
        if let Some((term, leader)) = self.leader
            && leader != self.parts.home.founding.node
        {
            self.node.leader_is(term, leader);
        }
        self.note_standing();
        Ok(())
    }

    /// Whether this node is connected with a majority of the council, itself included.
    fn reaches_majority(&self) -> bool {
        let founding = &self.parts.home.founding;
        let council = founding.council();
        let is_there =
            |node: &&NodeId| **node == founding.node || self.detector.is_connected(**node);
        council.iter().filter(is_there).count() * 2 > council.len()
    }

    fn status(&self) -> Status {
        let configuration = self.node.configuration();
        let founding = &self.parts.home.founding;
        let incarnation = self.parts.home.incarnation;
        let front_end = configuration.front_ends.get(&front_end_of(founding.node));
        let manager = self.node.manager().map(|manager| {
            let (undrained, unsealed) = manager.waits_for();
            ManagerStatus {
                closes: manager.closes(),
                drained_last: manager.drained_last(),
                undrained,
                unsealed,
                unavailable: self.unavailable.clone(),
            }
        });
        Status {
            node: founding.node.0,
            incarnation,
            term: self.leader.map_or(0, |(term, _)| term.0),
            manager_at: self.leader.map(|(_, node)| node),
            configuration: configuration.version,
            connected: self.detector.count(),
            majority: self.reaches_majority(),
            runs_no_front_end: !founding.runs_front_end(),
            runs_no_back_end: !founding.runs_back_end(),
            front_end: front_end.is_some_and(|place| place.incarnation == incarnation),
            back_end: configuration.is_back_end(founding.node, incarnation),
            closed: self.node.newest_closed(),
            memory_bytes: self.node.memory(),
            disk_full: self.is_disk_full,
            epoch_microseconds: self.epoch_length.as_micros() as u64,
            waiting: self.waiting.len(),
            counts: self.counts,
            manager,
        }
    }
}

/// The number of a node's front end: its own.
fn front_end_of(node: NodeId) -> FrontEndId {
    FrontEndId(node.0 as u8)
}

/// The step function of a start, with the configuration that the council has here.
fn start(settings: &Settings, parts: &Parts, recovered: Recovered) -> EpochNode {
    let founding = &parts.home.founding;
    let node = founding.node;
    let configuration = parts.directory.configuration();
    let mut started = EpochNode::start(Start {
        node,
        incarnation: parts.home.incarnation,
        front_end: founding.runs_front_end().then(|| front_end_of(node)),
        // Where its copies were removed, the back end asks for others: it comes in empty, and
        // forgets what its disk held.
        back_end: founding.runs_back_end().then_some(recovered),
    });
    if settings.memory_bytes > 0 {
        started.set_memory_bytes(settings.memory_bytes);
    }
    started.configure(&configuration);
    started
}
