//! System tables of the cluster that the server is a node of. On a standalone server
//! the tables of members and elections are empty, and the status says so.

use crate::Value;
use crate::expression::EvaluationContext;
use crate::instance::{Cluster, ClusterElection, ClusterMember};
use crate::system::table::system_table;

pub(super) fn cluster(context: &EvaluationContext<'_>) -> Option<Cluster> {
    context.session.around.host()?.cluster()
}

/// The members, each with the end of the reporting node's log, and whether the
/// session's role may see the members' addresses.
fn members(context: &EvaluationContext<'_>) -> Vec<(ClusterMember, u64, bool)> {
    let superuser = context.catalog.access().is_superuser(context.session.role);
    let Some(Cluster { members, end, .. }) = cluster(context) else {
        return Vec::new();
    };
    let members = members.into_iter();
    members.map(|member| (member, end, superuser)).collect()
}

fn elections(context: &EvaluationContext<'_>) -> Vec<ClusterElection> {
    cluster(context).map_or_else(Vec::new, |cluster| cluster.elections)
}

pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn lag(end: u64, reached: Option<u64>) -> Option<i64> {
    reached.map(|reached| number(end.saturating_sub(reached)))
}

pub(super) fn moment(microseconds: Option<i64>) -> Value {
    microseconds.map_or(Value::Null, Value::TimestampTz)
}

system_table! {
    /// Status of the cluster, as seen by the node that runs the session, usually the
    /// leader. One row, also on a standalone server.
    STATUS = COEVAL 15_013 View cluster_status;
    context => [cluster(context)];
    cluster => {
        cluster_id: Text = cluster.as_ref().map(|cluster| &cluster.id),
        node: Int8 = cluster.as_ref().map(|cluster| number(cluster.node)),
        term: Int8 = cluster.as_ref().map(|cluster| number(cluster.term)),
        leader: Int8 = cluster.as_ref().and_then(|cluster| cluster.leader).map(number),
        end_lsn: Int8 = cluster.as_ref().map(|cluster| number(cluster.end)),
        committed_lsn: Int8 = cluster.as_ref().map(|cluster| number(cluster.committed)),
        voters: Int4 = cluster.as_ref().map(|cluster| cluster.voters().0 as i32),
        reachable_voters: Int4 = cluster.as_ref().map(|cluster| cluster.voters().1 as i32),
        sound: Bool = cluster.as_ref().map(Cluster::is_sound),
        condition: Text = cluster.as_ref().map_or_else(
            || "this server is no node of a cluster".to_owned(),
            |cluster| cluster.condition().join("\n"),
        ),
        cluster_version: Int4 = cluster
            .as_ref()
            .filter(|cluster| cluster.version > 0)
            .map(|cluster| cluster.version as i32),
    }
}

system_table! {
    /// Members of the cluster, and the lag of each behind the leader's log.
    MEMBERS = COEVAL 15_014 View cluster_members;
    context => members(context);
    (member, end, superuser) => {
        node: Int8 = number(member.node),
        address: Text = member.address.as_ref().filter(|_| superuser).map(ToString::to_string),
        role: Text = member.role.name(),
        connected: Bool = member.connected,
        last_heard: TimestampTz = moment(member.heard),
        fault: Text = member.fault.filter(|_| superuser),
        end_lsn: Int8 = number(end),
        sent_lsn: Int8 = member.progress.sent.map(number),
        flushed_lsn: Int8 = member.progress.flushed.map(number),
        committed_lsn: Int8 = member.progress.committed.map(number),
        replayed_lsn: Int8 = member.progress.replayed.map(number),
        sent_lag_bytes: Int8 = lag(end, member.progress.sent),
        flushed_lag_bytes: Int8 = lag(end, member.progress.flushed),
        committed_lag_bytes: Int8 = lag(end, member.progress.committed),
        replayed_lag_bytes: Int8 = lag(end, member.progress.replayed),
        round_trip_ms: Float8 = member
            .traffic
            .and_then(|traffic| traffic.round_trip)
            .map_or(Value::Null, |microseconds| Value::Float8(microseconds as f64 / 1e3)),
        reads_version: Int4 = member.reads.map(|reads| reads as i32),
    }
}

system_table! {
    /// Elections that the node has observed since its start.
    ELECTIONS = COEVAL 15_015 View cluster_elections;
    context => elections(context);
    election => {
        term: Int8 = number(election.term),
        leader: Int8 = number(election.leader),
        elected_at: TimestampTz = moment(Some(election.at)),
        cause: Text = election.cause,
    }
}
