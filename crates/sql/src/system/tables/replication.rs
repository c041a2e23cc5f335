//! Replication views: how far the members of the cluster have received, flushed, replayed and
//! show the leader's log, and how far they lag behind it.
//!
//! `coeval.replicas` has a row for each member, connected or not, with log offsets and the lag.
//! `pg_stat_replication` shows the same to tools made for PostgreSQL, with its columns: a row for
//! each follower that the leader is connected to. Both are empty on a standalone server.
//! `coeval.gamma` shows how stale the reads of a probe were on each follower.

use std::time::Duration;

use super::cluster_views::{cluster, moment, number};
use crate::expression::EvaluationContext;
use crate::instance::{ClusterLag, ClusterMember, ClusterProgress, ClusterRole};
use crate::system::table::system_table;
use crate::value::{Interval, Value};

fn members(context: &EvaluationContext<'_>) -> Vec<ClusterMember> {
    cluster(context).map_or_else(Vec::new, |cluster| cluster.members)
}

/// The followers that the leader is connected to, and whether the session's role may see
/// more of each than its name. In PostgreSQL that takes `pg_read_all_stats`, which `pg_monitor`
/// includes; without predefined roles it takes a superuser.
fn followers(context: &EvaluationContext<'_>) -> Vec<(ClusterMember, bool)> {
    let known = context.catalog.access().is_superuser(context.session.role);
    let leads = cluster(context).filter(|cluster| cluster.leader == Some(cluster.node));
    let members = leads.map_or_else(Vec::new, |cluster| cluster.members);
    members
        .into_iter()
        .filter(|member| member.connected && member.role != ClusterRole::Leader)
        .map(|member| (member, known))
        .collect()
}

/// A log offset as PostgreSQL prints a `pg_lsn`: both halves in hexadecimal.
fn lsn(offset: u64) -> String {
    format!("{:X}/{:X}", offset >> 32, offset & 0xFFFF_FFFF)
}

fn interval(time: Duration) -> Value {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    Value::Interval(Interval::of_micros(micros))
}

fn milliseconds(lag: ClusterLag) -> f64 {
    lag.time.as_micros() as f64 / 1e3
}

/// State of a follower in PostgreSQL's words. A learner is one until it has caught up.
fn state(member: &ClusterMember) -> &'static str {
    match member {
        ClusterMember {
            needs_checkpoint: true,
            ..
        } => "backup",
        ClusterMember {
            progress: ClusterProgress { sent: None, .. },
            ..
        } => "startup",
        ClusterMember {
            role: ClusterRole::Learner,
            ..
        } => "catchup",
        _ => "streaming",
    }
}

system_table! {
    /// Members of the cluster, how far each has come with the log, and its lag.
    REPLICAS = COEVAL 15_016 View replicas;
    context => members(context);
    member => {
        node: Int8 = number(member.node),
        role: Text = member.role.name(),
        received: Int8 = member.progress.received.map(number),
        flushed: Int8 = member.progress.flushed.map(number),
        committed: Int8 = member.progress.committed.map(number),
        replayed: Int8 = member.progress.replayed.map(number),
        visible: Int8 = member.progress.visible.map(number),
        lag_bytes: Int8 = member.progress.lag.map(|lag| number(lag.bytes)),
        lag_milliseconds: Float8 = member
            .progress
            .lag
            .map_or(Value::Null, |lag| Value::Float8(milliseconds(lag))),
    }
}

system_table! {
    /// The estimate of Γ that each follower makes of what it reads, if its settings want one:
    /// reads and judged writes, values with a positive score and with one above the threshold,
    /// and the greatest score of the last minute.
    GAMMA = COEVAL 15_020 View gamma;
    context => context
        .session
        .around
        .host()
        .map_or_else(Vec::new, |host| host.gamma());
    node => {
        node: Int8 = number(node.node),
        reads: Int8 = number(node.reads),
        writes: Int8 = number(node.writes),
        positive: Int8 = number(node.positive),
        violations: Int8 = number(node.violations),
        greatest_milliseconds: Float8 = Value::Float8(node.greatest.as_micros() as f64 / 1e3),
    }
}

system_table! {
    /// Followers that the leader sends its log to. No session and no process serves a
    /// follower, so that process and user are not known. `replay_lsn` and `replay_lag` are
    /// those of what the follower shows to readers: of what is replayed, part may not be
    /// committed.
    PG_STAT_REPLICATION = PG_CATALOG 12227 View pg_stat_replication;
    context => followers(context);
    (member, known) => {
        pid: Int4 = Value::Null,
        usesysid: Oid = Value::Null,
        usename: Name = Value::Null,
        application_name: Text = member.node.to_string(),
        client_addr: Text = member
            .address
            .as_ref()
            .filter(|_| known)
            .and_then(|location| location.address())
            .map(|address| address.ip().to_string()),
        client_hostname: Text = member
            .address
            .as_ref()
            .filter(|_| known)
            .and_then(|location| location.name()),
        client_port: Int4 = member
            .address
            .as_ref()
            .filter(|_| known)
            .map(|location| i32::from(location.port())),
        backend_start: TimestampTz = moment(member.connected_since.filter(|_| known)),
        backend_xmin: Oid = Value::Null,
        state: Text = known.then(|| state(&member)),
        sent_lsn: Text = member.progress.sent.filter(|_| known).map(lsn),
        write_lsn: Text = member.progress.received.filter(|_| known).map(lsn),
        flush_lsn: Text = member.progress.flushed.filter(|_| known).map(lsn),
        replay_lsn: Text = member.progress.visible.filter(|_| known).map(lsn),
        write_lag: Interval = Value::Null,
        flush_lag: Interval = Value::Null,
        replay_lag: Interval = member.progress.lag.filter(|_| known).map(|lag| interval(lag.time)),
        sync_priority: Int4 = known.then(|| i32::from(member.role.votes())),
        sync_state: Text = known.then(|| if member.role.votes() { "quorum" } else { "async" }),
        reply_time: TimestampTz = moment(member.heard.filter(|_| known)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are PostgreSQL 15's output.
    #[test]
    fn offsets_are_printed_as_postgresql_prints_them() {
        for (offset, printed) in [
            (0, "0/0"),
            (1000, "0/3E8"),
            (0x16_B374_D848, "16/B374D848"),
            (u64::MAX, "FFFFFFFF/FFFFFFFF"),
        ] {
            assert_eq!(lsn(offset), printed);
        }
    }
}
