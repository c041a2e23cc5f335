//! The network: TCP listeners and connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::location::{Location, no_address};
use crate::real;
#[cfg(feature = "sim")]
use crate::sim;
use crate::world::{World, current};

/// A listener, which accepts connections at an address.
#[derive(Debug)]
pub struct Listener(ListenerKind);

#[derive(Debug)]
enum ListenerKind {
    Real(real::net::Listener),
    #[cfg(feature = "sim")]
    Sim(sim::net::Listener),
}

impl Listener {
    /// Waits for the next connection, and returns it with its peer's address. Cancelling
    /// the wait loses no connection.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match &self.0 {
            ListenerKind::Real(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream(StreamKind::Real(stream)), peer))
            }
            #[cfg(feature = "sim")]
            ListenerKind::Sim(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream(StreamKind::Sim(stream)), peer))
            }
        }
    }

    /// The address it listens at, with the actual port when it was opened with port 0.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            ListenerKind::Real(listener) => listener.local_addr(),
            #[cfg(feature = "sim")]
            ListenerKind::Sim(listener) => Ok(listener.local_addr()),
        }
    }
}

/// Opens a listener at `address`; port 0 chooses a free port.
pub async fn listen(address: SocketAddr) -> io::Result<Listener> {
    match current() {
        World::Real => Ok(Listener(ListenerKind::Real(
            real::net::listen(address).await?,
        ))),
        #[cfg(feature = "sim")]
        World::Sim(context) => Ok(Listener(ListenerKind::Sim(
            sim::net::listen(context, address).await?,
        ))),
    }
}

/// Ports below the ephemeral range: the operating system assigns none of these to a
/// connecting socket.
const PORTS: std::ops::Range<u16> = 10_240..32_768;

/// Number of ports that are tried.
const TRIES: usize = 1000;

/// A loopback port without a listener at the moment, which this process has not given out
/// before. No connecting socket takes the port in the meantime, so a server finds it
/// free, also at a restart.
pub async fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Concurrent processes begin their search at different ports.
    let begin = std::process::id().wrapping_mul(331);
    for _ in 0..TRIES {
        let number = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (number % PORTS.len() as u32) as u16;
        if listen((Ipv4Addr::LOCALHOST, port).into()).await.is_ok() {
            return Ok(port);
        }
    }
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Ok(listen(any).await?.local_addr()?.port())
}

/// Connects to `address`.
pub async fn connect(address: SocketAddr) -> io::Result<Stream> {
    match current() {
        World::Real => Ok(Stream(StreamKind::Real(real::net::connect(address).await?))),
        #[cfg(feature = "sim")]
        World::Sim(context) => Ok(Stream(StreamKind::Sim(
            sim::net::connect(context, address).await?,
        ))),
    }
}

/// The addresses of a location, at least one, in the order in which they should be tried. Only
/// a host name is looked up, and each time anew; for others the call does not wait.
pub async fn resolve(location: &Location) -> io::Result<Vec<SocketAddr>> {
    if let Some(known) = location.known() {
        return Ok(known);
    }
    let (host, port) = (location.host(), location.port());
    let addresses = match current() {
        World::Real => real::net::resolve(&host, port).await?,
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::net::resolve(&context, &host, port)?,
    };
    match addresses.is_empty() {
        true => Err(no_address()),
        false => Ok(addresses),
    }
}

/// A TCP connection. Small writes are sent at once (no Nagle delay).
#[derive(Debug)]
pub struct Stream(StreamKind);

#[derive(Debug)]
enum StreamKind {
    Real(real::net::Stream),
    #[cfg(feature = "sim")]
    Sim(sim::net::Stream),
}

impl Stream {
    /// Address of the local end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            StreamKind::Real(stream) => stream.local_addr(),
            #[cfg(feature = "sim")]
            StreamKind::Sim(stream) => Ok(stream.local),
        }
    }

    /// Address of the remote end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            StreamKind::Real(stream) => stream.peer_addr(),
            #[cfg(feature = "sim")]
            StreamKind::Sim(stream) => Ok(stream.peer),
        }
    }

    /// Splits the connection into its two directions, for two tasks. Dropping the writing
    /// half closes that direction.
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self.0 {
            StreamKind::Real(stream) => {
                let (read, write) = stream.into_split();
                (
                    ReadHalf(ReadHalfKind::Real(read)),
                    WriteHalf(WriteHalfKind::Real(write)),
                )
            }
            #[cfg(feature = "sim")]
            StreamKind::Sim(stream) => {
                let (read, write) = stream.into_split();
                (
                    ReadHalf(ReadHalfKind::Sim(read)),
                    WriteHalf(WriteHalfKind::Sim(write)),
                )
            }
        }
    }
}

/// The reading direction of a [`Stream`].
#[derive(Debug)]
pub struct ReadHalf(ReadHalfKind);

#[derive(Debug)]
enum ReadHalfKind {
    Real(real::net::ReadHalf),
    #[cfg(feature = "sim")]
    Sim(sim::net::ReadHalf),
}

/// The writing direction of a [`Stream`].
#[derive(Debug)]
pub struct WriteHalf(WriteHalfKind);

#[derive(Debug)]
enum WriteHalfKind {
    Real(real::net::WriteHalf),
    #[cfg(feature = "sim")]
    Sim(sim::net::WriteHalf),
}

macro_rules! reads {
    ($stream:ident, $kind:ident) => {
        impl AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match &mut self.get_mut().0 {
                    $kind::Real(stream) => Pin::new(stream).poll_read(context, buffer),
                    #[cfg(feature = "sim")]
                    $kind::Sim(stream) => Pin::new(stream).poll_read(context, buffer),
                }
            }
        }
    };
}

macro_rules! writes {
    ($stream:ident, $kind:ident) => {
        impl AsyncWrite for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match &mut self.get_mut().0 {
                    $kind::Real(stream) => Pin::new(stream).poll_write(context, bytes),
                    #[cfg(feature = "sim")]
                    $kind::Sim(stream) => Pin::new(stream).poll_write(context, bytes),
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match &mut self.get_mut().0 {
                    $kind::Real(stream) => Pin::new(stream).poll_write_vectored(context, slices),
                    #[cfg(feature = "sim")]
                    $kind::Sim(stream) => Pin::new(stream).poll_write_vectored(context, slices),
                }
            }

            fn is_write_vectored(&self) -> bool {
                match &self.0 {
                    $kind::Real(stream) => stream.is_write_vectored(),
                    #[cfg(feature = "sim")]
                    $kind::Sim(stream) => stream.is_write_vectored(),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match &mut self.get_mut().0 {
                    $kind::Real(stream) => Pin::new(stream).poll_flush(context),
                    #[cfg(feature = "sim")]
                    $kind::Sim(stream) => Pin::new(stream).poll_flush(context),
                }
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                match &mut self.get_mut().0 {
                    $kind::Real(stream) => Pin::new(stream).poll_shutdown(context),
                    #[cfg(feature = "sim")]
                    $kind::Sim(stream) => Pin::new(stream).poll_shutdown(context),
                }
            }
        }
    };
}

reads!(Stream, StreamKind);
writes!(Stream, StreamKind);
reads!(ReadHalf, ReadHalfKind);
writes!(WriteHalf, WriteHalfKind);
