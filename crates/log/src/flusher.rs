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
//! A second thread creates segments ahead of their use, and handles a full disk
//! ([`crate::supply`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coeval_memory::ring::{AppendRing, Reader};
use coeval_types::Lsn;
use coeval_types::planted;

use crate::Error;
use crate::control::{Control, DataDirectory};
use crate::frame::Seed;
use crate::group_commit::{GroupCommit, LONGEST_WAIT};
use crate::recovery::Recovered;
use crate::replica::Leading;
use crate::reserve::Reserve;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::supply::Supply;
use crate::{RecoverySummary, Settings};

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
        let reserve = Reserve::new(
            directory.path(),
            settings.reserve_bytes,
            settings.segment_bytes,
        );
        let flusher = Self {
            supply: Supply::start(Arc::clone(&shared), kind, reserve, spares, end),
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
