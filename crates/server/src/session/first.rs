//! Startup of a connection: negotiates encryption, until the client asks for a session or
//! sends a cancel request.
//!
//! The server never treats bytes sent in the clear as received through TLS: bytes after
//! an accepted request for encryption end the connection (as for CVE-2021-23214, where a
//! man in the middle could inject statements before a client's first).

use std::sync::Arc;

use coeval_env::Stream;
use coeval_peers::NodeId;
use coeval_pgwire::startup::{Packet, Protocol};
use coeval_pgwire::{Limits, ReadBuffer};
use coeval_sql::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::debug;

use super::report;
use super::transport::Transport;
use crate::registry;
use crate::shared::Shared;
use crate::tls::Tls;

/// The result of a connection's first packets.
pub(super) enum First {
    /// The client asks for a session.
    Start(Box<Start>),
    /// The connection is finished.
    Done,
    /// The client sent an invalid packet.
    Refused(Transport, Error),
}

/// A request for a session, with its connection.
pub(super) struct Start {
    pub(super) transport: Transport,
    /// Bytes that were received after the startup packet.
    pub(super) buffer: ReadBuffer,
    pub(super) request: Request,
    /// The channel binding of the connection.
    pub(super) binding: Option<Arc<[u8]>>,
}

/// The contents of a startup packet, independent of the bytes it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) protocol: Protocol,
    pub(super) negotiate: bool,
    pub(super) options: Vec<String>,
    pub(super) parameters: Vec<(String, String)>,
}

impl Request {
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let place = self.parameters.iter().rposition(|(key, _)| key == name)?;
        Some(self.parameters.swap_remove(place).1)
    }
}

/// The server's reaction to a packet.
enum Next {
    Encrypt(Tls),
    Decline,
    Refuse(Error),
    Start(Request),
    Cancel(i32, Vec<u8>),
}

/// Reads packets until the client asks for a session or the connection is finished.
pub(super) async fn first(shared: &Shared, stream: Stream) -> First {
    let mut transport = Transport::Plain(stream);
    let mut buffer = ReadBuffer::new(Limits::BEFORE_AUTHENTICATION);
    let mut binding = None;
    // A client may ask for encryption once in each kind; then it must start a session.
    let mut asked = 0;
    loop {
        let next = match buffer.next_packet() {
            Ok(None) => {
                if !fill(&mut transport, &mut buffer).await {
                    return First::Done;
                }
                continue;
            }
            Ok(Some(packet)) => take(shared, packet, transport.is_tls(), asked),
            Err(error) => Next::Refuse(report::from_wire(&error)),
        };
        match next {
            Next::Cancel(process_id, secret) => {
                cancel(shared, process_id, &secret).await;
                return First::Done;
            }
            Next::Refuse(error) => return First::Refused(transport, error),
            Next::Start(request) => {
                return First::Start(Box::new(Start {
                    transport,
                    buffer,
                    request,
                    binding,
                }));
            }
            Next::Decline => {
                asked += 1;
                if !say(&mut transport, b"N").await {
                    return First::Done;
                }
            }
            Next::Encrypt(tls) => {
                asked += 1;
                if !buffer.is_empty() {
                    let early = "received unencrypted data after SSL request";
                    let error = report::violation(early).with_detail(
                        "This could be either a client-software bug or evidence of an attempted \
                         man-in-the-middle attack.",
                    );
                    return First::Refused(transport, error);
                }
                let Transport::Plain(mut stream) = transport else {
                    return First::Done;
                };
                if stream.write_all(b"S").await.is_err() {
                    return First::Done;
                }
                match tls.acceptor.accept(stream).await {
                    Ok(stream) => transport = Transport::Tls(Box::new(stream)),
                    Err(error) => {
                        debug!(%error, "a TLS handshake failed");
                        return First::Done;
                    }
                }
                binding = tls.binding;
            }
        }
    }
}

fn take(shared: &Shared, packet: Packet<'_>, encrypted: bool, asked: usize) -> Next {
    match packet {
        Packet::SslRequest | Packet::GssEncryptionRequest if encrypted || asked >= 2 => {
            Next::Refuse(report::violation("encryption was asked for already"))
        }
        Packet::SslRequest => match shared.access().tls.clone() {
            Some(tls) => Next::Encrypt(tls),
            None => Next::Decline,
        },
        Packet::GssEncryptionRequest => Next::Decline,
        Packet::Cancel { process_id, secret } => Next::Cancel(process_id, secret.to_vec()),
        Packet::Start(start) => {
            let owned = |text: &&str| (*text).to_owned();
            Next::Start(Request {
                protocol: start.protocol,
                negotiate: start.negotiate,
                options: start.options.iter().map(owned).collect(),
                parameters: start
                    .parameters
                    .iter()
                    .map(|(name, value)| (owned(name), owned(value)))
                    .collect(),
            })
        }
    }
}

/// Cancels the statement of a session. The node of its client knows where the statement
/// runs: there, or on the leader.
async fn cancel(shared: &Shared, process_id: i32, secret: &[u8]) {
    let own = shared.settings.cluster_node;
    match (&shared.node, registry::node_of(process_id)) {
        (Some(node), of_client) if of_client != own => {
            let streams = node.streams();
            super::relay::cancel(&streams, NodeId(of_client), process_id, secret).await;
        }
        _ => {
            shared.registry.cancel(process_id, secret);
        }
    }
}

/// Reads more bytes; false at the end of the stream.
async fn fill(transport: &mut Transport, buffer: &mut ReadBuffer) -> bool {
    let room = buffer.make_room();
    let read = match transport {
        Transport::Plain(stream) => stream.read_buf(room).await,
        Transport::Tls(stream) => stream.read_buf(room).await,
        Transport::Peer(stream) => stream.read_buf(room).await,
    };
    matches!(read, Ok(1..))
}

/// Writes to the client; false when it has closed the connection.
pub(super) async fn say(transport: &mut Transport, bytes: &[u8]) -> bool {
    let written = match transport {
        Transport::Plain(stream) => stream.write_all(bytes).await,
        Transport::Tls(stream) => match stream.write_all(bytes).await {
            Ok(()) => stream.flush().await,
            error => error,
        },
        Transport::Peer(stream) => match stream.write_all(bytes).await {
            Ok(()) => stream.flush().await,
            error => error,
        },
    };
    written.is_ok()
}
