//! Messages of consensus, as bytes.
//!
//! ```text
//!   tag 1 | term 4 | what the tag's body has
//!   position   term 4 | end 8
//!   entry      term 4 | kind 1 | length 4 | bytes
//! ```
//!
//! Numbers are little-endian. From whom and to whom is the connection's to say. An entry
//! starts where the one before it ends, and takes as much of the log as its bytes; that of
//! a mark is the frame that this membership makes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use coeval_consensus::{
    Body, Content, Entry, Message, NodeId, Position, Request, Spacing, Verified,
};
use coeval_types::{Lsn, Term};

use super::{Error, membership};

mod tag {
    pub(super) const VOTE_REQUEST: u8 = 1;
    pub(super) const VOTE: u8 = 2;
    pub(super) const APPEND: u8 = 3;
    pub(super) const APPENDED: u8 = 4;
    pub(super) const HEARTBEAT: u8 = 5;
    pub(super) const HEARTBEAT_ANSWER: u8 = 6;
    pub(super) const RECOVER_MARKS: u8 = 7;
    pub(super) const RECOVER_FROM: u8 = 8;
    pub(super) const CAMPAIGN: u8 = 9;
    pub(super) const STALE: u8 = 10;
}

mod kind {
    pub(super) const PAYLOAD: u8 = 0;
    pub(super) const MARK: u8 = 1;
    pub(super) const MEMBERSHIP: u8 = 2;
}

fn put_position(bytes: &mut BytesMut, position: Position) {
    bytes.put_u32_le(position.term.0);
    bytes.put_u64_le(position.end.0);
}

fn put_entry(bytes: &mut BytesMut, entry: &Entry) {
    let members;
    let (kind, content) = match &entry.content {
        Content::Payload(payload) => (kind::PAYLOAD, &payload[..]),
        Content::Mark(membership) => {
            members = membership::encode(membership);
            (kind::MARK, &members[..])
        }
        Content::Membership(membership) => {
            members = membership::encode(membership);
            (kind::MEMBERSHIP, &members[..])
        }
    };
    bytes.put_u32_le(entry.term.0);
    bytes.put_u8(kind);
    bytes.put_u32_le(u32::try_from(content.len()).expect("a frame is far shorter"));
    bytes.put_slice(content);
}

/// A message as bytes; `None` for those that nodes with their settings do not send.
pub(super) fn encode(message: &Message) -> Option<Bytes> {
    let mut bytes = BytesMut::new();
    let mut begin = |tag: u8| {
        bytes.put_u8(tag);
        bytes.put_u32_le(message.term.0);
    };
    match &message.body {
        Body::VoteRequest {
            last,
            preliminary,
            transfer,
        } => {
            begin(tag::VOTE_REQUEST);
            put_position(&mut bytes, *last);
            bytes.put_u8(u8::from(*preliminary));
            bytes.put_u8(u8::from(*transfer));
        }
        Body::Vote {
            preliminary,
            granted,
        } => {
            begin(tag::VOTE);
            bytes.put_u8(u8::from(*preliminary));
            bytes.put_u8(u8::from(*granted));
        }
        Body::Append {
            previous,
            commit,
            entries,
        } => {
            begin(tag::APPEND);
            put_position(&mut bytes, *previous);
            bytes.put_u64_le(commit.0);
            entries
                .iter()
                .for_each(|entry| put_entry(&mut bytes, entry));
        }
        Body::Appended { matched } => {
            begin(tag::APPENDED);
            bytes.put_u64_le(matched.0);
        }
        Body::Heartbeat { commit, round } => {
            begin(tag::HEARTBEAT);
            bytes.put_u64_le(commit.0);
            bytes.put_u64_le(*round);
        }
        Body::HeartbeatAnswer { round, verified } => {
            begin(tag::HEARTBEAT_ANSWER);
            bytes.put_u64_le(*round);
            if let Some(verified) = verified {
                bytes.put_u64_le(verified.received.0);
                bytes.put_u64_le(verified.durable.0);
            }
        }
        Body::Recover(Request::Marks { start, end }) => {
            begin(tag::RECOVER_MARKS);
            bytes.put_u64_le(start.0);
            bytes.put_u64_le(end.0);
        }
        Body::Recover(Request::From { start }) => {
            begin(tag::RECOVER_FROM);
            bytes.put_u64_le(start.0);
        }
        Body::Campaign => begin(tag::CAMPAIGN),
        Body::Stale => begin(tag::STALE),
        Body::Recover(Request::Check { .. }) | Body::Differs { .. } => return None,
    }
    Some(bytes.freeze())
}

const SHORT: Error = Error::Malformed("it breaks off");

fn take_bool(bytes: &mut Bytes) -> Result<bool, Error> {
    match bytes.try_get_u8().map_err(|_| SHORT)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::Malformed("neither yes nor no")),
    }
}

fn take_word(bytes: &mut Bytes) -> Result<u64, Error> {
    bytes.try_get_u64_le().map_err(|_| SHORT)
}

fn take_lsn(bytes: &mut Bytes) -> Result<Lsn, Error> {
    Ok(Lsn(take_word(bytes)?))
}

fn take_term(bytes: &mut Bytes) -> Result<Term, Error> {
    Ok(Term(bytes.try_get_u32_le().map_err(|_| SHORT)?))
}

fn take_position(bytes: &mut Bytes) -> Result<Position, Error> {
    Ok(Position {
        term: take_term(bytes)?,
        end: take_lsn(bytes)?,
    })
}

