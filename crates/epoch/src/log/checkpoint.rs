//! Checkpoints: every key's version at the end of one closed epoch.
//!
//! ```text
//!   "coeval epoch checkpoint 1\n", epoch, partitions, count, then each version, then CRC32C
//! ```
//!
//! A start loads the newest checkpoint and reads the log files after its epoch. Versions that an
//! epoch's end does not show are not in it: what was readable before its epoch is not any more.

use bytes::Bytes;

use super::record::{put_write, take_write};
use crate::codec::{Malformed, Reader, put_u64};
use crate::operation::{Key, Operation};
use crate::timestamp::{Epoch, EpochTimestamp};

const FIRST_LINE: &[u8] = b"coeval epoch checkpoint 1\n";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The closed epoch whose end it shows.
    pub epoch: Epoch,
    /// Number of partitions of the cluster.
    pub partitions: usize,
    /// The versions.
    pub versions: Vec<(Key, EpochTimestamp, Operation)>,
}

impl Checkpoint {
    /// The checkpoint as bytes of a file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = FIRST_LINE.to_vec();
        put_u64(&mut out, self.epoch.0);
        put_u64(&mut out, self.partitions as u64);
        put_u64(&mut out, self.versions.len() as u64);
        for (key, at, operation) in &self.versions {
            put_u64(&mut out, at.to_bits());
            put_write(&mut out, key, operation);
        }
        let sum = crc32c::crc32c(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// The checkpoint in these bytes.
    ///
    /// # Errors
    /// When they are not a whole one.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (covered, sum) = bytes.split_last_chunk::<4>().ok_or(Malformed)?;
        if crc32c::crc32c(covered) != u32::from_le_bytes(*sum) {
            return Err(Malformed);
        }
        let body = covered.strip_prefix(FIRST_LINE).ok_or(Malformed)?;
        let mut reader = Reader::new(Bytes::copy_from_slice(body));
        let mut checkpoint = Self {
            epoch: reader.epoch()?,
            partitions: usize::try_from(reader.u64()?).map_err(|_| Malformed)?,
            versions: Vec::new(),
        };
        for _ in 0..reader.u64()? {
            let at = EpochTimestamp::from_bits(reader.u64()?);
            let write = take_write(&mut reader)?;
            checkpoint.versions.push((write.key, at, write.operation));
        }
        reader.end()?;
        Ok(checkpoint)
    }
}
