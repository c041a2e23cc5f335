//! The fuzz target `log`: a data directory whose every byte the input decides, except
//! checksums, because no fuzzer gets past those.
//!
//! ```text
//!  count, (offset, byte) …     changes of CONTROL, which then gets its checksum
//!  count, (offset, byte) …     likewise of the segment's header
//!  then pieces of the stream:
//!    0 length        zeros                 1 length bytes     as they are
//!    2… kind durable length bytes          a frame that stands where it says
//! ```
//!
//! The directory that the input changes was made by the log itself.

use coeval_types::{Lsn, Term, Timestamp};

use super::directory::{FIRST, HEADER_BYTES, Input, SEGMENT_BYTES, database, made, stamp, start};

const FRAME_HEADER_BYTES: usize = 32;

/// A frame at this offset of the stream.
fn frame(database: u32, at: u64, kind: u8, durable: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_HEADER_BYTES];
    let term = Term(u32::from(kind >> 6));
    // One frame in eight has a wrong offset. A timestamp can only hold offsets at which a
    // frame can be.
    let near = at & !7;
    let place = if kind & 0x38 == 0x38 { near + 8 } else { near };
    let durable = near.saturating_sub(u64::from(durable) * 8);
    bytes[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let stamp = Timestamp::new(term, Lsn(place)).to_bits();
    bytes[8..16].copy_from_slice(&stamp.to_le_bytes());
    bytes[16..24].copy_from_slice(&durable.to_le_bytes());
    bytes[24] = kind & 7;
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    // A skip frame's payload is unspecified: the ring's old contents.
    let covered = if kind & 7 == 3 {
        &bytes[4..FRAME_HEADER_BYTES]
    } else {
        &bytes[4..]
    };
    let crc = crc32c::crc32c_append(database, covered);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The pieces of which the stream is built.
fn stream(input: &mut Input<'_>, database: u32) -> Vec<u8> {
    let mut stream = Vec::new();
    while stream.len() < SEGMENT_BYTES as usize {
        let at = FIRST + stream.len() as u64;
        match input.byte() {
            None => break,
            Some(0) => {
                let length = usize::from(input.byte().unwrap_or(8));
                stream.resize(stream.len() + length, 0);
            }
            Some(1) => stream.extend_from_slice(input.bytes().unwrap_or_default()),
            Some(kind) => {
                let durable = input.byte().unwrap_or_default();
                let payload = input.bytes().unwrap_or_default();
                stream.extend(frame(database, at, kind - 1, durable, payload));
            }
        }
    }
    stream
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut files = made();
    let database = crc32c::crc32c(&database(&files));
    for (path, bytes) in &mut files {
        if path.ends_with("CONTROL") {
            input.change(bytes);
            stamp(bytes);
        }
    }
    let mut segments = files
        .iter_mut()
        .filter(|(path, _)| path.extension().is_some_and(|ending| ending == "log"));
    let (_, first) = segments.next().expect("a new log has a segment");
    let (header, body) = first.split_at_mut(HEADER_BYTES);
    input.change(header);
    stamp(header);
    let mut stream = stream(&mut input, database);
    stream.resize(body.len(), 0);
    body.copy_from_slice(&stream);
    start(files);
}
