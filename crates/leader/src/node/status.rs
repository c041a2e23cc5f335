//! The status report of a node, its connections and its followers, for administrators.

use std::time::Duration;

use coeval_consensus::{FIRST_VERSION, FollowerStatus, NodeId as Member, Stage};
use coeval_env::Location;
use coeval_peers::{Connection, DirectoryId, DoorStatus, NodeId, PeerStatus};
use coeval_types::{Lsn, Term};

use super::cluster_version::announced;
use super::driver::Driver;
use super::{
    ApplyProgress, Election, Lag, NEWEST_VERSION, NodeStatus, QuestionCounts, ReadIndexCounts, Role,
};

/// Status of a node, its connections and its followers, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The node that reports.
    pub node: NodeId,
    /// The reporting node's current term.
    pub term: Term,
    /// The reporting node's role.
    pub role: Role,
    /// The leader, as far as the reporting node knows.
    pub leader: Option<NodeId>,
    /// Log offset before which everything is known to be committed.
    pub committed: Lsn,
    /// Log offset before which everything is on the node's disk.
    pub durable: Lsn,
    /// End of the node's log.
    pub end: Lsn,
    /// The cluster version in force: what members write.
    pub cluster_version: u32,
    /// The highest cluster version that the reporting node's build reads; its setting may let
    /// the cluster rise to less.
    pub newest_version: u32,
    /// The member that has said that the reporting node was removed from the cluster.
    pub removed_by: Option<NodeId>,
    /// Whether a change of members is not committed yet.
    pub is_changing: bool,
    /// The voter to which leadership is being transferred, if any.
    pub handing_over: Option<NodeId>,
    /// All members, ordered by id.
    pub members: Vec<MemberStatus>,
    /// Known nodes that are no members, as the connections report them.
    pub others: Vec<PeerStatus>,
    /// The last 64 elections that the node has seen since its start, oldest first.
    pub elections: Vec<Election>,
    /// Counters of the listener for connections from other nodes.
    pub door: DoorStatus,
    /// Counters of the read index, over the node's terms.
    pub read_index: ReadIndexCounts,
    /// Counters of the questions that the node has asked while it followed.
    pub questions: QuestionCounts,
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The member's id.
    pub node: NodeId,
    /// Where the member listens for other nodes, by name or address, if known.
    pub address: Option<Location>,
    /// Whether the member is a voter; otherwise it is a learner.
    pub is_voter: bool,
    /// Whether the reporting node is connected to the member.
    pub link: Link,
    /// The highest cluster version that the member says it reads, as far as the reporting node
    /// is connected to it.
    pub reads: Option<u32>,
    /// Whether the member says what it reads: builds that read the first version only do not.
    pub announces: bool,
    /// The member's data directory, if the log names it.
    pub directory: Option<DirectoryId>,
    /// The connections' report on the member; `None` for the reporting node itself.
    pub peer: Option<PeerStatus>,
    /// How much of the log the member has: a leader knows it of all members, another node
    /// of itself only.
    pub progress: Option<MemberProgress>,
    /// The member's apply progress: a node knows its own, and a leader also that of the
    /// followers that have reported it since the leader was elected.
    pub reached: Option<ApplyProgress>,
    /// How much less of the log the member shows than is committed, where `reached` is known.
    pub lag: Option<Lag>,
}

/// Whether a member is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// The reporting node itself.
    Own,
    /// The member is connected.
    Connected {
        /// Age of the connection.
        lasted: Duration,
        /// Round-trip time of the last ping.
        round_trip: Option<Duration>,
    },
    /// The member is not connected.
    Absent {
        /// Why the member is not connected.
        reason: String,
        /// How long ago a message from the member last arrived.
        heard: Option<Duration>,
    },
}

/// How much of the leader's log a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    /// Log offset before which everything has been sent to the member.
    pub sent: Lsn,
    /// Log offset before which everything is on the member's disk.
    pub durable: Lsn,
    /// Bytes of the log that have not been sent to the member.
    pub unsent: u64,
    /// Bytes sent to the member that are not known to be on its disk.
    pub in_flight: u64,
    /// Whether the member waits for a checkpoint, because the log that it would need is
    /// gone.
    pub needs_checkpoint: bool,
}

impl MemberProgress {
    fn new(end: Lsn, sent: Lsn, durable: Lsn) -> Self {
        Self {
            sent,
            durable,
            unsent: end.0.saturating_sub(sent.0),
            in_flight: sent.0.saturating_sub(durable.0),
            needs_checkpoint: false,
        }
    }

