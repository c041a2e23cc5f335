//! One direction of a relay: a stream, and the bytes that wait to be sent on it.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Unsent bytes to one side from which the relay stops reading the other.
const HIGH_WATER: usize = 256 << 10;

/// Bytes to be sent to one side.
pub(in crate::session) struct Side<W> {
    pub(super) stream: W,
    pub(super) buffer: Vec<u8>,
    pub(super) sent: usize,
    pub(super) flushing: bool,
}

impl<W: AsyncWrite + Unpin> Side<W> {
    pub(super) const fn new(stream: W, buffer: Vec<u8>) -> Self {
        Self {
            stream,
            buffer,
            sent: 0,
            flushing: false,
        }
    }

    /// Takes the stream, with its unsent bytes and whether it may buffer others, and leaves
    /// another one.
    pub(in crate::session) fn take(&mut self, other: W) -> (W, Vec<u8>, bool) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.drain(..std::mem::take(&mut self.sent));
        let flushing = std::mem::take(&mut self.flushing);
        (std::mem::replace(&mut self.stream, other), buffer, flushing)
    }

    /// Puts back what was taken.
    pub(in crate::session) fn put(&mut self, stream: W, buffer: Vec<u8>, flushing: bool) {
        (self.stream, self.buffer, self.sent, self.flushing) = (stream, buffer, 0, flushing);
    }

    /// The bytes to be sent.
    pub(in crate::session) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() - self.sent >= HIGH_WATER
    }

    /// Sends the buffered bytes; `Err` when the other side has closed the stream.
    pub(super) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        moved: &mut bool,
    ) -> Result<(), ()> {
        while self.sent < self.buffer.len() {
            let rest = &self.buffer[self.sent..];
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(count @ 1..)) => {
                    self.sent += count;
                    self.flushing = true;
                    *moved = true;
                }
                Poll::Ready(_) => return Err(()),
                Poll::Pending => return Ok(()),
            }
        }
        self.sent = 0;
        if self.buffer.capacity() > 2 * HIGH_WATER {
            self.buffer = Vec::new();
        } else {
            self.buffer.clear();
        }
        if self.flushing {
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Ok(())) => self.flushing = false,
                Poll::Ready(Err(_)) => return Err(()),
                Poll::Pending => {}
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && !self.flushing
    }
}
