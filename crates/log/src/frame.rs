//! Frames: the checksummed records of the write-ahead log's stream.
//!
//! ```text
//!  0      4        8           16          24     25        32
//! +------+--------+-----------+-----------+------+---------+--- … ---+---------+
//! | crc  | length | timestamp | durable   | kind | time    | payload | padding |
//! +------+--------+-----------+-----------+------+---------+--- … ---+---------+
//! ```
//!
//! All integers are little endian. `length` counts the payload's bytes; zeros pad the
//! frame to a multiple of eight. `crc` is the CRC32C of the database id, the rest of the
//! header and, except for a skip frame, payload and padding; the id keeps a client from
//! storing bytes that could pass for a frame. `timestamp` is the frame's own term and
//! offset: bytes at any other offset are no valid frame. `durable` is the offset up to
//! which the log was known to be durable when the frame was made; recovery uses it to
//! distinguish a torn tail from damage to acknowledged commits (see `recovery`). `time`
//! is the time of day when the frame was made, in microseconds since the Unix epoch, and
//! 0 in logs of format version 1. A point-in-time restore selects commits by it; it
//! orders nothing, for clocks jump.
//!
//! | kind | payload | meaning |
//! | --- | --- | --- |
//! | commit | entries | a transaction, committed at `timestamp` |
//! | chunk | entries | part of a transaction; counts if a commit names it |
//! | skip | anything | space that was reserved and not used |
//! | mark | consensus's | the first frame of a leader's term |
//! | membership | consensus's | the cluster's members from here on |
//! | opaque | its user's | an entry of a replicated state machine; recovery passes over it |
//!
//! A reader that meets an unknown kind refuses to start: a newer format may give a frame
//! a meaning that must not be missed.

use coeval_types::{Lsn, Timestamp, planted};

/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 32;

/// Offset in a frame of the byte that holds its kind.
pub(crate) const KIND_AT: usize = 24;

/// Times have 56 bits, which last until the year 4253.
pub(crate) const TIME_LIMIT: u64 = 1 << 56;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A committed transaction.
    Commit,
    /// Part of a large transaction's entries, ahead of its commit.
    Chunk,
    /// Reserved space that was not used.
    Skip,
    /// The start of a leader's term.
    Mark,
    /// The cluster's members from here on.
    Membership,
    /// An entry that only the log's user understands.
    Opaque,
}

impl Kind {
    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Chunk => 2,
            Self::Skip => 3,
            Self::Mark => 4,
            Self::Membership => 5,
            Self::Opaque => 6,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Commit),
            2 => Some(Self::Chunk),
            3 => Some(Self::Skip),
            4 => Some(Self::Mark),
            5 => Some(Self::Membership),
            6 => Some(Self::Opaque),
            _ => None,
        }
    }
}

/// Seed of all frame checksums of a database: the CRC32C of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn of_database(database: u128) -> Self {
        Self(crc32c::crc32c(&database.to_le_bytes()))
    }
}

/// Bytes of a whole frame with `payload_bytes` of payload.
#[inline]
pub(crate) const fn frame_bytes(payload_bytes: u64) -> u64 {
    (HEADER_BYTES as u64 + payload_bytes).next_multiple_of(Lsn::ALIGNMENT)
}

/// A frame's header, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) timestamp: Timestamp,
    pub(crate) durable: Lsn,
    pub(crate) kind: Kind,
    /// Microseconds since the Unix epoch, below [`TIME_LIMIT`]; 0 when unknown.
    pub(crate) time: u64,
}

/// Why bytes are not a valid frame at the offset where they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAFrame {
    /// All zeros: never written.
    Empty,
    /// The timestamp is that of another offset, or a field is out of range.
    Misplaced,
    /// The frame is longer than the bytes that were given.
    TooLong,
    /// The checksum differs.
    Checksum,
    /// A kind this version does not know, under a checksum that is right.
    UnknownKind(u8),
}

impl NotAFrame {
    /// The problem, in words, for error messages.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Empty => "the log breaks off",
            Self::Misplaced => "what is there is no frame that belongs there",
            Self::TooLong => "a frame is longer than what is left",
            Self::Checksum => "a frame's checksum differs",
            Self::UnknownKind(_) => "a frame is of an unknown kind",
        }
    }
}

impl Header {
    /// Bytes of the whole frame.
    pub(crate) const fn frame_bytes(&self) -> u64 {
        frame_bytes(self.length as u64)
    }

