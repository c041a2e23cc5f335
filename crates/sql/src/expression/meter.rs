//! The work meter: counts the work of a statement in a step that outside input can
//! lengthen, so that a long one looks at cancel requests and its deadline, and gives
//! its thread away.
//!
//! Every loop over bytes, elements or rows calls [`EvaluationContext::work`] with what
//! it has done, in bytes; a row or an element counts as [`ROW`]. After [`TICK`] of them
//! the meter *ticks*: the statement ends with 57014 if it is canceled or its time is
//! over; and if its time slice is used up it hands the worker's other sessions to
//! another thread ([`coeval_env::hand_over`]) and goes on beside them.
//!
//! ```text
//!   work   work   work   work   work   work   work   work
//!   ───────────────────▶│──────────────────────────▶│────▶
//!                      tick                        tick
//!                 look at cancel             … and give way
//! ```
//!
//! Between two rows a statement yields instead, at the latest after
//! [`super::context::BUDGET`] of them; that counts as a tick, too. The list of loops is
//! docs/internals/work-meter.md. Tests count ticks, not time: a loop that processes
//! many bytes in a tick, or in none, is found by the count.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::EvaluationContext;
use crate::Result;

/// Work in bytes between two ticks.
pub(crate) const TICK: usize = 64 << 10;

/// Bytes of work that a row or an element counts as.
pub(crate) const ROW: usize = 16;

/// Number of ticks after which a step gives way even if the clock has not moved.
const TICKS_OF_SLICE: u32 = 64;

/// The meter of a session: what its statements have counted.
#[derive(Debug)]
pub struct WorkMeter {
    ticks: AtomicU64,
    ways_given: AtomicU64,
    cancel_at: AtomicU64,
}

impl Default for WorkMeter {
    fn default() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            ways_given: AtomicU64::new(0),
            cancel_at: AtomicU64::new(u64::MAX),
        }
    }
}

impl WorkMeter {
    /// Number of ticks so far.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// How often a statement has let other sessions go first, between two rows or
    /// within one.
    #[must_use]
    pub fn ways_given(&self) -> u64 {
        self.ways_given.load(Ordering::Relaxed)
    }

    /// Cancels the running statement at a tick: a cancel request that tests can
    /// place.
    pub fn cancel_at(&self, tick: u64) {
        self.cancel_at.store(tick, Ordering::Relaxed);
    }

    /// Counts a tick.
    pub(crate) fn tick(&self, cancel: &AtomicBool) {
        let ticks = self.ticks.load(Ordering::Relaxed) + 1;
        self.ticks.store(ticks, Ordering::Relaxed);
        if ticks == self.cancel_at.load(Ordering::Relaxed) {
            cancel.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn give_way(&self) {
        self.ways_given.fetch_add(1, Ordering::Relaxed);
    }
}

/// State of the meter within one step of a statement.
#[derive(Debug)]
pub(crate) struct Metered {
    /// Work in bytes until the next tick.
    left: usize,
    /// Ticks since the statement last gave way.
    ticks: u32,
    /// Whether the step has handed the worker's other sessions over, so that it need
    /// not do so again before its end.
    handed_over: bool,
}

impl Metered {
    pub(super) const fn new() -> Self {
        Self {
            left: TICK,
            ticks: 0,
            handed_over: false,
        }
    }

    /// Called when the statement is polled again after it has yielded.
    pub(crate) const fn begin_slice(&mut self) {
        self.ticks = 0;
        self.handed_over = false;
    }
}

impl EvaluationContext<'_> {
    /// Counts work, in bytes. Fails with 57014 if the meter is due and the statement
    /// canceled.
    #[inline]
    pub(crate) fn work(&mut self, bytes: usize) -> Result<()> {
        if bytes < self.metered.left {
            self.metered.left -= bytes;
            return Ok(());
        }
        self.tick()
    }

    #[cold]
    fn tick(&mut self) -> Result<()> {
        self.metered.left = TICK;
        self.session.work_meter.tick(&self.session.cancel);
        self.check_canceled()?;
        self.metered.ticks += 1;
        if self.metered.handed_over {
            return Ok(());
        }
        if self.metered.ticks >= TICKS_OF_SLICE || self.is_overdue() {
            self.metered.handed_over = true;
            self.session.work_meter.give_way();
            coeval_env::hand_over();
        }
        Ok(())
    }
}
