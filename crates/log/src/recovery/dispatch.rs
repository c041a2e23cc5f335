//! Parallel replay: distributes entries to worker threads by record, so that each record's
//! entries are replayed in order by one worker.
//!
//! The thread that reads the log decodes only the record and length of each entry, and
//! hands the positions of a block's entries to the workers, which decode and apply them. A
//! worker decodes a group of entries and applies them together.
//!
//! If no worker is busy, the reading thread itself applies a block of few entries: waking
//! a worker takes longer than that. So a follower that replays commit by commit wakes no
//! worker.

use std::sync::{Arc, Mutex};

use coeval_env::JoinHandle;
use coeval_types::{Rid, StorageId, Timestamp};
use tokio::sync::{mpsc, oneshot};

use crate::Error;
use crate::entry::{Item, take_item};
use crate::recovery::Replay;

/// Batches that may be queued for a worker: enough to keep it busy, few enough to bound
/// the memory of blocks that were read ahead.
const QUEUE: usize = 4;

/// Entries that are applied together: enough for their cache misses to overlap, few enough
/// for the first prefetched lines to be still in the cache.
const GROUP: usize = 32;

/// Adjacent records that go to the same worker. Commits often change adjacent records, and
/// adjacent memory is fetched together.
const NEIGHBOURS: u64 = 8;

/// Most entries of a block that the reading thread may apply itself.
const FEW: usize = 4 * GROUP;

/// An entry's commit timestamp, and its position in the block.
type EntryPosition = (Timestamp, usize);

/// Entries within one block of the log.
struct Batch {
    block: Arc<Vec<u8>>,
    places: Vec<EntryPosition>,
    /// Notified when the batch has been applied.
    applied: Option<oneshot::Sender<()>>,
}

struct Worker {
    /// The worker's queue and thread; `None` if its entries are applied on the caller's
    /// thread.
    running: Option<(mpsc::Sender<Batch>, JoinHandle<()>)>,
    group_commit: Vec<EntryPosition>,
}

/// State that all workers share.
struct Shared {
    replay: Arc<dyn Replay>,
    /// The first error of any worker.
    failed: Mutex<Option<Error>>,
    /// Empty vectors of finished batches, for reuse.
    spare: Mutex<Vec<Vec<EntryPosition>>>,
}

pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    /// Whether a worker may hold entries that it has not applied yet.
    busy: bool,
}

impl Shared {
    fn apply(&self, block: &[u8], places: &[EntryPosition]) -> Result<(), Error> {
        let mut entries = Vec::with_capacity(GROUP);
        for group in places.chunks(GROUP) {
            entries.clear();
            for &(timestamp, at) in group {
                let Ok(Item::Entry(entry)) = take_item(&mut &block[at..]) else {
                    return Err(Error::Replay {
                        timestamp,
                        reason: "an entry is malformed".to_owned(),
                    });
                };
                entries.push((timestamp, entry));
            }
            self.replay.apply(&entries).map_err(|error| Error::Replay {
                timestamp: error.timestamp,
                reason: error.reason,
            })?;
        }
        Ok(())
    }

    async fn work(&self, mut batches: mpsc::Receiver<Batch>) {
        while let Some(batch) = batches.recv().await {
            let Batch {
                block,
                mut places,
                applied,
            } = batch;
            if let Err(error) = self.apply(&block, &places) {
                let mut failed = self.failed.lock().expect("no panic under this lock");
                failed.get_or_insert(error);
                return;
            }
            // Dropped before the vector is returned: the reading thread waits for blocks,
            // not for vectors.
            drop(block);
            if let Some(applied) = applied {
                // The waiting caller may have been dropped.
                let _ = applied.send(());
            }
            places.clear();
            let mut spare = self.spare.lock().expect("no panic under this lock");
            spare.push(places);
        }
    }

    fn spare(&self) -> Vec<EntryPosition> {
        let mut spare = self.spare.lock().expect("no panic under this lock");
        spare.pop().unwrap_or_default()
    }

