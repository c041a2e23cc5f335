//! Checkpoint progress: the status that the checkpoint thread publishes for other
//! threads.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_log::{Checkpoint, Error};
use tokio::sync::watch;

/// The state of checkpointing in an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// The checkpoint in force, from which a start would recover.
    pub last: Option<Checkpoint>,
    /// How long the last checkpoint of this process took.
    pub last_took: Option<Duration>,
    /// Rows written so far by the checkpoint under way.
    pub running: Option<u64>,
    /// Number of checkpoints this process has taken.
    pub taken: u64,
    /// Number of checkpoints that failed in this process.
    pub failed: u64,
    /// Why the last attempt failed, unless a later one succeeded.
    pub failure: Option<String>,
    /// Bytes of log that recovery would replay if the process started now.
    pub log_bytes: u64,
}

/// The status and the stop signal that the engine and the checkpoint thread share.
#[derive(Debug, Default)]
pub(crate) struct CheckpointProgress {
    status: Mutex<CheckpointStatus>,
    /// Set to abandon the checkpoint under way, and those requested meanwhile.
    stop: watch::Sender<bool>,
}

impl CheckpointProgress {
    pub(crate) fn status(&self) -> MutexGuard<'_, CheckpointStatus> {
        self.status.lock().expect("no panic under this lock")
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the engine has called for a stop.
    pub(crate) async fn stopped(&self) {
        let stopped = self.stop.subscribe().wait_for(|stop| *stop).await.is_ok();
        assert!(stopped, "the sender is a field of self");
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if *self.stop.borrow() {
            return Err(Error::Stopped("it is being closed".into()));
        }
        Ok(())
    }
}
