//! The listener for clients: lets them in, and carries their requests to the front end.
//!
//! Each connection has a bounded number of requests under way, and all together a bounded number
//! of bytes ([`Requests`]): beyond either the node reads no more from it, and the client waits. So
//! a connection holds one request that waits, beside those that have their room.
//! A connection that has not logged in holds one of few places, and for a short time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::{JoinHandle, Stream};
use coeval_peers::{Channel, ClusterId, NodeId, Security, Unguarded};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::requests::{Outcome, Request, Requests};
use crate::answer::{Answer, Reason, Right};
use crate::back_end::NoImage;
use crate::client::login::{LoginError, let_in};
use crate::client::protocol::{self, Asked, Reply};
use crate::client::{Access, Rights};
use crate::configuration::Configuration;
use crate::message::Refusal;

/// Most connections of clients.
const CONNECTIONS: usize = 10_000;
/// Most connections that have not logged in.
const STRANGERS: usize = 64;
/// How long a login may take.
const LOGIN: Duration = Duration::from_secs(3);
/// Most requests of a connection that are under way.
const AT_ONCE: usize = 1024;
/// Places that a part of an image takes among these: some of them at most wait to be written.
const IMAGE_PLACES: u32 = 256;
/// Replies that are written at once.
const BATCH: usize = 256;

/// Why a node cannot listen for clients.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Other machines could reach it without TLS.
    #[error(transparent)]
    Unguarded(#[from] Unguarded),
    /// The operating system.
    #[error("cannot listen for clients at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
}

/// Who may come in, and where they are led.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) identity: (ClusterId, NodeId),
    pub(super) security: Security,
    pub(super) access: Access,
    pub(super) requests: Requests,
}

