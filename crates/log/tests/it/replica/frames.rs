//! Test support: frames as a leader would make them, and logs that append them.

use std::path::Path;
use std::sync::Arc;

use coeval_log::{Error, ReplicaLog, Settings};
use coeval_types::{Lsn, Term, Timestamp};

use crate::support::{STORAGE, Table, row};

pub const DATABASE: u128 = 0x9f1c;
pub const FIRST: u64 = 4096;

const COMMIT: u8 = 1;
const MARK: u8 = 4;
const MEMBERSHIP: u8 = 5;

/// A stretch of log under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    pub start: u64,
    pub bytes: Vec<u8>,
    /// Log offsets at which its frames end.
    pub ends: Vec<u64>,
}

impl Stretch {
    pub fn at(start: u64) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }

    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The mark of a term, which names these members.
    pub fn mark(self, term: u32, members: &[u8]) -> Self {
        self.frame(MARK, term, members)
    }

    /// A membership change.
    pub fn members(self, term: u32, members: &[u8]) -> Self {
        self.frame(MEMBERSHIP, term, members)
    }

    /// A commit that sets a record's value.
    pub fn commit(self, term: u32, rid: u8, value: &[u8]) -> Self {
        assert!(rid < 128, "one byte of a varint");
        let row = row(value);
        let mut payload = vec![1, STORAGE.0 as u8, rid];
        let length = row.len() as u64;
        payload.extend([(length & 0x7F) as u8 | 0x80, (length >> 7) as u8]);
        payload.extend(row);
        self.frame(COMMIT, term, &payload)
    }

    fn frame(mut self, kind: u8, term: u32, payload: &[u8]) -> Self {
        let at = self.end();
        let mut frame = vec![0; 32];
        frame[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let stamp = Timestamp::new(Term(term), Lsn(at)).to_bits();
        frame[8..16].copy_from_slice(&stamp.to_le_bytes());
        frame[16..24].copy_from_slice(&FIRST.to_le_bytes());
        frame[24] = kind;
        frame.extend_from_slice(payload);
        frame.resize(frame.len().next_multiple_of(8), 0);
        let seed = crc32c::crc32c(&DATABASE.to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &frame[4..]);
        frame[..4].copy_from_slice(&crc.to_le_bytes());
        self.bytes.extend(frame);
        self.ends.push(self.end());
        self
    }
}

pub async fn open(directory: &Path, settings: Settings) -> Result<(ReplicaLog, Arc<Table>), Error> {
    let table = Arc::new(Table::default());
    let opened = ReplicaLog::open(directory, Some(DATABASE), settings, table.clone()).await;
    Ok((opened?.0, table))
}

/// The bytes from the first frame on.
pub async fn content(log: &ReplicaLog) -> Vec<u8> {
    let (mut at, mut bytes) = (Lsn(FIRST), Vec::new());
    loop {
        let chunk = log.read(at, 700).await.unwrap();
        if chunk.bytes.is_empty() {
            return bytes;
        }
        assert_eq!(chunk.start, at);
        bytes.extend_from_slice(&chunk.bytes);
        at = chunk.end();
    }
}
