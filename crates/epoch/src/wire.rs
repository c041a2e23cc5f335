//! The wire format of messages between nodes: a [`Frame`] of the protocol as payloads of frames
//! of `peers`.
//!
//! ```text
//!   payload   version 1 | incarnation 8 | configuration 8 | term 4 | parts 4 | part …
//!   part      kind 1 | fields …
//! ```
//!
//! Numbers are little endian; bytes, keys and lists have their length before them. Sender and
//! receiver stand nowhere in it: the receiver knows both from the connection, whose handshake
//! has verified them. The connection checks for damage.
//!
//! A long frame leaves as several payloads, each a frame of its own: items, reads and their
//! answers are divided between any two elements, for the protocol takes them in any order and
//! grouping. What is said of orphans is one element, and may be as long as a payload of `peers`.
//!
//! A decoder takes no epoch that no epoch may have ([`Epoch::LIMIT`]), so that no arithmetic
//! with one overflows behind it.

use std::sync::Arc;

use bytes::Bytes;
use coeval_council::{NodeId, Term};

use crate::codec::{Malformed, Reader, put_bytes, put_u64};
use crate::configuration::Configuration;
use crate::log::{put_write, take_write};
use crate::message::{
    BackEndStanding, CopyChunk, EpochKind, Frame, Item, Part, Piece, Refusal, Resolution,
};
use crate::operation::{Found, Key, Operation};
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};

/// The newest version of the format, which a node announces in the handshake that it reads. Each
/// payload begins with the version that its receiver reads.
///
/// | version | has beside the one before |
/// | --- | --- |
/// | 1 | |
/// | 2 | refusals for a full disk and for want of memory, which are of room in version 1 |
pub const VERSION: u8 = 2;

/// The oldest version, which every node reads.
pub(crate) const OLDEST: u8 = 1;

/// A payload is ended at the first element with which it has this many bytes.
const PAYLOAD_BYTES: usize = 1 << 20;

/// Where a payload's number of parts stands.
const COUNT_AT: usize = 21;

const ITEMS: u8 = 1;
const TAKEN: u8 = 2;
const GET: u8 = 3;
const GOT: u8 = 4;
const TOO_OLD: u8 = 5;
const WANT: u8 = 6;
const SWITCH: u8 = 7;
const DRAINED: u8 = 8;
const COLLECT: u8 = 9;
const COLLECTED: u8 = 10;
const SEAL: u8 = 11;
const SEALED: u8 = 12;
const CLOSED: u8 = 13;
const GREET: u8 = 14;
const STANDING: u8 = 15;
const JOIN: u8 = 16;
const RETURN: u8 = 17;
const CONFIGURATION: u8 = 18;
const BEHIND: u8 = 19;
const ENLIST: u8 = 20;
const COPY: u8 = 21;
const COPIED: u8 = 22;
const CAUGHT: u8 = 23;
const LOST: u8 = 24;

const PUT: u8 = 0;
const ABORT: u8 = 1;

/// Encodes a frame for a node that reads the newest version, as one payload if it is not long.
#[must_use]
pub fn encode(frame: &Frame) -> Vec<Bytes> {
    encode_for(frame, VERSION)
}

/// Encodes a frame for a node that reads the format up to a version.
#[must_use]
pub fn encode_for(frame: &Frame, reads: u8) -> Vec<Bytes> {
    let mut payloads = Payloads {
        frame,
        version: reads.min(VERSION),
        full: Vec::new(),
        open: Vec::new(),
        parts: 0,
    };
    for part in &frame.parts {
        payloads.part(part);
    }
    payloads.end();
    payloads.full
}

/// Decodes a payload that has come from one node to another.
///
/// # Errors
/// When no node of this version sends such a payload.
pub fn decode(from: NodeId, to: NodeId, payload: Bytes) -> Result<Frame, Malformed> {
    let mut reader = Reader::new(payload);
    if !(OLDEST..=VERSION).contains(&reader.u8()?) {
        return Err(Malformed);
    }
    let (incarnation, version, term) = (reader.u64()?, reader.u64()?, Term(reader.u32()?));
    let parts = list(&mut reader, take_part)?;
    reader.end()?;
    Ok(Frame {
        from,
        incarnation,
        to,
        version,
        term,
        parts,
    })
}

/// The payloads of a frame, of which the last one is open.
struct Payloads<'frame> {
    frame: &'frame Frame,
    version: u8,
    full: Vec<Bytes>,
    open: Vec<u8>,
    parts: u32,
}

