//! The cluster as this node knows it, as a JSON object: for `coeval cluster status --admin`,
//! which needs neither a leader nor a session.
//!
//! The members have the names and the contents that `coeval cluster status --json` gives them
//! from the views `coeval.cluster_*`; `serving` and `leaderless_since` are this node's own. A
//! node knows of the others whether it hears them, and of itself how much of the log it has; the
//! leader knows the latter of all.

use coeval_sql::instance::{Cluster, ClusterElection, ClusterMember};
use coeval_sql::value::Style;
use coeval_sql::{DataType, Value as SqlValue};
use serde_json::{Value, json};

use super::health::available;
use crate::cluster_view;
use crate::shared::Shared;

/// The report; `None` on a server that is no node of a cluster.
pub(super) fn report(shared: &Shared) -> Option<String> {
    let cluster = cluster_view::cluster(shared)?;
    let unavailable = available(shared, &shared.lead()).err();
    let mut report = of(&cluster);
    report["serving"] = unavailable.is_none().into();
    report["not_serving_because"] = json!(unavailable.map(|unavailable| unavailable.reason));
    report["leaderless_since"] = json!(shared.cluster.leaderless_since().and_then(moment));
    Some(format!("{report:#}\n"))
}

fn of(cluster: &Cluster) -> Value {
    let (voters, reachable) = cluster.voters();
    let member = |each: &ClusterMember| member(each, cluster);
    json!({
        "cluster": cluster.id,
        "node": cluster.node,
        "term": cluster.term,
        "leader": cluster.leader,
        "cluster_version": cluster.version,
        "end_lsn": cluster.end,
        "committed_lsn": cluster.committed,
        "voters": voters,
        "reachable_voters": reachable,
        "sound": cluster.is_sound(),
        "condition": cluster.condition(),
        "members": cluster.members.iter().map(member).collect::<Vec<_>>(),
        "elections": cluster.elections.iter().map(election).collect::<Vec<_>>(),
    })
}

fn member(member: &ClusterMember, cluster: &Cluster) -> Value {
    let progress = &member.progress;
    let lag = |reached: Option<u64>| reached.map(|reached| cluster.lag(reached));
    let round_trip = member.traffic.and_then(|traffic| traffic.round_trip);
    json!({
        "node": member.node,
        "address": member.address.as_ref().map(ToString::to_string),
        "role": member.role.name(),
        "reads_version": member.reads,
        "connected": member.connected,
        "last_heard": member.heard.and_then(moment),
        "fault": member.fault,
        "flushed_lsn": progress.flushed,
        "lag_bytes": {
            "sent": lag(progress.sent),
            "flushed": lag(progress.flushed),
            "committed": lag(progress.committed),
            "replayed": lag(progress.replayed),
        },
        "round_trip_ms": round_trip.map(|microseconds| microseconds as f64 / 1e3),
    })
}

fn election(election: &ClusterElection) -> Value {
    json!({
        "term": election.term,
        "leader": election.leader,
        "elected_at": moment(election.at),
        "cause": election.cause,
    })
}

/// A moment as SQL writes it, in UTC.
fn moment(microseconds: i64) -> Option<String> {
    let value = SqlValue::TimestampTz(microseconds);
    let text = value.to_text(DataType::TimestampTz.into(), &Style::default())?;
    Some(text.to_string())
}

#[cfg(test)]
mod tests {
    use coeval_sql::instance::{ClusterProgress, ClusterRole};

    use super::*;

    #[test]
    fn a_node_tells_what_it_knows_without_a_leader() {
        let member = |node, connected| ClusterMember {
            node,
            address: Some(([127, 0, 0, 1], 7000 + node as u16).into()),
            role: ClusterRole::Voter,
            connected,
            connected_since: None,
            heard: Some(1_000_000),
            fault: (!connected).then(|| "cannot be reached".to_owned()),
            progress: ClusterProgress {
                flushed: (node == 1).then_some(900),
                ..ClusterProgress::default()
            },
            needs_checkpoint: false,
            traffic: None,
            reads: Some(2),
            announces: true,
        };
        let cluster = Cluster {
            node: 1,
            term: 7,
            end: 1000,
            committed: 800,
            members: vec![member(1, true), member(2, false), member(3, false)],
            ..Cluster::default()
        };
        let report = of(&cluster);
        assert_eq!(
            (&report["leader"], &report["term"]),
            (&Value::Null, &json!(7))
        );
        assert_eq!(report["reachable_voters"], 1);
        assert_eq!(report["members"][1]["reads_version"], 2);
        assert_eq!(report["members"][0]["flushed_lsn"], 900);
        assert_eq!(report["members"][0]["lag_bytes"]["flushed"], 100);
        assert_eq!(report["members"][1]["flushed_lsn"], Value::Null);
        assert_eq!(report["members"][1]["last_heard"], "2000-01-01 00:00:01+00");
        assert_eq!(report["members"][2]["fault"], "cannot be reached");
    }
}
