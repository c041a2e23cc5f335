//! The state that committers, waiters and the flusher of one log share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use coeval_memory::ring::AppendRing;
use coeval_types::{Lsn, Term, Timestamp, planted};
use tokio::sync::Notify;

use crate::Error;
use crate::chunks::OpenChunks;
use crate::frame::Seed;
use crate::group_commit::Writers;
use crate::replica::Leading;
use crate::space::SpaceQueue;
use crate::statistics::Counters;
use crate::waiters::Waiters;

/// Handler that is called once, with the reason, when the log stops for good.
pub type FatalHandler = Box<dyn FnOnce(&Error) + Send>;

pub(crate) struct Shared {
    pub(crate) ring: Arc<AppendRing>,
    /// The term of every frame this process writes.
    pub(crate) term: Term,
    /// Seed of the frames' checksums: the database id's CRC.
    pub(crate) seed: Seed,
    /// Whether the log has no file, so that installed commits count as durable.
    pub(crate) ephemeral: bool,
    /// State that only a cluster leader's log has.
    pub(crate) leading: Option<Box<Leading>>,
    /// End of the durable log, or of the committed log in a cluster. Never past the
    /// ring's complete prefix.
    durable: AtomicU64,
    pub(crate) space: Arc<SpaceQueue>,
    /// Tasks that wait for a timestamp to become durable.
    pub(crate) waiters: Waiters,
    /// Tasks that wait for a timestamp to be installed.
    pub(crate) beginners: Waiters,
    /// Transactions with chunks that log truncation must retain.
    pub(crate) chunks: Arc<OpenChunks>,
    pub(crate) counters: Counters,
    /// Transactions that are about to commit.
    pub(crate) writers: Writers,
    /// Wakes the flusher when the installed prefix has grown, or when it is to end.
    pub(crate) flusher: Arc<Notify>,
    /// Set when the log refuses new commits because it is being closed.
    pub(crate) closing: AtomicBool,
    /// Set when the flusher is to end at once, as if the power had failed.
    pub(crate) abandoned: AtomicBool,
    /// An injected known bug of the tests: the log is truncated before its checkpoint is
    /// durable.
    truncates_early: AtomicBool,
    /// Whether [`Shared::refusal`] holds a reason; committers read it without the lock.
    refuses: AtomicBool,
    /// Why the log refuses new commits for now.
    refusal: Mutex<Refusal>,
    stopped: OnceLock<Arc<str>>,
    fatal: Mutex<Fatal>,
}

/// A disk without space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// What did not fit.
    pub(crate) reason: Arc<str>,
    /// Whether commits that only free space are accepted, out of the reserve.
    pub(crate) on_reserve: bool,
}

#[derive(Default)]
struct Refusal {
    /// Why the disk has no space, if so.
    full: Option<Full>,
    /// Whether the mark of the leader's term is not committed yet.
    mark_pending: bool,
}

#[derive(Default)]
struct Fatal {
    /// Why the log has stopped for good, if it has.
    reason: Option<Arc<str>>,
    handler: Option<FatalHandler>,
}

impl Shared {
    /// Makes the state of a log that is no cluster leader's.
    pub(crate) fn new(ring: AppendRing, term: Term, seed: Seed, ephemeral: bool) -> Arc<Self> {
        Self::with(ring, (term, seed), ephemeral, None)
    }

    /// Makes the state of a log with a file, which may be a cluster leader's.
    pub(crate) fn with_file(
        ring: AppendRing,
        term: Term,
        seed: Seed,
        leading: Option<Box<Leading>>,
    ) -> Arc<Self> {
        Self::with(ring, (term, seed), false, leading)
    }

