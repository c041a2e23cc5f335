//! The cluster that a server is a node of, as SQL shows it.
//!
//! The server says how it is ([`Host::cluster`](super::Host::cluster)) and does what is
//! asked ([`Host::change_cluster`](super::Host::change_cluster)); here are the words for
//! both.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use crate::error::{Error, Result, SqlState};

/// A cluster, as one of its nodes sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its id.
    pub id: String,
    /// The node that says so.
    pub node: u64,
    /// Its term.
    pub term: u64,
    /// Who leads, if that is known.
    pub leader: Option<u64>,
    /// Where this node's log ends.
    pub end: u64,
    /// Everything before is committed, as far as this node knows.
    pub committed: u64,
    /// Who takes part, by node; this node, too.
    pub members: Vec<ClusterMember>,
    /// A change of members is not committed yet.
    pub is_changing: bool,
    /// To whom leadership is handed over, if it is.
    pub handing_over: Option<u64>,
    /// The elections that this node knows of, the oldest first.
    pub elections: Vec<ClusterElection>,
    /// How many it has heard of since it was started.
    pub elections_seen: u64,
    /// Connections of other nodes to this one that came to nothing, by why.
    pub refused: Vec<(&'static str, u64)>,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRole {
    /// It leads.
    Leader,
    /// It votes.
    Voter,
    /// It gets the log and does not vote.
    Learner,
}

impl ClusterRole {
    /// Its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Voter => "voter",
            Self::Learner => "learner",
        }
    }

    /// Whether it votes.
    #[must_use]
    pub const fn votes(self) -> bool {
        matches!(self, Self::Leader | Self::Voter)
    }
}

/// A node of a cluster, as another sees it, or it itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// Which node.
    pub node: u64,
    /// Where it listens for nodes, if that is known.
    pub address: Option<SocketAddr>,
    /// What it is.
    pub role: ClusterRole,
    /// Whether there is a connection to it; to itself there always is.
    pub connected: bool,
    /// When it last showed that it is there, in microseconds since 2000 UTC.
    pub heard: Option<i64>,
    /// Why there is no connection.
    pub fault: Option<String>,
    /// How far it is, where that is known: of itself, and of all by the leader.
    pub progress: ClusterProgress,
    /// The log that it lacks is gone: it waits for a checkpoint.
    pub needs_checkpoint: bool,
    /// What has gone to and fro; nothing with itself.
    pub traffic: Option<ClusterTraffic>,
}

/// How far a node is, by stage: the log up to here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterProgress {
    /// Was sent to it.
    pub sent: Option<u64>,
    /// Is on its disk.
    pub flushed: Option<u64>,
    /// Is committed, and it knows.
    pub committed: Option<u64>,
    /// Is in its tables.
    pub replayed: Option<u64>,
}

impl ClusterProgress {
    /// The stages, by name.
    pub fn stages(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        [
            ("sent", self.sent),
            ("flushed", self.flushed),
            ("committed", self.committed),
            ("replayed", self.replayed),
        ]
        .into_iter()
    }
}

/// What has gone between two nodes since the one that says so was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterTraffic {
    /// Frames sent.
    pub sent_frames: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Frames received that were skipped, as this build does not know their kind.
    pub skipped_frames: u64,
    /// Connections that stood.
    pub connects: u64,
    /// Tries that came to none.
    pub failures: u64,
    /// How long the last ping took to come back, in microseconds.
    pub round_trip: Option<u64>,
}

/// An election that was won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterElection {
    /// The term it began.
    pub term: u64,
    /// Who won.
    pub leader: u64,
    /// When this node heard of it, in microseconds since 2000 UTC.
    pub at: i64,
    /// Why there was one, as far as this node knows.
    pub cause: Option<String>,
}

/// What can be changed of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// Another node takes part.
    Add {
        /// Which.
        node: u64,
        /// Where it listens for nodes.
        address: SocketAddr,
    },
    /// A node takes part no more.
    Remove {
        /// Which.
        node: u64,
    },
    /// Another node leads.
    Transfer {
        /// Which.
        node: u64,
    },
}

impl ClusterChange {
    /// The function that asks for it.
    pub(crate) const fn function(self) -> &'static str {
        match self {
            Self::Add { .. } => "coeval.cluster_add",
            Self::Remove { .. } => "coeval.cluster_remove",
            Self::Transfer { .. } => "coeval.cluster_transfer",
        }
    }
}

/// A change that is under way.
pub type Changing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// 55000: there is no cluster.
#[must_use]
pub fn alone() -> Error {
    Error::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        "this server is no node of a cluster",
    )
    .with_hint("A node has the settings of the section [cluster], among them node and members.")
}

/// A log that far behind is worth a word, in bytes.
const FAR_BEHIND: u64 = 64 << 20;

impl Cluster {
    /// How many vote, and how many of those this node can reach, itself included.
    #[must_use]
    pub fn voters(&self) -> (usize, usize) {
        let voters = || self.members.iter().filter(|member| member.role.votes());
        (
            voters().count(),
            voters().filter(|member| member.connected).count(),
        )
    }