fn take_entry(bytes: &mut Bytes, start: Lsn) -> Result<Entry, Error> {
    let term = take_term(bytes)?;
    let kind = bytes.try_get_u8().map_err(|_| SHORT)?;
    let length = bytes.try_get_u32_le().map_err(|_| SHORT)? as usize;
    if bytes.len() < length {
        return Err(SHORT);
    }
    let content = bytes.split_to(length);
    let members =
        || membership::decode(&content).ok_or(Error::Malformed("what should be members is not"));
    let (space, content) = match kind {
        kind::PAYLOAD => (length as u64, Content::Payload(content.clone())),
        kind::MARK => (frame(length), Content::Mark(members()?)),
        kind::MEMBERSHIP => (frame(length), Content::Membership(members()?)),
        _ => return Err(Error::Malformed("an entry is of an unknown kind")),
    };
    let end = start
        .0
        .checked_add(space)
        .ok_or(Error::Malformed("it is past the last place"))?;
    Ok(Entry {
        start,
        end: Lsn(end),
        term,
        content,
    })
}

fn frame(length: usize) -> u64 {
    Spacing::REDO_LOG.space(length as u64)
}

/// The message that a node has sent to another.
pub(super) fn decode(from: NodeId, to: NodeId, mut bytes: Bytes) -> Result<Message, Error> {
    let bytes = &mut bytes;
    let tag = bytes.try_get_u8().map_err(|_| SHORT)?;
    let term = take_term(bytes)?;
    let body = match tag {
        tag::VOTE_REQUEST => Body::VoteRequest {
            last: take_position(bytes)?,
            preliminary: take_bool(bytes)?,
            transfer: take_bool(bytes)?,
        },
        tag::VOTE => Body::Vote {
            preliminary: take_bool(bytes)?,
            granted: take_bool(bytes)?,
        },
        tag::APPEND => {
            let previous = take_position(bytes)?;
            let commit = take_lsn(bytes)?;
            let mut entries: Vec<Entry> = Vec::new();
            while !bytes.is_empty() {
                let start = entries.last().map_or(previous.end, |entry| entry.end);
                entries.push(take_entry(bytes, start)?);
            }
            Body::Append {
                previous,
                commit,
                entries,
            }
        }
        tag::APPENDED => Body::Appended {
            matched: take_lsn(bytes)?,
        },
        tag::HEARTBEAT => Body::Heartbeat {
            commit: take_lsn(bytes)?,
            round: take_word(bytes)?,
        },
        tag::HEARTBEAT_ANSWER => Body::HeartbeatAnswer {
            round: take_word(bytes)?,
            verified: match bytes.is_empty() {
                true => None,
                false => Some(Verified {
                    received: take_lsn(bytes)?,
                    durable: take_lsn(bytes)?,
                }),
            },
        },
        tag::RECOVER_MARKS => Body::Recover(Request::Marks {
            start: take_lsn(bytes)?,
            end: take_lsn(bytes)?,
        }),
        tag::RECOVER_FROM => Body::Recover(Request::From {
            start: take_lsn(bytes)?,
        }),
        tag::CAMPAIGN => Body::Campaign,
        tag::STALE => Body::Stale,
        _ => return Err(Error::Malformed("it is of an unknown kind")),
    };
    if !bytes.is_empty() {
        return Err(Error::Malformed("there is more than it should have"));
    }
    Ok(Message {
        from,
        to,
        term,
        body,
    })
}

#[cfg(test)]
mod tests {
    use coeval_consensus::Membership;

    use super::*;

    fn all() -> Vec<Body> {
        let entry = |start, term, content, space| Entry {
            start: Lsn(start),
            end: Lsn(start + space),
            term: Term(term),
            content,
        };
        let members = Membership::new([NodeId(1), NodeId(300)], [NodeId(4)]);
        vec![
            Body::VoteRequest {
                last: Position::new(3, 4096),
                preliminary: true,
                transfer: false,
            },
            Body::Vote {
                preliminary: false,
                granted: true,
            },
            Body::Append {
                previous: Position::new(2, 64),
                commit: Lsn(64),
                entries: vec![
                    entry(64, 3, Content::Mark(members.clone()), 40),
                    entry(104, 3, Content::Payload(Bytes::from_static(&[7; 48])), 48),
                    entry(152, 3, Content::Membership(members), 40),
                ],
            },
            Body::Appended { matched: Lsn(8) },
            Body::Heartbeat {
                commit: Lsn(9),
                round: 10,
            },
            Body::HeartbeatAnswer {
                round: 11,
                verified: None,
            },
            Body::HeartbeatAnswer {
                round: 11,
                verified: Some(Verified {
                    received: Lsn(12),
                    durable: Lsn(13),
                }),
            },
            Body::Recover(Request::Marks {
                start: Lsn(14),
                end: Lsn(15),
            }),
            Body::Recover(Request::From { start: Lsn(16) }),
            Body::Campaign,
            Body::Stale,
        ]
    }

    #[test]
    fn every_message_comes_back_and_pieces_of_one_are_refused_or_others() {
        for body in all() {
            let message = Message {
                from: NodeId(1),
                to: NodeId(2),
                term: Term(3),
                body,
            };
            let bytes = encode(&message).unwrap();
            let decoded = decode(NodeId(1), NodeId(2), bytes.clone()).unwrap();
            assert_eq!(decoded, message);
            for end in 0..bytes.len() {
                let cut = decode(NodeId(1), NodeId(2), bytes.slice(..end));
                assert_ne!(cut.ok(), Some(message.clone()), "cut at {end}");
            }
            for at in 0..bytes.len() {
                for wrong in [0, 1, 0x7F, 0xFF] {
                    let mut changed = bytes.to_vec();
                    changed[at] = wrong;
                    // Whatever it is now, nobody falls over it.
                    let _ = decode(NodeId(1), NodeId(2), changed.into());
                }
            }
        }
    }
}
