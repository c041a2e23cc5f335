//! What the driver and its clients tell each other.

use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use coeval_env::{self as env, Instant};
use tokio::sync::Notify;

use super::Length;
use super::arrivals::Arrivals;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Clients connect.
    Prepare = 0,
    /// They work, and nothing counts.
    WarmUp = 1,
    /// What ends counts.
    Measure = 2,
    /// They end what they have begun.
    Done = 3,
}

/// What one client has ended, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counter {
    completed: AtomicU64,
    written: AtomicU64,
    aborted: AtomicU64,
    failed: AtomicU64,
    counted: AtomicU64,
}

impl Counter {
    /// Only its client adds to it.
    fn add(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A request has been done.
    pub(super) fn completed(&self) {
        Self::add(&self.completed);
    }

    /// One that is no mere read was committed.
    pub(super) fn written(&self) {
        Self::add(&self.written);
    }

    /// An attempt was undone.
    pub(super) fn aborted(&self) {
        Self::add(&self.aborted);
    }

    /// A request was given up.
    pub(super) fn failed(&self) {
        Self::add(&self.failed);
    }

    /// One of a number that was asked for has ended.
    pub(super) fn counted(&self) {
        Self::add(&self.counted);
    }
}

/// What all clients have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) completed: u64,
    /// Of them, commits that are no mere reads.
    pub(super) written: u64,
    pub(super) aborted: u64,
    /// Requests, done or given up, of a number that was asked for.
    pub(super) counted: u64,
}

/// What a transaction begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// One of a number that was asked for.
    Counted,
    /// Nobody has asked for a number, or not yet.
    Free,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Control {
    pub(super) phase: AtomicU8,
    /// Not a watch channel, whose waiters tokio wakes in an order of its own chance.
    started: Notify,
    origin: OnceLock<Instant>,
    /// From when to when it is measured.
    from: OnceLock<Instant>,
    until: OnceLock<Instant>,
    /// Nobody waits any more for what is still under way.
    given_up: AtomicBool,
    pub(super) arrivals: Option<Arrivals>,
    /// How many transactions may still begin while it is measured.
    left: Option<AtomicI64>,
    pub(super) counters: Vec<Counter>,
}

impl Control {
    pub(super) fn new(clients: usize, arrivals: Option<Arrivals>, length: Length) -> Self {
        let left = match length {
            Length::Time(_) => None,
            Length::Transactions(count) => {
                Some(AtomicI64::new(i64::try_from(count).unwrap_or(i64::MAX)))
            }
        };
        Self {
            phase: AtomicU8::new(Phase::Prepare as u8),
            started: Notify::new(),
            origin: OnceLock::new(),
            from: OnceLock::new(),
            until: OnceLock::new(),
            given_up: AtomicBool::new(false),
            arrivals,
            left,
            counters: (0..clients).map(|_| Counter::default()).collect(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Prepare,
            1 => Phase::WarmUp,
            2 => Phase::Measure,
            _ => Phase::Done,
        }
    }

    /// What times of a history count from.
    pub(super) fn origin(&self) -> Instant {
        *self.origin.get_or_init(env::now)
    }

    /// All clients are ready.
    pub(super) fn begin(&self) {
        self.origin();
        if let Some(arrivals) = &self.arrivals {
            arrivals.begin();
        }
    }

    /// Goes on to the next phase; the first one lets the clients go.
    pub(super) fn enter(&self, phase: Phase) {
        match phase {
            Phase::Measure => self.from.get_or_init(env::now),
            Phase::Done => self.until.get_or_init(env::now),
            Phase::Prepare | Phase::WarmUp => self.origin.get_or_init(env::now),
        };
        self.phase.store(phase as u8, Ordering::Release);
        self.started.notify_waiters();
    }

    /// Waits until there is something to do.
    pub(super) async fn wait_for_start(&self) {
        let mut started = pin!(self.started.notified());
        // Waits from here on, so that a start after this look is not missed.
        started.as_mut().enable();
        if self.phase() == Phase::Prepare {
            started.await;
        }
    }

    /// What is measured lies between these, if it has come so far.
    pub(super) fn measured(&self) -> Option<(Instant, Instant)> {
        Some((*self.from.get()?, *self.until.get()?))
    }

    /// When the run ended, if it has.
    pub(super) fn end(&self) -> Option<Instant> {
        let over = self.phase() == Phase::Done;
        over.then(|| self.until.get().copied().unwrap_or_else(|| self.origin()))
    }

    /// Whether a request counts that should have begun at a time and ends now: in a
    /// closed loop what ends while it is measured, in an open loop what arrived then; of a
    /// number that was asked for only what belongs to it.
    pub(super) fn counts_in(&self, intended: Instant, turn: Turn) -> bool {
        match &self.arrivals {
            _ if self.left.is_some() && turn == Turn::Free => false,
            // Its turn came as soon as it was measured.
            None if self.left.is_some() => self.phase() != Phase::Done,
            None => self.phase() == Phase::Measure,
            Some(_) => {
                self.from.get().is_some_and(|from| intended >= *from)
                    && self.end().is_none_or(|end| intended < end)
            }
        }
    }

    /// Has clients leave what is still under way.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.started.notify_waiters();
    }

    /// Whether they have been told to.
    pub(super) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Waits until they are told to.
    pub(super) async fn giving_up(&self) {
        let mut told = pin!(self.started.notified());
        // Waits from here on, so that a word after this look is not missed.
        told.as_mut().enable();
        while !self.has_given_up() {
            told.as_mut().await;
            told.set(self.started.notified());
            told.as_mut().enable();
        }
    }

    /// Whether anything may begin.
    pub(super) fn goes_on(&self) -> bool {
        self.phase() != Phase::Done
    }

    /// What a transaction begins as that should begin at a time, which has come; none when
    /// as many have begun as were asked for.
    pub(super) fn turn(&self, intended: Instant) -> Option<Turn> {
        let Some(left) = &self.left else {
            return Some(Turn::Free);
        };
        if self.from.get().is_none_or(|from| intended < *from) {
            return Some(Turn::Free);
        }
        (left.fetch_sub(1, Ordering::Relaxed) > 0).then_some(Turn::Counted)
    }

    /// How many have not begun of those that were asked for.
    pub(super) fn left(&self) -> u64 {
        let left = |left: &AtomicI64| u64::try_from(left.load(Ordering::Relaxed)).unwrap_or(0);
        self.left.as_ref().map_or(u64::MAX, left)
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for counter in &self.counters {
            counts.completed += counter.completed.load(Ordering::Relaxed);
            counts.written += counter.written.load(Ordering::Relaxed);
            counts.aborted += counter.aborted.load(Ordering::Relaxed);
            counts.counted += counter.counted.load(Ordering::Relaxed);
        }
        counts
    }
}
