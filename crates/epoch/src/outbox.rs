//! The outbox of a node: gathers what its parts say to others into one frame for each node.

use std::collections::BTreeMap;

use coeval_council::{NodeId, Term};

use crate::message::{Frame, Part};

/// Parts that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    parts: BTreeMap<NodeId, Vec<Part>>,
}

impl Outbox {
    pub(crate) fn say(&mut self, to: NodeId, part: Part) {
        let parts = self.parts.entry(to).or_default();
        // A part that is said twice before it leaves is said once.
        if !parts.contains(&part) {
            parts.push(part);
        }
    }

    /// Takes what there is to say to one node: the node itself.
    pub(crate) fn take_to(&mut self, node: NodeId) -> Vec<Part> {
        self.parts.remove(&node).unwrap_or_default()
    }

    /// Takes one frame for each node that there is something to say to.
    pub(crate) fn take(
        &mut self,
        from: NodeId,
        incarnation: u64,
        (version, term): (u64, Term),
    ) -> Vec<Frame> {
        let parts = std::mem::take(&mut self.parts).into_iter();
        let frame = |(to, parts)| Frame {
            from,
            incarnation,
            to,
            version,
            term,
            parts,
        };
        parts.map(frame).collect()
    }
}
