//! Reads of frames from a log's files, by other threads than the one that writes them.
//!
//! Callers ask only for log that has been written, so an offset without a frame is not
//! the end: either the files have changed since they were opened (a term has begun a
//! segment within the last one), and are opened again, or they are damaged.

use coeval_env::fs;
use coeval_memory::ring::AppendRing;
use coeval_types::Lsn;

use crate::Error;
use crate::files::Files;
use crate::frame::{HEADER_BYTES, Header, NotAFrame, Seed};
use crate::recovery::Leftovers;
use crate::recovery::chain::Chain;
use crate::segment::{SegmentKind, first_of_name};

/// A reader of a log's files.
#[derive(Debug)]
pub(super) struct LogFiles {
    kind: SegmentKind,
    seed: Seed,
    /// Log offset from which on commits may reference chunks.
    needed: Lsn,
    /// The segments as they were when last opened.
    chain: Option<Chain>,
}

/// How many bytes at the front of `bytes` are whole frames, and why the next one is none.
pub(super) fn whole_frames(bytes: &[u8], from: Lsn, seed: Seed) -> (usize, Option<NotAFrame>) {
    let mut at = 0;
    while at < bytes.len() {
        match Header::parse(&bytes[at..], Lsn(from.0 + at as u64), seed) {
            Ok((header, _)) => at += header.frame_bytes() as usize,
            Err(why) => return (at, Some(why)),
        }
    }
    (at, None)
}

impl LogFiles {
    /// A reader for this directory, where log is needed from `needed` on.
    pub(super) fn new(files: &Files, seed: Seed, needed: Lsn) -> Self {
        Self {
            kind: SegmentKind {
                directory: files.log(),
                database: files.database,
                segment_bytes: 0,
                leftovers: Leftovers::Keep,
            },
            seed,
            needed,
            chain: None,
        }
    }

    /// The segments from which the last bytes were read.
    pub(super) fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }

    /// Called when the log has been truncated: its files are different now, or have other
    /// contents.
    pub(super) fn forget(&mut self) {
        self.chain = None;
    }

    /// Reads whole frames from `from` on, all of which end at or before `until`: as many
    /// as fit `most` bytes, and at least one.
    ///
    /// # Errors
    /// [`Error::NotRetained`] when the log there has been removed.
    pub(super) async fn read(
        &mut self,
        from: Lsn,
        until: Lsn,
        most: usize,
    ) -> Result<Vec<u8>, Error> {
        let room = usize::try_from(until.0 - from.0).unwrap_or(usize::MAX);
        if self
            .chain
            .as_ref()
            .is_some_and(|chain| chain.first() <= from)
            && let Ok(bytes) = self.try_read(from, most, room).await?
        {
            return Ok(bytes);
        }
        self.open(from).await?;
        match self.try_read(from, most, room).await? {
            Ok(bytes) => Ok(bytes),
            Err(why) => {
                let chain = self.chain.as_ref().expect("it was opened");
                Err(chain.damaged(from, why.describe().to_owned()))
            }
        }
    }

    async fn try_read(
        &self,
        from: Lsn,
        most: usize,
        room: usize,
    ) -> Result<Result<Vec<u8>, NotAFrame>, Error> {
        match &self.chain {
            Some(chain) => frames_of(chain, self.seed, from, (most, room)).await,
            None => Ok(Err(NotAFrame::Empty)),
        }
    }

    async fn open(&mut self, from: Lsn) -> Result<(), Error> {
        self.chain = None;
        let oldest = self.oldest().await?.filter(|oldest| *oldest <= from);
        let Some(oldest) = oldest else {
            return Err(self.gone(from).await);
        };
        let needed = self.needed.min(from).max(oldest);
        match Chain::open(&self.kind, needed, None).await {
            Ok(chain) => {
                self.chain = Some(chain);
                Ok(())
            }
            // The files may have been removed meanwhile.
            Err(error) => match self.oldest().await? {
                Some(oldest) if oldest <= from => Err(error),
                _ => Err(self.gone(from).await),
            },
        }
    }

    async fn gone(&self, from: Lsn) -> Error {
        match self.oldest().await {
            Ok(oldest) => Error::NotRetained {
                from,
                oldest: oldest.unwrap_or(from),
            },
            Err(error) => error,
        }
    }

    /// Log offset at which the oldest segment begins.
    async fn oldest(&self) -> Result<Option<Lsn>, Error> {
        let directory = &self.kind.directory;
        let names = fs::read_dir(directory)
            .await
            .map_err(Error::io("list", directory))?;
        Ok(names.iter().find_map(|path| first_of_name(path)))
    }
}

/// Reads whole frames from `from` on: as many as fit `most` bytes, and at least one, but
/// none that needs more than `room`.
pub(super) async fn frames_of(
    chain: &Chain,
    seed: Seed,
    from: Lsn,
    (most, room): (usize, usize),
) -> Result<Result<Vec<u8>, NotAFrame>, Error> {
    if chain.is_empty() {
        return Ok(Err(NotAFrame::Empty));
    }
    let mut bytes = Vec::new();
    let count = most.min(room).max(HEADER_BYTES);
    chain.read(from, count, &mut bytes).await?;
    let (mut whole, mut why) = whole_frames(&bytes, from, seed);
    if whole == 0
        && let Some(head) = bytes.first_chunk()
        && let Ok(header) = Header::decode(head, from, seed)
        && header.frame_bytes() <= AppendRing::MAX_REGION
    {
        // The first frame is longer than `most`.
        bytes.clear();
        let count = header.frame_bytes() as usize;
        chain.read(from, count, &mut bytes).await?;
        (whole, why) = whole_frames(&bytes, from, seed);
    }
    if whole == 0 || whole > room {
        return Ok(Err(why.unwrap_or(NotAFrame::TooLong)));
    }
    bytes.truncate(whole);
    Ok(Ok(bytes))
}
