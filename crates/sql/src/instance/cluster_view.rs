//! The state of the cluster that this server is a node of, and cluster changes, as SQL
//! shows and requests them.
//!
//! The server reports the state ([`Host::cluster`](super::Host::cluster)) and performs
//! the changes ([`Host::change_cluster`](super::Host::change_cluster)); this module
//! defines the types of both.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use coeval_env::Location;

use crate::error::{Error, Result, SqlState};

/// State of a cluster, as one of its nodes knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Id of the cluster.
    pub id: String,
    /// Id of the node that reports this state.
    pub node: u64,
    /// Term of the reporting node.
    pub term: u64,
    /// Id of the leader, if known.
    pub leader: Option<u64>,
    /// Offset of the end of the reporting node's log.
    pub end: u64,
    /// Commit index: the log before this offset is committed, as far as the node knows.
    pub committed: u64,
    /// The cluster version in force; 0 when the node has not said it yet.
    pub version: u32,
    /// The highest cluster version that the reporting node's build reads; its setting may let
    /// the cluster rise to less.
    pub newest_version: u32,
    /// Members of the cluster, by node id, including the reporting node.
    pub members: Vec<ClusterMember>,
    /// Whether a membership change is not committed yet.
    pub is_changing: bool,
    /// Id of the node to which leadership is being transferred, if any.
    pub handing_over: Option<u64>,
    /// Elections that the reporting node knows of, oldest first.
    pub elections: Vec<ClusterElection>,
    /// Number of elections that the reporting node has observed since it started.
    pub elections_seen: u64,
    /// Number of connections from other nodes that this node has refused, by reason.
    pub refused: Vec<(&'static str, u64)>,
}

/// Role of a member in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRole {
    /// The member is the leader.
    Leader,
    /// The member votes, and is not the leader.
    Voter,
    /// The member receives the log and does not vote.
    Learner,
}

impl ClusterRole {
    /// Name of the role in SQL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Voter => "voter",
            Self::Learner => "learner",
        }
    }

    /// Whether a member with this role votes.
    #[must_use]
    pub const fn votes(self) -> bool {
        matches!(self, Self::Leader | Self::Voter)
    }
}

/// A member of the cluster, as the reporting node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// Id of the member.
    pub node: u64,
    /// Where the member listens for other nodes, by name or address, if known.
    pub address: Option<Location>,
    /// Role of the member.
    pub role: ClusterRole,
    /// Whether the reporting node is connected to the member; always true for itself.
    pub connected: bool,
    /// When the connection to the member was established, in microseconds since 2000 UTC.
    pub connected_since: Option<i64>,
    /// When the member was last heard from, in microseconds since 2000 UTC.
    pub heard: Option<i64>,
    /// Reason why the reporting node is not connected to the member.
    pub fault: Option<String>,
    /// Replication progress. A node knows its own; only the leader knows that of all
    /// members.
    pub progress: ClusterProgress,
    /// Whether the member needs a checkpoint, because the log that it lacks was deleted.
    pub needs_checkpoint: bool,
    /// The highest cluster version that the member says it reads, if the reporting node is
    /// connected to it.
    pub reads: Option<u32>,
    /// Whether the member says what it reads: builds that read the first version only do not.
    pub announces: bool,
    /// Network traffic between both nodes; `None` for the reporting node itself.
    pub traffic: Option<ClusterTraffic>,
}

/// Replication progress of a node: a log offset for each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterProgress {
    /// Log offset up to which the leader has sent the log to the node.
    pub sent: Option<u64>,
    /// Log offset up to which the node has received its leader's log.
    pub received: Option<u64>,
    /// Log offset up to which the node has made the log durable.
    pub flushed: Option<u64>,
    /// Log offset up to which the node knows the log to be committed.
    pub committed: Option<u64>,
    /// Log offset up to which the node has applied the log to its tables.
    pub replayed: Option<u64>,
    /// Log offset up to which the node shows the log to readers.
    pub visible: Option<u64>,
    /// How much less of the log the node shows to readers than is committed.
    pub lag: Option<ClusterLag>,
}

