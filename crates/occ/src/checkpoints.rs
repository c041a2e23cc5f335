//! How checkpoints are going, as the thread that takes them leaves it for others to read.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_log::{Checkpoint, Error};
use tokio::sync::watch;

/// How checkpoints are going.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// The one in force.
    pub last: Option<Checkpoint>,
    /// How long the last one that was taken in this process took.
    pub last_took: Option<Duration>,
    /// Rows written so far by the one under way.
    pub running: Option<u64>,
    /// How many were taken by this process.
    pub taken: u64,
    /// How many failed in this process.
    pub failed: u64,
    /// Why the last one failed, unless one has been taken since.
    pub failure: Option<String>,
    /// Bytes of log that a start would replay now.
    pub log_bytes: u64,
}

/// What the engine and the thread share.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    status: Mutex<CheckpointStatus>,
    /// The one under way is to be given up, and so are those that were asked for meanwhile.
    stop: watch::Sender<bool>,
}

impl Progress {
    pub(crate) fn status(&self) -> MutexGuard<'_, CheckpointStatus> {
        self.status.lock().expect("no panic under this lock")
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until then.
    pub(crate) async fn stopped(&self) {
        let stopped = self.stop.subscribe().wait_for(|stop| *stop).await.is_ok();
        assert!(stopped, "whoever says so is here");
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if *self.stop.borrow() {
            return Err(Error::Stopped("it is being closed".into()));
        }
        Ok(())
    }
}
