//! The steps of taking a checkpoint, as methods of [`Log`].

use std::time::Duration;

use coeval_types::{Lsn, Timestamp, planted};

use super::{Checkpoint, CheckpointStart, CheckpointWriter};
#[cfg(doc)]
use crate::Settings;
use crate::log::{FIRST_LSN, Log};
use crate::retention::{Hold, truncate};
use crate::{CheckpointFile, Error};

impl Log {
    /// First step: calls `register`, which registers a snapshot and returns its
    /// timestamp, and returns the position of a checkpoint of that snapshot. `None` when
    /// the log has no file.
    pub fn start_checkpoint(
        &self,
        register: impl FnOnce() -> Timestamp,
    ) -> Option<CheckpointStart> {
        self.files.as_ref()?;
        let mut snapshot = Timestamp::ZERO;
        let log_start = self.shared.chunks.needed_from(|| {
            snapshot = register();
            Lsn(snapshot.lsn().0 + Lsn::ALIGNMENT)
        });
        Some(CheckpointStart {
            snapshot,
            log_start,
        })
    }

    /// Second step: waits until the snapshot is durable, and creates the file. The writer
    /// then writes at most `bytes_per_second`, 0 for no limit.
    pub async fn write_checkpoint(
        &self,
        start: CheckpointStart,
        bytes_per_second: u64,
    ) -> Result<CheckpointWriter, Error> {
        let files = self.files.clone().ok_or_else(no_file)?;
        if !planted!(CheckpointUncommitted) {
            self.wait_for_snapshot(start.snapshot).await?;
        }
        if let Some(leading) = &self.shared.leading {
            // A majority without this node may have committed the snapshot before this
            // node's disk has it.
            leading.wait_flushed(start.replay_from()).await?;
        }
        let block_bytes = self.settings.checkpoint_block_bytes;
        CheckpointWriter::create(files, start, block_bytes, bytes_per_second).await
    }

    /// Waits until the snapshot is durable, or returns the error that the disk is full, its
    /// reserve included, since that wait may never end.
    async fn wait_for_snapshot(&self, snapshot: Timestamp) -> Result<(), Error> {
        const LOOK: Duration = Duration::from_millis(50);
        loop {
            match coeval_env::timeout(LOOK, self.wait_durable(snapshot)).await {
                Ok(durable) => return durable,
                Err(coeval_env::Elapsed) => {
                    if let Some(full) = self.shared.full_reason(true) {
                        return Err(full);
                    }
                }
            }
        }
    }

    /// Last step: puts the checkpoint in force, then removes the files that are not
    /// needed any more: earlier checkpoints, and log before [`Settings::log_keep_bytes`].
    ///
    /// After an error the previous checkpoint is in force, with all its log. A failure to
    /// remove files is no error, and only logged.
    pub async fn finish_checkpoint(&self, writer: CheckpointWriter) -> Result<Checkpoint, Error> {
        let files = self.files.clone().ok_or_else(no_file)?;
        if self.shared.truncates_early() {
            truncate(&files, writer.start().log_start).await?;
        }
        if let Some(leading) = &self.shared.leading {
            // The log that the checkpoint replaces contains these marks and memberships.
            leading.all_landmarks().write(&files.directory).await?;
        }
        let checkpoint = writer.finish().await?;
        self.retention.set_checkpoint(checkpoint);
        let kept = self.settings.log_keep_bytes;
        let mut kept_from = Lsn(self.shared.durable_end().0.saturating_sub(kept));
        if let Some(leading) = &self.shared.leading {
            kept_from = kept_from.min(leading.kept_for_followers());
        }
        if let Err(error) = self.retention.clean(&files, kept_from).await {
            tracing::warn!(%error, "what a checkpoint has made unneeded could not be removed");
        }
        Ok(checkpoint)
    }

    /// The checkpoint in force.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.retention.checkpoint()
    }

    /// Bytes of log that a start would replay, as far as they are durable.
    #[must_use]
    pub fn bytes_to_replay(&self) -> u64 {
        let from = self
            .checkpoint()
            .map_or(FIRST_LSN, |checkpoint| checkpoint.start.replay_from());
        self.shared.durable_end().0.saturating_sub(from.0)
    }

    /// Bytes of durable log in the directory: the part that a start would replay, the
    /// part that the settings retain, and the part that readers hold.
    #[must_use]
    pub fn bytes_kept(&self) -> u64 {
        let oldest = self.retention.oldest().unwrap_or(FIRST_LSN);
        match &self.files {
            Some(_) => self.shared.durable_end().0.saturating_sub(oldest.0),
            None => 0,
        }
    }

    /// Number of holders of a checkpoint and its log: backups under way.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.retention.holders()
    }

    /// Holds the checkpoint in force and its log for a reader, so that neither is
    /// removed.
    pub fn hold(&self) -> Hold {
        self.retention.hold(FIRST_LSN)
    }

    /// Opens the held checkpoint; `None` if there is none.
    pub async fn open_checkpoint(&self, hold: &Hold) -> Result<Option<CheckpointFile>, Error> {
        let (Some(files), Some(checkpoint)) = (&self.files, hold.checkpoint()) else {
            return Ok(None);
        };
        let path = super::directory::path_of(&files.checkpoints(), checkpoint.start.replay_from());
        CheckpointFile::open(&path).await.map(Some)
    }

    /// Injects a known bug, which a test must detect: log is removed before the
    /// checkpoint that replaces it is durable.
    #[doc(hidden)]
    pub fn truncate_early(&self) {
        self.shared.truncate_early();
    }
}

fn no_file() -> Error {
    Error::Setting("a database in memory has no checkpoints".to_owned())
}
