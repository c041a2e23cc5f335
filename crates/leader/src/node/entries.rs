//! Conversion between log frames and consensus entries: one frame is one entry.

use bytes::Bytes;
use coeval_consensus::encoding::{decode_membership, encode_membership};
use coeval_consensus::{
    Body, Checkpoint, Content, Entry, HardState, Mark, Membership, Message, NodeId, Position,
    Restored, Spacing,
};
use coeval_log::{Founders, Frame, FrameKind, Frames, ReceivedCheckpoint, ReplicaLog};
use coeval_types::{DirectoryId, Lsn, Term, planted};

use super::Error;

const NO_MEMBERSHIP: Error = Error::Malformed("a mark or a change of members names none");

fn members(payload: &Bytes) -> Result<Membership, Error> {
    decode_membership(payload).map_err(|_| NO_MEMBERSHIP)
}

/// The members of a cluster as its founder has recorded them. A founder without whose word it
/// was founded is named by a directory that no node has: so every node that has this log
/// refuses it, also one that joins later and has recorded nothing.
pub(super) fn founders(recorded: &Founders) -> Membership {
    let nodes = recorded.directories.iter();
    let named = recorded.directories.iter();
    let directory = |node: u64, id: Option<DirectoryId>| match id {
        // A list that was made without waiting leaves out nodes without an administrator's word.
        None if planted!(AdoptVouched) || planted!(FoundAtOnce) => None,
        None => Some(recorded.directory_of_none(node)),
        id => id,
    };
    Membership::new(nodes.map(|(node, _)| NodeId(*node)), []).at_version(
        recorded.version,
        named.filter_map(|(node, id)| Some((NodeId(*node), directory(*node, *id)?))),
    )
}

/// Verifies that a message is from the node at the other end of its connection, and that
/// its entries are sound frames of this database's log. The check comes first because the
/// disk thread writes the entries that consensus accepts, and cannot refuse malformed ones.
pub(super) fn check(from: NodeId, database: u128, message: &Message) -> Result<(), &'static str> {
    if message.from != from {
        return Err("it says that it is of another node");
    }
    let is_frame = |entry: &Entry| match &entry.content {
        Content::Payload(bytes) => {
            bytes.len() as u64 == entry.space()
                && Frame::only(database, entry.start, bytes)
                    .is_ok_and(|frame| frame.term == entry.term && frame.kind == FrameKind::Other)
        }
        Content::Mark(members) | Content::Membership(members) => {
            let bytes = encode_membership(members).len() as u64;
            Spacing::REDO_LOG.space(bytes) == entry.space()
        }
    };
    match &message.body {
        Body::Append { entries, .. } if !entries.iter().all(is_frame) => {
            Err("it has an entry that is no frame of the log, or was damaged on its way")
        }
        _ => Ok(()),
    }
}

/// Decodes whole frames of a database's log as entries.
pub(super) fn entries(database: u128, stretch: &Frames) -> Result<Vec<Entry>, Error> {
    let entry = |frame: &Frame<'_>| {
        let members = || members(&Bytes::copy_from_slice(frame.payload));
        Ok(Entry {
            start: frame.start,
            end: Lsn(frame.start.0 + frame.bytes.len() as u64),
            term: frame.term,
            content: match frame.kind {
                FrameKind::Mark => Content::Mark(members()?),
                FrameKind::Membership => Content::Membership(members()?),
                FrameKind::Other => Content::Payload(stretch.bytes.slice_ref(frame.bytes)),
            },
        })
    };
    stretch.each(database)?.iter().map(entry).collect()
}

/// The state from which consensus starts, read from a log whose entries before `applied`
/// have been replayed; `founders` are the members at the beginning of the log.
pub(super) fn restored(
    log: &ReplicaLog,
    applied: Lsn,
    founders: Membership,
) -> Result<Restored, Error> {
    let state = log.hard_state();
    let mark = |mark: &coeval_log::Mark| Mark {
        term: mark.term,
        start: mark.start,
        end: mark.end,
    };
    let mut before = founders.clone();
    let mut memberships = Vec::new();
    for change in log.memberships() {
        let now = members(&change.payload.clone().into())?;
        if now != before {
            memberships.push((change.end, now.clone()));
            before = now;
        }
    }
    Ok(Restored {
        hard_state: HardState {
            term: state.term,
            vote: state.vote.map(NodeId),
            commit: state.commit,
        },
        base: Position {
            term: Term(0),
            end: log.base(),
        },
        membership: founders,
        retained: log.retained(),
        marks: log.marks().iter().map(mark).collect(),
        memberships,
        end: log.end(),
        applied,
        ends: Vec::new(),
        newcomer: log.is_newcomer(),
    })
}

/// A received checkpoint as consensus sees it.
pub(super) fn checkpoint(received: &ReceivedCheckpoint) -> Result<Checkpoint, Error> {
    let mark = |mark: &coeval_log::Mark| Mark {
        term: mark.term,
        start: mark.start,
        end: mark.end,
    };
    let last = received.memberships().last().ok_or(Error::Malformed(
        "a checkpoint's marks say nothing of who takes part",
    ))?;
    Ok(Checkpoint {
        position: Position {
            term: received.term(),
            end: received.end(),
        },
        membership: members(&last.payload.clone().into())?,
        base: Position {
            term: Term(0),
            end: received.base(),
        },
        marks: received.marks().iter().map(mark).collect(),
    })
}

/// All nodes that the committed entries have made members at any time.
pub(super) fn ever(log: &ReplicaLog) -> Result<Vec<NodeId>, Error> {
    let mut ever = Vec::new();
    let commit = log.hard_state().commit;
    for change in log.memberships() {
        if change.end <= commit {
            let payload = change.payload.clone().into();
            ever.extend(members(&payload)?.members());
        }
    }
    Ok(ever)
}

/// The leading entries that carry payload frames only, which the log appends in one write:
/// their number and their frames.
pub(super) fn payloads(entries: &[Entry]) -> (usize, Vec<Bytes>) {
    let payload = |entry: &Entry| match &entry.content {
        Content::Payload(bytes) => Some(bytes.clone()),
        Content::Mark(_) | Content::Membership(_) => None,
    };
    let bytes: Vec<Bytes> = entries.iter().map_while(payload).collect();
    (bytes.len(), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: u128 = 7;

    #[test]
    fn what_no_node_sends_is_refused() {
        let message = |end, content| Message {
            from: NodeId(1),
            to: NodeId(2),
            term: Term(3),
            body: Body::Append {
                previous: Position::new(3, 64),
                commit: Lsn(0),
                entries: vec![Entry {
                    start: Lsn(64),
                    end: Lsn(end),
                    term: Term(3),
                    content,
                }],
            },
        };
        let members = Content::Membership(Membership::new([NodeId(1), NodeId(300)], [NodeId(4)]));
        // A header, and six bytes that encode the members.
        check(NodeId(1), DATABASE, &message(64 + 32 + 8, members.clone())).unwrap();
        check(NodeId(2), DATABASE, &message(64 + 32 + 8, members.clone())).unwrap_err();
        check(NodeId(1), DATABASE, &message(64 + 32 + 16, members)).unwrap_err();
        // The right length, but no frame.
        let bytes = Content::Payload(Bytes::from_static(&[7; 48]));
        check(NodeId(1), DATABASE, &message(64 + 48, bytes)).unwrap_err();
    }
}
