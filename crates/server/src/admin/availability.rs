//! Availability: whether a client that connects to this node now would be served, and the
//! reason if not.
//!
//! A single server serves from the end of recovery until it stops or fails. A node of a
//! cluster also needs a leader, and a connection to it:
//!
//! ```text
//!   this node leads                              yes
//!   a member says that this node was removed     no, shut out
//!   node 2 leads, this node is connected to it   yes
//!   node 2 leads, it does not admit this node    no, shut out: the other node's words
//!   node 2 leads, it cannot be reached           no, unconnected: the connection's fault
//!   no node leads, a member refuses this node    no, shut out
//!   this node takes no part: it founds, or its
//!     directory is not the one the log names     no, shut out: the reason
//!   no node leads                                no, leaderless
//! ```
//!
//! A node that started with an empty directory under the number of a voter hears its leader,
//! for the leader connects to every address it knows. But its own connections are refused, and
//! sessions travel over these: hearing the leader is no proof of availability.
//!
//! A server that has as many sessions as it may have is available: it refuses the surplus only,
//! and a supervisor that restarted it would end the others.

use coeval_leader::node::Status;
use coeval_peers::{Connection, NodeId, PeerStatus, Reason};

/// Why a node of a cluster refuses new clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unavailable {
    /// The reason in one word, as the health report's status.
    pub(crate) status: &'static str,
    /// The reason in words.
    pub(crate) reason: String,
}

