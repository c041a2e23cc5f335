//! The wire encoding of consensus messages, and the encoding of memberships in the log.
//!
//! ```text
//!  kind  from  to  term  body
//!  1     v     v   v     depends on the kind
//!
//!  append    previous (term, end)  commit  count  entries
//!  an entry  space  term above the one before  content: 0 length bytes, 1 or 2 members,
//!            3 or 4 members with their version
//!  members   count  ids        voters, then learners; each id less the one before
//!  version   number of the version, from 2 on; count, and of each directory that is
//!            named the id of its node, less the one before, and 16 bytes
//! ```
//!
//! Questions and their answers (kinds 11 and 12) are sent from cluster version 3 on.
//!
//! In the log, bytes after the members are their version. Contents 3 and 4, and these
//! bytes, are written from cluster version 2 on, by when every member reads them.
//!
//! `v` and all other numbers are varints: seven bits a byte, the lowest first, in as few
//! bytes as they need. Entries follow each other and the prefix, so their starts are not
//! encoded, and a term's difference mostly takes one byte.
//!
//! The encoding is canonical: what [`decode`] accepts, [`encode`] turns into the same
//! bytes, and every other form is refused. A length field alone never causes an
//! allocation, and payloads are slices of the input.
//!
//! The decoder refuses bytes that are malformed. Well-formed messages that make no sense
//! are refused by [`Consensus::receive`](crate::Consensus::receive). Frames, checksums,
//! versions and authentication are the transport's business.

mod reader;
mod writer;

use std::fmt;

use bytes::Bytes;

use crate::entry::{Content, Entry};
use crate::membership::{FIRST_VERSION, Membership};
use crate::message::{Body, Message, Request, Verified};
use crate::position::NodeId;
use reader::Reader;
use writer::Writer;

/// Error: the bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset of the byte at which the decoder stopped.
    pub at: usize,
    /// Description of the error.
    pub what: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "not a message of consensus: {} at byte {}; is the peer of another version?",
            self.what, self.at
        )
    }
}

impl std::error::Error for DecodeError {}

/// The kinds of messages, which the first byte encodes.
mod kind {
    pub(super) const VOTE_REQUEST: u8 = 1;
    pub(super) const VOTE: u8 = 2;
    pub(super) const APPEND: u8 = 3;
    pub(super) const APPENDED: u8 = 4;
    pub(super) const HEARTBEAT: u8 = 5;
    pub(super) const HEARTBEAT_ANSWER: u8 = 6;
    pub(super) const RECOVER: u8 = 7;
    pub(super) const DIFFERS: u8 = 8;
    pub(super) const CAMPAIGN: u8 = 9;
    pub(super) const STALE: u8 = 10;
    pub(super) const ASK: u8 = 11;
    pub(super) const ASKED: u8 = 12;
}

/// The kinds of entries, which a byte encodes.
mod content {
    pub(super) const PAYLOAD: u8 = 0;
    pub(super) const MARK: u8 = 1;
    pub(super) const MEMBERSHIP: u8 = 2;
    pub(super) const MARK_OF_VERSION: u8 = 3;
    pub(super) const MEMBERSHIP_OF_VERSION: u8 = 4;
}

/// Number of bytes of an encoded membership.
pub(crate) fn membership_bytes(membership: &Membership) -> u64 {
    encode_membership(membership).len() as u64
}

/// Encodes a membership, as marks and membership entries in the log carry it.
#[must_use]
pub fn encode_membership(membership: &Membership) -> Bytes {
    let mut writer = Writer::new();
    writer.membership(membership);
    if membership.version() > FIRST_VERSION {
        writer.version(membership);
    }
    writer.finish()
}

/// Decodes bytes of [`encode_membership`].
///
/// # Errors
/// When the bytes are no such membership.
pub fn decode_membership(bytes: &Bytes) -> Result<Membership, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut membership = reader.membership()?;
    if !reader.is_at_end() {
        membership = reader.version(membership)?;
    }
    reader.finish()?;
    Ok(membership)
}

