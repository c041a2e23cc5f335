//! Replay of what is committed, on a thread of its own.

use coeval_env::JoinHandle;
use coeval_log::Replayer;
use coeval_types::Lsn;
use tokio::sync::{mpsc, watch};

use super::Error;
use super::disk::Done;

/// How far to go.
#[derive(Clone, Copy, Debug)]
struct Target {
    to: Lsn,
    /// Nothing follows.
    last: bool,
}

/// A replay that is under way.
#[derive(Debug)]
pub(super) struct Following {
    target: watch::Sender<Target>,
    task: JoinHandle<Result<(), Error>>,
}

impl Following {
    /// Goes on with a replayer. When it fails `done` hears of it.
    pub(super) fn start(replayer: Replayer, done: mpsc::UnboundedSender<Done>) -> Self {
        let (target, targets) = watch::channel(Target {
            to: replayer.position(),
            last: false,
        });
        let task = coeval_env::spawn_dedicated("node replay", move || run(replayer, targets, done));
        Self { target, task }
    }

    /// Everything before is committed, and written.
    pub(super) fn advance(&self, to: Lsn) {
        self.target.send_if_modified(|target| {
            let further = to > target.to && !target.last;
            if further {
                target.to = to;
            }
            further
        });
    }

    /// Goes to this place and ends there.
    pub(super) async fn finish(self, to: Lsn) -> Result<(), Error> {
        self.target.send_modify(|target| {
            *target = Target {
                to: to.max(target.to),
                last: true,
            };
        });
        self.task.await.map_err(|_| Error::Ended)?
    }

    /// Ends soon, wherever it is.
    pub(super) async fn abandon(self) {
        drop(self.target);
        // What it says is of no interest any more.
        let _ = self.task.await;
    }
}

async fn run(
    mut replayer: Replayer,
    mut targets: watch::Receiver<Target>,
    done: mpsc::UnboundedSender<Done>,
) -> Result<(), Error> {
    loop {
        let Target { to, last } = *targets.borrow_and_update();
        if to > replayer.position() {
            if let Err(error) = replayer.advance(to).await {
                // If nobody takes it the node has ended.
                let _ = done.send(Done::Failed(error.into()));
                return Err(Error::Ended);
            }
        } else if last || targets.changed().await.is_err() {
            return Ok(replayer.close().await?);
        }
    }
}
