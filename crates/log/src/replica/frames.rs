//! Frames as consensus sees them: entries, of which two kinds are its own.
//!
//! ```text
//!   4096      4144     4200
//!   S₂        a        b            three frames, three entries
//!   Mark      Other    Other
//! ```
//!
//! What consensus writes (marks, and who takes part) travels as what it means, and each
//! node makes the frame itself: with no time and nothing said to be durable, so that it
//! comes out the same everywhere. All other frames are copied as they are.

use coeval_types::{Lsn, Term, Timestamp};

use super::log::ReplicaLog;
use super::window::Frames;
use crate::Error;
use crate::frame::{Header, Kind, Seed};

/// What a frame is to consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A leader's term begins.
    Mark,
    /// Who takes part changes.
    Membership,
    /// Anything else.
    Other,
}

/// Where a frame is in some bytes of the log, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'bytes> {
    /// Its first place.
    pub start: Lsn,
    /// The term of the leader that made it.
    pub term: Term,
    /// What it is.
    pub kind: FrameKind,
    /// All of it.
    pub bytes: &'bytes [u8],
    /// What it holds.
    pub payload: &'bytes [u8],
}

impl Frames {
    /// Each of them, of this database's log.
    ///
    /// # Errors
    /// When the bytes are not whole frames that belong there.
    pub fn each(&self, database: u128) -> Result<Vec<Frame<'_>>, Error> {
        let seed = Seed::of_database(database);
        let (mut at, mut rest) = (self.start, &self.bytes[..]);
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let (header, payload) =
                Header::parse(rest, at, seed).map_err(|why| Error::Refused {
                    at,
                    what: why.describe().to_owned(),
                })?;
            let (bytes, behind) = rest.split_at(header.frame_bytes() as usize);
            frames.push(Frame {
                start: at,
                term: header.timestamp.term(),
                kind: match header.kind {
                    Kind::Mark => FrameKind::Mark,
                    Kind::Membership => FrameKind::Membership,
                    Kind::Commit | Kind::Chunk | Kind::Skip => FrameKind::Other,
                },
                bytes,
                payload,
            });
            (at, rest) = (header.end(), behind);
        }
        Ok(frames)
    }
}

impl ReplicaLog {
    /// Puts a mark of this term behind the end, as its leader has done.
    ///
    /// # Errors
    /// As [`ReplicaLog::append`].
    pub async fn append_mark(&mut self, term: Term, members: &[u8]) -> Result<(), Error> {
        self.append_own(Kind::Mark, term, members).await
    }

    /// Puts behind the end who takes part from there on.
    ///
    /// # Errors
    /// As [`ReplicaLog::append`].
    pub async fn append_membership(&mut self, term: Term, members: &[u8]) -> Result<(), Error> {
        self.append_own(Kind::Membership, term, members).await
    }

    async fn append_own(&mut self, kind: Kind, term: Term, payload: &[u8]) -> Result<(), Error> {
        let header = Header {
            length: u32::try_from(payload.len()).map_err(|_| Error::TooLarge {
                bytes: payload.len() as u64,
                limit: u64::from(u32::MAX),
            })?,
            timestamp: Timestamp::new(term, self.end.lsn),
            durable: Lsn(0),
            kind,
            time: 0,
        };
        let mut bytes = header.encode(payload, self.seed).to_vec();
        bytes.extend_from_slice(payload);
        bytes.resize(header.frame_bytes() as usize, 0);
        self.append(self.end.lsn, &bytes).await
    }
}
