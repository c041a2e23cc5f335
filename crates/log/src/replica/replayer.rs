//! The replayer: applies committed transactions to a follower's tables as its log grows.
//!
//! ```text
//!   ReplicaLog::open replayed up to here   advance(to)
//!   ──────────────────────────────┼───────────┼─────────── log
//!                                 position ───▶
//! ```
//!
//! It reads the log's files while another thread writes them; recently written bytes are
//! still in the kernel's page cache. Entries go to the replay threads of the log's
//! settings, those of one record always to the same thread in log order, and
//! [`Replayer::advance`] returns when all of them have been applied. So the applied state
//! is always a prefix of the commits, each of them whole.
//!
//! The caller chooses how far it advances, which may be beyond the committed and the
//! flushed log; the caller then undoes the effects of frames that a truncation removes, and
//! calls [`Replayer::cut`] before the log is truncated.

use std::sync::Arc;

use coeval_types::{Lsn, Term, Timestamp};

use super::files::LogFiles;
use super::log::ReplicaLog;
use crate::checkpoint::CheckpointStart;
use crate::frame::{Header, Kind, Seed};
use crate::recovery::deliver::Delivery;
use crate::{Error, Replay};

/// Bytes of log that are read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Replays a log from a log offset on. See the module.
pub struct Replayer {
    files: LogFiles,
    seed: Seed,
    delivery: Delivery,
    at: Lsn,
    last: Timestamp,
    commits: u64,
    /// The term at its start, and each term that has begun since, with the offset from
    /// which it holds.
    terms: Vec<(Lsn, Term)>,
}

impl std::fmt::Debug for Replayer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Replayer")
            .field("at", &self.at)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

/// Progress of a replayer since it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Log offset before which everything has been applied.
    pub end: Lsn,
    /// The last applied commit, [`Timestamp::ZERO`] when there was none.
    pub last_commit: Timestamp,
    /// Number of committed transactions applied.
    pub commits: u64,
    /// Number of their entries.
    pub entries: u64,
}

impl ReplicaLog {
    /// A replayer that continues where [`ReplicaLog::open`] has ended, or at a later frame.
    ///
    /// # Panics
    /// When `from` is before the log that a start would read.
    #[must_use]
    pub fn replayer(&self, replay: Arc<dyn Replay>, from: Lsn) -> Replayer {
        assert!(from >= self.begin, "the log is not read from there on");
        let threads = self.settings.recovery_threads;
        let mut delivery = Delivery::new(self.seed, replay, threads);
        delivery.chunks = self.chunks.clone();
        Replayer {
            files: LogFiles::new(&self.files(), self.seed, self.chain.first()),
            seed: self.seed,
            delivery,
            at: from,
            last: Timestamp::ZERO,
            commits: 0,
            terms: vec![(from, self.term_before(from))],
        }
    }
}

impl Replayer {
    /// Log offset up to which everything has been applied.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// Applies everything up to `to`, where a frame must end that [`ReplicaLog::append`]
    /// has written. Returns when it has been applied.
    ///
    /// After an error it is unknown which entries were applied: the caller must rebuild the
    /// tables.
    pub async fn advance(&mut self, to: Lsn) -> Result<Replayed, Error> {
        self.advance_by(to, u64::MAX).await
    }

    /// Like [`Replayer::advance`], but stops after about `bytes` bytes.
    pub async fn advance_by(&mut self, to: Lsn, bytes: u64) -> Result<Replayed, Error> {
        let enough = Lsn(self.at.0.saturating_add(bytes));
        while self.at < to.min(enough) {
            let block = Arc::new(self.files.read(self.at, to, BLOCK_BYTES).await?);
            self.block(&block).await?;
        }
        self.delivery.settle().await?;
        Ok(Replayed {
            end: self.at,
            last_commit: self.last,
            commits: self.commits,
            entries: self.delivery.entries(),
        })
    }

    /// Called before the log is truncated at `at`, where a frame starts: replay continues
    /// there. The caller undoes the removed entries that were already applied.
    pub fn cut(&mut self, at: Lsn) {
        self.at = self.at.min(at);
        let begun = self.terms.partition_point(|(start, _)| *start < at);
        self.terms.truncate(begun.max(1));
        self.delivery.chunks.cut(at);
        self.files.forget();
    }

    /// The position of a checkpoint that includes exactly the log before `end`, where a
    /// frame ends: everything before it must be committed, and replayed.
    pub fn checkpoint_start(&mut self, end: Lsn) -> CheckpointStart {
        let begun = self.terms.partition_point(|(start, _)| *start < end);
        // Later calls have the same or a later `end`.
        self.terms.drain(..begun.saturating_sub(1));
        let (_, term) = self.terms[0];
        CheckpointStart {
            snapshot: Timestamp::new(term, Lsn(end.0.saturating_sub(Lsn::ALIGNMENT))),
            log_start: self.delivery.chunks.needed_from(end, term),
        }
    }

    /// Passes in the commits of whole frames.
    async fn block(&mut self, block: &Arc<Vec<u8>>) -> Result<(), Error> {
        let chain = self.files.chain().expect("a block was read from it");
        let mut at = 0;
        while at < block.len() {
            let header = block[at..]
                .first_chunk()
                .and_then(|head| Header::decode(head, self.at, self.seed).ok())
                .expect("whole frames were read");
            match header.kind {
                Kind::Mark => self.terms.push((self.at, header.timestamp.term())),
                Kind::Chunk => self.delivery.chunks.meet(header.timestamp),
                _ => {}
            }
            if header.kind == Kind::Commit {
                self.delivery.commit(chain, &header, block, at).await?;
                self.commits += 1;
                self.last = header.timestamp;
            }
            at += header.frame_bytes() as usize;
            self.at = header.end();
        }
        self.delivery.block_done(block).await
    }

    /// Waits for the replay threads, and ends them.
    pub async fn close(self) -> Result<(), Error> {
        self.delivery.finish().await
    }
}
