//! The disk thread: owns a node's log and executes commands on it in order.
//!
//! ```text
//!             Lead             Serve               Retire
//!   follows ───────▶ begins ───────────▶ leads ───────────▶ follows
//!   ReplicaLog       Log                 Engine             ReplicaLog, opened anew
//!   replay           replay              –                  replay
//! ```
//!
//! Writes that wait at the same time share one flush.

use std::path::PathBuf;
use std::sync::Arc;

use coeval_consensus::encoding::encode_membership;
use coeval_consensus::{Content, Entry, FIRST_VERSION, Fetch, Membership, NodeId, Restored, Write};
use coeval_log::{
    CheckpointSource, Founders, HardState, Log, LogNews, LogStream, Origin, Removal,
    ReplicaCounters, ReplicaLog,
};
use coeval_occ::{Engine, FollowedTables};
use coeval_types::planted;
use coeval_types::{DirectoryId, Lsn};
use tokio::sync::{mpsc, oneshot};

use super::apply_progress::Replayed;
use super::checkpoint::{Outcome, Schedule};
use super::replay::{Following, How};
use super::transfer::Receipt;
use super::{Error, Settings, Watch, entries};

/// A command to the disk thread.
#[derive(Debug)]
pub(super) enum Command {
    /// A follower's write of consensus.
    Write(Write),
    /// A write that installs a received checkpoint in place of the log.
    Install(Write, Receipt),
    /// Everything before this offset is committed.
    Committed(Lsn),
    /// Record that this node is no longer a newcomer.
    Admit,
    /// Write down the founders of the cluster.
    Found(Founders),
    /// Write down that the cluster has removed this node.
    Removed(Removal),
    /// Keep older programs away: memberships with a cluster version are to be written once
    /// the answer says that this is done.
    Versioned(oneshot::Sender<Result<(), coeval_log::Error>>),
    /// Replay has ended the checkpoint of this number with this outcome.
    Checkpoint(u64, Outcome),
    /// Begin to lead, with a mark that names these members.
    Lead(Membership),
    /// The mark at this offset is committed: build the engine on the tables.
    Serve(Lsn),
    /// Stop leading; log from this offset on was never proposed.
    Retire(Lsn),
    /// Read entries that a follower needs.
    Fetch(Fetch),
    /// Open the checkpoint in force, to be sent while this node leads.
    Open(oneshot::Sender<CheckpointToSend>),
    /// Shut down in order; everything before this offset is committed.
    Close(Lsn, oneshot::Sender<Result<(), Error>>),
}

/// A report of the disk thread to the driver.
#[derive(Debug)]
pub(super) enum Done {
    /// This write and all writes before it are durable.
    Persisted(u64),
    /// The log follows after this many orders that replace the tables, and these are filled.
    Follows(u64, FollowedTables),
    /// The log is open for a leader and has its mark.
    Leads(LogStream, LogNews),
    /// The tables are complete, and the engine serves.
    Serves(Arc<Engine>),
    /// A received checkpoint has replaced the log and filled the tables.
    Installed,
    /// The log follows again, and holds what was proposed.
    Retired,
    /// This node's admission is durable.
    Admitted,
    /// These founders are written down.
    Founded(Founders),
    /// The entries, or `None` if the log no longer has them.
    Fetched(Fetch, Option<Vec<Entry>>),
    /// The thread cannot continue.
    Failed(Error),
}

/// The checkpoint in force, pinned with the log that it needs; `None` if there is none.
pub(super) type CheckpointToSend = Result<Option<CheckpointSource>, coeval_log::Error>;

/// How a node with an empty directory begins.
pub(super) struct Beginning {
    /// The founding members of the cluster.
    pub(super) founders: Membership,
    /// The node joins an existing cluster.
    pub(super) join: bool,
    /// The founders are to say that they hold no log before this node takes part.
    pub(super) asks: bool,
    /// Whether the directory is to have an identity.
    pub(super) has_identity: bool,
}

/// State that the disk thread restored when it opened the directory.
pub(super) struct Opened {
    pub(super) restored: Restored,
    /// All nodes that the committed entries have made members at any time.
    pub(super) ever: Vec<NodeId>,
    /// The backup that the beginning of the log was restored from, if it was.
    pub(super) origin: Option<Origin>,
    /// All entries of the log, if an observer watches.
    pub(super) entries: Vec<Entry>,
    /// The identity of the directory.
    pub(super) identity: Option<DirectoryId>,
    /// Whether the node is to found the cluster, and has not yet.
    pub(super) founds: bool,
    /// The founders that it has written down.
    pub(super) founders: Option<Founders>,
    /// The removal that it has written down.
    pub(super) removal: Option<Removal>,
}

