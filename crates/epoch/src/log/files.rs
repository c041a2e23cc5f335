//! The log's directory: its files, appended and synced; checkpoints, put in force by a rename;
//! and the removal of what a checkpoint replaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coeval_env::fs;

use super::{Checkpoint, Inspected, LogDamaged, Recovered, mend};
use crate::back_end::LogWrite;
use crate::timestamp::Epoch;

/// Why the log on the disk fails.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Fatal: the disk.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or the directory.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// Fatal: a log file is damaged.
    #[error("{damaged}, in {}", .directory.display())]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// The place.
        damaged: LogDamaged,
    },
    /// Fatal: a checkpoint is damaged.
    #[error("the checkpoint {} is damaged", .0.display())]
    Checkpoint(PathBuf),
    /// Fatal: the thread that writes the log is gone.
    #[error("the log's thread has ended")]
    Ended,
}

impl LogError {
    /// Whether the disk has no room: the same may succeed later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let kind = match self {
            Self::Io { error, .. } => error.kind(),
            _ => return false,
        };
        matches!(kind, StorageFull | QuotaExceeded)
    }
}

fn io<'path>(
    doing: &'static str,
    path: &'path Path,
) -> impl FnOnce(std::io::Error) -> LogError + 'path {
    move |error| LogError::Io {
        doing,
        path: path.to_owned(),
        error,
    }
}

/// The open directory of a back end's log.
#[derive(Debug)]
pub struct LogFiles {
    directory: PathBuf,
    /// Length of each log file.
    lengths: BTreeMap<Epoch, u64>,
    checkpoint: Option<Epoch>,
}

impl LogFiles {
    /// Opens the directory, or makes one, and reads what is in it.
    ///
    /// # Errors
    /// When the disk fails, or a file is damaged.
    pub async fn open(directory: &Path) -> Result<(Self, Recovered), LogError> {
        fs::create_dir_all(directory)
            .await
            .map_err(io("create", directory))?;
        let (mut files, mut found) = Self::read(directory).await?;
        files.mend_newest(&mut found.logs).await?;
        for epoch in found.stale {
            let path = files.checkpoint_path(epoch);
            fs::remove_file(&path).await.map_err(io("remove", &path))?;
        }
        Ok((files, found.recovered))
    }

    /// Looks at what a start would read in the directory, and changes nothing.
    ///
    /// # Errors
    /// When the disk fails, or a file is damaged.
    pub async fn inspect(directory: &Path) -> Result<Inspected, LogError> {
        let (_, found) = Self::read(directory).await?;
        Ok(Inspected::of(
            &found.recovered,
            &found.logs,
            found.checkpoint_bytes,
        ))
    }

    /// Reads the directory, and changes nothing.
    async fn read(directory: &Path) -> Result<(Self, Contents), LogError> {
        let names = fs::read_dir(directory)
            .await
            .map_err(io("list", directory))?;
        let (mut logs, mut newest, mut stale) = (BTreeMap::new(), None, Vec::new());
        for path in names {
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.unwrap_or_default();
            if let Some(epoch) = number(name, "epoch-", ".log") {
                let bytes = fs::read(&path).await.map_err(io("read", &path))?;
                logs.insert(epoch, bytes);
            } else if let Some(epoch) = number(name, "checkpoint-", "") {
                newest = newest.max(Some(epoch));
                stale.push(epoch);
            }
        }
        let files = Self {
            directory: directory.to_owned(),
            lengths: BTreeMap::new(),
            checkpoint: newest,
        };
        let (mut checkpoint, mut checkpoint_bytes) = (None, 0);
        if let Some(epoch) = newest {
            let path = files.checkpoint_path(epoch);
            let bytes = fs::read(&path).await.map_err(io("read", &path))?;
            checkpoint_bytes = bytes.len() as u64;
            // One under another's name would have the log after the wrong epoch read.
            let decoded = Checkpoint::decode(&bytes).ok();
            let decoded = decoded.filter(|checkpoint| checkpoint.epoch == epoch);
            checkpoint = Some(decoded.ok_or(LogError::Checkpoint(path))?);
        }
        let recovered = Recovered::read(checkpoint, &logs);
        let recovered = recovered.map_err(|damaged| LogError::Damaged {
            directory: directory.to_owned(),
            damaged,
        })?;
        stale.retain(|epoch| Some(*epoch) < newest);
        let found = Contents {
            logs,
            stale,
            checkpoint_bytes,
            recovered,
        };
        Ok((files, found))
    }

