//! A checkpoint that one node of a cluster sends another.
//!
//! ```text
//!   sender    CheckpointSource   marks | the file                 held, so that it stays
//!                                  │ in pieces of any size, in order
//!   receiver  CheckpointReceiver   ▼
//!             memory: marks      checkpoints/…P.received.checkpoint.new
//!             finish: sync, every checksum, marks and header agree
//!             ReplicaLog::install: in force, in place of the whole log
//! ```
//!
//! What breaks off leaves a file that the next receiver, or the next start, removes. So
//! there is never more than one.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use coeval_env::fs;
use coeval_types::{Lsn, Term, Timestamp};

use super::directory::{CHECKPOINTS, received_path_of, remove_received};
use super::{CheckpointFile, CheckpointStart};
use crate::Error;
use crate::replica::{Landmarks, Mark, Membership};
use crate::retention::Hold;

/// After so many bytes the file is synced, as one that is written here.
const SYNC_BYTES: u64 = 8 << 20;
/// A list of marks is a line for each term, so one that is longer is none.
const MARKS_LIMIT: u64 = 64 << 20;

/// What is sent: known before the first piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointOffer {
    /// The newest commit it includes.
    pub snapshot: Timestamp,
    /// Where the sender's log began to be replicated: it knows all marks from there on.
    pub base: Lsn,
    /// Bytes of marks, which come first.
    pub marks_bytes: u64,
    /// Bytes of the file, behind them.
    pub file_bytes: u64,
}

impl CheckpointOffer {
    /// Everything together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.marks_bytes.saturating_add(self.file_bytes)
    }

    /// The place in the log that it stands for: what is before.
    #[must_use]
    pub fn end(&self) -> Lsn {
        CheckpointStart {
            snapshot: self.snapshot,
            log_start: Lsn(0),
        }
        .replay_from()
    }
}

/// A checkpoint that is being sent. It stays, with the log behind it, for as long as this
/// is kept.
#[derive(Debug)]
pub struct CheckpointSource {
    hold: Hold,
    path: PathBuf,
    file: fs::File,
    marks: Bytes,
    offer: CheckpointOffer,
}

impl CheckpointSource {
    pub(crate) async fn open(
        hold: Hold,
        path: PathBuf,
        marks: Vec<u8>,
        base: Lsn,
    ) -> Result<Self, Error> {
        let checked = CheckpointFile::open(&path).await?;
        let file = fs::open(&path, fs::OpenOptions::READ)
            .await
            .map_err(Error::io("open", &path))?;
        let offer = CheckpointOffer {
            snapshot: checked.snapshot(),
            base,
            marks_bytes: marks.len() as u64,
            file_bytes: checked.summary().bytes,
        };
        Ok(Self {
            hold,
            path,
            file,
            marks: marks.into(),
            offer,
        })
    }

    /// What is to be announced.
    #[must_use]
    pub fn offer(&self) -> CheckpointOffer {
        self.offer
    }

    /// The next bytes from `at` on, `most` of them or fewer; none at the end.
    pub async fn read(&self, at: u64, most: usize) -> Result<Bytes, Error> {
        let marks = self.offer.marks_bytes;
        if at < marks {
            let end = (at + most as u64).min(marks);
            return Ok(self.marks.slice(at as usize..end as usize));
        }
        let left = self.offer.bytes().saturating_sub(at);
        let mut bytes = vec![0; left.min(most as u64) as usize];
        self.file
            .read_exact_at(&mut bytes, at - marks)
            .await
            .map_err(Error::io("read", &self.path))?;
        Ok(bytes.into())
    }

    /// Keeps the log behind the checkpoint, but not the file open.
    pub fn into_hold(self) -> Hold {
        self.hold
    }
}

/// A checkpoint that is being received. See the module.
#[derive(Debug)]
pub struct CheckpointReceiver {
    database: u128,
    offer: CheckpointOffer,
    path: PathBuf,
    file: fs::File,
    marks: Vec<u8>,
    at: u64,
    synced: u64,
}

impl CheckpointReceiver {
    /// Begins to receive what was offered, in a data directory of this database. What an
    /// earlier receiver left goes.
    pub async fn create(
        directory: &Path,
        database: u128,
        offer: CheckpointOffer,
    ) -> Result<Self, Error> {
        if offer.marks_bytes > MARKS_LIMIT {
            return Err(Error::TooLarge {
                bytes: offer.marks_bytes,
                limit: MARKS_LIMIT,
            });
        }
        let folder = directory.join(CHECKPOINTS);
        remove_received(&folder).await?;
        let path = received_path_of(&folder, offer.end());
        let options = fs::OpenOptions {
            truncate: true,
            ..fs::OpenOptions::CREATE
        };
        let file = fs::open(&path, options)
            .await
            .map_err(Error::io("create", &path))?;
        Ok(Self {
            database,
            offer,
            path,
            file,
            marks: Vec::new(),
            at: 0,
            synced: 0,
        })
    }

    /// What was offered.
    #[must_use]
    pub fn offer(&self) -> CheckpointOffer {
        self.offer
    }

