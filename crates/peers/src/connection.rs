//! An open frame connection: frames in one direction, keep-alives in the other.
//!
//! ```text
//!   connecting node   ── payloads, pings ─────────────▶   accepting node
//!                     ◀── alive, with the last ping ──
//! ```
//!
//! Two nodes have two connections, each opened by the sender of its frames. So the nodes
//! need not agree which of them connects, and each learns from the refusal of its own
//! connection what is wrong.
//!
//! Keep-alives are sent whether or not the receiver consumes payloads, so that a slow node
//! is not considered dead. A node that hears nothing for long enough closes the connection.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use coeval_env::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::fault::Fault;
use crate::frame::{FrameError, HEADER_BYTES, Header, MessageKind, Tag};
use crate::inbox::{Frame, Inlet};
use crate::peer::Peer;
use crate::security::Channel;
use crate::settings::{FRAME_COST, Settings};

/// Bytes written at once, about.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes read at once, at least.
const READ_BYTES: usize = 16 << 10;
/// A payload shorter than this is copied out of the read buffer, so that the holder of a
/// frame does not keep the whole buffer alive.
const COPIED_BYTES: usize = 4 << 10;

/// Reads frames, and skips those of unknown kinds. Waits for bytes only as long as the
/// other side may be silent.
struct Reader<'peer, R> {
    stream: R,
    peer: &'peer Peer,
    buffer: BytesMut,
    silence: Duration,
    limit: usize,
}

impl<'peer, R: AsyncRead + Unpin> Reader<'peer, R> {
    fn new(stream: R, peer: &'peer Peer, settings: &Settings) -> Self {
        Self {
            stream,
            peer,
            buffer: BytesMut::new(),
            silence: settings.silence(),
            limit: settings.frame_bytes,
        }
    }

    /// Reads until `bytes` are buffered; returns false if the connection ends before the
    /// first.
    async fn need(&mut self, bytes: usize) -> Result<bool, Fault> {
        while self.buffer.len() < bytes {
            let missing = bytes - self.buffer.len();
            self.buffer.reserve(missing.max(READ_BYTES));
            let reading = self.stream.read_buf(&mut self.buffer);
            let read = coeval_env::timeout(self.silence, reading).await;
            let read = read.map_err(|_| Fault::Silent(self.silence))?;
            if read.map_err(Fault::of)? == 0 {
                if self.buffer.is_empty() {
                    return Ok(false);
                }
                return Err(FrameError::Torn { missing }.into());
            }
        }
        Ok(true)
    }

    /// The header of the next frame of a known kind, or `None` at an orderly end.
    async fn head(&mut self) -> Result<Option<Header>, Fault> {
        loop {
            if !self.need(HEADER_BYTES).await? {
                return Ok(None);
            }
            let Some(head) = self.buffer.first_chunk() else {
                return Ok(None);
            };
            let header = Header::decode(head, self.limit)?;
            self.buffer.advance(HEADER_BYTES);
            match header.tag {
                Tag::Payload(kind) if !self.peer.kinds.contains(kind) => {
                    self.skip(kind, &header).await?;
                }
                _ => return Ok(Some(header)),
            }
        }
    }

    /// Skips a payload of an unknown kind, and counts the frame. The reader verifies the
    /// checksum, but never holds the whole payload, and charges no receive budget.
    async fn skip(&mut self, kind: MessageKind, header: &Header) -> Result<(), Fault> {
        let (mut missing, mut checksum) = (header.length, 0);
        while missing > 0 {
            if !self.need(1).await? {
                return Err(FrameError::Torn { missing }.into());
            }
            let piece = missing.min(self.buffer.len());
            checksum = crc32c::crc32c_append(checksum, &self.buffer[..piece]);
            self.buffer.advance(piece);
            missing -= piece;
        }
        header.check_sum(checksum)?;
        let counters = &self.peer.counters;
        counters.heard();
        if counters.skipped.fetch_add(1, Relaxed) == 0 {
            let node = self.peer.node.0;
            tracing::warn!(node, %kind, "skips frames of a kind that this build does not know");
        }
        Ok(())
    }

    /// Reads the payload that follows a header.
    async fn payload(&mut self, header: &Header) -> Result<Bytes, Fault> {
        if !self.need(header.length).await? && header.length > 0 {
            let missing = header.length;
            return Err(FrameError::Torn { missing }.into());
        }
        let payload = if header.length < COPIED_BYTES {
            let payload = Bytes::copy_from_slice(&self.buffer[..header.length]);
            self.buffer.advance(header.length);
            payload
        } else {
            self.buffer.split_to(header.length).freeze()
        };
        header.check(&payload)?;
        Ok(payload)
    }
}

fn put(buffer: &mut BytesMut, tag: Tag, payload: &[u8]) {
    buffer.extend_from_slice(&Header::of(tag, payload).encode());
    buffer.extend_from_slice(payload);
}

fn number(payload: &[u8]) -> u64 {
    let bytes = payload.first_chunk().copied();
    bytes.map_or(0, u64::from_le_bytes)
}

