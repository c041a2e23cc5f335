//! Parallel loading of a checkpoint: several threads read its blocks in any order and
//! pass the records to the replay.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::CheckpointFile;
use crate::Error;
use crate::recovery::{RecoveryProgress, Replay};

/// How often progress is reported.
const PROGRESS: Duration = Duration::from_secs(2);

/// State that the loading threads share.
struct Shared {
    replay: Arc<dyn Replay>,
    /// Number of the first block that no thread has taken.
    next: AtomicUsize,
    records: AtomicU64,
    /// Set when all threads should stop, after an error.
    stop: AtomicBool,
    /// The first error of any thread.
    failed: Mutex<Option<Error>>,
}

impl Shared {
    /// Loads blocks until none is left.
    async fn load_blocks(&self, file: &CheckpointFile) -> Result<(), Error> {
        let mut buffer = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= file.blocks() {
                break;
            }
            let block = file.read(number, &mut buffer).await?;
            self.replay
                .restore(&block)
                .map_err(|reason| file.damaged(number, reason))?;
            let block = u64::from(block.len());
            let before = self.records.fetch_add(block, Ordering::Relaxed);
            self.replay.progress(RecoveryProgress::Checkpoint {
                records: before + block,
                of: file.summary().records,
            });
        }
        Ok(())
    }

    async fn work(&self, path: &Path) {
        let result = match CheckpointFile::open(path).await {
            Ok(file) => self.load_blocks(&file).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.stop.store(true, Ordering::Relaxed);
            let mut failed = self.failed.lock().expect("no panic under this lock");
            failed.get_or_insert(error);
        }
    }
}

/// Passes every record of the checkpoint to `replay`, on `threads` threads.
pub(crate) async fn load(
    file: &CheckpointFile,
    threads: usize,
    replay: Arc<dyn Replay>,
) -> Result<(), Error> {
    let shared = Arc::new(Shared {
        replay,
        next: AtomicUsize::new(0),
        records: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failed: Mutex::new(None),
    });
    if threads <= 1 {
        return shared.load_blocks(file).await;
    }
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let shared = Arc::clone(&shared);
            let path = file.path().to_owned();
            coeval_env::spawn_dedicated("checkpoint-load", move || async move {
                shared.work(&path).await;
            })
        })
        .collect();
    for mut worker in workers {
        let ended = loop {
            match coeval_env::timeout(PROGRESS, &mut worker).await {
                Ok(ended) => break ended,
                Err(coeval_env::Elapsed) => tracing::info!(
                    records = shared.records.load(Ordering::Relaxed),
                    of_records = file.summary().records,
                    "loading the checkpoint"
                ),
            }
        };
        if let Err(error) = ended {
            return Err(Error::Stopped(
                format!("loading a checkpoint: {error}").into(),
            ));
        }
    }
    let failed = shared
        .failed
        .lock()
        .expect("no panic under this lock")
        .take();
    failed.map_or(Ok(()), Err)
}
