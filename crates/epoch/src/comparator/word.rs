//! What nodes of a comparator say to each other, and its bytes.

use std::sync::Arc;

use bytes::Bytes;

use crate::codec::{Malformed, Reader, put_bytes, put_u64};
use crate::log::{put_write, take_write};
use crate::operation::{Found, Key, Write};
use crate::timestamp::EpochTimestamp;
use crate::wire::{list, put_count, put_found_at, take_found, take_timestamp};

/// A version, as a read finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) key: Key,
    pub(super) at: EpochTimestamp,
    pub(super) found: Found,
    /// The keys of its transaction; RAMP-Fast only.
    pub(super) siblings: Arc<Vec<Key>>,
}

/// One thing that is said. Numbers are the front end's, one for each transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Keep these operations, unseen; without control, make them seen.
    Prepare(u64, EpochTimestamp, Arc<Vec<Write>>, Arc<Vec<Key>>),
    /// They are kept; the newest timestamp among their keys. `None`: a lock is held.
    Prepared(u64, Option<EpochTimestamp>),
    /// Make them seen, at this timestamp.
    Commit(u64, EpochTimestamp),
    /// Forget them.
    Abort(u64),
    /// Either is done.
    Done(u64),
    /// Read the newest versions of keys.
    Read(u64, Vec<Key>),
    /// Read these versions.
    Exactly(u64, Vec<(Key, EpochTimestamp)>),
    /// Read the newest version of each key among these timestamps.
    Among(u64, Vec<Key>, Vec<EpochTimestamp>),
    /// What was found. `None`: a lock is held.
    Found(u64, Option<Vec<Version>>),
    /// The timestamps of the newest versions.
    Stamps(u64, Vec<(Key, EpochTimestamp)>),
    /// Let the locks of a read go.
    Release(u64),
}

const PREPARE: u8 = 1;
const PREPARED: u8 = 2;
const COMMIT: u8 = 3;
const ABORT: u8 = 4;
const DONE: u8 = 5;
const READ: u8 = 6;
const EXACTLY: u8 = 7;
const AMONG: u8 = 8;
const FOUND: u8 = 9;
const STAMPS: u8 = 10;
const RELEASE: u8 = 11;

impl Word {
    pub(super) fn is_for_back_end(&self) -> bool {
        !matches!(
            self,
            Self::Prepared(..) | Self::Done(_) | Self::Found(..) | Self::Stamps(..)
        )
    }

    fn put(&self, out: &mut Vec<u8>) {
        let head = |out: &mut Vec<u8>, kind: u8, number: u64| {
            out.push(kind);
            put_u64(out, number);
        };
        match self {
            Self::Prepare(number, at, writes, siblings) => {
                head(out, PREPARE, *number);
                put_u64(out, at.to_bits());
                put_count(out, writes.len());
                for write in writes.iter() {
                    put_write(out, &write.key, &write.operation);
                }
                put_keys(out, siblings);
            }
            Self::Prepared(number, newest) => {
                head(out, PREPARED, *number);
                out.push(u8::from(newest.is_some()));
                put_u64(out, newest.unwrap_or_default().to_bits());
            }
            Self::Commit(number, at) => {
                head(out, COMMIT, *number);
                put_u64(out, at.to_bits());
            }
            Self::Abort(number) => head(out, ABORT, *number),
            Self::Done(number) => head(out, DONE, *number),
            Self::Read(number, keys) => {
                head(out, READ, *number);
                put_keys(out, keys);
            }
            Self::Exactly(number, wanted) => {
                head(out, EXACTLY, *number);
                put_stamped(out, wanted);
            }
            Self::Among(number, keys, stamps) => {
                head(out, AMONG, *number);
                put_keys(out, keys);
                put_count(out, stamps.len());
                stamps.iter().for_each(|at| put_u64(out, at.to_bits()));
            }
            Self::Found(number, versions) => {
                head(out, FOUND, *number);
                out.push(u8::from(versions.is_some()));
                let versions = versions.as_deref().unwrap_or_default();
                put_count(out, versions.len());
                for version in versions {
                    put_u64(out, version.at.to_bits());
                    put_found_at(out, &version.key, &version.found);
                    put_keys(out, &version.siblings);
                }
            }
            Self::Stamps(number, stamps) => {
                head(out, STAMPS, *number);
                put_stamped(out, stamps);
            }
            Self::Release(number) => head(out, RELEASE, *number),
        }
    }

