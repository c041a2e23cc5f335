//! The view of the cluster for SQL and metrics: translates the node's status into their
//! terms.
//!
//! A node answers a status request asynchronously, and a query of a view or a metric
//! cannot wait. So a task asks several times a second, and the server keeps the last
//! status.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use coeval_leader::node::{
    Cause, Election, Link, MemberStatus, NAMED_OBJECTS, NODE_LOGINS, Node, OperationError,
    ROLE_SETTINGS, SESSION_MESSAGES, SQL_OBJECTS, Status,
};
use coeval_peers::{DoorStatus, NodeId, PeerStatus, Reason};
use coeval_sql::catalog;
use coeval_sql::expression::EvaluationContext;
use coeval_sql::instance::{
    Cluster, ClusterChange, ClusterElection, ClusterLag, ClusterMember, ClusterProgress,
    ClusterRole, ClusterTraffic, alone,
};
use coeval_sql::{Error, SqlState};

use crate::settings::MAX_NODES;
use crate::shared::Shared;

/// The cluster version from which on every member reads what a leader tells for reads on
/// the nodes of clients.
const READS: u32 = 3;

/// The cluster version from which on every member reads what the node of a client tells a
/// leader of transaction blocks, and watches the silence of its clients.
const CARRIES: u32 = 4;

// What SQL asks for is what the cluster counts.
const _: () = assert!(catalog::SQL_OBJECTS == SQL_OBJECTS);
const _: () = assert!(catalog::NAMED_OBJECTS == NAMED_OBJECTS);

/// Interval between two status requests.
const INTERVAL: Duration = Duration::from_millis(200);

/// From the Unix epoch to SQL's epoch, 2000-01-01, in microseconds.
const SQL_EPOCH: i64 = 946_684_800_000_000;

/// The node's last status.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Last>);

#[derive(Clone, Debug, Default)]
struct Last {
    status: Option<Arc<Status>>,
    /// Number of elections observed; the node remembers only the last one.
    elections: u64,
    /// When the node was first seen without a leader, in microseconds since 2000 UTC.
    leaderless_since: Option<i64>,
}

impl Seen {
    fn last(&self) -> Last {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether the other nodes have removed this one, as one of them has reported.
    pub(crate) fn is_removed(&self) -> bool {
        let last = self.last();
        last.status.is_some_and(|status| {
            if status.removed_by.is_some() {
                return true;
            }
            let members = status
                .members
                .iter()
                .filter_map(|member| member.peer.as_ref());
            let mut peers = members.chain(&status.others);
            peers.any(|peer| peer.refusal == Some(Reason::Removed))
        })
    }

    /// The node's last status, once it has reported one.
    pub(crate) fn status(&self) -> Option<Arc<Status>> {
        self.last().status
    }

    /// When the node was first seen without a leader, in microseconds since 2000 UTC; `None`
    /// while it knows one.
    pub(crate) fn leaderless_since(&self) -> Option<i64> {
        self.last().leaderless_since
    }

    fn note(&self, status: Status, now: i64) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = |status: &Status| status.elections.last().map(|election| election.term);
        let counted = last.status.as_deref().and_then(newest);
        let new = status.elections.iter();
        last.elections += new.filter(|election| Some(election.term) > counted).count() as u64;
        last.leaderless_since = match status.leader {
            Some(_) => None,
            None => last.leaderless_since.or(Some(now)),
        };
        last.status = Some(Arc::new(status));
    }
}

/// Polls the node's status, until the node or the server ends.
pub(crate) async fn watch(shared: Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let Some(node) = &shared.node else { return };
        let Ok(status) = node.status().await else {
            return;
        };
        note_version(&shared, &status);
        shared.cluster.note(status, EvaluationContext::clock());
        drop(shared);
        coeval_env::sleep(INTERVAL).await;
    }
}

