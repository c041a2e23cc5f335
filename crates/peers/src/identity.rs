//! Identities: the ids of clusters and nodes, and the members that a node knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::str::FromStr;

pub use coeval_types::NodeId;

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
    /// Addresses at which the members listen for other nodes.
    pub addresses: BTreeMap<NodeId, SocketAddr>,
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