impl Gate {
    /// Listens, and serves from then on. Returns the address, and what ends it when dropped.
    pub(super) async fn open(self, address: SocketAddr) -> Result<(SocketAddr, Open), GateError> {
        self.security.check(&address.into(), false)?;
        let failed = |error| GateError::Listen { address, error };
        let listener = coeval_env::listen(address).await.map_err(failed)?;
        let listened = listener.local_addr().map_err(failed)?;
        let strangers = Arc::new(Semaphore::new(STRANGERS));
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let task = coeval_env::spawn("take clients' connections", async move {
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "a client's connection could not be accepted");
                        coeval_env::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let stranger = Arc::clone(&strangers).try_acquire_owned();
                let place = Arc::clone(&places).try_acquire_owned();
                let (Ok(stranger), Ok(place)) = (stranger, place) else {
                    continue;
                };
                let gate = self.clone();
                coeval_env::spawn("client", async move {
                    let login = gate.let_in(stream);
                    let logged_in = coeval_env::timeout(LOGIN, login).await;
                    drop(stranger);
                    match logged_in {
                        Ok(Ok((channel, client))) => gate.serve(channel, client).await,
                        Ok(Err(reason)) => tracing::info!(reason, "a client was not let in"),
                        Err(coeval_env::Elapsed) => {
                            tracing::info!("a client's login took too long")
                        }
                    }
                    drop(place);
                });
            }
        });
        Ok((listened, Open(task)))
    }

    async fn let_in(&self, stream: Stream) -> Result<(Channel, (Rights, u16)), String> {
        let mut channel = self.security.accept(stream).await?;
        let login = let_in(&mut channel, self.identity, &self.access, Channel::shows);
        let client = login.await.map_err(|error: LoginError| error.to_string())?;
        Ok((channel, client))
    }

    /// Carries requests and replies until the client goes, or sends what no client does.
    async fn serve(&self, channel: Channel, (rights, version): (Rights, u16)) {
        let (mut reading, writing) = tokio::io::split(channel);
        let (replies, replied) = mpsc::unbounded_channel();
        let writer = coeval_env::spawn("replies", write(writing, replied));
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        // Until the connection ends, or asks for a newer one.
        let mut held;
        loop {
            let payload = match protocol::read(&mut reading, protocol::MOST_ASKED).await {
                Ok(Some(payload)) => payload,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "a client's connection ends");
                    break;
                }
            };
            let Ok((number, asked)) = Asked::decode(payload) else {
                tracing::info!("a client sent what no client sends");
                break;
            };
            let places = match asked {
                Asked::Image(..) => IMAGE_PLACES,
                _ => 1,
            };
            let place = Arc::clone(&at_once).acquire_many_owned(places).await;
            let Ok(place) = place else {
                break;
            };
            if let Some(refused) = refuse(rights, &asked) {
                // The client may have gone.
                let _ = replies.send((refused.encode_for(number, version), place));
                continue;
            }
            // Before the next request is read: what waits for room waits in the connection.
            let with_room = match asked {
                Asked::Request(request) => match self.requests.room(&request).await {
                    Some(room) => Some((request, room)),
                    None => break,
                },
                Asked::Status => None,
                // One at a time: a part of an image is long, and the next is not looked for before
                // this one has been asked for.
                Asked::Hold => {
                    held = self.requests.hold().await;
                    let reply = match &held {
                        Some(held) => {
                            let configuration = Configuration::clone(&held.configuration);
                            Reply::Held(held.epoch, Box::new(configuration))
                        }
                        None => Reply::NoImage(NoImage::NotHeld),
                    };
                    // The client may have gone.
                    let _ = replies.send((reply.encode_for(number, version), place));
                    continue;
                }
                Asked::Image(partition, through, after) => {
                    let image = self.requests.image((partition, through), after).await;
                    let reply = image.map_or_else(Reply::NoImage, Reply::Image);
                    // The client may have gone.
                    let _ = replies.send((reply.encode_for(number, version), place));
                    continue;
                }
            };
            let (requests, replies) = (self.requests.clone(), replies.clone());
            coeval_env::spawn("request", async move {
                let reply = match with_room {
                    Some((request, room)) => Reply::Outcome(requests.ask_in(request, room).await),
                    None => match requests.status().await {
                        Some(status) => Reply::Status(status.lines()),
                        None => return,
                    },
                };
                let mut encoded = reply.encode_for(number, version);
                if encoded.len() > protocol::MOST_PAYLOAD {
                    let refused = Answer::Aborted(Reason::Refused(Refusal::TooLong));
                    let refused = Reply::Outcome(Outcome::Answered(refused));
                    encoded = refused.encode_for(number, version);
                }
                // The client may have gone.
                let _ = replies.send((encoded, place));
            });
        }
        drop(replies);
        writer.abort();
    }
}

/// The refusal of what the client has no right to.
fn refuse(rights: Rights, asked: &Asked) -> Option<Reply> {
    let refused = |right| {
        let reason = Reason::NotAllowed(right);
        Some(Reply::Outcome(Outcome::Answered(Answer::Aborted(reason))))
    };
    match asked {
        Asked::Request(Request::PutAll(_)) if !rights.put => refused(Right::Put),
        Asked::Request(Request::GetLatest(_) | Request::GetAt(..)) if !rights.get => {
            refused(Right::Get)
        }
        Asked::Hold | Asked::Image(..) if !rights.get => Some(Reply::NoImage(NoImage::NotAllowed)),
        _ => None,
    }
}

/// A reply, and the place of its request, which is free once the reply is written.
type Written = (Vec<u8>, OwnedSemaphorePermit);

/// Writes replies until there are none any more.
async fn write<S: AsyncWrite + Unpin>(stream: S, mut replies: mpsc::UnboundedReceiver<Written>) {
    let mut stream = tokio::io::BufWriter::new(stream);
    let mut batch = Vec::new();
    while replies.recv_many(&mut batch, BATCH).await > 0 {
        for (reply, _) in &batch {
            if protocol::write(&mut stream, reply).await.is_err() {
                return;
            }
        }
        batch.clear();
        if stream.flush().await.is_err() {
            return;
        }
    }
}

/// An open listener: dropping it closes it.
#[derive(Debug)]
pub(super) struct Open(JoinHandle<()>);

impl Open {
    pub(super) fn new(task: JoinHandle<()>) -> Self {
        Self(task)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.abort();
    }
}
