//! A follower's log: a byte-for-byte copy of the leader's, to which received frames are
//! appended.

use std::path::Path;
use std::sync::Arc;

use coeval_memory::ring::AppendRing;
use coeval_types::{DirectoryId, Lsn, Term};

use super::check::{Checksums, LogEnd, check};
use super::counters::ReplicaCounters;
use super::files::frames_of;
use super::landmarks::{Landmarks, Mark, Membership};
use super::window::Frames;
use crate::control::{Control, DataDirectory, Member};
use crate::files::Files;
use crate::founders::Founders;
use crate::frame::{HEADER_BYTES, Header, Seed};
use crate::identity;
use crate::log::FIRST_LSN;
use crate::recovery::chain::Chain;
use crate::recovery::chunks::SeenChunks;
use crate::retention::Retention;
use crate::segment::{Name, SegmentKind};
use crate::{Checkpoint, Error, Settings};

/// The hard state of Raft: the consensus state that must survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HardState {
    /// The newest term that this node has seen.
    pub term: Term,
    /// The node that has this node's vote in that term.
    pub vote: Option<u64>,
    /// The commit index as this node has recorded it: everything before it is committed.
    pub commit: Lsn,
}

/// The log of a node that does not lead, open for appending. See its module.
///
/// Its calls block the thread for as long as the disk takes: it belongs on a thread of its
/// own. After a failed write or sync, every later call that writes fails too.
#[derive(Debug)]
pub struct ReplicaLog {
    pub(super) directory: DataDirectory,
    /// The control data as it is on the disk.
    pub(super) control: Control,
    pub(super) kind: SegmentKind,
    pub(super) settings: Settings,
    pub(super) seed: Seed,
    /// Every segment that is needed, and unused ones made ahead.
    pub(super) chain: Chain,
    /// Log offset at which the log that a start reads begins.
    pub(super) begin: Lsn,
    pub(super) end: LogEnd,
    /// The newest term that began without a mark, before the log was replicated.
    pub(super) unmarked_term: Term,
    pub(super) landmarks: Landmarks,
    /// Chunks in the part that was replayed when the log was opened.
    pub(super) chunks: SeenChunks,
    /// Durable end in whole frames: everything before it is durable.
    pub(super) flushed: Lsn,
    /// Durable end in bytes; the frame at `flushed` may extend beyond it.
    pub(super) synced: Lsn,
    /// Why the log accepts no writes any more, if so.
    pub(super) failed: Option<Arc<str>>,
    pub(super) retention: Arc<Retention>,
    pub(super) counters: Arc<ReplicaCounters>,
}

impl ReplicaLog {
    pub(super) fn member(&self) -> Member {
        self.control.member.expect("a replica's CONTROL says so")
    }

    /// The database id, which all nodes share.
    #[must_use]
    pub fn database(&self) -> u128 {
        self.control.database
    }

    /// Paths of the log's files, with the database id.
    pub(super) fn files(&self) -> Files {
        Files {
            directory: self.directory.path().to_owned(),
            database: self.control.database,
            versioned: self.control.versioned,
        }
    }

    /// The hard state that was last written.
    #[must_use]
    pub fn hard_state(&self) -> HardState {
        let member = self.member();
        HardState {
            term: self.control.term,
            vote: member.vote,
            commit: member.commit,
        }
    }