enum State {
    Follows(Box<ReplicaLog>, FollowedTables, Following),
    Begins(Log, FollowedTables, Following),
    Leads(Arc<Engine>),
    /// The transient state between two others; if it lasts, a step has failed.
    Nothing,
}

/// State of the disk thread.
pub(super) struct Disk {
    directory: PathBuf,
    database: u128,
    engine: coeval_occ::Settings,
    replay: How,
    /// When checkpoints are taken while the node follows.
    schedule: Schedule,
    /// Bytes of log retained before a checkpoint's end, for followers.
    kept_bytes: u64,
    state: State,
    /// Commands carried out that replace the tables.
    orders: u64,
    /// What the log counts while the node follows.
    counters: Arc<ReplicaCounters>,
    done: mpsc::UnboundedSender<Done>,
}

type Answer = oneshot::Receiver<Result<Opened, Error>>;

impl Disk {
    /// Starts the thread, which opens the directory and returns what it restored.
    pub(super) fn start(
        directory: PathBuf,
        database: u128,
        settings: &Settings,
        (beginning, replayed, counters): (Beginning, Replayed, Arc<ReplicaCounters>),
    ) -> (
        mpsc::UnboundedSender<Command>,
        Answer,
        mpsc::UnboundedReceiver<Done>,
    ) {
        let (commands, received) = mpsc::unbounded_channel();
        let (answer, opened) = oneshot::channel();
        let (done, told) = mpsc::unbounded_channel();
        let watch = settings.observer.clone();
        let mut disk = Self {
            directory,
            database,
            engine: settings.engine.clone(),
            replay: How {
                ahead: settings.replay_ahead_bytes,
                definitions: settings.definitions.clone(),
                replayed,
            },
            schedule: Schedule::new(&settings.engine, commands.downgrade()),
            kept_bytes: settings.follower_log_bytes,
            state: State::Nothing,
            orders: 0,
            counters,
            done,
        };
        drop(coeval_env::spawn_dedicated(
            "node disk",
            move || async move {
                let opened = disk.open(beginning, watch).await;
                let is_open = opened.is_ok();
                if answer.send(opened).is_ok() && is_open {
                    disk.run(received).await;
                }
            },
        ));
        (commands, opened, told)
    }

    async fn open(&mut self, beginning: Beginning, watch: Watch) -> Result<Opened, Error> {
        self.follow().await?;
        let State::Follows(log, ..) = &mut self.state else {
            return Err(Error::Ended);
        };
        let is_restored = log.marks().is_empty() && log.origin().await?.is_some();
        if beginning.join && log.is_new() {
            log.set_newcomer(true).await?;
        } else if beginning.join && is_restored {
            return Err(Error::Setting(format!(
                "{} was restored from a backup: such a directory founds a cluster, and does not \
                 join one. To join, begin with an empty directory; to found, say --cluster-found",
                log.path().display()
            )));
        }
        let (identity, recorded) = match beginning.has_identity {
            true => (Some(log.identity().await?), log.founders().await?),
            false => (None, None),
        };
        let mut founders = beginning.founders;
        // A restored directory holds the backup's log, and none of the cluster to be founded.
        let mut founds = beginning.asks && !beginning.join && (log.is_new() || is_restored);
        if let Some(recorded) = recorded.as_ref().filter(|recorded| recorded.is_done) {
            founders = entries::founders(recorded);
            founds = false;
        }
        let applied = log.hard_state().commit.max(log.base());
        let mut all = Vec::new();
        let mut at = log.begin().max(log.base());
        while watch.is_some() && at < log.end() {
            let chunk = log.read(at, 1 << 20).await?;
            at = chunk.end();
            all.extend(entries::entries(self.database, &chunk)?);
        }
        Ok(Opened {
            restored: entries::restored(log, applied, founders)?,
            ever: entries::ever(log)?,
            origin: log.origin().await?,
            entries: all,
            identity,
            founds,
            founders: recorded,
            removal: Removal::read(&self.directory).await?,
        })
    }

