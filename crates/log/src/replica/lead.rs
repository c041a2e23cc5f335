//! A leader's log: a [`Log`] that is open for commits, which become durable when a quorum has
//! them.
//!
//! ```text
//!   ReplicaLog::lead ──▶ Log  mark written, commits refused
//!                         │    set_committed(the mark's end or more)
//!                         ▼
//!                        Log  commits accepted; acknowledged as set_committed advances
//!                         │
//!   Log::retire ──────▶ ReplicaLog   another node leads
//! ```
//!
//! In a cluster the durable end of a log splits into two. [`Log::progress`] reports to
//! consensus how far the log is *flushed* to this node's disk. Consensus calls
//! [`Log::set_committed`] with how far it is *committed*; [`Log::poll_durable`] waits for
//! that, and [`Log::durable`] returns it. A commit may be committed before it is flushed
//! here.
//!
//! Until the mark of the term is committed, no commit in the log counts as durable, not even
//! those replayed from earlier terms: some of them may not be committed, and the mark commits
//! them (Raft never counts copies of an earlier term's entries).

use std::future::poll_fn;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_types::{Lsn, Term};
use tokio::sync::watch;

use super::check::LogEnd;
use super::files::LogFiles;
use super::landmarks::{Landmarks, Mark, Membership};
use super::log::ReplicaLog;
use super::news::LogNews;
use super::stream::LogStream;
use super::window::{LogProgress, Window};
use crate::checkpoint::CheckpointSource;
use crate::control::{Control, DataDirectory, replace};
use crate::flusher::Flusher;
use crate::frame::frame_bytes;
use crate::log::{FIRST_LSN, Log};
use crate::recovery::chain::Chain;
use crate::recovery::chunks::SeenChunks;
use crate::recovery::{Leftovers, Recovered};
use crate::segment::SegmentKind;
use crate::space::SpaceWait;
use crate::{Error, RecoverySummary};

/// State of a leader's log that an unreplicated log lacks.
#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) window: Window,
    /// The mark of the leader's term.
    pub(crate) mark: Mark,
    /// The commit index known when the term began.
    pub(crate) commit: Lsn,
    landmarks: Mutex<Landmarks>,
    /// Log offset at which replication of the log began.
    base: Lsn,
    /// Log offset at which the log that recovery read began, and that of its first segment.
    begin: Lsn,
    needed: Lsn,
    unmarked_term: Term,
    /// Log offset from which on the log is retained for followers.
    kept_for_followers: AtomicU64,
    /// Whether the log may hold memberships with a cluster version.
    versioned: AtomicBool,
    /// Directory and control data, which the flusher returns when it has ended in order.
    retired: Mutex<Option<Retired>>,
}

#[derive(Debug)]
struct Retired {
    directory: DataDirectory,
    control: Control,
}

impl Leading {
    fn landmarks(&self) -> MutexGuard<'_, Landmarks> {
        self.landmarks.lock().expect("no panic under this lock")
    }

    /// A copy of the current marks and memberships.
    pub(crate) fn all_landmarks(&self) -> Landmarks {
        self.landmarks().clone()
    }

    fn retired(&self) -> MutexGuard<'_, Option<Retired>> {
        self.retired.lock().expect("no panic under this lock")
    }

    /// Log offsets at which frames are known to start, in no order.
    pub(super) fn starts(&self) -> impl Iterator<Item = Lsn> {
        let marks: Vec<Lsn> = self
            .landmarks()
            .marks
            .iter()
            .map(|mark| mark.start)
            .collect();
        marks.into_iter().chain([self.base, self.begin])
    }

    /// Log offset from which on followers need the log.
    pub(crate) fn kept_for_followers(&self) -> Lsn {
        Lsn(self.kept_for_followers.load(Relaxed))
    }

    /// Whether the log may hold memberships with a cluster version.
    pub(crate) fn is_versioned(&self) -> bool {
        self.versioned.load(Relaxed)
    }

    /// Waits until everything before `end` is durable on this node.
    pub(crate) async fn wait_flushed(&self, end: Lsn) -> Result<(), Error> {
        let mut progress = self.window.progress();
        let reached = progress.wait_for(|now| now.flushed >= end || now.ended);
        match reached.await {
            Ok(now) if now.flushed >= end => Ok(()),
            _ => Err(Error::Stopped("the log has been closed".into())),
        }
    }

    /// Called by the flusher when it has ended in order.
    pub(crate) fn retire(&self, directory: DataDirectory, control: Control) {
        *self.retired() = Some(Retired { directory, control });
    }
}

