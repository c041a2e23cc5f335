//! Whom this node talks to.
//!
//! The log says who takes part, by ids. Where they listen is said by the settings, by
//! whoever adds a node, and by the nodes themselves when they connect.
//!
//! ```text
//!   settings  1 2 3 6      log, so far  {1 2 3} {1 2 3 4} {1 2 4}
//!   talked to where settings say     1 2 6      6 may be one that is to be added
//!   let in, to say where they are    4
//!   refused as removed               3
//! ```
//!
//! A voter is not let in as long as it says that it is a newcomer (`admission`).
//!
//! Somebody who is not in the log yet, but in the settings, is talked to because the log
//! here may be old: a node that joins reads of members that have gone long ago, and has its
//! log from a leader that it has not read of yet. See decision 0025.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU64;

use coeval_consensus::{Consensus, Membership, NodeId as Member};
use coeval_peers::{Members, NodeId};
use coeval_types::planted;

#[derive(Debug)]
pub(super) struct Neighbours {
    own: NodeId,
    addresses: BTreeMap<NodeId, SocketAddr>,
    /// Who has taken part at any time, as is committed.
    ever: BTreeSet<NodeId>,
    /// The last of that.
    committed: Membership,
    /// Who does now, or did before changes that are not committed.
    now: BTreeSet<NodeId>,
    /// Whose vote counts, or did before changes that are not committed.
    voters: BTreeSet<NodeId>,
    /// This node has joined with nothing, and was not admitted yet: this is how it is told
    /// from those who had its id before.
    newcomer: Option<NonZeroU64>,
}

fn ids(members: impl IntoIterator<Item = Member>) -> BTreeSet<NodeId> {
    members.into_iter().map(|node| NodeId(node.0)).collect()
}

impl Neighbours {
    pub(super) fn new(
        own: NodeId,
        settings: BTreeMap<NodeId, SocketAddr>,
        ever: impl IntoIterator<Item = Member>,
        consensus: &Consensus,
    ) -> Self {
        Self {
            own,
            addresses: settings,
            ever: ids(ever),
            committed: Membership::default(),
            now: ids(consensus.takes_part()),
            voters: ids(consensus.voters_so_far()),
            newcomer: match consensus.is_newcomer() {
                true => Some(NonZeroU64::MIN | coeval_env::random_u64()),
                false => None,
            },
        }
    }

    /// These take part now, or did before changes that are not committed, and of these the
    /// vote counts; and these, if there are no such changes. Whether one of the former is news.
    pub(super) fn take_part(
        &mut self,
        now: impl IntoIterator<Item = Member>,
        voters: impl IntoIterator<Item = Member>,
        committed: Option<&Membership>,
    ) -> bool {
        if let Some(committed) = committed
            && self.committed != *committed
        {
            self.committed = committed.clone();
            self.ever.extend(ids(committed.members()));
        }
        let before = (
            std::mem::replace(&mut self.now, ids(now)),
            std::mem::replace(&mut self.voters, ids(voters)),
        );
        (&self.now, &self.voters) != (&before.0, &before.1)
    }

    /// This node has been admitted.
    pub(super) fn admitted(&mut self) {
        self.newcomer = None;
    }

    /// What it says as a newcomer.
    pub(super) fn newcomer(&self) -> Option<NonZeroU64> {
        self.newcomer
    }

    /// A node listens there.
    pub(super) fn add(&mut self, node: NodeId, address: SocketAddr) {
        self.addresses.insert(node, address);
    }

    /// Where a node listens, as far as that has been said to this one.
    pub(super) fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.addresses.get(&node).copied()
    }

    /// Whether a node has taken part, and does not any more.
    pub(super) fn is_removed(&self, node: NodeId) -> bool {
        self.ever.contains(&node) && !self.now.contains(&node)
    }

    /// All of that, as connections take it.
    pub(super) fn members(&self) -> Members {
        let known = self.addresses.iter();
        let known = known.filter(|(node, _)| **node == self.own || !self.is_removed(**node));
        let addresses: BTreeMap<_, _> = known.map(|(node, at)| (*node, *at)).collect();
        let is_unknown = |node: &NodeId| !addresses.contains_key(node) && *node != self.own;
        let mut voters = self.voters.clone();
        if planted!(TrustNewcomers) {
            voters.clear();
        }
        Members {
            expected: self.now.iter().copied().filter(is_unknown).collect(),
            removed: self.ever.difference(&self.now).copied().collect(),
            voters,
            newcomer: self.newcomer,
            addresses,
        }
    }
}

#[cfg(test)]
mod tests {
    use coeval_consensus::{Restored, Settings};

    use super::*;

    fn members(nodes: &[u64]) -> Vec<Member> {
        nodes.iter().copied().map(Member).collect()
    }

    #[test]
    fn the_example_is_as_it_says() {
        let at = |node| {
            (
                NodeId(node),
                SocketAddr::from(([127, 0, 0, 1], 7000 + node as u16)),
            )
        };
        let settings: BTreeMap<_, _> = [1, 2, 3, 6].map(at).into();
        let founders = Membership::new(members(&[1, 2, 3]), []);
        let restored = Restored::empty(founders);
        let consensus = Consensus::new(Member(1), Settings::default(), &restored, 7);
        let consensus = consensus.expect("sound");
        let ever = members(&[1, 2, 3]);
        let mut neighbours = Neighbours::new(NodeId(1), settings.clone(), ever, &consensus);
        assert_eq!(neighbours.members().addresses, settings);
        let open = None;
        let all = || members(&[1, 2, 3, 4]);
        assert!(neighbours.take_part(all(), members(&[1, 2, 3]), open));
        assert!(!neighbours.take_part(all(), members(&[1, 2, 3]), open));
        assert!(neighbours.take_part(all(), all(), open));
        let before = Membership::new(all(), []);
        assert!(!neighbours.take_part(all(), all(), Some(&before)));
        let after = Membership::new(members(&[1, 2, 4]), []);
        let left = || members(&[1, 2, 4]);
        assert!(neighbours.take_part(left(), left(), Some(&after)));
        let expected = Members {
            addresses: [1, 2, 6].map(at).into(),
            expected: [NodeId(4)].into(),
            removed: [NodeId(3)].into(),
            voters: [1, 2, 4].map(NodeId).into(),
            newcomer: None,
        };
        assert_eq!(neighbours.members(), expected);
        // A node that was never in for good can be added at any time.
        neighbours.take_part(members(&[1, 2, 4, 5]), left(), open);
        neighbours.take_part(left(), left(), Some(&after));
        assert!(neighbours.is_removed(NodeId(3)) && !neighbours.is_removed(NodeId(5)));
    }
}
