//! Which members founders were started with: they tell each other, so that two that name
//! different ones say so, with both lists.
//!
//! ```text
//!   node 1, members 1 2 3                node 2, members 1 2
//!   LIST ask: 1 2 3             ──▶      notes it
//!                               ◀──      LIST answer: 1 2
//!   waits: "1, 2, 3 here, 1, 2 there"    waits, and says the same
//! ```
//!
//! Of each other the nodes know only the digest of what they have written down (`standing`),
//! which says that two lists differ, and not how. A node that founds asks at each tick those of
//! whom it does not know that they name the same members. One that has founded answers with
//! the founders it has written down, any other with the members in its log.
//!
//! Nothing depends on an answer: a node of an earlier build skips these frames, and never
//! answers. Then the digests still keep two lists from founding one cluster.

use std::collections::BTreeSet;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use coeval_peers::{Frame, Loss, NodeId};

use super::driver::Driver;
use super::frames;

const ASK: u8 = 0;
const ANSWER: u8 = 1;
/// More than a cluster has.
const MOST: usize = 1000;

/// Node numbers in order, as people read them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberList(pub(super) BTreeSet<NodeId>);

impl fmt::Display for MemberList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, node) in self.0.iter().enumerate() {
            if place > 0 {
                formatter.write_str(", ")?;
            }
            write!(formatter, "{node}")?;
        }
        Ok(())
    }
}

impl MemberList {
    fn encode(&self, tag: u8) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(tag);
        for node in self.0.iter().take(MOST) {
            bytes.put_u64_le(node.0);
        }
        bytes.freeze()
    }
}

/// Reads a frame: whether it asks, and the sender's list.
fn decode(bytes: &[u8]) -> Option<(bool, MemberList)> {
    let (tag, rest) = bytes.split_first()?;
    let asks = match *tag {
        ASK => true,
        ANSWER => false,
        _ => return None,
    };
    let (numbers, rest) = rest.as_chunks();
    let is_sound = rest.is_empty() && numbers.len() <= MOST;
    let nodes = numbers.iter().map(|node| NodeId(u64::from_le_bytes(*node)));
    is_sound.then(|| (asks, MemberList(nodes.collect())))
}

impl Driver {
    /// Asks the other founders which members they name, while this node founds.
    pub(super) fn ask_for_member_lists(&self) {
        let Some(own) = self.standing.founding_members() else {
            return;
        };
        for node in &own.0 {
            if node.0 != self.consensus.id().0 && self.standing.named_by(*node) != Some(&own) {
                // A node that is not connected is asked again.
                let ask = own.encode(ASK);
                let _ = self.peers.send(*node, frames::LIST, ask, Loss::Droppable);
            }
        }
    }

    /// Which members another node names.
    pub(super) fn member_list_frame(&mut self, frame: &Frame) {
        let from = frame.from;
        let Some((asks, list)) = decode(&frame.payload) else {
            tracing::error!(%from, "what a node says of its members makes no sense");
            return;
        };
        if asks {
            let own = self.standing.founding_members();
            let own = own.or_else(|| self.peer_set.founding_members());
            let own = own.unwrap_or_else(|| {
                let members = self.consensus.status().membership;
                MemberList(members.members().map(|node| NodeId(node.0)).collect())
            });
            // It asks again if the answer is lost.
            let answer = own.encode(ANSWER);
            let _ = self.peers.send(from, frames::LIST, answer, Loss::Droppable);
        }
        self.standing.note_list(from, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        let list = MemberList([3, 1, 2].map(NodeId).into());
        assert_eq!(list.to_string(), "1, 2, 3");
        for (tag, asks) in [(ASK, true), (ANSWER, false)] {
            let bytes = list.encode(tag);
            assert_eq!(decode(&bytes), Some((asks, list.clone())));
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        }
        let empty = MemberList::default();
        assert_eq!(decode(&empty.encode(ASK)), Some((true, empty)));
        let long = vec![0; 1 + 8 * (MOST + 1)];
        for bad in [&b""[..], b"\x02", &long] {
            assert_eq!(decode(bad), None);
        }
    }
}
