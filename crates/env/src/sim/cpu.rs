//! Simulated processors: work takes time on a limited number of cores.
//!
//! On a node without a [`Cpu`], code takes no time, as tests of correctness want it. On a
//! node with one, each poll of a task occupies a core for the time that the polled code
//! [spends](crate::spend), and for the [`Prices`] of the poll, of the [work](crate::work)
//! it declares, and of the bytes it sends and receives; while every core is occupied, no
//! task of the node is polled. Prices are measured on a real machine and configured in the
//! simulation, so that it can estimate the throughput of more machines than are available.
//!
//! ```text
//!   core 0  ▒▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓          ▒▓▓▓▓▓▓▓     ▒ wake: it was idle
//!   core 1         ▒▓▓▓▓▓▓▓▓                           ▓ poll, work, bytes, spend
//!                           └ no task waits: idle
//! ```
//!
//! A sleeping core is woken, at a cost, unless a busy core would take up the step sooner;
//! on a heavily loaded machine hardly any core sleeps.
//!
//! A step happens at the moment it begins; its cost delays the next step, and bytes it
//! sends leave when the work before them is done. Cores do not slow each other down: no
//! price includes contention for cache lines or locks.

use std::time::Duration;

use crate::Work;

/// The processors of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Number of cores, at least one.
    pub cores: usize,
    /// Processor time of each kind of work.
    pub prices: Prices,
}

/// Processor time per unit of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// A poll of a task, in addition to the work that its code declares.
    pub poll: Duration,
    /// Waking of an idle core: the sleeping thread is woken, and falls asleep again when
    /// no work is left.
    pub wake: Duration,
    /// A sync of a file, in addition to the wait for it, with the writes it makes durable.
    pub sync: Duration,
    /// Processor time of one receive operation.
    pub receive: Duration,
    /// Processor time of one send operation.
    pub send: Duration,
    /// Processor time per 1024 bytes sent or received.
    pub copy: Duration,
    /// Processor time of one unit of [`Work::Ask`].
    pub ask: Duration,
    /// Processor time of one unit of [`Work::Plan`].
    pub plan: Duration,
    /// Processor time of one unit of [`Work::Execute`].
    pub execute: Duration,
    /// Processor time of one unit of [`Work::Transaction`].
    pub transaction: Duration,
    /// Processor time of one unit of [`Work::Read`].
    pub read: Duration,
    /// Processor time of one unit of [`Work::Row`].
    pub row: Duration,
    /// Processor time of one unit of [`Work::Write`].
    pub write: Duration,
}

impl Prices {
    const fn of(&self, work: Work) -> Duration {
        match work {
            Work::Ask => self.ask,
            Work::Plan => self.plan,
            Work::Execute => self.execute,
            Work::Transaction => self.transaction,
            Work::Read => self.read,
            Work::Row => self.row,
            Work::Write => self.write,
        }
    }
}

/// Nanoseconds for which a core without work stays awake. Timers of a simulated world are
/// late by up to a microsecond, which must not count as idleness.
const AWAKE: u64 = 2000;
/// Most nanoseconds by which timers are late.
const GRAIN: u64 = 1000;

/// The cores of a node, by the true time at which they are free, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// Empty if work takes no time.
    free_at: Vec<u64>,
    prices: Prices,
    /// The core that executes the running step.
    running: usize,
    /// How many nanoseconds before now the running step began, because its timer was late.
    late: u64,
    /// Time at which the woken core was awake: tasks that its step wakes are not ready
    /// before.
    awake_at: u64,
    /// Nanoseconds spent by the running step so far.
    spent: u64,
    /// Nanoseconds spent by all steps before it.
    busy: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Cores {
    pub(crate) fn new(cpu: Cpu, now: u64) -> Self {
        Self {
            free_at: vec![now; cpu.cores.max(1)],
            prices: cpu.prices,
            ..Self::default()
        }
    }

    pub(crate) fn spend(&mut self, duration: Duration) {
        self.spent = self.spent.saturating_add(nanos(duration));
    }

    pub(crate) fn work(&mut self, work: Work, times: usize) {
        let of_one = nanos(self.prices.of(work));
        let of_all = of_one.saturating_mul(times as u64);
        self.spent = self.spent.saturating_add(of_all);
    }

    pub(crate) fn sync(&mut self) {
        self.spend(self.prices.sync);
    }

    pub(crate) fn receive(&mut self, bytes: usize) {
        self.pass(self.prices.receive, bytes);
    }

    pub(crate) fn send(&mut self, bytes: usize) {
        self.pass(self.prices.send, bytes);
    }

    fn pass(&mut self, at_once: Duration, bytes: usize) {
        let copied = nanos(self.prices.copy).saturating_mul(bytes as u64) / 1024;
        self.spend(at_once + Duration::from_nanos(copied));
    }

    /// Processor time of all steps so far.
    pub(crate) const fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy)
    }

    /// Assigns a core to a step; if none is free, returns when the caller must ask again.
    /// `waited` is true if the step has already waited for a core.
    ///
    /// Awake cores come first, the most recently busy one before others. A sleeping core
    /// stays asleep if another is free before it could be awake: threads of a runtime find
    /// the tasks that one of them has made ready. A step waits for that only once, so that
    /// a queue wakes more cores.
    pub(crate) fn begin(&mut self, now: u64, waited: bool) -> Result<(), u64> {
        let cores = || self.free_at.iter().copied().zip(0..);
        let Some((soonest, _)) = cores().min() else {
            return Ok(());
        };
        let Some((free, core)) = cores().filter(|&(free, _)| free <= now).max() else {
            return Err(soonest);
        };
        let asleep = free.saturating_add(AWAKE) < now;
        let wake = if asleep { nanos(self.prices.wake) } else { 0 };
        let next = cores().map(|(free, _)| free).filter(|&free| free > now);
        if let Some(next) = next.min()
            && !waited
            && next.saturating_sub(now.max(self.awake_at)) < wake
        {
            return Err(next);
        }
        self.running = core;
        self.late = match waited && !asleep {
            true => (now - free).min(GRAIN),
            false => 0,
        };
        self.awake_at = now.saturating_add(wake);
        self.spend(self.prices.poll + Duration::from_nanos(wake));
        Ok(())
    }

    /// Nanoseconds of work that the running step still has to do before its next action.
    pub(crate) fn behind(&self) -> u64 {
        match self.free_at.is_empty() {
            true => 0,
            false => self.spent.saturating_sub(self.late),
        }
    }

    /// Records that a step has ended.
    pub(crate) fn occupy(&mut self, now: u64) {
        let spent = std::mem::take(&mut self.spent);
        self.busy = self.busy.saturating_add(spent);
        if let Some(core) = self.free_at.get_mut(self.running) {
            *core = now.saturating_sub(self.late).saturating_add(spent);
        }
    }
}
