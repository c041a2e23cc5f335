//! The errors of a client that this node cannot serve: no leader is known, or the node ends.

use coeval_sql::{Error, SqlState};

use super::super::shutdown;
use crate::cluster_view;
use crate::shared::Shared;

/// SQLSTATE 57P03, `cannot_connect_now`: this node knows no leader, because it is no
/// longer a member.
pub(in crate::session) fn removed(shared: &Shared) -> Error {
    let words = cluster_view::removed_words(shared.settings.cluster_node);
    Error::new(SqlState("57P03"), words).with_hint("Connect to another node, and stop this one.")
}

/// SQLSTATE 57P01, `admin_shutdown`: this node stops, because it was asked to or because
/// it has failed. The leader does not: the commit of a statement under way may happen.
pub(super) fn ending(shared: &Shared) -> Error {
    let Some(reason) = shared.failure() else {
        return shutdown();
    };
    let message = format!("terminating connection because this node has stopped: {reason}");
    Error::new(SqlState::ADMIN_SHUTDOWN, message)
        .with_detail("Whether the statement under way was committed is not known.")
        .with_hint("Connect to another node.")
}

/// SQLSTATE 57P03, `cannot_connect_now`: the cluster has no leader.
pub(in crate::session) fn no_leader() -> Error {
    Error::new(SqlState("57P03"), "no node leads the cluster at the moment")
        .with_detail("A leader is elected while more than half of the nodes reach each other.")
        .with_hint("Try again when enough nodes of the cluster run.")
}
