//! The flusher: the thread that does group commit, writing the installed prefix of the
//! ring to the segments and syncing it.
//!
//! It writes everything that is in the ring without a gap, syncs, publishes the new
//! durable end, and checks again. While a sync is under way the next group forms, so
//! groups grow with the load; with nothing to write it waits for a notification. Before a
//! sync it waits for transactions that are about to commit, if that increases throughput
//! (`group_commit`).
//!
//! A failed write or sync stops the log for good. After a failed sync the kernel may have
//! dropped the pages it could not write, and a second sync that succeeds would prove
//! nothing about them.
//!
//! A second thread creates segments ahead of their use.
//!
//! # When the disk is full
//!
//! The second thread notices it first, as it creates a segment one whole segment ahead of
//! where the flusher writes. From then on the log refuses new commits, each with the
//! reason; commits that have reserved their space already have disk space too, as long as
//! the ring is no larger than a segment, and become durable. Reads continue. The thread
//! tries the segment again every [`RETRY`], and once it has created it, the log accepts
//! commits again. A disk that is full while the log is opened or closed makes that call
//! fail instead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_memory::ring::{AppendRing, Reader};
use coeval_types::Lsn;
use coeval_types::planted;
use tokio::sync::mpsc;

use crate::Error;
use crate::control::{Control, DataDirectory};
use crate::frame::Seed;
use crate::group_commit::{GroupCommit, LONGEST_WAIT};
use crate::recovery::Recovered;
use crate::replica::Leading;
use crate::segment::{Name, Segment, SegmentKind};
use crate::shared::Shared;
use crate::{RecoverySummary, Settings};

/// How often the creation of a segment is tried again while the disk is full.
const RETRY: Duration = Duration::from_millis(500);

pub(crate) struct Flusher {
    pub(crate) shared: Arc<Shared>,
    reader: Reader,
    directory: DataDirectory,
    control: Control,
    /// The segment that is being written.
    current: Segment,
    supply: Supply,
    group_commit: GroupCommit,
}

enum End {
    /// The log is closed: everything is durable and no commit follows.
    Closed,
    /// The log was dropped: the flusher ends without writing anything more, as after a
    /// crash.
    Abandoned,
}

/// Stops the log if the flusher panics, so that no waiter waits for ever.
struct StopOnPanic(Arc<Shared>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("the thread that writes has panicked", true);
        }
    }
}

impl Flusher {
    /// Makes the flusher of a recovered log, which leads a cluster if `leading` is given,
    /// and returns it with the recovery summary.
    pub(crate) fn new(
        recovered: Recovered,
        settings: &Settings,
        leading: Option<Box<Leading>>,
    ) -> (Self, RecoverySummary) {
        let Recovered {
            directory,
            control,
            kind,
            current,
            spares,
            summary,
        } = recovered;
        let ring = AppendRing::new(settings.ring_bytes, summary.end.0);
        let seed = Seed::of_database(control.database);
        let shared = Shared::with_file(ring, control.term, seed, leading);
        let reader = shared.ring.reader().expect("taken once");
        let end = spares.back().map_or(current.end, |last| last.end);
        let flusher = Self {
            supply: Supply::start(Arc::clone(&shared), kind, spares, end),
            shared,
            reader,
            directory,
            control,
            current,
            group_commit: GroupCommit::default(),
        };
        (flusher, summary)
    }

