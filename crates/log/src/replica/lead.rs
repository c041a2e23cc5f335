//! A node that leads: its [`Log`] is open for commits, which count when others have them.
//!
//! ```text
//!   ReplicaLog::lead ──▶ Log  mark written, commits refused
//!                         │    set_committed(the mark's end or more)
//!                         ▼
//!                        Log  commits taken; acknowledged as set_committed moves on
//!                         │
//!   Log::retire ──────▶ ReplicaLog   another one leads
//! ```
//!
//! Two ends that are one in a log alone are two here. How far the log is *flushed* on
//! this disk is reported by [`Log::progress`], to consensus. How far it is *committed*,
//! consensus says by [`Log::set_committed`]; that is what [`Log::poll_durable`] waits for,
//! and what [`Log::durable`] says. A commit may be committed before it is flushed here.
//!
//! Until the mark of the term is committed, nothing in the log counts as durable, what was
//! replayed from earlier terms included: some of that may not be committed, and it is the
//! mark that commits it (Raft never counts copies of an earlier term's entries).

use std::future::poll_fn;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_types::{Lsn, Term};
use tokio::sync::watch;

use super::check::LogEnd;
use super::files::LogFiles;
use super::landmarks::{Landmarks, Mark, Membership};
use super::log::ReplicaLog;
use super::news::LogNews;
use super::stream::LogStream;
use super::window::{Progress, Window};
use crate::checkpoint::CheckpointSource;
use crate::control::{Control, DataDirectory};
use crate::flusher::Flusher;
use crate::frame::frame_bytes;
use crate::log::Log;
use crate::recovery::chain::Chain;
use crate::recovery::chunks::MetChunks;
use crate::recovery::{Leftovers, Recovered};
use crate::segment::SegmentKind;
use crate::space::SpaceWait;
use crate::{Error, RecoverySummary};

/// What a leader's log has that a log alone has not.
#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) window: Window,
    /// The mark of the leader's term.
    pub(crate) mark: Mark,
    /// What was known to be committed as the term began.
    pub(crate) commit: Lsn,
    landmarks: Mutex<Landmarks>,
    /// Where the log began to be replicated.
    base: Lsn,
    /// Where the log that was read began, and where its first segment does.
    begin: Lsn,
    needed: Lsn,
    unmarked_term: Term,
    /// From here on the log is kept for those who follow.
    kept_for_followers: AtomicU64,
    /// What the flusher had, when it has ended in order.
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

    /// What consensus wrote, as of now.
    pub(crate) fn all_landmarks(&self) -> Landmarks {
        self.landmarks().clone()
    }

    fn retired(&self) -> MutexGuard<'_, Option<Retired>> {
        self.retired.lock().expect("no panic under this lock")
    }

    /// Places at which it is known that a frame starts, in no order.
    pub(super) fn starts(&self) -> impl Iterator<Item = Lsn> {
        let marks: Vec<Lsn> = self
            .landmarks()
            .marks
            .iter()
            .map(|mark| mark.start)
            .collect();
        marks.into_iter().chain([self.base, self.begin])
    }

    /// From where on those who follow need the log.
    pub(crate) fn kept_for_followers(&self) -> Lsn {
        Lsn(self.kept_for_followers.load(Relaxed))
    }

    /// Waits until everything before `end` is durable here.
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
    /// Becomes the log of the leader of the present term: writes the term's mark, which
    /// carries `members`, into a file of its own, and opens for commits as soon as that
    /// is [committed](Log::set_committed).
    ///
    /// # Errors
    /// When the log has frames of the present term already: it is another one's.
    pub async fn lead(mut self, members: &[u8]) -> Result<Log, Error> {
        let term = self.control.term;
        if term <= self.end.term {
            return Err(Error::Setting(format!(
                "the log has frames of term {} already, so nobody can begin to lead in term {term}",
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
            // Until somebody knows better.
            kept_for_followers: AtomicU64::new(0),
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

    /// Where leaders' terms begin, this one's included, in the order of the log. None in a
    /// log alone.
    #[must_use]
    pub fn marks(&self) -> Vec<Mark> {
        let leading = self.leading();
        leading.map_or(Vec::new(), |leading| leading.landmarks().marks.clone())
    }

    /// How far the log can be sent and is flushed here, to be watched. `None` of a log
    /// alone.
    #[must_use]
    pub fn progress(&self) -> Option<watch::Receiver<Progress>> {
        Some(self.leading()?.window.progress())
    }

    /// What whoever drives consensus has to hear of the log. `None` of a log alone.
    #[must_use]
    pub fn news(&self) -> Option<LogNews> {
        self.leading()?;
        Some(LogNews::new(Arc::clone(&self.shared)))
    }

    /// The log from `from` on, where a frame starts, for a follower. `None` of a log
    /// alone.
    #[must_use]
    pub fn stream(&self, from: Lsn) -> Option<LogStream> {
        let leading = self.leading()?;
        let files = LogFiles::new(self.files.as_ref()?, self.shared.seed, from);
        let shared = Arc::clone(&self.shared);
        Some(LogStream::new(shared, files, leading.base, from))
    }

    /// Everything before is committed: whoever waits for it is answered. Never goes back.
    /// With the mark of the term commits begin to be taken. Does nothing to a log alone.
    pub fn set_committed(&self, end: Lsn) {
        self.shared.set_committed(end);
    }

    /// Everything before is committed, or, of a log alone, durable.
    #[must_use]
    pub fn committed(&self) -> Lsn {
        self.shared.durable_end()
    }

    /// From here on the log is kept for those who follow, whatever checkpoints stand for.
    /// Until this is called for the first time, all of it is.
    pub fn keep_for_followers(&self, from: Lsn) {
        if let Some(leading) = self.leading() {
            leading.kept_for_followers.store(from.0, Relaxed);
        }
    }

    /// From where on log is in the directory: a checkpoint stands for what is before. Of a
    /// log alone its beginning.
    #[must_use]
    pub fn retained(&self) -> Lsn {
        let base = self.leading().map_or(Lsn(0), |leading| leading.base);
        self.retention.oldest().unwrap_or_default().max(base)
    }

    /// The checkpoint in force, to be sent to another node with the log that it needs; `None`
    /// when there is none, and so all log is here.
    pub async fn checkpoint_source(&self) -> Result<Option<CheckpointSource>, Error> {
        let (Some(leading), Some(files)) = (self.leading(), &self.files) else {
            return Ok(None);
        };
        let hold = self.hold();
        let Some(checkpoint) = hold.checkpoint() else {
            return Ok(None);
        };
        let start = checkpoint.start;
        let mut landmarks = leading.all_landmarks();
        landmarks.cut(start.replay_from());
        let marks = landmarks.encode().into_bytes();
        let source = CheckpointSource::open(hold, start, files, marks, leading.base).await?;
        Ok(Some(source))
    }

    /// Puts into the log who takes part from here on, and says where that stands. Waits
    /// for room. Refused as commits are.
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
        let credit = poll_fn(|context| self.poll_space(bytes, &mut wait, context)).await?;
        // Under the lock, so that they stand in the order of the log.
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

    /// Ends to lead: makes durable what has its place, refuses everything new, and goes
    /// on as a log that follows. What was not committed is in it, and may be replaced.
    ///
    /// Whoever waits for a commit hears that the log has stopped: whether it will be
    /// committed nobody knows yet.
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
            // Nobody replays it before it is opened anew.
            chunks: MetChunks::default(),
            flushed: end,
            synced: end,
            failed: None,
            retention: Arc::clone(&self.retention),
        })
    }
}
