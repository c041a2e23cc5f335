//! The disk's thread: carries out the log's writes in order, one sync each, and checkpoints.
//!
//! The step function goes on meanwhile; it is told by number what is durable.
//!
//! # A full disk
//!
//! A write for which there is no room is tried again, first in the space of the [`Reserve`], and then
//! until there is room: nothing that was taken is lost, and what comes after it waits. The driver
//! is told, and has back ends take no more until the reserve is whole again. A checkpoint for which
//! there is no room fails alone.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::driver::Input;
use super::reserve::Reserve;
use crate::back_end::LogWrite;
use crate::log::{Checkpoint, LogError, LogFiles, Recovered};

/// How often a write, or the reserve, is tried again while the disk is full.
const RETRY: Duration = Duration::from_millis(200);

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
    reserve: Reserve,
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
                        let disk = Disk {
                            directory,
                            files,
                            reserve,
                            is_full: false,
                            orders: received,
                            news,
                        };
                        disk.serve().await;
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

struct Disk {
    directory: PathBuf,
    files: LogFiles,
    reserve: Reserve,
    is_full: bool,
    orders: mpsc::UnboundedReceiver<Order>,
    news: mpsc::UnboundedSender<Input>,
}

impl Disk {
    /// Runs until the orders end, or the disk fails.
    async fn serve(mut self) {
        let mut reopened = 0;
        let mut next_look = coeval_env::now();
        loop {
            let order = if self.reserve.is_whole() {
                self.orders.recv().await
            } else {
                // However many orders there are.
                if coeval_env::now() >= next_look {
                    self.look_for_room().await;
                    next_look = coeval_env::now() + RETRY;
                }
                match coeval_env::timeout(RETRY, self.orders.recv()).await {
                    Ok(order) => order,
                    Err(coeval_env::Elapsed) => continue,
                }
            };
            let Some(order) = order else {
                return;
            };
            let done = match order {
                Order::Write(write) => match self.write(&write).await {
                    Ok(true) => Ok(Input::Persisted(reopened, write.number)),
                    Ok(false) => return,
                    Err(error) => Err(error),
                },
                Order::Checkpoint(checkpoint) => {
                    let epoch = checkpoint.epoch;
                    match self.files.checkpoint(&checkpoint).await {
                        Ok(()) => Ok(Input::Checkpointed(epoch)),
                        Err(error) if error.is_full() => Ok(Input::CheckpointFailed(error)),
                        Err(error) => Err(error),
                    }
                }
                Order::Reopen(answer) => {
                    let opened = LogFiles::open(&self.directory).await;
                    let recovered = opened.map(|(opened, recovered)| {
                        self.files = opened;
                        reopened += 1;
                        recovered
                    });
                    // The driver may have gone.
                    let _ = answer.send(recovered);
                    continue;
                }
            };
            let failed = done.is_err();
            self.say(done.unwrap_or_else(Input::DiskFailed));
            if failed {
                return;
            }
        }
    }

    fn say(&self, news: Input) {
        // The driver may have gone.
        let _ = self.news.send(news);
    }

    /// Writes, however long it takes to have room; false when the driver has gone meanwhile.
    async fn write(&mut self, write: &LogWrite) -> Result<bool, LogError> {
        loop {
            match self.files.append(write).await {
                Ok(()) => return Ok(true),
                Err(error) if !error.is_full() => return Err(error),
                Err(error) => {
                    if !self.is_full {
                        tracing::error!(%error, "the disk is full: writes are refused");
                        self.is_full = true;
                        self.say(Input::DiskFull(true));
                    }
                }
            }
            if !self.reserve.give_up().await {
                coeval_env::sleep(RETRY).await;
            }
            if self.orders.is_closed() {
                return Ok(false);
            }
        }
    }

    /// Makes the reserve whole if there is room for it; the disk is then full no more.
    async fn look_for_room(&mut self) {
        let has_room = self.reserve.make().await;
        if has_room && std::mem::take(&mut self.is_full) {
            tracing::warn!("the disk has room again: writes are taken");
            self.say(Input::DiskFull(false));
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
            let reserve = Reserve::new(directory.path(), 0);
            let started = start(directory.path().to_owned(), reserve, news).await;
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
