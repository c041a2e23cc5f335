//! Conversion between the log's frames and the entries of consensus: one frame is one entry,
//! and an entry's payload is the user's bytes. Each node makes the frames itself.

use bytes::Bytes;
use coeval_consensus::encoding::decode_membership;
use coeval_consensus::{
    Body, Checkpoint, Content, Entry, HardState, Mark, Membership, Message, NodeId, Position,
    Restored, Spacing,
};
use coeval_log::{FrameKind, Frames, ReceivedCheckpoint, ReplicaLog};
use coeval_types::{Lsn, Term};

use crate::{Error, MAX_ENTRY_BYTES};

fn membership(payload: &[u8]) -> Result<Membership, Error> {
    decode_membership(&Bytes::copy_from_slice(payload))
        .map_err(|_| Error::Malformed("a mark or a change of members names none"))
}

fn mark(mark: &coeval_log::Mark) -> Mark {
    Mark {
        term: mark.term,
        start: mark.start,
        end: mark.end,
    }
}

/// Decodes whole frames of a log as entries.
pub(crate) fn entries(cluster: u128, frames: &Frames) -> Result<Vec<Entry>, Error> {
    let frames = frames.each(cluster)?;
    let entry = |frame: &coeval_log::Frame<'_>| {
        Ok(Entry {
            start: frame.start,
            end: Lsn(frame.start.0 + frame.bytes.len() as u64),
            term: frame.term,
            content: match frame.kind {
                FrameKind::Mark => Content::Mark(membership(frame.payload)?),
                FrameKind::Membership => Content::Membership(membership(frame.payload)?),
                FrameKind::Other => Content::Payload(Bytes::copy_from_slice(frame.payload)),
            },
        })
    };
    frames.iter().map(entry).collect()
}

/// Checks what consensus cannot: that the entries of a message take the room in the log that
/// their frames will take, and are no larger than entries may be.
pub(crate) fn check(message: &Message) -> Result<(), Error> {
    let is_sound = |entry: &Entry| {
        let bytes = match &entry.content {
            Content::Payload(bytes) if bytes.len() > MAX_ENTRY_BYTES => return false,
            Content::Payload(bytes) => bytes.len(),
            Content::Mark(members) | Content::Membership(members) => {
                coeval_consensus::encoding::encode_membership(members).len()
            }
        };
        Spacing::REDO_LOG.space(bytes as u64) == entry.space()
    };
    match &message.body {
        Body::Append { entries, .. } if !entries.iter().all(is_sound) => Err(Error::Malformed(
            "an entry does not take the room of its frame",
        )),
        _ => Ok(()),
    }
}

/// The state from which consensus starts, read from a log whose checkpoint has been loaded.
pub(crate) fn restored(log: &ReplicaLog, founders: &Membership) -> Result<Restored, Error> {
    let state = log.hard_state();
    let mut before = founders.clone();
    let mut memberships = Vec::new();
    for change in log.memberships() {
        let after = membership(&change.payload)?;
        if after != before {
            memberships.push((change.end, after.clone()));
            before = after;
        }
    }
    let begin = log.begin().max(log.base());
    Ok(Restored {
        hard_state: HardState {
            term: state.term,
            vote: state.vote.map(NodeId),
            commit: state.commit.max(begin),
        },
        base: Position {
            term: Term(0),
            end: log.base(),
        },
        membership: founders.clone(),
        retained: begin,
        marks: log.marks().iter().map(mark).collect(),
        memberships,
        end: log.end(),
        applied: begin,
        ends: Vec::new(),
        newcomer: false,
    })
}

/// A received checkpoint as consensus sees it.
pub(crate) fn checkpoint(received: &ReceivedCheckpoint) -> Result<Checkpoint, Error> {
    let last = received.memberships().last();
    let last = last.ok_or(Error::Malformed("a snapshot's marks name no members"))?;
    Ok(Checkpoint {
        position: Position {
            term: received.term(),
            end: received.end(),
        },
        membership: membership(&last.payload)?,
        base: Position {
            term: Term(0),
            end: received.base(),
        },
        marks: received.marks().iter().map(mark).collect(),
    })
}