    /// Opens the directory as a follower, and refills the tables.
    async fn follow(&mut self) -> Result<(), Error> {
        self.schedule.forget();
        let tables = FollowedTables::new();
        let threads = self.engine.log.recovery_threads;
        let database = Some(self.database);
        let settings = self.engine.log.clone();
        let opened = ReplicaLog::open(&self.directory, database, settings, tables.replay());
        let (mut log, summary) = opened.await?;
        log.count_in(Arc::clone(&self.counters));
        tables.follow(&summary, threads);
        let from = log.hard_state().commit.max(log.begin());
        let replayer = log.replayer(tables.replay(), from);
        let (how, done) = (self.replay.clone(), self.done.clone());
        let following = Following::start(replayer, tables.clone(), how, done);
        following.written(log.end());
        self.tell(Done::Follows(self.orders, tables.clone()));
        self.state = State::Follows(Box::new(log), tables, following);
        Ok(())
    }

    /// Runs until all command senders are dropped, or a command fails.
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut next = commands.recv().await;
        while let Some(command) = next {
            let mut written = None;
            next = None;
            let carried_out = match command {
                Command::Write(write) => {
                    let result = self.write(&write).await;
                    written = Some(write.number);
                    // Other waiting writes may share the flush.
                    while result.is_ok() && next.is_none() {
                        match commands.try_recv() {
                            Ok(Command::Write(write)) => {
                                if let Err(error) = self.write(&write).await {
                                    return self.fail(error);
                                }
                                written = Some(write.number);
                            }
                            // Replay need not wait for the flush.
                            Ok(Command::Committed(end)) => self.committed(end),
                            Ok(other) => next = Some(other),
                            Err(_) => break,
                        }
                    }
                    match result {
                        Ok(()) => self.flush().await,
                        failed => failed,
                    }
                }
                Command::Install(write, receipt) => {
                    written = Some(write.number);
                    self.install(&write, &receipt).await
                }
                Command::Close(committed, answer) => {
                    // The caller may have gone.
                    let _ = answer.send(self.close(committed).await);
                    return;
                }
                other => self.execute(other).await,
            };
            match (carried_out, written) {
                (Err(error), _) => return self.fail(error),
                (Ok(()), Some(number)) => self.tell(Done::Persisted(number)),
                (Ok(()), None) => {}
            }
            if next.is_none() {
                next = commands.recv().await;
            }
        }
    }

    fn tell(&self, done: Done) {
        // A closed channel means that the node has ended.
        let _ = self.done.send(done);
    }

    fn fail(&self, error: Error) {
        self.tell(Done::Failed(error));
    }

    async fn execute(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Committed(end) => {
                self.committed(end);
                Ok(())
            }
            Command::Checkpoint(number, outcome) => self.checkpoint(number, outcome).await,
            Command::Admit => {
                let State::Follows(log, ..) = &mut self.state else {
                    return Err(Error::Ended);
                };
                log.set_newcomer(false).await?;
                self.tell(Done::Admitted);
                Ok(())
            }
            Command::Found(founders) => {
                let State::Follows(log, ..) = &mut self.state else {
                    return Err(Error::Ended);
                };
                if founders.is_done && founders.version > FIRST_VERSION {
                    log.set_versioned().await?;
                }
                log.set_founders(&founders).await?;
                self.tell(Done::Founded(founders));
                Ok(())
            }
            Command::Removed(removal) => match removal.write(&self.directory).await {
                // The other node will say it again at the next start.
                Err(error) if error.is_disk_full() => {
                    tracing::warn!(%error, "the removal of this node is not written down");
                    Ok(())
                }
                written => Ok(written?),
            },
            Command::Versioned(answer) => {
                let Some(log) = self.led() else {
                    return Ok(());
                };
                match log.set_versioned().await {
                    Err(error) if !error.is_disk_full() => Err(error.into()),
                    kept_away => {
                        // The caller may have gone.
                        let _ = answer.send(kept_away);
                        Ok(())
                    }
                }
            }
            Command::Lead(members) => self.lead(&members).await,
            Command::Serve(mark) => self.serve(mark).await,
            Command::Retire(end) => {
                self.orders += 1;
                self.retire().await?;
                if let State::Follows(log, _, following) = &mut self.state {
                    cut(log, following, end).await?;
                }
                self.tell(Done::Retired);
                Ok(())
            }
            Command::Fetch(fetch) => self.fetch(fetch).await,
            Command::Open(answer) => {
                if let Some(log) = self.led() {
                    // The caller may have gone.
                    let _ = answer.send(log.checkpoint_source().await);
                }
                Ok(())
            }
            Command::Write(_) | Command::Install(..) | Command::Close(..) => {
                unreachable!("taken before")
            }
        }
    }

    /// Installs a checkpoint in place of the log, fills the tables from it, and writes
    /// the entries that follow it.
    async fn install(&mut self, write: &Write, receipt: &Receipt) -> Result<(), Error> {
        self.orders += 1;
        let State::Follows(mut log, tables, following) = self.take() else {
            return Err(Error::Ended);
        };
        following.abandon().await;
        // The new tables need the memory of these.
        drop(tables);
        let promise = write.hard_state;
        let now = log.hard_state();
        log.set_hard_state(HardState {
            term: promise.term,
            vote: promise.vote.map(|node| node.0),
            ..now
        })
        .await?;
        let members = write
            .install
            .as_ref()
            .map(|checkpoint| &checkpoint.membership);
        versioned(&mut log, members).await?;
        log.install(receipt).await?;
        self.follow().await?;
        self.write(write).await?;
        self.flush().await?;
        self.tell(Done::Installed);
        Ok(())
    }

    /// Records that everything before `end` is committed.
    fn committed(&mut self, end: Lsn) {
        if let State::Follows(.., following) | State::Begins(.., following) = &self.state {
            following.committed(end);
        }
        self.take_checkpoint(end);
    }

    /// Asks replay for a checkpoint, if one is due.
    fn take_checkpoint(&mut self, committed: Lsn) {
        if let State::Follows(log, _, following) = &self.state
            && let Some(wanted) = self
                .schedule
                .next(log.begin().max(log.base()), committed, || {
                    log.checkpoint_place()
                })
        {
            following.checkpoint(wanted);
        }
    }

    /// Puts a checkpoint that replay has taken in force, if the thread still waits for it.
    async fn checkpoint(&mut self, number: u64, outcome: Outcome) -> Result<(), Error> {
        let is_wanted = self.schedule.ended(number);
        let sealed = match outcome {
            Ok(sealed) => sealed,
            Err(coeval_log::Error::Stopped(_)) => return Ok(()),
            Err(error) => {
                if is_wanted {
                    self.schedule.failed(&error);
                }
                return Ok(());
            }
        };
        let at = sealed.summary().start.replay_from();
        let State::Follows(log, ..) = &mut self.state else {
            sealed.discard().await;
            return Ok(());
        };
        if !is_wanted || at <= log.begin() {
            sealed.discard().await;
            return Ok(());
        }
        match log.finish_checkpoint(sealed, self.kept_bytes).await {
            Ok(taken) => {
                let rows = taken.records;
                tracing::info!(rows, bytes = taken.bytes, replay_from = %at, "took a checkpoint");
                self.schedule.succeeded();
            }
            Err(error) if error.is_disk_full() => self.schedule.failed(&error),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn write(&mut self, write: &Write) -> Result<(), Error> {
        let State::Follows(log, _, following) = &mut self.state else {
            return Err(Error::Ended);
        };
        let promise = write.hard_state;
        let now = log.hard_state();
        let mut vote = promise.vote.map(|node| node.0);
        if planted!(ForgetVote) {
            vote = now.vote.filter(|_| promise.term == now.term);
        }
        // The term is written first: the log refuses entries of a term that it does not
        // know. A crash that loses the entries after it does no harm.
        if (promise.term, vote) != (now.term, now.vote) {
            let kept = write.truncate.unwrap_or(log.end()).min(log.end());
            log.set_hard_state(HardState {
                term: promise.term,
                vote,
                commit: promise.commit.min(kept).max(now.commit),
            })
            .await?;
        }
        if let Some(at) = write.truncate {
            cut(log, following, at).await?;
        }
        let mut rest = &write.entries[..];
        while let Some(entry) = rest.first() {
            versioned(log, entry.membership()).await?;
            let behind = match &entry.content {
                Content::Mark(members) => {
                    log.append_mark(entry.term, &encode_membership(members))
                        .await?;
                    1
                }
                Content::Membership(members) => {
                    let members = encode_membership(members);
                    log.append_membership(entry.term, &members).await?;
                    1
                }
                Content::Payload(_) => {
                    let (count, payloads) = entries::payloads(rest);
                    // `entries::check` verified each entry when it arrived.
                    log.append_sound(entry.start, &payloads.concat()).await?;
                    count
                }
            };
            rest = &rest[behind..];
        }
        // Replay need not wait for the flush: it acknowledges nothing.
        following.written(log.end());
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let State::Follows(log, ..) = &mut self.state else {
            return Err(Error::Ended);
        };
        log.flush().await?;
        Ok(())
    }

    async fn lead(&mut self, members: &Membership) -> Result<(), Error> {
        let State::Follows(mut log, tables, following) = self.take() else {
            return Err(Error::Ended);
        };
        following.no_checkpoint();
        self.schedule.forget();
        versioned(&mut log, Some(members)).await?;
        let log = log.lead(&encode_membership(members)).await?;
        let mark = log.marks().last().copied().ok_or(Error::LogEnded)?;
        let stream = log.stream(mark.end).ok_or(Error::LogEnded)?;
        let news = log.news().ok_or(Error::LogEnded)?;
        self.tell(Done::Leads(stream, news));
        self.state = State::Begins(log, tables, following);
        Ok(())
    }

    async fn serve(&mut self, mark: Lsn) -> Result<(), Error> {
        let State::Begins(log, tables, following) = self.take() else {
            return Err(Error::Ended);
        };
        following.finish(mark).await?;
        let engine = Arc::new(Engine::lead(tables, log, self.engine.clone())?);
        self.state = State::Leads(Arc::clone(&engine));
        self.tell(Done::Serves(engine));
        Ok(())
    }

    /// Turns the node into a follower, from any state.
    async fn retire(&mut self) -> Result<(), Error> {
        let log = match self.take() {
            State::Follows(log, tables, following) => {
                self.state = State::Follows(log, tables, following);
                return Ok(());
            }
            State::Begins(log, _, following) => {
                following.abandon().await;
                log.retire().await?
            }
            State::Leads(engine) => engine.retire().await?,
            State::Nothing => return Err(Error::Ended),
        };
        log.close().await?;
        self.follow().await
    }

    fn take(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Nothing)
    }

    /// The log, while this node leads.
    fn led(&self) -> Option<&Log> {
        match &self.state {
            State::Begins(log, ..) => Some(log),
            State::Leads(engine) => Some(engine.log()),
            State::Follows(..) | State::Nothing => None,
        }
    }

    async fn fetch(&mut self, fetch: Fetch) -> Result<(), Error> {
        let Some(log) = self.led() else {
            return Ok(());
        };
        let mut stream = log.stream(fetch.from).ok_or(Error::LogEnded)?;
        // The offset is no frame boundary if the follower's log differs from this one:
        // the follower detects that from the entries it is sent.
        let most = usize::try_from(fetch.space)
            .unwrap_or(usize::MAX)
            .min(64 << 20);
        let found = match stream.read_around(fetch.from, most.max(1)).await {
            Ok(Some(chunk)) => {
                if chunk.start != fetch.from {
                    let (to, from, start) = (fetch.to, fetch.from, chunk.start);
                    tracing::error!(%to, %from, %start, "a follower asks from within an entry");
                }
                let mut found = entries::entries(self.database, &chunk)?;
                found.retain(|entry| entry.end <= fetch.end);
                found.truncate(fetch.entries.max(1));
                Some(found)
            }
            Ok(None) => Some(Vec::new()),
            Err(coeval_log::Error::NotRetained { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        self.tell(Done::Fetched(fetch, found));
        Ok(())
    }

    async fn close(&mut self, committed: Lsn) -> Result<(), Error> {
        let log = match self.take() {
            State::Follows(mut log, _, following) => {
                following.abandon().await;
                log.flush().await?;
                *log
            }
            State::Begins(log, _, following) => {
                following.abandon().await;
                log.retire().await?
            }
            State::Leads(engine) => engine.retire().await?,
            State::Nothing => return Err(Error::Ended),
        };
        let mut log = log;
        let now = log.hard_state();
        let commit = committed.min(log.end()).max(now.commit);
        log.set_hard_state(HardState { commit, ..now }).await?;
        Ok(log.close().await?)
    }
}

/// Keeps older programs away before the log has a membership that they do not read.
async fn versioned(log: &mut ReplicaLog, members: Option<&Membership>) -> Result<(), Error> {
    if members.is_some_and(|members| members.version() > FIRST_VERSION) {
        log.set_versioned().await?;
    }
    Ok(())
}

/// Truncates the log where a new leader's log begins, after replay has undone what it
/// applied from there on.
async fn cut(log: &mut ReplicaLog, following: &Following, at: Lsn) -> Result<(), Error> {
    if at != log.end() {
        following.cut(at).await?;
        log.truncate(at).await?;
        following.written(log.end());
    }
    Ok(())
}
