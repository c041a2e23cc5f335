//! The peer set: the nodes that this node connects to and accepts connections from.
//!
//! The log names the members by id. Their addresses come from the settings, from the
//! request that adds a node, and from the nodes themselves when they connect.
//!
//! ```text
//!   settings  1 2 3 6      log, so far  {1 2 3} {1 2 3 4} {1 2 4}
//!   connects to as settings say      1 2 6      6 may be a node about to be added
//!   accepted, to learn its address   4
//!   refused as removed               3
//! ```
//!
//! This node refuses a voter's connection while that voter says it is a newcomer
//! (`admission`).
//!
//! A node that the settings name and the log does not is connected to, because the local
//! log may be old: a joining node reads of members that left long ago, and receives its
//! log from a leader that it has not read of yet. See decision 0025.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use coeval_consensus::{Consensus, FIRST_VERSION, Membership, NodeId as Member};
use coeval_env::Location;
use coeval_log::Founders;
use coeval_peers::{DirectoryId, Members, NodeId};
use coeval_types::{Protocol, planted};

use super::member_lists::MemberList;

#[derive(Debug)]
pub(super) struct PeerSet {
    own: NodeId,
    addresses: BTreeMap<NodeId, Location>,
    /// All nodes that committed changes have made members at any time.
    ever: BTreeSet<NodeId>,
    /// The last committed membership.
    committed: Membership,
    /// Members now, plus those that only uncommitted changes have removed.
    now: BTreeSet<NodeId>,
    /// Voters now, plus those that only uncommitted changes have removed.
    voters: BTreeSet<NodeId>,
    /// Set while this node has joined with an empty disk and was not admitted yet: the
    /// number that distinguishes it from nodes that had its id before.
    newcomer: Option<NonZeroU64>,
    /// The current membership, which names a version and directories.
    members: Membership,
    /// What this node says of itself: the version that it reads, its directory, and whether
    /// it is founding the cluster.
    reads: u32,
    directory: Option<DirectoryId>,
    founds: bool,
    /// The founders that this node has written down.
    founders: Option<Founders>,
    /// Whether another node has said that this one was removed.
    is_removed: bool,
}

fn ids(members: impl IntoIterator<Item = Member>) -> BTreeSet<NodeId> {
    members.into_iter().map(|node| NodeId(node.0)).collect()
}

impl PeerSet {
    pub(super) fn new(
        own: NodeId,
        settings: BTreeMap<NodeId, Location>,
        ever: impl IntoIterator<Item = Member>,
        consensus: &Consensus,
        is_newcomer: bool,
    ) -> Self {
        Self {
            own,
            addresses: settings,
            ever: ids(ever),
            committed: Membership::default(),
            now: ids(consensus.takes_part()),
            voters: ids(consensus.voters_so_far()),
            members: consensus.status().membership,
            reads: FIRST_VERSION,
            directory: None,
            founds: false,
            founders: None,
            is_removed: false,
            newcomer: match is_newcomer {
                true => Some(NonZeroU64::MIN | coeval_env::random_u64()),
                false => None,
            },
        }
    }

    /// Sets what this node says of itself.
    pub(super) fn introduce(&mut self, reads: u32, directory: Option<DirectoryId>, founds: bool) {
        (self.reads, self.directory, self.founds) = (reads, directory, founds);
    }

    /// This node has written down the founders; it takes part if they are done.
    pub(super) fn founded(&mut self, founders: &Founders) {
        self.founds = self.founds && !founders.is_done;
        self.founders = Some(founders.clone());
    }

    /// The founders that this node has written down, if it has founded its cluster.
    pub(super) fn founding_members(&self) -> Option<MemberList> {
        let founders = self.founders.as_ref()?;
        let nodes = founders.directories.iter().map(|(node, _)| NodeId(*node));
        Some(MemberList(nodes.collect()))
    }

    /// Another node has said that this one was removed.
    pub(super) fn note_removed(&mut self) {
        self.is_removed = true;
    }

