//! The wire format of a backup: the byte stream in which a server sends its files to the
//! client.
//!
//! ```text
//! "COEVALBK", version u32
//! file   1, length of name u16, name, length of file u64, bytes that follow u64
//! data   2, length u32, crc u32, bytes                      of the last named file
//! end    3, end timestamp u64, time of day u64, database u128, crc u32
//! ```
//!
//! Integers are little endian. The bytes of a file after those that follow are zeros. A
//! file ends where the next begins. Names must be those of a data directory, so that a
//! stream cannot write anywhere else.

use std::time::Duration;

use coeval_types::Timestamp;

use crate::segment::Name;

const MAGIC: [u8; 8] = *b"COEVALBK";
const VERSION: u32 = 1;
const FILE: u8 = 1;
const DATA: u8 = 2;
const END: u8 = 3;
/// Most bytes of one piece of data.
pub(super) const MAX_DATA_BYTES: usize = 1 << 20;
/// Most bytes of a name.
const MAX_NAME_BYTES: usize = 100;

/// One element of a backup's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A file begins.
    File {
        name: String,
        length: u64,
        follows: u64,
    },
    /// The next bytes of that file.
    Data(Vec<u8>),
    /// The end of the backup.
    End {
        end: Timestamp,
        taken_at: Duration,
        database: u128,
    },
}

pub(super) fn begin() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes
}

impl Item {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::File {
                name,
                length,
                follows,
            } => {
                let name_bytes = u16::try_from(name.len()).expect("a short name");
                out.push(FILE);
                out.extend_from_slice(&name_bytes.to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(&length.to_le_bytes());
                out.extend_from_slice(&follows.to_le_bytes());
            }
            Self::Data(bytes) => {
                let length = u32::try_from(bytes.len()).expect("a short piece");
                out.push(DATA);
                out.extend_from_slice(&length.to_le_bytes());
                out.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Self::End {
                end,
                taken_at,
                database,
            } => {
                let micros = u64::try_from(taken_at.as_micros()).unwrap_or(0);
                out.push(END);
                out.extend_from_slice(&end.to_bits().to_le_bytes());
                out.extend_from_slice(&micros.to_le_bytes());
                out.extend_from_slice(&database.to_le_bytes());
                let crc = crc32c::crc32c(&out[1..]);
                out.extend_from_slice(&crc.to_le_bytes());
            }
        }
        out
    }
}

