//! The loader of the driver: fills the tables, with the parts of a workload in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coeval_env as env;

use super::{Options, Tick};
use crate::store::{Database, Failure};
use crate::workload::Workload;

/// Error message of a load that was stopped.
const INTERRUPTED: &str = "interrupted while the tables were being filled";

/// Creates and fills the tables, on the threads of the load.
pub(super) async fn load<W: Workload>(
    workload: &Arc<W>,
    database: &Database,
    options: &Options,
    progress: &mut (dyn FnMut(&Tick) + Send),
) -> Result<(), Failure> {
    database.create().await?;
    let parts = workload.parts();
    let next = Arc::new(AtomicU64::new(0));
    let ended = Arc::new(AtomicU64::new(0));
    let wanted = usize::try_from(parts)
        .unwrap_or(usize::MAX)
        .min(options.threads);
    let mut running = Vec::new();
    for _ in 0..wanted.max(1) {
        let workload = Arc::clone(workload);
        let database = database.clone();
        let (next, ended) = (Arc::clone(&next), Arc::clone(&ended));
        let stop = options.stop.clone();
        running.push(env::spawn_dedicated("load", move || async move {
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts || stop.is_stopped() {
                    return Ok(());
                }
                let mut loader = database.loader().await?;
                workload.load(part, &mut loader).await?;
                loader.finish().await?;
                ended.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    while !running.iter().all(env::JoinHandle::is_finished) {
        progress(&Tick {
            phase: "loading",
            in_time: false,
            done: ended.load(Ordering::Relaxed),
            of: parts,
            per_second: 0,
            completed: 0,
            written: 0,
        });
        env::sleep(Duration::from_millis(5)).await;
    }
    for thread in running {
        let loaded: Result<Result<(), Failure>, _> = thread.await;
        loaded.map_err(|error| Failure::Wrong(error.to_string()))??;
    }
    if ended.load(Ordering::Relaxed) < parts {
        return Err(Failure::Wrong(INTERRUPTED.to_owned()));
    }
    database.finish_load().await
}
