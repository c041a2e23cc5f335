//! TCP of the real environment, by tokio.

use std::io;
use std::net::SocketAddr;

pub(crate) type Stream = tokio::net::TcpStream;
pub(crate) type ReadHalf = tokio::net::tcp::OwnedReadHalf;
pub(crate) type WriteHalf = tokio::net::tcp::OwnedWriteHalf;

#[derive(Debug)]
pub(crate) struct Listener(tokio::net::TcpListener);

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (stream, peer) = self.0.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

pub(crate) async fn listen(address: SocketAddr) -> io::Result<Listener> {
    Ok(Listener(tokio::net::TcpListener::bind(address).await?))
}

pub(crate) async fn connect(address: SocketAddr) -> io::Result<Stream> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