/// Whether this is the name of a file in a data directory.
pub(super) fn is_name(name: &str) -> bool {
    let checkpoint = |rest: &str| {
        rest.strip_suffix(".checkpoint").is_some_and(|digits| {
            digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    name == "CONTROL"
        || name
            .strip_prefix("log/")
            .is_some_and(|rest| Name::parse(rest).is_some())
        || name.strip_prefix("checkpoints/").is_some_and(checkpoint)
}

/// Splits the received stream into items.
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    begun: bool,
}

/// Why a stream is malformed, in words.
pub(super) type Malformed = &'static str;

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

impl Parser {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether all received bytes have been parsed.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next item, if all of it has been received.
    pub(super) fn next(&mut self) -> Result<Option<Item>, Malformed> {
        if !self.begun {
            let mut rest = &self.bytes[..];
            let (Some(magic), Some(version)) = (take::<8>(&mut rest), take::<4>(&mut rest)) else {
                return Ok(None);
            };
            if magic != MAGIC {
                return Err("the stream does not begin as a backup does");
            }
            if u32::from_le_bytes(version) != VERSION {
                return Err("the server sends backups of another version");
            }
            self.begun = true;
            self.bytes.drain(..MAGIC.len() + 4);
        }
        let mut rest = &self.bytes[..];
        let item = parse(&mut rest)?;
        if item.is_some() {
            let taken = self.bytes.len() - rest.len();
            self.bytes.drain(..taken);
        }
        Ok(item)
    }
}

fn parse(rest: &mut &[u8]) -> Result<Option<Item>, Malformed> {
    let Some([kind]) = take(rest) else {
        return Ok(None);
    };
    let item = match kind {
        FILE => parse_file(rest)?,
        DATA => parse_data(rest)?,
        END => parse_end(rest)?,
        _ => return Err("the stream has something that is no part of a backup"),
    };
    Ok(item)
}

fn parse_file(rest: &mut &[u8]) -> Result<Option<Item>, Malformed> {
    let Some(length) = take(rest) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_le_bytes(length));
    if length > MAX_NAME_BYTES {
        return Err("a file's name is too long");
    }
    let Some((name, behind)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    *rest = behind;
    let (Some(length), Some(follows)) = (take(rest), take(rest)) else {
        return Ok(None);
    };
    let name = std::str::from_utf8(name)
        .ok()
        .filter(|name| is_name(name))
        .ok_or("a file's name is none of a data directory")?;
    let (length, follows) = (u64::from_le_bytes(length), u64::from_le_bytes(follows));
    if follows > length {
        return Err("a file has more bytes than its length");
    }
    Ok(Some(Item::File {
        name: name.to_owned(),
        length,
        follows,
    }))
}

fn parse_data(rest: &mut &[u8]) -> Result<Option<Item>, Malformed> {
    let (Some(length), Some(crc)) = (take(rest), take(rest)) else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_DATA_BYTES {
        return Err("a piece of a file is too long");
    }
    let Some((bytes, behind)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    *rest = behind;
    if crc32c::crc32c(bytes) != u32::from_le_bytes(crc) {
        return Err("a piece of a file was changed on its way");
    }
    Ok(Some(Item::Data(bytes.to_vec())))
}

fn parse_end(rest: &mut &[u8]) -> Result<Option<Item>, Malformed> {
    let whole = *rest;
    let (Some(end), Some(micros), Some(database), Some(crc)) =
        (take(rest), take(rest), take(rest), take(rest))
    else {
        return Ok(None);
    };
    if crc32c::crc32c(&whole[..32]) != u32::from_le_bytes(crc) {
        return Err("the end was changed on its way");
    }
    Ok(Some(Item::End {
        end: Timestamp::from_bits(u64::from_le_bytes(end)),
        taken_at: Duration::from_micros(u64::from_le_bytes(micros)),
        database: u128::from_le_bytes(database),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items() -> Vec<Item> {
        vec![
            Item::File {
                name: "log/00000000000000004096.log".to_owned(),
                length: 8192,
                follows: 5,
            },
            Item::Data(b"hello".to_vec()),
            Item::Data(Vec::new()),
            Item::End {
                end: Timestamp::from_bits(77),
                taken_at: Duration::from_micros(5),
                database: 1 << 90,
            },
        ]
    }

    fn stream() -> Vec<u8> {
        let parts = items().into_iter().map(|item| item.encode());
        std::iter::once(begin()).chain(parts).flatten().collect()
    }

    #[test]
    fn items_come_back_however_the_stream_is_cut() {
        for piece in 1..40 {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for bytes in stream().chunks(piece) {
                parser.feed(bytes);
                while let Some(item) = parser.next().unwrap() {
                    found.push(item);
                }
            }
            assert_eq!(found, items(), "pieces of {piece}");
            assert!(parser.is_empty());
        }
    }

    #[test]
    fn names_stay_within_the_directory() {
        for good in [
            "CONTROL",
            "log/00000000000000004096.log",
            "log/00000000000000004096-0000003.log",
            "checkpoints/00000000000000004096.checkpoint",
        ] {
            assert!(is_name(good));
        }
        for bad in [
            "",
            "LOCK",
            "../CONTROL",
            "log/../../etc/passwd",
            "log/0.log",
            "log/00000000000000004096-../CONTROL",
            "/log/00000000000000004096.log",
            "log/00000000000000004096.checkpoint",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn streams_of_chance_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            flip in any::<prop::sample::Index>(),
        ) {
            let mut parser = Parser { begun: true, ..Parser::default() };
            parser.feed(&bytes);
            while let Ok(Some(_)) = parser.next() {}
            let mut bad = stream();
            let at = flip.index(bad.len());
            bad[at] ^= 1;
            let mut parser = Parser::default();
            parser.feed(&bad);
            while let Ok(Some(_)) = parser.next() {}
        }
    }
}
