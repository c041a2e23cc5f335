//! How a node stands with all others, for people.

use std::net::SocketAddr;
use std::time::Duration;

use coeval_consensus::{FollowerStatus, NodeId as Member, Stage};
use coeval_peers::{Connection, DoorStatus, NodeId, PeerStatus};
use coeval_types::{Lsn, Term};

use super::driver::Driver;
use super::{Confirmations, Election, Reached, Role, Standing};

/// How a node stands with all others, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which node says so.
    pub node: NodeId,
    /// Its term.
    pub term: Term,
    /// What it is.
    pub role: Role,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
    /// Everything before is known to be committed.
    pub committed: Lsn,
    /// Everything before is on its disk.
    pub durable: Lsn,
    /// Where its log ends.
    pub end: Lsn,
    /// A change of members is not committed yet.
    pub is_changing: bool,
    /// To whom it hands over, if it does.
    pub handing_over: Option<NodeId>,
    /// Everybody who takes part, by id.
    pub members: Vec<MemberStatus>,
    /// Who is known and takes no part, as connections know them.
    pub others: Vec<PeerStatus>,
    /// The elections that it has seen since its start, the last 64 of them, oldest first.
    pub elections: Vec<Election>,
    /// Who came to its address for nodes.
    pub door: DoorStatus,
    /// What came of those who read from its engines.
    pub confirmations: Confirmations,
}

/// One of those who take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which node.
    pub node: NodeId,
    /// Where it listens for others, if that is known here.
    pub address: Option<SocketAddr>,
    /// Whether it votes; otherwise it learns.
    pub is_voter: bool,
    /// Whether it can be talked to.
    pub link: Link,
    /// What connections know of it; nothing of this node itself.
    pub peer: Option<PeerStatus>,
    /// How much of the log it has: said by the leader of all, by others of themselves.
    pub progress: Option<MemberProgress>,
    /// How far it has come beyond that: of itself, and of its leader those that have said so
    /// since it leads.
    pub reached: Option<Reached>,
}

/// Whether a node can be talked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// It is this node.
    Own,
    /// It is connected.
    Connected {
        /// For so long.
        lasted: Duration,
        /// How long the last ping took to come back.
        round_trip: Option<Duration>,
    },
    /// It is not.
    Absent {
        /// Why not.
        reason: String,
        /// How long ago it was last heard of.
        heard: Option<Duration>,
    },
}

/// How much of the leader's log a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    /// Everything before has been sent to it.
    pub sent: Lsn,
    /// Everything before is on its disk.
    pub durable: Lsn,
    /// Bytes of the log that have not been sent to it.
    pub unsent: u64,
    /// Bytes that were sent, and are not known to be on its disk.
    pub in_flight: u64,
    /// The log that it would need is gone: it waits for a checkpoint.
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
        // It is connected to, and not let in.
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

impl Driver {
    pub(super) fn status(&self) -> Status {
        let consensus = self.consensus.status();
        let standing = Standing::of(&self.consensus);
        let own = NodeId(consensus.id.0);
        let peers = self.peers.status();
        let end = consensus.last.end;
        let member = |Member(id): Member| {
            let node = NodeId(id);
            let peer = peers.iter().find(|peer| peer.node == node);
            let mut followers = consensus.followers.iter();
            let follower = followers.find(|follower| follower.node.0 == id);
            let is_own = node == own;
            let is_voter = consensus.membership.is_voter(Member(id));
            MemberStatus {
                node,
                address: peer
                    .map(|peer| peer.address)
                    .or_else(|| self.neighbours.address(node)),
                is_voter,
                link: match is_own {
                    true => Link::Own,
                    false => Link::of(peer, is_voter),
                },
                peer: peer.cloned(),
                reached: self.reached_by(node),
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
            term: standing.term,
            role: standing.role,
            leader: standing.leader,
            committed: consensus.commit,
            durable: consensus.durable,
            end,
            is_changing: consensus.membership_is_open,
            handing_over: consensus.handing_over.map(|node| NodeId(node.0)),
            members,
            others,
            elections: self.elections.seen(),
            door: self.peers.door(),
            confirmations: self.counts(),
        }
    }
}