    /// Runs until the log is closed, abandoned or stopped.
    pub(crate) async fn run(mut self) {
        let _stop_on_panic = StopOnPanic(Arc::clone(&self.shared));
        let ended = self.serve().await;
        let closed = matches!(ended, Ok(End::Closed));
        let result = match ended {
            Ok(End::Closed) => {
                self.supply.end().await;
                let end = Lsn(self.reader.released());
                self.control.clean_end = Some(end);
                let leading = self.shared.leading.as_ref();
                self.control.versioned |= leading.is_some_and(|leading| leading.is_versioned());
                if let Some(member) = &mut self.control.member {
                    member.commit = member.commit.max(self.shared.durable_end().min(end));
                }
                self.directory.write_control(&self.control).await
            }
            Ok(End::Abandoned) => {
                self.supply.end().await;
                Ok(())
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => {
                let Self {
                    shared,
                    directory,
                    control,
                    ..
                } = self;
                if let Some(leading) = shared.leading.as_ref().filter(|_| closed) {
                    leading.retire(directory, control);
                }
                shared.stop("it was closed", false);
            }
            Err(error) => {
                self.shared.stop(&error.to_string(), true);
                self.supply.end().await;
            }
        }
    }

    async fn serve(&mut self) -> Result<End, Error> {
        loop {
            if self.shared.abandoned.load(Ordering::Acquire) {
                return Ok(End::Abandoned);
            }
            if self.shared.ring.completed() > self.reader.released() {
                let end = self.gather().await;
                if !self.shared.abandoned.load(Ordering::Acquire) {
                    self.flush(end).await?;
                }
            } else if self.shared.closing.load(Ordering::Acquire) && self.shared.ring.is_quiet() {
                return Ok(End::Closed);
            } else {
                self.shared.flusher.notified().await;
            }
        }
    }

    /// Decides where the next group ends, after waiting for more commits if that pays
    /// off.
    async fn gather(&mut self) -> u64 {
        let Shared {
            ring,
            writers,
            counters,
            ..
        } = &*self.shared;
        let now = coeval_env::now();
        let commits = counters.commits();
        let gathered = counters.gathered(commits);
        let more = (self.group_commit).worth_waiting_for(now, commits, gathered, writers.count());
        // A commit that needs space in the ring is not made to wait for a group.
        let is_roomy = ring.completed() - self.reader.released() < ring.capacity() / 4
            && !self.shared.space.is_awaited();
        if more > 0 && is_roomy && !self.shared.is_closing() {
            let meanwhile = || counters.commits() - commits;
            let missing = writers.wait_for(more, LONGEST_WAIT, meanwhile).await;
            self.group_commit.waited(more, missing);
            counters.waited(now.elapsed());
            return ring.completed();
        }
        let turn = || {
            let offered = coeval_env::now();
            coeval_env::give_way();
            offered.elapsed()
        };
        self.group_commit.take_turns(|| ring.completed(), turn)
    }

    /// Writes and syncs everything before `end`, and publishes it as durable.
    async fn flush(&mut self, end: u64) -> Result<(), Error> {
        let start = self.reader.released();
        let commits = self.shared.counters.commits();
        let window = self.shared.leading.as_ref().map(|leading| &leading.window);
        if let Some(window) = window {
            window.push(Lsn(start), self.reader.bytes(start..end));
        }
        #[cfg(feature = "planted")]
        crate::planted::acknowledge_before_write(&self.shared, end).await;
        let mut position = Lsn(start);
        let mut full = Vec::new();
        let (first, second) = self.reader.bytes(start..end);
        for mut bytes in [first, second] {
            while !bytes.is_empty() {
                if position == self.current.end {
                    let next = self.supply.next(position).await?;
                    let last = std::mem::replace(&mut self.current, next);
                    if window.is_some() {
                        // A cluster's node relies on this: a segment is written only when
                        // everything before it is durable.
                        last.sync().await?;
                    } else {
                        full.push(last);
                    }
                }
                let room = self.current.end.0 - position.0;
                let count = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
                self.current.write(position, &bytes[..count]).await?;
                position.0 += count as u64;
                bytes = &bytes[count..];
            }
        }
        // The kernel has a copy: the ring's space is already free for the next group.
        self.reader.release(end);
        self.shared.space.serve();
        if let Some(window) = window {
            window.written(Lsn(end));
        }
        let written = coeval_env::now();
        if planted!(AcknowledgeBeforeSync) {
            self.shared.flushed(end);
        }
        for segment in &full {
            segment.sync().await?;
        }
        match self.current.sync().await {
            Err(_) if planted!(IgnoreFailedSync) => {}
            synced => synced?,
        }
        let counters = &self.shared.counters;
        counters.flushed(end - start, written.elapsed(), commits);
        self.shared.flushed(end);
        Ok(())
    }
}

/// Creates the segment that begins at `first`; waits for disk space for as long as the
/// log is open. `None` when `stop` returned true.
async fn make(
    shared: &Shared,
    kind: &SegmentKind,
    first: Lsn,
    stop: impl Fn() -> bool,
) -> Option<Result<Segment, Error>> {
    let name = Name::following(first);
    loop {
        let made = kind.create(name, &stop).await;
        match &made {
            Err(error) if error.is_disk_full() && !shared.is_closing() => {
                shared.set_full(Some(error.to_string().into()));
            }
            Err(_) => return made.transpose(),
            Ok(_) => {
                if !planted!(StayFull) {
                    shared.set_full(None);
                }
                return made.transpose();
            }
        }
        // A partial file is of no use, and takes space that others may need.
        let _ = kind.discard(name).await;
        coeval_env::sleep(RETRY).await;
        if stop() {
            return None;
        }
    }
}

/// The supply of segments that a thread creates ahead of their use.
struct Supply {
    ready: mpsc::Receiver<Result<Segment, Error>>,
    stop: Arc<AtomicBool>,
    /// The thread that creates segments; `None` once it has been joined.
    task: Option<JoinHandle<()>>,
}

impl Supply {
    /// Starts the thread: it hands out `spares` first, then creates the segments that
    /// follow after `end`, one ahead.
    fn start(shared: Arc<Shared>, kind: SegmentKind, spares: VecDeque<Segment>, end: Lsn) -> Self {
        let (sender, ready) = mpsc::channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = coeval_env::spawn_dedicated("log-segments", move || async move {
            for spare in spares {
                if sender.send(Ok(spare)).await.is_err() {
                    return;
                }
            }
            let mut first = end;
            // Only once the flusher has taken the segment before.
            while let Ok(permit) = sender.reserve().await {
                let stop = || stopped.load(Ordering::Relaxed);
                let Some(made) = make(&shared, &kind, first, stop).await else {
                    return;
                };
                let failed = made.is_err();
                if let Ok(segment) = &made {
                    first = segment.end;
                }
                permit.send(made);
                if failed {
                    return;
                }
            }
        });
        Self {
            ready,
            stop,
            task: Some(task),
        }
    }

    /// Takes the segment that begins at `first`; waits until the thread has created it.
    async fn next(&mut self, first: Lsn) -> Result<Segment, Error> {
        let segment = self
            .ready
            .recv()
            .await
            .unwrap_or_else(|| Err(Error::Stopped("no segment was made".into())))?;
        assert_eq!(segment.first, first, "segments follow on each other");
        Ok(segment)
    }

    /// Ends the thread and joins it: after that no thread touches the directory. A second
    /// call does nothing.
    async fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ready.close();
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the thread that makes segments has failed");
        }
    }
}