    /// Log offset at which the frame ends and the next one starts.
    pub(crate) const fn end(&self) -> Lsn {
        Lsn(self.timestamp.lsn().0 + self.frame_bytes())
    }

    /// The header's bytes for a frame with this payload.
    pub(crate) fn encode(&self, payload: &[u8], seed: Seed) -> [u8; HEADER_BYTES] {
        let mut sealing = self.seal(seed);
        if self.kind != Kind::Skip {
            sealing.take(payload);
        }
        sealing.finish()
    }

    /// Begins the header of a frame whose payload is given in pieces. The payload of a
    /// skip frame is not covered.
    pub(crate) fn seal(&self, seed: Seed) -> Sealing {
        let mut bytes = [0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.timestamp.to_bits().to_le_bytes());
        bytes[16..24].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[KIND_AT] = self.kind.to_byte();
        debug_assert!(self.time < TIME_LIMIT);
        bytes[25..].copy_from_slice(&self.time.to_le_bytes()[..7]);
        let (payload, padding) = match self.kind {
            Kind::Skip => (0, 0),
            _ => {
                let padding = self.frame_bytes() as usize - HEADER_BYTES - self.length as usize;
                (self.length as usize, padding)
            }
        };
        Sealing {
            crc: crc32c::crc32c_append(seed.0, &bytes[4..]),
            bytes,
            payload,
            padding,
        }
    }

    /// Decodes the header at the front of `bytes`, which were read at `lsn`, and checks
    /// everything that can be checked without the payload.
    pub(crate) fn decode(
        bytes: &[u8; HEADER_BYTES],
        lsn: Lsn,
        seed: Seed,
    ) -> Result<Self, NotAFrame> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let timestamp = Timestamp::from_bits(word(8));
        if timestamp.lsn() != lsn || timestamp == Timestamp::INFINITE {
            return Err(if bytes.iter().all(|&byte| byte == 0) {
                NotAFrame::Empty
            } else {
                NotAFrame::Misplaced
            });
        }
        let length = u32::from_le_bytes(bytes[4..8].try_into().expect("4 bytes"));
        let durable = Lsn(word(16));
        if durable > lsn {
            return Err(NotAFrame::Misplaced);
        }
        let Some(kind) = Kind::from_byte(bytes[KIND_AT]) else {
            // The checksum read here covers an empty payload, so only an empty frame is
            // known to be of a newer kind. A longer one counts as damage: the start refuses
            // it before a sound frame, and cuts it as a torn tail at the end of the log.
            return Err(
                if crc32c::crc32c_append(seed.0, &bytes[4..]).to_le_bytes() == bytes[..4] {
                    NotAFrame::UnknownKind(bytes[KIND_AT])
                } else {
                    NotAFrame::Checksum
                },
            );
        };
        Ok(Self {
            length,
            timestamp,
            durable,
            kind,
            time: word(24) >> 8,
        })
    }

    /// Parses the frame at the front of `bytes`, which were read at `lsn`: its header and
    /// its payload. `TooLong` may only mean that the caller must read more.
    pub(crate) fn parse(bytes: &[u8], lsn: Lsn, seed: Seed) -> Result<(Self, &[u8]), NotAFrame> {
        let (header, frame) = Self::split(bytes, lsn, seed)?;
        let covered = if header.kind == Kind::Skip {
            &frame[4..HEADER_BYTES]
        } else {
            &frame[4..]
        };
        if crc32c::crc32c_append(seed.0, covered).to_le_bytes() != frame[..4]
            && !planted!(DropChecksum)
        {
            return Err(NotAFrame::Checksum);
        }
        Ok((header, header.payload(frame)))
    }

    /// Like [`Header::parse`], for bytes whose checksum the caller has already verified.
    pub(crate) fn parse_checked(
        bytes: &[u8],
        lsn: Lsn,
        seed: Seed,
    ) -> Result<(Self, &[u8]), NotAFrame> {
        let (header, frame) = Self::split(bytes, lsn, seed)?;
        Ok((header, header.payload(frame)))
    }

    fn split(bytes: &[u8], lsn: Lsn, seed: Seed) -> Result<(Self, &[u8]), NotAFrame> {
        let head = bytes.first_chunk().ok_or(NotAFrame::TooLong)?;
        let header = Self::decode(head, lsn, seed)?;
        let frame_bytes = usize::try_from(header.frame_bytes()).map_err(|_| NotAFrame::TooLong)?;
        let frame = bytes.get(..frame_bytes).ok_or(NotAFrame::TooLong)?;
        Ok((header, frame))
    }

    fn payload<'bytes>(&self, frame: &'bytes [u8]) -> &'bytes [u8] {
        &frame[HEADER_BYTES..HEADER_BYTES + self.length as usize]
    }
}

