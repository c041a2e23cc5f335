//! Why there is no connection to a node, or not any more.

use std::io;
use std::time::Duration;

use crate::frame::FrameError;
use crate::handshake::HandshakeError;
use crate::identity::Identity;
use crate::refusal::Refusal;
use crate::tls::explain_io;

/// Why there is no connection to a node, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Nobody could be reached at its address.
    #[error("cannot be reached: {0}")]
    Unreachable(io::Error),
    /// TLS could not be agreed on.
    #[error("TLS: {0}")]
    Tls(String),
    /// It did not say in time who it is.
    #[error("said nothing for {} ms when it should have said who it is", .0.as_millis())]
    Slow(Duration),
    /// The handshake went wrong.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// One side does not let the other in.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// Somebody else answers at its address.
    #[error("at its address answers node {} of cluster {}", .0.node, .0.cluster)]
    Somebody(Identity),
    /// What it sent cannot be read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It has not been heard of for this long.
    #[error("has been silent for {} ms", .0.as_millis())]
    Silent(Duration),
    /// It closed the connection.
    #[error("has closed the connection")]
    Closed,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl Fault {
    /// What went wrong in a handshake. TLS tells some of its refusals only by then.
    pub(crate) fn of_handshake(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Io(error) => Self::of(error),
            error => Self::Handshake(error),
        }
    }

    /// What went wrong on a connection.
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
