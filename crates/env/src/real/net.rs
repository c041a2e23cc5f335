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

/// Asks the operating system, on a thread that may wait for it.
pub(crate) async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

pub(crate) async fn connect(address: SocketAddr) -> io::Result<Stream> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_by_the_operating_system() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let here = runtime.unwrap().block_on(resolve("localhost", 7001));
        let here = here.unwrap();
        assert!(!here.is_empty());
        for address in here {
            assert!(
                address.ip().is_loopback() && address.port() == 7001,
                "{address}"
            );
        }
    }
}
