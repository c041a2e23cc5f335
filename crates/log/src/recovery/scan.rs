//! The recovery scan: reads the log's frames from its first, or from the checkpoint's
//! end, to the first offset without a valid frame, and replays its commits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use coeval_memory::ring::AppendRing;
use coeval_types::{Lsn, Term, Timestamp};

use crate::Error;
use crate::control::Control;
use crate::frame::{HEADER_BYTES, Header, Kind, NotAFrame, Seed};
use crate::recovery::chain::Chain;
use crate::recovery::chunks::SeenChunks;
use crate::recovery::deliver::Delivery;
use crate::recovery::{RecoveryProgress, Replay};
use crate::replica::Landmarks;

/// Bytes of log that are read at once.
const BLOCK_BYTES: usize = 4 << 20;
/// How often progress is reported.
const PROGRESS: Duration = Duration::from_secs(2);

/// Result of the scan.
pub(crate) struct Scan {
    /// Log offset of the first position without a valid frame: the log's end.
    pub(crate) end: Lsn,
    /// Why the bytes there are no frame.
    pub(crate) stopped_by: NotAFrame,
    /// Whether the log was closed in order at exactly that offset.
    pub(crate) clean: bool,
    /// The greatest durable offset in any frame.
    pub(crate) durable: Lsn,
    pub(crate) commits: u64,
    pub(crate) entries: u64,
    pub(crate) last_commit: Timestamp,
    /// The term of the last frame, or the one in which the log before the scan ended.
    pub(crate) last_term: Term,
    /// The newest term that began without a mark.
    pub(crate) unmarked_term: Term,
    /// Marks and memberships: the frames that consensus wrote.
    pub(crate) landmarks: Landmarks,
    /// Chunks before the end of the replayed part, with the commits there that reference
    /// them.
    pub(crate) chunks: SeenChunks,
}

/// Result of parsing the next frame.
enum Taken {
    Frame(Header),
    /// The block ends within the frame.
    MoreNeeded,
    End(NotAFrame),
}

struct Reader<'log> {
    chain: &'log Chain,
    control: &'log Control,
    seed: Seed,
    replay: Arc<dyn Replay>,
    delivery: Delivery,
    /// Log offset from which commits are not replayed, as they are not known to be
    /// committed.
    replay_until: Option<Lsn>,
    /// Log offset at which the scan began.
    start: Lsn,
    #[cfg(feature = "planted")]
    clock: crate::planted::Clock,
    scan: Scan,
}

impl Scan {
    /// Reads and replays from `start` on. The log before it ended in `term`, and all of
    /// it was durable.
    pub(crate) async fn run(
        chain: &Chain,
        control: &Control,
        seed: Seed,
        (start, term): (Lsn, Term),
        threads: usize,
        replay: Arc<dyn Replay>,
    ) -> Result<Self, Error> {
        let mut reader = Reader {
            chain,
            control,
            seed,
            delivery: Delivery::new(seed, Arc::clone(&replay), threads),
            replay,
            // On a cluster's node, commits after the stored commit index wait until the
            // cluster commits them.
            replay_until: control.member.map(|member| member.commit),
            start,
            #[cfg(feature = "planted")]
            clock: crate::planted::Clock::default(),
            scan: Self {
                end: start,
                stopped_by: NotAFrame::Empty,
                clean: false,
                durable: start,
                commits: 0,
                entries: 0,
                last_commit: Timestamp::ZERO,
                last_term: term,
                unmarked_term: term,
                landmarks: Landmarks::default(),
                chunks: SeenChunks::default(),
            },
        };
        let read = reader.read().await;
        reader.scan.entries = reader.delivery.entries();
        reader.scan.chunks = std::mem::take(&mut reader.delivery.chunks);
        // Waited for even after an error, so that no worker outlives the call.
        let replayed = reader.delivery.finish().await;
        read.and(replayed)?;
        Ok(reader.scan)
    }
}

/// Blocks to reuse once their entries have been replayed: recently used memory is still
/// in a cache, and new memory would have to be zeroed. Holds as many as the dispatcher's
/// queues, and a few more.
#[derive(Default)]
struct Blocks(VecDeque<Arc<Vec<u8>>>);

impl Blocks {
    /// Returns a block that begins with `left`, the unparsed rest of the previous block,
    /// and has `count` more bytes of unspecified contents.
    fn next(&mut self, left: &[u8], count: usize) -> Vec<u8> {
        let done = self
            .0
            .iter()
            .position(|block| Arc::strong_count(block) == 1);
        let mut block = done
            .and_then(|done| self.0.remove(done))
            .and_then(Arc::into_inner)
            .unwrap_or_default();
        block.resize(left.len() + count, 0);
        block[..left.len()].copy_from_slice(left);
        block
    }

    /// Keeps a block, whose entries are being replayed, for later reuse.
    fn read(&mut self, block: &Arc<Vec<u8>>) {
        self.0.push_back(Arc::clone(block));
    }
}

