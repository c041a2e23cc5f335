//! What a client and a front end's node say to each other, as bytes.
//!
//! ```text
//!   frame      length 4 | checksum 4 | payload
//!   request    number 8 | kind 1 | fields …
//!   reply      number 8 | kind 1 | fields …
//! ```
//!
//! Numbers are little endian; the checksum (CRC32C) covers length and payload. Any number of
//! requests may be under way on a connection; replies come in any order, under the numbers of
//! their requests.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::answer::{Answer, Reason, Right};
use crate::back_end::{Image, NoImage};
use crate::codec::{Malformed, Reader, put_bytes, put_u64};
use crate::configuration::Configuration;
use crate::log::{put_write, take_write};
use crate::message::Refusal;
use crate::operation::Key;
use crate::server::{Outcome, Request};
use crate::timestamp::{Epoch, EpochTimestamp};
use crate::wire::{
    list, put_count, put_found, put_key, take_found, take_key, take_timestamp, take_version,
};

/// Most bytes of a payload, as a reply may have.
pub const MOST_PAYLOAD: usize = 16 << 20;
/// Most bytes of a request's payload: more than any has that passes [`Request::check`].
pub const MOST_ASKED: usize = 8 << 20;
/// Bytes for which a reader makes room before any has come.
const READ_AHEAD: usize = 64 << 10;

const HEAD: usize = 8;

/// A request, or a question about the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A request to the front end.
    Request(Request),
    /// How is the node?
    Status,
    /// Hold what is read at the end of the newest closed epoch, for as long as this connection lasts.
    Hold,
    /// The image of a partition at the end of an epoch: the keys after one.
    Image(usize, Epoch, Option<Key>),
}

/// The reply to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What came of a request.
    Outcome(Outcome),
    /// The node's status, as lines.
    Status(String),
    /// The epoch whose end is held, and the configuration.
    Held(Epoch, Box<Configuration>),
    /// A part of an image.
    Image(Image),
    /// There is none.
    NoImage(NoImage),
}

const PUT_ALL: u8 = 1;
const GET_LATEST: u8 = 2;
const GET_AT: u8 = 3;
const STATUS: u8 = 4;
const HOLD: u8 = 5;
const IMAGE: u8 = 6;

const COMMITTED: u8 = 1;
const VALUES: u8 = 2;
const ABORTED: u8 = 3;
const UNKNOWN: u8 = 4;
const LINES: u8 = 5;
const HELD: u8 = 6;
const PART: u8 = 7;
const NO_IMAGE: u8 = 8;

impl Asked {
    /// The payload of a request.
    #[must_use]
    pub fn encode(&self, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_u64(&mut out, number);
        let keys = |out: &mut Vec<u8>, keys: &[Bytes]| {
            put_count(out, keys.len());
            keys.iter().for_each(|key| put_bytes(out, key));
        };
        match self {
            Self::Request(Request::PutAll(writes)) => {
                out.push(PUT_ALL);
                put_count(&mut out, writes.len());
                for write in writes {
                    put_write(&mut out, &write.key, &write.operation);
                }
            }
            Self::Request(Request::GetLatest(asked)) => {
                out.push(GET_LATEST);
                keys(&mut out, asked);
            }
            Self::Request(Request::GetAt(asked, at)) => {
                out.push(GET_AT);
                put_u64(&mut out, at.to_bits());
                keys(&mut out, asked);
            }
            Self::Status => out.push(STATUS),
            Self::Hold => out.push(HOLD),
            Self::Image(partition, through, after) => {
                out.push(IMAGE);
                put_u64(&mut out, *partition as u64);
                put_u64(&mut out, through.0);
                put_key(&mut out, after.as_ref());
            }
        }
        out
    }

    /// The number and the request of a payload.
    ///
    /// # Errors
    /// When no client sends it.
    pub fn decode(payload: Bytes) -> Result<(u64, Self), Malformed> {
        let mut reader = Reader::new(payload);
        let number = reader.u64()?;
        let asked = match reader.u8()? {
            PUT_ALL => Self::Request(Request::PutAll(list(&mut reader, take_write)?)),
            GET_LATEST => Self::Request(Request::GetLatest(list(&mut reader, Reader::bytes)?)),
            GET_AT => {
                let at = take_timestamp(&mut reader)?;
                Self::Request(Request::GetAt(list(&mut reader, Reader::bytes)?, at))
            }
            STATUS => Self::Status,
            HOLD => Self::Hold,
            IMAGE => Self::Image(reader.index()?, reader.epoch()?, take_key(&mut reader)?),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok((number, asked))
    }
}

impl Reply {
    /// The payload of a reply.
    #[must_use]
    pub fn encode(&self, number: u64) -> Vec<u8> {
        self.encode_for(number, u16::MAX)
    }

