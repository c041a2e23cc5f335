//! The supply of segments: a thread creates each one ahead of its use, and is the first to
//! notice a full disk.
//!
//! # When the disk is full
//!
//! The thread creates a segment one whole segment ahead of where the flusher writes. When
//! there is no room for it, the log refuses new commits, each with the reason; commits that
//! have reserved their space already have disk space too, as long as the ring is no larger
//! than a segment, and become durable. Reads continue.
//!
//! The thread then gives up the [reserve](crate::reserve) and tries once more. With a
//! segment out of the reserve the log accepts commits that only free space, and no others:
//!
//! ```text
//!   state             a segment ahead   reserve    commits
//!   room              yes               whole      all
//!   on the reserve    yes               given up   those that only free
//!   full              no                given up   none
//! ```
//!
//! It tries what is missing, the segment or the reserve, every [`RETRY`]; once it has both,
//! the log accepts all commits again. A disk that is full while the log is opened or closed
//! makes that call fail instead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_types::{Lsn, planted};
use tokio::sync::mpsc;

use crate::Error;
use crate::reserve::Reserve;
use crate::segment::{Name, Segment, SegmentKind};
use crate::shared::{Full, Shared};

/// How often a segment or the reserve is tried again while the disk is full.
const RETRY: Duration = Duration::from_millis(500);

/// What the thread works with.
struct Maker {
    shared: Arc<Shared>,
    kind: SegmentKind,
    reserve: Reserve,
}

impl Maker {
    /// Creates the segment that begins at `first`; waits for disk space for as long as the
    /// log is open. `None` when `stop` returned true.
    async fn make(
        &mut self,
        first: Lsn,
        stop: impl Fn() -> bool,
    ) -> Option<Result<Segment, Error>> {
        let name = Name::following(first);
        loop {
            let made = self.kind.create(name, &stop).await;
            let error = match made {
                Err(error) if error.is_disk_full() && !self.shared.is_closing() => error,
                Err(_) => return made.transpose(),
                Ok(_) => {
                    self.look_for_room().await;
                    return made.transpose();
                }
            };
            self.shared.set_full(Some(Full {
                reason: error.to_string().into(),
                on_reserve: false,
            }));
            // A partial file is of no use, and takes space that others may need.
            let _ = self.kind.discard(name).await;
            if self.reserve.give_up().await {
                continue;
            }
            coeval_env::sleep(RETRY).await;
            if stop() {
                return None;
            }
        }
    }

    /// Waits until the flusher has taken the segment before; `None` when the log has ended.
    async fn permit<'a>(
        &mut self,
        sender: &'a mpsc::Sender<Result<Segment, Error>>,
    ) -> Option<mpsc::Permit<'a, Result<Segment, Error>>> {
        while !self.reserve.is_whole() {
            match coeval_env::timeout(RETRY, sender.reserve()).await {
                Ok(permit) => return permit.ok(),
                Err(coeval_env::Elapsed) => self.look_for_room().await,
            }
        }
        sender.reserve().await.ok()
    }

    /// With a segment ahead: makes the reserve if it is missing, and has the log accept all
    /// commits if it is whole, else those that only free space.
    async fn look_for_room(&mut self) {
        if planted!(StayFull) {
            return;
        }
        let full = match self.reserve.make().await {
            Ok(()) => None,
            Err(error) => Some(Full {
                reason: error.to_string().into(),
                on_reserve: true,
            }),
        };
        self.shared.set_full(full);
    }
}

/// The supply of segments that a thread creates ahead of their use.
pub(crate) struct Supply {
    ready: mpsc::Receiver<Result<Segment, Error>>,
    stop: Arc<AtomicBool>,
    /// The thread that creates segments; `None` once it has been joined.
    task: Option<JoinHandle<()>>,
}

impl Supply {
    /// Starts the thread: it hands out `spares` first, then creates the segments that
    /// follow after `end`, one ahead.
    pub(crate) fn start(
        shared: Arc<Shared>,
        kind: SegmentKind,
        reserve: Reserve,
        spares: VecDeque<Segment>,
        end: Lsn,
    ) -> Self {
        let (sender, ready) = mpsc::channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = coeval_env::spawn_dedicated("log-segments", move || async move {
            let mut maker = Maker {
                shared,
                kind,
                reserve,
            };
            for spare in spares {
                if !maker.reserve.is_whole() {
                    maker.look_for_room().await;
                }
                if sender.send(Ok(spare)).await.is_err() {
                    return;
                }
            }
            let mut first = end;
            // Only once the flusher has taken the segment before.
            while let Some(permit) = maker.permit(&sender).await {
                let stop = || stopped.load(Ordering::Relaxed);
                let Some(made) = maker.make(first, stop).await else {
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
    pub(crate) async fn next(&mut self, first: Lsn) -> Result<Segment, Error> {
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
    pub(crate) async fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ready.close();
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the thread that makes segments has failed");
        }
    }
}