    fn with(
        ring: AppendRing,
        (term, seed): (Term, Seed),
        ephemeral: bool,
        leading: Option<Box<Leading>>,
    ) -> Arc<Self> {
        let ring = Arc::new(ring);
        let durable = leading.as_ref().map(|leading| leading.commit.0);
        let refusal = Refusal {
            full: None,
            mark_pending: leading.is_some(),
        };
        let flusher = Arc::new(Notify::new());
        Arc::new(Self {
            space: SpaceQueue::new(Arc::clone(&ring), Arc::clone(&flusher)),
            durable: AtomicU64::new(durable.unwrap_or_else(|| ring.completed())),
            refuses: AtomicBool::new(leading.is_some()),
            refusal: Mutex::new(refusal),
            leading,
            ring,
            term,
            seed,
            ephemeral,
            waiters: Waiters::default(),
            beginners: Waiters::default(),
            counters: Counters::default(),
            writers: Writers::default(),
            flusher,
            closing: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            chunks: Arc::default(),
            truncates_early: AtomicBool::new(false),
            stopped: OnceLock::new(),
            fatal: Mutex::default(),
        })
    }

    /// The timestamp that includes exactly the frames that start before `end`.
    fn timestamp_before(&self, end: u64) -> Timestamp {
        Timestamp::new(self.term, Lsn(end - Lsn::ALIGNMENT))
    }

    pub(crate) fn installed(&self) -> Timestamp {
        self.timestamp_before(self.ring.completed())
    }

    pub(crate) fn reserved(&self) -> Timestamp {
        self.timestamp_before(self.ring.reserved())
    }

    /// End of the durable log, as an offset.
    pub(crate) fn durable_end(&self) -> Lsn {
        Lsn(if self.ephemeral {
            self.ring.completed()
        } else {
            self.durable.load(Ordering::Acquire)
        })
    }

    pub(crate) fn durable(&self) -> Timestamp {
        let end = self.durable_end();
        if let Some(leading) = &self.leading
            && end <= leading.mark.start
        {
            // A new leader does not know which commits of earlier terms are committed.
            return Timestamp::ZERO;
        }
        self.timestamp_before(end.0)
    }

    /// State of a leader's log, for handles that only a leader's log gives out.
    pub(crate) fn leading(&self) -> &Leading {
        let leading = self.leading.as_deref();
        leading.expect("this is of a leader's log")
    }

    /// Called by the flusher when everything before `end` is on this node's disk.
    pub(crate) fn flushed(&self, end: u64) {
        match &self.leading {
            Some(leading) => leading.window.flushed(Lsn(end)),
            None => self.advance_durable(end),
        }
    }

    /// Called when the cluster has committed everything before `end`.
    pub(crate) fn set_committed(&self, end: Lsn) {
        let Some(leading) = &self.leading else {
            return;
        };
        debug_assert!(end.0 <= self.ring.completed(), "committed and not sent");
        let end = end.0.min(self.ring.completed());
        if self.durable.fetch_max(end, Ordering::AcqRel) >= end {
            return;
        }
        if end >= leading.mark.end.0 {
            self.change_refusal(|refusal| refusal.mark_pending = false);
            self.waiters.reached(self.durable());
        }
    }

    fn advance_durable(&self, end: u64) {
        debug_assert!(end >= self.durable.load(Ordering::Relaxed));
        debug_assert!(end <= self.ring.completed());
        self.durable.store(end, Ordering::Release);
        self.waiters.reached(self.timestamp_before(end));
    }

    /// Called by the thread that has advanced the installed prefix.
    #[inline]
    pub(crate) fn prefix_moved(&self) {
        self.beginners.reached(self.installed());
        if self.ephemeral {
            self.space.serve();
            self.waiters.reached(self.installed());
        } else {
            self.flusher.notify_one();
        }
    }

    pub(crate) fn stop_reason(&self) -> Option<Error> {
        self.stopped
            .get()
            .map(|reason| Error::Stopped(reason.clone()))
    }

    pub(crate) fn truncates_early(&self) -> bool {
        self.truncates_early.load(Ordering::Relaxed) || planted!(TruncateEarly)
    }

    pub(crate) fn truncate_early(&self) {
        self.truncates_early.store(true, Ordering::Relaxed);
    }

