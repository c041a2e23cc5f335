//! The byte stream of a connection, encrypted or not.
//!
//! Without TLS the two directions are the socket's own. With TLS they share a state,
//! protected by a lock that only this session ever takes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use coeval_env::Stream;
use coeval_peers::PeerStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A connection before it is split into its two directions.
pub(super) enum Transport {
    Plain(Stream),
    Tls(Box<TlsStream<Stream>>),
    /// A stream of another node, for its client.
    Peer(Box<PeerStream>),
}

impl Transport {
    pub(super) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Splits the connection into its two directions.
    pub(super) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Plain(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Plain(read), WriteHalf::Plain(write))
            }
            Self::Tls(stream) => {
                let (read, write) = tokio::io::split(*stream);
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
            Self::Peer(stream) => {
                let (read, write) = tokio::io::split(*stream);
                (ReadHalf::Peer(read), WriteHalf::Peer(write))
            }
        }
    }
}

/// The receiving direction.
pub(crate) enum ReadHalf {
    Plain(coeval_env::ReadHalf),
    Tls(tokio::io::ReadHalf<TlsStream<Stream>>),
    Peer(tokio::io::ReadHalf<PeerStream>),
}

/// The sending direction. Written bytes may stay in a buffer until it is flushed.
pub(crate) enum WriteHalf {
    Plain(coeval_env::WriteHalf),
    Tls(tokio::io::WriteHalf<TlsStream<Stream>>),
    Peer(tokio::io::WriteHalf<PeerStream>),
    /// None: the stream is with the part that answers the client at the moment.
    Lent,
}

impl AsyncRead for ReadHalf {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Peer(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for WriteHalf {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Peer(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Lent => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
            Self::Peer(stream) => Pin::new(stream).poll_flush(context),
            Self::Lent => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Peer(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Lent => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}
