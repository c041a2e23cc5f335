//! The driver: the event loop that feeds consensus and carries out its actions.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coeval_consensus::{Consensus, Content, NodeId as Member, Refusal, encoding};
use coeval_env::Instant;
use coeval_occ::Budget;
use coeval_peers::{Event, Frame, Inbox, Peers, Security};
use coeval_types::{Lsn, Remedy, planted};
use tokio::sync::{mpsc, oneshot, watch};

use super::apply_progress::{ApplyProgressTable, Replayed};
use super::away::PauseDetector;
use super::disk::{Command, Done};
use super::elections::Elections;
use super::follower_reads::FollowerReads;
use super::frames;
use super::lead::Lead;
use super::operation::{self, AdminRequest, Answer, Operation, Refused};
use super::origin::Origins;
use super::peer_set::PeerSet;
use super::read_index::{Certain, Counts, ReadIndex};
use super::room::Room;
use super::standing::Standing;
use super::transfer::Transfers;
use super::{Error, NodeStatus, Settings, Status, Watch, entries};

/// Bytes of the engine's log that the driver proposes before it polls other events again.
const PROPOSE_BYTES: usize = 1 << 20;

/// How long the leader delays telling followers a new commit index when it sends them
/// nothing else. Under load the next entries carry it, mostly within this time.
pub(super) const TELL_COMMIT: Duration = Duration::from_millis(1);

/// A request to a node.
#[derive(Debug)]
pub(super) enum Request {
    /// The node's status, with its connections and followers.
    Status(oneshot::Sender<Status>),
    /// Secure new connections with other nodes like this.
    Secure(Security, oneshot::Sender<Result<(), Error>>),
    /// An administrator's request to change the leader or the membership.
    Operate(AdminRequest, Answer),
    /// Shut the node down.
    Stop(oneshot::Sender<Result<(), Error>>),
}

/// The state of a node's driver task.
pub(super) struct Driver {
    pub(super) consensus: Consensus,
    pub(super) peers: Peers,
    pub(super) disk: mpsc::UnboundedSender<Command>,
    /// Which backups the members were restored from.
    pub(super) origins: Origins,
    pub(super) shown: watch::Sender<NodeStatus>,
    pub(super) watch: Watch,
    /// State of the leader's term, while this node leads.
    pub(super) lead: Option<Lead>,
    /// The term that this node led last, while its log is still being closed: the last
    /// unreported write.
    pub(super) retiring: Option<Option<u64>>,
    /// The read index of the published engine's readers.
    pub(super) read_index: Option<ReadIndex>,
    /// Read-index counters of earlier terms.
    counts: Counts,
    /// Reads on this node while it follows.
    pub(super) follower_reads: FollowerReads,
    /// The memory budget of the engine, whichever it is.
    pub(super) budget: Budget,
    /// Notices that this process did not run.
    pauses: Arc<PauseDetector>,
    /// Number of confirmation rounds begun for admissions; then the last one confirmed.
    pub(super) admissions: u64,
    pub(super) admission_confirmed: Option<u64>,
    pub(super) peer_set: PeerSet,
    /// Count of membership changes when the connections were last updated.
    pub(super) met_at: Option<u64>,
    pub(super) elections: Elections,
    /// The administrator's request under way, if there is one.
    pub(super) operation: Option<Operation>,
    /// Requests that wait for the end of a change that this node began by itself.
    pub(super) waiting: VecDeque<(AdminRequest, Answer)>,
    /// Whether this node takes part in its cluster.
    pub(super) standing: Standing,
    /// The highest cluster version that this node says it reads.
    pub(super) cluster_version: u32,
    /// The minimum election timeout: the shortest time in which a lost leader is
    /// replaced.
    pub(super) election: Duration,
    /// How long a node that is being added may make no progress.
    pub(super) patience: Duration,
    /// Room on the disks.
    pub(super) room: Room,
    /// Checkpoints being transferred.
    pub(super) transfers: Transfers,
    /// Replay progress of the followers.
    pub(super) apply_progress: ApplyProgressTable,
    /// Bytes of log that the leader retains for a connected follower.
    pub(super) follower_log_bytes: u64,
    pub(super) directory: PathBuf,
    pub(super) database: u128,
    tick: Duration,
    next_tick: Instant,
    /// When the leader sends followers the commit index, if no earlier message carries
    /// it.
    pub(super) tell_commit: Option<Instant>,
    /// How long entries wait for non-quorum followers; `None` if they do not.
    batch_interval: Option<Duration>,
    /// When non-quorum followers may be sent entries again, if that is not now, and where
    /// the log ended when they were last sent some.
    batch_due: Option<(Instant, Lsn)>,
    /// Whether entries are waiting for non-quorum followers.
    batch_waits: bool,
}

