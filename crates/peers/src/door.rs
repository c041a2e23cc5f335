//! The listener: accepts connections, and identifies the members that make them.
//!
//! A connection that has not identified itself may hold a slot for as long as a handshake
//! may take, some hundred bytes of hello, and the state of TLS. The number of slots is
//! fixed; when all are taken, the listener aborts the oldest connection. A member
//! identifies itself within milliseconds, so the oldest is one that only occupies its slot.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::{JoinHandle, Listener, Location, Stream};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;

use crate::connection;
use crate::counters::count;
use crate::fault::Fault;
use crate::handshake::{Answer, Hello, Purpose};
use crate::identity::Members;
use crate::peer::Peer;
use crate::refusal::{Reason, Refusal};
use crate::security::Channel;
use crate::shared::Shared;
use crate::stream::{Arrived, PeerStream};

/// Pause after accepting has failed, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Handshakes of connections that have not identified themselves; dropping this aborts
/// them.
#[derive(Default)]
struct Strangers(VecDeque<JoinHandle<()>>);

impl Drop for Strangers {
    fn drop(&mut self) {
        for stranger in &self.0 {
            stranger.abort();
        }
    }
}

/// Runs the listener until the task is aborted.
pub(crate) async fn open(shared: Arc<Shared>, listener: Listener) {
    let mut strangers = Strangers::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a node's connection");
                coeval_env::sleep(PAUSE).await;
                continue;
            }
        };
        count(&shared.door.came);
        strangers.0.retain(|stranger| !stranger.is_finished());
        while strangers.0.len() >= shared.settings.strangers {
            let Some(oldest) = strangers.0.pop_front() else {
                break;
            };
            oldest.abort();
            count(&shared.door.pushed_out);
        }
        let greeting = greet(Arc::clone(&shared), stream, from);
        let stranger = coeval_env::spawn("greet a node", greeting);
        strangers.0.push_back(stranger);
    }
}

/// Runs the handshake with a connection, and serves it if it is a member's.
async fn greet(shared: Arc<Shared>, stream: Stream, from: SocketAddr) {
    let limit = shared.settings.handshake();
    let greeted = coeval_env::timeout(limit, judge(&shared, stream, from)).await;
    match greeted.unwrap_or(Err(Fault::Slow(limit))) {
        Ok((channel, entry)) => {
            count(&shared.door.let_in);
            let peer = entry.peer;
            peer.counters.heard();
            // The node is running, so it can probably be reached: wake its dialler.
            peer.awake.notify_one();
            if let Some((place, waits)) = entry.places {
                count(&peer.streams.counters.let_in);
                let stream = PeerStream::new(&peer, channel, Some(place));
                return shared.arrives(Arrived { stream, waits });
            }
            let (inner, of) = (Arc::clone(&shared), Arc::clone(&peer));
            let serving = coeval_env::spawn("receive from a node", async move {
                let fault = connection::receive(channel, &of, &inner.settings, &inner.inlet).await;
                tracing::debug!(node = of.node.0, reason = %fault, "its connection has ended");
                of.counters.notes().fault_of_its = Some(fault.to_string());
                of.cut_if_silent(inner.settings.silence());
            });
            shared.serves(&peer, serving);
        }
        Err(fault) => {
            count(match fault {
                Fault::Refused(_) => &shared.door.refused,
                Fault::Slow(_) => &shared.door.slow,
                _ => &shared.door.failed,
            });
            tracing::warn!(%from, reason = %fault, "a connection to the peer address is turned away");
        }
    }
}

/// An accepted connection's member and version.
struct Entry {
    version: u16,
    peer: Arc<Peer>,
    /// For a stream: its slot, and its slot among the waiting streams.
    places: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

async fn judge(
    shared: &Arc<Shared>,
    stream: Stream,
    from: SocketAddr,
) -> Result<(Channel, Entry), Fault> {
    let channel = shared.security().accept(stream).await;
    let mut channel = channel.map_err(Fault::Tls)?;
    let hello = Hello::read(&mut channel).await;
    let hello = hello.map_err(Fault::of_handshake)?;
    let judged = decide(shared, &hello, &channel, from);
    let answer = Answer {
        from: shared.own,
        announced: shared.with_members(Members::announcement),
        verdict: judged
            .as_ref()
            .map_or_else(|refusal| Err(refusal.clone()), |entry| Ok(entry.version)),
    };
    let mut said = channel.write_all(&answer.encode()).await;
    if said.is_ok() {
        said = channel.flush().await;
    }
    match judged {
        Ok(entry) => {
            said.map_err(Fault::Io)?;
            Ok((channel, entry))
        }
        Err(refusal) => {
            // An orderly close lets the refusal's words arrive.
            let _ = channel.shutdown().await;
            Err(refusal.into())
        }
    }
}

fn decide(
    shared: &Arc<Shared>,
    hello: &Hello,
    channel: &Channel,
    from: SocketAddr,
) -> Result<Entry, Refusal> {
    let judged = shared.with_members(|members| {
        let judged = hello.judge(&shared.own, members);
        let is_member = |refusal: &Refusal| refusal.reason == Reason::Forgotten;
        if judged.is_ok() || judged.as_ref().is_err_and(is_member) {
            channel.vouches_for(hello.from.node)?;
        }
        judged
    });
    if let Err(refusal) = &judged
        && refusal.reason == Reason::Forgotten
        && let Some(peer) = shared.peer(hello.from.node)
    {
        let mut notes = peer.counters.notes();
        notes.newcomer = hello.newcomer;
        notes.fault_of_its = Some(refusal.to_string());
    }
    let version = judged?;
    // The address that a node announces counts only after the node is identified.
    let peer = match shared.meet(hello.from.node, where_it_listens(hello, from))? {
        Some(peer) => peer,
        // Removed between the two checks: refused as if it had been removed before.
        None => return Err(hello.unknown(&shared.own)),
    };
    if hello.purpose == Purpose::Frames {
        let mut notes = peer.counters.notes();
        notes.newcomer = hello.newcomer;
        notes.announced = hello.announced;
    }
    let places = match hello.purpose {
        Purpose::Stream => Some(peer.streams.place()?),
        _ => None,
    };
    Ok(Entry {
        version,
        peer,
        places,
    })
}

/// The location that the sender of a hello announces; an unspecified one is replaced by the
/// address that the connection comes from.
fn where_it_listens(hello: &Hello, from: SocketAddr) -> Option<Location> {
    let listens = &hello.listens;
    let is_open = |address: SocketAddr| address.ip().is_unspecified();
    let listens = match listens.address().is_some_and(is_open) {
        true => Location::from((from.ip().to_canonical(), listens.port())),
        false => listens.clone(),
    };
    (listens.port() != 0).then_some(listens)
}