    /// Mends the newest file, so that what is appended can be read.
    async fn mend_newest(&mut self, logs: &mut BTreeMap<Epoch, Vec<u8>>) -> Result<(), LogError> {
        if let Some(mut newest) = logs.last_entry() {
            let path = self.log_path(*newest.key());
            let before = newest.get().clone();
            if mend(newest.get_mut()) {
                let file = fs::open(&path, fs::OpenOptions::WRITE)
                    .await
                    .map_err(io("open", &path))?;
                let bytes = newest.get();
                let same = before
                    .iter()
                    .zip(bytes)
                    .take_while(|(one, other)| one == other);
                let from = same.count();
                file.set_len(from as u64).await.map_err(io("cut", &path))?;
                file.write_at(&bytes[from..], from as u64)
                    .await
                    .map_err(io("write", &path))?;
                file.sync_all().await.map_err(io("sync", &path))?;
            }
        }
        let lengths = logs
            .iter()
            .map(|(epoch, bytes)| (*epoch, bytes.len() as u64));
        self.lengths = lengths.collect();
        Ok(())
    }

    fn log_path(&self, epoch: Epoch) -> PathBuf {
        self.directory.join(format!("epoch-{:013}.log", epoch.0))
    }

    fn checkpoint_path(&self, epoch: Epoch) -> PathBuf {
        self.directory.join(format!("checkpoint-{:013}", epoch.0))
    }

    /// Carries out a write, and makes it durable. One that failed for want of room may be repeated: all of
    /// its bytes are then written again, in the same place.
    ///
    /// # Errors
    /// When the disk fails. The back end then ends: what its log holds is not known.
    pub async fn append(&mut self, write: &LogWrite) -> Result<(), LogError> {
        let path = self.log_path(write.file);
        let at = self.lengths.get(&write.file).copied();
        let file = fs::open(&path, fs::OpenOptions::CREATE)
            .await
            .map_err(io("open", &path))?;
        let start = at.unwrap_or(0);
        file.write_at(&write.bytes, start)
            .await
            .map_err(io("write", &path))?;
        file.sync_all().await.map_err(io("sync", &path))?;
        // A file in which nothing was whole may have a name that is not durable.
        if start == 0 {
            self.sync_directory().await?;
        }
        self.lengths
            .insert(write.file, start + write.bytes.len() as u64);
        Ok(())
    }

    async fn sync_directory(&self) -> Result<(), LogError> {
        fs::sync_dir(&self.directory)
            .await
            .map_err(io("sync", &self.directory))
    }

    /// Puts a checkpoint in force, then removes what it replaces.
    ///
    /// # Errors
    /// When the disk fails. The previous checkpoint is then in force, with its log.
    pub async fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), LogError> {
        let kept = self.replace(checkpoint).await;
        if kept.is_err() {
            // What there is of it would only take space.
            let _ = fs::remove_file(self.directory.join("checkpoint.new")).await;
        }
        kept
    }

    async fn replace(&mut self, checkpoint: &Checkpoint) -> Result<(), LogError> {
        let path = self.checkpoint_path(checkpoint.epoch);
        let unfinished = self.directory.join("checkpoint.new");
        let file = fs::open(&unfinished, fs::OpenOptions::REPLACE)
            .await
            .map_err(io("create", &unfinished))?;
        file.write_at(&checkpoint.encode(), 0)
            .await
            .map_err(io("write", &unfinished))?;
        file.sync_all().await.map_err(io("sync", &unfinished))?;
        fs::rename(&unfinished, &path)
            .await
            .map_err(io("rename", &unfinished))?;
        self.sync_directory().await?;
        let before = self.checkpoint.replace(checkpoint.epoch);
        if let Some(before) = before.filter(|before| *before < checkpoint.epoch) {
            let path = self.checkpoint_path(before);
            fs::remove_file(&path).await.map_err(io("remove", &path))?;
        }
        let needed = self.lengths.split_off(&checkpoint.epoch.plus(1));
        for (epoch, _) in std::mem::replace(&mut self.lengths, needed) {
            let path = self.log_path(epoch);
            fs::remove_file(&path).await.map_err(io("remove", &path))?;
        }
        self.sync_directory().await
    }
}

/// What a directory holds.
struct Contents {
    logs: BTreeMap<Epoch, Vec<u8>>,
    /// Checkpoints that a newer one has replaced.
    stale: Vec<Epoch>,
    checkpoint_bytes: u64,
    recovered: Recovered,
}

/// The epoch in a file's name.
fn number(name: &str, before: &str, after: &str) -> Option<Epoch> {
    let digits = name.strip_prefix(before)?.strip_suffix(after)?;
    let is_whole = digits.len() == 13 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_whole);
    number.filter(|number| *number < Epoch::LIMIT).map(Epoch)
}
