//! Connection security between nodes: a connection's bytes are plain, or inside TLS.
//!
//! All layers above use a [`Channel`], and do not know which of the two it is. TLS is
//! outside the part that the simulator covers: a simulated channel is always plain.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use coeval_env::{Location, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::identity::NodeId;
use crate::refusal::{Reason, Refusal};
use crate::tls::Tls;

/// How connections between nodes are secured.
#[derive(Clone, Default)]
pub enum Security {
    /// Not at all: each side believes the other's id. For nodes on one machine.
    #[default]
    Plain,
    /// Both sides present certificates of the cluster's authority.
    Tls(Tls),
}

impl fmt::Debug for Security {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(_) => "Tls",
        })
    }
}

/// A location that other machines can reach, or may reach by its name, without TLS to secure
/// it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} can be reached from other machines, and nodes talk to those through TLS only; name the \
     certificate of this node, its key and the cluster's authority (`coeval cert` makes them), or \
     say --insecure",
    .0.host()
)]
pub struct Unguarded(pub Location);

impl Security {
    /// Whether a node may communicate at `location`. The dialler also asks for each address of
    /// a name.
    pub fn check(&self, location: &Location, insecure: bool) -> Result<(), Unguarded> {
        match self {
            Self::Plain if !insecure && !location.is_loopback() => Err(Unguarded(location.clone())),
            _ => Ok(()),
        }
    }

    /// Secures a connection that this node, or a client with a certificate like a node's, has
    /// opened to `node`.
    ///
    /// # Errors
    /// Why not, in words.
    pub async fn connect(&self, stream: Stream, node: NodeId) -> Result<Channel, String> {
        match self {
            Self::Plain => Ok(Channel::plain(stream)),
            Self::Tls(tls) => tls.connect(stream, node).await,
        }
    }

    /// Secures a connection that this node has accepted, from any certificate of the cluster's
    /// authority.
    ///
    /// # Errors
    /// Why not, in words.
    pub async fn accept(&self, stream: Stream) -> Result<Channel, String> {
        match self {
            Self::Plain => Ok(Channel::plain(stream)),
            Self::Tls(tls) => tls.accept(stream).await,
        }
    }
}

/// The byte stream inside a channel.
pub(crate) trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Carrier for S {}

/// The certificate by which the other side of a channel identified itself.
pub(crate) struct Shown {
    pub(crate) tls: Tls,
    pub(crate) certificate: CertificateDer<'static>,
}

/// A connection to another node, as bytes in both directions.
pub struct Channel {
    carrier: Box<dyn Carrier>,
    shown: Option<Shown>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.shown {
            None => "Channel: plain",
            Some(_) => "Channel: TLS",
        })
    }
}

impl Channel {
    pub(crate) fn plain(stream: Stream) -> Self {
        Self {
            carrier: Box::new(stream),
            shown: None,
        }
    }

    pub(crate) fn guarded(carrier: impl Carrier + 'static, shown: Shown) -> Self {
        Self {
            carrier: Box::new(carrier),
            shown: Some(shown),
        }
    }

    /// Whether the other side has shown a certificate of this number. A plain channel shows none.
    #[must_use]
    pub fn shows(&self, number: NodeId) -> bool {
        self.shown.is_some() && self.vouches_for(number).is_ok()
    }

    /// Whether the other side's certificate allows it to use this node's id.
    pub(crate) fn vouches_for(&self, node: NodeId) -> Result<(), Refusal> {
        let Some(shown) = &self.shown else {
            return Ok(());
        };
        let vouched = shown.tls.vouches(&shown.certificate, node);
        vouched.map_err(|words| Refusal::new(Reason::Certificate, words))
    }
}

impl AsyncRead for Channel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_read(context, buffer)
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.carrier).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_talks_to_other_machines_unguarded() {
        for (address, local) in [
            ("127.0.0.1:6433", true),
            ("127.0.0.9:0", true),
            ("[::1]:6433", true),
            ("0.0.0.0:6433", false),
            ("192.168.0.1:6433", false),
            ("[2001:db8::1]:6433", false),
            ("localhost:6433", true),
            ("db1:6433", false),
        ] {
            let address = address.parse().unwrap();
            let checked = Security::Plain.check(&address, false);
            assert_eq!(checked.is_ok(), local, "{address}");
            if let Err(refused) = checked {
                assert!(refused.to_string().contains("say --insecure"));
            }
            Security::Plain.check(&address, true).unwrap();
        }
    }
}
