//! The receiving side of a connection: buffers input that the session has not handled,
//! and detects that the client has gone.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use coeval_pgwire::ReadBuffer;
use coeval_sql::instance::{Deadline, TimeLimit};
use tokio::io::{AsyncRead, ReadBuf};

use super::signal::Signal;
use super::transport::ReadHalf;
use crate::metrics::Sheet;

/// Maximum number of bytes read ahead while a statement waits. The session reads to
/// detect a closed connection; a client that sends more is connected.
const AHEAD: usize = 16 << 10;

/// Why a session that waits for input stops waiting.
#[derive(Debug)]
pub(crate) enum Wake {
    /// More bytes have arrived.
    Bytes,
    /// The client has closed the connection, properly or not.
    Gone,
    /// The session must end.
    Terminated,
    /// A cancel request ends the COPY that waits for data.
    Canceled,
    /// The client was silent for longer than this limit.
    Late(TimeLimit),
    /// The engine no longer leads; the session continues elsewhere.
    Deposed,
}

/// The receiving side of a connection.
pub(crate) struct Input {
    pub(crate) buffer: ReadBuffer,
    pub(crate) watch: Watch,
}

/// The stream, and the bytes read from it while the buffer was in use.
pub(crate) struct Watch {
    stream: ReadHalf,
    ahead: Vec<u8>,
    gone: bool,
    sheet: Arc<Sheet>,
}

impl Input {
    /// An input whose `buffer` holds bytes that were read already.
    pub(crate) fn new(stream: ReadHalf, buffer: ReadBuffer, sheet: Arc<Sheet>) -> Self {
        Self {
            buffer,
            watch: Watch {
                stream,
                ahead: Vec::new(),
                gone: false,
                sheet,
            },
        }
    }

    /// Waits for more bytes. Between statements a cancel request has no effect; during a
    /// COPY (`cancelable`) it ends the wait. `patience` is the deadline for the client's
    /// next bytes.
    pub(crate) async fn fill(
        &mut self,
        signal: &Signal,
        cancelable: bool,
        patience: Option<Deadline>,
    ) -> Wake {
        if !self.watch.ahead.is_empty() {
            self.buffer.extend(&self.watch.ahead);
            self.watch.ahead.clear();
            return Wake::Bytes;
        }
        if self.watch.gone {
            return Wake::Gone;
        }
        let room = self.buffer.make_room();
        let stream = &mut self.watch.stream;
        let mut read = pin!(tokio::io::AsyncReadExt::read_buf(stream, room));
        let mut late = pin!(async {
            match patience {
                Some(Deadline { at, limit }) => {
                    coeval_env::sleep_until(at).await;
                    limit
                }
                None => std::future::pending().await,
            }
        });
        poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Ready(Ok(count @ 1..)) => {
                self.watch.sheet.received(count);
                Poll::Ready(Wake::Bytes)
            }
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Wake::Gone),
            Poll::Pending => {
                signal.register(context);
                if signal.is_terminated() {
                    Poll::Ready(Wake::Terminated)
                } else if signal.is_deposed() {
                    Poll::Ready(Wake::Deposed)
                } else if cancelable && signal.is_canceled() {
                    Poll::Ready(Wake::Canceled)
                } else {
                    late.as_mut().poll(context).map(Wake::Late)
                }
            }
        })
        .await
    }
}

impl Input {
    /// Reads more bytes, if there are any; `Err` at the end of the stream.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ()>> {
        if !self.watch.ahead.is_empty() {
            self.buffer.extend(&self.watch.ahead);
            self.watch.ahead.clear();
            return Poll::Ready(Ok(()));
        }
        if self.watch.gone {
            return Poll::Ready(Err(()));
        }
        let Self { buffer, watch } = self;
        let room = buffer.make_room();
        let read = pin!(tokio::io::AsyncReadExt::read_buf(&mut watch.stream, room));
        match ready!(read.poll(context)) {
            Ok(count @ 1..) => {
                watch.sheet.received(count);
                Poll::Ready(Ok(()))
            }
            Ok(0) | Err(_) => {
                watch.gone = true;
                Poll::Ready(Err(()))
            }
        }
    }

    /// Ready when the client has closed the connection; reads ahead to detect that.
    pub(crate) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.watch.poll_gone(context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Watch {
    /// Runs `work` on behalf of this client's session: if the client closes the
    /// connection meanwhile, or another session cancels it, the work's cancel flag is
    /// set.
    ///
    /// Work that is ready at once costs nothing here.
    pub(crate) async fn over<T>(&mut self, signal: &Signal, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            signal.register(context);
            let canceled = signal.is_canceled();
            if self.poll_gone(context) && !canceled {
                signal.cancel();
            }
            // The flag may have been set after the work read it and before this task
            // could be woken for it.
            if signal.is_canceled() {
                return work.as_mut().poll(context);
            }
            Poll::Pending
        })
        .await
    }

    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>) -> bool {
        while !self.gone && self.ahead.len() < AHEAD {
            let mut bytes = [0; 4096];
            let mut read = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut read) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    self.sheet.received(read.filled().len());
                    self.ahead.put_slice(read.filled());
                }
                Poll::Ready(_) => self.gone = true,
            }
        }
        self.gone
    }
}
