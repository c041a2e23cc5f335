//! Replay of committed transactions: finds the entries of each commit, wherever they are
//! in the log, and passes them to the replay workers.

use std::sync::Arc;

use coeval_types::{Lsn, Timestamp};

use crate::Error;
use crate::entry::{Skimmed, skim_item};
use crate::frame::{HEADER_BYTES, Header, Kind, Seed};
use crate::recovery::Replay;
use crate::recovery::chain::Chain;
use crate::recovery::chunks::SeenChunks;
use crate::recovery::dispatch::Dispatcher;

/// Takes commits in log order, and passes their entries to the workers.
pub(crate) struct Delivery {
    seed: Seed,
    dispatcher: Dispatcher,
    /// Number of entries passed on so far.
    entries: u64,
    /// Chunk frames seen so far.
    pub(crate) chunks: SeenChunks,
}

impl Delivery {
    pub(crate) fn new(seed: Seed, replay: Arc<dyn Replay>, threads: usize) -> Self {
        Self {
            seed,
            dispatcher: Dispatcher::new(replay, threads),
            entries: 0,
            chunks: SeenChunks::default(),
        }
    }

    /// Number of entries passed on so far.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Called when every commit of this block has been passed in.
    pub(crate) async fn block_done(&mut self, block: &Arc<Vec<u8>>) -> Result<(), Error> {
        self.dispatcher.block_done(block).await
    }

    /// Waits until everything that was passed in has been replayed.
    pub(crate) async fn settle(&mut self) -> Result<(), Error> {
        self.dispatcher.settle().await
    }

    /// Waits until everything has been replayed, and ends the workers.
    pub(crate) async fn finish(self) -> Result<(), Error> {
        self.dispatcher.finish().await
    }

    /// Passes in the commit whose frame is at `at` of `block`.
    pub(crate) async fn commit(
        &mut self,
        chain: &Chain,
        header: &Header,
        block: &Arc<Vec<u8>>,
        at: usize,
    ) -> Result<(), Error> {
        let (start, length) = (at + HEADER_BYTES, header.length as usize);
        self.entries_of(chain, header.timestamp, block, (start, length), true)
            .await
    }

    /// Replays a payload of `block`, given by its start and length, and follows a
    /// commit's references to chunks.
    async fn entries_of(
        &mut self,
        chain: &Chain,
        commit: Timestamp,
        block: &Arc<Vec<u8>>,
        (start, length): (usize, usize),
        may_refer: bool,
    ) -> Result<(), Error> {
        let mut rest = &block[start..start + length];
        while !rest.is_empty() {
            let at = start + length - rest.len();
            match skim_item(&mut rest) {
                Ok(Skimmed::Entry(storage, rid)) => {
                    self.entries += 1;
                    self.dispatcher.entry(commit, (storage, rid), at);
                }
                Ok(Skimmed::Chunk(lsn)) if may_refer => {
                    // The entries before the reference come first, and are in this block.
                    self.dispatcher.block_done(block).await?;
                    self.chunks.name(lsn, commit);
                    self.chunk(chain, commit, lsn).await?;
                }
                Ok(Skimmed::Chunk(_)) | Err(_) => {
                    return Err(Error::Replay {
                        timestamp: commit,
                        reason: "an entry is malformed under a checksum that is right".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Replays a chunk that the commit references. The scan has read it before, as a
    /// frame; it is read again rather than kept, because most chunks are long and those
    /// of transactions that never committed are not needed at all.
    async fn chunk(&mut self, chain: &Chain, commit: Timestamp, lsn: Lsn) -> Result<(), Error> {
        let wrong = || Error::Replay {
            timestamp: commit,
            reason: format!("the chunk at {lsn} that it refers to is not there"),
        };
        if lsn < chain.first() || lsn >= commit.lsn() {
            return Err(wrong());
        }
        let mut bytes = Vec::new();
        chain.read(lsn, HEADER_BYTES, &mut bytes).await?;
        let head = bytes.first_chunk().ok_or_else(wrong)?;
        let header = Header::decode(head, lsn, self.seed).map_err(|_| wrong())?;
        if header.end() > commit.lsn() {
            return Err(wrong());
        }
        bytes.clear();
        chain
            .read(lsn, header.frame_bytes() as usize, &mut bytes)
            .await?;
        let parsed = Header::parse(&bytes, lsn, self.seed)
            .map_err(|_| wrong())?
            .0;
        if parsed.kind != Kind::Chunk || parsed.timestamp.term() != commit.term() {
            return Err(wrong());
        }
        let block = Arc::new(bytes);
        let place = (HEADER_BYTES, header.length as usize);
        Box::pin(self.entries_of(chain, commit, &block, place, false)).await?;
        self.dispatcher.block_done(&block).await
    }
}
