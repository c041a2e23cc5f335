//! A follower's replay: commits, as the log grows.
//!
//! ```text
//!   ReplicaLog::open replayed up to here   advance(to)
//!   ──────────────────────────────┼───────────┼─────────── log
//!                                 position ───▶
//! ```
//!
//! It reads the log's files beside the one who writes them, so it may run on a thread of
//! its own; what was just written is still in the kernel's memory. Entries go to the
//! threads of the log's settings, those of one record always to the same one in the order
//! of the log, and [`Replayer::advance`] returns when all of them have been applied. So
//! whatever it has advanced to is a prefix of the commits, each of them whole.
//!
//! It goes as far as it is told, which may be beyond what is committed and what is flushed;
//! then whoever keeps the tables takes back what a cut takes away, and tells it by
//! [`Replayer::cut`], before the log is cut.

use std::sync::Arc;

use coeval_types::{Lsn, Term, Timestamp};

use super::files::LogFiles;
use super::log::ReplicaLog;
use crate::checkpoint::CheckpointStart;
use crate::frame::{Header, Kind, Seed};
use crate::recovery::deliver::Delivery;
use crate::{Error, Replay};

/// How much is read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Replays a log from a position on. See the module.
pub struct Replayer {
    files: LogFiles,
    seed: Seed,
    delivery: Delivery,
    at: Lsn,
    last: Timestamp,
    commits: u64,
    /// Where it began, and where terms have begun since, each with the term from there on.
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

/// What a replayer has done since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Everything before has been applied.
    pub end: Lsn,
    /// The last commit that was, [`Timestamp::ZERO`] when there was none.
    pub last_commit: Timestamp,
    /// Committed transactions.
    pub commits: u64,
    /// Their entries.
    pub entries: u64,
}

impl ReplicaLog {
    /// Goes on where [`ReplicaLog::open`] has ended, or wherever a frame starts behind.
    ///
    /// # Panics
    /// When `from` is before what a start would read.
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
    /// Up to where everything has been applied.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// Applies everything up to `to`, where a frame ends that [`ReplicaLog::append`] has
    /// written. Returns when it has been applied.
    ///
    /// After an error nothing is known of what was applied: the tables are to be filled
    /// anew.
    pub async fn advance(&mut self, to: Lsn) -> Result<Replayed, Error> {
        self.advance_by(to, u64::MAX).await
    }

    /// [`Replayer::advance`], but ends after so many bytes, or a little more.
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

    /// The log is about to be cut at `at`, where a frame starts: it goes on there. What it
    /// has applied of what goes is the caller's to take back.
    pub fn cut(&mut self, at: Lsn) {
        self.at = self.at.min(at);
        let begun = self.terms.partition_point(|(start, _)| *start < at);
        self.terms.truncate(begun.max(1));
        self.delivery.chunks.cut(at);
        self.files.forget();
    }

    /// Where a checkpoint stands that shows everything before `end`, and nothing else: a
    /// frame ends there, all before is committed, and was replayed.
    pub fn checkpoint_start(&mut self, end: Lsn) -> CheckpointStart {
        let begun = self.terms.partition_point(|(start, _)| *start < end);
        // Nobody asks of an earlier place than one before.
        self.terms.drain(..begun.saturating_sub(1));
        let (_, term) = self.terms[0];
        CheckpointStart {
            snapshot: Timestamp::new(term, Lsn(end.0.saturating_sub(Lsn::ALIGNMENT))),
            log_start: self.delivery.chunks.needed_from(end, term),
        }
    }

    /// Hands in the commits of whole frames.
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

    /// Ends its threads.
    pub async fn close(self) -> Result<(), Error> {
        self.delivery.finish().await
    }
}
