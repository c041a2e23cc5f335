//! The sender of a checkpoint: one node of a cluster sends it to another, with the log before
//! its end that it needs.
//!
//! ```text
//!   sender    CheckpointSource   marks | log from L to P | the file     held, so not removed
//!                                  │ in pieces of any size, in order
//!   receiver  CheckpointReceiver   ▼
//!             memory: marks      log/…L.received.log.new   checkpoints/…P.received.checkpoint.new
//!             finish: sync, every checksum, marks and header agree
//!             ReplicaLog::install: in force, in place of the whole log
//! ```
//!
//! The file replaces everything before P. A transaction that commits after P may have its first
//! chunks before, from L on ([`chunks`](crate::chunks)), and its commit is replayed from the
//! log alone. So the log from L on is sent with it, byte for byte; without large transactions
//! there is none. It ends where the file does, so the consensus protocol treats the two
//! together as the committed prefix before P, and a start replays from P on, as it does with a
//! checkpoint of its own. If the receiver's log ended at L instead, and the rest arrived as
//! ordinary appends, its tables would show commits that its log lacks.
//!
//! The log before P is of the term in which it ends, as a commit names chunks of its own term
//! only; so it holds no mark, and no file of it is named by a term.

use std::path::PathBuf;

use bytes::Bytes;
use coeval_env::fs;
use coeval_types::Lsn;

use super::directory::path_of;
use super::{CheckpointFile, CheckpointStart};
use crate::Error;
use crate::files::Files;
use crate::recovery::chain::Chain;
use crate::retention::Hold;

/// Announcement of a checkpoint, which the receiver gets before the first piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointOffer {
    /// The checkpoint's snapshot, and the log that it needs.
    pub start: CheckpointStart,
    /// Log offset at which replication of the sender's log began: it knows all marks from there
    /// on.
    pub base: Lsn,
    /// Bytes of the list of marks, the first part of the transfer.
    pub marks_bytes: u64,
    /// Bytes of the file, which follows the marks and the log.
    pub file_bytes: u64,
}

impl CheckpointOffer {
    /// Offset in the transfer at which the log that is sent with the checkpoint ends.
    pub(super) fn log_end(&self) -> u64 {
        self.marks_bytes.saturating_add(self.log_bytes())
    }

    /// Bytes of log, which follow the marks.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.end().0.saturating_sub(self.start.log_start.0)
    }

    /// Bytes of the whole transfer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.log_end().saturating_add(self.file_bytes)
    }

    /// The end of the log prefix that the checkpoint replaces.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.start.replay_from()
    }

    /// End of a piece that begins at `at` and has `most` bytes or fewer: a piece does not cross
    /// from the marks into the log, nor from the log into the file.
    #[must_use]
    pub fn piece_end(&self, at: u64, most: u64) -> u64 {
        let parts = [self.marks_bytes, self.log_end(), self.bytes()];
        let end = parts.into_iter().find(|end| at < *end);
        at.saturating_add(most).min(end.unwrap_or(at))
    }
}

/// A checkpoint that this node is sending. While this exists, the checkpoint, the log that it
/// needs and the log after it are not removed.
#[derive(Debug)]
pub struct CheckpointSource {
    _hold: Hold,
    path: PathBuf,
    file: fs::File,
    marks: Bytes,
    /// Files that hold the log before the checkpoint's end that it needs, if any.
    log: Option<Chain>,
    offer: CheckpointOffer,
}

impl CheckpointSource {
    pub(crate) async fn open(
        hold: Hold,
        start: CheckpointStart,
        files: &Files,
        marks: Vec<u8>,
        base: Lsn,
    ) -> Result<Self, Error> {
        let path = path_of(&files.checkpoints(), start.replay_from());
        let checked = CheckpointFile::open(&path).await?;
        let file = fs::open(&path, fs::OpenOptions::READ)
            .await
            .map_err(Error::io("open", &path))?;
        let offer = CheckpointOffer {
            start: checked.start(),
            base,
            marks_bytes: marks.len() as u64,
            file_bytes: checked.summary().bytes,
        };
        let log = match offer.log_bytes() {
            0 => None,
            _ => Some(log_before(files, offer.start).await?),
        };
        Ok(Self {
            _hold: hold,
            path,
            file,
            marks: marks.into(),
            log,
            offer,
        })
    }

    /// The offer to announce to the receiver.
    #[must_use]
    pub fn offer(&self) -> CheckpointOffer {
        self.offer
    }

    /// Reads the bytes from `at` on, up to the [end of a piece](CheckpointOffer::piece_end) of
    /// `most` bytes; none at the end.
    pub async fn read(&self, at: u64, most: usize) -> Result<Bytes, Error> {
        let offer = &self.offer;
        let end = offer.piece_end(at, most as u64);
        if at < offer.marks_bytes {
            return Ok(self.marks.slice(at as usize..end as usize));
        }
        let mut bytes = Vec::new();
        match &self.log {
            Some(log) if at < offer.log_end() => {
                let from = Lsn(offer.start.log_start.0 + (at - offer.marks_bytes));
                log.read(from, (end - at) as usize, &mut bytes).await?;
            }
            _ => {
                bytes.resize((end - at) as usize, 0);
                self.file
                    .read_exact_at(&mut bytes, at - offer.log_end())
                    .await
                    .map_err(Error::io("read", &self.path))?;
            }
        }
        Ok(bytes.into())
    }
}

/// Opens the files of the log that a checkpoint needs from before its end. All of that is
/// durable, and no thread writes there any more.
async fn log_before(files: &Files, start: CheckpointStart) -> Result<Chain, Error> {
    let kind = files.whole_segments();
    let end = start.replay_from();
    // Files after it appear and disappear while segments are made.
    let chain = Chain::open(&kind, start.log_start, Some(end)).await?;
    chain.must_reach(end, &kind)?;
    Ok(chain)
}