/// A header whose checksum is being computed.
#[derive(Debug)]
pub(crate) struct Sealing {
    bytes: [u8; HEADER_BYTES],
    crc: u32,
    /// Bytes of payload that the checksum does not cover yet.
    payload: usize,
    padding: usize,
}

impl Sealing {
    /// Adds the next piece of the payload to the checksum.
    #[inline]
    pub(crate) fn take(&mut self, piece: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, piece);
        self.payload -= piece.len();
    }

    /// The header's bytes, once the whole payload was added.
    pub(crate) fn finish(mut self) -> [u8; HEADER_BYTES] {
        assert_eq!(self.payload, 0, "the pieces are the payload");
        let padding = &[0; Lsn::ALIGNMENT as usize][..self.padding];
        let crc = crc32c::crc32c_append(self.crc, padding);
        self.bytes[..4].copy_from_slice(&crc.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use coeval_types::Term;
    use proptest::prelude::*;

    use super::*;

    const SEED: Seed = Seed(5);

    fn frame(kind: Kind, lsn: Lsn, payload: &[u8]) -> Vec<u8> {
        let header = Header {
            length: payload.len() as u32,
            timestamp: Timestamp::new(Term(3), lsn),
            durable: Lsn(lsn.0 / 2),
            kind,
            time: lsn.0 % TIME_LIMIT,
        };
        let mut bytes = header.encode(payload, SEED).to_vec();
        bytes.extend_from_slice(payload);
        bytes.resize(header.frame_bytes() as usize, 0);
        bytes
    }

    proptest! {
        #[test]
        fn frames_come_back(
            payload in prop::collection::vec(any::<u8>(), 0..200),
            lsn in (1..1_u64 << 44).prop_map(|words| Lsn(words * 8)),
            behind in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            for kind in [
                Kind::Commit,
                Kind::Chunk,
                Kind::Skip,
                Kind::Mark,
                Kind::Membership,
                Kind::Opaque,
            ] {
                let mut bytes = frame(kind, lsn, &payload);
                let length = bytes.len();
                prop_assert_eq!(length % 8, 0);
                bytes.extend_from_slice(&behind);
                let (header, back) = Header::parse(&bytes, lsn, SEED).unwrap();
                prop_assert_eq!(header.kind, kind);
                prop_assert_eq!(header.time, lsn.0 % TIME_LIMIT);
                prop_assert_eq!(header.end(), Lsn(lsn.0 + length as u64));
                prop_assert_eq!(back, &payload[..]);
                prop_assert_eq!(Header::parse(&bytes, Lsn(lsn.0 - 8), SEED), Err(NotAFrame::Misplaced));
                for shorter in 0..length {
                    prop_assert_eq!(
                        Header::parse(&bytes[..shorter], lsn, SEED),
                        Err(NotAFrame::TooLong)
                    );
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            lsn in any::<u64>().prop_map(Lsn),
        ) {
            let _ = Header::parse(&bytes, lsn, SEED);
            // With a valid timestamp, too.
            let mut bytes = bytes;
            if bytes.len() >= 16 {
                let stamp = Timestamp::new(Term(1), Lsn(4096)).to_bits();
                bytes[8..16].copy_from_slice(&stamp.to_le_bytes());
                let _ = Header::parse(&bytes, Lsn(4096), SEED);
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let lsn = Lsn(4096);
        let good = frame(Kind::Commit, lsn, b"some entries");
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(
                    Header::parse(&bad, lsn, SEED).is_err(),
                    "byte {at} bit {bit}"
                );
            }
        }
    }

    #[test]
    fn zeros_are_empty_and_unknown_kinds_are_told_from_damage() {
        assert_eq!(Header::parse(&[0; 64], Lsn(8), SEED), Err(NotAFrame::Empty));
        let mut bytes = frame(Kind::Mark, Lsn(8), b"");
        bytes[24] = 99;
        assert_eq!(
            Header::parse(&bytes, Lsn(8), SEED),
            Err(NotAFrame::Checksum)
        );
        let crc = crc32c::crc32c_append(SEED.0, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(
            Header::parse(&bytes, Lsn(8), SEED),
            Err(NotAFrame::UnknownKind(99))
        );
    }
}
