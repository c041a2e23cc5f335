//! Follower checkpoints: bound the log of a node that follows, so that a restart does not
//! replay all of it.
//!
//! ```text
//!   disk     enough log since the last one: asks replay for one
//!   replay   between two steps, at P, before which everything is committed and replayed:
//!            a view of the visible rows, and the offset from which log is needed
//!   walk     a thread of its own writes the rows of the view, at a limited rate, while
//!            replay continues; seals the file
//!   disk     puts it in force, removes log
//! ```
//!
//! The walk ends with its replay: before the tables are led, dropped, or refilled, replay
//! has asked the walk to stop and waited for it. The disk thread uses the result only if
//! the log still follows and no newer checkpoint covers it; otherwise it removes the file.
//!
//! Before the checkpoint's end a follower retains as much log as a leader keeps for its
//! followers ([`Settings::follower_log_bytes`](super::Settings)), so that it can send that
//! log if it leads next. It also retains the log from the first chunk on of a large
//! transaction that may still commit. A follower does not learn that such a transaction was
//! rolled back, so its chunks stay until the term ends.
//!
//! Invariants: at most one checkpoint is under way; none covers uncommitted rows, for a
//! view shows none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_env::{Instant, JoinHandle};
use coeval_log::{CheckpointPlace, CheckpointStart, CheckpointWriter, Error, SealedCheckpoint};
use coeval_occ::FollowedView;
use coeval_types::{Lsn, Rid};
use tokio::sync::mpsc;

use super::disk::Command;

/// Records that a walk writes per step: a truncation waits for at most one step.
const STEP_RECORDS: usize = 16;
const RETRY_FIRST: Duration = Duration::from_secs(5);
const RETRY_LAST: Duration = Duration::from_secs(300);

/// Result of a checkpoint's walk.
pub(super) type Outcome = Result<SealedCheckpoint, Error>;

/// A checkpoint that replay is asked to take.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The checkpoint's number; the disk thread ignores results with other numbers.
    pub(super) number: u64,
    pub(super) place: CheckpointPlace,
    /// Rate limit in bytes per second; 0 for none.
    pub(super) bytes_per_second: u64,
    /// Where the walk reports its result. The sender does not keep the disk thread alive.
    pub(super) tell: mpsc::WeakUnboundedSender<Command>,
}

impl Wanted {
    /// Reports the walk's result.
    pub(super) fn say(&self, outcome: Outcome) {
        match self.tell.upgrade() {
            // If the disk thread is gone the node has ended, and the next start removes the
            // file.
            Some(tell) => drop(tell.send(Command::Checkpoint(self.number, outcome))),
            None => tracing::debug!("a checkpoint is not wanted any more"),
        }
    }
}

/// Decides when checkpoints are taken.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Bytes of log after the last checkpoint at which the next is due; 0 for never.
    log_bytes: u64,
    bytes_per_second: u64,
    tell: mpsc::WeakUnboundedSender<Command>,
    numbers: u64,
    under_way: Option<u64>,
    /// When to retry after a failure, and how long the last pause was.
    retry: Option<(Instant, Duration)>,
}

impl Schedule {
    pub(super) fn new(
        settings: &coeval_occ::Settings,
        tell: mpsc::WeakUnboundedSender<Command>,
    ) -> Self {
        Self {
            log_bytes: settings.checkpoint_log_bytes,
            bytes_per_second: settings.checkpoint_bytes_per_second,
            tell,
            numbers: 0,
            under_way: None,
            retry: None,
        }
    }

    /// The checkpoint to begin now, if one is due: the last one covers everything before
    /// `begin`, and everything before `committed` is committed.
    pub(super) fn next(
        &mut self,
        begin: Lsn,
        committed: Lsn,
        place: impl FnOnce() -> CheckpointPlace,
    ) -> Option<Wanted> {
        let is_long = committed.0.saturating_sub(begin.0) >= self.log_bytes;
        let waits = self.retry.is_some_and(|(at, _)| coeval_env::now() < at);
        if self.log_bytes == 0 || !is_long || waits || self.under_way.is_some() {
            return None;
        }
        self.numbers += 1;
        self.under_way = Some(self.numbers);
        Some(Wanted {
            number: self.numbers,
            place: place(),
            bytes_per_second: self.bytes_per_second,
            tell: self.tell.clone(),
        })
    }

    /// A checkpoint has ended. Returns whether it is the one under way.
    pub(super) fn ended(&mut self, number: u64) -> bool {
        let is_wanted = self.under_way == Some(number);
        if is_wanted {
            self.under_way = None;
        }
        is_wanted
    }

    /// Forgets the checkpoint under way: the tables have been replaced.
    pub(super) fn forget(&mut self) {
        self.under_way = None;
    }

    pub(super) fn succeeded(&mut self) {
        self.retry = None;
    }

    /// Schedules a retry.
    pub(super) fn failed(&mut self, error: &Error) {
        let pause = self
            .retry
            .map_or(RETRY_FIRST, |(_, pause)| (pause * 2).min(RETRY_LAST));
        tracing::error!(%error, "a checkpoint failed; the log stays, and what stood before it");
        self.retry = Some((coeval_env::now() + pause, pause));
    }
}

/// Handle of the task that writes a checkpoint's rows.
#[derive(Debug)]
pub(super) struct Walk {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Walk {
    /// Begins to write the rows of `view`, which holds everything before the checkpoint's
    /// end.
    pub(super) fn begin(wanted: Wanted, start: CheckpointStart, view: FollowedView) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = coeval_env::spawn_dedicated("follower checkpoint", move || async move {
            let outcome = write(&wanted, start, view, &stopped).await;
            wanted.say(outcome);
        });
        Self { stop, task }
    }

    /// Stops the walk, and waits until it has ended.
    pub(super) async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its result is not needed any more.
        let _ = self.task.await;
    }
}

async fn write(
    wanted: &Wanted,
    start: CheckpointStart,
    view: FollowedView,
    stop: &AtomicBool,
) -> Outcome {
    let mut writer = wanted.place.write(start, wanted.bytes_per_second).await?;
    match walk(&view, &mut writer, stop).await {
        Ok(()) => {}
        Err(error) => {
            writer.abandon().await;
            return Err(error);
        }
    }
    // The versions that the view has pinned may be collected while the file is synced.
    drop(view);
    writer.seal().await
}

async fn walk(
    view: &FollowedView,
    writer: &mut CheckpointWriter,
    stop: &AtomicBool,
) -> Result<(), Error> {
    for storage in view.storages() {
        let mut next = Some(Rid(0));
        while let Some(from) = next {
            if writer.is_full(storage) {
                writer.write().await?;
            }
            next = view.rows(storage, from, STEP_RECORDS, &mut |saved| {
                writer.add(storage, &saved);
            });
            // The thread's executor has nothing else to do; in simulation this lets other
            // tasks run.
            coeval_env::yield_now().await;
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped("the tables are needed".into()));
            }
        }
    }
    Ok(())
}
