//! The receiver of a checkpoint that another node sends ([`send`](super::send)): writes
//! the pieces to temporary files and validates them.
//!
//! An interrupted transfer leaves files that the next receiver, or the next start,
//! removes. So there is never more than one.

use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::{Lsn, Term};

use super::directory::{received_log_path_of, received_path_of, remove_received};
use super::{CheckpointFile, CheckpointOffer, CheckpointStart};
use crate::Error;
use crate::files::Files;
use crate::frame::Seed;
use crate::replica::{Landmarks, Mark, Membership, check_segment};
use crate::segment::{Name, Segment};

/// Bytes after which the received files are synced, as in a checkpoint written locally.
const SYNC_BYTES: u64 = 8 << 20;
/// Most bytes of a valid list of marks, which has one line for each term.
const MARKS_LIMIT: u64 = 64 << 20;

/// A checkpoint that this node is receiving. See the module.
#[derive(Debug)]
pub struct CheckpointReceiver {
    files: Files,
    offer: CheckpointOffer,
    path: PathBuf,
    file: fs::File,
    marks: Vec<u8>,
    /// The log before its end that it needs, if any.
    log: Option<Segment>,
    at: u64,
    synced: u64,
}

impl CheckpointReceiver {
    /// Begins to receive the offered checkpoint, in a data directory of this database. The
    /// files of an earlier receiver are removed.
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
        let files = Files {
            directory: directory.to_owned(),
            database,
            versioned: false,
        };
        for folder in [files.checkpoints(), files.log()] {
            remove_received(&folder).await?;
        }
        let path = received_path_of(&files.checkpoints(), offer.end());
        let file = fs::open(&path, fs::OpenOptions::REPLACE)
            .await
            .map_err(Error::io("create", &path))?;
        let log = match offer.log_bytes() {
            0 => None,
            _ => Some(begin_log(&files, offer.start).await?),
        };
        Ok(Self {
            files,
            offer,
            path,
            file,
            marks: Vec::new(),
            log,
            at: 0,
            synced: 0,
        })
    }

    /// The sender's offer.
    #[must_use]
    pub fn offer(&self) -> CheckpointOffer {
        self.offer
    }

    /// Bytes received so far: the offset at which the next piece begins.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.at
    }

    /// Whether all bytes have been received.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.at == self.offer.bytes()
    }

    /// Writes the piece that begins at `at`.
    ///
    /// # Errors
    /// When the piece is not the next one, or exceeds the offered length.
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
        let mut rest = piece;
        while !rest.is_empty() {
            let end = self.offer.piece_end(self.at, rest.len() as u64);
            let (now, then) = rest.split_at((end - self.at) as usize);
            self.write_part(now).await?;
            self.at = end;
            rest = then;
        }
        if self.at - self.synced >= SYNC_BYTES {
            self.sync().await?;
        }
        Ok(())
    }

    /// Writes the next bytes, which lie wholly within the marks, the log, or the file.
    async fn write_part(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.at < self.offer.marks_bytes {
            self.marks.extend_from_slice(bytes);
            return Ok(());
        }
        match &self.log {
            Some(log) if self.at < self.offer.log_end() => {
                let place = log.first.0 + (self.at - self.offer.marks_bytes);
                log.write(Lsn(place), bytes).await
            }
            _ => self
                .file
                .write_at(bytes, self.at - self.offer.log_end())
                .await
                .map_err(Error::io("write", &self.path)),
        }
    }

    async fn sync(&mut self) -> Result<(), Error> {
        if let Some(log) = &self.log {
            log.sync().await?;
        }
        self.file
            .sync_all()
            .await
            .map_err(Error::io("sync", &self.path))?;
        self.synced = self.at;
        Ok(())
    }

    /// Called when all bytes have been received: makes the files durable and verifies
    /// every checksum. On an error the files are removed.
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
        for folder in [self.files.checkpoints(), self.files.log()] {
            // CONTROL will name these files, so they must be found after a crash.
            fs::sync_dir(&folder)
                .await
                .map_err(Error::io("sync", &folder))?;
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
        if file.database() != self.files.database {
            return refuse("the checkpoint is of another database");
        }
        let start = file.start();
        if start != self.offer.start {
            return refuse("the checkpoint is another one than was offered");
        }
        let mut buffer = Vec::new();
        for block in 0..file.blocks() {
            file.read(block, &mut buffer).await?;
            coeval_env::yield_now().await;
        }
        if let Some(log) = self.log.take() {
            let seed = Seed::of_database(self.files.database);
            check_segment(log, start.snapshot.term(), seed).await?;
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
            files: self.files.clone(),
        })
    }

    /// Gives the checkpoint up: removes its files and frees their disk space.
    pub async fn abandon(self) {
        drop((self.file, self.log));
        remove(&self.files, self.offer.start).await;
    }
}

/// Creates the file for the log that a checkpoint needs from before its end.
async fn begin_log(files: &Files, start: CheckpointStart) -> Result<Segment, Error> {
    let path = received_log_path_of(&files.log(), start.log_start);
    let name = Name::following(start.log_start);
    let kind = files.whole_segments();
    kind.begin(path, name, start.replay_from()).await
}

/// The files of a checkpoint that is being received: its log, if it needs any, and the
/// checkpoint itself.
fn paths(files: &Files, start: CheckpointStart) -> impl Iterator<Item = PathBuf> {
    let log = (start.log_start < start.replay_from())
        .then(|| received_log_path_of(&files.log(), start.log_start));
    let file = received_path_of(&files.checkpoints(), start.replay_from());
    log.into_iter().chain([file])
}

/// Removes the files of a checkpoint that was not received whole, or is not needed.
async fn remove(files: &Files, start: CheckpointStart) {
    for path in paths(files, start) {
        if let Err(error) = fs::remove_file(&path).await {
            // The next receiver, or the next start, removes the file.
            tracing::warn!(
                file = %path.display(),
                %error,
                "a checkpoint that another node sent could not be removed"
            );
        }
    }
}

/// A checkpoint that was received whole and validated.
#[derive(Clone, Debug)]
pub struct ReceivedCheckpoint {
    pub(crate) start: CheckpointStart,
    pub(crate) base: Lsn,
    pub(crate) landmarks: Landmarks,
    files: Files,
}

impl ReceivedCheckpoint {
    /// The term of the last entry before its end.
    #[must_use]
    pub fn term(&self) -> Term {
        self.start.snapshot.term()
    }

    /// The end of the log prefix that it replaces.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.start.replay_from()
    }

    /// Log offset at which replication of the log began.
    #[must_use]
    pub fn base(&self) -> Lsn {
        self.base
    }

    /// Marks of the leaders' terms that began before its end.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.landmarks.marks
    }

    /// Memberships of the cluster, each with the offset from which it holds.
    #[must_use]
    pub fn memberships(&self) -> &[Membership] {
        &self.landmarks.memberships
    }

    /// Paths of its files, until it is installed.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        paths(&self.files, self.start)
    }

    /// Gives the checkpoint up: removes its files and frees their disk space.
    pub async fn discard(self) {
        remove(&self.files, self.start).await;
    }
}
