//! Log as entries, and back: one frame is one entry.

use bytes::Bytes;
use coeval_consensus::{Content, Entry, HardState, Mark, Membership, NodeId, Position, Restored};
use coeval_log::{Frame, FrameKind, Frames, ReplicaLog};
use coeval_types::{Lsn, Term};

use super::{Error, membership};

const NO_MEMBERSHIP: Error = Error::Malformed("a mark or a change of members names none");

/// The entries that whole frames of a database's log are.
pub(super) fn entries(database: u128, stretch: &Frames) -> Result<Vec<Entry>, Error> {
    let entry = |frame: &Frame<'_>| {
        let members = || membership::decode(frame.payload).ok_or(NO_MEMBERSHIP);
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

/// What consensus starts with, of a log in which everything before `applied` has been
/// replayed; `founders` took part when it began.
pub(super) fn restored(
    log: &ReplicaLog,
    applied: Lsn,
    founders: Membership,
) -> Result<Restored, Error> {
    if log.marks().is_empty() && log.last_term() != Term(0) {
        return Err(Error::Setting(format!(
            "{} holds a database that was none of a cluster, and there is no way yet to make it \
             one; begin with an empty directory, and load a dump",
            log.path().display()
        )));
    }
    let state = log.hard_state();
    let mark = |mark: &coeval_log::Mark| Mark {
        term: mark.term,
        start: mark.start,
        end: mark.end,
    };
    let mut before = founders.clone();
    let mut memberships = Vec::new();
    for change in log.memberships() {
        let now = membership::decode(&change.payload).ok_or(NO_MEMBERSHIP)?;
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
        retained: log.begin().max(log.base()),
        marks: log.marks().iter().map(mark).collect(),
        memberships,
        end: log.end(),
        applied,
        ends: Vec::new(),
    })
}

/// The frames of entries that hold nothing of consensus's own, from the first on: those
/// that can be written at once.
pub(super) fn payloads(entries: &[Entry]) -> (usize, Vec<Bytes>) {
    let payload = |entry: &Entry| match &entry.content {
        Content::Payload(bytes) => Some(bytes.clone()),
        Content::Mark(_) | Content::Membership(_) => None,
    };
    let bytes: Vec<Bytes> = entries.iter().map_while(payload).collect();
    (bytes.len(), bytes)
}
