//! The council's messages on the wire: those of consensus, and whole snapshots.
//!
//! ```text
//! consensus   0, the message as consensus encodes it
//! snapshot    1, snapshot timestamp (8 B), log start, base, bytes of marks, bytes of file,
//!             then marks and file
//! ```
//!
//! A snapshot is small (a council's whole state), so one message carries it.

use bytes::{BufMut, Bytes, BytesMut};
use coeval_consensus::Message;
use coeval_consensus::encoding::{decode, encode};
use coeval_log::{CheckpointOffer, CheckpointStart};
use coeval_types::{Lsn, Timestamp};

use crate::Error;

const CONSENSUS: u8 = 0;
const SNAPSHOT: u8 = 1;

/// Most bytes of a snapshot that a node takes from another.
const MAX_SNAPSHOT_BYTES: u64 = 64 << 20;

/// A message from one council node to another.
pub(crate) enum Packet {
    Consensus(Message),
    Snapshot(CheckpointOffer, Bytes),
}

pub(crate) fn consensus(message: &Message) -> Bytes {
    let body = encode(message);
    let mut bytes = BytesMut::with_capacity(1 + body.len());
    bytes.put_u8(CONSENSUS);
    bytes.put(body);
    bytes.freeze()
}

pub(crate) fn snapshot(offer: &CheckpointOffer, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(64 + body.len());
    bytes.put_u8(SNAPSHOT);
    bytes.put_u64_le(offer.start.snapshot.to_bits());
    bytes.put_u64_le(offer.start.log_start.0);
    bytes.put_u64_le(offer.base.0);
    bytes.put_u64_le(offer.marks_bytes);
    bytes.put_u64_le(offer.file_bytes);
    bytes.put(body);
    bytes.freeze()
}

/// Decodes a message of another node.
pub(crate) fn read(message: &Bytes) -> Result<Packet, Error> {
    match message.first() {
        Some(&CONSENSUS) => decode(&message.slice(1..))
            .map(Packet::Consensus)
            .map_err(|_| Error::Malformed("it is no message of consensus")),
        Some(&SNAPSHOT) => read_snapshot(message),
        _ => Err(Error::Malformed("its kind is unknown")),
    }
}

fn read_snapshot(message: &Bytes) -> Result<Packet, Error> {
    let fields = message.get(1..41);
    let fields = fields.ok_or(Error::Malformed("a snapshot's head is cut off"))?;
    let word = |number: usize| {
        let bytes = &fields[number * 8..number * 8 + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    let offer = CheckpointOffer {
        start: CheckpointStart {
            snapshot: Timestamp::from_bits(word(0)),
            log_start: Lsn(word(1)),
        },
        base: Lsn(word(2)),
        marks_bytes: word(3),
        file_bytes: word(4),
    };
    let body = message.slice(41..);
    let is_sound = offer.start.snapshot != Timestamp::INFINITE
        && offer.start.snapshot.lsn() < Lsn::LIMIT
        && offer.start.log_start == offer.end()
        && offer.bytes() <= MAX_SNAPSHOT_BYTES
        && offer.bytes() == body.len() as u64;
    match is_sound {
        true => Ok(Packet::Snapshot(offer, body)),
        false => Err(Error::Malformed("a snapshot is not of the stated size")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_or_lengthened_message_is_refused() {
        let offer = CheckpointOffer {
            start: CheckpointStart {
                snapshot: Timestamp::new(coeval_types::Term(3), Lsn(4296)),
                log_start: Lsn(4304),
            },
            base: Lsn(4096),
            marks_bytes: 5,
            file_bytes: 7,
        };
        let whole = snapshot(&offer, b"marks and it");
        assert!(matches!(read(&whole), Ok(Packet::Snapshot(other, body))
            if other == offer && &body[..] == b"marks and it"));
        for length in 0..whole.len() {
            assert!(read(&whole.slice(..length)).is_err(), "cut at {length}");
        }
        let longer = Bytes::from([&whole[..], b"!"].concat());
        assert!(read(&longer).is_err());
    }
}
