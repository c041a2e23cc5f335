//! Founding a cluster from restored directories: every node must hold the same data, and
//! only the directories themselves show whether they do.
//!
//! ```text
//!   node 1, restored                         node 2
//!   ORIGIN ask: my origin       ──▶          compares
//!                               ◀──          ORIGIN answer: its own
//!   the same: listens to node 2
//!   another, or none: stops, and says so
//! ```
//!
//! A node that was restored from a backup begins with committed log that no other node has
//! sent it. Until its log has the mark of a first term, it asks every other member for its
//! [`Origin`] at each tick, and ignores all other frames of a member whose origin it does
//! not know to be its own. So no vote and no acknowledgement joins logs that differ below
//! the offset at which replication begins. Later a node only answers.
//!
//! A node of an earlier build does not know these frames, and never answers.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use coeval_log::Origin;
use coeval_peers::{Frame, Loss, NodeId};
use coeval_types::Term;

use super::Error;
use super::driver::Driver;
use super::frames;

const ASK: u8 = 0;
const ANSWER: u8 = 1;

/// What this node knows of the members' origins.
#[derive(Debug, Default)]
pub(super) struct Origins {
    own: Option<Origin>,
    /// Whether the log has no mark yet, so that its beginning has to be compared.
    founds: bool,
    /// The members whose origin is this node's.
    same: BTreeSet<NodeId>,
}

impl Origins {
    pub(super) fn new(own: Option<Origin>, has_marks: bool) -> Self {
        Self {
            own,
            founds: own.is_some() && !has_marks,
            same: BTreeSet::new(),
        }
    }

    /// Whether frames of this node may be used.
    pub(super) fn admits(&self, from: NodeId) -> bool {
        !self.founds || self.same.contains(&from)
    }

    fn encode(&self, tag: u8) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(tag);
        if let Some(own) = &self.own {
            bytes.put_slice(own.encode().as_bytes());
        }
        bytes.freeze()
    }
}

/// Reads a frame: whether it asks, and the sender's origin.
fn decode(bytes: &[u8]) -> Option<(bool, Option<Origin>)> {
    let (tag, text) = bytes.split_first()?;
    let asks = match *tag {
        ASK => true,
        ANSWER => false,
        _ => return None,
    };
    let origin = match text {
        [] => None,
        text => Some(Origin::decode(text)?),
    };
    Some((asks, origin))
}

impl Driver {
    /// Asks the members whose origin is not known, while this node's log has no mark.
    pub(super) fn ask_for_origins(&mut self) {
        if !self.origins.founds {
            return;
        }
        if self.consensus.status().last.term > Term(0) {
            self.origins.founds = false;
            return;
        }
        let addresses = self.peer_set.members().addresses;
        for node in addresses.into_keys() {
            if !self.origins.same.contains(&node) {
                // A node that is not connected is asked again.
                let ask = self.origins.encode(ASK);
                let _ = self.peers.send(node, frames::ORIGIN, ask, Loss::Droppable);
            }
        }
    }

    /// Another node's origin.
    pub(super) fn origin_frame(&mut self, frame: &Frame) -> Result<(), Error> {
        let from = frame.from;
        let Some((asks, origin)) = decode(&frame.payload) else {
            tracing::error!(%from, "what a node says of its origin makes no sense");
            return Ok(());
        };
        if asks {
            let answer = self.origins.encode(ANSWER);
            // It asks again if the answer is lost.
            let _ = self
                .peers
                .send(from, frames::ORIGIN, answer, Loss::Droppable);
        }
        let Some(own) = self.origins.own.filter(|_| self.origins.founds) else {
            return Ok(());
        };
        if origin == Some(own) {
            if self.origins.same.insert(from) {
                tracing::info!(%from, "a node was restored from the same backup as this one");
            }
            return Ok(());
        }
        let other = origin.map_or("was not restored".to_owned(), |other| {
            format!("was {other}")
        });
        Err(Error::Setting(format!(
            "this node was {own}, and node {} {other}: they hold different data. Restore the same \
             backup to the same position into an empty directory on every node that is to found \
             the cluster; for a node of a cluster that runs, begin with an empty directory and \
             --cluster-join",
            from.0
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use coeval_types::{Lsn, Timestamp};

    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        let own = Origin {
            database: 7,
            backup: Timestamp::new(Term(3), Lsn(73728)),
            taken_at: Duration::from_micros(5),
            sum: 9,
            position: Timestamp::new(Term(3), Lsn(65536)),
        };
        let restored = Origins::new(Some(own), false);
        assert_eq!(decode(&restored.encode(ASK)), Some((true, Some(own))));
        assert_eq!(decode(&restored.encode(ANSWER)), Some((false, Some(own))));
        let empty = Origins::new(None, false);
        assert_eq!(decode(&empty.encode(ANSWER)), Some((false, None)));
        for bad in [&b""[..], b"\x02", b"\0coeval"] {
            assert_eq!(decode(bad), None);
        }
    }

    #[test]
    fn only_a_founding_node_waits_for_the_origin_of_others() {
        let own = Origin {
            database: 7,
            backup: Timestamp::new(Term(3), Lsn(73728)),
            taken_at: Duration::ZERO,
            sum: 9,
            position: Timestamp::new(Term(3), Lsn(65536)),
        };
        assert!(!Origins::new(Some(own), false).admits(NodeId(2)));
        assert!(Origins::new(Some(own), true).admits(NodeId(2)));
        assert!(Origins::new(None, false).admits(NodeId(2)));
    }
}
