//! The read buffer: bytes received from a client and not yet consumed.

use bytes::{Buf, BufMut, BytesMut};

use crate::frame::{self, Frame, Measure};
use crate::startup::{self, Packet};
use crate::{Error, Limits};

/// Bytes requested per read: enough for a long pipeline of statements.
const READ: usize = 16 << 10;
/// Capacity in bytes above which an empty buffer is freed.
const KEPT: usize = 256 << 10;

/// Received bytes that have not been consumed, with at most one incomplete message.
///
/// A frame borrows from the buffer, so the buffer can grow only between messages. For a
/// long message it reserves at most as many bytes as it has received, so a false length
/// costs its sender as much as the server.
#[derive(Debug)]
pub struct ReadBuffer {
    bytes: BytesMut,
    /// How many of the bytes previous frames have consumed.
    consumed: usize,
    limits: Limits,
}

impl ReadBuffer {
    /// An empty buffer, which has allocated no memory yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            bytes: BytesMut::new(),
            consumed: 0,
            limits,
        }
    }

    /// Sets the limits for the messages from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The next message, if it is complete. Releases the previous one.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Error> {
        let next = self.next_frame_and_following()?;
        Ok(next.map(|(frame, _)| frame))
    }

    /// The next message, if it is complete, and the type of the message after it, if its
    /// first byte has been received.
    pub fn next_frame_and_following(&mut self) -> Result<Option<(Frame<'_>, Option<u8>)>, Error> {
        let rest = &self.bytes[self.consumed..];
        let Some(frame) = frame::cut(rest, &self.limits)? else {
            return Ok(None);
        };
        let size = frame::HEADER + frame.contents.len();
        self.consumed += size;
        Ok(Some((frame, rest.get(size).copied())))
    }

    /// The message that begins `at` bytes after the last one that was taken, if it is
    /// complete, and where it ends. Takes nothing: see [`ReadBuffer::skip`].
    pub fn peek(&self, at: usize) -> Result<Option<(Frame<'_>, usize)>, Error> {
        let rest = self.bytes.get(self.consumed + at..).unwrap_or_default();
        let frame = frame::cut(rest, &self.limits)?;
        Ok(frame.map(|frame| (frame, at + frame::HEADER + frame.contents.len())))
    }

    /// Takes the messages before the offset `end`, which [`ReadBuffer::peek`] has returned.
    pub fn skip(&mut self, end: usize) {
        self.consumed = (self.consumed + end).min(self.bytes.len());
    }

    /// Number of received bytes that have not been taken.
    #[must_use]
    pub fn received(&self) -> usize {
        self.bytes.len() - self.consumed
    }

    /// The next startup packet, if it is complete.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let rest = &self.bytes[self.consumed..];
        let Some(contents) = startup::cut(rest)? else {
            return Ok(None);
        };
        self.consumed += startup::HEADER + contents.len();
        Packet::decode(contents).map(Some)
    }

    /// Whether [`ReadBuffer::next_frame`] returns a message or an error without another
    /// read.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        !matches!(
            frame::cut(&self.bytes[self.consumed..], &self.limits),
            Ok(None)
        )
    }

    /// Whether every received byte has been consumed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consumed == self.bytes.len()
    }

    /// The allocated memory, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The buffer for the next read, with room after the unconsumed bytes. The caller only
    /// appends to it.
    pub fn make_room(&mut self) -> &mut BytesMut {
        if self.is_empty() {
            self.consumed = 0;
            if self.bytes.capacity() > KEPT {
                self.bytes = BytesMut::new();
            } else {
                self.bytes.clear();
            }
        } else {
            self.bytes.advance(self.consumed);
            self.consumed = 0;
        }
        let missing = match frame::measure(&self.bytes, &self.limits) {
            Ok(Measure::Message(size)) => size.saturating_sub(self.bytes.len()),
            Ok(Measure::Unknown) | Err(_) => 0,
        };
        let wanted = missing.min(self.bytes.len());
        if self.bytes.capacity() - self.bytes.len() < wanted.max(READ / 4) {
            self.bytes.reserve(wanted.max(READ));
        }
        &mut self.bytes
    }

    /// Appends bytes that were read elsewhere.
    pub fn extend(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let room = self.make_room();
            let now = bytes.len().min(READ);
            room.put_slice(&bytes[..now]);
            bytes = &bytes[now..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announced_length_takes_no_memory() {
        let mut buffer = ReadBuffer::new(Limits::default());
        let mut message = vec![b'Q'];
        message.extend((60i32 << 20).to_be_bytes());
        buffer.extend(&message);
        for received in 1..20usize {
            assert_eq!(buffer.next_frame(), Ok(None));
            buffer.extend(&[b' '; 1000]);
            assert!(buffer.capacity() <= 4 * READ + 4 * received * 1000);
        }
    }

    #[test]
    fn gives_back_the_memory_of_a_long_message() {
        let mut buffer = ReadBuffer::new(Limits::default());
        let mut message = vec![b'Q'];
        message.extend((4i32 + (8 << 20)).to_be_bytes());
        buffer.extend(&message);
        buffer.extend(&vec![b' '; 8 << 20]);
        assert_eq!(
            buffer.next_frame().unwrap().unwrap().contents.len(),
            8 << 20
        );
        buffer.extend(b"S\0\0\0\x04");
        assert!(buffer.capacity() <= 2 * READ, "{}", buffer.capacity());
        assert_eq!(buffer.next_frame().unwrap().unwrap().kind, b'S');
    }

    #[test]
    fn messages_are_looked_at_before_they_are_taken() {
        let mut buffer = ReadBuffer::new(Limits::default());
        buffer.extend(b"P\0\0\0\x08\0\0\0\0S\0\0\0\x04Q\0\0\0\x05\0Q\0\0");
        assert_eq!(buffer.next_frame().unwrap().unwrap().kind, b'P');
        let (frame, end) = buffer.peek(0).unwrap().unwrap();
        assert_eq!((frame.kind, end), (b'S', 5));
        let (frame, end) = buffer.peek(end).unwrap().unwrap();
        assert_eq!((frame.kind, end), (b'Q', 11));
        assert_eq!(buffer.peek(end), Ok(None));
        assert_eq!(buffer.peek(1000), Ok(None));
        assert_eq!(buffer.received(), 14);
        buffer.skip(5);
        assert_eq!(buffer.next_frame().unwrap().unwrap().kind, b'Q');
        assert_eq!(buffer.received(), 3);
    }

    #[test]
    fn messages_come_in_any_pieces() {
        let stream = b"P\0\0\0\x08\0\0\0\0S\0\0\0\x04Q\0\0\0\x05\0";
        for piece in 1..stream.len() {
            let mut buffer = ReadBuffer::new(Limits::default());
            let mut kinds = Vec::new();
            for bytes in stream.chunks(piece) {
                buffer.extend(bytes);
                while let Some((frame, following)) = buffer.next_frame_and_following().unwrap() {
                    kinds.push(frame.kind);
                    let expected = b"PSQ".get(kinds.len());
                    assert!(following.is_none() || following.as_ref() == expected);
                }
            }
            assert_eq!(kinds, b"PSQ");
            assert!(buffer.is_empty());
        }
    }
}
