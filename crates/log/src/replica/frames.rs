//! Frames as the consensus layer sees them: log entries, two kinds of which consensus
//! writes itself.
//!
//! ```text
//!   4096      4144     4200
//!   S₂        a        b            three frames, three entries
//!   Mark      Other    Other
//! ```
//!
//! Consensus entries (marks and memberships) and opaque ones are sent by their contents, and
//! each node makes the frame itself: with time 0 and durable offset 0, so that its bytes are
//! the same on every node. All other frames are copied as they are.

use coeval_types::{Lsn, Term, Timestamp};

use super::log::ReplicaLog;
use super::window::Frames;
use crate::Error;
use crate::frame::{HEADER_BYTES, Header, KIND_AT, Kind, Seed};

/// Kind of a frame for consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A mark: the beginning of a leader's term.
    Mark,
    /// A change of the cluster's membership.
    Membership,
    /// Any other frame: commit, chunk, skip or opaque.
    Other,
}

/// The bytes of a frame that replicas must agree on: for a skip frame only the header,
/// which has its length. The rest of a skip frame is unspecified: no checksum covers it,
/// and it may differ between copies.
#[must_use]
pub fn meaning(frame: &[u8]) -> &[u8] {
    match frame.get(KIND_AT).copied() == Some(Kind::Skip.to_byte()) {
        true => &frame[..HEADER_BYTES.min(frame.len())],
        false => frame,
    }
}

/// One frame in a run of bytes of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'bytes> {
    /// Log offset at which the frame starts.
    pub start: Lsn,
    /// The term of the leader that made it.
    pub term: Term,
    /// Kind of the frame.
    pub kind: FrameKind,
    /// The bytes of the whole frame, header and padding included.
    pub bytes: &'bytes [u8],
    /// The frame's payload, without header and padding.
    pub payload: &'bytes [u8],
}

impl<'bytes> Frame<'bytes> {
    /// Parses `bytes` as exactly one frame of this database's log at the offset `start`.
    ///
    /// # Errors
    /// When the bytes are anything else, or the checksum differs.
    pub fn only(database: u128, start: Lsn, bytes: &'bytes [u8]) -> Result<Self, Error> {
        let refused = |what: &str| Error::Refused {
            at: start,
            what: what.to_owned(),
        };
        let (header, payload) = Header::parse(bytes, start, Seed::of_database(database))
            .map_err(|why| refused(why.describe()))?;
        if header.frame_bytes() != bytes.len() as u64 {
            return Err(refused("there is more than one frame"));
        }
        Ok(Self::new(&header, start, bytes, payload))
    }

    fn new(header: &Header, start: Lsn, bytes: &'bytes [u8], payload: &'bytes [u8]) -> Self {
        Self {
            start,
            term: header.timestamp.term(),
            kind: match header.kind {
                Kind::Mark => FrameKind::Mark,
                Kind::Membership => FrameKind::Membership,
                Kind::Commit | Kind::Chunk | Kind::Skip | Kind::Opaque => FrameKind::Other,
            },
            bytes,
            payload,
        }
    }
}

impl Frames {
    /// Parses all frames, of this database's log.
    ///
    /// # Errors
    /// When the bytes are not whole frames that belong at their offset.
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
            frames.push(Frame::new(&header, at, bytes, payload));
            (at, rest) = (header.end(), behind);
        }
        Ok(frames)
    }
}

impl ReplicaLog {
    /// Appends the mark of this term at the end, as the term's leader has done.
    ///
    /// # Errors
    /// Those of [`ReplicaLog::append`].
    pub async fn append_mark(&mut self, term: Term, members: &[u8]) -> Result<(), Error> {
        self.append_own(Kind::Mark, term, members).await
    }

    /// Appends a new membership at the end, as the leader has done.
    ///
    /// # Errors
    /// Those of [`ReplicaLog::append`].
    pub async fn append_membership(&mut self, term: Term, members: &[u8]) -> Result<(), Error> {
        self.append_own(Kind::Membership, term, members).await
    }

    /// Appends an entry that only the log's user understands, as the leader has done. Recovery
    /// passes over it: the user reads it from the log.
    ///
    /// # Errors
    /// Those of [`ReplicaLog::append`].
    pub async fn append_opaque(&mut self, term: Term, payload: &[u8]) -> Result<(), Error> {
        self.append_own(Kind::Opaque, term, payload).await
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

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: u128 = 7;
    const AT: Lsn = Lsn(4296);

    #[test]
    fn one_whole_frame_is_taken_and_nothing_else() {
        let payload = b"some entries";
        let header = Header {
            length: payload.len() as u32,
            timestamp: Timestamp::new(Term(3), AT),
            durable: Lsn(4200),
            kind: Kind::Commit,
            time: 1,
        };
        let mut good = header.encode(payload, Seed::of_database(DATABASE)).to_vec();
        good.extend_from_slice(payload);
        good.resize(header.frame_bytes() as usize, 0);
        let frame = Frame::only(DATABASE, AT, &good).unwrap();
        assert_eq!((frame.term, frame.kind), (Term(3), FrameKind::Other));
        assert_eq!(frame.payload, payload);
        Frame::only(DATABASE + 1, AT, &good).unwrap_err();
        Frame::only(DATABASE, Lsn(AT.0 + 8), &good).unwrap_err();
        Frame::only(DATABASE, AT, &[&good[..], &good[..]].concat()).unwrap_err();
        for length in 0..good.len() {
            Frame::only(DATABASE, AT, &good[..length]).unwrap_err();
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            Frame::only(DATABASE, AT, &bad).unwrap_err();
        }
    }

    /// No checksum covers the payload of a skip frame.
    #[test]
    fn of_a_frame_that_was_given_up_only_the_header_means_something() {
        let mut header = Header {
            length: 9,
            timestamp: Timestamp::new(Term(3), AT),
            durable: Lsn(4200),
            kind: Kind::Skip,
            time: 1,
        };
        let frame = |header: &Header, byte| {
            let payload = [byte; 9];
            let mut frame = header
                .encode(&payload, Seed::of_database(DATABASE))
                .to_vec();
            frame.extend_from_slice(&payload);
            frame.resize(header.frame_bytes() as usize, 0);
            frame
        };
        let (one, other) = (frame(&header, 1), frame(&header, 2));
        Frame::only(DATABASE, AT, &one).unwrap();
        Frame::only(DATABASE, AT, &other).unwrap();
        assert_eq!(meaning(&one), meaning(&other));
        header.kind = Kind::Commit;
        let commit = frame(&header, 1);
        assert_eq!(meaning(&commit), commit);
    }
}