    /// The log's end: the offset at which the next frame is appended.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.end.lsn
    }

    /// The term of the last frame; 0 of an empty log.
    #[must_use]
    pub fn last_term(&self) -> Term {
        self.end.term
    }

    /// Durable end: everything before it is durable on this node.
    #[must_use]
    pub fn flushed(&self) -> Lsn {
        self.flushed
    }

    /// Log offset at which the log that a start reads begins: its first frame, or the end
    /// of the checkpoint.
    #[must_use]
    pub fn begin(&self) -> Lsn {
        self.begin
    }

    /// Log offset at which replication of the log began. The log before it has no marks,
    /// and is never sent to other nodes.
    #[must_use]
    pub fn base(&self) -> Lsn {
        self.member().base
    }

    /// Marks of all leaders' terms in log order, including those in removed log.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.landmarks.marks
    }

    /// Memberships of the cluster, from marks and membership frames, each with the offset
    /// from which it is valid.
    #[must_use]
    pub fn memberships(&self) -> &[Membership] {
        &self.landmarks.memberships
    }

    /// The checkpoint in force.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.retention.checkpoint()
    }

    /// Whether the directory holds nothing yet, and never did.
    #[must_use]
    pub fn is_new(&self) -> bool {
        let member = self.member();
        self.end.lsn == FIRST_LSN
            && self.control.term == Term(0)
            && member.base == FIRST_LSN
            && self.checkpoint().is_none()
    }

    /// Whether this node joined with an empty log, and has not been admitted since.
    #[must_use]
    pub fn is_newcomer(&self) -> bool {
        self.member().newcomer
    }

    /// Records that this node joins with an empty log, or that it has been admitted.
    /// Durable when this returns.
    pub async fn set_newcomer(&mut self, newcomer: bool) -> Result<(), Error> {
        if newcomer == self.is_newcomer() {
            return Ok(());
        }
        let member = Some(Member {
            newcomer,
            ..self.member()
        });
        self.write_control(Control {
            member,
            ..self.control
        })
        .await
    }

    /// Keeps programs away that read no memberships with a cluster version: the log may
    /// hold some from now on. Durable when this returns.
    pub async fn set_versioned(&mut self) -> Result<(), Error> {
        if self.control.versioned {
            return Ok(());
        }
        self.write_control(Control {
            versioned: true,
            ..self.control
        })
        .await
    }

    /// The identity of this log's directory, drawn at its first call.
    pub async fn identity(&self) -> Result<DirectoryId, Error> {
        identity::of(&self.directory).await
    }

    /// The founders of the cluster that this node has written down.
    pub async fn founders(&self) -> Result<Option<Founders>, Error> {
        Founders::read(self.directory.path()).await
    }

    /// Writes down the founders of the cluster. Durable when this returns.
    pub async fn set_founders(&self, founders: &Founders) -> Result<(), Error> {
        founders.write(&self.directory).await
    }

    /// Writes a hard state: when this returns, it is durable. Of the commit index only the
    /// part that is durable on this node is recorded.
    ///
    /// # Errors
    /// When the new state would lower the term or the commit index, change a vote within
    /// its term, or has a commit index after the log's end.
    pub async fn set_hard_state(&mut self, state: HardState) -> Result<(), Error> {
        let now = self.hard_state();
        if state == now {
            return Ok(());
        }
        let contradicts = |what: &str| {
            Err(Error::Setting(format!(
                "{what}: {state:?} cannot follow on {now:?} in a log that ends at {}",
                self.end.lsn
            )))
        };
        if state.term < now.term {
            return contradicts("terms do not fall");
        }
        if state.term > Term::MAX {
            return Err(Error::Exhausted("2²⁰ terms"));
        }
        if state.term == now.term && now.vote.is_some() && state.vote != now.vote {
            return contradicts("a vote is not changed in its term");
        }
        if state.commit < now.commit || state.commit > self.end.lsn {
            return contradicts("the commit point does not go back, nor behind the end");
        }
        self.write_control(Control {
            term: state.term,
            member: Some(Member {
                vote: state.vote,
                commit: state.commit.min(self.flushed).max(now.commit),
                ..self.member()
            }),
            ..self.control
        })
        .await
    }

    /// Replaces CONTROL, recording the durable end as well.
    pub(super) async fn write_control(&mut self, control: Control) -> Result<(), Error> {
        self.check_failed()?;
        let control = Control {
            start: self.flushed.min(control.cut().unwrap_or(self.flushed)),
            clean_end: None,
            ..control
        };
        let written = self.directory.write_control(&control).await;
        self.poisoned_unless_full(written)?;
        self.control = control;
        Ok(())
    }

    pub(super) fn check_failed(&self) -> Result<(), Error> {
        match &self.failed {
            Some(reason) => Err(Error::Stopped(Arc::clone(reason))),
            None => Ok(()),
        }
    }

    /// Stops the log after a failed write or sync: the file's contents are unknown from
    /// then on.
    fn poisoned_by<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.failed.get_or_insert(error.to_string().into());
        }
        result
    }

    /// Like `poisoned_by`, except for a full disk: a file that could not be created changes
    /// nothing.
    fn poisoned_unless_full<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        match &result {
            Err(error) if error.is_disk_full() => result,
            _ => self.poisoned_by(result),
        }
    }

    /// Appends a leader's bytes: whole frames that begin at `at`, which must be the log's
    /// end. They are durable after [`ReplicaLog::flush`].
    ///
    /// # Errors
    /// [`Error::Refused`] when the bytes do not belong there: nothing has been changed
    /// then. After an error [about a full disk](Error::is_disk_full) the caller may try
    /// again from [`ReplicaLog::end`] on.
    pub async fn append(&mut self, at: Lsn, bytes: &[u8]) -> Result<(), Error> {
        self.put(at, bytes, Checksums::Unknown).await
    }

    /// Like [`ReplicaLog::append`], for frames that have each been
    /// [validated](crate::Frame::only): their checksums are not verified a second time.
    ///
    /// # Errors
    /// Those of [`ReplicaLog::append`].
    pub async fn append_sound(&mut self, at: Lsn, bytes: &[u8]) -> Result<(), Error> {
        self.put(at, bytes, Checksums::Right).await
    }

    async fn put(&mut self, at: Lsn, bytes: &[u8], checksums: Checksums) -> Result<(), Error> {
        self.check_failed()?;
        if at != self.end.lsn {
            let what = format!("the log ends at {}", self.end.lsn);
            return Err(Error::Refused { at, what });
        }
        let checked = check(bytes, self.end, self.control.term, (self.seed, checksums))?;
        if checked.end.lsn.0 >= Lsn::LIMIT.0 - 2 * AppendRing::MAX_REGION {
            return Err(Error::Exhausted("128 TiB of offsets"));
        }
        let written = self.write_terms(bytes, &checked.landmarks.marks).await;
        // After an error only some first frames may have been written.
        let mut landmarks = checked.landmarks;
        landmarks.cut(self.end.lsn);
        self.landmarks.append(landmarks);
        self.end.term = self.term_before(self.end.lsn);
        self.note_end();
        written
    }

    /// Appends checked bytes, in which terms begin with these marks: each term in a segment
    /// of its own.
    async fn write_terms(&mut self, bytes: &[u8], marks: &[Mark]) -> Result<(), Error> {
        let mut rest = bytes;
        for mark in marks {
            let (before, behind) = rest.split_at((mark.start.0 - self.end.lsn.0) as usize);
            self.write(before).await?;
            self.begin_term(mark.term).await?;
            rest = behind;
        }
        self.write(rest).await
    }

    pub(super) fn term_before(&self, lsn: Lsn) -> Term {
        let marked = self.landmarks.term_before(lsn).unwrap_or_default();
        marked.max(self.unmarked_term)
    }

    /// Appends bytes of one term.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let end = Lsn(self.end.lsn.0 + bytes.len() as u64);
        self.make_room_until(end).await?;
        let (mut at, mut rest) = (self.end.lsn, bytes);
        while !rest.is_empty() {
            let segment = self.chain.segment(at);
            if segment.first == at {
                self.sync_until(at).await?;
            }
            let segment = self.chain.segment(at);
            let room = usize::try_from(segment.end.0 - at.0).unwrap_or(usize::MAX);
            let (now, then) = rest.split_at(room.min(rest.len()));
            let written = segment.write(at, now).await;
            self.poisoned_by(written)?;
            at.0 += now.len() as u64;
            rest = then;
        }
        self.end.lsn = end;
        Ok(())
    }

    /// Begins a segment for a term whose mark is to be at the log's end.
    pub(super) async fn begin_term(&mut self, term: Term) -> Result<(), Error> {
        let at = self.end.lsn;
        self.flush_until(at).await?;
        let removed = self.chain.remove_all_from(at, &self.kind).await;
        self.poisoned_by(removed)?;
        let name = Name {
            first: at,
            begins: Some(term),
        };
        self.make_segment(name).await
    }

    /// Creates segments until they hold the stream up to `end`.
    async fn make_room_until(&mut self, end: Lsn) -> Result<(), Error> {
        while self.chain.end() < end {
            self.make_segment(Name::following(self.chain.end())).await?;
        }
        Ok(())
    }

    async fn make_segment(&mut self, name: Name) -> Result<(), Error> {
        let kind = match name.begins {
            Some(_) => self.kind.small(),
            None => self.kind.clone(),
        };
        match kind.create(name, || false).await {
            Ok(segment) => {
                self.chain.push(segment.expect("it is never stopped"));
                Ok(())
            }
            Err(error) => {
                // A partial file is of no use, and takes space that others may need.
                let _ = kind.discard(name).await;
                self.poisoned_unless_full(Err(error))
            }
        }
    }

    /// Creates the next segment if there is none after the one being written, so that
    /// [`ReplicaLog::append`] need not. Called when the thread is idle.
    pub async fn make_room(&mut self) -> Result<(), Error> {
        self.check_failed()?;
        if self.chain.segment(self.end.lsn).end == self.chain.end() {
            self.make_segment(Name::following(self.chain.end())).await?;
        }
        Ok(())
    }

    /// Makes everything durable that was appended, and returns the durable end.
    pub async fn flush(&mut self) -> Result<Lsn, Error> {
        self.check_failed()?;
        self.flush_until(self.end.lsn).await?;
        Ok(self.flushed)
    }

    /// Makes everything before `at` durable, where a frame must start.
    async fn flush_until(&mut self, at: Lsn) -> Result<(), Error> {
        self.sync_until(at).await?;
        self.flushed = self.flushed.max(at);
        self.note_end();
        Ok(())
    }

    async fn sync_until(&mut self, end: Lsn) -> Result<(), Error> {
        let mut synced = Ok(());
        let began = coeval_env::now();
        for segment in self.chain.segments(self.synced, end) {
            synced = segment.sync().await;
            if synced.is_err() {
                break;
            }
        }
        self.poisoned_by(synced)?;
        if let bytes @ 1.. = end.0.saturating_sub(self.synced.0) {
            self.counters.synced(bytes, began.elapsed());
        }
        self.synced = self.synced.max(end);
        Ok(())
    }

    /// Removes everything from `at` on, where a frame must start, from the log. When this
    /// returns, the truncation is durable; a crash meanwhile leaves the log either as it
    /// was or truncated.
    ///
    /// # Errors
    /// [`Error::Refused`] when no frame starts there, or the frame is committed.
    pub async fn truncate(&mut self, at: Lsn) -> Result<(), Error> {
        self.check_failed()?;
        if at == self.end.lsn {
            return Ok(());
        }
        self.check_cut(at).await?;
        // CONTROL will record that everything before the cut is durable.
        self.flush_until(at).await?;
        self.write_control(Control {
            member: Some(Member {
                cut: Some(at),
                ..self.member()
            }),
            ..self.control
        })
        .await?;
        let cut = self.cut(at).await;
        self.poisoned_by(cut)?;
        self.landmarks.cut(at);
        self.end = LogEnd {
            lsn: at,
            term: self.term_before(at),
        };
        (self.flushed, self.synced) = (at, at);
        self.note_end();
        // While CONTROL names the cut, nothing may be written after it.
        let done = self.write_control(self.control.after_cut()).await;
        self.poisoned_by(done)
    }

    async fn check_cut(&self, at: Lsn) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Refused { at, what });
        if at > self.end.lsn {
            return refuse(format!("the log ends at {}", self.end.lsn));
        }
        let kept = self.member().commit.max(self.begin);
        if at < kept {
            return refuse(format!("everything before {kept} is committed, and stays"));
        }
        let mut head = Vec::new();
        self.chain.read(at, HEADER_BYTES, &mut head).await?;
        let starts = head
            .first_chunk()
            .is_some_and(|head| Header::decode(head, at, self.seed).is_ok());
        match starts {
            true => Ok(()),
            false => refuse("no frame of this log starts there".to_owned()),
        }
    }

    /// Changes the files for a cut that CONTROL names already.
    async fn cut(&mut self, at: Lsn) -> Result<(), Error> {
        self.chain.remove_all_from(at, &self.kind).await?;
        self.chain.begin_if_empty(&self.kind).await?;
        self.chain.clear_last_from(at).await
    }

    /// Replaces everything from `at` on by a leader's bytes, and makes that durable. A
    /// crash meanwhile leaves the log as it was, truncated at `at`, or continued there with
    /// some first of these frames.
    ///
    /// # Errors
    /// [`Error::Refused`] when the bytes do not belong there: nothing has been changed.
    pub async fn replace(&mut self, at: Lsn, bytes: &[u8]) -> Result<(), Error> {
        self.check_failed()?;
        if at != self.end.lsn {
            self.check_cut(at).await?;
        }
        let end = LogEnd {
            lsn: at,
            term: self.term_before(at),
        };
        check(
            bytes,
            end,
            self.control.term,
            (self.seed, Checksums::Unknown),
        )?;
        self.truncate(at).await?;
        self.append(at, bytes).await?;
        self.flush().await?;
        Ok(())
    }

    /// Reads the frames from `from` on, where one must start: about as many as fit `most`
    /// bytes, and at least one. Empty at the log's end.
    ///
    /// # Errors
    /// [`Error::NotRetained`] when the log there has been removed.
    pub async fn read(&self, from: Lsn, most: usize) -> Result<Frames, Error> {
        if from < self.begin {
            return Err(Error::NotRetained {
                from,
                oldest: self.begin,
            });
        }
        let room = usize::try_from(self.end.lsn.0.saturating_sub(from.0)).unwrap_or(usize::MAX);
        let mut frames = Vec::new();
        if room > 0 {
            let read = frames_of(&self.chain, self.seed, from, (most, room)).await?;
            frames = read.map_err(|why| self.chain.damaged(from, why.describe().to_owned()))?;
        }
        Ok(Frames {
            start: from,
            bytes: frames.into(),
        })
    }

    /// Records in CONTROL that the log is closed in order, and releases the directory.
    pub async fn close(mut self) -> Result<(), Error> {
        self.flush().await?;
        let control = Control {
            start: self.flushed,
            clean_end: Some(self.flushed),
            ..self.control
        };
        self.directory.write_control(&control).await
    }

    /// The data directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}
