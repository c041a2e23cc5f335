//! Sessions of other nodes' clients: asking those nodes for them, and interrupting one.
//!
//! A client of a follower that has needed no leader yet has its session on its node only, and
//! one whose leader was lost is on its node until it finds the next. `pg_cancel_backend` and
//! `pg_terminate_backend`, which the leader executes, reach both
//! ([`SessionsElsewhere`]).

use std::sync::{Arc, Weak};
use std::time::Duration;

use coeval_leader::node::SESSION_MESSAGES;
use coeval_peers::{NodeId, PeerStream, Streams};
use coeval_sql::instance::{Interruption, SessionElsewhere, SessionsElsewhere, Sought};
use tokio::io::AsyncWriteExt;
use tracing::debug;

use super::opening;
use crate::registry;
use crate::shared::Shared;

/// How long a node may take for its answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a node's clients may have a session that is sought.
fn may_have(node: NodeId, sought: &Sought) -> bool {
    match sought {
        Sought::Any => true,
        Sought::These(numbers) => {
            let mut numbers = numbers.iter();
            numbers.any(|number| registry::is_number_of(node.0, *number))
        }
    }
}

/// Asks the other members of the cluster for the sessions of their clients: those members whose
/// clients may have one that is sought.
pub(crate) async fn find(shared: Weak<Shared>, sought: Sought) -> SessionsElsewhere {
    let mut found = SessionsElsewhere::default();
    let Some(shared) = shared.upgrade() else {
        return found;
    };
    let Some(node) = shared.node.clone() else {
        return found;
    };
    let own = shared.settings.cluster_node;
    drop(shared);
    let Ok(status) = node.status().await else {
        // This node cannot say who the others are, so any of them may have the session.
        for numbers in registry::numbers_of_others(own) {
            found.is_silent(own, numbers);
        }
        return found;
    };
    if status.cluster_version < SESSION_MESSAGES {
        return found;
    }
    let others = status.members.iter().map(|member| member.node);
    let others = others.filter(|other| *other != status.node && may_have(*other, &sought));
    let asked: Vec<_> = others
        .map(|other| {
            let streams = node.streams();
            let asking = coeval_env::timeout(PATIENCE, ask(streams, other));
            (other, coeval_env::spawn("sessions of another node", asking))
        })
        .collect();
    for (other, asking) in asked {
        match asking.await {
            Ok(Ok(Some(told))) => {
                // A node tells its own sessions only.
                let is_own = |session: &SessionElsewhere| {
                    registry::is_number_of(other.0, session.process_id)
                };
                found.add(told.into_iter().filter(is_own));
            }
            Ok(Ok(None) | Err(coeval_env::Elapsed)) | Err(_) => {
                debug!(node = %other, "a node does not tell its sessions");
                found.is_silent(other.0, registry::numbers_of(other.0));
            }
        }
    }
    found
}

async fn ask(streams: Streams, node: NodeId) -> Option<Vec<SessionElsewhere>> {
    let mut stream = streams.open(node).await.ok()?;
    stream.write_all(&opening::sessions()).await.ok()?;
    stream.flush().await.ok()?;
    opening::read_sessions(&mut stream).await
}

/// Tells another node the sessions of this node's clients.
pub(super) async fn tell(shared: &Arc<Shared>, mut stream: PeerStream) {
    let told = opening::list_of(&shared.registry.of_clients());
    let telling = async {
        stream.write_all(&told).await?;
        stream.flush().await?;
        stream.shutdown().await
    };
    if let Err(error) = telling.await {
        debug!(%error, "the sessions of this node are not told");
    }
}

/// Has another node interrupt a session of its client.
pub(crate) fn interrupt(shared: &Weak<Shared>, session: SessionElsewhere, how: Interruption) {
    let node = shared.upgrade().and_then(|shared| shared.node.clone());
    let Some(node) = node else {
        return;
    };
    let streams = node.streams();
    let of_client = NodeId(registry::node_of(session.process_id));
    coeval_env::spawn("interruption", async move {
        if let Ok(mut stream) = streams.open(of_client).await {
            // As of a cancel request, its sender does not learn whether it arrived.
            let _ = stream.write_all(&opening::interrupt(session, how)).await;
            let _ = stream.shutdown().await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nodes_are_asked_whose_clients_may_have_a_session() {
        let asked = |sought: &Sought| {
            let nodes = (1..=4).filter(|node| may_have(NodeId(*node), sought));
            nodes.collect::<Vec<_>>()
        };
        let first_of = |node| registry::numbers_of(node).start;
        let last_of = |node| registry::numbers_of(node).end - 1;
        assert_eq!(asked(&Sought::Any), [1, 2, 3, 4]);
        let of_two = [first_of(2), last_of(4), last_of(2)].to_vec();
        assert_eq!(asked(&Sought::These(of_two)), [2, 4]);
        assert!(asked(&Sought::These(vec![0, -1, 7, i32::MAX])).is_empty());
    }
}