async fn write<W: AsyncWrite + Unpin>(stream: &mut W, buffer: &mut BytesMut) -> Result<(), Fault> {
    stream.write_all(buffer).await.map_err(Fault::of)?;
    stream.flush().await.map_err(Fault::of)?;
    // A large frame's buffer is freed.
    if buffer.capacity() > 4 * WRITE_BYTES {
        *buffer = BytesMut::new();
    }
    buffer.clear();
    Ok(())
}

/// The number of the last ping, and when it was sent.
#[derive(Default)]
struct Ping {
    number: u64,
    sent: Option<Instant>,
}

/// Sends the frames queued for `peer`, until the connection fails.
pub(crate) async fn send(channel: Channel, peer: &Peer, settings: &Settings) -> Fault {
    let (read, write) = tokio::io::split(channel);
    let ping = std::sync::Mutex::new(Ping::default());
    let ended = tokio::select! {
        biased;
        ended = listen_for_life(read, peer, settings, &ping) => ended,
        ended = send_frames(write, peer, settings, &ping) => ended,
    };
    match ended {
        Ok(()) => Fault::Closed,
        Err(fault) => fault,
    }
}

async fn send_frames(
    mut stream: impl AsyncWrite + Unpin,
    peer: &Peer,
    settings: &Settings,
    ping: &std::sync::Mutex<Ping>,
) -> Result<(), Fault> {
    let mut buffer = BytesMut::new();
    let mut next_ping = coeval_env::now();
    loop {
        let frames = tokio::select! {
            biased;
            () = coeval_env::sleep_until(next_ping) => Vec::new(),
            frames = peer.queue.take(WRITE_BYTES) => frames,
        };
        let now = coeval_env::now();
        if now >= next_ping {
            next_ping = now + settings.alive();
            let mut ping = ping.lock().expect("no panic under this lock");
            ping.number += 1;
            ping.sent = Some(now);
            put(&mut buffer, Tag::Ping, &ping.number.to_le_bytes());
        }
        for frame in &frames {
            put(&mut buffer, Tag::Payload(frame.kind), &frame.payload);
        }
        write(&mut stream, &mut buffer).await?;
        for frame in &frames {
            peer.counters.sent.add(HEADER_BYTES + frame.payload.len());
        }
    }
}

async fn listen_for_life(
    stream: impl AsyncRead + Unpin,
    peer: &Peer,
    settings: &Settings,
    ping: &std::sync::Mutex<Ping>,
) -> Result<(), Fault> {
    let mut reader = Reader::new(stream, peer, settings);
    while let Some(header) = reader.head().await? {
        if header.tag != Tag::Alive {
            return Err(FrameError::Misplaced(header.tag).into());
        }
        let read = number(&reader.payload(&header).await?);
        let now = coeval_env::now();
        let mut ping = ping.lock().expect("no panic under this lock");
        let mut notes = peer.counters.notes();
        notes.heard = Some(now);
        if read == ping.number
            && let Some(sent) = ping.sent.take()
        {
            notes.round_trip = Some(now - sent);
        }
    }
    Ok(())
}

/// Receives the frames that `peer` sends, until the connection fails.
pub(crate) async fn receive(
    channel: Channel,
    peer: &Peer,
    settings: &Settings,
    inlet: &Inlet,
) -> Fault {
    let (read, write) = tokio::io::split(channel);
    let (last_ping, pinged) = (AtomicU64::new(0), Notify::new());
    let ended = tokio::select! {
        biased;
        ended = receive_frames(read, peer, settings, inlet, (&last_ping, &pinged)) => ended,
        ended = show_life(write, settings, (&last_ping, &pinged)) => ended,
    };
    match ended {
        Ok(()) => Fault::Closed,
        Err(fault) => fault,
    }
}

async fn receive_frames(
    stream: impl AsyncRead + Unpin,
    peer: &Peer,
    settings: &Settings,
    inlet: &Inlet,
    (last_ping, pinged): (&AtomicU64, &Notify),
) -> Result<(), Fault> {
    let mut reader = Reader::new(stream, peer, settings);
    while let Some(header) = reader.head().await? {
        peer.counters.heard();
        match header.tag {
            Tag::Ping => {
                last_ping.store(number(&reader.payload(&header).await?), Relaxed);
                pinged.notify_one();
            }
            Tag::Payload(kind) => {
                let room = peer.receive_room(header.length + FRAME_COST).await;
                let payload = reader.payload(&header).await?;
                peer.counters.received.add(HEADER_BYTES + payload.len());
                let frame = Frame::new(peer.node, kind, payload, room);
                if !inlet.put(frame).await {
                    return Ok(());
                }
            }
            tag @ Tag::Alive => return Err(FrameError::Misplaced(tag).into()),
        }
    }
    Ok(())
}

async fn show_life(
    mut stream: impl AsyncWrite + Unpin,
    settings: &Settings,
    (last_ping, pinged): (&AtomicU64, &Notify),
) -> Result<(), Fault> {
    let mut buffer = BytesMut::new();
    loop {
        put(
            &mut buffer,
            Tag::Alive,
            &last_ping.load(Relaxed).to_le_bytes(),
        );
        write(&mut stream, &mut buffer).await?;
        tokio::select! {
            biased;
            () = pinged.notified() => {}
            () = coeval_env::sleep(settings.alive()) => {}
        }
    }
}