    /// The error with which a worker has ended early.
    fn failure(&self) -> Error {
        self.failed
            .lock()
            .expect("no panic under this lock")
            .take()
            .unwrap_or_else(|| Error::Stopped("replay: a thread has panicked".into()))
    }
}

impl Dispatcher {
    pub(crate) fn new(replay: Arc<dyn Replay>, threads: usize) -> Self {
        let shared = Arc::new(Shared {
            replay,
            failed: Mutex::new(None),
            spare: Mutex::new(Vec::new()),
        });
        let workers = (0..threads)
            .map(|_| Worker {
                running: (threads > 1).then(|| {
                    let (sender, batches) = mpsc::channel(QUEUE);
                    let shared = Arc::clone(&shared);
                    let work = move || async move { shared.work(batches).await };
                    (sender, coeval_env::spawn_dedicated("log-replay", work))
                }),
                group_commit: Vec::new(),
            })
            .collect();
        Self {
            shared,
            workers,
            busy: false,
        }
    }

    /// Assigns an entry of the present block, given by its position, to a worker.
    #[inline]
    pub(crate) fn entry(&mut self, timestamp: Timestamp, record: (StorageId, Rid), at: usize) {
        let worker = worker_of(record, self.workers.len());
        self.workers[worker].group_commit.push((timestamp, at));
    }

    /// Sends the entries assigned since the last block, all of this block, to their
    /// workers.
    pub(crate) async fn block_done(&mut self, block: &Arc<Vec<u8>>) -> Result<(), Error> {
        let named: usize = (self.workers.iter())
            .map(|worker| worker.group_commit.len())
            .sum();
        let alone = !self.busy && named <= FEW;
        for worker in &mut self.workers {
            if worker.group_commit.is_empty() {
                continue;
            }
            let Some((sender, _)) = worker.running.as_ref().filter(|_| !alone) else {
                self.shared.apply(block, &worker.group_commit)?;
                worker.group_commit.clear();
                continue;
            };
            self.busy = true;
            let batch = Batch {
                block: Arc::clone(block),
                places: std::mem::replace(&mut worker.group_commit, self.shared.spare()),
                applied: None,
            };
            if sender.send(batch).await.is_err() {
                // A worker ends early only when it has failed; `finish` returns the error.
                return Err(self.shared.failure());
            }
        }
        Ok(())
    }

    /// Waits until everything that was sent has been replayed.
    pub(crate) async fn settle(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.busy) {
            return Ok(());
        }
        let mut waiting = Vec::new();
        for worker in &self.workers {
            let Some((sender, _)) = &worker.running else {
                continue;
            };
            let (applied, is_applied) = oneshot::channel();
            let batch = Batch {
                block: Arc::default(),
                places: Vec::new(),
                applied: Some(applied),
            };
            if sender.send(batch).await.is_err() {
                return Err(self.shared.failure());
            }
            waiting.push(is_applied);
        }
        for is_applied in waiting {
            if is_applied.await.is_err() {
                return Err(self.shared.failure());
            }
        }
        Ok(())
    }

    /// Waits until everything has been replayed, and ends the workers.
    pub(crate) async fn finish(self) -> Result<(), Error> {
        for worker in self.workers {
            let Some((sender, task)) = worker.running else {
                continue;
            };
            drop(sender);
            if let Err(error) = task.await {
                return Err(Error::Stopped(format!("replay: {error}").into()));
            }
        }
        let mut failed = self.shared.failed.lock().expect("no panic under this lock");
        failed.take().map_or(Ok(()), Err)
    }
}

/// Index of the worker that replays this record.
#[inline]
fn worker_of((storage, rid): (StorageId, Rid), workers: usize) -> usize {
    let neighbours = rid.0 / NEIGHBOURS;
    let mixed = (neighbours ^ u64::from(storage.0) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
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
