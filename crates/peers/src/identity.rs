//! Who a node is, and whom it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::str::FromStr;

pub use coeval_types::NodeId;

/// Which cluster: drawn once, when it is founded, so that nodes of two clusters never
/// take each other for their own. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// One that no other cluster has.
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

/// Who somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Of which cluster.
    pub cluster: ClusterId,
    /// Which node of it.
    pub node: NodeId,
}

/// Whom a node knows. Its own id may be among them; nobody connects to themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Where each of them listens for the others.
    pub addresses: BTreeMap<NodeId, SocketAddr>,
    /// Of whom it is not known where they listen. They are let in, and connected to where
    /// they then say that they do.
    pub expected: BTreeSet<NodeId>,
    /// Who has been one, and is told so.
    pub removed: BTreeSet<NodeId>,
    /// Whose word counts. None of them is let in who says that it is a newcomer: it has lost
    /// what it gave its word for.
    pub voters: BTreeSet<NodeId>,
    /// This node itself has joined with nothing and was not admitted yet. It says so, by a
    /// number that it has drawn for this life of its process.
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
