//! The checkpointer: decides when a checkpoint is taken, and walks the tables at one
//! snapshot to write it. The file format, and why recovery loses nothing, are argued in
//! `coeval_log`'s `checkpoint`.
//!
//! ```text
//!   thread "checkpoint"
//!     every LOOK      is there log enough since the last one,    ── at a limited rate
//!                     or has the last one failed?
//!     on request      CHECKPOINT, a backup                       ── without a limit
//!     on a close      if all rows are few                        ── without a limit
//! ```
//!
//! # The walk
//!
//! The checkpointer registers a snapshot, as a transaction does, so every version that
//! the snapshot shows stays in memory until the walk is over. It then lists the tables,
//! after the snapshot: a table with a row that the snapshot shows was attached before
//! that row was committed, so it is in the list; and a table dropped during the walk is
//! kept alive by the list. The checkpointer walks each table in RID order, a few hundred
//! records in one pinned step, up to the RID that was next when the table was listed:
//! later RIDs belong to rows that the snapshot does not show.
//!
//! The walk takes no locks and reads no index. Writers that run during the walk leave old
//! versions behind, which costs memory until it ends: as many versions as rows are
//! changed in that time, at most two per row.
//!
//! # When it fails
//!
//! When the disk is full, or refuses a write or a sync, the previous checkpoint stays in
//! force, if there is one, with all of its log, so nothing is lost; the checkpointer
//! removes the files it has written. It logs and counts the failure, shows it in
//! [`CheckpointStatus`], and tries again, however short the log is: after
//! [`RETRY_FIRST`], then after twice as long, up to [`RETRY_LAST`]. The log grows
//! meanwhile.
//!
//! The garbage collector may end the checkpointer's snapshot like any other, when old
//! versions take too much memory. The rows read by then cannot be trusted, so the
//! checkpoint fails; the next attempt runs without a rate limit.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use coeval_env::{Instant, JoinHandle};
use coeval_log::{Checkpoint, CheckpointStart, CheckpointWriter, Error, SavedRecord};
use coeval_storage::Snapshot;
use coeval_txn::contract::Checkpointing;
use coeval_types::{Rid, Timestamp, TransactionId};
use tokio::sync::{mpsc, oneshot};

use crate::checkpoints::CheckpointStatus;
use crate::shared::Shared;
use crate::storage::Storage;

/// How often the checkpointer checks the length of the log.
const LOOK: Duration = Duration::from_millis(50);
const RETRY_FIRST: Duration = Duration::from_secs(5);
const RETRY_LAST: Duration = Duration::from_secs(300);

/// Error text for a checkpoint whose snapshot was ended.
const ENDED: &str = "the memory that old versions may take was used up while it was written";

type Answer = oneshot::Sender<Result<(), coeval_txn::Error>>;

/// The current checkpoint status of this engine.
pub(crate) fn status(shared: &Shared) -> CheckpointStatus {
    let mut status = shared.checkpoints.status().clone();
    status.last = shared.log.checkpoint();
    status.log_bytes = shared.log.bytes_to_replay();
    status
}

/// The engine's handle to the checkpoint thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    /// Request channel and thread; `None` once the engine is closed, or if it is in
    /// memory.
    running: Mutex<Option<(mpsc::UnboundedSender<Answer>, JoinHandle<()>)>>,
}