    /// How far a member is behind at a stage that it has reached that log position of.
    #[must_use]
    pub fn lag(&self, reached: u64) -> u64 {
        self.end.saturating_sub(reached)
    }

    /// Whether everything is as it should be: somebody leads, and reaches all who vote.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let (voters, reached) = self.voters();
        self.leader.is_some() && reached == voters
    }

    /// How it is, in words, the most important first.
    #[must_use]
    pub fn condition(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.leader.is_none() {
            words.push(
                "nobody leads: statements wait until a majority of the voters has elected a leader"
                    .to_owned(),
            );
        }
        words.push(self.quorum());
        if self.is_changing {
            words.push("a change of members is under way".to_owned());
        }
        if let Some(node) = self.handing_over {
            words.push(format!("node {node} is being handed leadership"));
        }
        for member in &self.members {
            if !member.connected {
                let mut text = format!("node {} is not connected", member.node);
                if let Some(fault) = &member.fault {
                    text.push_str(": ");
                    text.push_str(fault);
                }
                words.push(text);
            }
            if let (true, Some(flushed)) = (self.leader.is_some(), member.progress.flushed) {
                let lag = self.lag(flushed);
                if lag > FAR_BEHIND {
                    words.push(format!("node {} is {} behind", member.node, Bytes(lag)));
                }
            }
            if member.needs_checkpoint {
                words.push(format!(
                    "node {} waits for a checkpoint: the log that it lacks is gone",
                    member.node
                ));
            }
            if member.role == ClusterRole::Learner {
                words.push(format!(
                    "node {} does not vote: it is a learner until it has caught up",
                    member.node
                ));
            }
        }
        words
    }

    /// What may fail.
    fn quorum(&self) -> String {
        let (voters, reached) = self.voters();
        let majority = voters / 2 + 1;
        let what = format!("{reached} of {voters} voters reachable");
        match reached.checked_sub(majority) {
            None => format!("{what}; writes wait until there are {majority}"),
            Some(0) if voters == 1 => {
                format!("{what}; if it fails, the cluster stands still: add two nodes")
            }
            Some(0) => format!("{what}; one more failure stops writes"),
            Some(1) => format!("{what}; one may fail"),
            Some(spare) => format!("{what}; {spare} may fail"),
        }
    }
}

/// Bytes for people.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ ..10_240 => write!(formatter, "{bytes} bytes"),
            bytes @ ..10_485_760 => write!(formatter, "{} kB", bytes >> 10),
            bytes => write!(formatter, "{} MB", bytes >> 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u64, role: ClusterRole, connected: bool) -> ClusterMember {
        ClusterMember {
            node,
            address: None,
            role,
            connected,
            heard: None,
            fault: (!connected).then(|| "connection refused".to_owned()),
            progress: ClusterProgress::default(),
            needs_checkpoint: false,
            traffic: None,
        }
    }

    fn cluster(voters: u64, reached: u64) -> Cluster {
        let member = |node| match node {
            1 => member(1, ClusterRole::Leader, true),
            node => member(node, ClusterRole::Voter, node <= reached),
        };
        Cluster {
            node: 1,
            leader: Some(1),
            members: (1..=voters).map(member).collect(),
            ..Cluster::default()
        }
    }

    #[test]
    fn what_may_fail_is_said_in_words() {
        let cases = [
            (
                1,
                1,
                "1 of 1 voters reachable; if it fails, the cluster stands still: add two nodes",
            ),
            (
                2,
                2,
                "2 of 2 voters reachable; one more failure stops writes",
            ),
            (3, 3, "3 of 3 voters reachable; one may fail"),
            (
                3,
                2,
                "2 of 3 voters reachable; one more failure stops writes",
            ),
            (
                3,
                1,
                "1 of 3 voters reachable; writes wait until there are 2",
            ),
            (5, 5, "5 of 5 voters reachable; 2 may fail"),
            (
                5,
                2,
                "2 of 5 voters reachable; writes wait until there are 3",
            ),
        ];
        for (voters, reached, words) in cases {
            let cluster = cluster(voters, reached);
            assert_eq!(cluster.condition()[0], words);
            assert_eq!(cluster.is_sound(), voters == reached);
        }
    }

    #[test]
    fn what_is_wrong_with_a_member_is_said_too() {
        let mut cluster = cluster(3, 2);
        cluster.end = 100 << 20;
        cluster.members[1].progress.flushed = Some(1 << 20);
        cluster.members[1].needs_checkpoint = true;
        cluster.handing_over = Some(2);
        cluster.members.push(member(4, ClusterRole::Learner, true));
        assert_eq!(
            cluster.condition()[1..],
            [
                "node 2 is being handed leadership",
                "node 2 is 99 MB behind",
                "node 2 waits for a checkpoint: the log that it lacks is gone",
                "node 3 is not connected: connection refused",
                "node 4 does not vote: it is a learner until it has caught up",
            ]
        );
        cluster.leader = None;
        assert!(cluster.condition()[0].starts_with("nobody leads"));
    }
}