/// Notes what all members read. A cluster version never falls.
fn note_version(shared: &Shared, status: &Status) {
    let reads = status.cluster_version >= READS;
    shared.tells_reads.fetch_or(reads, Ordering::Relaxed);
    let carries = status.cluster_version >= CARRIES;
    shared.carries_blocks.fetch_or(carries, Ordering::Relaxed);
    let marks = status.cluster_version >= SESSION_MESSAGES;
    shared.marks_messages.fetch_or(marks, Ordering::Relaxed);
    let logins = status.cluster_version >= NODE_LOGINS;
    shared.lets_clients_in.fetch_or(logins, Ordering::Relaxed);
    let settings = status.cluster_version >= ROLE_SETTINGS;
    shared
        .keeps_role_settings
        .fetch_or(settings, Ordering::Relaxed);
    shared
        .cluster_version
        .fetch_max(status.cluster_version, Ordering::Relaxed);
}

/// Whether each node of the cluster lets its own clients in, as far as this one knows.
pub(crate) fn lets_clients_in(shared: &Shared) -> bool {
    shared.lets_clients_in.load(Ordering::Relaxed)
}

/// Notes that the leader begins no session of a client that its node has not let in.
pub(crate) fn note_own_logins(shared: &Shared) {
    shared.lets_clients_in.store(true, Ordering::Relaxed);
}

/// [`lets_clients_in`], by the node's present status: the last one may be old, or there may
/// be none yet.
pub(crate) async fn lets_clients_in_asked(shared: &Shared, node: &Node) -> bool {
    if !lets_clients_in(shared)
        && let Ok(status) = node.status().await
    {
        note_version(shared, &status);
    }
    lets_clients_in(shared)
}

/// The message by which a node reports that it has been removed from its cluster; `coeval
/// cluster remove` recognizes it in an error.
pub fn removed_words(node: u64) -> String {
    format!("node {node} has been removed from its cluster")
}

/// The status of the cluster that the server is a node of.
pub(crate) fn cluster(shared: &Shared) -> Option<Cluster> {
    let node = shared.node.as_ref()?;
    let id = shared.settings.cluster_id.0;
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    let seen = shared.cluster.last();
    // The node has just started and has not answered yet.
    let Some(status) = seen.status else {
        let node_status = node.node_status().borrow().clone();
        return Some(Cluster {
            id,
            node: shared.settings.cluster_node,
            term: node_status.term.0.into(),
            leader: node_status.leader.map(|node| node.0),
            end: node_status.end.0,
            committed: node_status.committed.0,
            ..Cluster::default()
        });
    };
    Some(Cluster {
        elections_seen: seen.elections,
        ..picture(&status, id, EvaluationContext::clock())
    })
}

