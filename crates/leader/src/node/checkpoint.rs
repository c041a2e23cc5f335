//! Checkpoints that a node takes while it follows, so that its log does not grow until it
//! leads, and a start does not read all of it.
//!
//! ```text
//!   disk     enough log behind the last one: asks replay for one
//!   replay   between two steps, at P, before which everything is committed and replayed:
//!            a view of what is visible, and from where on the log is needed
//!   walk     a thread of its own writes what the view shows, at a limited rate, while
//!            replay goes on; seals the file
//!   disk     puts it in force, removes log
//! ```
//!
//! The walk ends with its replay: before the tables are led, dropped, or filled anew, replay
//! has told it to stop and waited. What comes of it counts only if the log still follows and
//! nothing newer stands for it; otherwise the file is removed.
//!
//! Behind the checkpoint as much log stays as a leader keeps for followers
//! ([`Settings::follower_log_bytes`](super::Settings)): whoever leads next can send that. And
//! from the first chunk on of a large transaction that may still commit; of one that was
//! rolled back nobody hears, so its chunks stay until the term ends.
//!
//! Invariants: at most one is under way; none covers what is not committed, for a view shows
//! nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_env::{Instant, JoinHandle};
use coeval_log::{CheckpointPlace, CheckpointStart, CheckpointWriter, Error, SealedCheckpoint};
use coeval_occ::FollowedView;
use coeval_types::{Lsn, Rid};
use tokio::sync::mpsc;

use super::disk::Command;

/// Records of a step: what is to be taken back waits for it.
const STEP_RECORDS: usize = 16;
const RETRY_FIRST: Duration = Duration::from_secs(5);
const RETRY_LAST: Duration = Duration::from_secs(300);

/// What a walk has come to.
pub(super) type Outcome = Result<SealedCheckpoint, Error>;

/// One to be taken.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Which: what comes of others is not wanted any more.
    pub(super) number: u64,
    pub(super) place: CheckpointPlace,
    /// 0 for no limit.
    pub(super) bytes_per_second: u64,
    /// Where to say what came of it. It does not keep the disk's thread alive.
    pub(super) tell: mpsc::WeakUnboundedSender<Command>,
}

impl Wanted {
    /// Says what came of it.
    pub(super) fn say(&self, outcome: Outcome) {
        match self.tell.upgrade() {
            // If nobody takes it the node has ended, and a start removes the file.
            Some(tell) => drop(tell.send(Command::Checkpoint(self.number, outcome))),
            None => tracing::debug!("a checkpoint is not wanted any more"),
        }
    }
}

/// When they are taken.
#[derive(Debug)]
pub(super) struct Schedule {
    /// As soon as there is so much log behind the last one; 0 for never.
    log_bytes: u64,
    bytes_per_second: u64,
    tell: mpsc::WeakUnboundedSender<Command>,
    numbers: u64,
    under_way: Option<u64>,
    /// When one may be tried again that failed, and how long was waited.
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

    /// The one to begin now, if one is due: the last stands for everything before `begin`,
    /// and everything before `committed` is.
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

    /// That one has ended. Whether it is the one that is wanted.
    pub(super) fn ended(&mut self, number: u64) -> bool {
        let is_wanted = self.under_way == Some(number);
        if is_wanted {
            self.under_way = None;
        }
        is_wanted
    }

    /// What is under way is not wanted any more: the tables are others.
    pub(super) fn forget(&mut self) {
        self.under_way = None;
    }

    pub(super) fn succeeded(&mut self) {
        self.retry = None;
    }

    /// It is tried again later.
    pub(super) fn failed(&mut self, error: &Error) {
        let pause = self
            .retry
            .map_or(RETRY_FIRST, |(_, pause)| (pause * 2).min(RETRY_LAST));
        tracing::error!(%error, "a checkpoint failed; the log stays, and what stood before it");
        self.retry = Some((coeval_env::now() + pause, pause));
    }
}

/// A walk under way.
#[derive(Debug)]
pub(super) struct Walk {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Walk {
    /// Begins to write what `view` shows, which is everything before the checkpoint's place.
    pub(super) fn begin(wanted: Wanted, start: CheckpointStart, view: FollowedView) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = coeval_env::spawn_dedicated("follower checkpoint", move || async move {
            let outcome = write(&wanted, start, view, &stopped).await;
            wanted.say(outcome);
        });
        Self { stop, task }
    }

    /// Gives it up soon, and waits.
    pub(super) async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        // What it says is of no interest any more.
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
    // What it has kept may go while the file is synced.
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
            // The executor of the thread has nothing else to do, and in simulation this lets
            // others in.
            coeval_env::yield_now().await;
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped("the tables are needed".into()));
            }
        }
    }
    Ok(())
}
