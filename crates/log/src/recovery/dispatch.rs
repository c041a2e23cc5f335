//! Replaying on several threads, each record's entries on one of them, in order.
//!
//! The thread that reads the log looks only at what says whose an entry is and how
//! long, and hands the places of a block's entries out; decoding and applying is
//! the workers'.

use std::sync::{Arc, Mutex};

use coeval_env::JoinHandle;
use coeval_types::{Rid, StorageId, Timestamp};
use tokio::sync::mpsc;

use crate::Error;
use crate::entry::{Item, take_item};
use crate::recovery::Replay;

/// Batches that may wait for a worker: enough to keep it busy, few enough that
/// reading does not run away with the memory.
const QUEUE: usize = 4;

/// Entries within one block of the log.
struct Batch {
    block: Arc<Vec<u8>>,
    /// Commit and place in the block.
    entries: Vec<(Timestamp, usize)>,
}

struct Worker {
    sender: mpsc::Sender<Batch>,
    gathering: Vec<(Timestamp, usize)>,
    task: JoinHandle<()>,
}

pub(crate) struct Dispatcher {
    replay: Arc<dyn Replay>,
    /// Empty when there is to be one thread only: then it is the caller's.
    workers: Vec<Worker>,
    /// The first error of any worker.
    failed: Arc<Mutex<Option<Error>>>,
}

fn apply(replay: &dyn Replay, timestamp: Timestamp, mut bytes: &[u8]) -> Result<(), Error> {
    let refuse = |reason: String| Error::Replay { timestamp, reason };
    match take_item(&mut bytes) {
        Ok(Item::Entry(entry)) => replay
            .apply(timestamp, entry)
            .map_err(|error| refuse(error.0)),
        Ok(Item::Chunk(_)) | Err(_) => Err(refuse("an entry is malformed".to_owned())),
    }
}

impl Dispatcher {
    pub(crate) fn new(replay: Arc<dyn Replay>, threads: usize) -> Self {
        let failed = Arc::new(Mutex::new(None));
        let workers = if threads > 1 { threads } else { 0 };
        let workers = (0..workers)
            .map(|_| {
                let (sender, mut batches) = mpsc::channel::<Batch>(QUEUE);
                let replay = Arc::clone(&replay);
                let failed = Arc::clone(&failed);
                let task = coeval_env::spawn_dedicated("log-replay", move || async move {
                    while let Some(batch) = batches.recv().await {
                        for &(timestamp, at) in &batch.entries {
                            if let Err(error) = apply(&*replay, timestamp, &batch.block[at..]) {
                                let mut failed = failed.lock().expect("no panic under this lock");
                                failed.get_or_insert(error);
                                return;
                            }
                        }
                    }
                });
                Worker {
                    sender,
                    gathering: Vec::new(),
                    task,
                }
            })
            .collect();
        Self {
            replay,
            workers,
            failed,
        }
    }

    /// Replays the entry at this place of `block`, now or when the block is done.
    #[inline]
    pub(crate) fn entry(
        &mut self,
        timestamp: Timestamp,
        record: (StorageId, Rid),
        block: &[u8],
        at: usize,
    ) -> Result<(), Error> {
        if self.workers.is_empty() {
            return apply(&*self.replay, timestamp, &block[at..]);
        }
        let worker = worker_of(record, self.workers.len());
        self.workers[worker].gathering.push((timestamp, at));
        Ok(())
    }

    /// Every entry of this block has been named: off they go.
    pub(crate) async fn block_done(&mut self, block: &Arc<Vec<u8>>) -> Result<(), Error> {
        for worker in &mut self.workers {
            if worker.gathering.is_empty() {
                continue;
            }
            let batch = Batch {
                block: Arc::clone(block),
                entries: std::mem::take(&mut worker.gathering),
            };
            if worker.sender.send(batch).await.is_err() {
                // A worker ends early only when it has failed; `finish` says why.
                return Err(self.failure());
            }
        }
        Ok(())
    }

    /// Waits until everything has been replayed.
    pub(crate) async fn finish(mut self) -> Result<(), Error> {
        for worker in std::mem::take(&mut self.workers) {
            drop(worker.sender);
            if let Err(error) = worker.task.await {
                return Err(Error::Stopped(format!("replay: {error}").into()));
            }
        }
        let failed = self.failed.lock().expect("no panic under this lock").take();
        failed.map_or(Ok(()), Err)
    }

    fn failure(&self) -> Error {
        self.failed
            .lock()
            .expect("no panic under this lock")
            .take()
            .unwrap_or_else(|| Error::Stopped("replay: a thread has panicked".into()))
    }
}

/// Which worker replays this record. Neighbouring records go to different ones.
#[inline]
fn worker_of((storage, rid): (StorageId, Rid), workers: usize) -> usize {
    let mixed = (rid.0 ^ u64::from(storage.0) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((u128::from(mixed) * workers as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_spread_over_the_workers() {
        let mut counts = [0; 7];
        for storage in 0..10 {
            for rid in 0..1000 {
                counts[worker_of((StorageId(storage), Rid(rid)), 7)] += 1;
            }
        }
        assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
    }
}