impl Payloads<'_> {
    /// Begins a part, in a new payload if the open one is full.
    fn begin(&mut self, kind: u8) -> &mut Vec<u8> {
        if self.open.len() >= PAYLOAD_BYTES {
            self.end();
        }
        if self.open.is_empty() {
            self.open.push(self.version);
            put_u64(&mut self.open, self.frame.incarnation);
            put_u64(&mut self.open, self.frame.version);
            self.open.extend(self.frame.term.0.to_le_bytes());
            put_count(&mut self.open, 0);
        }
        self.parts += 1;
        self.open.push(kind);
        &mut self.open
    }

    fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let mut payload = std::mem::take(&mut self.open);
        let count = std::mem::take(&mut self.parts).to_le_bytes();
        payload[COUNT_AT..COUNT_AT + count.len()].copy_from_slice(&count);
        self.full.push(payload.into());
    }

    /// A part that ends with a list: as several parts with the same head if the list is long.
    fn divided<T>(
        &mut self,
        kind: u8,
        head: impl Fn(&mut Vec<u8>),
        mut elements: &[T],
        put: impl Fn(&mut Vec<u8>, &T),
    ) {
        loop {
            let out = self.begin(kind);
            head(out);
            let count_at = out.len();
            put_count(out, 0);
            let mut count = 0;
            while let Some((first, rest)) = elements.split_first() {
                put(out, first);
                elements = rest;
                count += 1;
                if out.len() >= PAYLOAD_BYTES {
                    break;
                }
            }
            out[count_at..count_at + 4].copy_from_slice(&u32::to_le_bytes(count));
            if elements.is_empty() {
                return;
            }
        }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Items(id, confirmed, items) => {
                let head = |out: &mut Vec<u8>| {
                    out.push(id.0);
                    put_u64(out, *confirmed);
                };
                self.divided(ITEMS, head, items, put_item);
            }
            Part::Get(id, read, at, keys) => {
                let head = |out: &mut Vec<u8>| {
                    put_read(out, *id, *read);
                    put_u64(out, at.to_bits());
                };
                self.divided(GET, head, keys, |out, key| put_bytes(out, key));
            }
            Part::Got(id, read, values) => {
                let head = |out: &mut Vec<u8>| put_read(out, *id, *read);
                self.divided(GOT, head, values, put_found);
            }
            other => self.whole(other),
        }
    }

    /// A part that is not divided.
    fn whole(&mut self, part: &Part) {
        match part {
            Part::Items(..) | Part::Get(..) | Part::Got(..) => {}
            Part::Taken(id, incarnation, through, refused) => {
                let version = self.version;
                let out = self.begin(TAKEN);
                put_read(out, *id, *incarnation);
                put_u64(out, *through);
                put_count(out, refused.len());
                for (number, refusal) in refused {
                    put_u64(out, *number);
                    out.push(refusal_code(*refusal, version));
                }
            }
            Part::TooOld(id, read, oldest) => {
                let out = self.begin(TOO_OLD);
                put_read(out, *id, *read);
                put_u64(out, oldest.to_bits());
            }
            Part::Want(drawing, closed) => {
                let out = self.begin(WANT);
                put_u64(out, drawing.0);
                put_u64(out, closed.0);
            }
            Part::Switch(close, draw) => {
                let out = self.begin(SWITCH);
                put_u64(out, close.0);
                put_open(out, *draw);
            }
            Part::Drained(id, through, floor) => {
                let out = self.begin(DRAINED);
                put_read(out, *id, through.0);
                put_u64(out, floor.to_bits());
            }
            Part::Collect(closed, through) => {
                let out = self.begin(COLLECT);
                put_u64(out, closed.0);
                put_u64(out, through.0);
            }
            Part::Collected(through, pieces) => {
                let out = self.begin(COLLECTED);
                put_u64(out, through.0);
                put_count(out, pieces.len());
                pieces.iter().for_each(|piece| put_piece(out, piece));
            }
            Part::Seal(through, resolution) => {
                let out = self.begin(SEAL);
                put_u64(out, through.0);
                put_count(out, resolution.kept.len());
                let kept = resolution.kept.iter();
                kept.for_each(|piece| put_piece(out, piece));
                put_count(out, resolution.dropped.len());
                let dropped = resolution.dropped.iter();
                dropped.for_each(|at| put_u64(out, at.to_bits()));
            }
            Part::Sealed(through) => put_u64(self.begin(SEALED), through.0),
            Part::Closed(through, draw, horizon) => {
                let out = self.begin(CLOSED);
                put_u64(out, through.0);
                put_open(out, *draw);
                put_u64(out, horizon.to_bits());
            }
            Part::Greet => drop(self.begin(GREET)),
            Part::Standing(standing) => {
                let out = self.begin(STANDING);
                put_u64(out, standing.sealed.0);
                put_u64(out, standing.closed.0);
            }
            Part::Join(id) => self.begin(JOIN).push(id.0),
            Part::Return(sealed) => put_u64(self.begin(RETURN), sealed.0),
            Part::Configuration(configuration) => {
                configuration.encode(self.begin(CONFIGURATION));
            }
            Part::Behind => drop(self.begin(BEHIND)),
            Part::Enlist => drop(self.begin(ENLIST)),
            Part::Copy(partition, through, after) => {
                let out = self.begin(COPY);
                put_u64(out, *partition as u64);
                put_u64(out, through.0);
                put_key(out, after.as_ref());
            }
            Part::Copied(chunk) => {
                let out = self.begin(COPIED);
                put_u64(out, chunk.partition as u64);
                put_u64(out, chunk.through.0);
                put_key(out, chunk.after.as_ref());
                put_count(out, chunk.versions.len());
                for (key, at, operation) in &chunk.versions {
                    put_u64(out, at.to_bits());
                    put_write(out, key, operation);
                }
                put_key(out, chunk.next.as_ref());
                put_u64(out, chunk.horizon.to_bits());
            }
            Part::Caught(partition, through) => {
                let out = self.begin(CAUGHT);
                put_u64(out, *partition as u64);
                put_u64(out, through.0);
            }
            Part::Lost(partitions) => {
                let out = self.begin(LOST);
                put_count(out, partitions.len());
                let partitions = partitions.iter();
                partitions.for_each(|partition| put_u64(out, *partition as u64));
            }
        }
    }
}

pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u32).to_le_bytes());
}

/// A key, or none.
pub(crate) fn put_key(out: &mut Vec<u8>, key: Option<&Key>) {
    match key {
        None => out.push(0),
        Some(key) => {
            out.push(1);
            put_bytes(out, key);
        }
    }
}

fn put_read(out: &mut Vec<u8>, id: FrontEndId, number: u64) {
    out.push(id.0);
    put_u64(out, number);
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece) {
    put_u64(out, piece.at.to_bits());
    out.extend(piece.size.to_le_bytes());
    put_count(out, piece.writes.len());
    for write in piece.writes.iter() {
        put_write(out, &write.key, &write.operation);
    }
}

fn put_item(out: &mut Vec<u8>, (number, item): &(u64, Item)) {
    put_u64(out, *number);
    match item {
        Item::Put(piece) => {
            out.push(PUT);
            put_piece(out, piece);
        }
        Item::Abort(at) => {
            out.push(ABORT);
            put_u64(out, at.to_bits());
        }
    }
}

/// A key with what a read has found there.
pub(crate) fn put_found(out: &mut Vec<u8>, (key, found): &(Key, Found)) {
    put_found_at(out, key, found);
}

pub(crate) fn put_found_at(out: &mut Vec<u8>, key: &Key, found: &Found) {
    put_bytes(out, key);
    match found {
        Found::Nothing => out.push(0),
        Found::Value(bytes) => {
            out.push(1);
            put_bytes(out, bytes);
        }
        Found::ToCompute(bytes) => {
            out.push(2);
            put_bytes(out, bytes);
        }
    }
}

fn put_open(out: &mut Vec<u8>, draw: Option<(Epoch, EpochKind)>) {
    match draw {
        None => out.push(0),
        Some((epoch, kind)) => {
            out.push(match kind {
                EpochKind::Unified => 1,
                EpochKind::Writes => 2,
                EpochKind::Reads => 3,
            });
            put_u64(out, epoch.0);
        }
    }
}

fn refusal_code(refusal: Refusal, version: u8) -> u8 {
    match refusal {
        Refusal::EpochClosed => 0,
        Refusal::TooLong => 1,
        Refusal::NoRoom => 2,
        Refusal::DiskFull | Refusal::OutOfMemory if version < 2 => 2,
        Refusal::DiskFull => 3,
        Refusal::OutOfMemory => 4,
    }
}

fn take_refusal(reader: &mut Reader) -> Result<Refusal, Malformed> {
    match reader.u8()? {
        0 => Ok(Refusal::EpochClosed),
        1 => Ok(Refusal::TooLong),
        2 => Ok(Refusal::NoRoom),
        3 => Ok(Refusal::DiskFull),
        4 => Ok(Refusal::OutOfMemory),
        _ => Err(Malformed),
    }
}

/// Elements with their number before them. Each has one byte at least, so a number that is too
/// high ends with the bytes.
pub(crate) fn list<T>(
    reader: &mut Reader,
    take: impl Fn(&mut Reader) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = reader.u32()?;
    (0..count).map(|_| take(reader)).collect()
}

fn take_id(reader: &mut Reader) -> Result<FrontEndId, Malformed> {
    reader.u8().map(FrontEndId)
}

pub(crate) fn take_timestamp(reader: &mut Reader) -> Result<EpochTimestamp, Malformed> {
    reader.u64().map(EpochTimestamp::from_bits)
}