/// Returns a refusal that the node survives. A refusal that reports lost data is an error
/// that stops the node, since all its later work would build on the loss.
pub(super) fn not_fatal(refusal: Refusal) -> Result<Refusal, Error> {
    match refusal.remedy() {
        Remedy::Fatal => Err(Error::Contradiction(refusal)),
        _ => Ok(refusal),
    }
}

/// Why the driver task ends.
pub(super) enum End {
    /// A caller asked the node to stop.
    Asked(oneshot::Sender<Result<(), Error>>),
    /// The node cannot continue.
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl End {
    /// Prefers the disk thread's own error. A failed disk thread reports its error before
    /// it closes its channel, but a sender may notice the closed channel before the
    /// driver has read the report.
    fn or_what_the_disk_said(self, done: &mut mpsc::UnboundedReceiver<Done>) -> Self {
        if matches!(self, Self::Failed(Error::LogEnded)) {
            while let Ok(what) = done.try_recv() {
                if let Done::Failed(error) = what {
                    return Self::Failed(error);
                }
            }
        }
        self
    }
}

impl Driver {
    pub(super) fn new(
        consensus: Consensus,
        (standing, origins): (Standing, Origins),
        (peers, peer_set): (Peers, PeerSet),
        (disk, directory): (mpsc::UnboundedSender<Command>, PathBuf),
        shown: watch::Sender<NodeStatus>,
        (replayed, pauses): (Replayed, Arc<PauseDetector>),
        settings: &Settings,
    ) -> Self {
        Self {
            consensus,
            disk,
            origins,
            shown,
            watch: settings.observer.clone(),
            lead: None,
            retiring: None,
            read_index: None,
            counts: Counts::default(),
            follower_reads: FollowerReads::default(),
            budget: settings.engine.budget,
            pauses,
            admissions: 0,
            admission_confirmed: None,
            peer_set,
            met_at: None,
            elections: Elections::default(),
            operation: None,
            waiting: VecDeque::new(),
            standing,
            cluster_version: settings.cluster_version,
            election: settings.tick() * settings.consensus.election_ticks,
            patience: Duration::from_millis(settings.catch_up_milliseconds),
            room: Room::new(directory.clone(), settings.engine.log.clone()),
            transfers: Transfers::new(settings.peers.frame_bytes),
            apply_progress: ApplyProgressTable::new(replayed, settings.tick()),
            follower_log_bytes: settings.follower_log_bytes,
            directory,
            database: peers.cluster().0,
            peers,
            tick: settings.tick(),
            next_tick: coeval_env::now() + settings.tick(),
            tell_commit: None,
            batch_interval: settings.batch_interval(),
            batch_due: None,
            batch_waits: false,
        }
    }

    /// Runs until the node is asked to stop or cannot continue.
    pub(super) async fn run(
        mut self,
        mut inbox: Inbox,
        mut done: mpsc::UnboundedReceiver<Done>,
        mut requests: mpsc::UnboundedReceiver<Request>,
    ) {
        let end = loop {
            if let Err(end) = self.step(&mut inbox, &mut done, &mut requests).await {
                break end;
            }
        };
        self.end(end.or_what_the_disk_said(&mut done)).await;
    }