impl ReplicaLog {
    /// Becomes the log of the present term's leader: writes the term's mark, which carries
    /// `members`, into a segment of its own, and accepts commits once the mark is
    /// [committed](Log::set_committed).
    ///
    /// # Errors
    /// When the log already has frames of the present term: another node led it.
    pub async fn lead(mut self, members: &[u8]) -> Result<Log, Error> {
        let term = self.control.term;
        if term <= self.end.term {
            return Err(Error::Setting(format!(
                "the log has frames of term {} already, so no node can begin to lead in term {term}",
                self.end.term
            )));
        }
        let limit = self.settings.frame_payload_bytes;
        if members.len() > limit {
            return Err(Error::TooLarge {
                bytes: members.len() as u64,
                limit: limit as u64,
            });
        }
        self.flush().await?;
        self.begin_term(term).await?;
        let start = self.end.lsn;
        let mark = Mark {
            term,
            start,
            end: Lsn(start.0 + frame_bytes(members.len() as u64)),
        };
        let mut landmarks = self.landmarks.clone();
        landmarks.marks.push(mark);
        if !members.is_empty() {
            landmarks.memberships.push(Membership {
                end: mark.end,
                payload: members.to_vec(),
            });
        }
        let leading = Leading {
            window: Window::new(start, self.settings.ring_bytes),
            mark,
            commit: self.hard_state().commit,
            landmarks: Mutex::new(landmarks),
            base: self.base(),
            begin: self.begin,
            needed: self.chain.first(),
            unmarked_term: self.unmarked_term,
            // Retain everything until [`Log::keep_for_followers`] is called.
            kept_for_followers: AtomicU64::new(0),
            versioned: AtomicBool::new(self.control.versioned),
            retired: Mutex::new(None),
        };
        let files = Arc::new(self.files());
        let Self {
            directory,
            control,
            kind,
            settings,
            chain,
            retention,
            ..
        } = self;
        let (current, spares) = chain.split_at(start);
        let recovered = Recovered {
            directory,
            control,
            kind,
            current,
            spares,
            summary: RecoverySummary::nothing(start),
        };
        let (flusher, _) = Flusher::new(recovered, &settings, Some(Box::new(leading)));
        let shared = Arc::clone(&flusher.shared);
        let running = coeval_env::spawn_dedicated("log", move || async move {
            flusher.run().await;
        });
        let log = Log {
            shared,
            settings,
            files: Some(files),
            retention,
            term_start: start,
            flusher: Mutex::new(Some(running)),
        };
        log.first_reservation(members.len() as u64).mark(members);
        Ok(log)
    }
}

impl Log {
    fn leading(&self) -> Option<&Leading> {
        self.shared.leading.as_deref()
    }

    /// Marks of all leaders' terms, this one's included, in log order. Empty for an
    /// unreplicated log.
    #[must_use]
    pub fn marks(&self) -> Vec<Mark> {
        let leading = self.leading();
        leading.map_or(Vec::new(), |leading| leading.landmarks().marks.clone())
    }

    /// Watches how far the log can be sent to followers, and is flushed on this node. `None`
    /// for an unreplicated log.
    #[must_use]
    pub fn progress(&self) -> Option<watch::Receiver<LogProgress>> {
        Some(self.leading()?.window.progress())
    }

    /// Notifications of the log's progress for the thread that drives consensus. `None` for
    /// an unreplicated log.
    #[must_use]
    pub fn news(&self) -> Option<LogNews> {
        self.leading()?;
        Some(LogNews::new(Arc::clone(&self.shared)))
    }

    /// A stream of the log for a follower, from `from` on, where a frame must start. `None`
    /// for an unreplicated log.
    #[must_use]
    pub fn stream(&self, from: Lsn) -> Option<LogStream> {
        let leading = self.leading()?;
        let files = LogFiles::new(self.files.as_ref()?, self.shared.seed, from);
        let shared = Arc::clone(&self.shared);
        Some(LogStream::new(shared, files, leading.base, from))
    }

    /// Sets the commit index: everything before `end` is committed, and waiters for it are
    /// woken. Never decreases. The log begins to accept commits when the term's mark is
    /// committed. Does nothing to an unreplicated log.
    pub fn set_committed(&self, end: Lsn) {
        self.shared.set_committed(end);
    }

    /// The commit index; for an unreplicated log, the durable end.
    #[must_use]
    pub fn committed(&self) -> Lsn {
        self.shared.durable_end()
    }

    /// Retains the log from `from` on for followers, whatever checkpoints cover. Until the
    /// first call all log is retained.
    pub fn keep_for_followers(&self, from: Lsn) {
        if let Some(leading) = self.leading() {
            leading.kept_for_followers.store(from.0, Relaxed);
        }
    }

    /// Log offset from which on the directory has log: a checkpoint replaces the log before
    /// it. For an unreplicated log its beginning.
    #[must_use]
    pub fn retained(&self) -> Lsn {
        let base = self.leading().map_or(Lsn(0), |leading| leading.base);
        self.retention.oldest().unwrap_or_default().max(base)
    }

