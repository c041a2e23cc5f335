//! Checkpoints that a node takes while it follows, of what it has replayed.
//!
//! ```text
//!   whoever replays   Replayer::checkpoint_start: what the checkpoint shows, and from
//!                     where on the log is needed with it
//!                     CheckpointPlace::write ─▶ records ─▶ CheckpointWriter::seal
//!   who has the log   ReplicaLog::finish_checkpoint:  log durable up to there
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
use crate::{Checkpoint, Error};

/// Where a node's checkpoints go, for whoever takes them beside the log.
#[derive(Clone, Debug)]
pub struct CheckpointPlace {
    files: Arc<Files>,
    block_bytes: usize,
}

impl CheckpointPlace {
    /// Begins a file. At most `bytes_per_second` will be written, 0 for no limit.
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
    /// Where its checkpoints go.
    #[must_use]
    pub fn checkpoint_place(&self) -> CheckpointPlace {
        CheckpointPlace {
            files: Arc::new(self.files()),
            block_bytes: self.settings.checkpoint_block_bytes,
        }
    }

    /// The snapshot that shows all before `end`, where a frame ends that is committed.
    #[must_use]
    pub fn snapshot_before(&self, end: Lsn) -> Timestamp {
        let last = Lsn(end.0.saturating_sub(Lsn::ALIGNMENT));
        Timestamp::new(self.term_before(end), last)
    }

    /// Puts a checkpoint in force whose file is whole. Everything before its end is
    /// committed. Then removes what nobody needs any more: older checkpoints, and log but
    /// for the last `keep` bytes, or as many as the settings say.
    ///
    /// After an error the checkpoint before is in force, with all its log. That something
    /// could not be removed is none, and only logged.
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
        // A start finds the log only from here on, and must find it.
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
        Ok(checkpoint)
    }

    /// From where on log is in the directory: a checkpoint stands for what is before.
    #[must_use]
    pub fn retained(&self) -> Lsn {
        let oldest = self.retention.oldest().unwrap_or(self.begin);
        oldest.min(self.begin).max(self.base())
    }
}
