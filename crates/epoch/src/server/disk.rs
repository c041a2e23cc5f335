//! The disk's thread: carries out the log's writes in order, one sync each, and checkpoints.
//!
//! The step function goes on meanwhile; it is told by number what is durable.

use std::path::PathBuf;

use tokio::sync::{mpsc, oneshot};

use super::driver::Input;
use crate::back_end::LogWrite;
use crate::log::{Checkpoint, LogError, LogFiles, Recovered};

/// What the disk's thread is asked for.
#[derive(Debug)]
pub(super) enum Order {
    Write(LogWrite),
    Checkpoint(Checkpoint),
    /// Once everything before is done: read the log again, for a new incarnation.
    Reopen(oneshot::Sender<Result<Recovered, LogError>>),
}

/// Starts the thread, and returns what the directory holds.
pub(super) async fn start(
    directory: PathBuf,
    news: mpsc::UnboundedSender<Input>,
) -> Result<(mpsc::UnboundedSender<Order>, Recovered), LogError> {
    let (orders, received) = mpsc::unbounded_channel();
    let (opened, opening) = oneshot::channel();
    drop(coeval_env::spawn_dedicated(
        "epoch log",
        move || async move {
            match LogFiles::open(&directory).await {
                Ok((files, recovered)) => {
                    if opened.send(Ok(recovered)).is_ok() {
                        serve(directory, files, received, news).await;
                    }
                }
                // The caller may have gone.
                Err(error) => drop(opened.send(Err(error))),
            }
        },
    ));
    let recovered = opening.await.unwrap_or(Err(LogError::Ended))?;
    Ok((orders, recovered))
}

/// Runs until the orders end, or the disk fails.
async fn serve(
    directory: PathBuf,
    mut files: LogFiles,
    mut orders: mpsc::UnboundedReceiver<Order>,
    news: mpsc::UnboundedSender<Input>,
) {
    let mut reopened = 0;
    while let Some(order) = orders.recv().await {
        let done = match order {
            Order::Write(write) => {
                let written = files.append(&write).await;
                written.map(|()| Input::Persisted(reopened, write.number))
            }
            Order::Checkpoint(checkpoint) => {
                let epoch = checkpoint.epoch;
                let kept = files.checkpoint(&checkpoint).await;
                kept.map(|()| Input::Checkpointed(epoch))
            }
            Order::Reopen(answer) => {
                let opened = LogFiles::open(&directory).await;
                let recovered = opened.map(|(opened, recovered)| {
                    files = opened;
                    reopened += 1;
                    recovered
                });
                // The driver may have gone.
                let _ = answer.send(recovered);
                continue;
            }
        };
        let failed = done.is_err();
        // The driver may have gone.
        let _ = news.send(done.unwrap_or_else(Input::DiskFailed));
        if failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Batch;
    use crate::timestamp::Epoch;

    /// Numbers of writes begin anew with each incarnation: the report of an earlier one's write,
    /// which the driver may find only after it has begun anew, says so.
    #[test]
    fn a_write_is_reported_under_its_incarnation() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let (news, mut reported) = mpsc::unbounded_channel();
            let started = start(directory.path().to_owned(), news).await;
            let (orders, _) = started.unwrap();
            let write = |epoch| {
                let mut batch = Batch::new(1);
                batch.close(Epoch(epoch), Epoch(epoch - 1), Epoch(epoch - 1));
                Order::Write(LogWrite {
                    number: 1,
                    file: Epoch(epoch),
                    bytes: batch.finish(),
                })
            };
            orders.send(write(1)).unwrap();
            let (answer, reopening) = oneshot::channel();
            orders.send(Order::Reopen(answer)).unwrap();
            orders.send(write(2)).unwrap();
            assert_eq!(reopening.await.unwrap().unwrap().sealed, Epoch(1));
            for incarnation in 0..2 {
                let Some(Input::Persisted(begun_anew, number)) = reported.recv().await else {
                    panic!("a write is reported");
                };
                assert_eq!((begun_anew, number), (incarnation, 1));
            }
        });
    }
}