/// Encodes a message.
#[must_use]
pub fn encode(message: &Message) -> Bytes {
    let mut writer = Writer::new();
    let kind = match &message.body {
        Body::VoteRequest { .. } => kind::VOTE_REQUEST,
        Body::Vote { .. } => kind::VOTE,
        Body::Append { .. } => kind::APPEND,
        Body::Appended { .. } => kind::APPENDED,
        Body::Heartbeat { .. } => kind::HEARTBEAT,
        Body::HeartbeatAnswer { .. } => kind::HEARTBEAT_ANSWER,
        Body::Recover(_) => kind::RECOVER,
        Body::Differs { .. } => kind::DIFFERS,
        Body::Campaign => kind::CAMPAIGN,
        Body::Stale => kind::STALE,
        Body::Ask { .. } => kind::ASK,
        Body::Asked { .. } => kind::ASKED,
    };
    writer.byte(kind);
    writer.number(message.from.0);
    writer.number(message.to.0);
    writer.term(message.term);
    match &message.body {
        Body::VoteRequest {
            last,
            preliminary,
            transfer,
        } => {
            writer.position(*last);
            writer.flags(&[*preliminary, *transfer]);
        }
        Body::Vote {
            preliminary,
            granted,
        } => writer.flags(&[*preliminary, *granted]),
        Body::Append {
            previous,
            commit,
            entries,
        } => {
            writer.position(*previous);
            writer.place(*commit);
            writer.number(entries.len() as u64);
            let mut before = *previous;
            for entry in entries {
                writer.number(u64::from(entry.term.0.wrapping_sub(before.term.0)));
                put_entry(&mut writer, entry);
                before = entry.position();
            }
        }
        Body::Appended { matched } => writer.place(*matched),
        Body::Heartbeat { commit, round } => {
            writer.place(*commit);
            writer.number(*round);
        }
        Body::HeartbeatAnswer { round, verified } => {
            writer.number(*round);
            writer.flags(&[verified.is_some()]);
            if let Some(Verified { received, durable }) = verified {
                writer.place(*received);
                writer.place(*durable);
            }
        }
        Body::Recover(request) => match request {
            Request::Marks { start, end } => {
                writer.byte(0);
                writer.place(*start);
                writer.place(*end);
            }
            Request::Check { last } => {
                writer.byte(1);
                writer.position(*last);
            }
            Request::From { start } => {
                writer.byte(2);
                writer.place(*start);
            }
        },
        Body::Differs { end, entry } => {
            writer.place(*end);
            writer.place(entry.start);
            writer.term(entry.term);
            put_entry(&mut writer, entry);
        }
        Body::Campaign | Body::Stale => {}
        Body::Ask { number } => writer.number(*number),
        Body::Asked { number, at } => {
            writer.number(*number);
            writer.place(*at);
        }
    }
    writer.finish()
}

/// Writes an entry without its start and term.
fn put_entry(writer: &mut Writer, entry: &Entry) {
    writer.number(entry.space());
    match &entry.content {
        Content::Payload(payload) => {
            writer.byte(content::PAYLOAD);
            writer.bytes(payload);
        }
        Content::Mark(membership) if membership.version() > FIRST_VERSION => {
            writer.byte(content::MARK_OF_VERSION);
            writer.membership(membership);
            writer.version(membership);
        }
        Content::Mark(membership) => {
            writer.byte(content::MARK);
            writer.membership(membership);
        }
        Content::Membership(membership) if membership.version() > FIRST_VERSION => {
            writer.byte(content::MEMBERSHIP_OF_VERSION);
            writer.membership(membership);
            writer.version(membership);
        }
        Content::Membership(membership) => {
            writer.byte(content::MEMBERSHIP);
            writer.membership(membership);
        }
    }
}

/// Decodes a message.
///
/// # Errors
/// When the bytes are no message.
pub fn decode(bytes: &Bytes) -> Result<Message, DecodeError> {
    let mut reader = Reader::new(bytes);
    let kind = reader.byte()?;
    let from = NodeId(reader.number()?);
    let to = NodeId(reader.number()?);
    let term = reader.term()?;
    let body = match kind {
        kind::VOTE_REQUEST => {
            let last = reader.position()?;
            let [preliminary, transfer] = reader.flags()?;
            Body::VoteRequest {
                last,
                preliminary,
                transfer,
            }
        }
        kind::VOTE => {
            let [preliminary, granted] = reader.flags()?;
            Body::Vote {
                preliminary,
                granted,
            }
        }
        kind::APPEND => {
            let previous = reader.position()?;
            let commit = reader.place()?;
            let mut before = previous;
            let mut entries = Vec::new();
            for _ in 0..reader.number()? {
                let term = reader.term_above(before.term)?;
                let entry = reader.entry(before.end, term)?;
                before = entry.position();
                entries.push(entry);
            }
            Body::Append {
                previous,
                commit,
                entries,
            }
        }
        kind::APPENDED => Body::Appended {
            matched: reader.place()?,
        },
        kind::HEARTBEAT => Body::Heartbeat {
            commit: reader.place()?,
            round: reader.number()?,
        },
        kind::HEARTBEAT_ANSWER => {
            let round = reader.number()?;
            let [is_known] = reader.flags()?;
            let verified = if is_known {
                let (received, durable) = (reader.place()?, reader.place()?);
                Some(Verified { received, durable })
            } else {
                None
            };
            Body::HeartbeatAnswer { round, verified }
        }
        kind::RECOVER => Body::Recover(match reader.byte()? {
            0 => Request::Marks {
                start: reader.place()?,
                end: reader.place()?,
            },
            1 => Request::Check {
                last: reader.position()?,
            },
            2 => Request::From {
                start: reader.place()?,
            },
            _ => return Err(reader.error("a request of an unknown kind")),
        }),
        kind::DIFFERS => {
            let end = reader.place()?;
            let start = reader.place()?;
            let term = reader.term()?;
            let entry = reader.entry(start, term)?;
            Body::Differs { end, entry }
        }
        kind::CAMPAIGN => Body::Campaign,
        kind::STALE => Body::Stale,
        kind::ASK => Body::Ask {
            number: reader.number()?,
        },
        kind::ASKED => Body::Asked {
            number: reader.number()?,
            at: reader.place()?,
        },
        _ => return Err(reader.error("an unknown kind")),
    };
    reader.finish()?;
    Ok(Message {
        from,
        to,
        term,
        body,
    })
}

#[cfg(test)]
mod tests;
