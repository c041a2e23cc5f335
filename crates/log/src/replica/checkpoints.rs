//! Checkpoints that a follower takes of the state it has replayed.
//!
//! ```text
//!   replay thread     Replayer::checkpoint_start: the checkpoint's snapshot, and from
//!                     where on the log is needed with it
//!                     CheckpointPlace::write ─▶ records ─▶ CheckpointWriter::seal
//!   log thread        ReplicaLog::finish_checkpoint:  log durable up to there
//!                                                     MARKS replaced
//!                                                     name: in force
//!                                                     older checkpoints and log removed
//! ```

use std::sync::Arc;

use coeval_types::{Lsn, Timestamp};

use super::log::ReplicaLog;
use crate::checkpoint::{CheckpointStart, CheckpointWriter, SealedCheckpoint};
use crate::control::{Control, Member};
use crate::files::Files;
use crate::{Checkpoint, CheckpointSource, Error};

/// Creates checkpoint files of a node, for the thread that takes them beside the log's.
#[derive(Clone, Debug)]
pub struct CheckpointPlace {
    files: Arc<Files>,
    block_bytes: usize,
}

impl CheckpointPlace {
    /// Creates a checkpoint's file. The writer then writes at most `bytes_per_second`, 0
    /// for no limit.
    pub async fn write(
        &self,
        start: CheckpointStart,
        bytes_per_second: u64,
    ) -> Result<CheckpointWriter, Error> {
        let files = Arc::clone(&self.files);
        CheckpointWriter::create(files, start, self.block_bytes, bytes_per_second).await
    }
}

impl ReplicaLog {
    /// A handle with which another thread creates this node's checkpoints.
    #[must_use]
    pub fn checkpoint_place(&self) -> CheckpointPlace {
        CheckpointPlace {
            files: Arc::new(self.files()),
            block_bytes: self.settings.checkpoint_block_bytes,
        }
    }

    /// The snapshot that includes everything before `end`, where a committed frame ends.
    #[must_use]
    pub fn snapshot_before(&self, end: Lsn) -> Timestamp {
        let last = Lsn(end.0.saturating_sub(Lsn::ALIGNMENT));
        Timestamp::new(self.term_before(end), last)
    }

    /// Puts a finished checkpoint in force. Everything before its end must be committed.
    /// Then removes the files that are not needed any more: older checkpoints, and log
    /// except for the last `keep` bytes, or as many as the settings say.
    ///
    /// After an error the previous checkpoint is in force, with all its log. A failure to
    /// remove files is no error, and only logged.
    pub async fn finish_checkpoint(
        &mut self,
        sealed: SealedCheckpoint,
        keep: u64,
    ) -> Result<Checkpoint, Error> {
        self.check_failed()?;
        let at = sealed.summary().start.replay_from();
        if at > self.end() {
            return Err(Error::Refused {
                at,
                what: format!("a checkpoint of log behind its end, {}", self.end()),
            });
        }
        if at <= self.begin {
            return Err(Error::Refused {
                at,
                what: format!("a checkpoint of log before the one at {}", self.begin),
            });
        }
        // A later start expects the log from this offset on, so it must be durable.
        self.flush().await?;
        self.landmarks.write(self.path()).await?;
        let member = self.member();
        if member.commit < at {
            let member = Some(Member {
                commit: at,
                ..member
            });
            self.write_control(Control {
                member,
                ..self.control
            })
            .await?;
        }
        let checkpoint = sealed.put_in_force().await?;
        self.retention.set_checkpoint(checkpoint);
        self.begin = at;
        let keep = keep.max(self.settings.log_keep_bytes);
        let kept_from = Lsn(self.flushed.0.saturating_sub(keep));
        match self.retention.clean(&self.files(), kept_from).await {
            Ok(()) => {
                let oldest = self.retention.oldest().unwrap_or(at);
                self.chain.forget_before(oldest);
            }
            Err(error) => {
                tracing::warn!(%error, "what a checkpoint has made unneeded could not be removed");
            }
        }
        self.note_begin();
        Ok(checkpoint)
    }

    /// The checkpoint in force, for sending it to another node; `None` when there is none. For a
    /// user whose leader keeps its log in this form.
    pub async fn checkpoint_source(&self) -> Result<Option<CheckpointSource>, Error> {
        let hold = self.retention.hold(self.begin);
        let Some(checkpoint) = hold.checkpoint() else {
            return Ok(None);
        };
        let start = checkpoint.start;
        let mut landmarks = self.landmarks.clone();
        landmarks.cut(start.replay_from());
        let marks = landmarks.encode().into_bytes();
        let base = self.base();
        let source = CheckpointSource::open(hold, start, &self.files(), marks, base).await?;
        Ok(Some(source))
    }

    /// Log offset from which on the directory has log. A checkpoint replaces the log
    /// before it.
    #[must_use]
    pub fn retained(&self) -> Lsn {
        let oldest = self.retention.oldest().unwrap_or(self.begin);
        oldest.min(self.begin).max(self.base())
    }
}
