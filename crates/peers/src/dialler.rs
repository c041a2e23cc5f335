//! The dialler: keeps a connection to a member open, and reconnects when it ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coeval_env::Stream;

use crate::backoff::Backoff;
use crate::connection;
use crate::counters::{Connection, count};
use crate::fault::Fault;
use crate::handshake::{Hello, Purpose, VERSIONS, greet};
use crate::identity::Members;
use crate::inbox::Event;
use crate::peer::Peer;
use crate::refusal::{Reason, Refusal};
use crate::security::Channel;
use crate::shared::Shared;

/// Runs the dialler of `peer` until the task is aborted, or the inbox is dropped.
pub(crate) async fn dial(shared: Arc<Shared>, peer: Arc<Peer>) {
    let milliseconds = Duration::from_millis;
    let mut backoff = Backoff::new(
        milliseconds(shared.settings.retry_milliseconds),
        milliseconds(shared.settings.longest_retry_milliseconds),
    );
    loop {
        let limit = shared.settings.handshake();
        let tried = coeval_env::timeout(limit, connect(&shared, &peer, Purpose::Frames)).await;
        match tried.unwrap_or(Err(Fault::Slow(limit))) {
            Ok(channel) => {
                backoff.reset();
                count(&peer.counters.connects);
                {
                    let mut notes = peer.counters.notes();
                    notes.connection = Connection::Standing(coeval_env::now());
                    (notes.fault, notes.refusal) = (None, None);
                }
                tracing::info!(node = peer.node.0, "connected");
                // A task that sends in response to the event finds the queue open; and a
                // task that is slow to read the event does not delay the connection.
                peer.queue.open();
                let sending = async {
                    let _closed = Closed(&peer);
                    tokio::select! {
                        biased;
                        () = peer.renewed.notified() => Fault::Closed,
                        fault = connection::send(channel, &peer, &shared.settings) => fault,
                    }
                };
                let telling = shared.inlet.tell(Event::Connected(peer.node));
                let (is_heard, fault) = tokio::join!(telling, sending);
                note(&peer, &fault);
                peer.cut_if_silent(shared.settings.silence());
                let event = Event::Disconnected(peer.node, fault);
                if !is_heard || !shared.inlet.tell(event).await {
                    return;
                }
            }
            Err(fault) => {
                count(&peer.counters.failures);
                note(&peer, &fault);
                peer.cut_if_silent(shared.settings.silence());
            }
        }
        let wait = backoff.wait(coeval_env::random_u64());
        tokio::select! {
            biased;
            () = peer.awake.notified() => {}
            () = coeval_env::sleep(wait) => {}
        }
    }
}

/// Clears the queue when the connection ends, for any reason.
struct Closed<'peer>(&'peer Peer);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let forgotten = self.0.queue.close();
        let counters = &self.0.counters;
        counters.forgotten.fetch_add(forgotten, Relaxed);
        counters.notes().connection = Connection::Trying;
    }
}

/// Records why there is no connection, and logs a new reason once.
fn note(peer: &Peer, fault: &Fault) {
    let said = fault.to_string();
    let mut notes = peer.counters.notes();
    notes.refusal = match fault {
        Fault::Refused(refusal) => Some(refusal.reason),
        _ => None,
    };
    if notes.fault.as_ref() != Some(&said) {
        let address = peer.address();
        tracing::warn!(node = peer.node.0, %address, reason = %said, "no connection");
        notes.fault = Some(said);
    }
}

/// Opens a connection to where a member listens. The addresses of a name are looked up anew
/// and tried in turn. After a failure the next attempt begins with another of them: one that
/// answers nothing, or where another node answers, does not keep the rest from being tried.
async fn reach(shared: &Shared, peer: &Peer) -> Result<Stream, Fault> {
    let location = peer.address();
    if let Some(address) = location.address() {
        let connected = coeval_env::connect(address).await;
        return connected.map_err(Fault::Unreachable);
    }
    let limit = shared.settings.handshake() / 2;
    let looked_up = coeval_env::timeout(limit, coeval_env::resolve(&location)).await;
    let slow = || {
        let words = format!("no answer for {} ms", limit.as_millis());
        io::Error::new(io::ErrorKind::TimedOut, words)
    };
    let addresses = looked_up.unwrap_or_else(|_| Err(slow()));
    let mut addresses = addresses.map_err(|error| Fault::Unresolved {
        host: location.host(),
        error,
    })?;
    let failures = peer.counters.failures.load(Relaxed) as usize;
    let first = failures % addresses.len().max(1);
    addresses.rotate_left(first);
    let mut failed = Vec::new();
    for address in addresses {
        let guarded = shared
            .security()
            .check(&address.into(), shared.settings.insecure);
        let error = match guarded {
            Err(unguarded) => unguarded.to_string(),
            Ok(()) => match coeval_env::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => format!("{address}: {error}"),
            },
        };
        failed.push(error);
    }
    // The same text at each attempt: the log shows a fault once.
    failed.sort();
    Err(Fault::Unreachable(io::Error::other(failed.join("; "))))
}

/// Connects to a member, for frames or for a stream.
pub(crate) async fn connect(
    shared: &Shared,
    peer: &Peer,
    purpose: Purpose,
) -> Result<Channel, Fault> {
    let stream = reach(shared, peer).await?;
    let security = shared.security();
    let channel = security.connect(stream, peer.node).await;
    let mut channel = channel.map_err(Fault::Tls)?;
    let hello = Hello {
        versions: VERSIONS,
        from: shared.own,
        to: peer.node,
        purpose,
        listens: shared.listens(),
        newcomer: shared.with_members(|members| members.newcomer),
        announced: shared.with_members(Members::announcement),
        protocol: Some(shared.with_members(|members| members.protocol)),
    };
    let answer = greet(&mut channel, &hello).await;
    let answer = answer.map_err(Fault::of_handshake)?;
    // The reason of a refusal explains more than the identity does.
    answer.verdict?;
    if answer.from.cluster != shared.own.cluster {
        let words = format!(
            "node {} is of cluster {}, node {} of cluster {}",
            peer.node, answer.from.cluster, shared.own.node, shared.own.cluster
        );
        return Err(Refusal::new(Reason::Cluster, words).into());
    }
    if answer.from.node != peer.node {
        return Err(Fault::Somebody(answer.from));
    }
    let announced = answer.announced.as_ref();
    peer.counters.notes().announced = answer.announced;
    let judged =
        shared.with_members(|members| members.judge(peer.node, shared.own.node, announced));
    judged.map_err(Fault::NotTheMember)?;
    Ok(channel)
}
