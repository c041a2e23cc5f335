//! The checkpoint writer: writes records into blocks of a new file, and puts the finished
//! file in force.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coeval_env::fs;
use coeval_types::StorageId;
use coeval_types::planted;

use super::directory::{create_unfinished, path_of};
use super::format::{BlockBuilder, BlockEntry, End, Header, SavedRecord};
use super::pace::Pace;
use super::{Checkpoint, CheckpointStart};
use crate::Error;
use crate::files::Files;

/// Bytes after which the file is synced, so that few dirty pages accumulate: the log's
/// own syncs would wait for them.
const SYNC_BYTES: u64 = 8 << 20;

/// A checkpoint that is being written. [`crate::Log::finish_checkpoint`] puts it in force;
/// until then, and when it is dropped instead, the previous one is in force.
///
/// Its calls block the thread for as long as the disk takes, and sleep to keep to the
/// rate limit: it belongs on a thread of its own.
#[derive(Debug)]
pub struct CheckpointWriter {
    files: Arc<Files>,
    path: PathBuf,
    unfinished: PathBuf,
    file: fs::File,
    header: Header,
    block: BlockBuilder,
    /// Bytes of records from which on a block is written.
    block_bytes: usize,
    blocks: Vec<BlockEntry>,
    /// File offset of the next block.
    at: u64,
    /// File offset up to which the file was synced.
    synced: u64,
    records: u64,
    pace: Pace,
}

impl CheckpointWriter {
    pub(crate) async fn create(
        files: Arc<Files>,
        start: CheckpointStart,
        block_bytes: usize,
        bytes_per_second: u64,
    ) -> Result<Self, Error> {
        let header = Header {
            database: files.database,
            start,
            taken_at: coeval_env::wall_clock(),
        };
        let directory = files.checkpoints();
        let (unfinished, file) = create_unfinished(&directory, start.replay_from()).await?;
        let mut writer = Self {
            path: path_of(&directory, start.replay_from()),
            files,
            unfinished,
            file,
            header,
            block: BlockBuilder::new(),
            block_bytes,
            blocks: Vec::new(),
            at: 0,
            synced: 0,
            records: 0,
            pace: Pace::new(bytes_per_second),
        };
        writer.append(&header.encode()).await?;
        Ok(writer)
    }

    /// Adds a record, in memory only; the caller calls [`CheckpointWriter::write`] while
    /// the writer [is full](CheckpointWriter::is_full). Storages are added one after
    /// another, the records of each in the order of their row ids.
    pub fn add(&mut self, storage: StorageId, record: &SavedRecord<'_>) {
        self.block.add(storage, record);
        self.records += 1;
    }

    /// Whether the current block must be written before a record of this storage can be
    /// added.
    #[must_use]
    pub fn is_full(&self, storage: StorageId) -> bool {
        self.block.len() >= self.block_bytes || self.block.is_of_another(storage)
    }

    /// The checkpoint's snapshot, and the log that it needs.
    pub(crate) fn start(&self) -> CheckpointStart {
        self.header.start
    }

    /// Number of records added.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Removes the rate limit.
    pub fn lift_limit(&mut self) {
        self.pace.lift();
    }

    /// Writes the records that are in memory as a block, and sleeps to keep to the rate
    /// limit.
    pub async fn write(&mut self) -> Result<(), Error> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (bytes, entry) = self.block.finish(self.at, self.header.seed());
        let written = self.file.write_at(bytes, self.at).await;
        self.check_written(written)?;
        self.at = entry.end();
        self.blocks.push(entry);
        self.block.clear();
        if self.at - self.synced >= SYNC_BYTES {
            self.file
                .sync_data()
                .await
                .map_err(Error::io("sync", &self.unfinished))?;
            self.synced = self.at;
        }
        self.pace.written(entry.block_bytes()).await;
        Ok(())
    }

    fn check_written(&self, written: io::Result<()>) -> Result<(), Error> {
        let written = written.map_err(Error::io("write", &self.unfinished));
        match written {
            Err(error) if error.is_disk_full() && planted!(IgnoreFullDisk) => Ok(()),
            written => written,
        }
    }

    async fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.file.write_at(bytes, self.at).await;
        self.check_written(written)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Puts the checkpoint in force: whole, synced, under its final name. The checkpoint
    /// that it replaces still exists.
    pub(crate) async fn finish(self) -> Result<Checkpoint, Error> {
        self.seal().await?.put_in_force().await
    }

    /// Writes the index and the end record, and makes the file durable under its
    /// temporary name, which the next start removes.
    pub async fn seal(mut self) -> Result<SealedCheckpoint, Error> {
        self.write().await?;
        let mut index = Vec::new();
        for block in &self.blocks {
            block.encode(&mut index);
        }
        let end = End {
            snapshot: self.header.start.snapshot,
            index_at: self.at,
            blocks: self.blocks.len() as u64,
            records: self.records,
            index_crc: crc32c::crc32c_append(self.header.seed(), &index),
        };
        index.extend_from_slice(&end.encode());
        self.append(&index).await?;
        self.file
            .sync_all()
            .await
            .map_err(Error::io("sync", &self.unfinished))?;
        Ok(SealedCheckpoint {
            path: self.path,
            unfinished: self.unfinished,
            directory: self.files.checkpoints(),
            checkpoint: Checkpoint {
                start: self.header.start,
                records: self.records,
                bytes: self.at,
                taken_at: Duration::from_micros(
                    u64::try_from(self.header.taken_at.as_micros()).unwrap_or(0),
                ),
            },
        })
    }

    /// Gives the checkpoint up: removes its file and frees the disk space.
    pub async fn abandon(self) {
        drop(self.file);
        remove(&self.unfinished).await;
    }
}

/// Removes an unfinished checkpoint.
async fn remove(unfinished: &Path) {
    if let Err(error) = fs::remove_file(unfinished).await {
        // The next start removes it.
        tracing::warn!(
            file = %unfinished.display(),
            %error,
            "an unfinished checkpoint could not be removed"
        );
    }
}

/// A checkpoint that is whole and durable, and lacks only its final name.
#[derive(Debug)]
pub struct SealedCheckpoint {
    path: PathBuf,
    unfinished: PathBuf,
    directory: PathBuf,
    checkpoint: Checkpoint,
}

impl SealedCheckpoint {
    /// Summary that the checkpoint will have once in force.
    #[must_use]
    pub fn summary(&self) -> Checkpoint {
        self.checkpoint
    }

    /// Gives the checkpoint up: removes its file and frees the disk space.
    pub async fn discard(self) {
        remove(&self.unfinished).await;
    }

    /// Renames the checkpoint to its final name. The checkpoint that it replaces still
    /// exists.
    pub(crate) async fn put_in_force(self) -> Result<Checkpoint, Error> {
        put_name(&self.directory, &self.unfinished, &self.path).await?;
        Ok(self.checkpoint)
    }
}

/// Renames a checkpoint's file to the name with which it is in force, durably.
pub(crate) async fn put_name(directory: &Path, from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to)
        .await
        .map_err(Error::io("rename", from))?;
    fs::sync_dir(directory)
        .await
        .map_err(Error::io("sync", directory))
}
