//! Connection faults: why a connection to a node failed or ended.

use std::io;
use std::time::Duration;

use crate::frame::FrameError;
use crate::handshake::HandshakeError;
use crate::identity::Identity;
use crate::refusal::Refusal;
use crate::tls::explain_io;

/// Why a connection to a node failed or ended.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The name of the node's host has no address, or could not be looked up.
    #[error("the host name {host} cannot be looked up: {error}")]
    Unresolved {
        /// The name.
        host: String,
        /// The resolver's error.
        error: io::Error,
    },
    /// The node's address could not be reached; or none of those of its name.
    #[error("cannot be reached: {0}")]
    Unreachable(io::Error),
    /// TLS could not be established.
    #[error("TLS: {0}")]
    Tls(String),
    /// The node did not complete the handshake in time.
    #[error("said nothing for {} ms when it should have said who it is", .0.as_millis())]
    Slow(Duration),
    /// The handshake was malformed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// One of the two nodes refused the connection.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// This node does not speak with the node: it is not the member that this node knows.
    #[error(transparent)]
    NotTheMember(Refusal),
    /// Another node answers at the node's address.
    #[error("at its address answers node {} of cluster {}", .0.node, .0.cluster)]
    Somebody(Identity),
    /// A frame from the node is malformed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The node has been silent for this long.
    #[error("has been silent for {} ms", .0.as_millis())]
    Silent(Duration),
    /// The node closed the connection.
    #[error("has closed the connection")]
    Closed,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl Fault {
    /// The fault of a handshake. TLS reports some of its refusals only during the
    /// handshake.
    pub(crate) fn of_handshake(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Io(error) => Self::of(error),
            error => Self::Handshake(error),
        }
    }

    /// The fault of a connection.
    pub(crate) fn of(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::Closed;
        }
        match explain_io(&error) {
            Some(words) => Self::Tls(words),
            None => Self::Io(error),
        }
    }
}
