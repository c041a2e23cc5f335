//! The ends of simulated connections, which tasks read and write.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Context;
use super::pipe::{Connection, Timer};

/// Makes the two ends of a new connection.
pub(super) fn ends(
    connection: &Arc<Connection>,
    contexts: [Context; 2],
    addresses: [SocketAddr; 2],
) -> [Stream; 2] {
    let mut side = 0;
    contexts.map(|context| {
        let end = Arc::new(End {
            connection: Arc::clone(connection),
            side,
            context,
        });
        let stream = Stream {
            local: addresses[side],
            peer: addresses[1 - side],
            read: ReadHalf(Arc::clone(&end), Timer::default()),
            write: WriteHalf(end, Timer::default()),
        };
        side += 1;
        stream
    })
}

/// One end: the connection, the side, and the task's identity.
#[derive(Debug)]
struct End {
    connection: Arc<Connection>,
    side: usize,
    context: Context,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    read: ReadHalf,
    write: WriteHalf,
}

impl Stream {
    pub(crate) fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.read, self.write)
    }
}

#[derive(Debug)]
pub(crate) struct ReadHalf(Arc<End>, Timer);

#[derive(Debug)]
pub(crate) struct WriteHalf(Arc<End>, Timer);

impl Drop for ReadHalf {
    fn drop(&mut self) {
        let end = &self.0;
        if end.context.has_lost_power() {
            return;
        }
        end.connection.deafen(end.side);
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        let end = &self.0;
        if end.context.has_lost_power() {
            end.connection.lost(end.side);
        } else {
            end.connection.end(end.side);
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self(end, timer) = self.get_mut();
        end.connection.poll_read(end.side, timer, context, buffer)
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self(end, timer) = self.get_mut();
        end.connection.poll_write(end.side, timer, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        self.0.connection.end(self.0.side);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().read).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().write).poll_write(context, bytes)
    }

    fn poll_flush(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().write).poll_flush(context)
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().write).poll_shutdown(context)
    }
}