/// The node's status in SQL's terms; `now` in microseconds since SQL's epoch.
fn picture(status: &Status, id: String, now: i64) -> Cluster {
    let members = status.members.iter();
    Cluster {
        id,
        node: status.node.0,
        term: status.term.0.into(),
        leader: status.leader.map(|node| node.0),
        end: status.end.0,
        committed: status.committed.0,
        version: status.cluster_version,
        newest_version: status.newest_version,
        members: members.map(|member| of(member, status, now)).collect(),
        is_changing: status.is_changing,
        handing_over: status.handing_over.map(|node| node.0),
        elections: status.elections.iter().map(election).collect(),
        refused: refused(&status.door),
        ..Cluster::default()
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn of(member: &MemberStatus, status: &Status, now: i64) -> ClusterMember {
    let peer = member.peer.as_ref();
    let (connected, lasted, fault, heard) = match &member.link {
        Link::Own => (true, None, None, None),
        Link::Connected { lasted, .. } => (
            true,
            Some(*lasted),
            None,
            peer.and_then(|peer| peer.heard)
                .map(|heard| heard.elapsed()),
        ),
        Link::Absent { reason, heard } => (false, None, Some(reason.clone()), *heard),
    };
    let ago = |time: Duration| now.saturating_sub(micros(time));
    let leads = status.leader == Some(member.node);
    ClusterMember {
        node: member.node.0,
        address: member.address.clone(),
        role: match (leads, member.is_voter) {
            (true, _) => ClusterRole::Leader,
            (false, true) => ClusterRole::Voter,
            (false, false) => ClusterRole::Learner,
        },
        connected,
        connected_since: lasted.map(ago),
        heard: heard.map(ago),
        fault,
        progress: ClusterProgress {
            sent: member.progress.map(|progress| progress.sent.0),
            received: member.reached.map(|reached| reached.received.0),
            flushed: member.progress.map(|progress| progress.durable.0),
            committed: member.reached.map(|reached| reached.committed.0),
            replayed: member.reached.map(|reached| reached.replayed.0),
            visible: member.reached.map(|reached| reached.visible.0),
            lag: member.lag.map(|lag| ClusterLag {
                bytes: lag.bytes,
                time: lag.time,
            }),
        },
        needs_checkpoint: member
            .progress
            .is_some_and(|progress| progress.needs_checkpoint),
        reads: member.reads,
        announces: member.announces,
        traffic: peer.map(traffic),
    }
}

fn traffic(peer: &PeerStatus) -> ClusterTraffic {
    ClusterTraffic {
        sent_frames: peer.sent.frames,
        sent_bytes: peer.sent.bytes,
        received_frames: peer.received.frames,
        received_bytes: peer.received.bytes,
        skipped_frames: peer.skipped,
        connects: peer.connects,
        failures: peer.failures,
        round_trip: peer
            .round_trip
            .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
    }
}

fn election(election: &Election) -> ClusterElection {
    ClusterElection {
        term: election.term.0.into(),
        leader: election.leader.0,
        at: micros(election.when).saturating_sub(SQL_EPOCH),
        cause: match election.cause {
            Cause::First => None,
            Cause::Lost(node) => Some(format!("node {node} was not heard of any more")),
            Cause::HandedOver(node) => Some(format!("node {node} handed over")),
            Cause::DiskFull(node) => Some(format!("node {node} handed over: its disk was full")),
        },
    }
}

fn refused(door: &DoorStatus) -> Vec<(&'static str, u64)> {
    vec![
        ("refused", door.refused),
        ("no_handshake", door.failed),
        ("slow", door.slow),
        ("pushed_out", door.pushed_out),
    ]
}

/// Has the node change the cluster's membership or leader, and waits for the result.
pub(crate) async fn change(shared: Weak<Shared>, change: ClusterChange) -> Result<(), Error> {
    let shared = shared.upgrade().ok_or_else(alone)?;
    let node = shared.node.as_ref().ok_or_else(alone)?;
    if let ClusterChange::Add { node: id, .. } = change
        && id > MAX_NODES
    {
        let wrong = format!("{id} is no number of a node: they are from 1 to {MAX_NODES}");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, wrong));
    }
    let done = match change {
        ClusterChange::Add { node: id, address } => node.add(NodeId(id), address).await,
        ClusterChange::Remove { node: id } => node.remove(NodeId(id)).await,
        ClusterChange::Transfer { node: id } => node.transfer(NodeId(id)).await,
    };
    done.map_err(|error| refusal(&error))
}

/// The error of a refused change, as the client gets it.
fn refusal(error: &OperationError) -> Error {
    let state = match error {
        OperationError::NotLeading { .. } | OperationError::Begins => SqlState("57P03"),
        OperationError::Busy => SqlState::OBJECT_IN_USE,
        OperationError::Unknown(_) => SqlState::UNDEFINED_OBJECT,
        OperationError::AlreadyMember(_) => SqlState::DUPLICATE_OBJECT,
        OperationError::Deposed => SqlState("40003"),
        _ => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    };
    Error::new(state, error.to_string()).with_hint(match error {
        OperationError::NotLeading { .. } | OperationError::Begins => {
            "Ask again: sessions go to the new leader by themselves."
        }
        _ => "coeval.cluster_status and coeval.cluster_members say how the cluster is.",
    })
}

#[cfg(test)]
mod tests {
    use coeval_leader::node::{
        ApplyProgress, Lag, MemberProgress, QuestionCounts, ReadIndexCounts, Role,
    };
    use coeval_types::{Lsn, Term};

    use super::*;

    fn member(node: u64, is_voter: bool, link: Link, durable: u64) -> MemberStatus {
        MemberStatus {
            node: NodeId(node),
            address: None,
            is_voter,
            link,
            reads: (node < 3).then_some(2),
            announces: node < 3,
            directory: None,
            peer: None,
            progress: Some(MemberProgress {
                sent: Lsn(1000),
                durable: Lsn(durable),
                unsent: 0,
                in_flight: 1000 - durable,
                needs_checkpoint: node == 3,
            }),
            reached: (node < 3).then_some(ApplyProgress {
                received: Lsn(1000),
                flushed: Lsn(durable),
                committed: Lsn(900),
                replayed: Lsn(1000 - 100 * node),
                visible: Lsn(900 - 100 * node),
            }),
            lag: (node < 3).then_some(Lag {
                bytes: 100 * node,
                time: Duration::from_millis(node),
            }),
        }
    }