    /// How much there is: where the next piece begins.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.at
    }

    /// Whether everything is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.at == self.offer.bytes()
    }

    /// Takes the piece that begins at `at`.
    ///
    /// # Errors
    /// When it is not the next one, or is longer than what was offered.
    pub async fn write(&mut self, at: u64, piece: &[u8]) -> Result<(), Error> {
        let end = at.checked_add(piece.len() as u64);
        if at != self.at || end.is_none_or(|end| end > self.offer.bytes()) {
            return Err(Error::Refused {
                at: self.offer.end(),
                what: format!(
                    "a piece of {} bytes at {at} of a checkpoint of {}, of which {} are here",
                    piece.len(),
                    self.offer.bytes(),
                    self.at
                ),
            });
        }
        let of_marks = self.offer.marks_bytes.saturating_sub(at);
        let (marks, of_file) = piece.split_at((piece.len() as u64).min(of_marks) as usize);
        self.marks.extend_from_slice(marks);
        self.at += marks.len() as u64;
        let place = self.at - self.offer.marks_bytes.min(self.at);
        if !of_file.is_empty() {
            self.file
                .write_at(of_file, place)
                .await
                .map_err(Error::io("write", &self.path))?;
            self.at += of_file.len() as u64;
        }
        if self.at - self.synced >= SYNC_BYTES {
            self.sync().await?;
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), Error> {
        self.file
            .sync_all()
            .await
            .map_err(Error::io("sync", &self.path))?;
        self.synced = self.at;
        Ok(())
    }

    /// Everything is there: makes it durable and looks at every checksum. On an error the
    /// file is removed.
    pub async fn finish(mut self) -> Result<ReceivedCheckpoint, Error> {
        match self.check().await {
            Ok(received) => Ok(received),
            Err(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    async fn check(&mut self) -> Result<ReceivedCheckpoint, Error> {
        self.sync().await?;
        if let Some(folder) = self.path.parent() {
            // CONTROL will rely on it that the file can be found.
            fs::sync_dir(folder)
                .await
                .map_err(Error::io("sync", folder))?;
        }
        let refuse = |what: &str| {
            Err(Error::Damaged {
                file: self.path.clone(),
                offset: 0,
                what: what.to_owned(),
            })
        };
        if !self.is_whole() {
            return refuse("the checkpoint has not come whole");
        }
        let file = CheckpointFile::open_unnamed(&self.path).await?;
        if file.database() != self.database {
            return refuse("the checkpoint is of another database");
        }
        let start = file.start();
        if start.snapshot != self.offer.snapshot {
            return refuse("the checkpoint is another one than was offered");
        }
        if start.log_start != start.replay_from() {
            return refuse("the checkpoint needs log from before its end, which was not sent");
        }
        let mut buffer = Vec::new();
        for block in 0..file.blocks() {
            file.read(block, &mut buffer).await?;
            coeval_env::yield_now().await;
        }
        let landmarks = match Landmarks::parse(&self.marks) {
            Ok(landmarks) => landmarks,
            Err(what) => return refuse(&format!("of the marks sent with it: {what}")),
        };
        let end = start.replay_from();
        let newest = landmarks.term_before(end);
        if newest != Some(start.snapshot.term()) || !landmarks.end_by(end) {
            return refuse("the marks sent with it are not those of the log before it");
        }
        Ok(ReceivedCheckpoint {
            start,
            base: self.offer.base,
            landmarks,
            path: self.path.clone(),
        })
    }

    /// Gives up, and the room on the disk back.
    pub async fn abandon(self) {
        drop(self.file);
        if let Err(error) = fs::remove_file(&self.path).await {
            // The next receiver, or the next start, removes it.
            tracing::warn!(
                file = %self.path.display(),
                %error,
                "a checkpoint that did not come whole could not be removed"
            );
        }
    }
}

/// A checkpoint that has come whole, and was found sound.
#[derive(Clone, Debug)]
pub struct ReceivedCheckpoint {
    pub(crate) start: CheckpointStart,
    pub(crate) base: Lsn,
    pub(crate) landmarks: Landmarks,
    pub(crate) path: PathBuf,
}

impl ReceivedCheckpoint {
    /// The term of the last entry before its end.
    #[must_use]
    pub fn term(&self) -> Term {
        self.start.snapshot.term()
    }

    /// The place in the log that it stands for: what is before.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.start.replay_from()
    }

    /// Where the log began to be replicated.
    #[must_use]
    pub fn base(&self) -> Lsn {
        self.base
    }

    /// Where leaders' terms begin before its end.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.landmarks.marks
    }

    /// Who took part from where on.
    #[must_use]
    pub fn memberships(&self) -> &[Membership] {
        &self.landmarks.memberships
    }

    /// Gives it up, and the room on the disk back.
    pub async fn discard(self) {
        if let Err(error) = fs::remove_file(&self.path).await {
            // The next receiver, or the next start, removes it.
            tracing::warn!(
                file = %self.path.display(),
                %error,
                "a checkpoint that is not needed could not be removed"
            );
        }
    }
}
