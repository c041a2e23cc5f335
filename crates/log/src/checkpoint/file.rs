//! Reading a checkpoint file: opens it, validates its header and index, and reads its
//! blocks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coeval_env::fs;
use coeval_types::{Lsn, Timestamp};

use super::directory::replay_from_of_name;
use super::format::{
    Block, BlockEntry, END_BYTES, END_MAGIC, ENTRY_BYTES, End, HEADER_BYTES, HEADER_MAGIC, Header,
    MAX_BLOCK_BYTES,
};
use super::{Checkpoint, CheckpointStart};
use crate::{Error, stamp};

/// An open checkpoint file whose header, index and end record have been validated. Each
/// block is validated when it is read.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    file: fs::File,
    header: Header,
    blocks: Vec<BlockEntry>,
    records: u64,
    bytes: u64,
}

impl CheckpointFile {
    /// Opens the file, and reads its header, index and end record.
    pub async fn open(path: &Path) -> Result<Self, Error> {
        let file = Self::open_unnamed(path).await?;
        if replay_from_of_name(path) != Some(file.replay_from()) {
            return Err(Error::Damaged {
                file: path.to_owned(),
                offset: 0,
                what: "the header and the file's name do not agree".to_owned(),
            });
        }
        Ok(file)
    }

    /// Like [`CheckpointFile::open`], without checking the file's name.
    pub(super) async fn open_unnamed(path: &Path) -> Result<Self, Error> {
        let file = fs::open(path, fs::OpenOptions::READ)
            .await
            .map_err(Error::io("open", path))?;
        let bytes = file.len().await.map_err(Error::io("look at", path))?;
        let damaged = |offset: u64, what: &str| Error::Damaged {
            file: path.to_owned(),
            offset,
            what: what.to_owned(),
        };
        let mut page = vec![0; HEADER_BYTES];
        if bytes < (HEADER_BYTES + END_BYTES) as u64 {
            return Err(damaged(bytes, "the file ends within its header"));
        }
        file.read_exact_at(&mut page, 0)
            .await
            .map_err(Error::io("read", path))?;
        let fields = stamp::check(&page, HEADER_MAGIC, path)?;
        let header = Header::decode(fields)
            .ok_or_else(|| damaged(0, "the header's contents make no sense"))?;

        let end_at = bytes - END_BYTES as u64;
        let mut page = [0; END_BYTES];
        file.read_exact_at(&mut page, end_at)
            .await
            .map_err(Error::io("read", path))?;
        let end = match stamp::check(&page, END_MAGIC, path) {
            Ok(fields) => End::decode(fields),
            Err(Error::Damaged { what, .. }) => {
                return Err(damaged(end_at, &format!("at the file's end: {what}")));
            }
            Err(other) => return Err(other),
        };
        if end.snapshot != header.start.snapshot {
            return Err(damaged(end_at, "the end belongs to another checkpoint"));
        }
        let index_bytes = end
            .blocks
            .checked_mul(ENTRY_BYTES as u64)
            .filter(|index| end.index_at.checked_add(*index) == Some(end_at))
            .ok_or_else(|| damaged(end_at, "the file's length and its end do not agree"))?;
        // The index is not longer than the file, so there is memory for it.
        let mut index = vec![0; index_bytes as usize];
        file.read_exact_at(&mut index, end.index_at)
            .await
            .map_err(Error::io("read", path))?;
        if crc32c::crc32c_append(header.seed(), &index) != end.index_crc {
            return Err(damaged(end.index_at, "the index's checksum differs"));
        }
        let (entries, _) = index.as_chunks();
        let blocks: Vec<_> = entries.iter().map(BlockEntry::decode).collect();
        let mut at = HEADER_BYTES as u64;
        let mut records = 0;
        for block in &blocks {
            if block.at != at || block.block_bytes() > MAX_BLOCK_BYTES {
                return Err(damaged(end.index_at, "the index makes no sense"));
            }
            at = block.end();
            records += u64::from(block.records);
        }
        if at != end.index_at || records != end.records {
            return Err(damaged(end.index_at, "the index is not of these blocks"));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
            blocks,
            records,
            bytes,
        })
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Id of the database that the checkpoint belongs to.
    #[must_use]
    pub fn database(&self) -> u128 {
        self.header.database
    }

    /// Commit timestamp of the newest commit it includes.
    #[must_use]
    pub fn snapshot(&self) -> Timestamp {
        self.header.start.snapshot
    }

    /// Log offset at which replay begins.
    #[must_use]
    pub fn replay_from(&self) -> Lsn {
        self.header.start.replay_from()
    }

    /// Summary of the checkpoint: offsets, rows, bytes and time.
    #[must_use]
    pub fn summary(&self) -> Checkpoint {
        Checkpoint {
            start: self.start(),
            records: self.records,
            bytes: self.bytes,
            taken_at: self.taken_at(),
        }
    }

    /// The checkpoint's snapshot, and the log that it needs.
    #[must_use]
    pub fn start(&self) -> CheckpointStart {
        self.header.start
    }

    /// The time of day when its snapshot was taken, since the Unix epoch.
    #[must_use]
    pub fn taken_at(&self) -> Duration {
        self.header.taken_at
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Reads block number `block`, counted from 0, into `buffer`, and verifies its
    /// checksum.
    ///
    /// # Panics
    /// When there is no such block.
    pub async fn read<'buffer>(
        &self,
        block: usize,
        buffer: &'buffer mut Vec<u8>,
    ) -> Result<Block<'buffer>, Error> {
        let entry = self.blocks[block];
        buffer.resize(entry.block_bytes() as usize, 0);
        self.file
            .read_exact_at(buffer, entry.at)
            .await
            .map_err(Error::io("read", &self.path))?;
        Block::parse(buffer, entry, self.header.seed(), self.snapshot())
            .map_err(|what| self.damaged(block, what.to_owned()))
    }

    /// The error that this block is damaged.
    #[must_use]
    pub fn damaged(&self, block: usize, what: String) -> Error {
        Error::Damaged {
            file: self.path.clone(),
            offset: self.blocks[block].at,
            what,
        }
    }
}