impl Reader<'_> {
    async fn read(&mut self) -> Result<(), Error> {
        let mut blocks = Blocks::default();
        let mut last = Arc::new(Vec::new());
        // Offset in the last block of the part that has not been parsed.
        let mut taken = 0;
        let mut reported = coeval_env::now();
        loop {
            let left = &last[taken..];
            let carried = left.len();
            let mut block = blocks.next(left, BLOCK_BYTES);
            let next = Lsn(self.scan.end.0 + carried as u64);
            let read = self.chain.fill(next, &mut block[carried..]).await?;
            block.truncate(carried + read);
            let at_end = read == 0;
            let shared = Arc::new(block);
            let mut at = 0;
            let stopped_by = loop {
                match self.take(&shared[at..])? {
                    Taken::Frame(header) => {
                        self.replay(&header, &shared, at).await?;
                        at += header.frame_bytes() as usize;
                        self.scan.end = header.end();
                    }
                    Taken::MoreNeeded if at_end => break Some(NotAFrame::TooLong),
                    Taken::MoreNeeded => break None,
                    Taken::End(why) => break Some(why),
                }
            };
            self.delivery.block_done(&shared).await?;
            if let Some(why) = stopped_by {
                self.scan.stopped_by = why;
                self.scan.clean = self.control.clean_end == Some(self.scan.end);
                return Ok(());
            }
            blocks.read(&shared);
            (last, taken) = (shared, at);
            self.replay.progress(RecoveryProgress::Log {
                bytes: self.scan.end.0 - self.start.0,
                of: self.chain.end().0 - self.start.0,
            });
            if reported.elapsed() >= PROGRESS {
                reported = coeval_env::now();
                tracing::info!(
                    read_mib = (self.scan.end.0 - self.start.0) >> 20,
                    of_mib = (self.chain.end().0 - self.start.0) >> 20,
                    commits = self.scan.commits,
                    "replaying the log"
                );
            }
        }
    }

    /// Parses the frame that should be at the end of the scan so far.
    fn take(&self, bytes: &[u8]) -> Result<Taken, Error> {
        let lsn = self.scan.end;
        if self.control.clean_end == Some(lsn) {
            // Nothing was written after an orderly close.
            return Ok(Taken::End(NotAFrame::Empty));
        }
        let header = match Header::parse(bytes, lsn, self.seed) {
            Ok((header, _)) => header,
            Err(NotAFrame::TooLong) => {
                let too_long = bytes.first_chunk::<HEADER_BYTES>().is_some_and(|head| {
                    Header::decode(head, lsn, self.seed)
                        .is_ok_and(|header| header.frame_bytes() > AppendRing::MAX_REGION)
                });
                return Ok(if too_long {
                    Taken::End(NotAFrame::TooLong)
                } else {
                    Taken::MoreNeeded
                });
            }
            Err(NotAFrame::UnknownKind(kind)) => {
                return Err(Error::Format {
                    file: self.chain.segment(lsn).path.clone(),
                    what: format!(
                        "holds a frame of kind {kind} at offset {}, which this program does \
                         not know; start the version that wrote this directory",
                        self.chain.segment(lsn).offset(lsn)
                    ),
                });
            }
            Err(why) => return Ok(Taken::End(why)),
        };
        let term = header.timestamp.term();
        if term > self.control.term {
            return Err(self.chain.damaged(
                lsn,
                format!(
                    "a frame of term {term}, but CONTROL knows none behind {}: it is older \
                     than the log",
                    self.control.term
                ),
            ));
        }
        if term < self.scan.last_term {
            return Ok(Taken::End(NotAFrame::Misplaced));
        }
        if let Some(member) = &self.control.member {
            let rises = term > self.scan.last_term;
            if lsn >= member.base && rises != (header.kind == Kind::Mark) {
                let what = match rises {
                    true => format!("term {term} begins without its mark"),
                    false => format!("term {term} begins a second time"),
                };
                return Err(self.chain.damaged(lsn, what));
            }
            return Ok(Taken::Frame(header));
        }
        if lsn >= self.control.start && term < self.control.term {
            // A remnant of a tail that was cut.
            return Ok(Taken::End(NotAFrame::Empty));
        }
        if lsn < self.control.start && term == self.control.term {
            return Ok(Taken::End(NotAFrame::Misplaced));
        }
        Ok(Taken::Frame(header))
    }

    async fn replay(
        &mut self,
        header: &Header,
        block: &Arc<Vec<u8>>,
        at: usize,
    ) -> Result<(), Error> {
        let term = header.timestamp.term();
        // Log from before replication began is opaque: its marks, if it has any, are those
        // of a cluster that this one was restored from.
        let member = self.control.member;
        let is_replicated = member.is_some_and(|member| header.timestamp.lsn() >= member.base);
        let is_landmark = matches!(header.kind, Kind::Mark | Kind::Membership);
        if is_landmark && is_replicated {
            let start = at + HEADER_BYTES;
            let payload = &block[start..start + header.length as usize];
            self.scan.landmarks.note(header, payload);
        }
        if !(header.kind == Kind::Mark && is_replicated) && term > self.scan.last_term {
            self.scan.unmarked_term = term;
        }
        self.scan.last_term = term;
        self.scan.durable = self.scan.durable.max(header.durable);
        let waits = self
            .replay_until
            .is_some_and(|until| header.timestamp.lsn() >= until);
        if header.kind == Kind::Chunk && !waits && self.control.member.is_some() {
            self.delivery.chunks.meet(header.timestamp);
        }
        if header.kind != Kind::Commit || waits {
            return Ok(());
        }
        #[cfg(feature = "planted")]
        if self.clock.goes_back(header.time) {
            return Ok(());
        }
        self.scan.commits += 1;
        self.scan.last_commit = header.timestamp;
        self.delivery.commit(self.chain, header, block, at).await
    }
}