    /// Sets the current members and voters, each including those before uncommitted
    /// changes, the committed membership if there are no such changes, and the membership
    /// in force. Returns whether members, voters, version or directories have changed.
    pub(super) fn take_part(
        &mut self,
        now: impl IntoIterator<Item = Member>,
        voters: impl IntoIterator<Item = Member>,
        committed: Option<&Membership>,
        in_force: &Membership,
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
        let named = std::mem::replace(&mut self.members, in_force.clone());
        (&self.now, &self.voters) != (&before.0, &before.1)
            || named.version() != in_force.version()
            || named.directories().ne(in_force.directories())
    }

    /// This node has been admitted.
    pub(super) fn admitted(&mut self) {
        self.newcomer = None;
    }

    /// The number that this node announces as a newcomer.
    pub(super) fn newcomer(&self) -> Option<NonZeroU64> {
        self.newcomer
    }

    /// Records where a node listens.
    pub(super) fn add(&mut self, node: NodeId, address: Location) {
        self.addresses.insert(node, address);
    }

    /// Where a node listens, if this node knows it.
    pub(super) fn address(&self, node: NodeId) -> Option<Location> {
        self.addresses.get(&node).cloned()
    }

    /// Whether a node has been a member and is none any more.
    pub(super) fn is_removed(&self, node: NodeId) -> bool {
        self.ever.contains(&node) && !self.now.contains(&node)
    }

    /// The peer set in the form that the connections take.
    pub(super) fn members(&self) -> Members {
        let known = self.addresses.iter();
        let known = known.filter(|(node, _)| **node == self.own || !self.is_removed(**node));
        let addresses: BTreeMap<_, _> = known.map(|(node, at)| (*node, at.clone())).collect();
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
            protocol: Protocol::Leader,
            version: self.members.version(),
            directories: self
                .members
                .directories()
                .map(|(node, id)| (NodeId(node.0), id))
                .collect(),
            reads: self.reads,
            directory: self.directory,
            founds: self.founds,
            founders: self
                .founders
                .iter()
                .flat_map(|founders| &founders.directories)
                .filter_map(|(node, id)| Some((NodeId(*node), (*id)?)))
                .collect(),
            founders_digest: self.founders.as_ref().map(Founders::digest),
            vouched: self
                .founders
                .iter()
                .filter(|founders| founders.is_done && !planted!(FoundAtOnce))
                .flat_map(|founders| &founders.directories)
                .filter_map(|(node, id)| id.is_none().then_some(NodeId(*node)))
                .collect(),
            is_removed: self.is_removed,
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
                Location::from(([127, 0, 0, 1], 7000 + node as u16)),
            )
        };
        let settings: BTreeMap<_, _> = [1, 2, 3, 6].map(at).into();
        let founders = Membership::new(members(&[1, 2, 3]), []);
        let restored = Restored::empty(founders);
        let consensus = Consensus::new(Member(1), Settings::default(), &restored, 7);
        let consensus = consensus.expect("sound");
        let ever = members(&[1, 2, 3]);
        let mut peer_set = PeerSet::new(NodeId(1), settings.clone(), ever, &consensus, false);
        assert_eq!(peer_set.members().addresses, settings);
        let open = None;
        let before = Membership::new(members(&[1, 2, 3, 4]), []);
        let all = || members(&[1, 2, 3, 4]);
        assert!(peer_set.take_part(all(), members(&[1, 2, 3]), open, &before));
        assert!(!peer_set.take_part(all(), members(&[1, 2, 3]), open, &before));
        assert!(peer_set.take_part(all(), all(), open, &before));
        assert!(!peer_set.take_part(all(), all(), Some(&before), &before));
        let after = Membership::new(members(&[1, 2, 4]), []);
        let left = || members(&[1, 2, 4]);
        assert!(peer_set.take_part(left(), left(), Some(&after), &after));
        let expected = Members {
            addresses: [1, 2, 6].map(at).into(),
            expected: [NodeId(4)].into(),
            removed: [NodeId(3)].into(),
            voters: [1, 2, 4].map(NodeId).into(),
            version: 1,
            reads: 1,
            ..Members::default()
        };
        assert_eq!(peer_set.members(), expected);
        // A node whose membership was never committed can be added at any time.
        peer_set.take_part(members(&[1, 2, 4, 5]), left(), open, &after);
        peer_set.take_part(left(), left(), Some(&after), &after);
        assert!(peer_set.is_removed(NodeId(3)) && !peer_set.is_removed(NodeId(5)));
    }
}