impl Unavailable {
    fn new(status: &'static str, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }
}

/// Whether a node that does not lead serves new clients: `leader` leads as far as it knows,
/// `status` is its last report, `None` before the first, and `shut_out` says why it takes no
/// part in its cluster.
pub(super) fn availability(
    leader: Option<NodeId>,
    status: Option<&Status>,
    shut_out: Option<&str>,
) -> Result<(), Unavailable> {
    let peers = || {
        let members = status.into_iter().flat_map(|status| &status.members);
        let members = members.filter_map(|member| member.peer.as_ref());
        members.chain(status.into_iter().flat_map(|status| &status.others))
    };
    if let Some(reason) = shut_out {
        return Err(Unavailable::new("shut_out", reason));
    }
    if peers().any(|peer| peer.refusal == Some(Reason::Removed)) {
        let reason = "this node has been removed from the cluster";
        return Err(Unavailable::new("shut_out", reason));
    }
    let Some(leader) = leader else {
        // A refusal by one member is told here because it may be what keeps this node from
        // hearing of a leader.
        return Err(match peers().find_map(refusal) {
            Some(refused) => refused,
            None => Unavailable::new("leaderless", "no node leads"),
        });
    };
    // Without a report, or where the leader is not known by address yet, nothing is known
    // against it.
    let Some(peer) = peers().find(|peer| peer.node == leader) else {
        return Ok(());
    };
    if let Some(refused) = refusal(peer) {
        return Err(refused);
    }
    match (&peer.connection, &peer.fault) {
        (Connection::Standing(_), _) => Ok(()),
        (Connection::Trying, fault) => {
            let fault = fault.as_deref().unwrap_or("it is being connected to");
            let reason = format!("node {leader} leads and is not connected: {fault}");
            Err(Unavailable::new("unconnected", reason))
        }
    }
}

/// The refusal of this node by another one, unless that is momentary.
fn refusal(peer: &PeerStatus) -> Option<Unavailable> {
    let node = peer.node;
    match peer.refusal? {
        Reason::Busy => None,
        _ => {
            let words = peer.fault.as_deref().unwrap_or("it gives no reason");
            let reason = format!("node {node} does not admit this node: {words}");
            Some(Unavailable::new("shut_out", reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use coeval_leader::node::{Link, MemberStatus, QuestionCounts, ReadIndexCounts, Role};
    use coeval_peers::{DoorStatus, StreamStatus, Traffic};
    use coeval_types::{Lsn, Term};

    use super::*;

    fn peer(node: u64, connection: Connection, refusal: Option<Reason>) -> PeerStatus {
        let traffic = Traffic::default();
        PeerStatus {
            node: NodeId(node),
            address: ([127, 0, 0, 1], 7001).into(),
            fault: (connection == Connection::Trying).then(|| format!("fault of {node}")),
            connection,
            refusal,
            fault_of_its: None,
            newcomer: None,
            announced: None,
            sent: traffic,
            received: traffic,
            skipped: 0,
            queued: traffic,
            dropped: 0,
            forgotten: 0,
            full: 0,
            connects: 0,
            failures: 0,
            heard: Some(coeval_env::now()),
            round_trip: None,
            streams: StreamStatus::default(),
        }
    }

    /// The report of node 1, to which these are the connections; the last one is to a node
    /// that is no member.
    fn status(peers: [PeerStatus; 3]) -> Status {
        let [two, three, other] = peers;
        let member = |peer: PeerStatus| MemberStatus {
            node: peer.node,
            address: Some(peer.address.clone()),
            is_voter: true,
            link: Link::Own,
            reads: None,
            announces: false,
            directory: None,
            peer: Some(peer),
            progress: None,
            reached: None,
            lag: None,
        };
        Status {
            node: NodeId(1),
            term: Term(4),
            role: Role::Follower,
            leader: None,
            committed: Lsn(900),
            durable: Lsn(1000),
            end: Lsn(1000),
            cluster_version: 2,
            newest_version: 2,
            removed_by: None,
            is_changing: false,
            handing_over: None,
            members: vec![member(two), member(three)],
            others: vec![other],
            elections: Vec::new(),
            door: DoorStatus::default(),
            read_index: ReadIndexCounts::default(),
            questions: QuestionCounts::default(),
        }
    }

    #[test]
    fn a_node_is_available_where_its_own_connection_reaches_the_leader() {
        let standing = || Connection::Standing(coeval_env::now());
        let trying = || Connection::Trying;
        let refused_by_3 = "node 3 does not admit this node: fault of 3";
        for (leader, [two, three, other], expected) in [
            (Some(2), [(true, None), (true, None), (true, None)], Ok(())),
            (
                Some(2),
                [(true, None), (false, None), (false, None)],
                Ok(()),
            ),
            // Another member's refusal does not matter, the leader's does.
            (
                Some(2),
                [(true, None), (false, Some(Reason::Forgotten)), (true, None)],
                Ok(()),
            ),
            (
                Some(3),
                [(true, None), (false, Some(Reason::Forgotten)), (true, None)],
                Err(("shut_out", refused_by_3)),
            ),
            (
                Some(3),
                [(true, None), (false, Some(Reason::Busy)), (true, None)],
                Err((
                    "unconnected",
                    "node 3 leads and is not connected: fault of 3",
                )),
            ),
            (
                None,
                [(true, None), (true, None), (true, None)],
                Err(("leaderless", "no node leads")),
            ),
            (
                None,
                [(true, None), (false, Some(Reason::Unknown)), (true, None)],
                Err(("shut_out", refused_by_3)),
            ),
            (
                Some(2),
                [(true, None), (true, None), (false, Some(Reason::Removed))],
                Err(("shut_out", "this node has been removed from the cluster")),
            ),
        ] {
            let peer = |node, (stands, refusal)| {
                peer(node, if stands { standing() } else { trying() }, refusal)
            };
            let status = status([peer(2, two), peer(3, three), peer(4, other)]);
            let seen = availability(leader.map(NodeId), Some(&status), None);
            let expected = expected.map_err(|(status, reason)| Unavailable::new(status, reason));
            assert_eq!(seen, expected);
        }
        assert_eq!(availability(Some(NodeId(2)), None, None), Ok(()));
        assert!(availability(None, None, None).is_err());
        let founds = availability(None, None, Some("it founds"));
        assert_eq!(founds, Err(Unavailable::new("shut_out", "it founds")));
    }
}
