//! Identities: the ids of clusters and nodes, and the members that a node knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use coeval_env::Location;
pub use coeval_types::{DirectoryId, NodeId};
use coeval_types::{Protocol, planted};

use crate::refusal::{Reason, Refusal};

/// A cluster's id, generated at random when the cluster is founded, so that nodes of two
/// clusters never accept each other. It is not a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// A random id, which no other cluster has.
    #[must_use]
    pub fn draw() -> Self {
        let mut bytes = [0; 16];
        coeval_env::random_bytes(&mut bytes);
        Self(u128::from_le_bytes(bytes))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cluster {self}")
    }
}

/// A text is not 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster's id is 32 hexadecimal digits")]
pub struct NotAClusterId;

impl FromStr for ClusterId {
    type Err = NotAClusterId;

    fn from_str(text: &str) -> Result<Self, NotAClusterId> {
        let digits = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(Self).ok_or(NotAClusterId)
    }
}

/// A node's full identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster of the node.
    pub cluster: ClusterId,
    /// The node's id in the cluster.
    pub node: NodeId,
}

/// The members that a node knows. Its own id may be among them; no node connects to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Where the members listen for other nodes. A host name is looked up at each attempt to
    /// connect.
    pub addresses: BTreeMap<NodeId, Location>,
    /// Members whose address is not known. They are accepted, and from then on connected to
    /// at the address that they announce.
    pub expected: BTreeSet<NodeId>,
    /// Former members, whose connections are refused as removed.
    pub removed: BTreeSet<NodeId>,
    /// Members whose votes and acknowledgements count. A voter that announces itself as a
    /// newcomer is refused: it has lost its votes and acknowledgements.
    pub voters: BTreeSet<NodeId>,
    /// Set while this node has joined with an empty directory and was not admitted yet: the
    /// random number of this process that it announces in its hello.
    pub newcomer: Option<NonZeroU64>,
    /// The cluster version in force; 0 counts as the first. A member that reads less is
    /// refused.
    pub version: u32,
    /// The data directories of the members that are known by theirs. A member with another
    /// one is refused: it has lost its disk, or has other data in its place.
    pub directories: BTreeMap<NodeId, DirectoryId>,
    /// The highest cluster version that this node reads; 0 counts as the first.
    pub reads: u32,
    /// This node's own data directory, once it has an identity.
    pub directory: Option<DirectoryId>,
    /// Whether this node is founding the cluster: its directory holds no log, and it neither
    /// votes nor acknowledges.
    pub founds: bool,
    /// The directories of the founders, if this node has founded the cluster. One that has
    /// not finished founding is let in.
    pub founders: BTreeMap<NodeId, DirectoryId>,
    /// Digest of the founders that this node has written down.
    pub founders_digest: Option<u128>,
    /// The founders without whose word this node has founded the cluster. None of them is let
    /// in, with whatever directory it comes.
    pub vouched: BTreeSet<NodeId>,
    /// The protocol of this node's cluster. A node of another one is refused.
    pub protocol: Protocol,
    /// Whether this node knows that its cluster has removed it. It then connects to no node for
    /// good, so that none counts it among those that it reaches.
    pub is_removed: bool,
}

/// What a node announces of itself to another one in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The highest cluster version that the node reads.
    pub reads: u32,
    /// The identity of its data directory.
    pub directory: Option<DirectoryId>,
    /// Whether the node is founding the cluster, with no log.
    pub founds: bool,
    /// Digest of the founders that the node has written down.
    pub founders: Option<u128>,
}

/// The cluster version that a node reads which announces none.
const FIRST_VERSION: u32 = 1;

impl Announcement {
    /// What a node says that announces nothing.
    pub const NOTHING: Self = Self {
        reads: FIRST_VERSION,
        directory: None,
        founds: false,
        founders: None,
    };
}

impl Members {
    /// What this node announces; `None` if that is what a node says that announces nothing.
    pub(crate) fn announcement(&self) -> Option<Announcement> {
        let announced = Announcement {
            reads: self.reads.max(FIRST_VERSION),
            directory: self.directory,
            founds: self.founds,
            founders: self.founders_digest,
        };
        Some(announced).filter(|announced| *announced != Announcement::NOTHING)
    }

    /// Whether a member that announces this is the member that the others know, and reads
    /// what they write. The text of the refusal is for the administrators of both.
    pub(crate) fn judge(
        &self,
        node: NodeId,
        own: NodeId,
        announced: Option<&Announcement>,
    ) -> Result<(), Refusal> {
        let refuse = |reason, words: String| Err(Refusal::new(reason, words));
        if self.is_removed {
            let words = format!(
                "node {own} has been removed from the cluster, as another member has told it, and \
                 takes no part"
            );
            // Of the node that connects this says nothing.
            return refuse(Reason::Other, words);
        }
        let reads = announced.map_or(FIRST_VERSION, |announced| announced.reads);
        if reads < self.version {
            let version = self.version;
            let words = format!(
                "the cluster's version is {version}, and node {node} says that it reads up to \
                 {reads}: {}",
                match announced {
                    None => format!(
                        "it runs a build that reads no more; start it with one that reads version \
                         {version}, as node {own} has"
                    ),
                    Some(_) => format!(
                        "its cluster_version_limit is {reads}, or its build reads no more; start \
                         it without the limit, and with a build that reads version {version}"
                    ),
                }
            );
            return refuse(Reason::Reads, words);
        }
        let directory = announced.and_then(|announced| announced.directory);
        let known = self.directories.get(&node).copied();
        let is_known = known.is_some() && known == directory;
        if self.vouched.contains(&node) && !is_known && !planted!(AdoptVouched) {
            let words = format!(
                "node {node} was left out when the cluster was founded (--cluster-without {node}): \
                 whatever it holds is not of this cluster; have it removed (coeval cluster remove \
                 {node}), and add its machine with an empty directory under an id that was never \
                 used"
            );
            return refuse(Reason::Founded, words);
        }
        if known.is_some() && !is_known && !planted!(VoteWithUnknownIdentity) {
            let words = format!(
                "node {node} has another directory than the one that the cluster knows it by: its \
                 disk was replaced or an old copy restored, and what it had acknowledged may be \
                 lost; have it removed (coeval cluster remove {node}), and add its machine under \
                 an id that was never used"
            );
            return refuse(Reason::Directory, words);
        }
        let founds = announced.is_some_and(|announced| announced.founds);
        let is_founder = directory.is_some() && self.founders.get(&node).copied() == directory;
        if founds && !is_known && !is_founder && !self.founds && !planted!(VoteWithUnknownIdentity)
        {
            let words = format!(
                "node {node} is started to found the cluster, with an empty directory, and node \
                 {own} holds the cluster's log: if node {node} was a member, what it had \
                 acknowledged is lost; have it removed (coeval cluster remove {node}), and add its \
                 machine under an id that was never used"
            );
            return refuse(Reason::Founded, words);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_reads_back_what_it_shows() {
        for id in [
            ClusterId(0),
            ClusterId(7),
            ClusterId(u128::MAX),
            ClusterId::draw(),
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_ne!(ClusterId::draw(), ClusterId::draw());
        for wrong in ["", "7", "+0000000000000000000000000000007", &"g".repeat(32)] {
            assert_eq!(wrong.parse::<ClusterId>(), Err(NotAClusterId), "{wrong}");
        }
    }
}