    /// The payload of a reply to a client of this version of the protocol: version 1 knows fewer
    /// refusals.
    #[must_use]
    pub fn encode_for(&self, number: u64, version: u16) -> Vec<u8> {
        let mut out = Vec::new();
        put_u64(&mut out, number);
        match self {
            Self::Outcome(Outcome::Answered(Answer::Committed(at))) => {
                out.push(COMMITTED);
                put_u64(&mut out, at.to_bits());
            }
            Self::Outcome(Outcome::Answered(Answer::Values(at, values))) => {
                out.push(VALUES);
                put_u64(&mut out, at.to_bits());
                put_count(&mut out, values.len());
                values.iter().for_each(|value| put_found(&mut out, value));
            }
            Self::Outcome(Outcome::Answered(Answer::Aborted(reason))) => {
                out.push(ABORTED);
                let (code, at) = encode_reason(*reason, version);
                out.push(code);
                put_u64(&mut out, at.to_bits());
            }
            Self::Outcome(Outcome::Unknown) => out.push(UNKNOWN),
            Self::Status(lines) => {
                out.push(LINES);
                put_bytes(&mut out, lines.as_bytes());
            }
            Self::Held(epoch, configuration) => {
                out.push(HELD);
                put_u64(&mut out, epoch.0);
                configuration.encode(&mut out);
            }
            Self::Image(image) => {
                out.push(PART);
                put_count(&mut out, image.versions.len());
                for (key, at, operation) in &image.versions {
                    put_u64(&mut out, at.to_bits());
                    put_write(&mut out, key, operation);
                }
                put_key(&mut out, image.next.as_ref());
            }
            Self::NoImage(why) => {
                out.push(NO_IMAGE);
                let (code, at) = encode_no_image(*why);
                out.push(code);
                put_u64(&mut out, at.to_bits());
            }
        }
        out
    }