    #[test]
    fn what_the_node_says_is_what_is_shown() {
        let absent = Link::Absent {
            reason: "refused".to_owned(),
            heard: Some(Duration::from_secs(2)),
        };
        let status = Status {
            node: NodeId(1),
            term: Term(4),
            role: Role::Leader,
            leader: Some(NodeId(1)),
            committed: Lsn(900),
            durable: Lsn(1000),
            end: Lsn(1000),
            cluster_version: 1,
            newest_version: 2,
            removed_by: None,
            is_changing: true,
            handing_over: None,
            members: vec![
                member(1, true, Link::Own, 1000),
                member(2, true, absent, 900),
                member(
                    3,
                    false,
                    Link::Connected {
                        lasted: Duration::from_secs(4),
                        round_trip: None,
                    },
                    0,
                ),
            ],
            elections: vec![Election {
                term: Term(4),
                leader: NodeId(1),
                when: Duration::from_micros(SQL_EPOCH as u64 + 7),
                cause: Cause::HandedOver(NodeId(2)),
            }],
            others: Vec::new(),
            door: DoorStatus {
                slow: 3,
                ..DoorStatus::default()
            },
            read_index: ReadIndexCounts::default(),
            questions: QuestionCounts::default(),
        };
        let seen = picture(&status, "c".to_owned(), 10_000_000);
        let roles: Vec<_> = seen.members.iter().map(|member| member.role).collect();
        assert_eq!(
            roles,
            [
                ClusterRole::Leader,
                ClusterRole::Voter,
                ClusterRole::Learner
            ]
        );
        assert_eq!(seen.members[0].progress.replayed, Some(900));
        assert_eq!(seen.members[1].progress.flushed, Some(900));
        assert_eq!(seen.members[1].progress.replayed, Some(800));
        assert_eq!(
            seen.members[1].progress,
            ClusterProgress {
                sent: Some(1000),
                received: Some(1000),
                flushed: Some(900),
                committed: Some(900),
                replayed: Some(800),
                visible: Some(700),
                lag: Some(ClusterLag {
                    bytes: 200,
                    time: Duration::from_millis(2),
                }),
            }
        );
        assert_eq!(seen.members[2].progress.replayed, None);
        assert_eq!(seen.members[2].progress.lag, None);
        let since = |index: usize| seen.members[index].connected_since;
        assert_eq!(
            [since(0), since(1), since(2)],
            [None, None, Some(6_000_000)]
        );
        assert_eq!(seen.members[1].heard, Some(8_000_000));
        assert_eq!(
            seen.condition(),
            [
                "1 of 2 voters reachable; writes wait until there are 2",
                "cluster version 1; version 2 is held back by node 3, which is not connected \
                 (start it, or remove it: coeval cluster remove 3)",
                "a change of members is under way",
                "node 2 is not connected: refused",
                "node 3 waits for a checkpoint: the log that it lacks is gone",
                "node 3 does not vote: it is a learner until it has caught up",
            ]
        );
        assert_eq!(seen.elections[0].at, 7);
        assert_eq!(
            seen.elections[0].cause.as_deref(),
            Some("node 2 handed over")
        );
        assert!(seen.refused.contains(&("slow", 3)));
    }

    #[test]
    fn a_refusal_tells_programs_what_to_do() {
        for (error, state) in [
            (OperationError::Busy, "55006"),
            (OperationError::Begins, "57P03"),
            (OperationError::Unknown(NodeId(9)), "42704"),
            (OperationError::AlreadyMember(NodeId(2)), "42710"),
            (OperationError::LastVoter(NodeId(1)), "55000"),
            (OperationError::Deposed, "40003"),
        ] {
            let refusal = refusal(&error);
            assert_eq!(refusal.state().0, state, "{error}");
            assert!(refusal.report().hint.is_some());
        }
    }
}