/// Replication lag of a node: how much less of the log it shows to readers than is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterLag {
    /// Bytes of committed log that the node does not show.
    pub bytes: u64,
    /// Age of the oldest commit that the node does not show; zero if it shows all.
    pub time: Duration,
}

impl ClusterProgress {
    /// The stages of which views and metrics show the lag, with their names.
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

/// Network traffic between two nodes since the reporting one was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterTraffic {
    /// Number of frames sent.
    pub sent_frames: u64,
    /// Number of bytes sent.
    pub sent_bytes: u64,
    /// Number of frames received.
    pub received_frames: u64,
    /// Number of bytes received.
    pub received_bytes: u64,
    /// Number of frames received and skipped, because this build does not know their
    /// kind.
    pub skipped_frames: u64,
    /// Number of connections that were established.
    pub connects: u64,
    /// Number of connection attempts that failed.
    pub failures: u64,
    /// Round-trip time of the last ping, in microseconds.
    pub round_trip: Option<u64>,
}

/// An election that a candidate has won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterElection {
    /// Term that the election began.
    pub term: u64,
    /// Id of the node that won.
    pub leader: u64,
    /// When the reporting node learned of the election, in microseconds since 2000 UTC.
    pub at: i64,
    /// Cause of the election, as far as the reporting node knows it.
    pub cause: Option<String>,
}

/// A change of the cluster that a superuser can request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// Adds a node to the cluster.
    Add {
        /// Id of the node to add.
        node: u64,
        /// Where the new node listens for other nodes, by name or address.
        address: Location,
    },
    /// Removes a node from the cluster.
    Remove {
        /// Id of the node to remove.
        node: u64,
    },
    /// Transfers leadership to another node.
    Transfer {
        /// Id of the new leader.
        node: u64,
    },
}

impl ClusterChange {
    /// Name of the SQL function that requests the change.
    pub(crate) const fn function(&self) -> &'static str {
        match self {
            Self::Add { .. } => "coeval.cluster_add",
            Self::Remove { .. } => "coeval.cluster_remove",
            Self::Transfer { .. } => "coeval.cluster_transfer",
        }
    }
}

/// Future of a change that the server is performing.
pub type Changing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// SQLSTATE 55000: the server is not a node of a cluster.
#[must_use]
pub fn alone() -> Error {
    Error::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        "this server is no node of a cluster",
    )
    .with_hint("A node has the settings of the section [cluster], among them node and members.")
}

/// Minimum replication lag, in bytes, that [`Cluster::condition`] mentions.
const FAR_BEHIND: u64 = 64 << 20;

impl Cluster {
    /// Number of voters, and of those the reporting node can reach, itself included.
    #[must_use]
    pub fn voters(&self) -> (usize, usize) {
        let voters = || self.members.iter().filter(|member| member.role.votes());
        (
            voters().count(),
            voters().filter(|member| member.connected).count(),
        )
    }

    /// Replication lag, in bytes, of a member that has reached log offset `reached`.
    #[must_use]
    pub fn lag(&self, reached: u64) -> u64 {
        self.end.saturating_sub(reached)
    }