impl Checkpointer {
    /// Starts the checkpoint thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        let shared = Arc::downgrade(shared);
        let task = coeval_env::spawn_dedicated("checkpoint", move || run(shared, requests));
        Self {
            running: Mutex::new(Some((sender, task))),
        }
    }

    /// A handle without a thread, for an engine in memory, which has no directory.
    pub(crate) fn none() -> Self {
        Self {
            running: Mutex::new(None),
        }
    }

    /// Requests a checkpoint of everything committed by now.
    pub(crate) fn request(&self) -> Checkpointing {
        let (sender, answer) = oneshot::channel();
        let sent = match &*self.running.lock().expect("no panic under this lock") {
            Some((requests, _)) => requests.send(sender).is_ok(),
            None => false,
        };
        Box::pin(async move {
            if !sent {
                return Ok(());
            }
            let closed = || coeval_txn::Error::Stopped("it is being closed".to_owned());
            answer.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    /// Stops the thread, which abandons a checkpoint under way, and waits until it has
    /// ended.
    pub(crate) async fn end(&self, shared: &Shared) {
        let running = self
            .running
            .lock()
            .expect("no panic under this lock")
            .take();
        let Some((requests, task)) = running else {
            return;
        };
        shared.checkpoints.stop();
        drop(requests);
        if let Err(error) = task.await {
            tracing::warn!(%error, "the thread that takes checkpoints has failed");
        }
    }
}

/// The thread's main loop: takes checkpoints until the engine is closed or dropped.
async fn run(shared: Weak<Shared>, mut requests: mpsc::UnboundedReceiver<Answer>) {
    let mut retry = Retry::default();
    let mut ended = false;
    loop {
        let asked = coeval_env::timeout(LOOK, requests.recv()).await;
        let Some(engine) = shared.upgrade() else {
            return;
        };
        let mut answers = Vec::new();
        match asked {
            Ok(None) => return,
            Ok(Some(answer)) => answers.push(answer),
            Err(coeval_env::Elapsed) if is_due(&engine) && retry.is_due() => {}
            Err(coeval_env::Elapsed) => continue,
        }
        // All requests that have arrived by now are answered by the same checkpoint.
        while let Ok(answer) = requests.try_recv() {
            answers.push(answer);
        }
        let limited = answers.is_empty() && !ended;
        let hurry = || !limited || !requests.is_empty();
        let result = take(&engine, &hurry).await;
        match &result {
            Ok(()) => retry = Retry::default(),
            Err(_) => retry.failed(),
        }
        ended = result.as_ref().is_err_and(|failure| failure.ended);
        for answer in answers {
            // The requester may have gone.
            let _ = answer.send(result.clone().map_err(Failure::into_error));
        }
    }
}

/// Whether the log is long enough for a checkpoint, or a failed one is due again.
fn is_due(engine: &Shared) -> bool {
    let limit = engine.settings.checkpoint_log_bytes;
    let is_long = limit > 0 && engine.log.bytes_to_replay() >= limit;
    (is_long || engine.checkpoints.status().failure.is_some()) && engine.all_attached()
}

/// The earliest time for the next attempt after a failure, and the pause before it.
#[derive(Debug, Default)]
struct Retry(Option<(Instant, Duration)>);

impl Retry {
    fn is_due(&self) -> bool {
        self.0.is_none_or(|(at, _)| coeval_env::now() >= at)
    }

    fn failed(&mut self) {
        let pause = self
            .0
            .map_or(RETRY_FIRST, |(_, pause)| (pause * 2).min(RETRY_LAST));
        self.0 = Some((coeval_env::now() + pause, pause));
    }
}

/// Why a checkpoint failed; sent to every caller that requested it.
#[derive(Clone, Debug)]
struct Failure {
    reason: String,
    disk_full: bool,
    stopped: bool,
    ended: bool,
}

impl Failure {
    fn new(error: &Error) -> Self {
        Self {
            reason: format!("the checkpoint failed: {error}"),
            disk_full: error.is_disk_full(),
            stopped: matches!(error, Error::Stopped(_)),
            ended: matches!(error, Error::Setting(what) if what == ENDED),
        }
    }

    fn into_error(self) -> coeval_txn::Error {
        if self.stopped {
            coeval_txn::Error::Stopped(self.reason)
        } else if self.disk_full {
            coeval_txn::Error::DiskFull(self.reason)
        } else {
            coeval_txn::Error::Io(self.reason)
        }
    }
}

/// Takes a checkpoint and records its outcome. `hurry` returns whether to ignore the rate
/// limit.
async fn take(engine: &Shared, hurry: &dyn Fn() -> bool) -> Result<(), Failure> {
    let began = coeval_env::now();
    engine.checkpoints.status().running = Some(0);
    let result = write(engine, hurry).await;
    let mut status = engine.checkpoints.status();
    status.running = None;
    match result {
        Ok(None) => {
            status.failure = None;
            Ok(())
        }
        Ok(Some(checkpoint)) => {
            let took = began.elapsed();
            status.taken += 1;
            status.failure = None;
            status.last_took = Some(took);
            tracing::info!(
                rows = checkpoint.records,
                bytes = checkpoint.bytes,
                milliseconds = took.as_millis() as u64,
                replay_from = checkpoint.start.replay_from().0,
                "took a checkpoint"
            );
            Ok(())
        }
        Err(error) => {
            let failure = Failure::new(&error);
            if !failure.stopped {
                status.failed += 1;
                status.failure = Some(error.to_string());
                tracing::error!(
                    %error,
                    "a checkpoint failed; the log stays, and with it the checkpoint before, if any"
                );
            }
            Err(failure)
        }
    }
}

/// Writes a checkpoint; `None` when nothing was committed since the last one.
async fn write(engine: &Shared, hurry: &dyn Fn() -> bool) -> Result<Option<Checkpoint>, Error> {
    if !engine.all_attached() {
        let reason = "not every table that came back is known yet";
        return Err(Error::Stopped(reason.into()));
    }
    let Some((start, snapshot)) = begin(engine) else {
        return Ok(None);
    };
    let last = engine.log.checkpoint();
    if last.is_some_and(|last| last.start.replay_from() == start.replay_from()) {
        return Ok(None);
    }
    let tables = tables(engine, snapshot.timestamp());
    let rate = if hurry() {
        0
    } else {
        engine.settings.checkpoint_bytes_per_second
    };
    // The log may be waiting for disk space, and so for this checkpoint to free some.
    let mut writer = tokio::select! {
        biased;
        writer = engine.log.write_checkpoint(start, rate) => writer?,
        () = engine.checkpoints.stopped() => {
            return Err(Error::Stopped("it is being closed".into()));
        }
    };
    match walk(engine, &snapshot, &tables, &mut writer, hurry).await {
        Ok(()) => {}
        Err(error) => {
            writer.abandon().await;
            return Err(error);
        }
    }
    // The versions that the walk kept may be collected while the file is synced.
    drop(snapshot);
    drop(tables);
    engine.log.finish_checkpoint(writer).await.map(Some)
}

/// The checkpoint's snapshot, and the log offset that it covers.
fn begin(engine: &Shared) -> Option<(CheckpointStart, Snapshot)> {
    let mut registered = None;
    let start = engine.log.start_checkpoint(|| {
        let snapshot = engine.snapshots.register(|| engine.log.installed());
        let timestamp = snapshot.timestamp();
        registered = Some(snapshot);
        timestamp
    });
    Some((start?, registered?))
}

/// Every table in which the snapshot may show a row, with the RID at which its walk ends.
fn tables(engine: &Shared, snapshot: Timestamp) -> Vec<(Arc<Storage>, Rid)> {
    let storages = engine.storages.read().expect("no panic while it was held");
    storages
        .values()
        .filter(|storage| !engine.is_dropped_before(storage.id, snapshot))
        .map(|storage| (Arc::clone(storage), storage.records.high_water()))
        .collect()
}

async fn walk(
    engine: &Shared,
    snapshot: &Snapshot,
    tables: &[(Arc<Storage>, Rid)],
    writer: &mut CheckpointWriter,
    hurry: &dyn Fn() -> bool,
) -> Result<(), Error> {
    for (storage, end) in tables {
        let mut next = Rid(0);
        while next < *end {
            next = step(engine, snapshot, storage, next..*end, writer);
            if writer.is_full(storage.id) {
                writer.write().await?;
                engine.checkpoints.status().running = Some(writer.records());
            } else {
                // The executor of this thread has no other task; in the simulator the
                // yield lets other tasks run.
                coeval_env::yield_now().await;
            }
            engine.checkpoints.check()?;
            // Checked after the reads: if a version was collected under the walk, the
            // snapshot is marked as ended by now.
            if snapshot.is_ended() {
                return Err(Error::Setting(ENDED.to_owned()));
            }
            if hurry() {
                writer.lift_limit();
            }
        }
    }
    Ok(())
}

/// Adds the rows of the next records that the snapshot shows, until a block is full.
/// Returns the RID at which the walk continues.
fn step(
    engine: &Shared,
    snapshot: &Snapshot,
    storage: &Storage,
    rids: std::ops::Range<Rid>,
    writer: &mut CheckpointWriter,
) -> Rid {
    let guard = engine.domain.pin();
    let most = rids.start.0 + engine.settings.checkpoint_records as u64;
    let end = rids.end.0.min(most);
    for rid in (rids.start.0..end).map(Rid) {
        if writer.is_full(storage.id) {
            return rid;
        }
        let Some(record) = storage.records.record(rid) else {
            continue;
        };
        let version = record.read(snapshot.timestamp(), TransactionId(0), &guard);
        if let Some(version) = version
            && let Some(row) = version.row()
        {
            let saved = SavedRecord {
                rid,
                timestamp: version.cts(),
                row,
            };
            writer.add(storage.id, &saved);
        }
    }
    Rid(end)
}