pub(crate) fn take_key(reader: &mut Reader) -> Result<Option<Key>, Malformed> {
    match reader.u8()? {
        0 => Ok(None),
        1 => reader.bytes().map(Some),
        _ => Err(Malformed),
    }
}

pub(crate) fn take_version(
    reader: &mut Reader,
) -> Result<(Key, EpochTimestamp, Operation), Malformed> {
    let at = take_timestamp(reader)?;
    let write = take_write(reader)?;
    Ok((write.key, at, write.operation))
}

fn take_piece(reader: &mut Reader) -> Result<Piece, Malformed> {
    Ok(Piece {
        at: take_timestamp(reader)?,
        size: reader.u32()?,
        writes: Arc::new(list(reader, take_write)?),
    })
}

fn take_item(reader: &mut Reader) -> Result<(u64, Item), Malformed> {
    let number = reader.u64()?;
    let item = match reader.u8()? {
        PUT => Item::Put(take_piece(reader)?),
        ABORT => Item::Abort(take_timestamp(reader)?),
        _ => return Err(Malformed),
    };
    Ok((number, item))
}

pub(crate) fn take_found(reader: &mut Reader) -> Result<(Key, Found), Malformed> {
    let key = reader.bytes()?;
    let found = match reader.u8()? {
        0 => Found::Nothing,
        1 => Found::Value(reader.bytes()?),
        2 => Found::ToCompute(reader.bytes()?),
        _ => return Err(Malformed),
    };
    Ok((key, found))
}

fn take_open(reader: &mut Reader) -> Result<Option<(Epoch, EpochKind)>, Malformed> {
    let kind = match reader.u8()? {
        0 => return Ok(None),
        1 => EpochKind::Unified,
        2 => EpochKind::Writes,
        3 => EpochKind::Reads,
        _ => return Err(Malformed),
    };
    Ok(Some((reader.epoch()?, kind)))
}

fn take_part(reader: &mut Reader) -> Result<Part, Malformed> {
    Ok(match reader.u8()? {
        ITEMS => Part::Items(take_id(reader)?, reader.u64()?, list(reader, take_item)?),
        TAKEN => {
            let take = |reader: &mut Reader| Ok((reader.u64()?, take_refusal(reader)?));
            Part::Taken(
                take_id(reader)?,
                reader.u64()?,
                reader.u64()?,
                list(reader, take)?,
            )
        }
        GET => Part::Get(
            take_id(reader)?,
            reader.u64()?,
            take_timestamp(reader)?,
            list(reader, Reader::bytes)?,
        ),
        GOT => Part::Got(take_id(reader)?, reader.u64()?, list(reader, take_found)?),
        TOO_OLD => Part::TooOld(take_id(reader)?, reader.u64()?, take_timestamp(reader)?),
        WANT => Part::Want(reader.epoch()?, reader.epoch()?),
        SWITCH => Part::Switch(reader.epoch()?, take_open(reader)?),
        DRAINED => Part::Drained(take_id(reader)?, reader.epoch()?, take_timestamp(reader)?),
        COLLECT => Part::Collect(reader.epoch()?, reader.epoch()?),
        COLLECTED => Part::Collected(reader.epoch()?, list(reader, take_piece)?),
        SEAL => {
            let through = reader.epoch()?;
            let kept = list(reader, take_piece)?;
            let dropped = list(reader, take_timestamp)?;
            Part::Seal(through, Resolution { kept, dropped })
        }
        SEALED => Part::Sealed(reader.epoch()?),
        CLOSED => Part::Closed(reader.epoch()?, take_open(reader)?, take_timestamp(reader)?),
        GREET => Part::Greet,
        STANDING => Part::Standing(BackEndStanding {
            sealed: reader.epoch()?,
            closed: reader.epoch()?,
        }),
        JOIN => Part::Join(take_id(reader)?),
        RETURN => Part::Return(reader.epoch()?),
        CONFIGURATION => Part::Configuration(Arc::new(Configuration::decode(reader)?)),
        BEHIND => Part::Behind,
        ENLIST => Part::Enlist,
        COPY => Part::Copy(reader.index()?, reader.epoch()?, take_key(reader)?),
        COPIED => Part::Copied(Box::new(CopyChunk {
            partition: reader.index()?,
            through: reader.epoch()?,
            after: take_key(reader)?,
            versions: list(reader, take_version)?,
            next: take_key(reader)?,
            horizon: take_timestamp(reader)?,
        })),
        CAUGHT => Part::Caught(reader.index()?, reader.epoch()?),
        LOST => Part::Lost(list(reader, Reader::index)?),
        _ => return Err(Malformed),
    })
}
