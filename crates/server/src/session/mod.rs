//! A session's connection, from its first byte to its last.
//!
//! ```text
//!   first      negotiate encryption; handle a cancel request, or begin a session
//!   greet      authenticate; check limits; send parameters, key and Ready
//!   converse   Query ─────────────▶ every statement in it ──▶ Ready
//!              Parse Bind Execute … Sync ──────────────────▶ Ready
//!              an error ──▶ skip to the next Sync
//! ```
//!
//! A connection is one task. It handles all messages that came with one read, and answers
//! them with one write: between them it waits only for locks and commits. A statement
//! that waits notices when its client disconnects, so that no lock outlives the client
//! that it was taken for.
//!
//! In a cluster, the session of a client of a follower runs on the leader, and the
//! client's node is a relay; a session beside the relay executes what only reads, if the
//! client wants that ([`home`]).
//!
//! Invariants:
//! - no answer leaves before the commits that it depends on are durable ([`output`]);
//! - however the task ends, its [`Entry`](crate::registry::Entry) is removed, and its
//!   session is dropped, which aborts its transaction.
//!
//! Sources: PostgreSQL documentation, "Message Flow".

mod account;
mod authenticate;
mod conversation;
mod copy;
mod cycle;
mod effect;
pub(crate) mod elsewhere;
mod extended;
mod first;
mod greet;
mod home;
mod input;
mod login;
mod notes;
mod opening;
mod output;
mod owed;
#[cfg(feature = "planted")]
mod planted;
mod relay;
mod report;
mod resume;
pub(crate) mod signal;
mod simple;
mod tracker;
mod transcode;
mod transport;
mod waits;

use std::net::SocketAddr;
use std::sync::Arc;

use coeval_peers::{NodeId, PeerStream, Streams};
use coeval_sql::{Error, SqlState};
use tokio::io::AsyncWriteExt;
use tracing::{debug, warn};

use conversation::{Conversation, Moves};
use input::Input;
use opening::Origin;
use relay::{Leader, Next, Relay};

use crate::gamma::Summary;
use crate::metrics::Sheet;
use crate::pending_connections::PendingSlot;
use crate::registry::Entry;
use crate::shared::Shared;

/// Serves one connection until either side ends it, or until a newer connection takes its
/// slot before its client has been let in.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: coeval_env::Stream,
    peer: SocketAddr,
    sheet: Arc<Sheet>,
    slot: PendingSlot,
) {
    let greeted = tokio::select! {
        biased;
        greeted = greet::greet(&shared, stream, peer, &sheet) => greeted,
        () = slot.given_up() => {
            sheet.refused();
            return;
        }
    };
    drop(slot);
    let Some(mut place) = greeted else {
        return;
    };
    sheet.session();
    loop {
        let next = match place {
            SessionLocation::Here(here) => converse(&shared, *here).await,
            SessionLocation::Elsewhere(relay, leader) => match relay.run(&shared, leader).await {
                Next::Ended => None,
                Next::Here(serving_term, relay) => resume::here(&shared, serving_term, relay).await,
            },
        };
        match next {
            Some(next) => place = next,
            None => return,
        }
    }
}

/// Serves a client of another node, which has opened this stream for it.
pub(crate) async fn serve_elsewhere(shared: Arc<Shared>, stream: PeerStream, sheet: Arc<Sheet>) {
    if let Some(here) = greet::greet_elsewhere(&shared, stream, &sheet).await {
        sheet.session();
        converse(&shared, here).await;
    }
}

/// Tells the leader a node's estimate of Γ.
pub(crate) async fn report_gamma(streams: &Streams, leader: NodeId, node: u64, summary: Summary) {
    if let Ok(mut stream) = streams.open(leader).await {
        // As of a cancel request, its sender does not learn whether it arrived.
        let _ = stream.write_all(&opening::gamma(node, summary)).await;
        let _ = stream.shutdown().await;
    }
}

/// The node where a session runs.
enum SessionLocation {
    Here(Box<Here>),
    Elsewhere(Box<Relay>, Option<Leader>),
}

/// A session that runs on this node.
struct Here {
    entry: Entry,
    input: Input,
    conversation: Conversation,
    /// The client's identity for other nodes; `None` without a cluster.
    origin: Option<Box<Origin>>,
}

/// Serves a client until either side ends the session. Returns where the session
/// continues, if it does.
async fn converse(shared: &Arc<Shared>, here: Here) -> Option<SessionLocation> {
    let Here {
        entry,
        mut input,
        mut conversation,
        origin,
    } = here;
    let process_id = entry.process_id();
    debug!(session = process_id, user = ?conversation.client.user, "session begins");
    let ended = conversation.run(&mut input).await;
    #[cfg(feature = "planted")]
    planted::commit_on_disconnect(&mut conversation.session, &ended).await;
    match ended {
        Ended::ByClient => debug!(session = process_id, "session ends"),
        Ended::Gone => debug!(session = process_id, "client gone"),
        Ended::Fatal(error) | Ended::Interrupted(error) => {
            debug!(session = process_id, %error, "session ended");
        }
        Ended::Moved => {
            debug!(session = process_id, "session goes on elsewhere");
            if let (Moves::Away, Some(origin)) = (conversation.moves, origin) {
                let relay = resume::elsewhere(shared, conversation, input, entry, origin);
                return Some(SessionLocation::Elsewhere(Box::new(relay), None));
            }
        }
        Ended::EngineStopped(reason) => {
            warn!(
                session = process_id,
                reason, "session ended with the engine"
            );
            shared.engine_stopped(reason);
        }
    }
    None
}

/// How a session ended.
#[derive(Debug)]
enum Ended {
    /// The client sent Terminate.
    ByClient,
    /// The client closed the connection without Terminate.
    Gone,
    /// The server ended the session, with this error.
    Fatal(Error),
    /// The session continues on another node.
    Moved,
    /// The wait for an answer has ended with this error; the session goes on.
    Interrupted(Error),
    /// The engine has stopped, for this reason. Whether the last commit survives is not
    /// known, and the client was told no more than that.
    EngineStopped(String),
}

/// SQLSTATE 57P01, `admin_shutdown`: the server stops.
fn shutdown() -> Error {
    Error::new(
        SqlState::ADMIN_SHUTDOWN,
        "terminating connection due to administrator command",
    )
}