    async fn step(
        &mut self,
        inbox: &mut Inbox,
        done: &mut mpsc::UnboundedReceiver<Done>,
        requests: &mut mpsc::UnboundedReceiver<Request>,
    ) -> Result<(), End> {
        let lead = self.lead.as_ref();
        let news = async {
            match lead {
                Some(lead) => lead.news().await,
                None => std::future::pending().await,
            }
        };
        let read_index = self.read_index.as_ref();
        let wanted = async {
            match read_index {
                Some(read_index) => read_index.wanted().await,
                None => std::future::pending().await,
            }
        };
        let questions = &self.follower_reads.questions;
        let held_until = self.held_until();
        let not_put = operation::not_put(&mut self.operation);
        let batch = self.batch_due.filter(|_| self.batch_waits);
        let wake = [self.tell_commit, batch.map(|(due, _)| due), held_until];
        let wake = wake
            .into_iter()
            .flatten()
            .fold(self.next_tick, Instant::min);
        let wake = self
            .pauses
            .waits(coeval_env::now(), wake, self.lead.is_none());
        tokio::select! {
            biased;
            () = coeval_env::sleep_until(wake) => {}
            what = done.recv() => {
                let what = what.ok_or(Error::LogEnded)?;
                self.make_up_for_ticks()?;
                self.done(what)?;
            }
            () = news => {
                self.make_up_for_ticks()?;
                self.log_moved().await?;
            }
            () = wanted => {
                self.make_up_for_ticks()?;
                self.begin_round();
            }
            () = questions.wanted() => {
                self.make_up_for_ticks()?;
                self.ask_due();
            }
            event = self.transfers.next() => {
                self.make_up_for_ticks()?;
                self.transfer_event(event)?;
            }
            why = not_put => operation::give_up(&mut self.operation, why),
            event = inbox.next() => {
                let event = event.ok_or(Error::Ended)?;
                self.make_up_for_ticks()?;
                self.event(event)?;
            }
            request = requests.recv() => {
                self.make_up_for_ticks()?;
                match request {
                    Some(Request::Status(answer)) => {
                        self.report_flushed();
                        // The caller may have gone.
                        drop(answer.send(self.status()));
                    }
                    Some(Request::Secure(security, answer)) => {
                        let secured = self.peers.set_security(security);
                        let secured = secured.map_err(|error| Error::Setting(error.to_string()));
                        // The asker may have gone.
                        let _ = answer.send(secured);
                    }
                    Some(Request::Operate(request, answer)) => self.begin(request, answer).await?,
                    Some(Request::Stop(answer)) => return Err(End::Asked(answer)),
                    // The node was dropped, and this task is about to be.
                    None => return Err(End::Failed(Error::Ended)),
                }
            }
        }
        self.make_up_for_ticks()?;
        let tell = self.tell_commit.take_if(|tell| *tell <= coeval_env::now());
        if tell.is_some() {
            self.consensus.tell_commit();
        }
        let due = self.batch_due.map(|(due, _)| due);
        if due.is_some_and(|due| due <= coeval_env::now()) {
            self.consensus.send_to_all();
        }
        self.release_held();
        // A flush that no commit waited for raised no event.
        self.report_flushed();
        self.apply_ready()?;
        self.operate().await?;
        self.begin_waiting().await?;
        while self.wants_flush() && self.report_flushed() {
            self.apply_ready()?;
        }
        Ok(())
    }

    /// Sets the time at which non-quorum followers are sent entries again.
    pub(super) fn say_when_batches_go(&mut self) {
        if let Some(interval) = self.batch_interval {
            self.batch_waits = self.consensus.has_non_quorum_entries();
            self.batch_due = self.consensus.offered_to_all().map(|offered| {
                let before = self.batch_due.filter(|(_, of)| *of == offered);
                before.unwrap_or_else(|| (coeval_env::now() + interval, offered))
            });
        }
    }

    /// Delivers the ticks that are due: consensus relies on ticks arriving before later
    /// events.
    fn make_up_for_ticks(&mut self) -> Result<(), Error> {
        self.pauses.runs(coeval_env::now());
        while self.next_tick <= coeval_env::now() {
            self.next_tick += self.tick;
            self.look_whether_removed()?;
            if self.standing.takes_part() {
                self.consensus.tick();
            }
            self.look_at_standing()?;
            self.tend_version();
            self.tend_room();
            self.tick_transfers();
            self.tick_questions();
            self.keep_log_for_followers();
            self.report_apply_progress();
            self.ask_for_origins();
            self.apply_ready()?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Frame(frame) if frame.kind == frames::ORIGIN => self.origin_frame(&frame)?,
            Event::Frame(frame) if frame.kind == frames::LIST => self.member_list_frame(&frame),
            Event::Frame(frame)
                if !self.standing.takes_part() || !self.origins.admits(frame.from) =>
            {
                tracing::debug!(from = %frame.from, "this node takes no part with it yet");
            }
            Event::Frame(frame) if frame.kind == frames::CONSENSUS => self.message(&frame)?,
            Event::Frame(frame) if frame.kind == frames::CHECKPOINT => self.transfer_frame(frame),
            Event::Frame(frame) if frame.kind == frames::ADMISSION => self.admission(&frame)?,
            Event::Frame(frame) if frame.kind == frames::REACHED => self.reached(&frame),
            Event::Frame(frame) if frame.kind == frames::ROOM => self.room_frame(&frame),
            Event::Frame(frame) => {
                tracing::debug!(from = %frame.from, kind = ?frame.kind, "a frame of this kind is ignored");
            }
            Event::Connected(node) => {
                tracing::info!(%node, "connected to a node");
                self.transfers.connected(node);
                self.apply_progress.connected(node);
                self.ask_again(Member(node.0));
            }
            Event::Disconnected(node, fault) => {
                tracing::info!(%node, %fault, "the connection to a node has ended");
                self.transfers_lose(node);
            }
        }
        Ok(())
    }