    /// Whether the log is being closed, in order or not.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.abandoned.load(Ordering::Acquire)
    }

    fn refusal(&self) -> MutexGuard<'_, Refusal> {
        self.refusal.lock().expect("no panic under this lock")
    }

    /// Why the log refuses new commits because the disk is full, if it does. With
    /// `only_frees` for a commit that frees space and takes none for long.
    pub(crate) fn full_reason(&self, only_frees: bool) -> Option<Error> {
        if !self.refuses.load(Ordering::Acquire) {
            return None;
        }
        let full = self.refusal().full.clone()?;
        (!only_frees || !full.on_reserve).then_some(Error::DiskFull(full.reason))
    }

    /// Why the log refuses new commits for now, if it does.
    #[inline]
    pub(crate) fn refusal_reason(&self, only_frees: bool) -> Option<Error> {
        if !self.refuses.load(Ordering::Acquire) {
            return None;
        }
        if self.refusal().mark_pending {
            return Some(Error::MarkPending);
        }
        self.full_reason(only_frees)
    }

    fn change_refusal(&self, change: impl FnOnce(&mut Refusal)) {
        let mut refusal = self.refusal();
        change(&mut refusal);
        let refuses = refusal.full.is_some() || refusal.mark_pending;
        self.refuses.store(refuses, Ordering::Release);
    }

    /// Makes the log refuse new commits for this reason, or accept them again with
    /// `None`.
    pub(crate) fn set_full(&self, full: Option<Full>) {
        if self.refusal().full == full {
            return;
        }
        match &full {
            Some(Full {
                reason,
                on_reserve: true,
            }) => tracing::error!(
                %reason,
                "the disk is full: writes are refused until there is room, but for DELETE, \
                 TRUNCATE and DROP, and checkpoints are taken, out of the reserve"
            ),
            Some(Full { reason, .. }) => {
                tracing::error!(%reason, "the disk is full: writes are refused until there is room");
            }
            None => tracing::info!("there is room on the disk again: writes go on"),
        }
        self.change_refusal(|refusal| refusal.full = full);
        // Committers that wait for space in the ring would otherwise wait for ever.
        self.space.wake_all();
    }

    /// Stops the log for good: nothing becomes durable any more, and every waiter gets
    /// the reason as its error. The first reason is kept.
    pub(crate) fn stop(&self, reason: &str, fatal: bool) {
        if self.stopped.set(reason.into()).is_err() {
            return;
        }
        if fatal {
            tracing::error!(reason, "the log has stopped for good");
            self.call_fatal_handler(|fatal| fatal.reason = Some(reason.into()));
        }
        if let Some(leading) = &self.leading {
            leading.window.end();
        }
        self.waiters.wake_all();
        self.beginners.wake_all();
        self.space.wake_all();
    }

    /// Why the log has stopped for good, if it has.
    pub(crate) fn fatal_reason(&self) -> Option<Arc<str>> {
        self.fatal
            .lock()
            .expect("no panic under this lock")
            .reason
            .clone()
    }

    /// Sets the handler of a fatal stop, and calls it at once if the log has already
    /// stopped.
    pub(crate) fn set_fatal_handler(&self, handler: FatalHandler) {
        self.call_fatal_handler(|fatal| fatal.handler = Some(handler));
    }

    /// Calls the handler if, after `change`, both a handler and a reason are set.
    fn call_fatal_handler(&self, change: impl FnOnce(&mut Fatal)) {
        let call = {
            let mut fatal = self.fatal.lock().expect("no panic under this lock");
            change(&mut fatal);
            fatal
                .reason
                .clone()
                .and_then(|reason| Some((fatal.handler.take()?, reason)))
        };
        if let Some((handler, reason)) = call {
            handler(&Error::Stopped(reason));
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Log")
            .field("term", &self.term)
            .field("ring", &self.ring)
            .field("durable", &self.durable)
            .field("ephemeral", &self.ephemeral)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}
