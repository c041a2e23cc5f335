//! The founders of a cluster, in the file FOUNDERS of each founder's directory.
//!
//! ```text
//!  0       8         12    16                24      28     32
//! +-------+---------+-----+---------+-------+-------+------+------+----------+-- … --+
//! | magic | version | crc | cluster | count | is    | 0    | node | identity |       |
//! |       |         |     | version |       | done  |      | 8    | 16       |       |
//! +-------+---------+-----+---------+-------+-------+------+------+----------+-- … --+
//! ```
//!
//! A founder writes the file down once all founders have said that their directories hold
//! no log, and writes it anew, *done*, once all of them have written down the same. A list
//! that was written down is never replaced by another. A directory without a log whose
//! file is missing or not done has founded nothing, and neither votes nor acknowledges,
//! whether or not a crash has interrupted it. Identity 0 stands for a founder that is not
//! waited for.

use std::path::Path;

use coeval_env::fs;
use coeval_types::DirectoryId;

use crate::Error;
use crate::control::{DataDirectory, replace};
use crate::stamp::{self, Stamp};

/// Name of the file.
const NAME: &str = "FOUNDERS";
const MAGIC: [u8; 8] = *b"COEVALFO";
const HEAD_BYTES: usize = 32;
const FOUNDER_BYTES: usize = 24;

/// FNV-1a of 128 bits; never 0, which stands for nothing in messages.
fn digest(numbers: impl IntoIterator<Item = u128>) -> u128 {
    let mut digest = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for number in numbers {
        for byte in number.to_le_bytes() {
            digest ^= u128::from(byte);
            digest = digest.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    digest.max(1)
}

/// The founders of a cluster, as one of them has recorded them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founders {
    /// The cluster version that all founders read, and with which the cluster begins.
    pub version: u32,
    /// Whether all founders have written down the same.
    pub is_done: bool,
    /// The founders, by number, each with its directory if that is known.
    pub directories: Vec<(u64, Option<DirectoryId>)>,
}

impl Founders {
    /// A number that differs for other founders, other directories and another version:
    /// FNV-1a of 128 bits.
    #[must_use]
    pub fn digest(&self) -> u128 {
        let founders = self.directories.iter();
        let founders = founders.map(|(node, id)| (u128::from(*node), id.map_or(0, |id| id.0)));
        let numbers = founders.flat_map(|(node, id)| [node, id]);
        digest([self.version.into()].into_iter().chain(numbers))
    }

    /// An identity that no directory has, for a founder without whose word the cluster is
    /// founded: the same on all founders.
    #[must_use]
    pub fn directory_of_none(&self, node: u64) -> DirectoryId {
        DirectoryId(digest([self.digest(), node.into()]))
    }

    fn encode(&self) -> Vec<u8> {
        let mut block = Stamp::new(MAGIC, HEAD_BYTES + FOUNDER_BYTES * self.directories.len());
        block.put(&self.version.to_le_bytes());
        block.put(&(self.directories.len() as u32).to_le_bytes());
        block.put(&u64::from(self.is_done).to_le_bytes());
        for (node, id) in &self.directories {
            block.put(&node.to_le_bytes());
            block.put(&id.map_or(0, |id| id.0).to_le_bytes());
        }
        block.finish()
    }

    pub(crate) async fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(NAME);
        let exists = fs::exists(&path).await;
        if !exists.map_err(Error::io("look for", &path))? {
            return Ok(None);
        }
        let block = fs::read(&path).await.map_err(Error::io("read", &path))?;
        let damaged = |what: &str| Error::Damaged {
            file: path.clone(),
            offset: 0,
            what: what.to_owned(),
        };
        if block.len() < HEAD_BYTES {
            return Err(damaged("the file is too short"));
        }
        let mut fields = stamp::check(&block, MAGIC, &path)?;
        let version = u32::from_le_bytes(fields.take());
        let count = u32::from_le_bytes(fields.take()) as usize;
        let is_done = match u64::from_le_bytes(fields.take()) {
            0 => false,
            1 => true,
            _ => return Err(damaged("its contents make no sense")),
        };
        if block.len() - HEAD_BYTES != count.saturating_mul(FOUNDER_BYTES) {
            return Err(damaged("it does not have the founders that it counts"));
        }
        let founder = |_| {
            let node = u64::from_le_bytes(fields.take());
            let id = Some(u128::from_le_bytes(fields.take())).filter(|id| *id != 0);
            (node, id.map(DirectoryId))
        };
        let directories = (0..count).map(founder).collect();
        Ok(Some(Self {
            version,
            is_done,
            directories,
        }))
    }

    pub(crate) async fn write(&self, directory: &DataDirectory) -> Result<(), Error> {
        replace(directory.path(), NAME, &self.encode()).await
    }
}