    fn of(end: Lsn, follower: &FollowerStatus) -> Self {
        Self {
            needs_checkpoint: follower.stage == Stage::Checkpoint,
            ..Self::new(end, follower.sent.max(follower.matched), follower.matched)
        }
    }
}

impl Link {
    fn of(peer: Option<&PeerStatus>, is_voter: bool) -> Self {
        let Some(peer) = peer else {
            return Self::Absent {
                reason: "it has not said yet where it listens".to_owned(),
                heard: None,
            };
        };
        // This node connects to it, but does not accept its connections.
        if is_voter && peer.newcomer.is_some() {
            return Self::Absent {
                reason: "it has joined with an empty directory: what it had acknowledged is lost"
                    .to_owned(),
                heard: peer.heard.map(|heard| heard.elapsed()),
            };
        }
        match peer.connection {
            Connection::Standing(since) => Self::Connected {
                lasted: since.elapsed(),
                round_trip: peer.round_trip,
            },
            Connection::Trying => Self::Absent {
                reason: peer
                    .fault
                    .clone()
                    .unwrap_or_else(|| "it is being connected to".to_owned()),
                heard: peer.heard.map(|heard| heard.elapsed()),
            },
        }
    }
}

/// The highest version that a connected member reads: one that announces nothing reads the
/// first.
fn reads(peers: &[PeerStatus], member: Member) -> Option<u32> {
    let peer = peers.iter().find(|peer| peer.node.0 == member.0)?;
    let stands = matches!(peer.connection, Connection::Standing(_));
    let announced = announced(peers, member).map(|announced| announced.reads);
    stands.then(|| announced.unwrap_or(FIRST_VERSION))
}

impl Driver {
    pub(super) fn status(&self) -> Status {
        let consensus = self.consensus.status();
        let node_status = NodeStatus::of(&self.consensus);
        let own = NodeId(consensus.id.0);
        let peers = self.peers.status();
        let end = consensus.last.end;
        let member = |Member(id): Member| {
            let node = NodeId(id);
            let peer = peers.iter().find(|peer| peer.node == node);
            let mut followers = consensus.followers.iter();
            let follower = followers.find(|follower| follower.node.0 == id);
            let is_own = node == own;
            let matched = follower.map(|follower| follower.matched);
            let reached = self.apply_progress_of(node, matched);
            let is_voter = consensus.membership.is_voter(Member(id));
            MemberStatus {
                node,
                address: peer
                    .map(|peer| peer.address.clone())
                    .or_else(|| self.peer_set.address(node)),
                is_voter,
                reads: match is_own {
                    // A log of a later version was written by a build that reads it.
                    true => Some(self.cluster_version.max(consensus.membership.version())),
                    false => reads(&peers, Member(id)),
                },
                announces: is_own || announced(&peers, Member(id)).is_some(),
                directory: consensus.membership.directory(Member(id)),
                link: match is_own {
                    true => Link::Own,
                    false => Link::of(peer, is_voter),
                },
                peer: peer.cloned(),
                reached: reached.map(|(progress, _)| progress),
                lag: reached.map(|(_, lag)| lag),
                progress: if is_own {
                    Some(MemberProgress::new(end, end, consensus.durable))
                } else {
                    follower.map(|follower| MemberProgress::of(end, follower))
                },
            }
        };
        let mut members: Vec<_> = consensus.membership.members().map(member).collect();
        members.sort_by_key(|member| member.node);
        let is_other = |peer: &PeerStatus| !consensus.membership.is_member(Member(peer.node.0));
        let others = peers
            .iter()
            .filter(|peer| is_other(peer))
            .cloned()
            .collect();
        Status {
            node: own,
            term: node_status.term,
            role: node_status.role,
            leader: node_status.leader,
            committed: consensus.commit,
            durable: consensus.durable,
            end,
            cluster_version: consensus.membership.version(),
            newest_version: NEWEST_VERSION,
            removed_by: self.standing.removed_by(),
            is_changing: consensus.membership_is_open,
            handing_over: consensus.handing_over.map(|node| NodeId(node.0)),
            members,
            others,
            elections: self.elections.seen(),
            door: self.peers.door(),
            read_index: self.counts(),
            questions: self.follower_reads.questions.counts(),
        }
    }
}
