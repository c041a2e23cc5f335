//! What travels between nodes as frames of `peers`: kinds by their numbers on the wire, and the
//! council's transport over them.
//!
//! A number is never reused for another kind. Losing a frame of any kind harms nothing: what is
//! not answered is said again, and so is, at each tenth tick, who manages.

use std::sync::Arc;

use bytes::Bytes;
use coeval_council::{NodeId, Term, Transport};
use coeval_peers::{Kinds, Loss, MessageKind, Peers};

use crate::codec::{Malformed, Reader, put_u64};

/// A message of the council.
pub(super) const COUNCIL: MessageKind = MessageKind::new(1);
/// A payload of the protocol of epochs: see [`crate::wire`].
pub(super) const EPOCH: MessageKind = MessageKind::new(2);
/// The council's leader tells a node outside the council who manages.
pub(super) const LEADER: MessageKind = MessageKind::new(3);

/// The kinds that a node accepts.
pub(super) const KINDS: Kinds = Kinds {
    // A heartbeat that waits for data costs an election.
    urgent: &[COUNCIL, LEADER],
    other: &[EPOCH],
};

/// The council's messages go this way.
#[derive(Debug)]
pub(super) struct CouncilLink(pub(super) Arc<Peers>);

impl Transport for CouncilLink {
    fn send(&self, to: NodeId, message: Bytes) {
        // A message that is lost is sent again by consensus.
        let _ = self.0.send(to, COUNCIL, message, Loss::Droppable);
    }
}

/// The message LEADER.
pub(super) fn leader(term: Term, node: NodeId) -> Bytes {
    let mut out = Vec::new();
    put_u64(&mut out, term.0.into());
    put_u64(&mut out, node.0);
    out.into()
}

pub(super) fn read_leader(message: Bytes) -> Result<(Term, NodeId), Malformed> {
    let mut reader = Reader::new(message);
    let term = u32::try_from(reader.u64()?).map_err(|_| Malformed)?;
    let node = NodeId(reader.u64()?);
    reader.end()?;
    Ok((Term(term), node))
}
