//! Messages of a checkpoint transfer between two nodes, encoded in a frame's payload.
//!
//! ```text
//!   tag 1 | transfer 8 | the tag's body
//!   OFFER     snapshot 8 | start of its log 8 | base 8 | bytes of marks 8 |
//!             bytes of the file 8
//!   PIECE     at 8 | bytes
//!   TAKEN     at 8
//!   IN FORCE
//!   REFUSED   reason, UTF-8
//! ```
//!
//! Numbers are little-endian. The sender chooses the transfer's number at random.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use coeval_log::{CheckpointOffer, CheckpointStart};
use coeval_types::{Lsn, Timestamp};

mod tag {
    pub(super) const OFFER: u8 = 1;
    pub(super) const PIECE: u8 = 2;
    pub(super) const TAKEN: u8 = 3;
    pub(super) const IN_FORCE: u8 = 4;
    pub(super) const REFUSED: u8 = 5;
}

/// A message of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The leader offers this checkpoint to a follower.
    Offer(CheckpointOffer),
    /// A piece of the checkpoint.
    Piece {
        /// Byte offset at which the piece begins.
        at: u64,
        bytes: Bytes,
    },
    /// The follower has written everything before this byte offset.
    Taken { at: u64 },
    /// The follower has the checkpoint in force, or no longer needs it.
    InForce,
    /// The follower refuses the checkpoint, for this reason.
    Refused(String),
}

/// Encodes a message of a transfer.
pub(super) fn encode(transfer: u64, message: &Message) -> Bytes {
    let mut bytes = BytesMut::new();
    let mut begin = |tag: u8| {
        bytes.put_u8(tag);
        bytes.put_u64_le(transfer);
    };
    match message {
        Message::Offer(offer) => {
            begin(tag::OFFER);
            bytes.put_u64_le(offer.start.snapshot.to_bits());
            bytes.put_u64_le(offer.start.log_start.0);
            bytes.put_u64_le(offer.base.0);
            bytes.put_u64_le(offer.marks_bytes);
            bytes.put_u64_le(offer.file_bytes);
        }
        Message::Piece { at, bytes: piece } => {
            begin(tag::PIECE);
            bytes.put_u64_le(*at);
            bytes.put_slice(piece);
        }
        Message::Taken { at } => {
            begin(tag::TAKEN);
            bytes.put_u64_le(*at);
        }
        Message::InForce => begin(tag::IN_FORCE),
        Message::Refused(reason) => {
            begin(tag::REFUSED);
            bytes.put_slice(reason.as_bytes());
        }
    }
    bytes.freeze()
}

/// Decodes a message and the number of its transfer; `None` if the bytes are malformed.
pub(super) fn decode(mut bytes: Bytes) -> Option<(u64, Message)> {
    let bytes = &mut bytes;
    let tag = bytes.try_get_u8().ok()?;
    let transfer = bytes.try_get_u64_le().ok()?;
    let message = match tag {
        tag::OFFER => {
            let start = CheckpointStart {
                snapshot: Timestamp::from_bits(bytes.try_get_u64_le().ok()?),
                log_start: Lsn(bytes.try_get_u64_le().ok()?),
            };
            let base = Lsn(bytes.try_get_u64_le().ok()?);
            let is_sound = start.snapshot.is_finite()
                && start.log_start.0.is_multiple_of(Lsn::ALIGNMENT)
                && start.log_start <= start.replay_from()
                && base < Lsn::LIMIT;
            if !is_sound {
                return None;
            }
            Message::Offer(CheckpointOffer {
                start,
                base,
                marks_bytes: bytes.try_get_u64_le().ok()?,
                file_bytes: bytes.try_get_u64_le().ok()?,
            })
        }
        tag::PIECE => Message::Piece {
            at: bytes.try_get_u64_le().ok()?,
            bytes: bytes.split_off(0),
        },
        tag::TAKEN => Message::Taken {
            at: bytes.try_get_u64_le().ok()?,
        },
        tag::IN_FORCE => Message::InForce,
        tag::REFUSED => {
            let reason = bytes.split_off(0);
            Message::Refused(String::from_utf8_lossy(&reason).into_owned())
        }
        _ => return None,
    };
    bytes.is_empty().then_some((transfer, message))
}

#[cfg(test)]
mod tests {
    use coeval_types::Term;

    use super::*;

    fn offer(log_start: u64) -> Message {
        Message::Offer(CheckpointOffer {
            start: CheckpointStart {
                snapshot: Timestamp::new(Term(3), Lsn(8192)),
                log_start: Lsn(log_start),
            },
            base: Lsn(4096),
            marks_bytes: 17,
            file_bytes: 1 << 40,
        })
    }

    #[test]
    fn log_that_begins_behind_the_end_or_within_a_word_is_not_offered() {
        for sound in [4096, 8200] {
            let bytes = encode(7, &offer(sound));
            assert_eq!(decode(bytes), Some((7, offer(sound))));
        }
        for bad in [8208, 4097] {
            assert_eq!(decode(encode(7, &offer(bad))), None, "{bad}");
        }
    }

    #[test]
    fn every_message_comes_back_and_no_bytes_make_it_panic() {
        for message in [
            offer(8192),
            Message::Piece {
                at: 9,
                bytes: Bytes::from_static(b"piece"),
            },
            Message::Taken { at: 8 },
            Message::InForce,
            Message::Refused("full".to_owned()),
        ] {
            let bytes = encode(7, &message);
            assert_eq!(decode(bytes.clone()), Some((7, message.clone())));
            for end in 0..bytes.len() {
                let cut = decode(bytes.slice(..end));
                assert_ne!(cut, Some((7, message.clone())), "cut at {end}");
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.to_vec();
                changed[at] ^= 0xFF;
                // Whatever it decodes to, the decoder does not panic.
                let _ = decode(changed.into());
            }
        }
    }
}