    /// The checkpoint in force, for sending it to another node with the log that it needs;
    /// `None` when there is none, and so the directory has all log, or when the one there is
    /// lies before the offset at which replication of the log began.
    pub async fn checkpoint_source(&self) -> Result<Option<CheckpointSource>, Error> {
        let (Some(leading), Some(files)) = (self.leading(), &self.files) else {
            return Ok(None);
        };
        let hold = self.hold();
        let Some(checkpoint) = hold.checkpoint() else {
            return Ok(None);
        };
        let start = checkpoint.start;
        if leading.base > FIRST_LSN && start.replay_from() <= leading.base {
            return Ok(None);
        }
        let mut landmarks = leading.all_landmarks();
        landmarks.cut(start.replay_from());
        let marks = landmarks.encode().into_bytes();
        let source = CheckpointSource::open(hold, start, files, marks, leading.base).await?;
        Ok(Some(source))
    }

    /// Appends a new membership to the log, and returns its offset. Waits for space in the
    /// ring. Refused in the same cases as commits.
    pub async fn put_membership(&self, members: &[u8]) -> Result<Lsn, Error> {
        let Some(leading) = self.leading() else {
            return Err(Error::Setting("a log alone has no members".to_owned()));
        };
        let bytes = frame_bytes(members.len() as u64);
        let limit = self.settings.max_frame_bytes();
        if bytes > limit {
            return Err(Error::TooLarge { bytes, limit });
        }
        let mut wait = SpaceWait::new();
        let credit = poll_fn(|context| self.poll_space(bytes, false, &mut wait, context)).await?;
        // Reserved under the lock, so that memberships are in log order.
        let mut landmarks = leading.landmarks();
        let reservation = self.reserve(credit);
        let start = reservation.timestamp().lsn();
        landmarks.memberships.push(Membership {
            end: Lsn(start.0 + bytes),
            payload: members.to_vec(),
        });
        reservation.membership(members);
        Ok(start)
    }

    /// Keeps programs away that read no memberships with a cluster version, as
    /// [`ReplicaLog::set_versioned`] does. The thread that closes the log calls it, since
    /// CONTROL is written then too.
    pub async fn set_versioned(&self) -> Result<(), Error> {
        let (Some(leading), Some(files)) = (self.leading(), &self.files) else {
            return Err(Error::Setting("a log alone has no members".to_owned()));
        };
        if leading.is_versioned() {
            return Ok(());
        }
        let path = files.directory.join("CONTROL");
        let control = Control::read(&path).await?.ok_or_else(|| Error::Damaged {
            file: path,
            offset: 0,
            what: "the file is missing".to_owned(),
        })?;
        let control = Control {
            versioned: true,
            ..control
        };
        replace(&files.directory, "CONTROL", &control.encode()).await?;
        leading.versioned.store(true, Relaxed);
        Ok(())
    }

    /// Ends leadership: makes all reserved commits durable, refuses new ones, and returns the
    /// log as a follower's. Its uncommitted frames may be replaced by another leader.
    ///
    /// Waiters for commits get the error that the log has stopped: whether their commits will
    /// be committed is not known yet.
    pub async fn retire(&self) -> Result<ReplicaLog, Error> {
        self.close().await?;
        let not_here = || Error::Stopped("it did not lead, or has retired".into());
        let leading = self.leading().ok_or_else(not_here)?;
        let Retired { directory, control } = leading.retired().take().ok_or_else(not_here)?;
        let kind = SegmentKind {
            directory: directory.log(),
            database: control.database,
            segment_bytes: self.settings.segment_bytes,
            leftovers: Leftovers::Remove,
        };
        let checkpoint = self.retention.checkpoint();
        let (needed, begin) = checkpoint.map_or((leading.needed, leading.begin), |checkpoint| {
            (checkpoint.start.log_start, checkpoint.start.replay_from())
        });
        let end = control.clean_end.unwrap_or(control.start);
        let chain = Chain::open(&kind, needed, None).await?;
        chain.must_reach(end, &kind)?;
        let control = Control {
            start: end,
            clean_end: None,
            ..control
        };
        directory.write_control(&control).await?;
        Ok(ReplicaLog {
            directory,
            control,
            kind,
            settings: self.settings.clone(),
            seed: self.shared.seed,
            chain,
            begin,
            end: LogEnd {
                lsn: end,
                term: leading.mark.term,
            },
            unmarked_term: leading.unmarked_term,
            landmarks: leading.all_landmarks(),
            // No replay runs before the log is opened anew.
            chunks: SeenChunks::default(),
            flushed: end,
            synced: end,
            failed: None,
            retention: Arc::clone(&self.retention),
            counters: Arc::default(),
        })
    }
}