    fn message(&mut self, frame: &Frame) -> Result<(), Error> {
        let from = Member(frame.from.0);
        let received = encoding::decode(&frame.payload)
            .map_err(|error| error.to_string())
            .and_then(|message| {
                entries::check(from, self.database, &message).map_err(str::to_owned)?;
                Ok(message)
            });
        let refused = match received {
            Err(reason) => reason,
            Ok(message) => {
                self.elections.hear(&message);
                match self.consensus.receive(message) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => not_fatal(refusal)?.to_string(),
                }
            }
        };
        tracing::error!(%from, reason = refused, "a node's message is not taken");
        Ok(())
    }

    fn done(&mut self, done: Done) -> Result<(), Error> {
        match done {
            Done::Persisted(number) => self.persisted(number),
            Done::Leads(stream, news) => {
                if let Some(lead) = &mut self.lead {
                    lead.log = Some((stream, news));
                }
                self.report_flushed();
                if planted!(ForgetMarkRule) {
                    self.serve()?;
                }
            }
            Done::Follows(orders, tables) => self.follows(orders, tables),
            Done::Serves(engine) => {
                if let Some(lead) = &mut self.lead {
                    engine.tend();
                    let mut committed = self.consensus.commit();
                    if planted!(ForgetMarkRule) {
                        committed = committed.max(lead.mark.1);
                    }
                    engine.log().set_committed(committed);
                    let read_index = ReadIndex::new(self.counts);
                    engine.led_under(read_index.readers());
                    self.read_index = Some(read_index);
                    lead.engine = Some(engine);
                }
            }
            Done::Retired => {
                if let Some(Some(number)) = self.retiring.take() {
                    self.persisted(number);
                }
            }
            Done::Installed => self.installed(),
            Done::Admitted => self.admitted(),
            Done::Founded(founders) => self.founded(founders)?,
            Done::Fetched(fetch, entries) => {
                if let Err(refusal) = self.consensus.fetched(fetch, entries) {
                    tracing::error!(%refusal, "log that was read for a follower is not taken");
                }
            }
            Done::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn persisted(&mut self, number: u64) {
        if let Some(watch) = &self.watch {
            watch.persisted(self.consensus.id(), number);
        }
        if let Err(refusal) = self.consensus.persisted(number) {
            tracing::error!(%refusal, "the disk reports what it was never told");
        }
    }

    /// Reports flushed writes to consensus. Returns whether there were any.
    fn report_flushed(&mut self) -> bool {
        let flushed = self.lead.as_mut().and_then(Lead::flushed);
        flushed.inspect(|number| self.persisted(*number)).is_some()
    }

    /// Asks the log to flush the offset that a commit needs, if a commit waits for this
    /// disk. Returns whether one waits; the log may have flushed the offset meanwhile.
    fn wants_flush(&self) -> bool {
        let wanted = self.lead.as_ref().zip(self.consensus.awaits_durable());
        if let Some((lead, end)) = wanted {
            lead.want_flushed(end);
        }
        wanted.is_some()
    }

    /// The engine's log has grown or been flushed: the driver proposes new entries, and
    /// reports flushed ones.
    pub(super) async fn log_moved(&mut self) -> Result<(), Error> {
        loop {
            if self.hands_over() {
                break;
            }
            let Some(lead) = &mut self.lead else {
                return Ok(());
            };
            if lead.has_ended() {
                return Err(Error::LogEnded);
            }
            let Some((stream, _)) = &mut lead.log else {
                return Ok(());
            };
            let Some(chunk) = stream.read(PROPOSE_BYTES).await? else {
                break;
            };
            for entry in entries::entries(self.database, &chunk)? {
                let space = entry.space();
                let payload = match entry.content {
                    Content::Payload(payload) => payload,
                    Content::Membership(_) => match self.change_comes_by(entry.end)? {
                        Refused::Not => continue,
                        Refused::NotLeader => return Ok(()),
                    },
                    Content::Mark(_) => {
                        return Err(Error::Malformed("this node's own log has a second mark"));
                    }
                };
                match self.consensus.propose_spanning(payload, space) {
                    Ok(position) if position.end == entry.end => {}
                    Ok(_) => return Err(Error::Malformed("this node's own log has a gap")),
                    // This node no longer leads; the next actions of consensus say so.
                    Err(Refusal::NotLeader { .. }) => return Ok(()),
                    Err(refusal) => return Err(Error::NotLeading(refusal.to_string())),
                }
            }
            self.apply_ready()?;
        }
        self.report_flushed();
        Ok(())
    }

    /// Starts a consensus round that confirms, for all waiting readers, that this node
    /// still leads.
    pub(super) fn begin_round(&mut self) {
        let Some(read_index) = &self.read_index else {
            return;
        };
        if let Some(round) = read_index.begin()
            && let Err(refusal) = self.consensus.read(round)
        {
            // This node no longer leads; the next actions of consensus say so.
            tracing::debug!(%refusal, "reads are not confirmed");
        }
    }

    /// Until when a question or a round is held back for more readers.
    fn held_until(&self) -> Option<Instant> {
        let round = self.read_index.as_ref().and_then(ReadIndex::held_until);
        let question = self.follower_reads.questions.held_until();
        round.into_iter().chain(question).min()
    }

    /// Sends what was held back for more readers for long enough.
    fn release_held(&mut self) {
        let now = coeval_env::now();
        if self.held_until().is_none_or(|until| now < until) {
            return;
        }
        if let Some(read_index) = &self.read_index {
            read_index.release(now);
            self.begin_round();
        }
        self.follower_reads.questions.release(now);
        self.ask_due();
    }

    /// Publishes until when no other node can lead.
    pub(super) fn say_how_certain(&mut self) {
        let Some(read_index) = &mut self.read_index else {
            return;
        };
        let for_ticks = |ticks| match ticks {
            0 => Certain::Not,
            u64::MAX => Certain::Always,
            ticks => {
                // The next tick is the first of these ticks, and is still to come.
                let ticks = u32::try_from(ticks - 1).unwrap_or(u32::MAX);
                Certain::Until(self.next_tick + self.tick * ticks)
            }
        };
        let certain = for_ticks(self.consensus.certain_ticks());
        let unchallenged = for_ticks(self.consensus.unchallenged_ticks());
        read_index.set_certain(certain, unchallenged);
    }

    /// Ends the read index: no transaction reads from this node's engine any more.
    pub(super) fn end_read_index(&mut self) {
        if let Some(read_index) = self.read_index.take() {
            self.counts = read_index.counts();
        }
    }

    /// Read-index counters of this node's terms.
    pub(super) fn counts(&self) -> Counts {
        let read_index = self.read_index.as_ref();
        read_index.map_or(self.counts, ReadIndex::counts)
    }

    /// Closes the log and publishes why the node has ended.
    async fn end(mut self, end: End) {
        let committed = self.consensus.commit();
        let failure = match &end {
            End::Asked(_) => None,
            End::Failed(error) => {
                tracing::error!(%error, "the node has stopped");
                Some(Arc::<str>::from(error.to_string()))
            }
        };
        self.lead = None;
        self.end_read_index();
        self.follower_reads.end();
        self.follower_reads.questions.set_open(false);
        self.shown.send_modify(|node_status| {
            node_status.engine = None;
            node_status.reader = None;
            node_status.failure = failure;
        });
        let (answer, answered) = oneshot::channel();
        let told = self.disk.send(Command::Close(committed, answer));
        let closed = match told {
            Ok(()) => answered.await.unwrap_or(Err(Error::Ended)),
            Err(_) => Err(Error::Ended),
        };
        if let End::Asked(asked) = end {
            // The caller may have gone.
            let _ = asked.send(closed);
        }
    }
}