    /// The number and the reply of a payload.
    ///
    /// # Errors
    /// When no node sends it.
    pub fn decode(payload: Bytes) -> Result<(u64, Self), Malformed> {
        let mut reader = Reader::new(payload);
        let number = reader.u64()?;
        let answered = |answer| Self::Outcome(Outcome::Answered(answer));
        let reply = match reader.u8()? {
            COMMITTED => answered(Answer::Committed(take_timestamp(&mut reader)?)),
            VALUES => {
                let at = take_timestamp(&mut reader)?;
                answered(Answer::Values(at, list(&mut reader, take_found)?))
            }
            ABORTED => {
                let code = reader.u8()?;
                let at = take_timestamp(&mut reader)?;
                answered(Answer::Aborted(decode_reason(code, at)?))
            }
            UNKNOWN => Self::Outcome(Outcome::Unknown),
            LINES => {
                let lines = String::from_utf8(reader.bytes()?.to_vec());
                Self::Status(lines.map_err(|_| Malformed)?)
            }
            HELD => {
                let epoch = reader.epoch()?;
                Self::Held(epoch, Box::new(Configuration::decode(&mut reader)?))
            }
            PART => Self::Image(Image {
                versions: list(&mut reader, take_version)?,
                next: take_key(&mut reader)?,
            }),
            NO_IMAGE => {
                let code = reader.u8()?;
                Self::NoImage(decode_no_image(code, take_timestamp(&mut reader)?)?)
            }
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok((number, reply))
    }
}

fn encode_no_image(why: NoImage) -> (u8, EpochTimestamp) {
    let none = EpochTimestamp::default();
    match why {
        NoImage::NotHeld => (1, none),
        NoImage::NotHere => (2, none),
        NoImage::NotClosed => (3, none),
        NoImage::Collected(at) => (4, at),
        NoImage::NotAllowed => (5, none),
    }
}

fn decode_no_image(code: u8, at: EpochTimestamp) -> Result<NoImage, Malformed> {
    Ok(match code {
        1 => NoImage::NotHeld,
        2 => NoImage::NotHere,
        3 => NoImage::NotClosed,
        4 => NoImage::Collected(at),
        5 => NoImage::NotAllowed,
        _ => return Err(Malformed),
    })
}

fn encode_reason(reason: Reason, version: u16) -> (u8, EpochTimestamp) {
    let none = EpochTimestamp::default();
    match reason {
        Reason::Refused(Refusal::DiskFull | Refusal::OutOfMemory) if version < 2 => (3, none),
        Reason::Refused(Refusal::EpochClosed) => (1, none),
        Reason::Refused(Refusal::TooLong) => (2, none),
        Reason::Refused(Refusal::NoRoom) => (3, none),
        Reason::GivenUp => (4, none),
        Reason::Form => (5, none),
        Reason::Busy => (6, none),
        Reason::Collected(at) => (7, at),
        Reason::TooFarAhead(at) => (8, at),
        Reason::Lost(partition) => (9, EpochTimestamp::from_bits(partition as u64)),
        Reason::Refused(Refusal::DiskFull) => (10, none),
        Reason::Refused(Refusal::OutOfMemory) => (11, none),
        Reason::NoFrontEnd if version < 2 => (6, none),
        Reason::NoFrontEnd => (14, none),
        Reason::NotAllowed(Right::Put) => (12, none),
        Reason::NotAllowed(Right::Get) => (13, none),
    }
}

fn decode_reason(code: u8, at: EpochTimestamp) -> Result<Reason, Malformed> {
    Ok(match code {
        1 => Reason::Refused(Refusal::EpochClosed),
        2 => Reason::Refused(Refusal::TooLong),
        3 => Reason::Refused(Refusal::NoRoom),
        4 => Reason::GivenUp,
        5 => Reason::Form,
        6 => Reason::Busy,
        7 => Reason::Collected(at),
        8 => Reason::TooFarAhead(at),
        9 => Reason::Lost(usize::try_from(at.to_bits()).map_err(|_| Malformed)?),
        10 => Reason::Refused(Refusal::DiskFull),
        11 => Reason::Refused(Refusal::OutOfMemory),
        12 => Reason::NotAllowed(Right::Put),
        13 => Reason::NotAllowed(Right::Get),
        14 => Reason::NoFrontEnd,
        _ => return Err(Malformed),
    })
}

/// Writes one frame.
pub(crate) async fn write<S: AsyncWrite + Unpin>(stream: &mut S, payload: &[u8]) -> io::Result<()> {
    let length = (payload.len() as u32).to_le_bytes();
    let sum = crc32c::crc32c_append(crc32c::crc32c(&length), payload);
    let mut frame = Vec::with_capacity(HEAD + payload.len());
    frame.extend(length);
    frame.extend(sum.to_le_bytes());
    frame.extend_from_slice(payload);
    stream.write_all(&frame).await
}

/// Reads one frame, of so many bytes at most; `None` at the end of the connection between two. The
/// buffer grows as bytes come, so that a length alone takes no memory.
pub(crate) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    most: usize,
) -> io::Result<Option<Bytes>> {
    let mut head = [0; HEAD];
    if stream.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[1..]).await?;
    let [a, b, c, d, sum @ ..] = head;
    let length = [a, b, c, d];
    let bytes = u32::from_le_bytes(length) as usize;
    let damaged = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    if bytes > most {
        return Err(damaged("a frame is too long"));
    }
    let mut payload = BytesMut::with_capacity(bytes.min(READ_AHEAD));
    let mut rest = stream.take(bytes as u64);
    while payload.len() < bytes {
        if rest.read_buf(&mut payload).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let found = crc32c::crc32c_append(crc32c::crc32c(&length), &payload);
    match found == u32::from_le_bytes(sum) {
        true => Ok(Some(payload.freeze())),
        false => Err(damaged("a frame is damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Found, Operation, Write};
    use crate::server::{MOST_KEYS, MOST_REQUEST_BYTES};
    use crate::timestamp::{Epoch, FrontEndId};

    #[test]
    fn every_request_and_reply_comes_back_and_a_cut_one_is_refused() {
        let at = EpochTimestamp::new(Epoch(7), 3, FrontEndId(1));
        let key = Bytes::from_static(b"key");
        let write = Write {
            key: key.clone(),
            operation: Operation::Value(key.clone()),
        };
        let asked = [
            Asked::Request(Request::PutAll(vec![write])),
            Asked::Request(Request::GetLatest(vec![key.clone(), Bytes::new()])),
            Asked::Request(Request::GetAt(vec![key.clone()], at)),
            Asked::Status,
            Asked::Hold,
            Asked::Image(3, Epoch(7), None),
            Asked::Image(3, Epoch(7), Some(key.clone())),
        ];
        for asked in asked {
            let payload = Bytes::from(asked.encode(9));
            assert_eq!(Asked::decode(payload.clone()), Ok((9, asked)));
            (0..payload.len()).for_each(|length| {
                Asked::decode(payload.slice(..length)).unwrap_err();
            });
        }
        let reasons = [
            Reason::Refused(Refusal::EpochClosed),
            Reason::Refused(Refusal::TooLong),
            Reason::Refused(Refusal::NoRoom),
            Reason::GivenUp,
            Reason::Form,
            Reason::Busy,
            Reason::Collected(at),
            Reason::TooFarAhead(at),
            Reason::Lost(3),
            Reason::Refused(Refusal::DiskFull),
            Reason::Refused(Refusal::OutOfMemory),
            Reason::NotAllowed(Right::Put),
            Reason::NotAllowed(Right::Get),
            Reason::NoFrontEnd,
        ];
        let answers = [
            Answer::Committed(at),
            Answer::Values(at, vec![(key.clone(), Found::Value(key.clone()))]),
        ];
        let answers = answers
            .into_iter()
            .chain(reasons.map(Answer::Aborted))
            .map(Outcome::Answered);
        let replies = answers.chain([Outcome::Unknown]).map(Reply::Outcome);
        let image = Image {
            versions: vec![(key.clone(), at, Operation::Value(key.clone()))],
            next: Some(key),
        };
        let none = [
            NoImage::NotHeld,
            NoImage::NotHere,
            NoImage::NotClosed,
            NoImage::Collected(at),
            NoImage::NotAllowed,
        ];
        let others = [
            Reply::Status("node 1\n".to_owned()),
            Reply::Held(Epoch(7), Box::default()),
            Reply::Image(image),
        ];
        for reply in replies.chain(others).chain(none.map(Reply::NoImage)) {
            let payload = Bytes::from(reply.encode(9));
            assert_eq!(Reply::decode(payload.clone()), Ok((9, reply)));
            (0..payload.len()).for_each(|length| {
                Reply::decode(payload.slice(..length)).unwrap_err();
            });
        }
    }

    fn in_runtime<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread();
        { runtime }.build().unwrap().block_on(future)
    }

    /// The bound on a request's payload refuses none that a front end would take.
    #[test]
    fn the_longest_requests_fit_into_a_frame() {
        let write = Write {
            key: Bytes::from_static(b"key"),
            operation: Operation::Value(vec![7; MOST_REQUEST_BYTES / MOST_KEYS - 3].into()),
        };
        let request = Request::PutAll(vec![write; MOST_KEYS]);
        request.check().unwrap();
        let asked = Asked::Request(request);
        let payload = asked.encode(1);
        assert!(payload.len() <= MOST_ASKED, "{}", payload.len());
        let read = in_runtime(async {
            let mut frame = Vec::new();
            write_to(&mut frame, &payload).await;
            read(&mut &frame[..], MOST_ASKED).await.unwrap().unwrap()
        });
        assert_eq!(Asked::decode(read), Ok((1, asked)));
    }

    async fn write_to(frame: &mut Vec<u8>, payload: &[u8]) {
        write(frame, payload).await.unwrap();
    }

    #[test]
    fn a_frame_that_is_cut_too_long_or_damaged_is_refused() {
        in_runtime(async {
            let mut frame = Vec::new();
            write_to(&mut frame, b"payload").await;
            assert_eq!(read(&mut &frame[..0], 7).await.unwrap(), None);
            for length in 1..frame.len() {
                let cut = read(&mut &frame[..length], 7).await.unwrap_err();
                assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
            }
            let long = read(&mut &frame[..], 6).await.unwrap_err();
            assert!(long.to_string().contains("too long"), "{long}");
            let last = frame.len() - 1;
            frame[last] ^= 1;
            let damaged = read(&mut &frame[..], 7).await.unwrap_err();
            assert!(damaged.to_string().contains("damaged"), "{damaged}");
        });
    }
}
