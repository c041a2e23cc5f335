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
use crate::frame::{HEADER_BYTES, Header, KIND_AT, Kind, Seed};

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

/// What a frame means, of its bytes: of one that was given up the header, which says how
/// long it is. What stands behind that was never written whole, no checksum covers it, and
/// copies of it may differ.
#[must_use]
pub fn meaning(frame: &[u8]) -> &[u8] {
    match frame.get(KIND_AT).copied() == Some(Kind::Skip.to_byte()) {
        true => &frame[..HEADER_BYTES.min(frame.len())],
        false => frame,
    }
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

impl<'bytes> Frame<'bytes> {
    /// The frame of this database's log that these bytes are, all of them, at this place.
    ///
    /// # Errors
    /// When they are anything else, its checksum included.
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
                Kind::Commit | Kind::Chunk | Kind::Skip => FrameKind::Other,
            },
            bytes,
            payload,
        }
    }
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
            frames.push(Frame::new(&header, at, bytes, payload));
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

    /// No checksum covers what stands in a frame that was given up.
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