    /// Whether the cluster has a leader and the reporting node reaches all voters.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let (voters, reached) = self.voters();
        self.leader.is_some() && reached == voters
    }

    /// Describes the cluster's condition in words, the most important first.
    #[must_use]
    pub fn condition(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.leader.is_none() {
            words.push(
                "no leader: statements wait until a majority of the voters has elected one"
                    .to_owned(),
            );
        }
        words.push(self.quorum());
        words.extend(self.versions());
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

    /// Describes the cluster version, and which members keep it from rising, why, and what to
    /// do about each.
    fn versions(&self) -> Option<String> {
        let next = self.version + 1;
        let what = format!("cluster version {}", self.version);
        if self.version == 0 || next > self.newest_version {
            return Some(what).filter(|_| self.version > 0);
        }
        let holds = |member: &&ClusterMember| member.reads.is_none_or(|reads| reads < next);
        let holds: Vec<String> = self
            .members
            .iter()
            .filter(holds)
            .map(|member| self.holds_back(member))
            .collect();
        Some(match holds.is_empty() {
            true => what,
            false => format!(
                "{what}; version {next} is held back by {}",
                holds.join(" and ")
            ),
        })
    }

    /// Why a member keeps the cluster version from rising.
    fn holds_back(&self, member: &ClusterMember) -> String {
        let node = member.node;
        let who = match member.role {
            ClusterRole::Leader => format!("node {node}, the leader"),
            _ => format!("node {node}"),
        };
        match member.reads {
            None => format!(
                "{who}, which is not connected (start it, or remove it: coeval cluster remove \
                 {node})"
            ),
            Some(reads) if node == self.node => format!(
                "{who}, whose build reads {}: its cluster_version_limit is {reads} (restart it \
                 without, once no way back to the build before is wanted)",
                self.newest_version
            ),
            Some(reads) if member.announces => format!(
                "{who}, which says that it reads up to {reads}: its cluster_version_limit is \
                 {reads}, or its build reads no more (restart it without the limit, with a build \
                 like that of node {})",
                self.node
            ),
            Some(reads) => {
                format!("{who}, whose build reads up to {reads} (upgrade it, and restart it)")
            }
        }
    }

    /// Describes how many more failures the cluster tolerates.
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

/// A number of bytes, displayed with a unit.
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
            connected_since: None,
            heard: None,
            fault: (!connected).then(|| "connection refused".to_owned()),
            progress: ClusterProgress::default(),
            needs_checkpoint: false,
            reads: None,
            announces: true,
            traffic: None,
        }
    }

    #[test]
    fn the_members_that_hold_the_version_back_are_named() {
        let member = |node, reads| ClusterMember {
            reads,
            ..member(node, ClusterRole::Voter, reads.is_some())
        };
        let cluster = |version, third| Cluster {
            version,
            newest_version: 2,
            members: vec![member(1, Some(2)), member(2, Some(2)), member(3, third)],
            ..Cluster::default()
        };
        let said = |version, third| cluster(version, third).versions();
        let held = "cluster version 1; version 2 is held back by node 3, which";
        let limit = "its cluster_version_limit is 1, or its build reads no more";
        let said_by_it = said(1, Some(1)).unwrap();
        let expected = format!("{held} says that it reads up to 1: {limit} (restart it without");
        assert!(said_by_it.starts_with(&expected), "{said_by_it}");
        let absent = said(1, None).unwrap();
        let expected = format!("{held} is not connected (start it, or remove it: coeval cluster");
        assert!(absent.starts_with(&expected), "{absent}");
        assert_eq!(said(1, Some(2)), Some("cluster version 1".to_owned()));
        assert_eq!(said(2, Some(1)), Some("cluster version 2".to_owned()));
        assert_eq!(said(0, None), None);
        let mut old = cluster(1, Some(1));
        old.members[2].announces = false;
        let old = old.versions().unwrap();
        let expected = "held back by node 3, whose build reads up to 1 (upgrade it";
        assert!(old.contains(expected), "{old}");
        // The node that reports is the leader, and holds it back by its setting.
        let mut own = cluster(1, Some(2));
        own.node = 1;
        own.members[0].role = ClusterRole::Leader;
        own.members[0].reads = Some(1);
        let own = own.versions().unwrap();
        let expected = "held back by node 1, the leader, whose build reads 2: its \
                        cluster_version_limit is 1 (restart it without";
        assert!(own.contains(expected), "{own}");
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
        assert!(cluster.condition()[0].starts_with("no leader"));
    }
}
