//! Shared state of the driver and its clients: the phase of the run, and what each client
//! has completed.

use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use coeval_env::{self as env, Instant};
use tokio::sync::Notify;

use super::Length;
use super::arrivals::Arrivals;

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The clients connect to the database.
    Prepare = 0,
    /// Clients run transactions that do not count.
    WarmUp = 1,
    /// Transactions that end now count.
    Measure = 2,
    /// Clients finish the transactions they have begun.
    Done = 3,
}

/// Counters of one client, on a cache line of their own.
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
    /// Adds one to a counter of a client. No other client adds to it, so that a load and a
    /// store suffice.
    fn add(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a completed request.
    pub(super) fn completed(&self) {
        Self::add(&self.completed);
    }

    /// Counts a committed transaction that is not read-only.
    pub(super) fn written(&self) {
        Self::add(&self.written);
    }

    /// Counts an aborted attempt.
    pub(super) fn aborted(&self) {
        Self::add(&self.aborted);
    }

    /// Counts a request that the client gave up.
    pub(super) fn failed(&self) {
        Self::add(&self.failed);
    }

    /// Counts an ended transaction out of a requested number.
    pub(super) fn counted(&self) {
        Self::add(&self.counted);
    }
}

/// Sums of the counters of all clients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) completed: u64,
    /// Committed transactions that are not read-only.
    pub(super) written: u64,
    pub(super) aborted: u64,
    /// Requests out of a requested number, completed or given up.
    pub(super) counted: u64,
}

/// Whether a transaction counts towards a requested number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The transaction counts towards the requested number.
    Counted,
    /// No number is requested, or the transaction began before the measurement.
    Free,
}

/// Shared state of the driver and its clients.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) phase: AtomicU8,
    /// Not a watch channel, because tokio wakes its waiters in a random order.
    started: Notify,
    origin: OnceLock<Instant>,
    /// Start and end of the measurement.
    from: OnceLock<Instant>,
    until: OnceLock<Instant>,
    /// The driver no longer waits for transactions in progress.
    given_up: AtomicBool,
    pub(super) arrivals: Option<Arrivals>,
    /// Number of transactions that may still begin during the measurement.
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

    /// Origin of the times in a history.
    pub(super) fn origin(&self) -> Instant {
        *self.origin.get_or_init(env::now)
    }

    /// Starts the run: all clients are ready.
    pub(super) fn begin(&self) {
        self.origin();
        if let Some(arrivals) = &self.arrivals {
            arrivals.begin();
        }
    }

    /// Enters the next phase; the first one releases the clients.
    pub(super) fn enter(&self, phase: Phase) {
        match phase {
            Phase::Measure => self.from.get_or_init(env::now),
            Phase::Done => self.until.get_or_init(env::now),
            Phase::Prepare | Phase::WarmUp => self.origin.get_or_init(env::now),
        };
        self.phase.store(phase as u8, Ordering::Release);
        self.started.notify_waiters();
    }

    /// Waits until the clients are released.
    pub(super) async fn wait_for_start(&self) {
        let mut started = pin!(self.started.notified());
        // Registers the waiter before reading the phase, so that a concurrent start is
        // not missed.
        started.as_mut().enable();
        if self.phase() == Phase::Prepare {
            started.await;
        }
    }

    /// Start and end of the measurement, if it is complete.
    pub(super) fn measured(&self) -> Option<(Instant, Instant)> {
        Some((*self.from.get()?, *self.until.get()?))
    }

    /// Time at which the run ended, if it has.
    pub(super) fn end(&self) -> Option<Instant> {
        let over = self.phase() == Phase::Done;
        over.then(|| self.until.get().copied().unwrap_or_else(|| self.origin()))
    }

    /// Whether a request counts that should have begun at `intended` and ends now: in a
    /// closed loop if it ends during the measurement, in an open loop if it arrived
    /// during it; with a requested number of transactions, only if it belongs to that
    /// number.
    pub(super) fn counts_in(&self, intended: Instant, turn: Turn) -> bool {
        match &self.arrivals {
            _ if self.left.is_some() && turn == Turn::Free => false,
            // A transaction gets its turn only once the measurement has begun.
            None if self.left.is_some() => self.phase() != Phase::Done,
            None => self.phase() == Phase::Measure,
            Some(_) => {
                self.from.get().is_some_and(|from| intended >= *from)
                    && self.end().is_none_or(|end| intended < end)
            }
        }
    }

    /// Makes clients abandon the transactions in progress.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.started.notify_waiters();
    }

    /// Whether clients must abandon their transactions.
    pub(super) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Waits until clients must abandon their transactions.
    pub(super) async fn giving_up(&self) {
        let mut told = pin!(self.started.notified());
        // Registers the waiter before reading the flag, so that a concurrent notification
        // is not missed.
        told.as_mut().enable();
        while !self.has_given_up() {
            told.as_mut().await;
            told.set(self.started.notified());
            told.as_mut().enable();
        }
    }

    /// Whether transactions may still begin.
    pub(super) fn goes_on(&self) -> bool {
        self.phase() != Phase::Done
    }

    /// The turn of a transaction that should begin at `intended`, which has passed;
    /// `None` if the requested number of transactions has begun.
    pub(super) fn turn(&self, intended: Instant) -> Option<Turn> {
        let Some(left) = &self.left else {
            return Some(Turn::Free);
        };
        if self.from.get().is_none_or(|from| intended < *from) {
            return Some(Turn::Free);
        }
        (left.fetch_sub(1, Ordering::Relaxed) > 0).then_some(Turn::Counted)
    }

    /// Number of requested transactions that have not begun.
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
