//! Frame format: how a connection delimits and checks messages after the handshake.
//!
//! ```text
//!   0        4      5      8          12         16
//!   +--------+------+------+----------+----------+----------------+
//!   | length | kind | 0    | checksum | checksum | payload        |
//!   |        |      |      | payload  | bytes    | length bytes   |
//!   |        |      |      |          | 0 to 12  |                |
//!   +--------+------+------+----------+----------+----------------+
//! ```
//!
//! Numbers are little-endian, checksums CRC-32C. The header has a checksum of its own, so
//! that the receiver detects a damaged length before it uses it.
//!
//! Kinds from 1 to 127 belong to the protocol above, which defines them; kinds from 128 on
//! belong to this crate. A frame of an unknown kind is not damaged: the receiver skips and
//! counts it, so that a later build can add kinds.

use std::fmt;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;

/// The kind of a payload: a number that the protocol above defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKind(u8);

impl fmt::Display for MessageKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl MessageKind {
    /// The kind with this number, from 1 to 127.
    ///
    /// # Panics
    ///
    /// With any other number.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        assert!(
            number != 0 && number < PING,
            "a kind of the protocol above is a number from 1 to 127"
        );
        Self(number)
    }
}

/// The kinds of frames that a protocol has, by lane. Frames of other kinds are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Kinds sent before the others: a heartbeat that waits for a checkpoint costs an
    /// election.
    pub urgent: &'static [MessageKind],
    /// All other kinds of the protocol.
    pub other: &'static [MessageKind],
}

impl Kinds {
    pub(crate) fn contains(&self, kind: MessageKind) -> bool {
        self.is_urgent(kind) || self.other.contains(&kind)
    }

    pub(crate) fn is_urgent(&self, kind: MessageKind) -> bool {
        self.urgent.contains(&kind)
    }
}

const PING: u8 = 128;
const ALIVE: u8 = 129;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A payload of the protocol above; the receiver may not know its kind.
    Payload(MessageKind),
    /// A ping of the connecting node; the payload is its number, 8 bytes.
    Ping,
    /// A keep-alive of the accepting node, with the number of the last ping that it read.
    Alive,
}

impl Tag {
    fn encode(self) -> u8 {
        match self {
            Self::Payload(MessageKind(number)) => number,
            Self::Ping => PING,
            Self::Alive => ALIVE,
        }
    }

    fn decode(byte: u8) -> Self {
        match byte {
            PING => Self::Ping,
            ALIVE => Self::Alive,
            number => Self::Payload(MessageKind(number)),
        }
    }
}

/// A malformed frame. The connection cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header is damaged.
    #[error("the head of a frame is damaged")]
    Head,
    /// The payload is damaged.
    #[error("the payload of a frame of {length} bytes is damaged")]
    Payload {
        /// The payload's length in bytes.
        length: usize,
    },
    /// The payload is longer than the receiver accepts.
    #[error("a frame of {length} bytes, where at most {limit} are taken (frame_bytes)")]
    TooLong {
        /// The payload's length in bytes.
        length: usize,
        /// The receiver's limit in bytes.
        limit: usize,
    },
    /// The frame's tag does not belong in this direction, or with this length.
    #[error("a frame that has no place here: {0:?}")]
    Misplaced(Tag),
    /// The connection ended within a frame.
    #[error("the connection ended within a frame, {missing} bytes before its end")]
    Torn {
        /// Missing bytes, of header or payload.
        missing: usize,
    },
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame carries.
    pub tag: Tag,
    /// Length of the payload in bytes.
    pub length: usize,
    checksum: u32,
}

impl Header {
    /// The header for a payload, which is shorter than 4 GiB.
    #[must_use]
    pub fn of(tag: Tag, payload: &[u8]) -> Self {
        debug_assert!(u32::try_from(payload.len()).is_ok());
        Self {
            tag,
            length: payload.len(),
            checksum: crc32c::crc32c(payload),
        }
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[4] = self.tag.encode();
        bytes[8..12].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a header whose payload may have up to `limit` bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES], limit: usize) -> Result<Self, FrameError> {
        let word = |at: usize| {
            let [a, b, c, d] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_le_bytes([a, b, c, d])
        };
        if word(12) != crc32c::crc32c(&bytes[..12]) || bytes[5..8] != [0; 3] {
            return Err(FrameError::Head);
        }
        let tag = Tag::decode(bytes[4]);
        let length = word(0) as usize;
        let fits = match tag {
            Tag::Payload(_) if length > limit => {
                return Err(FrameError::TooLong { length, limit });
            }
            Tag::Payload(_) => true,
            Tag::Ping | Tag::Alive => length == 8,
        };
        if !fits {
            return Err(FrameError::Misplaced(tag));
        }
        Ok(Self {
            tag,
            length,
            checksum: word(8),
        })
    }

    /// Verifies that `payload` is the payload of this header.
    pub fn check(&self, payload: &[u8]) -> Result<(), FrameError> {
        if payload.len() == self.length {
            self.check_sum(crc32c::crc32c(payload))
        } else {
            Err(self.damaged())
        }
    }

    /// Verifies that this is the checksum (CRC-32C) of the payload.
    pub(crate) fn check_sum(&self, checksum: u32) -> Result<(), FrameError> {
        if checksum == self.checksum {
            Ok(())
        } else {
            Err(self.damaged())
        }
    }

    fn damaged(&self) -> FrameError {
        FrameError::Payload {
            length: self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAGS: [Tag; 4] = [
        Tag::Payload(MessageKind::new(1)),
        Tag::Payload(MessageKind::new(2)),
        Tag::Payload(MessageKind::new(3)),
        Tag::Payload(MessageKind::new(127)),
    ];

    #[test]
    fn every_flipped_bit_is_found() {
        let payload = b"what is said";
        for tag in TAGS {
            let header = Header::of(tag, payload);
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes, 4096), Ok(header));
            header.check(payload).unwrap();
            for bit in 0..8 * bytes.len() {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&flipped, 4096), Err(FrameError::Head));
            }
            for bit in 0..8 * payload.len() {
                let mut flipped = *payload;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    header.check(&flipped),
                    Err(FrameError::Payload { length: 12 })
                );
            }
        }
    }

    /// A header with any contents, and the right checksum.
    fn head(length: u32, kind: u8) -> [u8; HEADER_BYTES] {
        let mut bytes = Header::of(Tag::Ping, &[]).encode();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4] = kind;
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn lengths_and_kinds_are_looked_at_before_anything_is_read() {
        assert!(Header::decode(&head(4096, 1), 4096).is_ok());
        assert_eq!(
            Header::decode(&head(4097, 1), 4096),
            Err(FrameError::TooLong {
                length: 4097,
                limit: 4096
            })
        );
        assert!(Header::decode(&head(u32::MAX, 3), 4096).is_err());
        for unknown in [0, 9, 130, u8::MAX] {
            let header = Header::decode(&head(0, unknown), 4096).unwrap();
            assert_eq!(header.tag, Tag::Payload(MessageKind(unknown)));
            assert!(Header::decode(&head(4097, unknown), 4096).is_err());
        }
        assert!(Header::decode(&head(8, 128), 4096).is_ok());
        assert_eq!(
            Header::decode(&head(9, 129), 4096),
            Err(FrameError::Misplaced(Tag::Alive))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: [u8; HEADER_BYTES], limit in 0usize..10_000) {
            if let Ok(header) = Header::decode(&bytes, limit) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }
}
