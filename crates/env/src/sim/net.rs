//! A network without distance: connections are pairs of pipes in memory.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use super::task::interleave;
use super::{Context, hash_bytes};

/// Bytes that may be on their way in one direction.
const PIPE_BYTES: usize = 64 << 10;
/// Connections that may wait to be accepted.
const BACKLOG: usize = 128;
/// The first port handed out to those who do not care.
const FIRST_FREE_PORT: u16 = 49152;

type Incoming = (Stream, SocketAddr);

/// Who listens where.
#[derive(Default)]
pub(crate) struct Network {
    listeners: BTreeMap<SocketAddr, mpsc::Sender<Incoming>>,
    ports: u16,
}

impl Network {
    fn free_port(&mut self) -> u16 {
        self.ports = self.ports.checked_add(1).unwrap_or_default();
        FIRST_FREE_PORT + self.ports % (u16::MAX - FIRST_FREE_PORT)
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Incoming> {
        let incoming = self.incoming.lock().await.recv().await;
        incoming.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

pub(crate) async fn listen(context: Context, mut address: SocketAddr) -> io::Result<Listener> {
    interleave(&context).await;
    let (sender, incoming) = mpsc::channel(BACKLOG);
    let mut network = context.shared.network();
    if address.port() == 0 {
        let port = network.free_port();
        address.set_port(port);
    }
    if let Some(other) = network.listeners.get(&address)
        && !other.is_closed()
    {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    network.listeners.insert(address, sender);
    drop(network);
    context.trace("listen", &[u64::from(address.port())]);
    Ok(Listener {
        address,
        incoming: tokio::sync::Mutex::new(incoming),
    })
}

pub(crate) async fn connect(context: Context, address: SocketAddr) -> io::Result<Stream> {
    interleave(&context).await;
    context.trace("connect", &[u64::from(address.port())]);
    let (listener, port) = {
        let mut network = context.shared.network();
        let listener = network.listeners.get(&address).cloned();
        (listener, network.free_port())
    };
    let listener = listener.ok_or(io::ErrorKind::ConnectionRefused)?;
    let local = SocketAddr::new(address.ip(), port);
    let (there, here) = (Pipe::new(), Pipe::new());
    let theirs = Stream {
        local: address,
        peer: local,
        read: ReadHalf(Arc::clone(&there)),
        write: WriteHalf(Arc::clone(&here)),
    };
    let ours = Stream {
        local,
        peer: address,
        read: ReadHalf(here),
        write: WriteHalf(there),
    };
    listener
        .send((theirs, local))
        .await
        .map_err(|_| io::ErrorKind::ConnectionRefused)?;
    Ok(ours)
}

/// One direction of a connection.
#[derive(Debug)]
struct Pipe(Mutex<PipeState>);

#[derive(Debug, Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    /// The writing end has gone: what is there is all there will be.
    ended: bool,
    /// The reading end has gone.
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.0.lock().expect("no panic under this lock")
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
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
pub(crate) struct ReadHalf(Arc<Pipe>);

#[derive(Debug)]
pub(crate) struct WriteHalf(Arc<Pipe>);

impl Drop for ReadHalf {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.broken = true;
        wake(&mut state.writer);
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ended = true;
        wake(&mut state.reader);
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        if state.bytes.is_empty() && !state.ended {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = buffer.remaining().min(state.bytes.len());
        let bytes: Vec<u8> = state.bytes.drain(..count).collect();
        wake(&mut state.writer);
        drop(state);
        if let Some(task) = super::current() {
            task.trace("receive", &[hash_bytes(0, &bytes)]);
        }
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.state();
        if state.broken || state.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(PIPE_BYTES - state.bytes.len());
        if count == 0 && !bytes.is_empty() {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.bytes.extend(&bytes[..count]);
        wake(&mut state.reader);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        state.ended = true;
        wake(&mut state.reader);
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