    fn take(reader: &mut Reader) -> Result<Self, Malformed> {
        let (kind, number) = (reader.u8()?, reader.u64()?);
        Ok(match kind {
            PREPARE => Self::Prepare(
                number,
                take_timestamp(reader)?,
                Arc::new(list(reader, take_write)?),
                Arc::new(list(reader, Reader::bytes)?),
            ),
            PREPARED => {
                let (is_there, newest) = (reader.u8()? == 1, take_timestamp(reader)?);
                Self::Prepared(number, is_there.then_some(newest))
            }
            COMMIT => Self::Commit(number, take_timestamp(reader)?),
            ABORT => Self::Abort(number),
            DONE => Self::Done(number),
            READ => Self::Read(number, list(reader, Reader::bytes)?),
            EXACTLY => Self::Exactly(number, list(reader, take_stamped)?),
            AMONG => Self::Among(
                number,
                list(reader, Reader::bytes)?,
                list(reader, take_timestamp)?,
            ),
            FOUND => {
                let (is_there, versions) = (reader.u8()? == 1, list(reader, take_version)?);
                Self::Found(number, is_there.then_some(versions))
            }
            STAMPS => Self::Stamps(number, list(reader, take_stamped)?),
            RELEASE => Self::Release(number),
            _ => return Err(Malformed),
        })
    }
}

fn put_keys(out: &mut Vec<u8>, keys: &[Key]) {
    put_count(out, keys.len());
    keys.iter().for_each(|key| put_bytes(out, key));
}

fn put_stamped(out: &mut Vec<u8>, stamped: &[(Key, EpochTimestamp)]) {
    put_count(out, stamped.len());
    for (key, at) in stamped {
        put_bytes(out, key);
        put_u64(out, at.to_bits());
    }
}

fn take_stamped(reader: &mut Reader) -> Result<(Key, EpochTimestamp), Malformed> {
    Ok((reader.bytes()?, take_timestamp(reader)?))
}

fn take_version(reader: &mut Reader) -> Result<Version, Malformed> {
    let at = take_timestamp(reader)?;
    let (key, found) = take_found(reader)?;
    let siblings = Arc::new(list(reader, Reader::bytes)?);
    Ok(Version {
        key,
        at,
        found,
        siblings,
    })
}

/// All that is said to one node at one time, as a payload.
pub(super) fn encode(words: &[Word]) -> Bytes {
    let mut out = Vec::new();
    put_count(&mut out, words.len());
    words.iter().for_each(|word| word.put(&mut out));
    out.into()
}

pub(super) fn decode(payload: Bytes) -> Result<Vec<Word>, Malformed> {
    let mut reader = Reader::new(payload);
    let words = list(&mut reader, Word::take)?;
    reader.end()?;
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    #[test]
    fn every_word_comes_back_and_a_cut_one_is_refused() {
        let at = EpochTimestamp::from_bits(77);
        let key = Key::from_static(b"k");
        let write = Write {
            key: key.clone(),
            operation: Operation::Value(Bytes::from_static(b"v")),
        };
        let siblings = Arc::new(vec![key.clone(), Key::new()]);
        let version = Version {
            key: key.clone(),
            at,
            found: Found::Value(Bytes::from_static(b"v")),
            siblings: Arc::clone(&siblings),
        };
        let words = vec![
            Word::Prepare(1, at, Arc::new(vec![write]), siblings),
            Word::Prepared(2, Some(at)),
            Word::Prepared(3, None),
            Word::Commit(4, at),
            Word::Abort(5),
            Word::Done(6),
            Word::Read(7, vec![key.clone()]),
            Word::Exactly(8, vec![(key.clone(), at)]),
            Word::Among(9, vec![key.clone()], vec![at, at]),
            Word::Found(10, Some(vec![version])),
            Word::Found(11, None),
            Word::Stamps(12, vec![(key, at)]),
            Word::Release(13),
        ];
        let payload = encode(&words);
        assert_eq!(decode(payload.clone()), Ok(words));
        for length in 0..payload.len() {
            decode(payload.slice(..length)).unwrap_err();
        }
    }
}
